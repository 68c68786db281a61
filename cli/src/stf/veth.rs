//! A network namespace with a veth pair for each port.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::process::Command;

use alfirk_packet_io::{interface_index, PacketSocket, ReceiveBatch};

use crate::exit::Failure;

/// Minimum length in bytes of a frame on an Ethernet interface.
const SHORTEST: usize = 14;

/// The test's ends of the pairs.
pub struct VethPairs {
    sockets: BTreeMap<u32, PacketSocket>,
    batch: ReceiveBatch,
}

impl VethPairs {
    /// Moves this thread to a new namespace and creates the pairs.
    ///
    /// # Errors
    /// Root or `ip` of iproute2 is missing.
    pub fn new(ports: BTreeSet<u32>) -> Result<VethPairs, Failure> {
        // SAFETY: unshare takes no pointers.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } < 0 {
            return Err(Failure::failed(format_args!(
                "--switch needs root or CAP_SYS_ADMIN, to create a network namespace: {}; run it with sudo",
                io::Error::last_os_error()
            )));
        }
        ip("link set lo up")?;
        let mut sockets = BTreeMap::new();
        for port in ports {
            let (near, far) = (ours(port), theirs(port));
            ip(&format!("link add {near} type veth peer name {far}"))?;
            for end in [&near, &far] {
                // Disables IPv6, with which the kernel would send packets of its own. The file is missing on kernels without IPv6.
                let quiet = format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6");
                let _ = std::fs::write(quiet, "1");
                ip(&format!("link set {end} up"))?;
            }
            let socket = interface_index(&near)
                .and_then(PacketSocket::open)
                .map_err(|error| Failure::failed(format_args!("interface {near}: {error}")))?;
            sockets.insert(port, socket);
        }
        Ok(VethPairs {
            sockets,
            batch: ReceiveBatch::default(),
        })
    }

    /// Names of the switch's ends, with their ports.
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
                "cannot send a packet of {} bytes through an interface, which needs at least {SHORTEST}; run the test without --switch",
                frame.len()
            ));
        }
        let Some(socket) = self.sockets.get(&port) else {
            return Err(format!("port {port} has no interface"));
        };
        match socket.send(&[frame.to_vec()]) {
            Ok(sent) if sent.taken == 1 => Ok(()),
            Ok(_) => Err(format!(
                "the interface of port {port} did not accept the packet"
            )),
            Err(error) => Err(format!("port {port}: {error}")),
        }
    }

    /// Passes all received frames to `take`; returns whether there were any.
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
