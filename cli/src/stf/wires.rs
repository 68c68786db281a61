//! A network namespace of our own, with a veth pair for each port.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::process::Command;

use alfirk_packet_io::{interface_index, PacketSocket, ReceiveBatch};

use crate::exit::Failure;

/// Bytes that every frame on an Ethernet interface has.
const SHORTEST: usize = 14;

/// Our ends of the pairs.
pub struct Wires {
    sockets: BTreeMap<u32, PacketSocket>,
    batch: ReceiveBatch,
}

impl Wires {
    /// Moves this thread into a fresh namespace and makes the pairs.
    ///
    /// # Errors
    /// Without root, or without `ip` of iproute2.
    pub fn new(ports: BTreeSet<u32>) -> Result<Wires, Failure> {
        // SAFETY: unshare takes no pointers.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } < 0 {
            return Err(Failure::failed(format_args!(
                "--switch needs a network namespace with veth pairs, and so root or CAP_SYS_ADMIN: {}; try sudo",
                io::Error::last_os_error()
            )));
        }
        ip("link set lo up")?;
        let mut sockets = BTreeMap::new();
        for port in ports {
            let (near, far) = (ours(port), theirs(port));
            ip(&format!("link add {near} type veth peer name {far}"))?;
            for end in [&near, &far] {
                // The kernel would send packets of its own. Where there is no IPv6 it does not.
                let quiet = format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6");
                let _ = std::fs::write(quiet, "1");
                ip(&format!("link set {end} up"))?;
            }
            let socket = interface_index(&near)
                .and_then(PacketSocket::open)
                .map_err(|error| Failure::failed(format_args!("interface {near}: {error}")))?;
            sockets.insert(port, socket);
        }
        Ok(Wires {
            sockets,
            batch: ReceiveBatch::default(),
        })
    }

    /// The switch's ends.
    pub fn interfaces(&self) -> Vec<(u32, String)> {
        self.sockets
            .keys()
            .map(|port| (*port, theirs(*port)))
            .collect()
    }

    /// Sends a frame into a port.
    pub fn send(&self, port: u32, frame: &[u8]) -> Result<(), String> {
        if frame.len() < SHORTEST {
            return Err(format!(
                "an interface takes no packet of {} bytes, only from {SHORTEST} on; run the test without --switch",
                frame.len()
            ));
        }
        let Some(socket) = self.sockets.get(&port) else {
            return Err(format!("port {port} has no interface"));
        };
        match socket.send(&[frame.to_vec()]) {
            Ok(sent) if sent.taken == 1 => Ok(()),
            Ok(_) => Err(format!("the interface of port {port} took no packet")),
            Err(error) => Err(format!("port {port}: {error}")),
        }
    }

    /// Takes all that has come out. Whether there was something.
    pub fn receive(&mut self, mut take: impl FnMut(u32, &[u8])) -> Result<bool, Failure> {
        let mut any = false;
        for (port, socket) in &mut self.sockets {
            self.batch.clear();
            loop {
                let taken = socket
                    .take(&mut self.batch, |frame| take(*port, frame))
                    .map_err(|error| Failure::failed(format_args!("port {port}: {error}")))?;
                if !taken.is_frame() {
                    break;
                }
                any = true;
            }
        }
        Ok(any)
    }
}

fn ours(port: u32) -> String {
    format!("t{port}")
}

fn theirs(port: u32) -> String {
    format!("s{port}")
}

/// Runs `ip`.
fn ip(line: &str) -> Result<(), Failure> {
    let output = Command::new("ip")
        .args(line.split_whitespace())
        .output()
        .map_err(|error| {
            Failure::failed(format_args!(
                "cannot run ip: {error}; install iproute2, or run the test without --switch"
            ))
        })?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Failure::failed(format_args!(
            "ip {line}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ))),
    }
}
