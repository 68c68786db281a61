//! Switch processes with named pipes as ports, which need no root.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::serving::Running;

/// A switch that receives frames of two bytes at port 1, and sends them at port 2.
pub struct SwitchWithPipes {
    _process: Running,
    /// Address of the P4Runtime server.
    pub address: String,
    /// Port of the Thrift server, if there is one.
    pub thrift: Option<String>,
    /// Folder with the switch's files, in which it runs.
    pub folder: tempfile::TempDir,
    input: File,
}

impl SwitchWithPipes {
    /// Starts a switch with a program. `flags`, `target_flags`: further flags before and after the `--`.
    pub fn start(program: &Path, flags: &[&str], target_flags: &[&str]) -> SwitchWithPipes {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let path = |name: &str| folder.path().join(name);
        nix::unistd::mkfifo(
            &path("one_in.pcap"),
            nix::sys::stat::Mode::from_bits_truncate(0o600),
        )
        .expect("a pipe can be made");
        let header = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65535, 1].map(u32::to_le_bytes);
        std::fs::write(path("two_in.pcap"), header.concat()).expect("it can be written");
        let mut child = Command::new(env!("CARGO_BIN_EXE_alfirk"))
            .args(["switch", "--use-files", "0", "-i", "1@one", "-i", "2@two"])
            .args(flags)
            .arg(program)
            .args(["--", "--grpc-server-addr", "127.0.0.1:0"])
            .args(target_flags)
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary was just built");
        let stdout = child.stdout.take().expect("it is a pipe");
        let process = Running(child);
        let mut input = OpenOptions::new()
            .write(true)
            .open(path("one_in.pcap"))
            .expect("the switch reads it");
        input.write_all(&header.concat()).expect("the switch reads");
        let mut thrift = None;
        let address = BufReader::new(stdout)
            .lines()
            .map_while(Result::ok)
            .find_map(|line| {
                if let Some(address) = line.strip_prefix("Thrift server listening on ") {
                    thrift = address.rsplit(':').next().map(str::to_owned);
                }
                line.strip_prefix("Server listening on ").map(str::to_owned)
            });
        SwitchWithPipes {
            _process: process,
            address: address.expect("the switch listens"),
            thrift,
            folder,
            input,
        }
    }

    /// Returns the path of a file of the switch.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn receive(&mut self, frame: [u8; 2]) {
        let header = [0, 0, 2, 2].map(u32::to_le_bytes).concat();
        let bytes = [&header[..], &frame].concat();
        self.input.write_all(&bytes).expect("the switch reads");
    }

    /// Waits until port 2 has sent this number of frames, and returns all frames that it has sent.
    pub fn sent(&self, count: usize) -> Vec<[u8; 2]> {
        let limit = Instant::now() + Duration::from_secs(60);
        loop {
            let bytes = std::fs::read(self.path("two_out.pcap")).unwrap_or_default();
            let frames = bytes.get(24..).unwrap_or_default().chunks_exact(18);
            if frames.len() >= count {
                return frames.map(|frame| [frame[16], frame[17]]).collect();
            }
            assert!(Instant::now() < limit, "{count} frames are not sent");
            thread::sleep(Duration::from_millis(2));
        }
    }
}
