//! Constants and headers of `p4src/v1model/main.p4`. Written by `alfirk p4c --constants-files`; change them there.

/// EtherType of IPv4 (IEEE 802 numbers)
pub const ETHERTYPE_IPV4: u16 = 0x800;

/// EtherType of ARP (RFC 826)
pub const ETHERTYPE_ARP: u16 = 0x806;

/// EtherType of C-VLAN tags (IEEE 802.1Q), also of priority tags (VLAN 0)
pub const ETHERTYPE_C_TAG: u16 = 0x8100;

/// EtherType of S-VLAN tags (IEEE 802.1ad)
pub const ETHERTYPE_S_TAG: u16 = 0x88a8;

/// length of a VLAN tag in bytes
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

/// UDP port of RoCEv2 (IBTA vol. 1, annex A17.3.1)
pub const UDP_PORT_ROCEV2: u16 = 0x12b7;

/// UDP port of Alfirk's registration protocol (MRP)
pub const UDP_PORT_MRP: u16 = 0x12b6;

/// BTH opcode of SEND First; OPCODE_RC_* are those of the reliable connection service (IBTA vol. 1, table 38).
pub const OPCODE_RC_SEND_FIRST: u8 = 0;

/// BTH opcode of RDMA WRITE First
pub const OPCODE_RC_WRITE_FIRST: u8 = 6;

/// BTH opcode of RDMA WRITE Last
pub const OPCODE_RC_WRITE_LAST: u8 = 8;

/// BTH opcode of RDMA WRITE Only
pub const OPCODE_RC_WRITE_ONLY: u8 = 10;

/// BTH opcode of RDMA WRITE Only with Immediate
pub const OPCODE_RC_WRITE_ONLY_IMM: u8 = 11;

/// BTH opcode of RDMA READ Request
pub const OPCODE_RC_READ_REQUEST: u8 = 12;

/// BTH opcode of Acknowledge: an ACK or NAK
pub const OPCODE_RC_ACKNOWLEDGE: u8 = 17;

/// BTH opcode of the atomic operation CmpSwap
pub const OPCODE_RC_COMPARE_SWAP: u8 = 19;

/// BTH opcode of the atomic operation FetchAdd
pub const OPCODE_RC_FETCH_ADD: u8 = 20;

/// BTH opcode of SEND Last with Invalidate
pub const OPCODE_RC_SEND_LAST_INV: u8 = 22;

/// BTH opcode of SEND Only with Invalidate
pub const OPCODE_RC_SEND_ONLY_INV: u8 = 23;

/// BTH opcode of FLUSH
pub const OPCODE_RC_FLUSH: u8 = 28;

/// BTH opcode of ATOMIC WRITE
pub const OPCODE_RC_ATOMIC_WRITE: u8 = 29;

/// BTH opcode of RoCEv2's congestion notification packet (IBTA annex A17.9.3)
pub const OPCODE_CNP: u8 = 129;

/// Upper three bits of the BTH opcodes of unreliable datagrams (UD; IBTA vol. 1, table 38).
pub const OPCODE_CLASS_UD: u8 = 3;

/// Destination queue pair number of datagrams to a multicast group (IBTA vol. 1, section 10.5).
pub const MULTICAST_QPN: u32 = 0xff_ffff;

/// upper four bits of IPv4 multicast addresses, 224.0.0.0/4
pub const IPV4_MULTICAST: u8 = 14;

/// first 24 bits of the MAC addresses of IPv4 multicast (RFC 1112, section 6.4)
pub const MULTICAST_MAC: u32 = 0x1_005e;

/// Upper three bits of the AETH syndrome of an ACK (IBTA vol. 1, section 9.7.5.1.4); the lower five are the credit count.
pub const AETH_ACK: u8 = 0;

/// upper three bits of the AETH syndrome of an RNR NAK; the lower five are the timer code
pub const AETH_RNR_NAK: u8 = 1;

/// upper three bits of the AETH syndrome of a NAK; the lower five are the NAK code
pub const AETH_NAK: u8 = 3;

/// NAK code of a PSN sequence error
pub const NAK_PSN_SEQUENCE_ERROR: u8 = 0;

/// NAK code of an invalid request
pub const NAK_INVALID_REQUEST: u8 = 1;

/// NAK code of a remote operational error
pub const NAK_REMOTE_OPERATIONAL: u8 = 3;

/// NAK code of a selective NAK, which the specification reserves. It is accepted only if the group's entry enables
/// selective repeat (selective_nak.p4). In a selective NAK of a receiver, the PSN is that of the lost packet, and the MSN
/// is the number of reports by this receiver, 1 to 255. In the one that the source gets, the PSN is the one after the
/// last acknowledged PSN, and the MSN is the lost PSN.
pub const NAK_SELECTIVE: u8 = 31;

/// AETH syndrome of an ACK without end-to-end credits (credit field 31), as Soft-RoCE sends it.
pub const SYNDROME_ACK_NO_CREDITS: u8 = 31;

/// How a switch finds the minimum acknowledged PSN of a group (parameter min_psn of set_group).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MinPsn {
    /// by a tournament tree in registers, in one pass of the ACK (min_psn_tree.p4)
    Tree = 0,
    /// by recirculation of the ACK (min_psn_walk.p4)
    Walk = 1,
    /// by the controller, to which switches pass ACKs
    Punt = 2,
}

impl MinPsn {
    /// All values of `MinPsn`, in the order of the P4 program.
    pub const ALL: [MinPsn; 3] = [
        MinPsn::Tree,
        MinPsn::Walk,
        MinPsn::Punt,
    ];
}

/// How the ICRC of data stays valid when headers are rewritten (parameter icrc of set_group).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum IcrcMode {
    /// two other header fields are changed by XOR constants, so that the ICRC stays the same
    Neutral = 0,
    /// the pipeline recomputes the ICRC; the McstID must be in RECOMPUTE_NETWORK
    Recompute = 1,
    /// the controller recomputes the ICRC
    Punt = 2,
}

impl IcrcMode {
    /// All values of `IcrcMode`, in the order of the P4 program.
    pub const ALL: [IcrcMode; 3] = [
        IcrcMode::Neutral,
        IcrcMode::Recompute,
        IcrcMode::Punt,
    ];
}

/// Network of the McstIDs of groups with IcrcMode.RECOMPUTE. Parsers have no group table, so they parse payloads by address.
pub const RECOMPUTE_NETWORK: u32 = 0xaff_8000;

/// netmask of RECOMPUTE_NETWORK: 17 bits
pub const RECOMPUTE_MASK: u32 = 0xffff_8000;

/// R_Key of a WRITE Only that carries a memory region for a leaf switch (memory_regions.p4).
pub const MR_INFO_RKEY: u32 = 0xa1f1_4b31;

/// UDP length of a WRITE Only that carries a memory region (MR_INFO_RKEY): UDP (8) + BTH (12) + RETH (16) + XOR
/// differences (16) + ICRC (4).
pub const MR_INFO_UDP_BYTES: u16 = 56;

/// UDP length of a WRITE Only without payload, which hosts get in place of an announced memory region.
pub const EMPTY_WRITE_UDP_BYTES: u16 = 40;

/// IPv4 total length of a WRITE Only without payload, EMPTY_WRITE_UDP_BYTES + 20
pub const EMPTY_WRITE_IPV4_BYTES: u16 = 60;

/// UDP length of a packet with BTH but without RETH, less its payload: UDP, BTH and ICRC.
pub const UDP_OVERHEAD_BYTES: u16 = 24;

/// UDP length of a packet with a RETH, less its payload: UDP, BTH, RETH and ICRC.
pub const UDP_OVERHEAD_WITH_RETH_BYTES: u16 = 40;

/// Window if the group's entry (set_group) has none: the number of packets that a source may send beyond the last
/// acknowledged one. It is more than queue pairs have outstanding (128 in Linux' rdma_rxe), and less than 2^23, the limit
/// of serial comparison.
pub const DEFAULT_WINDOW: u32 = 0x1_0000;

/// Maximum increase of the MSN by the first ACK after a controller has restored the registers, because it writes only a
/// lower bound of the MSN (last_acked.p4).
pub const UNKNOWN_MSN_ROOM: u32 = 0x8000;

/// Timeout in microseconds of a search for the minimum PSN by recirculation (table walk); its packet is then taken as lost.
pub const WALK_TIMEOUT_US: u32 = 0x3e8;

/// ECN code point of a packet whose transport does not support ECN (RFC 3168).
pub const ECN_NOT_ECT: u8 = 0;

/// ECN code point "congestion experienced" (RFC 3168)
pub const ECN_CE: u8 = 3;

/// Destination queue pair number of members' packets to a group whose entry (set_group) has none.
pub const FIXED_VIRTUAL_QPN: u32 = 1;

/// Partition of all groups: the default P_Key without its membership bit (IBTA vol. 1, section 10.9).
pub const DEFAULT_PARTITION: u16 = 0x7fff;

/// MAC address of the fabric, to which hosts send packets for groups.
pub const VIRTUAL_MAC: u64 = 0x2a1_f14c_0001;

/// length of an Ethernet header without VLAN tags
pub const ETHERNET_BYTES: u32 = 14;

/// Offset of the UDP header in an IPv4 packet, 20: packets of groups have no IPv4 options.
pub const UDP_OFFSET_BYTES: u32 = 20;

/// IPv4 total length of an ACK or NAK: IPv4 (20) + UDP (8) + BTH (12) + AETH (4) + ICRC (4).
pub const ACK_IPV4_BYTES: u16 = 48;

/// UDP length of an ACK or NAK
pub const ACK_UDP_BYTES: u16 = 28;

/// length of an ACK or NAK from the Ethernet header to the ICRC, without VLAN tags
pub const ACK_FRAME_BYTES: u32 = 62;

/// TTL of an ACK that a switch creates from data.
pub const ACK_TTL: u8 = 64;

/// TTL of ACKs, NAKs and CNPs that a switch merges or forwards: that of a member attached to this switch.
pub const FEEDBACK_TTL: u8 = 63;

/// UDP source port of ACKs, NAKs and CNPs from switches, before the exit half of the bridge (bridge_exit.p4) rewrites it.
pub const FEEDBACK_UDP_SOURCE_PORT: u16 = 0xc000;

/// IPv4 total length of a CNP: IPv4 (20) + UDP (8) + BTH (12) + 16 reserved bytes + ICRC (4) (IBTA annex A17.9.3).
pub const CNP_IPV4_BYTES: u16 = 60;

/// UDP length of a CNP
pub const CNP_UDP_BYTES: u16 = 40;

/// length of a CNP from the Ethernet header to the ICRC, without VLAN tags
pub const CNP_FRAME_BYTES: u32 = 74;

/// Length of a PacketIn with reason PROBE: the headers packet_in (3) and feedback (10), then an ACK frame (62).
pub const PROBE_PACKET_IN_BYTES: u32 = 75;

/// Length of a PacketIn with reason FATAL_NAK: the header packet_in (3), then a NAK frame (62).
pub const FATAL_NAK_PACKET_IN_BYTES: u32 = 65;

/// Maximum length of a PacketIn with reason MRP: the header packet_in (3), then Ethernet (14) and an IPv4 packet (1,500).
pub const MRP_PACKET_IN_BYTES: u32 = 0x5ed;

/// Path index in words of the min-PSN tree that a sender's own data writes. It is the largest index, so a receiver with
/// the same PSN wins the tie, and the MSN of that receiver is used.
pub const PATH_OF_SENDER: u8 = 255;

/// What the pipeline does with a PacketOut: the field packet_out.kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PacketOutKind {
    /// send the frame that follows to packet_out.egress_port
    Forward = 0,
    /// execute the register control header that follows
    Registers = 1,
    /// send the ACK or NAK that follows the feedback header
    Feedback = 2,
}

impl PacketOutKind {
    /// All values of `PacketOutKind`, in the order of the P4 program.
    pub const ALL: [PacketOutKind; 3] = [
        PacketOutKind::Forward,
        PacketOutKind::Registers,
        PacketOutKind::Feedback,
    ];
}

/// Why a switch passes a packet to the controller: the field packet_in.reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PacketInReason {
    /// the reply to a register control header
    Registers = 1,
    /// a registration packet of a host
    Mrp = 2,
    /// an ACK or NAK of a group whose minimum PSN the controller computes (MinPsn.PUNT)
    Feedback = 3,
    /// an ACK of the PSN of retransmitted data in a MinPsn.PUNT group, to be sent if all paths have it
    Probe = 4,
    /// data whose ICRC the controller computes; `ingress_port` is its egress port
    Icrc = 5,
    /// a NAK from a receiver whose queue pair is in the error state
    FatalNak = 6,
}

impl PacketInReason {
    /// All values of `PacketInReason`, in the order of the P4 program.
    pub const ALL: [PacketInReason; 6] = [
        PacketInReason::Registers,
        PacketInReason::Mrp,
        PacketInReason::Feedback,
        PacketInReason::Probe,
        PacketInReason::Icrc,
        PacketInReason::FatalNak,
    ];
}

/// Operation on registers that the controller requests: the field register_control.op.
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
    /// All values of `RegisterOp`, in the order of the P4 program.
    pub const ALL: [RegisterOp; 4] = [
        RegisterOp::InitGroup,
        RegisterOp::Read,
        RegisterOp::Write,
        RegisterOp::InitRegions,
    ];
}

/// Result of a register operation: the field register_control.status of a reply.
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
    /// All values of `RegisterStatus`, in the order of the P4 program.
    pub const ALL: [RegisterStatus; 4] = [
        RegisterStatus::Ok,
        RegisterStatus::BadOp,
        RegisterStatus::BadRegister,
        RegisterStatus::OutOfRange,
    ];
}

/// Registers that the controller can read and write: the field register_control.reg.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RegisterName {
    /// PSN and MSN last acknowledged to the source: PSN \<\< 24 | MSN
    Agg = 1,
    /// pending NAK: AETH syndrome \<\< 24 | PSN; 0 without one; bit 31 is set if it was sent to the source
    Nak = 2,
    /// port that leads to the source, 0 if there was none
    SrcPort = 3,
    /// per path: newest acknowledged PSN \<\< 8 | path; to write, also the bit mask of absent tree nodes \<\< 32
    Ack = 4,
    /// per path: lower 16 bits of the MSN; to be written before RegisterName.ACK, which propagates it up the tree
    Msn = 5,
    /// per path: newest acknowledged PSN, as stored in egress for the retransmission filter
    Filter = 6,
    /// per receiver: XOR difference of virtual addresses to its announced memory region (memory_regions.p4)
    RegionVa = 7,
    /// per receiver: XOR differences of R_Key \<\< 32 | IPv4 identification \<\< 16 | UDP source port
    RegionKeys = 8,
    /// per receiver: PSN of the WRITE that announced its memory region
    RegionAnnouncedAt = 9,
    /// newest PSN sent by a source
    Sent = 10,
    /// per path, read only: newest PSN in its ACKs and NAKs, even if newer than SENT
    Claimed = 11,
}

impl RegisterName {
    /// All values of `RegisterName`, in the order of the P4 program.
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

/// Reasons why a packet is dropped: indexes of the counters ingress.drops and egress.drops.
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
    /// an ARP packet that is not a request, or not for an address of the fabric
    ArpNotForUs = 4,
    /// no route to the destination address
    NoRoute = 5,
    /// the TTL is 0 or 1
    TtlExpired = 6,
    /// a group packet on a port outside the group's tree
    NotAPath = 7,
    /// a group packet from a host that is not the member on that port
    NotAMember = 8,
    /// a packet whose destination queue pair number is not the group's, such as that of an earlier group
    WrongQpn = 9,
    /// an opcode that is neither of a reliable connection nor a CNP, or not allowed on this port
    UnsupportedOpcode = 10,
    /// an ACK, NAK or CNP with a wrong ICRC
    FeedbackIcrc = 11,
    /// an ACK or NAK that updated registers and is not forwarded to the source
    FeedbackMerged = 12,
    /// a CNP or fatal NAK before any data, so that the port of the source is unknown
    NoSource = 13,
    /// the multicast copy for the port that the packet came from
    OwnCopy = 14,
    /// the copy of a retransmission for a path that has acknowledged its PSN
    AlreadyAcked = 15,
    /// PacketOut of an unknown kind
    BadControl = 16,
    /// the mirror of a forwarded ACK, after the retransmission filter has stored its PSN
    FeedbackRecorded = 17,
    /// a packet from a host with a source address that is not its own
    SpoofedSource = 18,
    /// data to be rewritten whose ICRC was wrong on arrival
    DataIcrc = 19,
    /// a CNP from a path that is not the most congested one of the group
    CnpFiltered = 20,
    /// a copy that was passed to the controller, which computes the ICRC and forwards it
    IcrcPunted = 21,
    /// a packet recirculating to find the minimum, replaced by a newer packet
    WalkTakenOver = 22,
    /// data from a member that is not the source, with a PSN other than the next one
    NotTheSource = 23,
    /// a group packet in IP fragments or with IP options
    Fragment = 24,
    /// an ACK or NAK of a PSN that no source has sent
    BeyondSent = 25,
    /// a NAK that was already sent to the source, which has not yet resent its PSN
    NakAlreadySent = 26,
    /// a packet from a member with a P_Key of another partition
    WrongPkey = 27,
    /// data from a member that may only receive
    MayNotSend = 28,
    /// a READ or atomic shortly after another one of the same host was refused
    RefusalLimited = 29,
    /// a packet to the controller beyond the port's rate limit (punt_limit.p4)
    PuntLimited = 30,
    /// a multicast datagram whose destination MAC address does not match its IPv4 address
    WrongMulticastMac = 31,
    /// an ACK or NAK with an AETH syndrome that IBTA reserves, or that the group does not use
    ReservedSyndrome = 32,
    /// data beyond the window of the source
    BeyondWindow = 33,
    /// a request whose lengths, padding or transport version are wrong
    Malformed = 34,
    /// a CNP from the source itself (IBTA annex A17.9.3)
    OwnCnp = 35,
    /// a CNP beyond the rate limit of its path
    CnpLimited = 36,
    /// a fatal NAK for a PSN that its path has acknowledged
    StaleNak = 37,
}

impl Drop {
    /// All values of `Drop`, in the order of the P4 program.
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

/// Costs of finding the minimum PSN: counter cells 8 * MinPsn + Work of ack_aggregate.work.
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
    /// All values of `Work`, in the order of the P4 program.
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
/// INIT_REGIONS  clears the memory regions announced to `count` receivers, from slot `group` ++ `index` on. Announcements with
/// PSN value\[23:0\] or newer are accepted from then on
/// While INIT_GROUP recirculates, `index` is the number of initialised paths. For registers with a cell per receiver, `group` ++
/// `index` is the receiver's slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegisterControl {
    /// operation, a RegisterOp
    pub op: u8,
    /// result of the operation, a RegisterStatus, in replies
    pub status: u8,
    /// register to read or write, a RegisterName
    pub reg: u8,
    /// number of paths or receivers to initialise
    pub count: u8,
    /// index of the group
    pub group: u16,
    /// path index; while INIT_GROUP recirculates, number of initialised paths
    pub index: u16,
    /// value read or to be written
    pub value: u64,
    /// number chosen by the controller to match the reply with its request
    pub cookie: u32,
}

impl RegisterControl {
    /// Length of the header in bytes.
    pub const LEN: usize = 20;

    /// Decodes the header; its fields are big-endian.
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

    /// Encodes the header. A field's bits beyond its width in the header are dropped.
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

/// Header before an ACK or NAK to or from the controller, for groups whose minimum PSN it computes (MinPsn.PUNT).
/// PacketIn   `port` leads to the source (0: none yet); PSN and MSN are those last acknowledged to it
/// PacketOut  the switch sends the ACK or NAK through `port`, or if that is 0 through the port of the source
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// index of the group
    pub group: u16,
    /// in PacketIn the port of the source, in PacketOut the egress port
    pub port: u16,
    /// PSN last acknowledged to the source
    pub agg_psn: u32,
    /// MSN last acknowledged to the source
    pub agg_msn: u32,
}

impl Feedback {
    /// Length of the header in bytes.
    pub const LEN: usize = 10;

    /// Decodes the header; its fields are big-endian.
    pub fn from_bytes(bytes: &[u8; 10]) -> Feedback {
        Feedback {
            group: bits(bytes, 0, 16) as u16,
            port: bits(bytes, 16, 16) as u16,
            agg_psn: bits(bytes, 32, 24) as u32,
            agg_msn: bits(bytes, 56, 24) as u32,
        }
    }

    /// Encodes the header. A field's bits beyond its width in the header are dropped.
    pub fn to_bytes(&self) -> [u8; 10] {
        let mut bytes = [0; 10];
        put(&mut bytes, 0, 16, self.group as u128);
        put(&mut bytes, 16, 16, self.port as u128);
        put(&mut bytes, 32, 24, self.agg_psn as u128);
        put(&mut bytes, 56, 24, self.agg_msn as u128);
        bytes
    }
}

/// Kind of a packet of a group, from its transport headers (classify.p4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// not a packet of a group
    None = 0,
    /// SEND or WRITE
    Data = 1,
    /// positive acknowledgement
    Ack = 2,
    /// NAK of a PSN sequence error, or RNR NAK
    Nak = 3,
    /// NAK after which the receiver's queue pair is in the error state
    FatalNak = 4,
    /// congestion notification packet
    Cnp = 5,
    /// READ or ATOMIC, which a group cannot execute
    Read = 6,
    /// an ACK that recirculates to find the minimum
    MinSearch = 7,
    /// an ACK or NAK that the controller sends
    Command = 8,
    /// register control header from the controller
    Registers = 9,
    /// NAK of one lost packet; acknowledges nothing
    SelectiveNak = 10,
    /// on Tofino: a recirculated record of an ACK that advances the window of the source
    Window = 11,
}

impl Kind {
    /// All values of `Kind`, in the order of the P4 program.
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

/// What the egress pipeline does with a packet or a clone of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Verdict {
    /// nothing: the packet is dropped, or not cloned
    None = 0,
    /// send the packet as ingress has left it: unicast, ARP replies, and frames of the controller
    Forward = 1,
    /// replicate a datagram: one copy for each port but its own
    Datagram = 2,
    /// replicate data: one copy for each path that needs it
    Replicate = 3,
    /// forward a CNP, a selective or a fatal NAK to the source
    Pass = 4,
    /// send a merged ACK or NAK to the source
    Feedback = 5,
    /// send the ACK or NAK that a request has become to its sender
    Answer = 6,
    /// update only the retransmission filter, by an ACK that does not advance the minimum
    Record = 7,
    /// the same, by a clone of an ACK that is forwarded
    Mirror = 8,
    /// update the retransmission filter, and recirculate the ACK to find the minimum
    Walk = 9,
    /// recirculate an ACK again
    ContinueWalk = 10,
    /// turn old data into an ACK, and recirculate that to find the minimum
    ProbeWalk = 11,
    /// update the retransmission filter, and pass the ACK to the controller, which computes the minimum
    Punt = 12,
    /// turn old data into an ACK, and pass that to the controller
    ProbePunt = 13,
    /// execute a register access of the controller, and reply to it
    Registers = 14,
    /// pass the packet to the controller
    ToController = 15,
}

impl Verdict {
    /// All values of `Verdict`, in the order of the P4 program.
    pub const ALL: [Verdict; 16] = [
        Verdict::None,
        Verdict::Forward,
        Verdict::Datagram,
        Verdict::Replicate,
        Verdict::Pass,
        Verdict::Feedback,
        Verdict::Answer,
        Verdict::Record,
        Verdict::Mirror,
        Verdict::Walk,
        Verdict::ContinueWalk,
        Verdict::ProbeWalk,
        Verdict::Punt,
        Verdict::ProbePunt,
        Verdict::Registers,
        Verdict::ToController,
    ];
}

/// Purpose of a packet that searches for the minimum by recirculation, chosen by the ingress pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Role {
    /// neither WALK nor PROBE
    None = 0,
    /// an ACK that searches for the minimum PSN, node by node
    Walk = 1,
    /// a clone of retransmitted data that searches for the minimum; the data is acknowledged if all paths have it
    Probe = 2,
}

impl Role {
    /// All values of `Role`, in the order of the P4 program.
    pub const ALL: [Role; 3] = [
        Role::None,
        Role::Walk,
        Role::Probe,
    ];
}

/// State of a packet's search for the minimum PSN by recirculation (the papers' table walk).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum SearchState {
    /// the packet does not search
    Idle = 0,
    /// the packet recirculates once more
    On = 1,
    /// the search is complete: meta.optional.walk_word is the minimum
    Done = 2,
    /// the search is abandoned: a newer packet searches instead
    Lost = 3,
}

impl SearchState {
    /// All values of `SearchState`, in the order of the P4 program.
    pub const ALL: [SearchState; 4] = [
        SearchState::Idle,
        SearchState::On,
        SearchState::Done,
        SearchState::Lost,
    ];
}

/// Operation on the tournament tree of the paths' words (PSN, path, MSN; word_t in types.p4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TreeOp {
    /// no operation: the packet concerns no path
    None = 0,
    /// store the word that the path has acknowledged or sent, if it is newer than the stored one
    Update = 1,
    /// read the minimum without an update
    Keep = 2,
    /// compute the minimum again, after the controller has set the word of the path
    Force = 3,
    /// initialise all paths of the node with the word's PSN
    Init = 4,
}

impl TreeOp {
    /// All values of `TreeOp`, in the order of the P4 program.
    pub const ALL: [TreeOp; 5] = [
        TreeOp::None,
        TreeOp::Update,
        TreeOp::Keep,
        TreeOp::Force,
        TreeOp::Init,
    ];
}

/// Maximum number of paths of a group on a switch. A path is a port in the group's tree.
pub const MAX_PATHS: u32 = 64;

/// Maximum number of groups on a switch.
pub const MAX_GROUPS: u32 = 0x400;

/// Maximum number of datagram multicast groups on a switch. Their PRE multicast group ids follow those of reliable groups.
pub const MAX_DATAGRAM_GROUPS: u32 = 0x400;

/// PRE multicast group id of the datagram group with index 0
pub const FIRST_DATAGRAM_PRE_GROUP: u16 = 0x401;

/// bits of a lost packet's PSN that select its slot in selective_nak.p4
pub const LOSS_MASK: u32 = 63;

/// cells of registers with one cell per path
pub const SIZE_PATHS: u32 = 0x1_0000;

/// maximum number of entries of the table arp_targets
pub const SIZE_ARP_TARGETS: u32 = 0x400;

/// maximum number of entries of the table routes
pub const SIZE_ROUTES: u32 = 0x2000;

/// maximum number of entries of the table next_hops
pub const SIZE_NEXT_HOPS: u32 = 0x1000;

/// number of possible port numbers, 2^PORT_BITS
pub const SIZE_PORTS: u32 = 0x200;

/// Number of cells per port in the meter of packets to the controller: one for each PacketInReason, rounded up to a power
/// of two.
pub const PUNT_KINDS: u32 = 8;

/// number of cells of the meter of packets to the controller
pub const SIZE_PUNT_RATES: u32 = 0x1000;

/// Maximum number of members attached to a switch, summed over all groups: the size of the table members.
pub const SIZE_MEMBERS: u32 = 0x4000;

/// Maximum number of entries of the table receivers; each has a cell in the registers of memory_regions.p4.
pub const SIZE_RECEIVERS: u32 = 0x4000;

/// Register cell for receivers without announced memory regions (memory_regions.p4); it follows the others and is never
/// written.
pub const NO_SLOT: u32 = 0x4000;

/// Path index of a packet that concerns no path.
pub const PATH_NONE: u8 = 255;

/// Port between pipeline and controller: BMv2 must be started with --cpu-port 510.
pub const CPU_PORT: u16 = 0x1fe;

/// Value of standard_metadata.instance_type of a clone made in ingress (BMv2's simple_switch document, "intrinsic
/// metadata").
pub const INSTANCE_INGRESS_CLONE: u32 = 1;

/// instance_type of a clone made in egress
pub const INSTANCE_EGRESS_CLONE: u32 = 2;

/// instance_type of a recirculated packet
pub const INSTANCE_RECIRCULATED: u32 = 4;

/// Reads `width` bits of a header as a number, from bit `at` on; bit 0 is the first on the wire.
fn bits(bytes: &[u8], at: usize, width: usize) -> u128 {
    if at % 8 == 0 && width % 8 == 0 {
        let whole = bytes[at / 8..][..width / 8].iter();
        return whole.fold(0, |value, byte| value << 8 | u128::from(*byte));
    }
    (at..at + width).fold(0, |value, bit| value << 1 | u128::from(bytes[bit / 8] >> (7 - bit % 8) & 1))
}

/// Writes the low `width` bits of a number into a header, from bit `at` on. These bits of the header must be zero.
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
