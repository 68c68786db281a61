//! Handles received frames.

use std::net::Ipv4Addr;

use alfirk_packet_io::frame::SplitFrame;

use super::frame::{self, Outer};
use super::split::Split;
use super::stats::DropReason;
use super::{Host, HostEvent, MAX_CONTROL_FRAMES};
use crate::icrc;
use crate::rc::RcPacket;
use crate::wire::{arp, bth, ethernet, icrc as trailer, ipv4, udp, MacAddr};

impl Host {
    /// Handles a received frame that may be in two parts: headers, and a shared payload with its trailer. The parts are
    /// copied together unless the frame is an RC packet that [`Split::read`] parses.
    pub(super) fn handle_split(&mut self, now: u64, frame: &SplitFrame) {
        let Some(split) = Split::read(frame) else {
            return self.handle_frame(now, &frame.bytes());
        };
        self.stats.rx_frames += 1;
        self.stats.rx_bytes += frame.len() as u64;
        let has_right_icrc = || split.has_right_icrc();
        let received = self.receive_parts(now, &split.outer, &split.packet, has_right_icrc);
        if let Err(reason) = received {
            self.stats.drops.count(reason);
        }
    }

    pub(super) fn receive(&mut self, now: u64, frame: &[u8]) -> Result<(), DropReason> {
        let ethernet = ethernet::View::new_checked(frame)?;
        let to = ethernet.destination();
        if !self.accepts_mac(to) {
            return Err(DropReason::NotForUs);
        }
        match ethernet.ethertype() {
            ethernet::ETHERTYPE_ARP => self.receive_arp(ethernet.payload()),
            ethernet::ETHERTYPE_IPV4 => self.receive_ipv4(now, ethernet.payload()),
            _ => Err(DropReason::NoListener),
        }
    }

    /// Whether the host accepts frames with destination MAC address `to`.
    fn accepts_mac(&self, to: MacAddr) -> bool {
        to == self.config.mac || to == MacAddr::BROADCAST || self.datagrams.accepts_mac(to)
    }

    /// Whether an IPv4 address is one of this host's.
    fn is_own(&self, to: Ipv4Addr) -> bool {
        to == self.config.ip || self.datagrams.is_attached(to)
    }

    fn receive_arp(&mut self, bytes: &[u8]) -> Result<(), DropReason> {
        let packet = arp::View::new_checked(bytes).and_then(|view| arp::Repr::parse(&view))?;
        if packet.target_ip != self.config.ip {
            // ARP requests are broadcast, so requests for other hosts are not errors.
            return Ok(());
        }
        if packet.sender_mac.is_multicast() {
            return Err(DropReason::Malformed);
        }
        match packet.operation {
            arp::Operation::Request => {
                if self.control.len() >= MAX_CONTROL_FRAMES {
                    return Err(DropReason::ArpOverload);
                }
                // An address probe (RFC 5227) has no sender address, and a sender outside the subnet is not recorded.
                let on_link = self.config.is_on_link(packet.sender_ip);
                if on_link && !packet.sender_ip.is_unspecified() {
                    self.neighbors.observe(packet.sender_ip, packet.sender_mac);
                }
                let reply = arp::Repr {
                    operation: arp::Operation::Reply,
                    sender_mac: self.config.mac,
                    sender_ip: self.config.ip,
                    target_mac: packet.sender_mac,
                    target_ip: packet.sender_ip,
                };
                self.control
                    .push_back(frame::arp(packet.sender_mac, &reply));
                self.send_resolved(packet.sender_ip, packet.sender_mac);
            }
            arp::Operation::Reply => {
                if self
                    .neighbors
                    .record_reply(packet.sender_ip, packet.sender_mac)
                {
                    self.send_resolved(packet.sender_ip, packet.sender_mac);
                }
            }
        }
        Ok(())
    }

    fn receive_ipv4(&mut self, now: u64, bytes: &[u8]) -> Result<(), DropReason> {
        let ip = ipv4::View::new_checked(bytes)?;
        if !self.is_own(ip.destination()) {
            return Err(DropReason::NotForUs);
        }
        ip.check_checksum().map_err(|_| DropReason::IpChecksum)?;
        let repr = ipv4::Repr::parse(&ip)?;
        if repr.protocol != ipv4::PROTOCOL_UDP {
            return Err(DropReason::NoListener);
        }
        let udp = udp::View::new_checked(ip.payload())?;
        if udp.payload().len() + udp::HEADER_LEN != ip.payload().len() {
            return Err(DropReason::Malformed);
        }
        match udp.destination_port() {
            udp::PORT_ROCE => self.receive_roce(now, &ip, &udp),
            port if self.udp_ports.contains(&port) => {
                self.events.push_back(HostEvent::Udp {
                    source: repr.source,
                    source_port: udp.source_port(),
                    destination_port: port,
                    payload: udp.payload().to_vec(),
                });
                Ok(())
            }
            _ => Err(DropReason::NoListener),
        }
    }

    /// Checks a RoCEv2 packet in the order of Linux rxe: queue pair, source address, partition key, ICRC.
    fn receive_roce(
        &mut self,
        now: u64,
        ip: &ipv4::View<'_>,
        udp: &udp::View<'_>,
    ) -> Result<(), DropReason> {
        let tail = trailer::View::new_checked(udp.payload())?;
        if bth::View::new_checked(tail.covered())?.opcode().has_deth() {
            return self.receive_datagram(ip, &tail);
        }
        let packet = RcPacket::parse(tail.covered())?;
        self.deliver(now, ip.source(), ip.tos(), &packet, || {
            check_icrc(ip, &tail)
        })
    }

    /// Handles a packet of a reliable connection, given by its outer headers, transport headers and payload.
    pub(super) fn receive_parts(
        &mut self,
        now: u64,
        outer: &Outer,
        packet: &RcPacket<'_>,
        has_right_icrc: impl FnOnce() -> bool,
    ) -> Result<(), DropReason> {
        let (to, ip) = (outer.ethernet.destination, &outer.ipv4);
        if !self.accepts_mac(to) || !self.is_own(ip.destination) {
            return Err(DropReason::NotForUs);
        }
        self.deliver(now, ip.source, ip.tos, packet, || {
            has_right_icrc().then_some(()).ok_or(DropReason::Icrc)
        })
    }

    /// Passes a packet to its queue pair, if its source is the remote address and `check` succeeds.
    pub(super) fn deliver(
        &mut self,
        now: u64,
        source: Ipv4Addr,
        tos: u8,
        packet: &RcPacket<'_>,
        check: impl FnOnce() -> Result<(), DropReason>,
    ) -> Result<(), DropReason> {
        let bth = &packet.headers.bth;
        let scheduled = self.qps.get_scheduled(bth.dest_qp);
        let scheduled = scheduled.ok_or(DropReason::UnknownQp)?;
        let qp = &mut scheduled.qp;
        let remote = qp.remote().ok_or(DropReason::UnknownQp)?;
        if remote.ip != source {
            return Err(DropReason::WrongSource);
        }
        if bth.pkey & 0x7fff != bth::DEFAULT_PKEY & 0x7fff {
            return Err(DropReason::WrongPkey);
        }
        check()?;
        qp.handle_packet(now, packet, &mut self.memory);
        if tos & ipv4::ECN_MASK == ipv4::ECN_CE {
            qp.handle_mark(now, packet);
        }
        scheduled.settle(&mut self.events, &mut self.deadlines, &mut self.arbiter);
        Ok(())
    }
}

pub(super) fn check_icrc(ip: &ipv4::View<'_>, tail: &trailer::View<'_>) -> Result<(), DropReason> {
    let covered = ip.header_len() + udp::HEADER_LEN + tail.covered().len();
    let bytes = ip.whole().get(..covered).ok_or(DropReason::Malformed)?;
    match ip.header_len() == ipv4::HEADER_LEN && icrc::compute(bytes) == Ok(tail.icrc()) {
        true => Ok(()),
        false => Err(DropReason::Icrc),
    }
}
