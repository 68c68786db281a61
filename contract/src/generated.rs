//! Numbers of `p4src/v1model/main.p4`. Written by `alfirk p4c --constants-files`; change them there.

/// `ETHERTYPE_IPV4`.
pub const ETHERTYPE_IPV4: u16 = 0x800;

/// `ETHERTYPE_ARP`.
pub const ETHERTYPE_ARP: u16 = 0x806;

/// IEEE 802.1Q, also priority tags (VLAN 0)
pub const ETHERTYPE_C_TAG: u16 = 0x8100;

/// IEEE 802.1ad
pub const ETHERTYPE_S_TAG: u16 = 0x88a8;

/// `TAG_BYTES`.
pub const TAG_BYTES: u32 = 4;

/// `ARP_HTYPE_ETHERNET`.
pub const ARP_HTYPE_ETHERNET: u16 = 1;

/// `ARP_OPER_REQUEST`.
pub const ARP_OPER_REQUEST: u16 = 1;

/// `ARP_OPER_REPLY`.
pub const ARP_OPER_REPLY: u16 = 2;

/// `IP_PROTOCOL_TCP`.
pub const IP_PROTOCOL_TCP: u8 = 6;

/// `IP_PROTOCOL_UDP`.
pub const IP_PROTOCOL_UDP: u8 = 17;

/// RoCEv2 (IBTA vol. 1, annex A17.3.1) and Alfirk's registration protocol.
pub const UDP_PORT_ROCEV2: u16 = 0x12b7;

/// `UDP_PORT_MRP`.
pub const UDP_PORT_MRP: u16 = 0x12b6;

/// BTH opcodes of the reliable connection service (IBTA vol. 1, table 38).
pub const OPCODE_RC_SEND_FIRST: u8 = 0;

/// `OPCODE_RC_WRITE_FIRST`.
pub const OPCODE_RC_WRITE_FIRST: u8 = 6;

/// `OPCODE_RC_WRITE_ONLY`.
pub const OPCODE_RC_WRITE_ONLY: u8 = 10;

/// `OPCODE_RC_WRITE_ONLY_IMM`.
pub const OPCODE_RC_WRITE_ONLY_IMM: u8 = 11;

/// `OPCODE_RC_READ_REQUEST`.
pub const OPCODE_RC_READ_REQUEST: u8 = 12;

/// `OPCODE_RC_ACKNOWLEDGE`.
pub const OPCODE_RC_ACKNOWLEDGE: u8 = 17;

/// `OPCODE_RC_COMPARE_SWAP`.
pub const OPCODE_RC_COMPARE_SWAP: u8 = 19;

/// `OPCODE_RC_FETCH_ADD`.
pub const OPCODE_RC_FETCH_ADD: u8 = 20;

/// `OPCODE_RC_SEND_LAST_INV`.
pub const OPCODE_RC_SEND_LAST_INV: u8 = 22;

/// `OPCODE_RC_SEND_ONLY_INV`.
pub const OPCODE_RC_SEND_ONLY_INV: u8 = 23;

/// `OPCODE_RC_FLUSH`.
pub const OPCODE_RC_FLUSH: u8 = 28;

/// `OPCODE_RC_ATOMIC_WRITE`.
pub const OPCODE_RC_ATOMIC_WRITE: u8 = 29;

/// `OPCODE_CNP`.
pub const OPCODE_CNP: u8 = 129;

/// The upper three bits of the opcodes of unreliable datagrams (the same table).
pub const OPCODE_CLASS_UD: u8 = 3;

/// Multicast of datagrams: all queue pairs of a group (IBTA vol. 1, section 10.5), addresses that stand for groups, and the
/// first 24 bits of their MAC addresses, before a zero and the lower 23 of the IPv4 address (RFC 1112, section 6.4).
pub const MULTICAST_QPN: u32 = 0xff_ffff;

/// `IPV4_MULTICAST`.
pub const IPV4_MULTICAST: u8 = 14;

/// `MULTICAST_MAC`.
pub const MULTICAST_MAC: u32 = 0x1_005e;

/// AETH syndromes (IBTA vol. 1, section 9.7.5.1.4): two type bits after a zero, then a value.
pub const AETH_ACK: u8 = 0;

/// `AETH_RNR_NAK`.
pub const AETH_RNR_NAK: u8 = 1;

/// `AETH_NAK`.
pub const AETH_NAK: u8 = 3;

/// `NAK_PSN_SEQUENCE_ERROR`.
pub const NAK_PSN_SEQUENCE_ERROR: u8 = 0;

/// `NAK_INVALID_REQUEST`.
pub const NAK_INVALID_REQUEST: u8 = 1;

/// `NAK_REMOTE_OPERATIONAL`.
pub const NAK_REMOTE_OPERATIONAL: u8 = 3;

/// Reserved by the specification; accepted only where the group's entry says selective repeat (selective_nak.p4). Between
/// receivers and switches the PSN is that of the lost packet, and the MSN is the number of times that its receiver has
/// reported it, 1 to 255. To a source it leaves with the PSN after the last acknowledged one, and the lost PSN as MSN.
pub const NAK_SELECTIVE: u8 = 31;

/// An ACK whose credit field says that the responder gives no credits, as Soft-RoCE sends it.
pub const SYNDROME_ACK_NO_CREDITS: u8 = 31;

/// How a group's minimum PSN is found (set_group's min_psn).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MinPsn {
    /// in one pass (min_psn_tree.p4)
    Tree = 0,
    /// by recirculation (min_psn_walk.p4)
    Walk = 1,
    /// by the controller
    Punt = 2,
}

impl MinPsn {
    /// All of them, in the program's order.
    pub const ALL: [MinPsn; 3] = [
        MinPsn::Tree,
        MinPsn::Walk,
        MinPsn::Punt,
    ];
}

/// How the ICRC of a group's data is kept right (set_group's icrc).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum IcrcMode {
    /// by the constants of the bridge
    Neutral = 0,
    /// in the pipeline; the McstID must lie in the range below
    Recompute = 1,
    /// by the controller
    Punt = 2,
}

impl IcrcMode {
    /// All of them, in the program's order.
    pub const ALL: [IcrcMode; 3] = [
        IcrcMode::Neutral,
        IcrcMode::Recompute,
        IcrcMode::Punt,
    ];
}

/// Only the payload of data to these McstIDs is parsed: parsers know no group.
pub const RECOMPUTE_NETWORK: u32 = 0xaff_8000;

/// `RECOMPUTE_MASK`.
pub const RECOMPUTE_MASK: u32 = 0xffff_8000;

/// R_Key of a WRITE Only that carries a memory region for a leaf switch (memory_regions.p4).
pub const MR_INFO_RKEY: u32 = 0xa1f1_4b31;

/// The UDP length of such a packet, and of the empty WRITE that hosts get for it: UDP (8) + BTH (12) +
/// RETH (16) + ICRC (4), and 16 bytes of XOR differences.
pub const MR_INFO_UDP_BYTES: u16 = 56;

/// `EMPTY_WRITE_UDP_BYTES`.
pub const EMPTY_WRITE_UDP_BYTES: u16 = 40;

/// `EMPTY_WRITE_IPV4_BYTES`.
pub const EMPTY_WRITE_IPV4_BYTES: u16 = 60;

/// What of the UDP length is no payload: UDP, BTH, ICRC and with it a RETH.
pub const UDP_OVERHEAD_BYTES: u16 = 24;

/// `UDP_OVERHEAD_WITH_RETH_BYTES`.
pub const UDP_OVERHEAD_WITH_RETH_BYTES: u16 = 40;

/// Packets that a source may be ahead of what was last acknowledged to it, where the group's entry gives no number
/// (set_group): more than queue pairs have outstanding (128 in Linux' rdma_rxe), and far below 2^23, beyond which PSNs have no order.
pub const DEFAULT_WINDOW: u32 = 0x1_0000;

/// Messages by which the count may be ahead of the one that a controller has written to a switch that lost its own (last_acked.p4).
pub const UNKNOWN_MSN_ROOM: u32 = 0x8000;

/// A walk that has not ended after so many microseconds has lost its packet.
pub const WALK_TIMEOUT_US: u32 = 0x3e8;

/// ECN code points (RFC 3168).
pub const ECN_NOT_ECT: u8 = 0;

/// `ECN_CE`.
pub const ECN_CE: u8 = 3;

/// What members address of groups that have no queue pair number of their own.
pub const FIXED_VIRTUAL_QPN: u32 = 1;

/// The default P_Key without its membership bit (IBTA vol. 1, section 10.9): groups are in this partition.
pub const DEFAULT_PARTITION: u16 = 0x7fff;

/// The one address by which hosts see the fabric.
pub const VIRTUAL_MAC: u64 = 0x2a1_f14c_0001;

/// `ETHERNET_BYTES`.
pub const ETHERNET_BYTES: u32 = 14;

/// Bytes of the IPv4 header before UDP: groups' packets have no options.
pub const UDP_OFFSET_BYTES: u32 = 20;

/// What follows the Ethernet header in an ACK: IPv4 (20) + UDP (8) + BTH (12) + AETH (4) + ICRC (4).
pub const ACK_IPV4_BYTES: u16 = 48;

/// `ACK_UDP_BYTES`.
pub const ACK_UDP_BYTES: u16 = 28;

/// `ACK_FRAME_BYTES`.
pub const ACK_FRAME_BYTES: u32 = 62;

/// Hops that an ACK may go that a switch makes of data.
pub const ACK_TTL: u8 = 64;

/// The same for feedback that a switch merges or passes on: as if the member were next to the switch.
pub const FEEDBACK_TTL: u8 = 63;

/// UDP source port of all feedback of switches, before the exit half of the bridge.
pub const FEEDBACK_UDP_SOURCE_PORT: u16 = 0xc000;

/// IPv4 (20) + UDP (8) + BTH (12) + 16 reserved bytes + ICRC (4) (IBTA annex A17.9.3).
pub const CNP_IPV4_BYTES: u16 = 60;

/// `CNP_UDP_BYTES`.
pub const CNP_UDP_BYTES: u16 = 40;

/// `CNP_FRAME_BYTES`.
pub const CNP_FRAME_BYTES: u32 = 74;

/// The same behind packet_in (3) and feedback (10).
pub const PROBE_PACKET_IN_BYTES: u32 = 75;

/// A fatal NAK behind packet_in (3).
pub const FATAL_NAK_PACKET_IN_BYTES: u32 = 65;

/// A registration packet behind packet_in (3): Ethernet (14) and at most 1,500 bytes of IPv4.
pub const MRP_PACKET_IN_BYTES: u32 = 0x5ed;

/// The path index in words that a sender's own data wrote: the largest, so that it loses every tie
/// and the MSN of a real receiver is taken.
pub const PATH_OF_SENDER: u8 = 255;

/// packet_out.kind
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PacketOutKind {
    /// `FORWARD`.
    Forward = 0,
    /// `REGISTERS`.
    Registers = 1,
    /// an ACK or NAK that the controller has aggregated
    Feedback = 2,
}

impl PacketOutKind {
    /// All of them, in the program's order.
    pub const ALL: [PacketOutKind; 3] = [
        PacketOutKind::Forward,
        PacketOutKind::Registers,
        PacketOutKind::Feedback,
    ];
}

/// packet_in.reason
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PacketInReason {
    /// `REGISTERS`.
    Registers = 1,
    /// `MRP`.
    Mrp = 2,
    /// an ACK or NAK of a group of MinPsn.PUNT
    Feedback = 3,
    /// old data of such a group, as an ACK of its PSN: does everyone have it?
    Probe = 4,
    /// data whose ICRC is to be made right, for port `ingress_port`
    Icrc = 5,
    /// a receiver has ended its queue pair
    FatalNak = 6,
}

impl PacketInReason {
    /// All of them, in the program's order.
    pub const ALL: [PacketInReason; 6] = [
        PacketInReason::Registers,
        PacketInReason::Mrp,
        PacketInReason::Feedback,
        PacketInReason::Probe,
        PacketInReason::Icrc,
        PacketInReason::FatalNak,
    ];
}

/// register_control.op
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RegisterOp {
    /// `INIT_GROUP`.
    InitGroup = 1,
    /// `READ`.
    Read = 2,
    /// `WRITE`.
    Write = 3,
    /// `INIT_REGIONS`.
    InitRegions = 4,
}

impl RegisterOp {
    /// All of them, in the program's order.
    pub const ALL: [RegisterOp; 4] = [
        RegisterOp::InitGroup,
        RegisterOp::Read,
        RegisterOp::Write,
        RegisterOp::InitRegions,
    ];
}

/// register_control.status
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RegisterStatus {
    /// `OK`.
    Ok = 0,
    /// `BAD_OP`.
    BadOp = 1,
    /// `BAD_REGISTER`.
    BadRegister = 2,
    /// `OUT_OF_RANGE`.
    OutOfRange = 3,
}

impl RegisterStatus {
    /// All of them, in the program's order.
    pub const ALL: [RegisterStatus; 4] = [
        RegisterStatus::Ok,
        RegisterStatus::BadOp,
        RegisterStatus::BadRegister,
        RegisterStatus::OutOfRange,
    ];
}

/// register_control.reg: what can be read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RegisterName {
    /// agg_psn \<\< 24 | agg_msn
    Agg = 1,
    /// nak_syndrome \<\< 24 | nak_psn, 0 when no NAK waits; with bit 31, if it was sent to the source
    Nak = 2,
    /// `SRC_PORT`.
    SrcPort = 3,
    /// of a path: ack_psn \<\< 8 | path; to write, absent \<\< 32 | that
    Ack = 4,
    /// of a path, its lower 16 bits; to write before RegisterName.ACK, which takes it up the tree
    Msn = 5,
    /// of a path: the egress copy of ack_psn, for the retransmission filter
    Filter = 6,
    /// of a receiver: what memory_regions.p4 XORs into the virtual address
    RegionVa = 7,
    /// of a receiver: the same for R_Key \<\< 32 | identification \<\< 16 | source port
    RegionKeys = 8,
    /// of a receiver: the PSN of the WRITE that announced both
    RegionAnnouncedAt = 9,
    /// the newest PSN that a source has sent
    Sent = 10,
    /// of a path, to read only: the newest PSN that its feedback has acknowledged, even beyond SENT
    Claimed = 11,
}

impl RegisterName {
    /// All of them, in the program's order.
    pub const ALL: [RegisterName; 11] = [
        RegisterName::Agg,
        RegisterName::Nak,
        RegisterName::SrcPort,
        RegisterName::Ack,
        RegisterName::Msn,
        RegisterName::Filter,
        RegisterName::RegionVa,
        RegisterName::RegionKeys,
        RegisterName::RegionAnnouncedAt,
        RegisterName::Sent,
        RegisterName::Claimed,
    ];
}

/// Drop reasons, each an index of the counter arrays ingress.drops and egress.drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Drop {
    /// `NONE`.
    None = 0,
    /// `PARSER_ERROR`.
    ParserError = 1,
    /// `IPV4_CHECKSUM`.
    Ipv4Checksum = 2,
    /// `UNKNOWN_ETHERTYPE`.
    UnknownEthertype = 3,
    /// `ARP_NOT_FOR_US`.
    ArpNotForUs = 4,
    /// `NO_ROUTE`.
    NoRoute = 5,
    /// `TTL_EXPIRED`.
    TtlExpired = 6,
    /// a group packet on a port outside the group's tree
    NotAPath = 7,
    /// a group packet of a host that is not the member on that port
    NotAMember = 8,
    /// a packet for another queue pair than the group's, or of an earlier group's
    WrongQpn = 9,
    /// what is neither a reliable connection's nor a CNP, or in no place here
    UnsupportedOpcode = 10,
    /// an ACK, NAK or CNP with a wrong ICRC
    FeedbackIcrc = 11,
    /// an ACK or NAK whose news went into the registers alone
    FeedbackMerged = 12,
    /// a CNP or fatal NAK before any data
    NoSource = 13,
    /// the copy for the port that the packet came from
    OwnCopy = 14,
    /// retransmission filter: the path has acknowledged this PSN
    AlreadyAcked = 15,
    /// PacketOut of an unknown kind
    BadControl = 16,
    /// the mirror of a forwarded ACK, after the filter took its PSN
    FeedbackRecorded = 17,
    /// a host used an address that is not its own
    SpoofedSource = 18,
    /// data that was to be changed had a wrong ICRC
    DataIcrc = 19,
    /// a CNP of a path that is not the most congested one
    CnpFiltered = 20,
    /// the controller has the copy, and sends it on
    IcrcPunted = 21,
    /// a walk's packet that came back after its time
    WalkTakenOver = 22,
    /// data of a host that is not the source, and not what comes next
    NotTheSource = 23,
    /// a group packet in IP fragments or with IP options
    Fragment = 24,
    /// an ACK or NAK of what no source has sent
    BeyondSent = 25,
    /// a NAK that the source has, and has not yet acted on
    NakAlreadySent = 26,
    /// a member's packet of another partition
    WrongPkey = 27,
    /// data of a member that may only receive
    MayNotSend = 28,
    /// a READ or ATOMIC of a host that was refused one just before
    RefusalLimited = 29,
    /// more for the controller than the port may send it (punt_limit.p4)
    PuntLimited = 30,
    /// a datagram to a group by a MAC address that is not the group's
    WrongMulticastMac = 31,
    /// an AETH syndrome that IBTA reserves, or that the group's recovery does not use
    ReservedSyndrome = 32,
    /// data further ahead of the last acknowledged PSN than the group's window
    BeyondWindow = 33,
    /// a request whose lengths, padding or transport version are wrong
    Malformed = 34,
    /// a CNP of the source itself (IBTA annex A17.9.3)
    OwnCnp = 35,
    /// a CNP of a path that sends too many
    CnpLimited = 36,
    /// a fatal NAK of a request that its path has acknowledged
    StaleNak = 37,
}

impl Drop {
    /// All of them, in the program's order.
    pub const ALL: [Drop; 38] = [
        Drop::None,
        Drop::ParserError,
        Drop::Ipv4Checksum,
        Drop::UnknownEthertype,
        Drop::ArpNotForUs,
        Drop::NoRoute,
        Drop::TtlExpired,
        Drop::NotAPath,
        Drop::NotAMember,
        Drop::WrongQpn,
        Drop::UnsupportedOpcode,
        Drop::FeedbackIcrc,
        Drop::FeedbackMerged,
        Drop::NoSource,
        Drop::OwnCopy,
        Drop::AlreadyAcked,
        Drop::BadControl,
        Drop::FeedbackRecorded,
        Drop::SpoofedSource,
        Drop::DataIcrc,
        Drop::CnpFiltered,
        Drop::IcrcPunted,
        Drop::WalkTakenOver,
        Drop::NotTheSource,
        Drop::Fragment,
        Drop::BeyondSent,
        Drop::NakAlreadySent,
        Drop::WrongPkey,
        Drop::MayNotSend,
        Drop::RefusalLimited,
        Drop::PuntLimited,
        Drop::WrongMulticastMac,
        Drop::ReservedSyndrome,
        Drop::BeyondWindow,
        Drop::Malformed,
        Drop::OwnCnp,
        Drop::CnpLimited,
        Drop::StaleNak,
    ];
}

/// `SIZE_DROP_REASONS`.
pub const SIZE_DROP_REASONS: u32 = 64;

/// Cells of the counter array ingress.ack_aggregate.work, for each strategy from cell 8 * MinPsn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Work {
    /// ACKs and NAKs that came in
    Feedback = 0,
    /// of these, what went to the source
    Forwarded = 1,
    /// `RECIRCULATIONS`.
    Recirculations = 2,
    /// `PUNTS`.
    Punts = 3,
}

impl Work {
    /// All of them, in the program's order.
    pub const ALL: [Work; 4] = [
        Work::Feedback,
        Work::Forwarded,
        Work::Recirculations,
        Work::Punts,
    ];
}

/// `SIZE_WORK`.
pub const SIZE_WORK: u32 = 32;

/// Register access by PacketOut, which works on every target: P4Runtime servers of
/// BMv2 refuse RegisterEntry. The answer is the same header in a PacketIn.
/// INIT_GROUP  all state of `group` for `count` paths as before PSN value\[23:0\], after value\[47:24\] messages; on Tofino the source is
/// behind port value\[63:48\], on v1model it is where the next data comes from
/// READ        value := reg of `group` (and of path `index`, where it is per path)
/// WRITE       the other way round
/// INIT_REGIONS  what `count` receivers, from `group` ++ `index` on, got announced of memory: as before PSN value\[23:0\]
/// `index` counts the paths done while INIT_GROUP recirculates. Of registers that have a cell for each receiver, `group` ++
/// `index` is the receiver's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegisterControl {
    /// `op`.
    pub op: u8,
    /// `status`.
    pub status: u8,
    /// `reg`.
    pub reg: u8,
    /// `count`.
    pub count: u8,
    /// `group`.
    pub group: u16,
    /// `index`.
    pub index: u16,
    /// `value`.
    pub value: u64,
    /// `cookie`.
    pub cookie: u32,
}

impl RegisterControl {
    /// Bytes on the wire.
    pub const LEN: usize = 20;

    /// Reads it; every number has its most significant bit first.
    pub fn from_bytes(bytes: &[u8; 20]) -> RegisterControl {
        RegisterControl {
            op: bits(bytes, 0, 8) as u8,
            status: bits(bytes, 8, 8) as u8,
            reg: bits(bytes, 16, 8) as u8,
            count: bits(bytes, 24, 8) as u8,
            group: bits(bytes, 32, 16) as u16,
            index: bits(bytes, 48, 16) as u16,
            value: bits(bytes, 64, 64) as u64,
            cookie: bits(bytes, 128, 32) as u32,
        }
    }

    /// Writes it. Of each field the bits that it has on the wire count.
    pub fn to_bytes(&self) -> [u8; 20] {
        let mut bytes = [0; 20];
        put(&mut bytes, 0, 8, self.op as u128);
        put(&mut bytes, 8, 8, self.status as u128);
        put(&mut bytes, 16, 8, self.reg as u128);
        put(&mut bytes, 24, 8, self.count as u128);
        put(&mut bytes, 32, 16, self.group as u128);
        put(&mut bytes, 48, 16, self.index as u128);
        put(&mut bytes, 64, 64, self.value as u128);
        put(&mut bytes, 128, 32, self.cookie as u128);
        bytes
    }
}

/// Before an ACK or NAK that goes to the controller or comes from it (MinPsn.PUNT).
/// PacketIn   `port` is the source's (0: none yet), with what was last acknowledged to it
/// PacketOut  the feedback to send, through `port`; 0 means the source's
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// `group`.
    pub group: u16,
    /// `port`.
    pub port: u16,
    /// `agg_psn`.
    pub agg_psn: u32,
    /// `agg_msn`.
    pub agg_msn: u32,
}

impl Feedback {
    /// Bytes on the wire.
    pub const LEN: usize = 10;

    /// Reads it; every number has its most significant bit first.
    pub fn from_bytes(bytes: &[u8; 10]) -> Feedback {
        Feedback {
            group: bits(bytes, 0, 16) as u16,
            port: bits(bytes, 16, 16) as u16,
            agg_psn: bits(bytes, 32, 24) as u32,
            agg_msn: bits(bytes, 56, 24) as u32,
        }
    }

    /// Writes it. Of each field the bits that it has on the wire count.
    pub fn to_bytes(&self) -> [u8; 10] {
        let mut bytes = [0; 10];
        put(&mut bytes, 0, 16, self.group as u128);
        put(&mut bytes, 16, 16, self.port as u128);
        put(&mut bytes, 32, 24, self.agg_psn as u128);
        put(&mut bytes, 56, 24, self.agg_msn as u128);
        bytes
    }
}

/// What a packet is, in terms of the protocol (classify.p4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// none of the group's
    None = 0,
    /// SEND or WRITE
    Data = 1,
    /// `ACK`.
    Ack = 2,
    /// PSN sequence error, or RNR
    Nak = 3,
    /// a receiver has ended its queue pair
    FatalNak = 4,
    /// `CNP`.
    Cnp = 5,
    /// READ or ATOMIC: nothing that a group could answer
    Read = 6,
    /// an ACK that recirculates, looking for the minimum
    MinSearch = 7,
    /// an ACK or NAK that the controller has aggregated
    Command = 8,
    /// register control
    Registers = 9,
    /// one packet is lost; nothing is acknowledged
    SelectiveNak = 10,
    /// on Tofino: what was acknowledged to the source, on its way back to the source's window
    Window = 11,
}

impl Kind {
    /// All of them, in the program's order.
    pub const ALL: [Kind; 12] = [
        Kind::None,
        Kind::Data,
        Kind::Ack,
        Kind::Nak,
        Kind::FatalNak,
        Kind::Cnp,
        Kind::Read,
        Kind::MinSearch,
        Kind::Command,
        Kind::Registers,
        Kind::SelectiveNak,
        Kind::Window,
    ];
}

/// What ingress decided about a group's packet; egress acts on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Verdict {
    /// `NONE`.
    None = 0,
    /// data: one copy for each path
    Replicate = 1,
    /// to the source: a CNP, a selective or fatal NAK
    Pass = 2,
    /// a merged ACK or NAK for the source
    Feedback = 3,
    /// a request turned into an ACK or NAK for its sender
    Answer = 4,
    /// an ACK with no news for the source: only the filter is updated
    Record = 5,
    /// an ACK that recirculates, looking for the minimum
    Walk = 6,
    /// an ACK for the controller, which looks for the minimum
    Punt = 7,
}

impl Verdict {
    /// All of them, in the program's order.
    pub const ALL: [Verdict; 8] = [
        Verdict::None,
        Verdict::Replicate,
        Verdict::Pass,
        Verdict::Feedback,
        Verdict::Answer,
        Verdict::Record,
        Verdict::Walk,
        Verdict::Punt,
    ];
}

/// Roles of clones and recirculated packets that ingress chose beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Role {
    /// `NONE`.
    None = 0,
    /// looks for the minimum, node by node
    Walk = 1,
    /// the same, on behalf of old data, which gets an answer
    Probe = 2,
}

impl Role {
    /// All of them, in the program's order.
    pub const ALL: [Role; 3] = [
        Role::None,
        Role::Walk,
        Role::Probe,
    ];
}

/// What the walk makes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum SearchState {
    /// no walk
    Idle = 0,
    /// it recirculates once more
    On = 1,
    /// meta.walk_word is the minimum
    Done = 2,
    /// another walk has taken over
    Lost = 3,
}

impl SearchState {
    /// All of them, in the program's order.
    pub const ALL: [SearchState; 4] = [
        SearchState::Idle,
        SearchState::On,
        SearchState::Done,
        SearchState::Lost,
    ];
}

/// What the tournament tree is to do with a path's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TreeOp {
    /// nothing: the packet concerns no path
    None = 0,
    /// the path has acknowledged or sent the word: the newer one stays
    Update = 1,
    /// the path's word stays; the minimum is wanted all the same
    Keep = 2,
    /// the controller sets the word, be it older or newer
    Force = 3,
    /// the paths of the node start from the word's PSN
    Init = 4,
    /// the oldest word of the node; nothing changes
    Look = 5,
}

impl TreeOp {
    /// All of them, in the program's order.
    pub const ALL: [TreeOp; 6] = [
        TreeOp::None,
        TreeOp::Update,
        TreeOp::Keep,
        TreeOp::Force,
        TreeOp::Init,
        TreeOp::Look,
    ];
}

/// Paths (ports of a group's tree) per group and switch.
pub const MAX_PATHS: u32 = 64;

/// Groups per switch.
pub const MAX_GROUPS: u32 = 0x400;

/// Groups of datagrams per switch; their PRE groups are numbered behind those of reliable groups, which begin with 1.
pub const MAX_DATAGRAM_GROUPS: u32 = 0x400;

/// `FIRST_DATAGRAM_PRE_GROUP`.
pub const FIRST_DATAGRAM_PRE_GROUP: u16 = 0x401;

/// `LOSS_MASK`.
pub const LOSS_MASK: u32 = 63;

/// `SIZE_PATHS`.
pub const SIZE_PATHS: u32 = 0x1_0000;

/// `SIZE_ARP_TARGETS`.
pub const SIZE_ARP_TARGETS: u32 = 0x400;

/// `SIZE_ROUTES`.
pub const SIZE_ROUTES: u32 = 0x2000;

/// `SIZE_NEXT_HOPS`.
pub const SIZE_NEXT_HOPS: u32 = 0x1000;

/// `SIZE_PORTS`.
pub const SIZE_PORTS: u32 = 0x200;

/// Kinds of packets for the controller, from 0: PacketInReason.
pub const PUNT_KINDS: u32 = 8;

/// `SIZE_PUNT_RATES`.
pub const SIZE_PUNT_RATES: u32 = 0x1000;

/// Members next to the switch, all groups together: those that send to it, and those that it delivers to, each of which
/// has a cell of its own for the memory announced for it (memory_regions.p4).
pub const SIZE_MEMBERS: u32 = 0x4000;

/// `SIZE_RECEIVERS`.
pub const SIZE_RECEIVERS: u32 = 0x4000;

/// The cell behind them, of those that get no announcements: nobody writes it.
pub const NO_SLOT: u32 = 0x4000;

/// The port between pipeline and controller: start the switch with --cpu-port 510.
pub const CPU_PORT: u16 = 0x1fe;

/// standard_metadata.instance_type as BMv2 sets it (simple_switch document, "intrinsic metadata").
pub const INSTANCE_INGRESS_CLONE: u32 = 1;

/// `INSTANCE_EGRESS_CLONE`.
pub const INSTANCE_EGRESS_CLONE: u32 = 2;

/// `INSTANCE_RECIRCULATED`.
pub const INSTANCE_RECIRCULATED: u32 = 4;

/// `INSTANCE_REPLICATION`.
pub const INSTANCE_REPLICATION: u32 = 5;

/// No path at all.
pub const PATH_NONE: u8 = 255;

/// `width` bits of a header, from bit `at` on.
fn bits(bytes: &[u8], at: usize, width: usize) -> u128 {
    if at % 8 == 0 && width % 8 == 0 {
        let whole = bytes[at / 8..][..width / 8].iter();
        return whole.fold(0, |value, byte| value << 8 | u128::from(*byte));
    }
    (at..at + width).fold(0, |value, bit| value << 1 | u128::from(bytes[bit / 8] >> (7 - bit % 8) & 1))
}

/// Writes the low `width` bits of a value over zeros, from bit `at` on.
fn put(bytes: &mut [u8], at: usize, width: usize, value: u128) {
    if at % 8 == 0 && width % 8 == 0 {
        let whole = &value.to_be_bytes()[16 - width / 8..];
        return bytes[at / 8..][..width / 8].copy_from_slice(whole);
    }
    for bit in 0..width {
        let to = at + width - 1 - bit;
        bytes[to / 8] |= u8::from(value >> bit & 1 == 1) << (7 - to % 8);
    }
}
