//! Our own RDMA stack on a packet socket.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;

use alfirk_bmv2::driver::packet_io::{
    interface_index, monotonic, wall_clock, PacketSocket, PcapFile, ReceiveBatch, Received, BATCH,
};
use alfirk_roce::host::Host;
use alfirk_roce::verbs::Verbs;
use alfirk_roce::wire::udp::{PORT_MRP, PORT_ROCE};

use super::protocol::Info;
use super::station::Station;
use crate::exit::{Failure, Outcome};

/// A host of `alfirk_roce` on an interface.
pub(super) struct PacketStation {
    host: Host,
    socket: PacketSocket,
    batch: ReceiveBatch,
    interface: String,
    pcap: Option<PcapFile>,
    /// Frames that the interface has not taken yet.
    unsent: Vec<Vec<u8>>,
    /// Keeps the kernel quiet about the ports.
    _ports: Vec<UdpSocket>,
}

impl PacketStation {
    pub(super) fn open(
        host: Host,
        interface: &str,
        pcap: Option<&Path>,
    ) -> Result<PacketStation, Failure> {
        let socket = interface_index(interface)
            .and_then(PacketSocket::open)
            .map_err(|error| {
                let hint = match error.kind() {
                    io::ErrorKind::PermissionDenied => {
                        " (packet sockets need root or CAP_NET_RAW: try sudo)"
                    }
                    _ => "",
                };
                Failure::failed(format_args!("interface {interface}: {error}{hint}"))
            })?;
        let pcap = match pcap {
            Some(path) => Some(PcapFile::create(path).map_err(|error| {
                Failure::bad_input(format_args!("--pcap {}: {error}", path.display()))
            })?),
            None => None,
        };
        Ok(PacketStation {
            host,
            socket,
            batch: ReceiveBatch::default(),
            interface: interface.to_owned(),
            pcap,
            unsent: Vec::new(),
            _ports: hold_ports(),
        })
    }

    fn capture(&mut self, frame: &[u8]) -> Outcome {
        match &mut self.pcap {
            Some(pcap) => pcap.write(wall_clock(), frame).map_err(no_capture),
            None => Ok(()),
        }
    }
}

impl Station for PacketStation {
    fn verbs(&self) -> &dyn Verbs {
        &self.host
    }

    fn verbs_mut(&mut self) -> &mut dyn Verbs {
        &mut self.host
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the socket is open as long as `self`.
        unsafe { BorrowedFd::borrow_raw(self.socket.as_raw_fd()) }
    }

    fn receive(&mut self) -> Outcome {
        let received = self
            .socket
            .receive(&mut self.batch)
            .map_err(|e| Failure::failed(format_args!("cannot receive: {e}")))?;
        let Received::Frames(count) = received else {
            return Ok(());
        };
        let now = monotonic();
        let (host, pcap) = (&mut self.host, &mut self.pcap);
        let mut result = Ok(());
        for index in 0..count {
            self.batch.frames(index, |frame| {
                if let Some(pcap) = pcap {
                    result = std::mem::replace(&mut result, Ok(()))
                        .and_then(|()| pcap.write(wall_clock(), frame));
                }
                host.handle_frame(now, frame);
            });
        }
        result.map_err(no_capture)
    }

    /// Sends one batch.
    fn transmit(&mut self) -> Result<bool, Failure> {
        let now = monotonic();
        while self.unsent.len() < BATCH {
            match self.host.poll_transmit(now) {
                Some(frame) => {
                    self.capture(&frame)?;
                    self.unsent.push(frame);
                }
                None => break,
            }
        }
        if self.unsent.is_empty() {
            return Ok(false);
        }
        let full = self.unsent.len() == BATCH;
        match self.socket.send(&self.unsent) {
            Ok(sent) => {
                self.unsent.drain(..sent.done);
            }
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOBUFS | libc::EINTR) => {}
                // Without carrier frames go where they go on a real cable.
                Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => self.unsent.clear(),
                _ => return Err(Failure::failed(format_args!("cannot send: {error}"))),
            },
        }
        Ok(full && self.unsent.is_empty())
    }

    fn is_stuck(&self) -> bool {
        !self.unsent.is_empty()
    }

    fn poll_timeout(&self) -> Option<u64> {
        self.host.poll_timeout()
    }

    fn handle_timeout(&mut self, now: u64) {
        self.host.handle_timeout(now);
    }

    fn interface(&self) -> &str {
        &self.interface
    }

    fn info(&self) -> Info {
        let config = self.host.config();
        Info {
            name: config.name.clone(),
            mac: config.mac,
            ip: config.ip,
            prefix_len: config.prefix_len,
            mtu: config.mtu,
            path_mtu: self.host.default_rc().mtu.into(),
            stats: self.host.stats(),
        }
    }

    fn finish(&mut self) -> Outcome {
        match &mut self.pcap {
            Some(pcap) => pcap.flush().map_err(no_capture),
            None => Ok(()),
        }
    }
}

fn no_capture(error: io::Error) -> Failure {
    Failure::failed(format_args!("cannot write the capture: {error}"))
}

/// Sockets that keep the kernel from answering packets for our ports with "port unreachable". Where another process has a
/// port already, the kernel is quiet about it anyway.
fn hold_ports() -> Vec<UdpSocket> {
    [PORT_ROCE, PORT_MRP]
        .into_iter()
        .filter_map(|port| {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).ok()?;
            // The smallest buffer there is: nobody reads.
            let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(1);
            Some(socket)
        })
        .collect()
}
