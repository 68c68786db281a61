//! Server processes for tests.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A process that ends with the test.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Fails if the process has already ended, which the test reports itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a switch without a program on a free port, waits until it listens, and returns its address.
pub fn switch(device_id: &str, target_options: &[&str]) -> (Running, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .args(["switch", "--no-p4", "--device-id", device_id])
        .args(["--", "--grpc-server-addr", "127.0.0.1:0"])
        .args(target_options)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary was just built");
    let stdout = child.stdout.take().expect("it is a pipe");
    let switch = Running(child);
    let server = BufReader::new(stdout)
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("Server listening on ").map(str::to_owned));
    (switch, server.expect("the switch listens"))
}
