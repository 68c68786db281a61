//! Registration packets of a multicast group (MRP): UDP to the McstID (the group's IPv4 address), port 4790.
//!
//! Eight bytes of metadata, then eight bytes per node. An IP packet of 1,500 bytes holds 183 nodes; a larger group uses several
//! packets, numbered by `seq` out of `total`.
//!
//! A node with the flag [`NODE_HAS_REGION`] is followed by two more records: the memory region at this node to which WRITEs to the
//! group go. A packet holds 61 such nodes. `count` is the number of records of eight bytes; no node is split between packets.
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
//! | virtual address of its region, if it has one (upper half)          |
//! +--------------------------------------------------------------------+
//! | (lower half)                                                       |
//! +--------------------------------------------------------------------+
//! | R_Key of its region                                                |
//! +----------------+---------------------------------------------------+
//! | log2 of length | 0                                                 |
//! +----------------+---------------------------------------------------+
//! ```
//!
//! The region's address is a multiple of its length, which is rounded up to a power of two. Only then can a switch rewrite the address
//! of a WRITE to each receiver's by one XOR.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::error::{need, Header, Reason, WireError};
use super::field::{get_array, get_u24, put, put_u24};
use super::psn::{Psn, QpNum};

/// Length in bytes of the metadata at the start of a registration packet.
pub const METADATA_LEN: usize = 8;
/// Length in bytes of one record in a registration packet: a node without its memory region.
pub const NODE_LEN: usize = 8;
/// Number of records that a node's memory region occupies, after the record of the node.
const REGION_RECORDS: usize = 2;
/// Largest number of records, and so of nodes without memory regions, in an IP packet of 1,500 bytes.
pub const MAX_NODES: usize = 183;
/// UDP port of registration packets, as source and destination.
pub const PORT: u16 = alfirk_contract::UDP_PORT_MRP;
/// Node flag: the node is the group itself. Its address is the McstID, and its queue pair the group's virtual number.
///
/// A leader lists it first in a [`Kind::Register`]. Packets to a member's host have it too, because their destination
/// is not the McstID any more. Confirmations and refusals return it.
pub const NODE_IS_GROUP: u8 = 0x80;
/// Node flag, on the wire only: two records with the node's [`Region`] follow.
pub const NODE_HAS_REGION: u8 = 0x40;
/// Node flag: the member only receives, and its leaf switch drops data from it.
pub const NODE_ONLY_RECEIVES: u8 = 0x20;
/// Node flag: the node is the host that registers the group, in a [`Kind::Invite`] and the [`Kind::Agree`] in reply.
pub const NODE_IS_LEADER: u8 = 0x10;
/// Largest log2 of a memory region's length: half of the address space.
pub const MAX_LOG2_LEN: u8 = 63;
/// Version of the registration protocol (MRP).
pub const VERSION: u8 = 1;

const VERSION_TYPE: usize = 0;
const SEQ: usize = 1;
const TOTAL: usize = 2;
const COUNT: usize = 3;
const INITIAL_PSN: usize = 4;
const FLAGS: usize = 7;

/// The type of a registration packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// From the leader, forwarded from switch to switch: build the tree to the listed nodes.
    Register,
    /// From a receiver to the leader: the registration has arrived.
    Confirm,
    /// From a switch to the leader: the registration has failed at this switch.
    Refuse,
    /// From the leader: remove the group. Its switch confirms.
    Deregister,
    /// From the leader: add the listed nodes. Their confirmations contain their initial PSN.
    Join,
    /// From the leader: remove the listed nodes; its switch confirms. From the group to the leader: these nodes did not
    /// respond and have been removed.
    Leave,
    /// From a member that may be the source: the group makes no progress, so its members are to be checked. It gets no
    /// reply.
    Stalled,
    /// From the group to the leader: query whether the group is still needed. From the leader: confirmation that it is.
    Alive,
    /// From the fabric to a host: invitation to register its queue pair in the group, by this leader.
    Invite,
    /// From a host to the McstID, for the fabric: consent. It contains queue pair, group and leader of the invitation.
    Agree,
}

/// Reason why a switch rejects a registration, in the flags of a [`Kind::Refuse`].
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
    /// A table of a switch has no free entries for the group.
    #[error("a switch has no space for the group")]
    Full,
    /// A node is not a host of this fabric, a node is listed twice, or the leader is not listed.
    #[error(
        "a node is not a host of this fabric or is named twice, or the leader is not among the nodes"
    )]
    BadNodes,
    /// The address (McstID) belongs to another group.
    #[error("the address (McstID) belongs to another group; choose an unused one")]
    Taken,
    /// A switch did not accept the table entries.
    #[error("a switch rejected the table entries of the group")]
    SwitchFailed,
    /// Another change of the group is in progress, or messages are in flight.
    #[error("the group is being created or removed, or messages are in flight")]
    Busy,
    /// Two branches of the tree would meet at one switch.
    #[error("two branches of the tree would meet; register the group through the control service instead")]
    Loop,
    /// The group does not exist, or another host leads it.
    #[error("the group does not exist, or another host leads it")]
    NoSuchGroup,
    /// The memory region of a member does not start at a multiple of its length.
    #[error("the memory region of a member does not start at a multiple of its length")]
    BadRegion,
    /// The group has no virtual queue pair number, or that of the previous group with the same address.
    #[error(
        "the registration names no queue pair number for the group, or that of the previous group with the same address"
    )]
    BadQueuePair,
    /// The host leads the largest number of groups that one host may lead.
    #[error("the host leads as many groups as one host may; deregister one first")]
    TooMany,
    /// The host sends registration packets faster than the controller handles them.
    #[error("the host sends registration packets faster than the controller handles them; repeat the request later")]
    TooFast,
    /// A host did not consent to join the group.
    #[error("a host did not agree to join the group")]
    NotAgreed,
    /// A code for which this version has no name.
    #[error("unknown reason {0}")]
    Other(u8),
}

impl Refusal {
    /// Decodes the flags of a packet.
    pub fn from_bits(bits: u8) -> Refusal {
        match bits {
            1 => Refusal::Full,
            2 => Refusal::BadNodes,
            3 => Refusal::Taken,
            4 => Refusal::SwitchFailed,
            5 => Refusal::Busy,
            6 => Refusal::Loop,
            7 => Refusal::NoSuchGroup,
            8 => Refusal::BadRegion,
            9 => Refusal::BadQueuePair,
            10 => Refusal::TooMany,
            11 => Refusal::TooFast,
            12 => Refusal::NotAgreed,
            other => Refusal::Other(other),
        }
    }

    /// Code of the reason, as in the flags of a packet.
    pub fn bits(self) -> u8 {
        match self {
            Refusal::Full => 1,
            Refusal::BadNodes => 2,
            Refusal::Taken => 3,
            Refusal::SwitchFailed => 4,
            Refusal::Busy => 5,
            Refusal::Loop => 6,
            Refusal::NoSuchGroup => 7,
            Refusal::BadRegion => 8,
            Refusal::BadQueuePair => 9,
            Refusal::TooMany => 10,
            Refusal::TooFast => 11,
            Refusal::NotAgreed => 12,
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
            8 => Kind::Alive,
            9 => Kind::Invite,
            10 => Kind::Agree,
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
            Kind::Alive => 8,
            Kind::Invite => 9,
            Kind::Agree => 10,
        }
    }
}

/// A host of the group, with its queue pair and memory region; or the group itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Node {
    /// IPv4 address of the host, or the McstID of the group.
    pub ip: Ipv4Addr,
    /// Number of the host's queue pair, or the group's virtual number.
    pub qpn: QpNum,
    /// [`NODE_IS_GROUP`], [`NODE_ONLY_RECEIVES`], and bits for the members' software, which switches copy.
    /// [`NODE_HAS_REGION`] follows from `region`.
    #[serde(default)]
    pub flags: u8,
    /// The memory region of this member to which WRITEs to the group are rewritten; `None` without WRITEs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Region>,
}

/// A member's memory region for WRITEs to the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Region {
    /// Virtual address of the first byte, a multiple of the length.
    pub va: u64,
    /// R_Key of the region.
    pub rkey: u32,
    /// Log2 of the length in bytes, rounded up; at most [`MAX_LOG2_LEN`].
    pub log2_len: u8,
}

impl Region {
    /// A region of `len` bytes; `None` if `len` is 0 or too large.
    pub fn new(va: u64, rkey: u32, len: u64) -> Option<Region> {
        let rounded = len.checked_next_power_of_two().filter(|_| len > 0)?;
        let log2_len = rounded.trailing_zeros() as u8;
        Some(Region { va, rkey, log2_len })
    }

    /// Length in bytes, rounded up to a power of two.
    pub fn len(&self) -> u64 {
        1 << self.log2_len.min(MAX_LOG2_LEN)
    }

    /// Always false: a region has at least one byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Whether the address is a multiple of the length, so that a switch can rewrite addresses to it.
    pub fn is_aligned(&self) -> bool {
        self.va % self.len() == 0
    }
}

impl Node {
    /// Creates the node of a group itself.
    pub fn group(mcst_id: Ipv4Addr, virtual_qpn: QpNum) -> Node {
        Node {
            ip: mcst_id,
            qpn: virtual_qpn,
            flags: NODE_IS_GROUP,
            region: None,
        }
    }

    /// Whether this is the node of the group itself.
    pub fn is_group(&self) -> bool {
        self.flags & NODE_IS_GROUP != 0
    }

    /// Creates the node of the host that registers a group.
    pub fn leader(ip: Ipv4Addr) -> Node {
        Node {
            ip,
            qpn: QpNum::new(0),
            flags: NODE_IS_LEADER,
            region: None,
        }
    }

    /// Whether this is the node of the host that registers the group, not of a member.
    pub fn is_leader(&self) -> bool {
        self.flags & NODE_IS_LEADER != 0
    }

    fn has_region(&self) -> bool {
        self.region.is_some()
    }

    /// Number of records that the node occupies.
    fn records(&self) -> usize {
        1 + usize::from(self.has_region()) * REGION_RECORDS
    }

    /// Removes and returns the first node of records that [`View::new_checked`] has validated; `None` at the end.
    fn take(records: &mut &[u8]) -> Option<Node> {
        let (b, rest) = records.split_at_checked(NODE_LEN)?;
        *records = rest;
        let mut node = Node {
            ip: get_array::<4>(b, 0).into(),
            qpn: QpNum::new(get_u24(b, 4)),
            flags: b[7] & !NODE_HAS_REGION,
            region: None,
        };
        if b[7] & NODE_HAS_REGION != 0 {
            let (b, rest) = records.split_at_checked(REGION_RECORDS * NODE_LEN)?;
            *records = rest;
            node.region = Some(Region {
                va: u64::from_be_bytes(get_array(b, 0)),
                rkey: u32::from_be_bytes(get_array(b, 8)),
                log2_len: b[12],
            });
        }
        Some(node)
    }

    fn emit(&self, out: &mut [u8]) {
        put(out, 0..4, &self.ip.octets());
        put_u24(out, 4, self.qpn.get());
        out[7] = self.flags & !NODE_HAS_REGION;
        if let Some(region) = self.region {
            out[7] |= NODE_HAS_REGION;
            put(out, 8..16, &region.va.to_be_bytes());
            put(out, 16..20, &region.rkey.to_be_bytes());
            put(out, 20..24, &[region.log2_len, 0, 0, 0]);
        }
    }
}

/// Rejects records with memory regions that are truncated or invalid.
fn check_regions(mut records: &[u8]) -> Result<(), WireError> {
    while let Some((node, rest)) = records.split_at_checked(NODE_LEN) {
        records = rest;
        if node[7] & NODE_HAS_REGION == 0 {
            continue;
        }
        if node[7] & NODE_IS_GROUP != 0 {
            return Err(WireError::bad_field(
                Header::Mrp,
                "node flags",
                node[7].into(),
            ));
        }
        let cut = WireError {
            header: Header::Mrp,
            reason: Reason::BadLength {
                field: "region",
                value: records.len(),
            },
        };
        let (region, rest) = records
            .split_at_checked(REGION_RECORDS * NODE_LEN)
            .ok_or(cut)?;
        records = rest;
        if region[12] > MAX_LOG2_LEN {
            let value = region[12].into();
            return Err(WireError::bad_field(Header::Mrp, "region length", value));
        }
        if let Some(byte) = region[13..].iter().find(|byte| **byte != 0) {
            let value = (*byte).into();
            return Err(WireError::bad_field(Header::Mrp, "region padding", value));
        }
    }
    Ok(())
}

/// View of a buffer that contains a registration packet.
#[derive(Debug, Clone, Copy)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// Checks version, type and numbering, that all announced records are present, and that regions are valid.
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
        check_regions(&buffer[METADATA_LEN..length])?;
        Ok(View(&buffer[..length]))
    }

    /// Type of the packet.
    pub fn kind(&self) -> Kind {
        Kind::from_bits(self.0[VERSION_TYPE] & 15).expect("checked in new_checked")
    }

    /// Number of this packet among those that describe the group, from 0.
    pub fn seq(&self) -> u8 {
        self.0[SEQ]
    }

    /// Number of packets that describe the group.
    pub fn total(&self) -> u8 {
        self.0[TOTAL]
    }

    /// Initial PSN of every member.
    pub fn initial_psn(&self) -> Psn {
        Psn::new(get_u24(self.0, INITIAL_PSN))
    }

    /// Flags, whose meaning depends on the type: see [`Repr::flags`].
    pub fn flags(&self) -> u8 {
        self.0[FLAGS]
    }

    /// The nodes listed in this packet.
    pub fn nodes(&self) -> impl Iterator<Item = Node> + 'a {
        let mut records = &self.0[METADATA_LEN..];
        std::iter::from_fn(move || Node::take(&mut records))
    }
}

/// Fields of a registration packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repr {
    /// Type of the packet.
    pub kind: Kind,
    /// Number of this packet among those that describe the group, from 0.
    pub seq: u8,
    /// Number of packets that describe the group, at least 1.
    pub total: u8,
    /// Initial PSN of every member.
    pub initial_psn: Psn,
    /// In a [`Kind::Refuse`], the reason. In a [`Kind::Register`], timeout and retries of the queue pairs
    /// ([`crate::registration::RetryTimeout::bits`]). Otherwise 0.
    pub flags: u8,
    /// The listed nodes, in at most [`MAX_NODES`] records.
    pub nodes: Vec<Node>,
}

/// Error: a group is too large to be described by registration packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a group of {0} nodes is too large to register: the limit is {limit}, or {written} with memory regions",
    limit = MAX_NODES * 255,
    written = MAX_NODES / (1 + REGION_RECORDS) * 255
)]
pub struct TooManyNodes(pub usize);

impl Repr {
    /// Decodes a registration packet.
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

    /// Creates the packets that describe a whole group: one packet without nodes for an empty list.
    pub fn split(
        kind: Kind,
        initial_psn: Psn,
        flags: u8,
        nodes: &[Node],
    ) -> Result<Vec<Repr>, TooManyNodes> {
        let mut parts: Vec<Vec<Node>> = vec![Vec::new()];
        let mut records = 0;
        for node in nodes {
            records += node.records();
            if records > MAX_NODES {
                parts.push(Vec::new());
                records = node.records();
            }
            if let Some(part) = parts.last_mut() {
                part.push(*node);
            }
        }
        let total = u8::try_from(parts.len()).map_err(|_| TooManyNodes(nodes.len()))?;
        let packets = (0..total).zip(parts).map(|(seq, nodes)| Repr {
            kind,
            seq,
            total,
            initial_psn,
            flags,
            nodes,
        });
        Ok(packets.collect())
    }

    /// The bytes of the packet.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.buffer_len()];
        self.emit(&mut bytes);
        bytes
    }

    /// The node of the group itself; `None` if the packet does not list it.
    pub fn group(&self) -> Option<&Node> {
        self.nodes.iter().find(|node| node.is_group())
    }

    /// The node of the host that registers the group; `None` if the packet does not list it.
    pub fn leader(&self) -> Option<&Node> {
        self.nodes.iter().find(|node| node.is_leader())
    }

    /// The nodes that are members.
    pub fn members(&self) -> impl Iterator<Item = &Node> {
        let is_member = |node: &&Node| !node.is_group() && !node.is_leader();
        self.nodes.iter().filter(is_member)
    }

    /// Length of the packet in bytes.
    pub fn buffer_len(&self) -> usize {
        METADATA_LEN + self.records() * NODE_LEN
    }

    fn records(&self) -> usize {
        self.nodes.iter().map(Node::records).sum()
    }

    /// Writes the packet to the first [`Repr::buffer_len`] bytes of `buffer`; panics if it is shorter.
    pub fn emit(&self, buffer: &mut [u8]) {
        buffer[VERSION_TYPE] = VERSION << 4 | self.kind.bits();
        buffer[SEQ] = self.seq;
        buffer[TOTAL] = self.total;
        buffer[COUNT] = self.records() as u8;
        put_u24(buffer, INITIAL_PSN, self.initial_psn.get());
        buffer[FLAGS] = self.flags;
        let mut at = METADATA_LEN;
        for node in &self.nodes {
            let end = at + node.records() * NODE_LEN;
            node.emit(&mut buffer[at..end]);
            at = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::{rejects_every_shorter_prefix, unhex};
    use proptest::prelude::*;

    const BYTES: &str = "11 00 01 02 fffff0 00  0a000001 000011 00  0a000002 abcdef 01";

    fn node(n: u32) -> Node {
        Node {
            ip: (0x0a00_0000 + n).into(),
            qpn: QpNum::new(n + 17),
            flags: 0,
            region: None,
        }
    }

    fn with_region(n: u32) -> Node {
        Node {
            region: Region::new(u64::from(n) << 20, n + 0x100, 1 << 20),
            ..node(n)
        }
    }

    const WITH_REGION: &str = "11 00 01 04 000007 00  0a000001 000012 40 \
         0000010000000000 00010203 14000000  0a000002 000013 00";

    #[test]
    fn a_region_follows_its_node() {
        let bytes = unhex(WITH_REGION);
        let repr = Repr::parse(&View::new_checked(&bytes).unwrap());
        let region = Region {
            va: 1 << 40,
            rkey: 0x0001_0203,
            log2_len: 20,
        };
        let regions: Vec<_> = repr.nodes.iter().map(|node| node.region).collect();
        assert_eq!(regions, [Some(region), None]);
        assert_eq!(repr.nodes[0].flags, 0);
        assert_eq!(repr.to_bytes(), bytes);
        rejects_every_shorter_prefix(&bytes, Header::Mrp, |b| View::new_checked(b).map(|_| ()));
    }

    #[test]
    fn invalid_regions_are_rejected() {
        // Truncated by the count, a region of the group itself, too long, padding that is not zero.
        for (at, value) in [(3, 2), (3, 1), (15, 0xc0), (28, 64), (29, 1), (31, 1)] {
            let mut bytes = unhex(WITH_REGION);
            bytes[at] = value;
            assert!(View::new_checked(&bytes).is_err(), "byte {at} = {value:#x}");
        }
    }

    #[test]
    fn regions_are_rounded_up_to_a_power_of_two() {
        let log2 = |len| Region::new(0, 1, len).map(|region| region.log2_len);
        assert_eq!(
            [log2(1), log2(2), log2(3), log2(4096), log2(4097)],
            [0, 1, 2, 12, 13].map(Some)
        );
        assert_eq!(
            (log2(0), log2(u64::MAX), log2(1 << 63)),
            (None, None, Some(63))
        );
        assert!(Region::new(1 << 20, 1, 1 << 20).unwrap().is_aligned());
        assert!(!Region::new(1 << 19, 1, 1 << 20).unwrap().is_aligned());
    }

    #[test]
    fn split_keeps_each_node_with_its_region() {
        let nodes: Vec<_> = (0..100)
            .map(|n| if n % 7 == 0 { node(n) } else { with_region(n) })
            .chain((100..200).map(with_region))
            .collect();
        let packets = Repr::split(Kind::Register, Psn::new(0), 0, &nodes).unwrap();
        assert!(packets.len() > 3);
        for packet in &packets {
            assert!(packet.buffer_len() <= METADATA_LEN + MAX_NODES * NODE_LEN);
            let bytes = packet.to_bytes();
            assert_eq!(Repr::parse(&View::new_checked(&bytes).unwrap()), *packet);
        }
        let joined: Vec<_> = packets.into_iter().flat_map(|p| p.nodes).collect();
        assert_eq!(joined, nodes);
        let full: Vec<_> = (0..61 * 255).map(with_region).collect();
        assert_eq!(
            Repr::split(Kind::Register, Psn::new(0), 0, &full)
                .unwrap()
                .len(),
            255
        );
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
    fn refusal_reasons_convert_back() {
        for bits in 0..=255 {
            assert_eq!(Refusal::from_bits(bits).bits(), bits);
        }
    }

    #[test]
    fn truncated_packet_is_refused() {
        rejects_every_shorter_prefix(&unhex(BYTES), Header::Mrp, |b| {
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
        /// Any input is rejected, or equals the bytes that `emit` writes for it.
        #[test]
        fn arbitrary_input_is_rejected_or_parsed(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
            kind in 1u8..11,
            total in 1u8..4,
            flags in proptest::collection::vec(prop_oneof![Just(0u8), Just(0x40), Just(0x80), any::<u8>()], 24),
            quiet: bool,
        ) {
            if bytes.len() > METADATA_LEN {
                (bytes[VERSION_TYPE], bytes[TOTAL]) = (VERSION << 4 | kind, total);
                bytes[SEQ] %= total;
                bytes[COUNT] %= 25;
                for (record, flags) in bytes[METADATA_LEN..].chunks_exact_mut(NODE_LEN).zip(flags) {
                    record[7] = flags;
                    if quiet {
                        record[4..].fill(0);
                        record[7] = flags & NODE_HAS_REGION;
                    }
                }
            }
            if let Ok(view) = View::new_checked(&bytes) {
                let repr = Repr::parse(&view);
                prop_assert_eq!(&repr.to_bytes()[..], &bytes[..repr.buffer_len()]);
            }
        }

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
