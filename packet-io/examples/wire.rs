//! Forwards frames between two network interfaces: waits for frames in the ring of one interface's socket, takes them
//! from it, and sends them to the other interface.
//!
//! A benchmark compares it with a Linux bridge: the difference is the wake-up of a process and its system calls.
//! `make bench` runs `cargo run --release -p alfirk-packet-io --features driver --example wire -- eth1 eth2` as
//! root.

use alfirk_packet_io::{interface_index, PacketSocket, Poller, ReceiveBatch};
use std::{io, process::ExitCode};

/// Length of a socket's receive ring in bytes.
const RING: usize = 1 << 20;

/// Forwards each port's frames to the other port. Returns only on an error.
fn join(ports: &mut [PacketSocket; 2]) -> io::Result<()> {
    let mut poller = Poller::new()?;
    for (port, token) in ports.iter().zip(0..) {
        poller.add(port, token)?;
    }
    let mut batch = ReceiveBatch::default();
    let (mut ready, mut frames) = (Vec::new(), Vec::new());
    loop {
        poller.wait(None, &mut ready)?;
        for from in ready.iter().map(|token| *token as usize) {
            while ports[from]
                .take(&mut batch, |frame| frames.push(frame.to_vec()))?
                .is_frame()
            {}
            ports[1 - from].send(&frames)?;
            frames.clear();
        }
    }
}

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let [first, second] = names.as_slice() else {
        eprintln!("usage: wire INTERFACE INTERFACE");
        return ExitCode::from(2);
    };
    let open = |name: &String| PacketSocket::with_ring(interface_index(name)?, RING);
    let joined = open(first).and_then(|first| Ok([first, open(second)?]));
    match joined.and_then(|mut ports| join(&mut ports)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wire: {first} and {second}: {error}");
            ExitCode::FAILURE
        }
    }
}
