//! Joins two interfaces, and does no more: it sleeps until frames are in the ring of a socket, takes them, and sends them.
//! What a round trip through it costs above a Linux bridge is the waking of a process, and the kernel's calls.
//!
//! `cargo run --release -p alfirk-packet-io --features driver --example wire -- eth1 eth2`, as root; `make bench` does it.

use alfirk_packet_io::{interface_index, PacketSocket, Poller, ReceiveBatch};
use std::{io, os::fd::AsRawFd, process::ExitCode};

/// Bytes of a socket's ring.
const RING: usize = 1 << 20;

/// Frames that come in at `ports[i]` leave by the other one. Returns on an error only.
fn join(ports: &mut [PacketSocket; 2]) -> io::Result<()> {
    let mut poller = Poller::new()?;
    for (port, token) in ports.iter().zip(0..) {
        poller.add(port.as_raw_fd(), token)?;
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
        eprintln!("wire: give the names of two interfaces");
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
