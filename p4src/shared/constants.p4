// Constants of the wire formats and of the contract with the controller.
// The controller's tests compare their own copies with this file.

#ifndef ALFIRK_CONSTANTS_P4
#define ALFIRK_CONSTANTS_P4

#include "types.p4"

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_ARP = 0x0806;

const bit<16> ARP_HTYPE_ETHERNET = 1;
const bit<16> ARP_OPER_REQUEST = 1;
const bit<16> ARP_OPER_REPLY = 2;

const bit<8> IP_PROTOCOL_TCP = 6;
const bit<8> IP_PROTOCOL_UDP = 17;

// RoCEv2 (IBTA vol. 1, annex A17.3.1) and Alfirk's registration protocol.
const bit<16> UDP_PORT_ROCEV2 = 4791;
const bit<16> UDP_PORT_MRP = 4790;

// BTH opcodes of the reliable connection service (IBTA vol. 1, table 38).
const bit<8> OPCODE_RC_SEND_FIRST = 0x00;
const bit<8> OPCODE_RC_WRITE_FIRST = 0x06;
const bit<8> OPCODE_RC_WRITE_ONLY = 0x0a;
const bit<8> OPCODE_RC_WRITE_ONLY_IMM = 0x0b;
const bit<8> OPCODE_RC_ACKNOWLEDGE = 0x11;
const bit<8> OPCODE_CNP = 0x81;

// AETH syndromes (IBTA vol. 1, section 9.7.5.1.4): two type bits after a zero, then a value.
const bit<3> AETH_ACK = 0b000;
const bit<3> AETH_RNR_NAK = 0b001;
const bit<3> AETH_NAK = 0b011;
const bit<5> NAK_PSN_SEQUENCE_ERROR = 0;
// An ACK whose credit field says that the responder gives no credits, as Soft-RoCE sends it.
const bit<8> SYNDROME_ACK_NO_CREDITS = 0x1f;

// The remote queue pair that every member of a group addresses.
const qpn_t VIRTUAL_QPN = 1;
// The one address by which hosts see the fabric.
const mac_t VIRTUAL_MAC = 0x02a1f14c0001;

// What follows the Ethernet header in an ACK: IPv4 (20) + UDP (8) + BTH (12) + AETH (4) + ICRC (4).
const bit<16> ACK_IPV4_BYTES = 48;
const bit<16> ACK_UDP_BYTES = 28;
const bit<32> ACK_FRAME_BYTES = 62;

// The path index in words that a sender's own data wrote: the largest, so that it loses every tie
// and the MSN of a real receiver is taken.
const path_t PATH_OF_SENDER = 0xff;

// packet_out.kind
const bit<8> PACKET_OUT_FORWARD = 0;
const bit<8> PACKET_OUT_REGISTERS = 1;

// packet_in.reason
const bit<8> PACKET_IN_REGISTERS = 1;
const bit<8> PACKET_IN_MRP = 2;

// register_control.op
const bit<8> REGISTER_OP_INIT_GROUP = 1;
const bit<8> REGISTER_OP_READ = 2;
const bit<8> REGISTER_OP_WRITE = 3;

// register_control.status
const bit<8> REGISTER_STATUS_OK = 0;
const bit<8> REGISTER_STATUS_BAD_OP = 1;
const bit<8> REGISTER_STATUS_BAD_REGISTER = 2;
const bit<8> REGISTER_STATUS_OUT_OF_RANGE = 3;

// register_control.reg: what can be read and written.
const bit<8> REGISTER_AGG = 1;        // agg_psn << 24 | agg_msn
const bit<8> REGISTER_NAK = 2;        // nak_syndrome << 24 | nak_psn, 0 when no NAK waits
const bit<8> REGISTER_SRC_PORT = 3;
const bit<8> REGISTER_ACK = 4;        // of a path: ack_psn << 8 | path
const bit<8> REGISTER_MSN = 5;        // of a path
const bit<8> REGISTER_FILTER = 6;     // of a path: the egress copy of ack_psn, for the retransmission filter

// Drop reasons, each an index of the counter arrays ingress.drops and egress.drops.
const bit<8> DROP_NONE = 0;
const bit<8> DROP_PARSER_ERROR = 1;
const bit<8> DROP_IPV4_CHECKSUM = 2;
const bit<8> DROP_UNKNOWN_ETHERTYPE = 3;
const bit<8> DROP_ARP_NOT_FOR_US = 4;
const bit<8> DROP_NO_ROUTE = 5;
const bit<8> DROP_TTL_EXPIRED = 6;
const bit<8> DROP_NOT_A_PATH = 7;          // a group packet on a port outside the group's tree
const bit<8> DROP_NOT_A_MEMBER = 8;        // a group packet of a host that is not the member on that port
const bit<8> DROP_WRONG_QPN = 9;           // a member addressed another queue pair than VIRTUAL_QPN
const bit<8> DROP_UNSUPPORTED_OPCODE = 10; // READ, atomics and other services cannot be multicast
const bit<8> DROP_FEEDBACK_ICRC = 11;      // an ACK or NAK with a wrong ICRC
const bit<8> DROP_FEEDBACK_MERGED = 12;    // an ACK or NAK whose news went into the registers alone
const bit<8> DROP_NO_SOURCE = 13;          // a CNP or fatal NAK before any data
const bit<8> DROP_OWN_COPY = 14;           // the copy for the port that the packet came from
const bit<8> DROP_ALREADY_ACKED = 15;      // retransmission filter: the path has acknowledged this PSN
const bit<8> DROP_BAD_CONTROL = 16;        // PacketOut of an unknown kind
const bit<8> DROP_FEEDBACK_RECORDED = 17;  // the mirror of a forwarded ACK, after the filter took its PSN
const bit<32> SIZE_DROP_REASONS = 32;

#endif  // ALFIRK_CONSTANTS_P4
