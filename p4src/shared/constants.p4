// Constants of the wire formats and of the contract with the controller.
// `make contract` generates the definitions for controller, hosts and tests from this file.

#ifndef ALFIRK_CONSTANTS_P4
#define ALFIRK_CONSTANTS_P4

#include "types.p4"

const bit<16> ETHERTYPE_IPV4 = 0x0800;  // EtherType of IPv4 (IEEE 802 numbers)
const bit<16> ETHERTYPE_ARP = 0x0806;  // EtherType of ARP (RFC 826)
const bit<16> ETHERTYPE_C_TAG = 0x8100;  // EtherType of C-VLAN tags (IEEE 802.1Q), also of priority tags (VLAN 0)
const bit<16> ETHERTYPE_S_TAG = 0x88a8;  // EtherType of S-VLAN tags (IEEE 802.1ad)
const bit<32> TAG_BYTES = 4;  // length of a VLAN tag in bytes

const bit<16> ARP_HTYPE_ETHERNET = 1;  // ARP hardware type of Ethernet (RFC 826)
const bit<16> ARP_OPER_REQUEST = 1;  // ARP operation of a request (RFC 826)
const bit<16> ARP_OPER_REPLY = 2;  // ARP operation of a reply (RFC 826)

const bit<8> IP_PROTOCOL_TCP = 6;  // IPv4 protocol number of TCP
const bit<8> IP_PROTOCOL_UDP = 17;  // IPv4 protocol number of UDP

const bit<16> UDP_PORT_ROCEV2 = 4791;  // UDP port of RoCEv2 (IBTA vol. 1, annex A17.3.1)
const bit<16> UDP_PORT_MRP = 4790;  // UDP port of Alfirk's registration protocol (MRP)

// BTH opcode of SEND First; OPCODE_RC_* are those of the reliable connection service (IBTA vol. 1, table 38).
const bit<8> OPCODE_RC_SEND_FIRST = 0x00;
const bit<8> OPCODE_RC_WRITE_FIRST = 0x06;  // BTH opcode of RDMA WRITE First
const bit<8> OPCODE_RC_WRITE_LAST = 0x08;  // BTH opcode of RDMA WRITE Last
const bit<8> OPCODE_RC_WRITE_ONLY = 0x0a;  // BTH opcode of RDMA WRITE Only
const bit<8> OPCODE_RC_WRITE_ONLY_IMM = 0x0b;  // BTH opcode of RDMA WRITE Only with Immediate
const bit<8> OPCODE_RC_READ_REQUEST = 0x0c;  // BTH opcode of RDMA READ Request
const bit<8> OPCODE_RC_ACKNOWLEDGE = 0x11;  // BTH opcode of Acknowledge: an ACK or NAK
const bit<8> OPCODE_RC_COMPARE_SWAP = 0x13;  // BTH opcode of the atomic operation CmpSwap
const bit<8> OPCODE_RC_FETCH_ADD = 0x14;  // BTH opcode of the atomic operation FetchAdd
const bit<8> OPCODE_RC_SEND_LAST_INV = 0x16;  // BTH opcode of SEND Last with Invalidate
const bit<8> OPCODE_RC_SEND_ONLY_INV = 0x17;  // BTH opcode of SEND Only with Invalidate
const bit<8> OPCODE_RC_FLUSH = 0x1c;  // BTH opcode of FLUSH
const bit<8> OPCODE_RC_ATOMIC_WRITE = 0x1d;  // BTH opcode of ATOMIC WRITE
const bit<8> OPCODE_CNP = 0x81;  // BTH opcode of RoCEv2's congestion notification packet (IBTA annex A17.9.3)

// Upper three bits of the BTH opcodes of unreliable datagrams (UD; IBTA vol. 1, table 38).
const bit<3> OPCODE_CLASS_UD = 3;

// Destination queue pair number of datagrams to a multicast group (IBTA vol. 1, section 10.5).
const qpn_t MULTICAST_QPN = 0xffffff;
const bit<4> IPV4_MULTICAST = 0xe;  // upper four bits of IPv4 multicast addresses, 224.0.0.0/4
const bit<24> MULTICAST_MAC = 0x01005e;  // first 24 bits of the MAC addresses of IPv4 multicast (RFC 1112, section 6.4)

// Upper three bits of the AETH syndrome of an ACK (IBTA vol. 1, section 9.7.5.1.4); the lower five are the credit count.
const bit<3> AETH_ACK = 0b000;
const bit<3> AETH_RNR_NAK = 0b001;  // upper three bits of the AETH syndrome of an RNR NAK; the lower five are the timer code
const bit<3> AETH_NAK = 0b011;  // upper three bits of the AETH syndrome of a NAK; the lower five are the NAK code
const bit<5> NAK_PSN_SEQUENCE_ERROR = 0;  // NAK code of a PSN sequence error
const bit<5> NAK_INVALID_REQUEST = 1;  // NAK code of an invalid request
const bit<5> NAK_REMOTE_OPERATIONAL = 3;  // NAK code of a remote operational error
// NAK code of a selective NAK, which the specification reserves. It is accepted only if the group's entry enables
// selective repeat (selective_nak.p4). In a selective NAK of a receiver, the PSN is that of the lost packet, and the MSN
// is the number of reports by this receiver, 1 to 255. In the one that the source gets, the PSN is the one after the
// last acknowledged PSN, and the MSN is the lost PSN.
const bit<5> NAK_SELECTIVE = 31;
// AETH syndrome of an ACK without end-to-end credits (credit field 31), as Soft-RoCE sends it.
const bit<8> SYNDROME_ACK_NO_CREDITS = 0x1f;

// How a switch finds the minimum acknowledged PSN of a group (parameter min_psn of set_group).
enum bit<2> MinPsn {
    TREE = 0,  // by a tournament tree in registers, in one pass of the ACK (min_psn_tree.p4)
    WALK = 1,  // by recirculation of the ACK (min_psn_walk.p4)
    PUNT = 2  // by the controller, to which switches pass ACKs
}

// How the ICRC of data stays valid when headers are rewritten (parameter icrc of set_group).
enum bit<2> IcrcMode {
    NEUTRAL = 0,  // two other header fields are changed by XOR constants, so that the ICRC stays the same
    RECOMPUTE = 1,  // the pipeline recomputes the ICRC; the McstID must be in RECOMPUTE_NETWORK
    PUNT = 2  // the controller recomputes the ICRC
}

// Network of the McstIDs of groups with IcrcMode.RECOMPUTE. Parsers have no group table, so they parse payloads by address.
const ipv4_addr_t RECOMPUTE_NETWORK = 0x0aff8000;
const ipv4_addr_t RECOMPUTE_MASK = 0xffff8000;  // netmask of RECOMPUTE_NETWORK: 17 bits

// R_Key of a WRITE Only that carries a memory region for a leaf switch (memory_regions.p4).
const bit<32> MR_INFO_RKEY = 0xa1f14b31;
// UDP length of a WRITE Only that carries a memory region (MR_INFO_RKEY): UDP (8) + BTH (12) + RETH (16) + XOR
// differences (16) + ICRC (4).
const bit<16> MR_INFO_UDP_BYTES = 56;
// UDP length of a WRITE Only without payload, which hosts get in place of an announced memory region.
const bit<16> EMPTY_WRITE_UDP_BYTES = 40;
const bit<16> EMPTY_WRITE_IPV4_BYTES = 60;  // IPv4 total length of a WRITE Only without payload, EMPTY_WRITE_UDP_BYTES + 20
// UDP length of a packet with BTH but without RETH, less its payload: UDP, BTH and ICRC.
const bit<16> UDP_OVERHEAD_BYTES = 24;
// UDP length of a packet with a RETH, less its payload: UDP, BTH, RETH and ICRC.
const bit<16> UDP_OVERHEAD_WITH_RETH_BYTES = 40;

// Window if the group's entry (set_group) has none: the number of packets that a source may send beyond the last
// acknowledged one. It is more than queue pairs have outstanding (128 in Linux' rdma_rxe), and less than 2^23, the limit
// of serial comparison.
const bit<24> DEFAULT_WINDOW = 65536;

// Maximum increase of the MSN by the first ACK after a controller has restored the registers, because it writes only a
// lower bound of the MSN (last_acked.p4).
const bit<24> UNKNOWN_MSN_ROOM = 32768;

// Timeout in microseconds of a search for the minimum PSN by recirculation (table walk); its packet is then taken as lost.
const bit<30> WALK_TIMEOUT_US = 1000;

// CNPs are counted in windows of 2^10 microseconds; each elapsed window halves a count.
#define CNP_WINDOW_SHIFT 10
// CNPs of a path beyond this count in a window are dropped. Half of a full window's count carries over to the next, so a
// path can send one CNP per 32 microseconds; a queue pair sends one per 50 (DCQCN, SIGCOMM 2015, section 5).
#define CNP_LIMIT 63
// Requests of a path that a group cannot execute are refused at most once per 2^6 microseconds.
#define REFUSAL_WINDOW_SHIFT 6

// ECN code point of a packet whose transport does not support ECN (RFC 3168).
const bit<2> ECN_NOT_ECT = 0;
const bit<2> ECN_CE = 3;  // ECN code point "congestion experienced" (RFC 3168)

// Destination queue pair number of members' packets to a group whose entry (set_group) has none.
const qpn_t FIXED_VIRTUAL_QPN = 1;
// Partition of all groups: the default P_Key without its membership bit (IBTA vol. 1, section 10.9).
const bit<15> DEFAULT_PARTITION = 0x7fff;
// MAC address of the fabric, to which hosts send packets for groups.
const mac_t VIRTUAL_MAC = 0x02a1f14c0001;

const bit<32> ETHERNET_BYTES = 14;  // length of an Ethernet header without VLAN tags
// Offset of the UDP header in an IPv4 packet, 20: packets of groups have no IPv4 options.
const bit<32> UDP_OFFSET_BYTES = 20;
// IPv4 total length of an ACK or NAK: IPv4 (20) + UDP (8) + BTH (12) + AETH (4) + ICRC (4).
const bit<16> ACK_IPV4_BYTES = 48;
const bit<16> ACK_UDP_BYTES = 28;  // UDP length of an ACK or NAK
const bit<32> ACK_FRAME_BYTES = 62;  // length of an ACK or NAK from the Ethernet header to the ICRC, without VLAN tags
// TTL of an ACK that a switch creates from data.
const bit<8> ACK_TTL = 64;
// TTL of ACKs, NAKs and CNPs that a switch merges or forwards: that of a member attached to this switch.
const bit<8> FEEDBACK_TTL = 63;
// UDP source port of ACKs, NAKs and CNPs from switches, before the exit half of the bridge (bridge_exit.p4) rewrites it.
const bit<16> FEEDBACK_UDP_SOURCE_PORT = 0xc000;
// IPv4 total length of a CNP: IPv4 (20) + UDP (8) + BTH (12) + 16 reserved bytes + ICRC (4) (IBTA annex A17.9.3).
const bit<16> CNP_IPV4_BYTES = 60;
const bit<16> CNP_UDP_BYTES = 40;  // UDP length of a CNP
const bit<32> CNP_FRAME_BYTES = 74;  // length of a CNP from the Ethernet header to the ICRC, without VLAN tags
// Length of a PacketIn with reason PROBE: the headers packet_in (3) and feedback (10), then an ACK frame (62).
const bit<32> PROBE_PACKET_IN_BYTES = 75;
// Length of a PacketIn with reason FATAL_NAK: the header packet_in (3), then a NAK frame (62).
const bit<32> FATAL_NAK_PACKET_IN_BYTES = 65;
// Maximum length of a PacketIn with reason MRP: the header packet_in (3), then Ethernet (14) and an IPv4 packet (1,500).
const bit<32> MRP_PACKET_IN_BYTES = 1517;

// Path index in words of the min-PSN tree that a sender's own data writes. It is the largest index, so a receiver with
// the same PSN wins the tie, and the MSN of that receiver is used.
const path_t PATH_OF_SENDER = 0xff;

// What the pipeline does with a PacketOut: the field packet_out.kind.
enum bit<8> PacketOutKind {
    FORWARD = 0,  // send the frame that follows to packet_out.egress_port
    REGISTERS = 1,  // execute the register control header that follows
    FEEDBACK = 2  // send the ACK or NAK that follows the feedback header
}

// Why a switch passes a packet to the controller: the field packet_in.reason.
enum bit<8> PacketInReason {
    REGISTERS = 1,  // the reply to a register control header
    MRP = 2,  // a registration packet of a host
    FEEDBACK = 3,  // an ACK or NAK of a group whose minimum PSN the controller computes (MinPsn.PUNT)
    PROBE = 4,  // an ACK of the PSN of retransmitted data in a MinPsn.PUNT group, to be sent if all paths have it
    ICRC = 5,  // data whose ICRC the controller computes; `ingress_port` is its egress port
    FATAL_NAK = 6  // a NAK from a receiver whose queue pair is in the error state
}

// Operation on registers that the controller requests: the field register_control.op.
enum bit<8> RegisterOp {
    INIT_GROUP = 1,  // initialise all registers of a group
    READ = 2,  // read one register
    WRITE = 3,  // write one register
    INIT_REGIONS = 4  // clear the memory regions announced to receivers
}

// Result of a register operation: the field register_control.status of a reply.
enum bit<8> RegisterStatus {
    OK = 0,  // the operation is complete
    BAD_OP = 1,  // the operation is unknown
    BAD_REGISTER = 2,  // the register is unknown
    OUT_OF_RANGE = 3  // group, path or count exceeds the pipeline's sizes
}

// Registers that the controller can read and write: the field register_control.reg.
enum bit<8> RegisterName {
    AGG = 1,  // PSN and MSN last acknowledged to the source: PSN << 24 | MSN
    NAK = 2,  // pending NAK: AETH syndrome << 24 | PSN; 0 without one; bit 31 is set if it was sent to the source
    SRC_PORT = 3,  // port that leads to the source, 0 if there was none
    ACK = 4,  // per path: newest acknowledged PSN << 8 | path; to write, also the bit mask of absent tree nodes << 32
    MSN = 5,  // per path: lower 16 bits of the MSN; to be written before RegisterName.ACK, which propagates it up the tree
    FILTER = 6,  // per path: newest acknowledged PSN, as stored in egress for the retransmission filter
    REGION_VA = 7,  // per receiver: XOR difference of virtual addresses to its announced memory region (memory_regions.p4)
    REGION_KEYS = 8,  // per receiver: XOR differences of R_Key << 32 | IPv4 identification << 16 | UDP source port
    REGION_ANNOUNCED_AT = 9,  // per receiver: PSN of the WRITE that announced its memory region
    SENT = 10,  // newest PSN sent by a source
    CLAIMED = 11  // per path, read only: newest PSN in its ACKs and NAKs, even if newer than SENT
}

// Reasons why a packet is dropped: indexes of the counters ingress.drops and egress.drops.
enum bit<8> Drop {
    NONE = 0,  // not dropped
    PARSER_ERROR = 1,  // the parser rejected the packet
    IPV4_CHECKSUM = 2,  // wrong IPv4 header checksum
    UNKNOWN_ETHERTYPE = 3,  // neither IPv4 nor ARP
    ARP_NOT_FOR_US = 4,  // an ARP packet that is not a request, or not for an address of the fabric
    NO_ROUTE = 5,  // no route to the destination address
    TTL_EXPIRED = 6,  // the TTL is 0 or 1
    NOT_A_PATH = 7,  // a group packet on a port outside the group's tree
    NOT_A_MEMBER = 8,  // a group packet from a host that is not the member on that port
    WRONG_QPN = 9,  // a packet whose destination queue pair number is not the group's, such as that of an earlier group
    UNSUPPORTED_OPCODE = 10,  // an opcode that is neither of a reliable connection nor a CNP, or not allowed on this port
    FEEDBACK_ICRC = 11,  // an ACK, NAK or CNP with a wrong ICRC
    FEEDBACK_MERGED = 12,  // an ACK or NAK that updated registers and is not forwarded to the source
    NO_SOURCE = 13,  // a CNP or fatal NAK before any data, so that the port of the source is unknown
    OWN_COPY = 14,  // the multicast copy for the port that the packet came from
    ALREADY_ACKED = 15,  // the copy of a retransmission for a path that has acknowledged its PSN
    BAD_CONTROL = 16,  // PacketOut of an unknown kind
    FEEDBACK_RECORDED = 17,  // the mirror of a forwarded ACK, after the retransmission filter has stored its PSN
    SPOOFED_SOURCE = 18,  // a packet from a host with a source address that is not its own
    DATA_ICRC = 19,  // data to be rewritten whose ICRC was wrong on arrival
    CNP_FILTERED = 20,  // a CNP from a path that is not the most congested one of the group
    ICRC_PUNTED = 21,  // a copy that was passed to the controller, which computes the ICRC and forwards it
    WALK_TAKEN_OVER = 22,  // a packet recirculating to find the minimum, replaced by a newer packet
    NOT_THE_SOURCE = 23,  // data from a member that is not the source, with a PSN other than the next one
    FRAGMENT = 24,  // a group packet in IP fragments or with IP options
    BEYOND_SENT = 25,  // an ACK or NAK of a PSN that no source has sent
    NAK_ALREADY_SENT = 26,  // a NAK that was already sent to the source, which has not yet resent its PSN
    WRONG_PKEY = 27,  // a packet from a member with a P_Key of another partition
    MAY_NOT_SEND = 28,  // data from a member that may only receive
    REFUSAL_LIMITED = 29,  // a READ or atomic shortly after another one of the same host was refused
    PUNT_LIMITED = 30,  // a packet to the controller beyond the port's rate limit (punt_limit.p4)
    WRONG_MULTICAST_MAC = 31,  // a multicast datagram whose destination MAC address does not match its IPv4 address
    RESERVED_SYNDROME = 32,  // an ACK or NAK with an AETH syndrome that IBTA reserves, or that the group does not use
    BEYOND_WINDOW = 33,  // data beyond the window of the source
    MALFORMED = 34,  // a request whose lengths, padding or transport version are wrong
    OWN_CNP = 35,  // a CNP from the source itself (IBTA annex A17.9.3)
    CNP_LIMITED = 36,  // a CNP beyond the rate limit of its path
    STALE_NAK = 37  // a fatal NAK for a PSN that its path has acknowledged
}

const bit<32> SIZE_DROP_REASONS = 64;  // cells of ingress.drops and egress.drops

// Costs of finding the minimum PSN: counter cells 8 * MinPsn + Work of ack_aggregate.work.
enum bit<32> Work {
    FEEDBACK = 0,  // ACKs and NAKs received
    FORWARDED = 1,  // ACKs and NAKs forwarded to the source
    RECIRCULATIONS = 2,  // passes through the pipeline after the first one
    PUNTS = 3  // packets punted to the controller
}

const bit<32> SIZE_WORK = 32;  // cells of ingress.ack_aggregate.work

#endif  // ALFIRK_CONSTANTS_P4
