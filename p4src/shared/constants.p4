// Constants of the wire formats and of the contract with the controller.
// `make contract` generates the definitions for controller, hosts and tests from this file.

#ifndef ALFIRK_CONSTANTS_P4
#define ALFIRK_CONSTANTS_P4

#include "types.p4"

const bit<16> ETHERTYPE_IPV4 = 0x0800;  // EtherType of IPv4 (IEEE 802 numbers)
const bit<16> ETHERTYPE_ARP = 0x0806;  // EtherType of ARP (RFC 826)
const bit<16> ETHERTYPE_C_TAG = 0x8100;  // IEEE 802.1Q, also priority tags (VLAN 0)
const bit<16> ETHERTYPE_S_TAG = 0x88a8;  // IEEE 802.1ad
const bit<32> TAG_BYTES = 4;  // length of a VLAN tag

const bit<16> ARP_HTYPE_ETHERNET = 1;  // ARP hardware type of Ethernet (RFC 826)
const bit<16> ARP_OPER_REQUEST = 1;  // ARP operation of a request (RFC 826)
const bit<16> ARP_OPER_REPLY = 2;  // ARP operation of a reply (RFC 826)

const bit<8> IP_PROTOCOL_TCP = 6;  // IPv4 protocol number of TCP
const bit<8> IP_PROTOCOL_UDP = 17;  // IPv4 protocol number of UDP

// UDP ports of RoCEv2 (IBTA vol. 1, annex A17.3.1) and of Alfirk's registration protocol.
const bit<16> UDP_PORT_ROCEV2 = 4791;
const bit<16> UDP_PORT_MRP = 4790;  // UDP port of Alfirk's registration protocol (MRP)

// BTH opcodes of the reliable connection service (IBTA vol. 1, table 38).
const bit<8> OPCODE_RC_SEND_FIRST = 0x00;
const bit<8> OPCODE_RC_WRITE_FIRST = 0x06;  // RDMA WRITE First
const bit<8> OPCODE_RC_WRITE_ONLY = 0x0a;  // RDMA WRITE Only
const bit<8> OPCODE_RC_WRITE_ONLY_IMM = 0x0b;  // RDMA WRITE Only with Immediate
const bit<8> OPCODE_RC_READ_REQUEST = 0x0c;  // RDMA READ Request
const bit<8> OPCODE_RC_ACKNOWLEDGE = 0x11;  // Acknowledge: an ACK or NAK
const bit<8> OPCODE_RC_COMPARE_SWAP = 0x13;  // atomic CmpSwap
const bit<8> OPCODE_RC_FETCH_ADD = 0x14;  // atomic FetchAdd
const bit<8> OPCODE_RC_SEND_LAST_INV = 0x16;  // SEND Last with Invalidate
const bit<8> OPCODE_RC_SEND_ONLY_INV = 0x17;  // SEND Only with Invalidate
const bit<8> OPCODE_RC_FLUSH = 0x1c;  // FLUSH
const bit<8> OPCODE_RC_ATOMIC_WRITE = 0x1d;  // ATOMIC WRITE
const bit<8> OPCODE_CNP = 0x81;  // congestion notification packet of RoCEv2 (IBTA annex A17.9.3)

// The upper three bits of the opcodes of unreliable datagrams (the same table).
const bit<3> OPCODE_CLASS_UD = 3;

// Multicast of datagrams: queue pair number of all receivers (IBTA vol. 1, section 10.5), prefix of IPv4 group addresses, and the
// first 24 bits of their MAC addresses; a zero bit and the lower 23 bits of the IPv4 address follow (RFC 1112, section 6.4).
const qpn_t MULTICAST_QPN = 0xffffff;
const bit<4> IPV4_MULTICAST = 0xe;  // upper four bits of IPv4 multicast addresses, 224.0.0.0/4
const bit<24> MULTICAST_MAC = 0x01005e;  // first 24 bits of the MAC addresses of IPv4 multicast (RFC 1112)

// AETH syndromes (IBTA vol. 1, section 9.7.5.1.4): two type bits after a zero, then a value.
const bit<3> AETH_ACK = 0b000;
const bit<3> AETH_RNR_NAK = 0b001;  // type bits of an RNR NAK; the value is the timer code
const bit<3> AETH_NAK = 0b011;  // type bits of a NAK; the value is the NAK code
const bit<5> NAK_PSN_SEQUENCE_ERROR = 0;  // NAK code of a PSN sequence error
const bit<5> NAK_INVALID_REQUEST = 1;  // NAK code of an invalid request
const bit<5> NAK_REMOTE_OPERATIONAL = 3;  // NAK code of a remote operational error
// Selective NAK: a code reserved by the specification, accepted only if the group's entry enables selective repeat
// (selective_nak.p4). Between receivers and switches the PSN is that of the lost packet, and the MSN is the number of reports
// by its receiver, 1 to 255. A source gets it with the PSN after the last acknowledged one, and the lost PSN as MSN.
const bit<5> NAK_SELECTIVE = 31;
// ACK without end-to-end credits (credit field 31), as Soft-RoCE sends it.
const bit<8> SYNDROME_ACK_NO_CREDITS = 0x1f;

// Strategies for a group's minimum PSN (parameter min_psn of set_group).
enum bit<2> MinPsn {
    TREE = 0,  // in one pass (min_psn_tree.p4)
    WALK = 1,  // by recirculation (min_psn_walk.p4)
    PUNT = 2  // by the controller
}

// Strategies for the ICRC of a group's data (parameter icrc of set_group).
enum bit<2> IcrcMode {
    NEUTRAL = 0,  // by the constants of the bridge
    RECOMPUTE = 1,  // in the pipeline; the McstID must lie in the range below
    PUNT = 2  // by the controller
}

// The payload of data is parsed only for McstIDs of this network, as parsers have no group table.
const ipv4_addr_t RECOMPUTE_NETWORK = 0x0aff8000;
const ipv4_addr_t RECOMPUTE_MASK = 0xffff8000;  // netmask of RECOMPUTE_NETWORK: 17 bits

// R_Key of a WRITE Only that carries a memory region for a leaf switch (memory_regions.p4).
const bit<32> MR_INFO_RKEY = 0xa1f14b31;
// UDP length of such a packet, and of the empty WRITE that hosts get instead: UDP (8) + BTH (12) +
// RETH (16) + ICRC (4), and 16 bytes of XOR differences.
const bit<16> MR_INFO_UDP_BYTES = 56;
const bit<16> EMPTY_WRITE_UDP_BYTES = 40;  // UDP length of the empty WRITE
const bit<16> EMPTY_WRITE_IPV4_BYTES = 60;  // IPv4 total length of the empty WRITE
// Part of the UDP length that is not payload: UDP, BTH and ICRC, and those with a RETH.
const bit<16> UDP_OVERHEAD_BYTES = 24;
const bit<16> UDP_OVERHEAD_WITH_RETH_BYTES = 40;  // UDP, BTH, RETH and ICRC

// Default window: packets that a source may send beyond the last acknowledged one, if the group's entry (set_group) has none.
// More than queue pairs have outstanding (128 in Linux' rdma_rxe), and far below 2^23, the limit of serial comparison.
const bit<24> DEFAULT_WINDOW = 65536;

// Messages by which the next MSN may be ahead of the one that a controller has written after a loss of registers (last_acked.p4).
const bit<24> UNKNOWN_MSN_ROOM = 32768;

// Timeout of a walk in microseconds, after which its packet is taken as lost.
const bit<30> WALK_TIMEOUT_US = 1000;

// CNPs are counted in windows of 2^10 microseconds; each elapsed window halves a count.
#define CNP_WINDOW_SHIFT 10
// CNPs of a path beyond this count in a window are dropped. Half of a full window's count carries over to the next, so a
// path can send one CNP per 32 microseconds; a queue pair sends one per 50 (DCQCN, SIGCOMM 2015, section 5).
#define CNP_LIMIT 63
// Requests of a path that a group cannot execute are refused at most once per 2^6 microseconds.
#define REFUSAL_WINDOW_SHIFT 6

// ECN code points (RFC 3168).
const bit<2> ECN_NOT_ECT = 0;
const bit<2> ECN_CE = 3;  // congestion experienced

// Virtual queue pair number of groups without their own one.
const qpn_t FIXED_VIRTUAL_QPN = 1;
// The default P_Key without its membership bit (IBTA vol. 1, section 10.9): groups are in this partition.
const bit<15> DEFAULT_PARTITION = 0x7fff;
// MAC address of the fabric, as hosts see it.
const mac_t VIRTUAL_MAC = 0x02a1f14c0001;

const bit<32> ETHERNET_BYTES = 14;  // length of an Ethernet header without tags
// Length of the IPv4 header: groups' packets have no options.
const bit<32> UDP_OFFSET_BYTES = 20;
// IPv4 length of an ACK: IPv4 (20) + UDP (8) + BTH (12) + AETH (4) + ICRC (4).
const bit<16> ACK_IPV4_BYTES = 48;
const bit<16> ACK_UDP_BYTES = 28;  // UDP length of an ACK
const bit<32> ACK_FRAME_BYTES = 62;  // length of an ACK from the Ethernet header to the ICRC, without tags
// TTL of an ACK that a switch creates from data.
const bit<8> ACK_TTL = 64;
// TTL of feedback that a switch merges or forwards: as if the member were at this switch.
const bit<8> FEEDBACK_TTL = 63;
// UDP source port of all feedback of switches, before the exit half of the bridge.
const bit<16> FEEDBACK_UDP_SOURCE_PORT = 0xc000;
// IPv4 (20) + UDP (8) + BTH (12) + 16 reserved bytes + ICRC (4) (IBTA annex A17.9.3).
const bit<16> CNP_IPV4_BYTES = 60;
const bit<16> CNP_UDP_BYTES = 40;  // UDP length of a CNP
const bit<32> CNP_FRAME_BYTES = 74;  // length of a CNP from the Ethernet header to the ICRC, without tags
// A probe after packet_in (3) and feedback (10).
const bit<32> PROBE_PACKET_IN_BYTES = 75;
// A fatal NAK after packet_in (3).
const bit<32> FATAL_NAK_PACKET_IN_BYTES = 65;
// A registration packet after packet_in (3): Ethernet (14) and at most 1,500 bytes of IPv4.
const bit<32> MRP_PACKET_IN_BYTES = 1517;

// Path index in words written by a sender's own data: the largest one, so that it loses every tie and the MSN of a
// receiver is used.
const path_t PATH_OF_SENDER = 0xff;

// packet_out.kind
enum bit<8> PacketOutKind {
    FORWARD = 0,  // a frame for packet_out.egress_port
    REGISTERS = 1,  // a register control header
    FEEDBACK = 2  // an ACK or NAK that the controller sends
}

// packet_in.reason
enum bit<8> PacketInReason {
    REGISTERS = 1,  // the reply to a register control header
    MRP = 2,  // a registration packet of a host
    FEEDBACK = 3,  // an ACK or NAK of a group of MinPsn.PUNT
    PROBE = 4,  // old data of such a group, as an ACK of its PSN, to be acknowledged if all paths have it
    ICRC = 5,  // data to egress port `ingress_port`, whose ICRC the controller computes
    FATAL_NAK = 6  // a NAK of a receiver whose queue pair is in the error state
}

// register_control.op
enum bit<8> RegisterOp {
    INIT_GROUP = 1,  // initialise all registers of a group
    READ = 2,  // read one register
    WRITE = 3,  // write one register
    INIT_REGIONS = 4  // clear the memory regions announced to receivers
}

// register_control.status
enum bit<8> RegisterStatus {
    OK = 0,  // the operation is complete
    BAD_OP = 1,  // the operation is unknown
    BAD_REGISTER = 2,  // the register is unknown
    OUT_OF_RANGE = 3  // group, path or count exceeds the pipeline's sizes
}

// register_control.reg: registers that can be read and written.
enum bit<8> RegisterName {
    AGG = 1,  // agg_psn << 24 | agg_msn
    NAK = 2,  // nak_syndrome << 24 | nak_psn, 0 if no NAK is pending; bit 31 is set if it was sent to the source
    SRC_PORT = 3,  // port of the source, 0 if there was none
    ACK = 4,  // of a path: ack_psn << 8 | path; to write, absent << 32 | that
    MSN = 5,  // of a path, its lower 16 bits; to be written before RegisterName.ACK, which propagates it up the tree
    FILTER = 6,  // of a path: the egress copy of ack_psn, for the retransmission filter
    REGION_VA = 7,  // of a receiver: XOR difference of the virtual address (memory_regions.p4)
    REGION_KEYS = 8,  // of a receiver: the same for R_Key << 32 | identification << 16 | source port
    REGION_ANNOUNCED_AT = 9,  // of a receiver: the PSN of the WRITE that announced both
    SENT = 10,  // newest PSN sent by a source
    CLAIMED = 11  // of a path, read only: newest PSN that its feedback has acknowledged, even beyond SENT
}

// Drop reasons, each an index of the counter arrays ingress.drops and egress.drops.
enum bit<8> Drop {
    NONE = 0,  // not dropped
    PARSER_ERROR = 1,  // the parser rejected the packet
    IPV4_CHECKSUM = 2,  // wrong IPv4 header checksum
    UNKNOWN_ETHERTYPE = 3,  // neither IPv4 nor ARP
    ARP_NOT_FOR_US = 4,  // an ARP packet without a reply: not a request, or not for an address of the fabric
    NO_ROUTE = 5,  // no route to the destination address
    TTL_EXPIRED = 6,  // the TTL is 0 or 1
    NOT_A_PATH = 7,  // a group packet on a port outside the group's tree
    NOT_A_MEMBER = 8,  // a group packet of a host that is not the member on that port
    WRONG_QPN = 9,  // a packet for another queue pair than the group's, or of an earlier group's
    UNSUPPORTED_OPCODE = 10,  // an opcode that is neither of a reliable connection nor a CNP, or not allowed on this port
    FEEDBACK_ICRC = 11,  // an ACK, NAK or CNP with a wrong ICRC
    FEEDBACK_MERGED = 12,  // an ACK or NAK that only updated registers
    NO_SOURCE = 13,  // a CNP or fatal NAK before any data
    OWN_COPY = 14,  // the copy for the port that the packet came from
    ALREADY_ACKED = 15,  // retransmission filter: the path has acknowledged this PSN
    BAD_CONTROL = 16,  // PacketOut of an unknown kind
    FEEDBACK_RECORDED = 17,  // the mirror of a forwarded ACK, after the filter took its PSN
    SPOOFED_SOURCE = 18,  // a host used an address that is not its own
    DATA_ICRC = 19,  // data that was to be changed had a wrong ICRC
    CNP_FILTERED = 20,  // a CNP of a path that is not the most congested one
    ICRC_PUNTED = 21,  // the controller has the copy, and sends it on
    WALK_TAKEN_OVER = 22,  // a search packet that returned after another walk had begun
    NOT_THE_SOURCE = 23,  // data of a host that is not the source, and not the next PSN
    FRAGMENT = 24,  // a group packet in IP fragments or with IP options
    BEYOND_SENT = 25,  // an ACK or NAK of a PSN that no source has sent
    NAK_ALREADY_SENT = 26,  // a NAK that was sent to the source, which has not yet resent its PSN
    WRONG_PKEY = 27,  // a member's packet of another partition
    MAY_NOT_SEND = 28,  // data of a member that may only receive
    REFUSAL_LIMITED = 29,  // a READ or ATOMIC shortly after another one of the host was refused
    PUNT_LIMITED = 30,  // beyond the port's rate limit of packets to the controller (punt_limit.p4)
    WRONG_MULTICAST_MAC = 31,  // a datagram to a group with a MAC address that is not the group's
    RESERVED_SYNDROME = 32,  // an AETH syndrome that IBTA reserves, or that the group does not use
    BEYOND_WINDOW = 33,  // data beyond the window of the source
    MALFORMED = 34,  // a request whose lengths, padding or transport version are wrong
    OWN_CNP = 35,  // a CNP of the source itself (IBTA annex A17.9.3)
    CNP_LIMITED = 36,  // a CNP beyond the rate limit of its path
    STALE_NAK = 37  // a fatal NAK of a request that its path has acknowledged
}

const bit<32> SIZE_DROP_REASONS = 64;  // cells of ingress.drops and egress.drops

// Cells of the counter array ingress.ack_aggregate.work; those of a strategy begin at cell 8 * MinPsn.
enum bit<32> Work {
    FEEDBACK = 0,  // ACKs and NAKs received
    FORWARDED = 1,  // ACKs and NAKs forwarded to the source
    RECIRCULATIONS = 2,  // passes through the pipeline after the first one
    PUNTS = 3  // packets punted to the controller
}

const bit<32> SIZE_WORK = 32;  // cells of ingress.ack_aggregate.work

#endif  // ALFIRK_CONSTANTS_P4
