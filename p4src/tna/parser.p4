// Parsers and deparsers.
//
//   ingress   CPU port ──> packet_out ──> register_control      (register access; it recirculates, too)
//                              └────────> rest untouched        (frame of the controller)
//             other    ──> ethernet ──> ...
//   egress    carried  ──> packet_out ──> register_control
//                 └──────> ethernet ──> ...
//
//   ethernet ──> [tag [tag]] ──> arp
//                        └────> ipv4 ──> udp ──> bth ──> aeth ──> icrc             (feedback)
//                                 │        │      ├────> cnp ──> icrc
//                                 │        │      ├────> reth ──> mr_info ──> icrc  (memory region)
//                                 │        │      └────> [reth] ──> payload untouched
//                                 └ tcp    └ payload untouched
//
// The ingress parser also classifies packets in terms of the protocol, like ../v1model/classify.p4 for v1model, because parser
// states are cheaper here than a stage of tables. A packet that no group accepts has Kind.NONE, and `flaw` is the drop reason,
// 0 for an unsupported opcode. It is dropped only if it belongs to a group; unicast packets are routed unchanged.
//
// A PSN becomes a word (metadata.p4) by extracting it with the following byte, which the first stage masks: actions cannot
// shift fields, as they copy between containers of the same size.

#ifndef ALFIRK_PARSER_P4
#define ALFIRK_PARSER_P4

#include "../shared/constants.p4"
#include "../shared/headers.p4"
#include "metadata.p4"
#include "ipv4_checksum.p4"

// The PSN of the next BTH, the MSN of the AETH, and the value of both in register control, as words whose lower 8 bits are
// arbitrary.
#define PSN_WORD(packet) packet.lookahead<bit<104>>()[31:0]
#define MSN_WORD(packet) packet.lookahead<bit<40>>()[31:0]
#define REGISTER_VALUE_WORD(packet) packet.lookahead<bit<136>>()[31:0]
#define REGISTER_MSN_WORD(packet) packet.lookahead<bit<112>>()[31:0]

// Opcodes of data without RETH: 0x00 to 0x07, of which WRITE First has a RETH, and WRITE Last with and without Immediate.
#define OPCODES_SEND_FIRST_TO_WRITE_MIDDLE OPCODE_RC_SEND_FIRST &&& 0xf8
#define OPCODES_WRITE_LAST OPCODE_RC_WRITE_LAST &&& 0xfe

parser IngressParser(packet_in packet,
                     out headers_t hdr,
                     out ingress_metadata_t meta,
                     out ingress_intrinsic_metadata_t ig_intr_md) {
    Checksum() ipv4_checksum;

    state start {
        packet.extract(ig_intr_md);
        packet.advance(PORT_METADATA_SIZE);
        meta.carried.setValid();
        meta.carried.origin = Origin.SWITCHED;
        meta.carried.kind = Kind.NONE;
        meta.carried.is_old = 0;
        meta.carried.is_new = 0;
        meta.carried.is_source = 0;
        meta.carried.is_own_nak = 0;
        meta.carried.packet_in_reason = 0;
        meta.carried.ingress_port = ig_intr_md.ingress_port;
        meta.carried.cell = 0;
        meta.carried.minimum = 0;
        meta.carried.waited = 0;
        meta.carried.word = 0;
        meta.group_index = 0;
        meta.mirror_origin = Origin.SWITCHED;
        meta.drop_reason = 0;
        meta.checksum_error = 0;
        meta.flaw = Drop.NONE;
        meta.is_host = 0;
        meta.is_member = 0;
        meta.may_send = 0;
        meta.address_difference = 0;
        meta.is_multicast = 0;
        meta.source_difference = 0;
        meta.l4_ports = 0;
        meta.absent = 0;
        meta.tie = -PSN_WORD_ONE;
        meta.window = 0;
        meta.is_beyond = 0;
        meta.crc = 0;
        meta.region_crc = 0;
        meta.qpn_difference = 0;
        meta.psn = 0;
        meta.acked = 0;
        meta.top = 0;
        meta.nak = 0;
        meta.is_caught_up = 0;
        meta.turn = 0;
        meta.port_word = 0;
        meta.source = 0;
        meta.last_source = 0;
        meta.in_tree = 0;
        meta.ahead = 0;
        meta.advances_minimum = 0;
        meta.distance = 0;
        meta.minimum_psn = 0;
        meta.mirror_session = 0;
        meta.record_session = 0;
        meta.answer_session = 0;
        meta.now = 0;
        meta.refusal_window = 0;
        meta.cnp_word = 0;
        meta.cnp_window = 0;
        transition select(ig_intr_md.ingress_port) {
            CPU_PORT: parse_packet_out;
            RECIRCULATION_PORT: parse_packet_out;
            default: parse_ethernet;
        }
    }

    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition select(hdr.packet_out.kind) {
            PacketOutKind.REGISTERS: parse_register_control;
            default: accept;
        }
    }

    state parse_register_control {
        meta.psn = (psn_word_t)REGISTER_VALUE_WORD(packet);
        packet.extract(hdr.register_control);
        transition select(hdr.register_control.op) {
            REGISTER_OP_RAISE_WINDOW: window;
            default: registers;
        }
    }

    state registers {
        meta.carried.kind = Kind.REGISTERS;
        transition accept;
    }

    state window {
        meta.carried.kind = Kind.WINDOW;
        transition accept;
    }

    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_ARP: parse_arp;
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_C_TAG: parse_outer_tag;
            ETHERTYPE_S_TAG: parse_outer_tag;
            default: accept;
        }
    }

    state parse_outer_tag {
        packet.extract(hdr.outer_tag);
        transition select(hdr.outer_tag.ether_type) {
            ETHERTYPE_ARP: parse_arp;
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_C_TAG: parse_inner_tag;
            default: accept;
        }
    }

    state parse_inner_tag {
        packet.extract(hdr.inner_tag);
        transition select(hdr.inner_tag.ether_type) {
            ETHERTYPE_ARP: parse_arp;
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_arp {
        packet.extract(hdr.arp);
        transition accept;
    }

    // Packets with IP options and fragments are routed, but not parsed further.
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        ipv4_checksum.add(hdr.ipv4);
        transition select(hdr.ipv4.dst[31:28]) {
            IPV4_MULTICAST: multicast;
            default: behind_ipv4;
        }
    }

    state multicast {
        meta.is_multicast = 1;
        transition behind_ipv4;
    }

    state behind_ipv4 {
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.flags, hdr.ipv4.frag_offset, hdr.ipv4.protocol) {
            (4, 5, 0 &&& 1, 0, IP_PROTOCOL_UDP): parse_udp;
            (4, 5, 0 &&& 1, 0, IP_PROTOCOL_TCP): parse_tcp_ports;
            (4, 5, 0 &&& 1, 0, _): verify_checksum;
            (4, 5, _, _, _): fragment;
            default: options;
        }
    }

    state fragment {
        meta.flaw = Drop.FRAGMENT;
        transition verify_checksum;
    }

    state options {
        meta.flaw = Drop.FRAGMENT;
        transition accept;
    }

    state verify_checksum {
        meta.checksum_error = (bit<1>)ipv4_checksum.verify();
        transition accept;
    }

    state parse_tcp_ports {
        meta.checksum_error = (bit<1>)ipv4_checksum.verify();
        meta.l4_ports = packet.lookahead<bit<32>>();
        transition accept;
    }

    state parse_udp {
        meta.checksum_error = (bit<1>)ipv4_checksum.verify();
        meta.l4_ports = packet.lookahead<bit<32>>();
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst_port) {
            UDP_PORT_ROCEV2: parse_bth;
            default: accept;
        }
    }

    // IBTA vol. 1, table 38.
    state parse_bth {
        meta.psn = (psn_word_t)PSN_WORD(packet);
        packet.extract(hdr.bth);
        transition select(hdr.bth.opcode) {
            OPCODE_RC_ACKNOWLEDGE: parse_aeth;
            OPCODE_CNP: parse_cnp;
            OPCODE_RC_WRITE_FIRST: check_write;
            OPCODE_RC_WRITE_ONLY: check_write;
            OPCODE_RC_WRITE_ONLY_IMM: check_write;
            OPCODES_SEND_FIRST_TO_WRITE_MIDDLE: check_data;
            OPCODES_WRITE_LAST: check_data;
            OPCODE_RC_READ_REQUEST: check_read;
            OPCODE_RC_COMPARE_SWAP: check_read;
            OPCODE_RC_FETCH_ADD: check_read;
            OPCODE_RC_SEND_LAST_INV: check_read;
            OPCODE_RC_SEND_ONLY_INV: check_read;
            OPCODE_RC_FLUSH: check_read;
            OPCODE_RC_ATOMIC_WRITE: check_read;
            default: accept;
        }
    }

    // A valid request is at least as long as its headers and padding, and has transport version 0. admission.p4 checks that the
    // IPv4 length equals the UDP length plus the IPv4 header.
#define MALFORMED_ROWS(below_1, mask_1, below_2, mask_2, bytes) \
            (_, _, 1 &&& 1): malformed; \
            (_, _, 2 &&& 2): malformed; \
            (_, _, 4 &&& 4): malformed; \
            (_, _, 8 &&& 8): malformed; \
            (below_1 &&& mask_1, _, _): malformed; \
            (below_2 &&& mask_2, _, _): malformed; \
            (bytes, 1 &&& 1, _): malformed; \
            (bytes, 2 &&& 2, _): malformed; \
            (bytes + 1, 2 &&& 2, _): malformed; \
            (bytes + 2, 3, _): malformed;

    // 0 to 15 and 16 to 23 bytes.
    state check_data {
        transition select(hdr.udp.length, hdr.bth.pad_count, hdr.bth.tver) {
            MALFORMED_ROWS(0, 0xfff0, 16, 0xfff8, UDP_OVERHEAD_BYTES)
            default: data;
        }
    }

    state check_read {
        transition select(hdr.udp.length, hdr.bth.pad_count, hdr.bth.tver) {
            MALFORMED_ROWS(0, 0xfff0, 16, 0xfff8, UDP_OVERHEAD_BYTES)
            default: read;
        }
    }

    // 0 to 31 and 32 to 39 bytes.
    state check_write {
        transition select(hdr.udp.length, hdr.bth.pad_count, hdr.bth.tver) {
            MALFORMED_ROWS(0, 0xffe0, 32, 0xfff8, UDP_OVERHEAD_WITH_RETH_BYTES)
            default: choose_write;
        }
    }

    state choose_write {
        transition select(hdr.bth.opcode, hdr.udp.length) {
            (OPCODE_RC_WRITE_ONLY, MR_INFO_UDP_BYTES): parse_reth_of_region;
            default: parse_reth;
        }
    }

    state malformed {
        meta.flaw = Drop.MALFORMED;
        transition accept;
    }

    state data {
        meta.carried.kind = Kind.DATA;
        transition accept;
    }

    state read {
        meta.carried.kind = Kind.READ;
        transition accept;
    }

    state parse_reth {
        packet.extract(hdr.reth);
        transition data;
    }

    state parse_reth_of_region {
        packet.extract(hdr.reth);
        transition select(hdr.reth.r_key) {
            MR_INFO_RKEY: parse_mr_info;
            default: data;
        }
    }

    state parse_mr_info {
        packet.extract(hdr.mr_info);
        packet.extract(hdr.icrc);
        transition data;
    }

    state parse_cnp {
        packet.extract(hdr.cnp);
        packet.extract(hdr.icrc);
        meta.carried.kind = Kind.CNP;
        transition accept;
    }

    // IBTA vol. 1, table 45. A requester takes a NAK of any code as an ACK of all packets before its PSN, so reserved syndromes
    // are dropped. Selective NAKs are dropped as well, because this target does not support selective repeat.
    state parse_aeth {
        packet.extract(hdr.aeth);
        packet.extract(hdr.icrc);
        transition select(hdr.aeth.kind, hdr.aeth.value) {
            (AETH_ACK, _): ack;
            (AETH_RNR_NAK, _): nak;
            (AETH_NAK, NAK_PSN_SEQUENCE_ERROR): nak;
            (AETH_NAK, NAK_INVALID_REQUEST): fatal_nak;
            (AETH_NAK, NAK_REMOTE_OPERATIONAL &&& 0x1e): fatal_nak;
            default: reserved_syndrome;
        }
    }

    state ack {
        meta.carried.kind = Kind.ACK;
        transition accept;
    }

    state nak {
        meta.carried.kind = Kind.NAK;
        transition accept;
    }

    state fatal_nak {
        meta.carried.kind = Kind.FATAL_NAK;
        transition accept;
    }

    state reserved_syndrome {
        meta.flaw = Drop.RESERVED_SYNDROME;
        transition accept;
    }
}

control IngressDeparser(packet_out packet,
                        inout headers_t hdr,
                        in ingress_metadata_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {
    Mirror() mirror;

#define CARRIED_BY_MIRROR \
    { meta.mirror_origin, meta.carried.pad_0, meta.carried.kind, meta.carried.pad_1, meta.carried.is_old, meta.carried.is_new, \
      meta.carried.is_source, meta.carried.is_own_nak, meta.carried.packet_in_reason, \
      meta.carried.pad_2, meta.carried.ingress_port, meta.carried.cell, meta.carried.minimum, meta.carried.waited, \
      meta.carried.word }

    apply {
        if (ig_dprsr_md.mirror_type == MIRROR_TO_ORIGIN) {
            mirror.emit<carried_t>(meta.mirror_session, CARRIED_BY_MIRROR);
        }
        packet.emit(meta.carried);
        packet.emit(hdr);
    }
}

parser EgressParser(packet_in packet,
                    out headers_t hdr,
                    out egress_metadata_t meta,
                    out egress_intrinsic_metadata_t eg_intr_md) {
    state start {
        packet.extract(eg_intr_md);
        meta.group_index = 0;
        meta.filter_cell = 0;
        meta.msn_cell = 0;
        meta.psn = 0;
        meta.record = 0;
        meta.msn = 0;
        meta.region_owner = 0;
        meta.outer_word = 0;
        meta.inner_word = 0;
        meta.after_minimum = 0;
        meta.access = Access.NONE;
        meta.difference = 0;
        meta.is_dropped = 0;
        meta.port_difference = 0;
        meta.owner_difference = 0;
        meta.has_checksum = 0;
        meta.crc = 0;
        packet.extract(meta.carried);
        transition select(meta.carried.ingress_port, meta.carried.origin) {
            (CPU_PORT, Origin.SWITCHED): parse_packet_out;
            (RECIRCULATION_PORT, Origin.SWITCHED): parse_packet_out;
            default: parse_ethernet;
        }
    }

    state parse_packet_out {
        transition select(meta.carried.kind) {
            Kind.REGISTERS: parse_register_control;
            default: accept;
        }
    }

    state parse_register_control {
        packet.extract(hdr.packet_out);
        meta.psn = (psn_word_t)REGISTER_VALUE_WORD(packet);
        meta.msn = (psn_word_t)REGISTER_MSN_WORD(packet);
        packet.extract(hdr.register_control);
        transition accept;
    }

    state parse_ethernet {
        meta.outer_word = packet.lookahead<bit<128>>()[31:0];
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_C_TAG: parse_outer_tag;
            ETHERTYPE_S_TAG: parse_outer_tag;
            default: accept;
        }
    }

    state parse_outer_tag {
        meta.inner_word = packet.lookahead<bit<48>>()[31:0];
        packet.extract(hdr.outer_tag);
        transition select(hdr.outer_tag.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_C_TAG: parse_inner_tag;
            default: accept;
        }
    }

    state parse_inner_tag {
        packet.extract(hdr.inner_tag);
        transition select(hdr.inner_tag.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    // The checksum is updated only for headers without options (ipv4_checksum.p4).
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version, hdr.ipv4.ihl) {
            (4, 5): without_options;
            default: accept;
        }
    }

    state without_options {
        meta.has_checksum = 1;
        transition select(hdr.ipv4.flags, hdr.ipv4.frag_offset) {
            (0 &&& 1, 0): parse_protocol;
            default: accept;
        }
    }

    // A parser state matches at most 32 bits; the origin takes 8 of them up to parse_udp.
    state parse_protocol {
        transition select(hdr.ipv4.protocol) {
            IP_PROTOCOL_UDP: parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(meta.carried.origin, hdr.udp.dst_port) {
            (Origin.ANSWER, UDP_PORT_ROCEV2): parse_bth_of_answer;
            (_, UDP_PORT_ROCEV2): parse_bth;
            default: accept;
        }
    }

    // The mirror is truncated after the BTH (ack_aggregate.p4).
    state parse_bth_of_answer {
        packet.extract(hdr.bth);
        transition accept;
    }

    state parse_bth {
        meta.psn = (psn_word_t)PSN_WORD(packet);
        packet.extract(hdr.bth);
        transition select(hdr.bth.opcode, hdr.udp.length) {
            (OPCODE_RC_ACKNOWLEDGE, _): parse_aeth;
            (OPCODE_CNP, _): parse_cnp;
            (OPCODE_RC_WRITE_ONLY, MR_INFO_UDP_BYTES): parse_reth_of_region;
            (OPCODE_RC_WRITE_FIRST, _): parse_reth;
            (OPCODE_RC_WRITE_ONLY, _): parse_reth;
            (OPCODE_RC_WRITE_ONLY_IMM, _): parse_reth;
            default: accept;
        }
    }

    state parse_reth {
        packet.extract(hdr.reth);
        transition accept;
    }

    // Extracts the receiver's address before the exit half of the bridge changes it.
    state parse_reth_of_region {
        meta.region_owner = packet.lookahead<bit<64>>()[31:0];
        packet.extract(hdr.reth);
        transition select(hdr.reth.r_key) {
            MR_INFO_RKEY: parse_mr_info;
            default: accept;
        }
    }

    state parse_mr_info {
        packet.extract(hdr.mr_info);
        packet.extract(hdr.icrc);
        transition accept;
    }

    state parse_cnp {
        packet.extract(hdr.cnp);
        packet.extract(hdr.icrc);
        transition accept;
    }

    state parse_aeth {
        meta.msn = (psn_word_t)MSN_WORD(packet);
        packet.extract(hdr.aeth);
        packet.extract(hdr.icrc);
        transition accept;
    }
}

control EgressDeparser(packet_out packet,
                       inout headers_t hdr,
                       in egress_metadata_t meta,
                       in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {
    Checksum() ipv4_checksum;

    apply {
        if (meta.has_checksum == 1) {
            hdr.ipv4.checksum = ipv4_checksum.update(IPV4_CHECKSUM_FIELDS(hdr.ipv4));
        }
        packet.emit(hdr);
    }
}

#endif  // ALFIRK_PARSER_P4
