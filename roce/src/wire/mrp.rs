//! Registration packets of a multicast group (MRP): UDP to the McstID, port 4790.
//!
//! Eight bytes of metadata, then eight bytes per node. In 1,500 bytes of IP there is room for 183 nodes; a larger
//! group goes in several packets, numbered by `seq` out of `total`.
//!
//! ```text
//!  0        4        8                16               24               32
//! +--------+--------+----------------+----------------+----------------+
//! |version | type   | seq            | total          | count          |
//! +--------+--------+----------------+----------------+----------------+
//! | initial PSN                                       | flags          |
//! +---------------------------------------------------+----------------+
//! | IPv4 address of node 0                                             |
//! +---------------------------------------------------+----------------+
//! | queue pair number of node 0                       | node flags     |
//! +---------------------------------------------------+----------------+
//! ```

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::error::{need, Header, Reason, WireError};
use super::field::{get_array, get_u24, put, put_u24};
use super::psn::{Psn, QpNum};

/// Length of the metadata in bytes.
pub const METADATA_LEN: usize = 8;
/// Length of one node in bytes.
pub const NODE_LEN: usize = 8;
/// How many nodes fit into 1,500 bytes of IPv4 and UDP.
pub const MAX_NODES: usize = 183;
/// The UDP port of both ends.
pub const PORT: u16 = 4790;
/// In a node's flags: the node is the group itself, its address the McstID and its queue pair the members' remote one.
///
/// The leaf switch adds such a node when it hands a registration to a member's host, whose packet no longer has the
/// McstID as destination; confirmations and refusals carry it back.
pub const NODE_IS_GROUP: u8 = 0x80;
/// The only version there is.
pub const VERSION: u8 = 1;

const VERSION_TYPE: usize = 0;
const SEQ: usize = 1;
const TOTAL: usize = 2;
const COUNT: usize = 3;
const INITIAL_PSN: usize = 4;
const FLAGS: usize = 7;

/// What the packet wants or says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// From the leader, and on from switch to switch: build the tree to these nodes.
    Register,
    /// From a receiver to the leader: the registration reached me.
    Confirm,
    /// From a switch to the leader: the registration failed here.
    Refuse,
    /// From the leader: forget the group; confirmed by its switch.
    Deregister,
    /// From the leader: these nodes come in addition. Their confirmations carry the PSN with which they start.
    Join,
    /// From the leader: these nodes go; confirmed by its switch. From the group to the leader: these nodes did not answer
    /// and are out of it.
    Leave,
    /// From the leader: the group makes no progress, find out why. Not answered.
    Stalled,
}

/// Why a switch refused, in the flags of a [`Kind::Refuse`].
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    thiserror::Error,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    #[error("a switch has no room for the group")]
    Full,
    #[error(
        "a node is no host of this fabric, or named twice, or the leader is not among the nodes"
    )]
    BadNodes,
    #[error("the address stands for another group")]
    Taken,
    #[error("a switch did not take the group")]
    SwitchFailed,
    #[error("the group is being made or removed, or messages are under way")]
    Busy,
    #[error("two branches of the tree would meet; have the group registered through the control service")]
    Loop,
    #[error("there is no such group, or another host leads it")]
    NoSuchGroup,
    #[error("unknown reason {0}")]
    Other(u8),
}

impl Refusal {
    /// The reason in the flags of a packet.
    pub fn from_bits(bits: u8) -> Refusal {
        match bits {
            1 => Refusal::Full,
            2 => Refusal::BadNodes,
            3 => Refusal::Taken,
            4 => Refusal::SwitchFailed,
            5 => Refusal::Busy,
            6 => Refusal::Loop,
            7 => Refusal::NoSuchGroup,
            other => Refusal::Other(other),
        }
    }

    pub fn bits(self) -> u8 {
        match self {
            Refusal::Full => 1,
            Refusal::BadNodes => 2,
            Refusal::Taken => 3,
            Refusal::SwitchFailed => 4,
            Refusal::Busy => 5,
            Refusal::Loop => 6,
            Refusal::NoSuchGroup => 7,
            Refusal::Other(bits) => bits,
        }
    }
}

impl Kind {
    fn from_bits(bits: u8) -> Option<Kind> {
        Some(match bits {
            1 => Kind::Register,
            2 => Kind::Confirm,
            3 => Kind::Refuse,
            4 => Kind::Deregister,
            5 => Kind::Join,
            6 => Kind::Leave,
            7 => Kind::Stalled,
            _ => return None,
        })
    }

    fn bits(self) -> u8 {
        match self {
            Kind::Register => 1,
            Kind::Confirm => 2,
            Kind::Refuse => 3,
            Kind::Deregister => 4,
            Kind::Join => 5,
            Kind::Leave => 6,
            Kind::Stalled => 7,
        }
    }
}

/// One member of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Node {
    pub ip: Ipv4Addr,
    pub qpn: QpNum,
    /// Bits that the members' software may use, and [`NODE_IS_GROUP`]; switches copy them.
    #[serde(default)]
    pub flags: u8,
}

/// A view over a buffer that holds a whole packet.
#[derive(Debug, Clone, Copy)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// Checks version, type, numbering, and that all announced nodes are there.
    pub fn new_checked(buffer: &'a [u8]) -> Result<View<'a>, WireError> {
        need(Header::Mrp, buffer, METADATA_LEN)?;
        let version = buffer[VERSION_TYPE] >> 4;
        if version != VERSION {
            return Err(WireError::bad_field(Header::Mrp, "version", version.into()));
        }
        let kind = buffer[VERSION_TYPE] & 15;
        if Kind::from_bits(kind).is_none() {
            return Err(WireError::bad_field(Header::Mrp, "type", kind.into()));
        }
        if buffer[SEQ] >= buffer[TOTAL] {
            return Err(WireError::bad_field(Header::Mrp, "seq", buffer[SEQ].into()));
        }
        let count = usize::from(buffer[COUNT]);
        if count > MAX_NODES {
            return Err(WireError {
                header: Header::Mrp,
                reason: Reason::BadLength {
                    field: "count",
                    value: count,
                },
            });
        }
        let length = METADATA_LEN + count * NODE_LEN;
        need(Header::Mrp, buffer, length)?;
        Ok(View(&buffer[..length]))
    }

    pub fn kind(&self) -> Kind {
        Kind::from_bits(self.0[VERSION_TYPE] & 15).expect("checked in new_checked")
    }

    /// The number of this packet, from 0.
    pub fn seq(&self) -> u8 {
        self.0[SEQ]
    }

    /// How many packets describe the group.
    pub fn total(&self) -> u8 {
        self.0[TOTAL]
    }

    pub fn initial_psn(&self) -> Psn {
        Psn::new(get_u24(self.0, INITIAL_PSN))
    }

    pub fn flags(&self) -> u8 {
        self.0[FLAGS]
    }

    /// The nodes of this packet.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = Node> + 'a {
        self.0[METADATA_LEN..].chunks_exact(NODE_LEN).map(|b| Node {
            ip: get_array::<4>(b, 0).into(),
            qpn: QpNum::new(get_u24(b, 4)),
            flags: b[7],
        })
    }
}

/// The packet as a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repr {
    pub kind: Kind,
    /// The number of this packet, from 0.
    pub seq: u8,
    /// How many packets describe the group, at least 1.
    pub total: u8,
    /// The PSN with which every member starts.
    pub initial_psn: Psn,
    pub flags: u8,
    /// At most [`MAX_NODES`].
    pub nodes: Vec<Node>,
}

/// A group that no sequence of packets can describe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a group of {0} nodes is too large to register: the limit is {limit}", limit = MAX_NODES * 255)]
pub struct TooManyNodes(pub usize);

impl Repr {
    pub fn parse(view: &View<'_>) -> Repr {
        Repr {
            kind: view.kind(),
            seq: view.seq(),
            total: view.total(),
            initial_psn: view.initial_psn(),
            flags: view.flags(),
            nodes: view.nodes().collect(),
        }
    }

    /// The packets that describe a whole group; one packet without nodes for an empty list.
    pub fn split(
        kind: Kind,
        initial_psn: Psn,
        flags: u8,
        nodes: &[Node],
    ) -> Result<Vec<Repr>, TooManyNodes> {
        let total = nodes.len().div_ceil(MAX_NODES).max(1);
        let total = u8::try_from(total).map_err(|_| TooManyNodes(nodes.len()))?;
        Ok((0..total)
            .map(|seq| {
                let from = usize::from(seq) * MAX_NODES;
                let to = nodes.len().min(from + MAX_NODES);
                Repr {
                    kind,
                    seq,
                    total,
                    initial_psn,
                    flags,
                    nodes: nodes[from..to].to_vec(),
                }
            })
            .collect())
    }

    /// The packet's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.buffer_len()];
        self.emit(&mut bytes);
        bytes
    }

    /// The node that stands for the group itself, if there is one.
    pub fn group(&self) -> Option<&Node> {
        self.nodes.iter().find(|n| n.flags & NODE_IS_GROUP != 0)
    }

    /// The nodes that are members.
    pub fn members(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|n| n.flags & NODE_IS_GROUP == 0)
    }

    /// Length of the packet in bytes.
    pub fn buffer_len(&self) -> usize {
        METADATA_LEN + self.nodes.len() * NODE_LEN
    }

    /// Writes the packet to the first [`Repr::buffer_len`] bytes of `buffer`, which must hold them.
    pub fn emit(&self, buffer: &mut [u8]) {
        buffer[VERSION_TYPE] = VERSION << 4 | self.kind.bits();
        buffer[SEQ] = self.seq;
        buffer[TOTAL] = self.total;
        buffer[COUNT] = self.nodes.len() as u8;
        put_u24(buffer, INITIAL_PSN, self.initial_psn.get());
        buffer[FLAGS] = self.flags;
        for (node, b) in self
            .nodes
            .iter()
            .zip(buffer[METADATA_LEN..].chunks_exact_mut(NODE_LEN))
        {
            put(b, 0..4, &node.ip.octets());
            put_u24(b, 4, node.qpn.get());
            b[7] = node.flags;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::{refuses_every_shorter, unhex};
    use proptest::prelude::*;

    const BYTES: &str = "11 00 01 02 fffff0 00  0a000001 000011 00  0a000002 abcdef 01";

    fn node(n: u32) -> Node {
        Node {
            ip: (0x0a00_0000 + n).into(),
            qpn: QpNum::new(n + 17),
            flags: 0,
        }
    }

    #[test]
    fn registration_of_two_nodes() {
        let bytes = unhex(BYTES);
        let repr = Repr::parse(&View::new_checked(&bytes).unwrap());
        assert_eq!(repr.kind, Kind::Register);
        assert_eq!(repr.initial_psn, Psn::new(0xff_fff0));
        assert_eq!(repr.nodes[1].qpn, QpNum::new(0xabcdef));
        let mut out = vec![0; repr.buffer_len()];
        repr.emit(&mut out);
        assert_eq!(out, bytes);
    }

    #[test]
    fn refusals_survive_the_wire() {
        for bits in 0..=255 {
            assert_eq!(Refusal::from_bits(bits).bits(), bits);
        }
    }

    #[test]
    fn truncated_packet_is_refused() {
        refuses_every_shorter(&unhex(BYTES), Header::Mrp, |b| {
            View::new_checked(b).map(|_| ())
        });
    }

    #[test]
    fn bad_metadata_is_refused() {
        for (at, value) in [(0, 0x21), (0, 0x1f), (1, 1), (2, 0), (3, 184)] {
            let mut bytes = unhex(BYTES);
            bytes.resize(2000, 0);
            bytes[at] = value;
            assert!(View::new_checked(&bytes).is_err(), "byte {at} = {value:#x}");
        }
    }

    #[test]
    fn largest_packet_fits_into_1500_bytes_of_ip() {
        assert_eq!(20 + 8 + METADATA_LEN + MAX_NODES * NODE_LEN, 1500);
    }

    #[test]
    fn large_group_is_split() {
        let nodes: Vec<_> = (0..400).map(node).collect();
        let packets = Repr::split(Kind::Register, Psn::new(0), 0, &nodes).unwrap();
        let lengths: Vec<_> = packets
            .iter()
            .map(|p| (p.seq, p.total, p.nodes.len()))
            .collect();
        assert_eq!(lengths, [(0, 3, 183), (1, 3, 183), (2, 3, 34)]);
        let joined: Vec<_> = packets.into_iter().flat_map(|p| p.nodes).collect();
        assert_eq!(joined, nodes);
        let nodes: Vec<_> = (0..183 * 255 + 1).map(node).collect();
        assert!(Repr::split(Kind::Register, Psn::new(0), 0, &nodes).is_err());
    }

    proptest! {
        #[test]
        fn emitted_packet_parses_back(seq in 0u8..9, psn in 0u32..1 << 24, flags: u8, count in 0u32..184) {
            let repr = Repr {
                kind: Kind::Confirm, seq, total: 9, initial_psn: Psn::new(psn), flags,
                nodes: (0..count).map(node).collect(),
            };
            let mut out = vec![0; repr.buffer_len()];
            repr.emit(&mut out);
            prop_assert_eq!(Repr::parse(&View::new_checked(&out).unwrap()), repr);
        }
    }
}
