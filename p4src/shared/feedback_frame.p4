// Writes all fields of a feedback packet that are the same for all packets of its group.
//
// A source or the next switch drops an ACK with wrong lengths, TTL, transport version or tags. If a merged packet kept
// these fields of the member's frame, one member could invalidate the acknowledgements of all others. So a switch writes
// each field of Ethernet, IPv4, UDP and BTH itself, in all packets that it merges, forwards, replies with or passes to the
// controller. Only dstIP and the queue pair number (which equal the group's, see bridge_entry.p4), PSN and AETH of the
// received frame are kept.
//
// IBTA vol. 1, section 9.2 (BTH) and annex A17.3 (IPv4, UDP) and A17.9.3 (CNP).

#ifndef ALFIRK_FEEDBACK_FRAME_P4
#define ALFIRK_FEEDBACK_FRAME_P4

// `ttl`: TTL of the packet as it leaves this switch. The headers must be those of an acknowledge packet or, if `is_cnp`, a CNP; opcode,
// destination queue pair and PSN of an acknowledge packet are kept.
control FeedbackFrame(inout headers_t hdr, in bit<8> ttl, in bool is_cnp) {
    apply {
        hdr.outer_tag.setInvalid();
        hdr.inner_tag.setInvalid();
        hdr.ethernet.dst = VIRTUAL_MAC;
        hdr.ethernet.src = VIRTUAL_MAC;
        hdr.ethernet.ether_type = ETHERTYPE_IPV4;
        hdr.ipv4.version = 4;
        hdr.ipv4.ihl = 5;
        hdr.ipv4.dscp = 0;
        hdr.ipv4.ecn = ECN_NOT_ECT;
        hdr.ipv4.identification = 0;
        // Do not fragment.
        hdr.ipv4.flags = 0b010;
        hdr.ipv4.frag_offset = 0;
        hdr.ipv4.ttl = ttl;
        hdr.ipv4.protocol = IP_PROTOCOL_UDP;
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.udp.src_port = FEEDBACK_UDP_SOURCE_PORT;
        hdr.udp.dst_port = UDP_PORT_ROCEV2;
        hdr.udp.checksum = 0;
        hdr.bth.solicited_event = 0;
        // The path is the primary one, as with every queue pair that has not migrated (IBTA vol. 1, section 17.2.8).
        hdr.bth.mig_req = 1;
        hdr.bth.pad_count = 0;
        hdr.bth.tver = 0;
        hdr.bth.pkey = 1w1 ++ DEFAULT_PARTITION;
        hdr.bth.fecn = 0;
        hdr.bth.reserved_a = 0;
        hdr.bth.ack_req = 0;
        hdr.bth.reserved_b = 0;
        if (is_cnp) {
            hdr.ipv4.total_len = CNP_IPV4_BYTES;
            hdr.udp.length = CNP_UDP_BYTES;
            hdr.bth.becn = 1;
            hdr.bth.psn = 0;
            hdr.cnp.reserved = 0;
        } else {
            hdr.ipv4.total_len = ACK_IPV4_BYTES;
            hdr.udp.length = ACK_UDP_BYTES;
            hdr.bth.becn = 0;
        }
    }
}

#endif  // ALFIRK_FEEDBACK_FRAME_P4
