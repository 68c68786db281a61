//! Packet formats of the protocol. Segments of messages and management are datagrams; other packets are sent over
//! connections.
//!
//! Every packet begins with 28 bytes, big-endian: kind (1), three zeros, version of the list of members (4), number of
//! the root (4), the root's message number (4), length of the whole message in bytes (8), and index of the segment in
//! it (4). All segments but the last have the same length.

use std::net::Ipv4Addr;

use super::membership::{Member, Membership};
use crate::wire::{Header, Psn, QpNum, Reason, WireError};

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 28;

/// Identifies a message of a multicast group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// Communication number of the member that multicasts the message.
    pub root: u32,
    /// Sequence number of the message among all messages of that member, from 0.
    pub message: u32,
}

/// Kind of a packet, with the data that only this kind has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body<'a> {
    /// A segment of the message, sent by multicast.
    Segment {
        /// Index of the segment in the message.
        place: u32,
        /// Bytes of the segment.
        bytes: &'a [u8],
    },
    /// The whole message, sent to one node that lacks it.
    Content {
        /// Bytes of the message.
        bytes: &'a [u8],
    },
    /// An acknowledgement: the sender and all members of its subtree have the message.
    Ack,
    /// A request for the message, to a node that has it.
    Request,
    /// A notice that all members have the message, so that it will not be requested again.
    Release,
}

/// A packet about one message: a segment, a repair, an acknowledgement, a request or a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Root and number of the message.
    pub id: MessageId,
    /// Version of the list of members that defines the message's acknowledgement tree.
    pub version: u32,
    /// Length of the whole message in bytes.
    pub len: u64,
    /// Kind of the packet, with the data that only this kind has.
    pub body: Body<'a>,
}

impl<'a> Packet<'a> {
    /// Parses a packet. Fails if its fields contradict each other.
    pub fn parse(packet: &'a [u8]) -> Result<Packet<'a>, WireError> {
        crate::wire::need(Header::BinomialAck, packet, HEADER_LEN)?;
        let (head, bytes) = packet.split_at(HEADER_LEN);
        let word =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let len = u64::from(word(16)) << 32 | u64::from(word(20));
        let bad = |field, value: usize| WireError {
            header: Header::BinomialAck,
            reason: Reason::BadLength { field, value },
        };
        let empty = |body| match bytes.is_empty() {
            true => Ok(body),
            false => Err(bad("payload", bytes.len())),
        };
        let body = match head[0] {
            0 if bytes.len() as u64 > len => return Err(bad("segment", bytes.len())),
            0 => Body::Segment {
                place: word(24),
                bytes,
            },
            1 if bytes.len() as u64 != len => return Err(bad("content", bytes.len())),
            1 => Body::Content { bytes },
            2 => empty(Body::Ack)?,
            3 => empty(Body::Request)?,
            4 => empty(Body::Release)?,
            kind => {
                return Err(WireError::bad_field(
                    Header::BinomialAck,
                    "kind",
                    kind.into(),
                ));
            }
        };
        Ok(Packet {
            id: MessageId {
                root: word(8),
                message: word(12),
            },
            version: word(4),
            len,
            body,
        })
    }

    /// Encodes the packet.
    pub fn emit(&self) -> Vec<u8> {
        let (kind, place, bytes): (u8, u32, &[u8]) = match self.body {
            Body::Segment { place, bytes } => (0, place, bytes),
            Body::Content { bytes } => (1, 0, bytes),
            Body::Ack => (2, 0, &[]),
            Body::Request => (3, 0, &[]),
            Body::Release => (4, 0, &[]),
        };
        let mut out = Vec::with_capacity(HEADER_LEN + bytes.len());
        out.extend([kind, 0, 0, 0]);
        out.extend(self.version.to_be_bytes());
        out.extend(self.id.root.to_be_bytes());
        out.extend(self.id.message.to_be_bytes());
        out.extend(self.len.to_be_bytes());
        out.extend(place.to_be_bytes());
        out.extend(bytes);
        out
    }
}

/// First byte of an encoded list of members. It differs from the kinds of other packets, which are also in the first
/// byte.
const LIST: u8 = 5;
/// Length in bytes of the header of an encoded list of members: kind (1), three zeros, version (4), number of members
/// (4).
const LIST_HEADER_LEN: usize = 12;
/// Length in bytes of one member in an encoded list: number (4), IPv4 address (4), queue pair (4).
const MEMBER_LEN: usize = 12;

impl Membership {
    /// Length in bytes of an encoded list of `members` members.
    pub(super) const fn wire_len(members: u32) -> u64 {
        LIST_HEADER_LEN as u64 + MEMBER_LEN as u64 * members as u64
    }

    /// The bytes of the list as the manager sends it over connections, big-endian.
    pub(super) fn emit(&self) -> Vec<u8> {
        let mut out = vec![LIST, 0, 0, 0];
        out.extend(self.version.to_be_bytes());
        out.extend((self.members.len() as u32).to_be_bytes());
        for member in &self.members {
            out.extend(member.number.to_be_bytes());
            out.extend(member.ip.octets());
            out.extend(member.qpn.get().to_be_bytes());
        }
        out
    }

    /// Parses a list; `None` if it is invalid or its members are not ordered by number.
    pub(super) fn parse(bytes: &[u8]) -> Option<Membership> {
        let (head, rest) = bytes.split_first_chunk::<LIST_HEADER_LEN>()?;
        let word = |bytes: &[u8]| Some(u32::from_be_bytes(bytes.try_into().ok()?));
        let count = word(&head[8..])? as usize;
        if head[0] != LIST || rest.len() != count.checked_mul(MEMBER_LEN)? {
            return None;
        }
        let member = |bytes: &[u8]| {
            Some(Member {
                number: word(&bytes[..4])?,
                ip: Ipv4Addr::from(word(&bytes[4..8])?),
                qpn: QpNum::new(word(&bytes[8..])?),
            })
        };
        let members: Option<Vec<Member>> = rest.chunks_exact(MEMBER_LEN).map(member).collect();
        let members = members?;
        let is_sorted = members
            .windows(2)
            .all(|pair| pair[0].number < pair[1].number);
        is_sorted.then_some(Membership {
            version: word(&head[4..8])?,
            members,
        })
    }
}

/// Management datagram about connections or membership: kind (1 byte, from 16), three zeros, and numbers of four bytes
/// each, big-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ManagementDatagram {
    /// Connection request: the sender's queue pair and its first PSN.
    Request { qpn: QpNum, psn: Psn },
    /// Reply to the connection request of queue pair `of`.
    Reply { of: QpNum, qpn: QpNum, psn: Psn },
    /// Notice that the sender's queue pair is destroyed.
    Disconnect { qpn: QpNum },
    /// To the manager: request to be added to the next list.
    Join,
    /// To the manager: request to be removed from the list.
    Leave,
    /// To the manager: report that no packets arrive from this member.
    Suspect { number: u32 },
    /// From the manager: request for a [`ManagementDatagram::Alive`].
    Probe,
    /// Notice that the sender is alive.
    Alive,
}

impl ManagementDatagram {
    /// Parses a management datagram; `None` for any other.
    pub(super) fn parse(bytes: &[u8]) -> Option<ManagementDatagram> {
        let (head, rest) = bytes.split_first_chunk::<4>()?;
        let number = |at: usize| {
            let word = rest.get(4 * at..4 * at + 4)?.try_into().ok()?;
            Some(u32::from_be_bytes(word))
        };
        let words = match head[0] {
            16 => 2,
            17 => 3,
            18 => 1,
            21 => 1,
            19 | 20 | 22 | 23 => 0,
            _ => return None,
        };
        if rest.len() != 4 * words {
            return None;
        }
        Some(match head[0] {
            16 => ManagementDatagram::Request {
                qpn: QpNum::new(number(0)?),
                psn: Psn::new(number(1)?),
            },
            17 => ManagementDatagram::Reply {
                of: QpNum::new(number(0)?),
                qpn: QpNum::new(number(1)?),
                psn: Psn::new(number(2)?),
            },
            18 => ManagementDatagram::Disconnect {
                qpn: QpNum::new(number(0)?),
            },
            19 => ManagementDatagram::Join,
            20 => ManagementDatagram::Leave,
            21 => ManagementDatagram::Suspect { number: number(0)? },
            22 => ManagementDatagram::Probe,
            _ => ManagementDatagram::Alive,
        })
    }

    /// Encodes the datagram.
    pub(super) fn emit(self) -> Vec<u8> {
        let (kind, words): (u8, Vec<u32>) = match self {
            ManagementDatagram::Request { qpn, psn } => (16, vec![qpn.get(), psn.get()]),
            ManagementDatagram::Reply { of, qpn, psn } => {
                (17, vec![of.get(), qpn.get(), psn.get()])
            }
            ManagementDatagram::Disconnect { qpn } => (18, vec![qpn.get()]),
            ManagementDatagram::Join => (19, Vec::new()),
            ManagementDatagram::Leave => (20, Vec::new()),
            ManagementDatagram::Suspect { number } => (21, vec![number]),
            ManagementDatagram::Probe => (22, Vec::new()),
            ManagementDatagram::Alive => (23, Vec::new()),
        };
        let words = words.into_iter().flat_map(u32::to_be_bytes);
        [kind, 0, 0, 0].into_iter().chain(words).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::rejects_every_shorter_prefix;
    use proptest::prelude::*;

    fn packet(body: Body<'_>, len: u64) -> Packet<'_> {
        Packet {
            id: MessageId {
                root: 0x0102_0304,
                message: 5,
            },
            version: 7,
            len,
            body,
        }
    }

    #[test]
    fn a_segment_has_the_documented_layout() {
        let body = Body::Segment {
            place: 2,
            bytes: b"ab",
        };
        let bytes = packet(body, 10).emit();
        let expected = [
            &[0, 0, 0, 0, 0, 0, 0, 7, 1, 2, 3, 4, 0, 0, 0, 5][..],
            &[0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 2],
            b"ab",
        ];
        assert_eq!(bytes, expected.concat());
    }

    #[test]
    fn truncated_header_is_refused() {
        let bytes = packet(Body::Ack, 3).emit();
        rejects_every_shorter_prefix(&bytes, Header::BinomialAck, |b| {
            Packet::parse(b).map(|_| ())
        });
    }

    #[test]
    fn inconsistent_packets_are_rejected() {
        let mut ack = packet(Body::Ack, 3).emit();
        ack.push(0);
        assert!(Packet::parse(&ack).is_err());
        ack[0] = 9;
        assert!(Packet::parse(&ack).is_err());
        let short = packet(Body::Content { bytes: b"ab" }, 3).emit();
        assert!(Packet::parse(&short).is_err());
        let long = Body::Segment {
            place: 0,
            bytes: b"abcd",
        };
        assert!(Packet::parse(&packet(long, 3).emit()).is_err());
    }

    proptest! {
        #[test]
        fn emitted_packets_parse_back(kind in 0..5, place: u32, bytes in prop::collection::vec(any::<u8>(), 0..50), more: u32) {
            let (body, len) = match kind {
                0 => (Body::Segment { place, bytes: &bytes }, bytes.len() as u64 + u64::from(more)),
                1 => (Body::Content { bytes: &bytes }, bytes.len() as u64),
                2 => (Body::Ack, more.into()),
                3 => (Body::Request, more.into()),
                _ => (Body::Release, more.into()),
            };
            let packet = packet(body, len);
            let emitted = packet.emit();
            prop_assert_eq!(Packet::parse(&emitted), Ok(packet));
        }

        #[test]
        fn emitted_management_datagrams_parse_back(kind in 0..5, a in 0u32..1 << 24, b in 0u32..1 << 24, c in 0u32..1 << 24) {
            let (of, qpn, psn) = (QpNum::new(a), QpNum::new(b), Psn::new(c));
            let manage = match kind {
                0 => ManagementDatagram::Request { qpn, psn },
                1 => ManagementDatagram::Reply { of, qpn, psn },
                2 => ManagementDatagram::Disconnect { qpn },
                3 => ManagementDatagram::Join,
                _ => ManagementDatagram::Leave,
            };
            let emitted = manage.emit();
            prop_assert_eq!(ManagementDatagram::parse(&emitted), Some(manage));
            prop_assert!(Packet::parse(&emitted).is_err());
            for len in 0..emitted.len() {
                prop_assert_eq!(ManagementDatagram::parse(&emitted[..len]), None);
            }
        }

        #[test]
        fn emitted_lists_parse_back(version: u32, members in prop::collection::btree_map(any::<u32>(), (any::<u32>(), 0u32..1 << 24), 0..20)) {
            let members = members.into_iter().map(|(number, (ip, qpn))| Member {
                number,
                ip: ip.into(),
                qpn: QpNum::new(qpn),
            });
            let list = Membership { version, members: members.collect() };
            let emitted = list.emit();
            prop_assert_eq!(emitted.len() as u64, Membership::wire_len(list.members.len() as u32));
            prop_assert_eq!(Membership::parse(&emitted), Some(list));
            prop_assert!(Packet::parse(&emitted).is_err());
            for len in 0..emitted.len() {
                prop_assert_eq!(Membership::parse(&emitted[..len]), None);
            }
        }

        #[test]
        fn no_input_panics(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = (Packet::parse(&bytes), ManagementDatagram::parse(&bytes), Membership::parse(&bytes));
        }
    }
}
