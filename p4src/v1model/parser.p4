// Parser and deparser.
//
//   CPU port ──> packet_out ──> register_control          (register access)
//                    │  └─────> feedback ──> ethernet     (optional: an ACK that the controller has aggregated)
//                    └────────> rest untouched            (frame of the controller)
//   other    ──> ethernet ──> [tags] ──> arp
//                                └────> ipv4 ──> udp ──> bth ──> aeth ──> icrc            (feedback)
//                               │        │      ├────> cnp ──> icrc
//                               │        │      ├────> reth ──> payload untouched
//                               │        │      └────> payload untouched
//                               └ tcp    └ payload untouched
//
// Tags, and the payload where it is parsed, are optional (optional/parser.p4). An ICRC is parsed only if the pipeline rewrites
// it. After a payload that is not parsed it remains unchanged, as neutral bridging requires.

#ifndef ALFIRK_PARSER_P4
#define ALFIRK_PARSER_P4

parser AlfirkParser(packet_in packet,
                    out headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    ParseTags() tags;
    ParsePayload() payload;
    ParseWrite() write;
    bit<16> ether_type;

    state start {
        // A recirculated packet is either a search packet of a walk, or INIT_GROUP.
        transition select(meta.kind, standard_metadata.instance_type, standard_metadata.ingress_port) {
            (Kind.MIN_SEARCH, _, _): parse_ethernet;
            (_, INSTANCE_RECIRCULATED, _): parse_packet_out;
            (_, _, CPU_PORT): parse_packet_out;
            default: parse_ethernet;
        }
    }

    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition select(hdr.packet_out.kind) {
            PacketOutKind.REGISTERS: parse_register_control;
            PacketOutKind.FEEDBACK: parse_feedback;
            default: accept;
        }
    }

    state parse_feedback {
        packet.extract(hdr.feedback);
        transition parse_ethernet;
    }

    state parse_register_control {
        packet.extract(hdr.register_control);
        transition accept;
    }

    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_ARP: parse_arp;
            ETHERTYPE_IPV4: parse_ipv4;
            default: parse_tags;
        }
    }

    state parse_tags {
        tags.apply(packet, hdr, ether_type);
        transition select(ether_type) {
            ETHERTYPE_ARP: parse_arp;
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_arp {
        packet.extract(hdr.arp);
        transition accept;
    }

    // Packets with IP options and later fragments are routed, but not parsed further.
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.frag_offset, hdr.ipv4.protocol) {
            (4w4, 4w5, 13w0, IP_PROTOCOL_UDP): parse_udp;
            (4w4, 4w5, 13w0, IP_PROTOCOL_TCP): parse_tcp_ports;
            default: accept;
        }
    }

    state parse_tcp_ports {
        meta.l4_ports = packet.lookahead<bit<32>>();
        transition accept;
    }

    state parse_udp {
        packet.extract(hdr.udp);
        meta.l4_ports = hdr.udp.src_port ++ hdr.udp.dst_port;
        transition select(hdr.udp.dst_port) {
            UDP_PORT_ROCEV2: parse_bth;
            default: accept;
        }
    }

    state parse_bth {
        packet.extract(hdr.bth);
        transition select(hdr.bth.opcode) {
            OPCODE_RC_ACKNOWLEDGE: parse_aeth;
            OPCODE_CNP: parse_cnp;
            OPCODE_RC_WRITE_FIRST: parse_reth;
            OPCODE_RC_WRITE_ONLY: parse_reth;
            OPCODE_RC_WRITE_ONLY_IMM: parse_reth;
            default: parse_payload;
        }
    }

    state parse_payload {
        payload.apply(packet, hdr);
        transition accept;
    }

    state parse_reth {
        packet.extract(hdr.reth);
        write.apply(packet, hdr, meta);
        transition accept;
    }

    state parse_aeth {
        packet.extract(hdr.aeth);
        transition parse_icrc;
    }

    state parse_cnp {
        packet.extract(hdr.cnp);
        transition parse_icrc;
    }

    state parse_icrc {
        packet.extract(hdr.icrc);
        transition accept;
    }
}

control AlfirkDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.packet_out);
        packet.emit(hdr.register_control);
        packet.emit(hdr.feedback);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.outer_tag);
        packet.emit(hdr.inner_tag);
        packet.emit(hdr.arp);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.bth);
        packet.emit(hdr.reth);
        packet.emit(hdr.aeth);
        packet.emit(hdr.cnp);
        packet.emit(hdr.mr_info);
        packet.emit(hdr.payload);
        packet.emit(hdr.icrc);
    }
}

#endif  // ALFIRK_PARSER_P4
