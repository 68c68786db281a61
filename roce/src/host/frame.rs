//! Builds frames from headers and payload.

use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_packet_io::frame::{SharedBytes, SplitFrame, Tail};

use super::packet::{Packet, RcFrame};
use crate::icrc;
use crate::rc::{MemoryError, MemoryTable, OutgoingPacket, RcHeaders};
use crate::ud::UdHeaders;
use crate::wire::{arp, ethernet, icrc as trailer, ipv4, udp, MacAddr};

/// Addresses, ports and IPv4 fields of a datagram to send.
pub(super) struct Envelope {
    pub(super) source_mac: MacAddr,
    pub(super) destination_mac: MacAddr,
    pub(super) source: Ipv4Addr,
    pub(super) destination: Ipv4Addr,
    pub(super) identification: u16,
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
    /// IPv4 type of service: DSCP, and ECN in the low two bits.
    pub(super) tos: u8,
}

/// The transport headers of a RoCEv2 packet.
pub(super) trait Headers {
    /// Length of the headers in bytes.
    fn len(&self) -> usize;
    /// Bytes of padding after the payload.
    fn pad(&self) -> usize;
    /// Writes the headers to the first [`Headers::len`] bytes of `buffer`; panics if it is shorter.
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

/// Representation in which the host returns a queue pair's packet: as bytes, or in a form for simulators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PacketForm {
    /// One contiguous frame.
    Whole,
    /// Headers as bytes, a long payload by reference.
    Split,
    /// Headers as fields, the payload by reference (for simulators).
    Fields,
}

/// Payloads shorter than this number of bytes are copied, which is as fast as a reference.
const MIN_TAIL: usize = 256;

const UDP_PAYLOAD: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN + udp::HEADER_LEN;

impl Envelope {
    /// Ethernet, IPv4 and UDP headers for `len` bytes of UDP payload.
    pub(super) fn headers(&self, len: usize) -> Outer {
        Outer {
            ethernet: ethernet::Repr {
                destination: self.destination_mac,
                source: self.source_mac,
                ethertype: ethernet::ETHERTYPE_IPV4,
            },
            ipv4: ipv4::Repr {
                tos: self.tos,
                payload_len: (udp::HEADER_LEN + len) as u16,
                identification: self.identification,
                dont_fragment: true,
                ttl: 64,
                protocol: ipv4::PROTOCOL_UDP,
                source: self.source,
                destination: self.destination,
            },
            udp: udp::Repr {
                source_port: self.source_port,
                destination_port: self.destination_port,
                payload_len: len as u16,
            },
        }
    }

    /// Builds the frame of a UDP datagram.
    pub(super) fn datagram(&self, payload: &[u8]) -> Vec<u8> {
        let mut frame = self.headers(payload.len()).frame();
        frame[UDP_PAYLOAD..].copy_from_slice(payload);
        frame
    }

    /// Builds a packet of a queue pair.
    pub(super) fn packet(
        &self,
        outgoing: &OutgoingPacket,
        memory: &MemoryTable,
        form: PacketForm,
    ) -> Result<Packet, MemoryError> {
        let headers = outgoing.headers;
        let len = outgoing.payload.as_ref().map_or(0, |(_, _, len)| *len);
        if form == PacketForm::Whole || (form == PacketForm::Split && len < MIN_TAIL) {
            let payload = match &outgoing.payload {
                None => &[][..],
                Some((payload, offset, len)) => payload.read(memory, *offset, *len as u64)?,
            };
            return Ok(self.roce(&headers, payload).into());
        }
        let payload = match &outgoing.payload {
            None => SharedBytes::default(),
            Some((payload, offset, len)) => payload.share(memory, *offset, *len as u64)?,
        };
        let outer = self.headers(roce_len(&headers, payload.len()));
        if form == PacketForm::Split {
            return Ok(outer.split(&headers, payload).into());
        }
        Ok(Packet::Rc(Arc::new(RcFrame {
            outer,
            headers,
            payload,
            place: None,
        })))
    }

    /// Builds the frame of a RoCEv2 packet with padding and ICRC.
    pub(super) fn roce(&self, headers: &impl Headers, payload: &[u8]) -> Vec<u8> {
        let len = roce_len(headers, payload.len());
        self.headers(len).roce(headers, payload)
    }
}

/// Length of the UDP payload of a RoCEv2 packet, in bytes.
pub(super) fn roce_len(headers: &impl Headers, payload: usize) -> usize {
    headers.len() + payload + headers.pad() + trailer::TRAILER_LEN
}

/// Ethernet, IPv4 and UDP headers in front of a UDP payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outer {
    /// Ethernet header.
    pub ethernet: ethernet::Repr,
    /// IPv4 header.
    pub ipv4: ipv4::Repr,
    /// UDP header.
    pub udp: udp::Repr,
}

impl Outer {
    /// Length of the frame in bytes, without the frame check sequence.
    pub(super) fn frame_len(&self) -> usize {
        UDP_PAYLOAD + usize::from(self.udp.payload_len)
    }

    /// Creates a frame of the length in the headers, with the headers written. The UDP payload begins at
    /// [`UDP_PAYLOAD`].
    fn frame(&self) -> Vec<u8> {
        self.front(self.frame_len())
    }

    /// Creates the first `len` bytes of the frame, with the headers written.
    fn front(&self, len: usize) -> Vec<u8> {
        let mut frame = vec![0; len];
        self.ethernet.emit(&mut frame);
        self.ipv4.emit(&mut frame[ethernet::HEADER_LEN..]);
        self.udp
            .emit(&mut frame[ethernet::HEADER_LEN + ipv4::HEADER_LEN..]);
        frame
    }

    /// Builds the frame of a RoCEv2 packet in two parts: the headers, and a body that holds the shared payload, the
    /// padding and the ICRC.
    fn split(&self, headers: &impl Headers, payload: SharedBytes) -> SplitFrame {
        let mut head = self.front(UDP_PAYLOAD + headers.len());
        headers.emit(&mut head[UDP_PAYLOAD..]);
        let tail = Tail::new(payload);
        let mut end = [0; Tail::MAX_END];
        let (end, padding) = (
            &mut end[..headers.pad() + trailer::TRAILER_LEN],
            headers.pad(),
        );
        let covered = &head[ethernet::HEADER_LEN..];
        let icrc = icrc::compute_split(covered, &tail, &end[..padding]);
        let icrc = icrc.expect("the head holds IPv4, UDP and base transport header");
        trailer::Repr { icrc }.emit(&mut end[padding..]);
        SplitFrame::new(head, Some(Arc::new(tail.with_end(end))))
    }

    /// Builds the frame of a RoCEv2 packet with padding and ICRC. The lengths in the headers must match the packet.
    pub(super) fn roce(&self, headers: &impl Headers, payload: &[u8]) -> Vec<u8> {
        let mut frame = self.frame();
        let end = frame.len() - trailer::TRAILER_LEN;
        headers.emit(&mut frame[UDP_PAYLOAD..]);
        let at = UDP_PAYLOAD + headers.len();
        frame[at..at + payload.len()].copy_from_slice(payload);
        let icrc = icrc::compute(&frame[ethernet::HEADER_LEN..end])
            .expect("the frame holds IPv4, UDP and base transport header");
        trailer::Repr { icrc }.emit(&mut frame[end..]);
        frame
    }
}

/// Builds the frame of an ARP packet to `destination`.
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
