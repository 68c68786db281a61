//! Frames from parts.

use std::net::Ipv4Addr;

use crate::icrc;
use crate::rc::RcHeaders;
use crate::ud::UdHeaders;
use crate::wire::{arp, ethernet, icrc as trailer, ipv4, udp, MacAddr};

/// Addresses and ports of a datagram.
pub(super) struct Envelope {
    pub(super) source_mac: MacAddr,
    pub(super) destination_mac: MacAddr,
    pub(super) source: Ipv4Addr,
    pub(super) destination: Ipv4Addr,
    pub(super) identification: u16,
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
    /// Type of service; ECN in its low two bits.
    pub(super) tos: u8,
}

/// The transport headers of a packet.
pub(super) trait Headers {
    /// Their length in bytes.
    fn len(&self) -> usize;
    /// Bytes of padding behind the payload.
    fn pad(&self) -> usize;
    /// Writes them to the first [`Headers::len`] bytes of `buffer`, which must hold them.
    fn emit(&self, buffer: &mut [u8]);
}

impl Headers for RcHeaders {
    fn len(&self) -> usize {
        self.len()
    }

    fn pad(&self) -> usize {
        self.bth.pad_count.into()
    }

    fn emit(&self, buffer: &mut [u8]) {
        self.emit(buffer);
    }
}

impl Headers for UdHeaders {
    fn len(&self) -> usize {
        self.len()
    }

    fn pad(&self) -> usize {
        self.bth.pad_count.into()
    }

    fn emit(&self, buffer: &mut [u8]) {
        self.emit(buffer);
    }
}

const UDP_PAYLOAD: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN + udp::HEADER_LEN;

impl Envelope {
    /// A frame with room for `len` bytes of UDP payload, which begin at [`UDP_PAYLOAD`].
    fn frame(&self, len: usize) -> Vec<u8> {
        let mut frame = vec![0; UDP_PAYLOAD + len];
        ethernet::Repr {
            destination: self.destination_mac,
            source: self.source_mac,
            ethertype: ethernet::ETHERTYPE_IPV4,
        }
        .emit(&mut frame);
        ipv4::Repr {
            tos: self.tos,
            payload_len: (udp::HEADER_LEN + len) as u16,
            identification: self.identification,
            dont_fragment: true,
            ttl: 64,
            protocol: ipv4::PROTOCOL_UDP,
            source: self.source,
            destination: self.destination,
        }
        .emit(&mut frame[ethernet::HEADER_LEN..]);
        udp::Repr {
            source_port: self.source_port,
            destination_port: self.destination_port,
            payload_len: len as u16,
        }
        .emit(&mut frame[ethernet::HEADER_LEN + ipv4::HEADER_LEN..]);
        frame
    }

    /// A UDP datagram.
    pub(super) fn datagram(&self, payload: &[u8]) -> Vec<u8> {
        let mut frame = self.frame(payload.len());
        frame[UDP_PAYLOAD..].copy_from_slice(payload);
        frame
    }

    /// A RoCEv2 packet with padding and ICRC.
    pub(super) fn roce(&self, headers: &impl Headers, payload: &[u8]) -> Vec<u8> {
        let body = headers.len() + payload.len() + headers.pad();
        let mut frame = self.frame(body + trailer::TRAILER_LEN);
        let end = UDP_PAYLOAD + body;
        headers.emit(&mut frame[UDP_PAYLOAD..]);
        let at = UDP_PAYLOAD + headers.len();
        frame[at..at + payload.len()].copy_from_slice(payload);
        let icrc = icrc::compute(&frame[ethernet::HEADER_LEN..end])
            .expect("the frame holds IPv4, UDP and base transport header");
        trailer::Repr { icrc }.emit(&mut frame[end..]);
        frame
    }
}

/// An ARP packet in a frame to `destination`.
pub(super) fn arp(destination: MacAddr, packet: &arp::Repr) -> Vec<u8> {
    let mut frame = vec![0; ethernet::HEADER_LEN + arp::PACKET_LEN];
    ethernet::Repr {
        destination,
        source: packet.sender_mac,
        ethertype: ethernet::ETHERTYPE_ARP,
    }
    .emit(&mut frame);
    packet.emit(&mut frame[ethernet::HEADER_LEN..]);
    frame
}
