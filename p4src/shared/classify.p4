// What is this packet of the group, in terms of the protocol?
//
//   opcode           AETH syndrome            kind        acknowledges
//   SEND*, WRITE*                             DATA
//   ACKNOWLEDGE      ACK                      ACK         its PSN and all before
//                    RNR, sequence error      NAK         all before its PSN
//                    selective                SELECTIVE_NAK   nothing
//                    other NAKs               FATAL_NAK   nothing (a requester would take it as all before)
//   CNP                                       CNP
//   READ, ATOMIC                              READ
//
// Everything else is refused: other services and opcodes, IP fragments (a later part has no BTH, and a part of a
// packet has no ICRC), IP options (their words are not parsed).
//
// IBTA vol. 1, table 38 and section 9.7.5.

#ifndef ALFIRK_CLASSIFY_P4
#define ALFIRK_CLASSIFY_P4

control Classify(in headers_t hdr, inout metadata_t meta) {
    apply {
        if (hdr.ipv4.ihl != 5 || hdr.ipv4.flags[0:0] == 1 || hdr.ipv4.frag_offset != 0) {
            meta.drop_reason = Drop.FRAGMENT;
        } else if (!hdr.bth.isValid()) {
            meta.drop_reason = Drop.UNSUPPORTED_OPCODE;
        } else if (hdr.bth.opcode <= OPCODE_RC_WRITE_ONLY_IMM) {
            meta.kind = Kind.DATA;
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
            } else if (hdr.aeth.kind == AETH_NAK && hdr.aeth.value == NAK_SELECTIVE) {
                meta.kind = Kind.SELECTIVE_NAK;
                // What must have been sent.
                meta.acked_psn = hdr.bth.psn;
            } else if (hdr.aeth.kind == AETH_NAK) {
                meta.kind = Kind.FATAL_NAK;
            } else {
                meta.drop_reason = Drop.UNSUPPORTED_OPCODE;
            }
        } else if (hdr.bth.opcode == OPCODE_CNP) {
            meta.kind = Kind.CNP;
        } else if (hdr.bth.opcode == OPCODE_RC_READ_REQUEST || hdr.bth.opcode == OPCODE_RC_COMPARE_SWAP
                   || hdr.bth.opcode == OPCODE_RC_FETCH_ADD) {
            meta.kind = Kind.READ;
        } else {
            meta.drop_reason = Drop.UNSUPPORTED_OPCODE;
        }
    }
}

#endif  // ALFIRK_CLASSIFY_P4
