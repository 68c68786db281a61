//! Numbers of `p4src/v1model/main.p4`. Written by `alfirk p4c --constants-files`; change them there.

/// EtherType of IPv4 (IEEE 802 numbers)
pub const ETHERTYPE_IPV4: u16 = 0x800;

/// EtherType of ARP (RFC 826)
pub const ETHERTYPE_ARP: u16 = 0x806;

/// IEEE 802.1Q, also priority tags (VLAN 0)
pub const ETHERTYPE_C_TAG: u16 = 0x8100;

/// IEEE 802.1ad
pub const ETHERTYPE_S_TAG: u16 = 0x88a8;

/// length of a VLAN tag
pub const TAG_BYTES: u32 = 4;

/// ARP hardware type of Ethernet (RFC 826)
pub const ARP_HTYPE_ETHERNET: u16 = 1;

/// ARP operation of a request (RFC 826)
pub const ARP_OPER_REQUEST: u16 = 1;

/// ARP operation of a reply (RFC 826)
pub const ARP_OPER_REPLY: u16 = 2;

/// IPv4 protocol number of TCP
pub const IP_PROTOCOL_TCP: u8 = 6;

/// IPv4 protocol number of UDP
pub const IP_PROTOCOL_UDP: u8 = 17;

/// UDP ports of RoCEv2 (IBTA vol. 1, annex A17.3.1) and of Alfirk's registration protocol.
pub const UDP_PORT_ROCEV2: u16 = 0x12b7;

/// UDP port of Alfirk's registration protocol (MRP)
pub const UDP_PORT_MRP: u16 = 0x12b6;

/// BTH opcodes of the reliable connection service (IBTA vol. 1, table 38).
pub const OPCODE_RC_SEND_FIRST: u8 = 0;

/// RDMA WRITE First
pub const OPCODE_RC_WRITE_FIRST: u8 = 6;

/// RDMA WRITE Only
pub const OPCODE_RC_WRITE_ONLY: u8 = 10;

/// RDMA WRITE Only with Immediate
pub const OPCODE_RC_WRITE_ONLY_IMM: u8 = 11;

/// RDMA READ Request
pub const OPCODE_RC_READ_REQUEST: u8 = 12;

/// Acknowledge: an ACK or NAK
pub const OPCODE_RC_ACKNOWLEDGE: u8 = 17;

/// atomic CmpSwap
pub const OPCODE_RC_COMPARE_SWAP: u8 = 19;

/// atomic FetchAdd
pub const OPCODE_RC_FETCH_ADD: u8 = 20;

/// SEND Last with Invalidate
pub const OPCODE_RC_SEND_LAST_INV: u8 = 22;

/// SEND Only with Invalidate
pub const OPCODE_RC_SEND_ONLY_INV: u8 = 23;

/// FLUSH
pub const OPCODE_RC_FLUSH: u8 = 28;

/// ATOMIC WRITE
pub const OPCODE_RC_ATOMIC_WRITE: u8 = 29;

/// congestion notification packet of RoCEv2 (IBTA annex A17.9.3)
pub const OPCODE_CNP: u8 = 129;

/// The upper three bits of the opcodes of unreliable datagrams (the same table).
pub const OPCODE_CLASS_UD: u8 = 3;

/// Multicast of datagrams: queue pair number of all receivers (IBTA vol. 1, section 10.5), prefix of IPv4 group addresses, and the
/// first 24 bits of their MAC addresses; a zero bit and the lower 23 bits of the IPv4 address follow (RFC 1112, section 6.4).
pub const MULTICAST_QPN: u32 = 0xff_ffff;

/// upper four bits of IPv4 multicast addresses, 224.0.0.0/4
pub const IPV4_MULTICAST: u8 = 14;

/// first 24 bits of the MAC addresses of IPv4 multicast (RFC 1112)
pub const MULTICAST_MAC: u32 = 0x1_005e;

/// AETH syndromes (IBTA vol. 1, section 9.7.5.1.4): two type bits after a zero, then a value.
pub const AETH_ACK: u8 = 0;

/// type bits of an RNR NAK; the value is the timer code
pub const AETH_RNR_NAK: u8 = 1;

/// type bits of a NAK; the value is the NAK code
pub const AETH_NAK: u8 = 3;

/// NAK code of a PSN sequence error
pub const NAK_PSN_SEQUENCE_ERROR: u8 = 0;

/// NAK code of an invalid request
pub const NAK_INVALID_REQUEST: u8 = 1;

/// NAK code of a remote operational error
pub const NAK_REMOTE_OPERATIONAL: u8 = 3;

/// Selective NAK: a code reserved by the specification, accepted only if the group's entry enables selective repeat
/// (selective_nak.p4). Between receivers and switches the PSN is that of the lost packet, and the MSN is the number of reports
/// by its receiver, 1 to 255. A source gets it with the PSN after the last acknowledged one, and the lost PSN as MSN.
pub const NAK_SELECTIVE: u8 = 31;

/// ACK without end-to-end credits (credit field 31), as Soft-RoCE sends it.
pub const SYNDROME_ACK_NO_CREDITS: u8 = 31;

/// Strategies for a group's minimum PSN (parameter min_psn of set_group).
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

/// Strategies for the ICRC of a group's data (parameter icrc of set_group).
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

/// The payload of data is parsed only for McstIDs of this network, as parsers have no group table.
pub const RECOMPUTE_NETWORK: u32 = 0xaff_8000;

/// netmask of RECOMPUTE_NETWORK: 17 bits
pub const RECOMPUTE_MASK: u32 = 0xffff_8000;

/// R_Key of a WRITE Only that carries a memory region for a leaf switch (memory_regions.p4).
pub const MR_INFO_RKEY: u32 = 0xa1f1_4b31;

/// UDP length of such a packet, and of the empty WRITE that hosts get instead: UDP (8) + BTH (12) +
/// RETH (16) + ICRC (4), and 16 bytes of XOR differences.
pub const MR_INFO_UDP_BYTES: u16 = 56;

/// UDP length of the empty WRITE
pub const EMPTY_WRITE_UDP_BYTES: u16 = 40;

/// IPv4 total length of the empty WRITE
pub const EMPTY_WRITE_IPV4_BYTES: u16 = 60;

/// Part of the UDP length that is not payload: UDP, BTH and ICRC, and those with a RETH.
pub const UDP_OVERHEAD_BYTES: u16 = 24;

/// UDP, BTH, RETH and ICRC
pub const UDP_OVERHEAD_WITH_RETH_BYTES: u16 = 40;

/// Default window: packets that a source may send beyond the last acknowledged one, if the group's entry (set_group) has none.
/// More than queue pairs have outstanding (128 in Linux' rdma_rxe), and far below 2^23, the limit of serial comparison.
pub const DEFAULT_WINDOW: u32 = 0x1_0000;

/// Messages by which the next MSN may be ahead of the one that a controller has written after a loss of registers (last_acked.p4).
pub const UNKNOWN_MSN_ROOM: u32 = 0x8000;

/// Timeout of a walk in microseconds, after which its packet is taken as lost.
pub const WALK_TIMEOUT_US: u32 = 0x3e8;

/// ECN code points (RFC 3168).
pub const ECN_NOT_ECT: u8 = 0;

/// congestion experienced
pub const ECN_CE: u8 = 3;

/// Virtual queue pair number of groups without their own one.
pub const FIXED_VIRTUAL_QPN: u32 = 1;

/// The default P_Key without its membership bit (IBTA vol. 1, section 10.9): groups are in this partition.
pub const DEFAULT_PARTITION: u16 = 0x7fff;

/// MAC address of the fabric, as hosts see it.
pub const VIRTUAL_MAC: u64 = 0x2a1_f14c_0001;

/// length of an Ethernet header without tags
pub const ETHERNET_BYTES: u32 = 14;

/// Length of the IPv4 header: groups' packets have no options.
pub const UDP_OFFSET_BYTES: u32 = 20;

/// IPv4 length of an ACK: IPv4 (20) + UDP (8) + BTH (12) + AETH (4) + ICRC (4).
pub const ACK_IPV4_BYTES: u16 = 48;

/// UDP length of an ACK
pub const ACK_UDP_BYTES: u16 = 28;

/// length of an ACK from the Ethernet header to the ICRC, without tags
pub const ACK_FRAME_BYTES: u32 = 62;

/// TTL of an ACK that a switch creates from data.
pub const ACK_TTL: u8 = 64;

/// TTL of feedback that a switch merges or forwards: as if the member were at this switch.
pub const FEEDBACK_TTL: u8 = 63;

/// UDP source port of all feedback of switches, before the exit half of the bridge.
pub const FEEDBACK_UDP_SOURCE_PORT: u16 = 0xc000;

/// IPv4 (20) + UDP (8) + BTH (12) + 16 reserved bytes + ICRC (4) (IBTA annex A17.9.3).
pub const CNP_IPV4_BYTES: u16 = 60;

/// UDP length of a CNP
pub const CNP_UDP_BYTES: u16 = 40;

/// length of a CNP from the Ethernet header to the ICRC, without tags
pub const CNP_FRAME_BYTES: u32 = 74;

/// A probe after packet_in (3) and feedback (10).
pub const PROBE_PACKET_IN_BYTES: u32 = 75;

/// A fatal NAK after packet_in (3).
pub const FATAL_NAK_PACKET_IN_BYTES: u32 = 65;

/// A registration packet after packet_in (3): Ethernet (14) and at most 1,500 bytes of IPv4.
pub const MRP_PACKET_IN_BYTES: u32 = 0x5ed;

/// Path index in words written by a sender's own data: the largest one, so that it loses every tie and the MSN of a
/// receiver is used.
pub const PATH_OF_SENDER: u8 = 255;

/// packet_out.kind
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PacketOutKind {
    /// a frame for packet_out.egress_port
    Forward = 0,
    /// a register control header
    Registers = 1,
    /// an ACK or NAK that the controller sends
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
    /// the reply to a register control header
    Registers = 1,
    /// a registration packet of a host
    Mrp = 2,
    /// an ACK or NAK of a group of MinPsn.PUNT
    Feedback = 3,
    /// old data of such a group, as an ACK of its PSN, to be acknowledged if all paths have it
    Probe = 4,
    /// data to egress port `ingress_port`, whose ICRC the controller computes
    Icrc = 5,
    /// a NAK of a receiver whose queue pair is in the error state
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
    /// initialise all registers of a group
    InitGroup = 1,
    /// read one register
    Read = 2,
    /// write one register
    Write = 3,
    /// clear the memory regions announced to receivers
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
    /// the operation is complete
    Ok = 0,
    /// the operation is unknown
    BadOp = 1,
    /// the register is unknown
    BadRegister = 2,
    /// group, path or count exceeds the pipeline's sizes
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

/// register_control.reg: registers that can be read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RegisterName {
    /// agg_psn \<\< 24 | agg_msn
    Agg = 1,
    /// nak_syndrome \<\< 24 | nak_psn, 0 if no NAK is pending; bit 31 is set if it was sent to the source
    Nak = 2,
    /// port of the source, 0 if there was none
    SrcPort = 3,
    /// of a path: ack_psn \<\< 8 | path; to write, absent \<\< 32 | that
    Ack = 4,
    /// of a path, its lower 16 bits; to be written before RegisterName.ACK, which propagates it up the tree
    Msn = 5,
    /// of a path: the egress copy of ack_psn, for the retransmission filter
    Filter = 6,
    /// of a receiver: XOR difference of the virtual address (memory_regions.p4)
    RegionVa = 7,
    /// of a receiver: the same for R_Key \<\< 32 | identification \<\< 16 | source port
    RegionKeys = 8,
    /// of a receiver: the PSN of the WRITE that announced both
    RegionAnnouncedAt = 9,
    /// newest PSN sent by a source
    Sent = 10,
    /// of a path, read only: newest PSN that its feedback has acknowledged, even beyond SENT
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
    /// not dropped
    None = 0,
    /// the parser rejected the packet
    ParserError = 1,
    /// wrong IPv4 header checksum
    Ipv4Checksum = 2,
    /// neither IPv4 nor ARP
    UnknownEthertype = 3,
    /// an ARP packet without a reply: not a request, or not for an address of the fabric
    ArpNotForUs = 4,
    /// no route to the destination address
    NoRoute = 5,
    /// the TTL is 0 or 1
    TtlExpired = 6,
    /// a group packet on a port outside the group's tree
    NotAPath = 7,
    /// a group packet of a host that is not the member on that port
    NotAMember = 8,
    /// a packet for another queue pair than the group's, or of an earlier group's
    WrongQpn = 9,
    /// an opcode that is neither of a reliable connection nor a CNP, or not allowed on this port
    UnsupportedOpcode = 10,
    /// an ACK, NAK or CNP with a wrong ICRC
    FeedbackIcrc = 11,
    /// an ACK or NAK that only updated registers
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
    /// a search packet that returned after another walk had begun
    WalkTakenOver = 22,
    /// data of a host that is not the source, and not the next PSN
    NotTheSource = 23,
    /// a group packet in IP fragments or with IP options
    Fragment = 24,
    /// an ACK or NAK of a PSN that no source has sent
    BeyondSent = 25,
    /// a NAK that was sent to the source, which has not yet resent its PSN
    NakAlreadySent = 26,
    /// a member's packet of another partition
    WrongPkey = 27,
    /// data of a member that may only receive
    MayNotSend = 28,
    /// a READ or ATOMIC shortly after another one of the host was refused
    RefusalLimited = 29,
    /// beyond the port's rate limit of packets to the controller (punt_limit.p4)
    PuntLimited = 30,
    /// a datagram to a group with a MAC address that is not the group's
    WrongMulticastMac = 31,
    /// an AETH syndrome that IBTA reserves, or that the group does not use
    ReservedSyndrome = 32,
    /// data beyond the window of the source
    BeyondWindow = 33,
    /// a request whose lengths, padding or transport version are wrong
    Malformed = 34,
    /// a CNP of the source itself (IBTA annex A17.9.3)
    OwnCnp = 35,
    /// a CNP beyond the rate limit of its path
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

/// cells of ingress.drops and egress.drops
pub const SIZE_DROP_REASONS: u32 = 64;

/// Cells of the counter array ingress.ack_aggregate.work; those of a strategy begin at cell 8 * MinPsn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Work {
    /// ACKs and NAKs received
    Feedback = 0,
    /// ACKs and NAKs forwarded to the source
    Forwarded = 1,
    /// passes through the pipeline after the first one
    Recirculations = 2,
    /// packets punted to the controller
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

/// cells of ingress.ack_aggregate.work
pub const SIZE_WORK: u32 = 32;

/// Register access by PacketOut, which works on every target: the P4Runtime server of
/// BMv2 rejects RegisterEntry. The reply is the same header in a PacketIn.
/// INIT_GROUP  initialises `group` with `count` paths: the next PSN is value\[23:0\], the MSN value\[47:24\]; on Tofino the port of the
/// source is value\[63:48\], on v1model the sender of the next data becomes the source
/// READ        value := reg of `group` (and of path `index`, if it has a cell per path)
/// WRITE       reg of `group` (and of path `index`) := value
/// INIT_REGIONS  clears the memory regions announced to `count` receivers, from slot `group` ++ `index` on, as before PSN value\[23:0\]
/// While INIT_GROUP recirculates, `index` is the number of initialised paths. For registers with a cell per receiver, `group` ++
/// `index` is the receiver's slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegisterControl {
    /// RegisterOp
    pub op: u8,
    /// RegisterStatus, in replies
    pub status: u8,
    /// RegisterName, for READ and WRITE
    pub reg: u8,
    /// number of paths or receivers to initialise
    pub count: u8,
    /// index of the group
    pub group: u16,
    /// path, or number of initialised paths
    pub index: u16,
    /// value read or to be written
    pub value: u64,
    /// chosen by the controller, repeated in the reply
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

/// Header before an ACK or NAK to or from the controller (MinPsn.PUNT).
/// PacketIn   `port` is that of the source (0: none yet); PSN and MSN are those last acknowledged to it
/// PacketOut  the feedback to send through `port`; 0 means the port of the source
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// index of the group
    pub group: u16,
    /// port of the source, or egress port
    pub port: u16,
    /// PSN last acknowledged to the source
    pub agg_psn: u32,
    /// MSN last acknowledged to the source
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

/// Kind of a packet in terms of the protocol (classify.p4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// not a packet of a group
    None = 0,
    /// SEND or WRITE
    Data = 1,
    /// positive acknowledgement
    Ack = 2,
    /// PSN sequence error, or RNR
    Nak = 3,
    /// the receiver's queue pair is in the error state
    FatalNak = 4,
    /// congestion notification
    Cnp = 5,
    /// READ or ATOMIC, which a group cannot execute
    Read = 6,
    /// an ACK that recirculates to find the minimum
    MinSearch = 7,
    /// an ACK or NAK that the controller sends
    Command = 8,
    /// register control
    Registers = 9,
    /// report of one lost packet; acknowledges nothing
    SelectiveNak = 10,
    /// on Tofino: a recirculated record, which advances the window of the source
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

/// Decision of ingress on a group's packet, which egress executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Verdict {
    /// no verdict: the packet is not of a group, or is dropped
    None = 0,
    /// data: one copy for each path
    Replicate = 1,
    /// to the source: a CNP, a selective or fatal NAK
    Pass = 2,
    /// a merged ACK or NAK to the source
    Feedback = 3,
    /// a request turned into an ACK or NAK to its sender
    Answer = 4,
    /// an ACK that does not advance the minimum: only the filter is updated
    Record = 5,
    /// an ACK that recirculates to find the minimum
    Walk = 6,
    /// an ACK to the controller, which computes the minimum
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

/// Roles of clones and recirculated packets, chosen by ingress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Role {
    /// any other packet
    None = 0,
    /// searches the minimum, node by node
    Walk = 1,
    /// the same on behalf of old data, which is acknowledged if all paths have it
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

/// State of the search for the minimum (the papers' table walk), as far as this packet is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum SearchState {
    /// the packet does not search
    Idle = 0,
    /// the packet recirculates once more
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

/// Operation of the tournament tree on a path's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TreeOp {
    /// none: the packet concerns no path
    None = 0,
    /// the path has acknowledged or sent the word: the newer one is stored
    Update = 1,
    /// read only: the minimum is needed without an update
    Keep = 2,
    /// the controller sets the word, older or newer
    Force = 3,
    /// initialise all paths of the node with the word's PSN
    Init = 4,
    /// read the oldest word of the node
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

/// PRE group of datagram group 0
pub const FIRST_DATAGRAM_PRE_GROUP: u16 = 0x401;

/// PSN bits that select the slot of a loss
pub const LOSS_MASK: u32 = 63;

/// cells of registers with one cell per path
pub const SIZE_PATHS: u32 = 0x1_0000;

/// entries of arp_targets
pub const SIZE_ARP_TARGETS: u32 = 0x400;

/// entries of routes
pub const SIZE_ROUTES: u32 = 0x2000;

/// entries of next_hops
pub const SIZE_NEXT_HOPS: u32 = 0x1000;

/// number of port numbers
pub const SIZE_PORTS: u32 = 0x200;

/// Kinds of packets for the controller, from 0: PacketInReason.
pub const PUNT_KINDS: u32 = 8;

/// cells of the meter of packets to the controller
pub const SIZE_PUNT_RATES: u32 = 0x1000;

/// Members next to the switch, all groups together: those that send to it, and those that it delivers to, each of which
/// has a cell of its own for the memory announced for it (memory_regions.p4).
pub const SIZE_MEMBERS: u32 = 0x4000;

/// entries of receivers, and cells of registers per receiver
pub const SIZE_RECEIVERS: u32 = 0x4000;

/// The cell after these, for receivers without announcements; never written.
pub const NO_SLOT: u32 = 0x4000;

/// The port between pipeline and controller: start the switch with --cpu-port 510.
pub const CPU_PORT: u16 = 0x1fe;

/// standard_metadata.instance_type as BMv2 sets it (simple_switch document, "intrinsic metadata").
pub const INSTANCE_INGRESS_CLONE: u32 = 1;

/// clone made in egress
pub const INSTANCE_EGRESS_CLONE: u32 = 2;

/// recirculated packet
pub const INSTANCE_RECIRCULATED: u32 = 4;

/// copy made by the replication engine
pub const INSTANCE_REPLICATION: u32 = 5;

/// Path index that means no path.
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
