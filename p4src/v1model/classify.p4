// Classification of a group's packets in terms of the protocol.
//
//   opcode           AETH syndrome            kind        acknowledges
//   SEND*, WRITE*                             DATA
//   ACKNOWLEDGE      ACK                      ACK         its PSN and all before
//                    RNR, sequence error      NAK         all before its PSN
//                    1 to 3                   FATAL_NAK   nothing (a requester would take it as all before)
//   others             optional/classify.p4
//
// All other packets are dropped: other services and opcodes; reserved syndromes, because a requester takes a NAK of any code
// as an ACK of all packets before its PSN; IP fragments, because later fragments have no BTH and the others no ICRC; IP
// options, which are not parsed; and requests with wrong lengths or transport version, which receivers would drop
// although they are recorded as sent. Of feedback only PSN and AETH are used; all other fields are rewritten
// (feedback_frame.p4).
//
// IBTA vol. 1, table 38, table 45 and section 9.7.5.

#ifndef ALFIRK_CLASSIFY_P4
#define ALFIRK_CLASSIFY_P4

// `frame_bytes`: length of the received frame.
control Classify(in headers_t hdr, inout metadata_t meta, in bit<32> frame_bytes) {
    ClassifyOther() classify_other;
    bool is_request = false;

    apply {
        if (hdr.ipv4.ihl != 5 || hdr.ipv4.flags[0:0] == 1 || hdr.ipv4.frag_offset != 0) {
            meta.drop_reason = Drop.FRAGMENT;
        } else if (!hdr.bth.isValid()) {
            meta.drop_reason = Drop.UNSUPPORTED_OPCODE;
        } else if (hdr.bth.opcode <= OPCODE_RC_WRITE_ONLY_IMM) {
            meta.kind = Kind.DATA;
            is_request = true;
        } else if (hdr.aeth.isValid()) {
            meta.acked_psn = hdr.bth.psn - 1;
            if (hdr.aeth.kind == AETH_ACK) {
                meta.kind = Kind.ACK;
                meta.is_feedback = 1;
                meta.acked_psn = hdr.bth.psn;
            } else if (hdr.aeth.kind == AETH_RNR_NAK
                       || (hdr.aeth.kind == AETH_NAK && hdr.aeth.value == NAK_PSN_SEQUENCE_ERROR)) {
                meta.kind = Kind.NAK;
                meta.is_feedback = 1;
            } else if (hdr.aeth.kind == AETH_NAK && hdr.aeth.value <= NAK_REMOTE_OPERATIONAL) {
                meta.kind = Kind.FATAL_NAK;
            }
        }
        if (meta.kind == Kind.NONE && meta.drop_reason == Drop.NONE) {
            classify_other.apply(hdr, meta, is_request);
        }
        if (is_request
            && (hdr.bth.tver != 0 || (bit<32>)hdr.ipv4.total_len != (bit<32>)hdr.udp.length + UDP_OFFSET_BYTES
                || hdr.udp.length < UDP_OVERHEAD(hdr) + (bit<16>)hdr.bth.pad_count
                || frame_bytes < (bit<32>)hdr.ipv4.total_len + ETHERNET_BYTES + TAGS_BYTES(hdr))) {
            meta.drop_reason = Drop.MALFORMED;
        }
    }
}

#endif  // ALFIRK_CLASSIFY_P4
