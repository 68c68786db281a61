// Optional parts of the parser: VLAN tags, announced memory regions, and payloads of groups whose ICRC the pipeline recomputes.

#ifndef ALFIRK_OPTIONAL_PARSER_P4
#define ALFIRK_OPTIONAL_PARSER_P4

// Parses up to two VLAN tags. Returns the EtherType after them.
parser ParseTags(packet_in packet, inout headers_t hdr, out bit<16> ether_type) {
    state start {
        ether_type = hdr.ethernet.ether_type;
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_C_TAG: parse_outer_tag;
            ETHERTYPE_S_TAG: parse_outer_tag;
            default: accept;
        }
    }

    state parse_outer_tag {
        packet.extract(hdr.outer_tag);
        ether_type = hdr.outer_tag.ether_type;
        transition select(hdr.outer_tag.ether_type) {
            ETHERTYPE_C_TAG: parse_inner_tag;
            default: accept;
        }
    }

    state parse_inner_tag {
        packet.extract(hdr.inner_tag);
        ether_type = hdr.inner_tag.ether_type;
        transition accept;
    }
}

// Parses a request after the BTH, if its ICRC is recomputed.
parser ParsePayload(packet_in packet, inout headers_t hdr) {
    state start {
        transition select(hdr.ipv4.dst) {
            RECOMPUTE_NETWORK &&& RECOMPUTE_MASK: parse_payload;
            default: accept;
        }
    }

    state parse_payload {
        packet.extract(hdr.payload, (bit<32>)(hdr.udp.length - UDP_OVERHEAD_BYTES) << 3);
        packet.extract(hdr.icrc);
        transition accept;
    }
}

// Parses a WRITE after the RETH, if it announces a memory region or its ICRC is recomputed.
parser ParseWrite(packet_in packet, inout headers_t hdr, inout metadata_t meta) {
    state start {
        transition select(hdr.reth.r_key, hdr.bth.opcode, hdr.udp.length) {
            (MR_INFO_RKEY, OPCODE_RC_WRITE_ONLY, MR_INFO_UDP_BYTES): parse_mr_info;
            default: choose_payload;
        }
    }

    state parse_mr_info {
        packet.extract(hdr.mr_info);
        // Saved here, because the exit half of the bridge changes the address.
        meta.optional.region_owner = hdr.reth.va[31:0];
        packet.extract(hdr.icrc);
        transition accept;
    }

    state choose_payload {
        transition select(hdr.ipv4.dst) {
            RECOMPUTE_NETWORK &&& RECOMPUTE_MASK: parse_payload;
            default: accept;
        }
    }

    state parse_payload {
        packet.extract(hdr.payload, (bit<32>)(hdr.udp.length - UDP_OVERHEAD_WITH_RETH_BYTES) << 3);
        packet.extract(hdr.icrc);
        transition accept;
    }
}

#endif  // ALFIRK_OPTIONAL_PARSER_P4
