//! A host with the RDMA stack of `alfirk_roce`, which sends and receives through a packet socket.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use alfirk_packet_io::{
    interface_index, wall_clock, Clock, PacketSocket, PcapFile, ReceiveBatch, BATCH,
};
use alfirk_roce::host::{Host, HostEvent};
use alfirk_roce::verbs::Verbs;
use alfirk_roce::wire::udp::{PORT_MRP, PORT_ROCE};

use super::emulation::HostEmulation;
use super::protocol::Info;
use super::station::Station;
use crate::exit::{Failure, Outcome};

/// A host of `alfirk_roce` on a network interface.
pub(super) struct PacketStation {
    host: Host,
    socket: PacketSocket,
    batch: ReceiveBatch,
    interface: String,
    pcap: Option<PcapFile>,
    clock: Clock,
    /// Emulation of NIC, link and application; `None` if no flag enables it.
    emulation: Option<HostEmulation>,
    /// Frames that the interface has not accepted yet.
    unsent: Vec<Vec<u8>>,
    /// Sockets bound to the UDP ports of RoCEv2 and registration, so that the kernel does not reply with "port
    /// unreachable".
    _ports: Vec<UdpSocket>,
}

impl PacketStation {
    /// Opens a packet socket on the interface, and the capture file if `pcap` is given.
    pub(super) fn open(
        host: Host,
        interface: &str,
        pcap: Option<&Path>,
        clock: Clock,
        emulation: Option<HostEmulation>,
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
            clock,
            emulation,
            unsent: Vec::new(),
            _ports: bind_ports(),
        })
    }

    fn capture(&mut self, frame: &[u8]) -> Outcome {
        match &mut self.pcap {
            Some(pcap) => pcap.write(wall_clock(), frame).map_err(capture_failure),
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
        self.socket.as_fd()
    }

    fn receive(&mut self) -> Outcome {
        let now = self.clock.now();
        let (host, emulation, pcap) = (&mut self.host, &mut self.emulation, &mut self.pcap);
        let mut result = Ok(());
        for _ in 0..BATCH {
            let taken = self.socket.take(&mut self.batch, |frame| {
                if let Some(pcap) = pcap {
                    result = std::mem::replace(&mut result, Ok(()))
                        .and_then(|()| pcap.write(wall_clock(), frame));
                }
                match emulation {
                    Some(emulation) => emulation.receive_frame(now, frame),
                    None => host.handle_frame(now, frame),
                }
            });
            let taken = taken.map_err(|e| Failure::failed(format_args!("cannot receive: {e}")))?;
            if !taken.is_frame() {
                break;
            }
        }
        result.map_err(capture_failure)
    }

    /// Sends one batch of pending frames; returns whether more can be sent immediately.
    fn transmit(&mut self) -> Result<bool, Failure> {
        let now = self.clock.now();
        if let Some(emulation) = &mut self.emulation {
            emulation.advance(&mut self.host, now);
        }
        while self.unsent.len() < BATCH {
            let next = match &mut self.emulation {
                Some(emulation) => emulation.next_sent_frame(now),
                None => self.host.poll_transmit(now),
            };
            match next {
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
                // Without a carrier, frames are lost as on a real cable.
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
        let emulation = self
            .emulation
            .as_ref()
            .and_then(HostEmulation::poll_timeout);
        self.host.poll_timeout().into_iter().chain(emulation).min()
    }

    fn handle_timeout(&mut self, now: u64) {
        match &mut self.emulation {
            Some(emulation) => emulation.advance(&mut self.host, now),
            None => self.host.handle_timeout(now),
        }
    }

    fn poll_event(&mut self, now: u64) -> Option<(u64, HostEvent)> {
        match &mut self.emulation {
            Some(emulation) => {
                // The frames of the previous event's handling leave before the next event is delivered.
                emulation.advance(&mut self.host, now);
                emulation.next_event(now)
            }
            None => self.host.poll_event().map(|event| (now, event)),
        }
    }

    fn advance_clock(&mut self, now: u64) {
        if let Some(emulation) = &mut self.emulation {
            emulation.advance_clock(now);
        }
    }

    fn post_delay(&self, bytes: u64) -> u64 {
        self.emulation
            .as_ref()
            .map_or(0, |emulation| emulation.post_delay(bytes))
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
            Some(pcap) => pcap.flush().map_err(capture_failure),
            None => Ok(()),
        }
    }
}

fn capture_failure(error: io::Error) -> Failure {
    Failure::failed(format_args!("cannot write the capture: {error}"))
}

/// Binds sockets to the UDP ports of RoCEv2 and registration, so that the kernel does not reply with "port
/// unreachable". A port that another process holds is skipped.
fn bind_ports() -> Vec<UdpSocket> {
    [PORT_ROCE, PORT_MRP]
        .into_iter()
        .filter_map(|port| {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).ok()?;
            // The smallest buffer possible: the socket is never read.
            let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(1);
            Some(socket)
        })
        .collect()
}
