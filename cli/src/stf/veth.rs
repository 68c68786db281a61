//! Creates a network namespace with a veth pair for each port of the switch under test.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::process::Command;

use alfirk_packet_io::{interface_index, PacketSocket, ReceiveBatch};

use crate::exit::Failure;

/// Minimum length in bytes of a frame on an Ethernet interface.
const MIN_FRAME_LEN: usize = 14;

/// The test's ends of the veth pairs, by port of the switch.
pub struct VethPairs {
    sockets: BTreeMap<u32, PacketSocket>,
    batch: ReceiveBatch,
}

impl VethPairs {
    /// Moves the calling thread to a new network namespace and creates a veth pair for each port.
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
            let (near, far) = (test_end(port), switch_end(port));
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

    /// Ports of the switch, each with the name of the switch's end of its pair.
    pub fn interfaces(&self) -> Vec<(u32, String)> {
        self.sockets
            .keys()
            .map(|port| (*port, switch_end(*port)))
            .collect()
    }

    /// Sends a frame to the switch through a port.
    pub fn send(&self, port: u32, frame: &[u8]) -> Result<(), String> {
        if frame.len() < MIN_FRAME_LEN {
            return Err(format!(
                "cannot send a packet of {} bytes through an interface, which needs at least {MIN_FRAME_LEN}; run the test without --switch",
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

    /// Passes all frames that the switch has sent to `take`, with their ports; returns whether there were any.
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

/// Name of the test's end of a port's pair.
fn test_end(port: u32) -> String {
    format!("t{port}")
}

/// Name of the switch's end of a port's pair.
fn switch_end(port: u32) -> String {
    format!("s{port}")
}

/// Runs the command `ip` with the arguments `line`.
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
