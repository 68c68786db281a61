// Classification of packets of optional kinds (../classify.p4).
//
//   opcode           AETH syndrome            kind            acknowledges
//   ACKNOWLEDGE      31, if selective         SELECTIVE_NAK   nothing
//   CNP                                       CNP
//   READ, ATOMIC, SEND with Invalidate,       READ
//   FLUSH, ATOMIC WRITE
//
// SEND with Invalidate contains an R_Key of one receiver, so it cannot apply to all (IBTA vol. 1, section 9.4.1.1.3).

#ifndef ALFIRK_OPTIONAL_CLASSIFY_P4
#define ALFIRK_OPTIONAL_CLASSIFY_P4

// Sets `is_request` for a request that its group refuses. All other packets are dropped.
control ClassifyOther(in headers_t hdr, inout metadata_t meta, inout bool is_request) {
    apply {
        if (hdr.aeth.isValid()) {
            if (hdr.aeth.kind == AETH_NAK && hdr.aeth.value == NAK_SELECTIVE && meta.optional.is_selective == 1) {
                meta.kind = Kind.SELECTIVE_NAK;
                // PSN that must have been sent.
                meta.acked_psn = hdr.bth.psn;
            } else {
                meta.drop_reason = Drop.RESERVED_SYNDROME;
            }
        } else if (hdr.cnp.isValid()) {
            meta.kind = Kind.CNP;
        } else if (hdr.bth.opcode == OPCODE_RC_READ_REQUEST || hdr.bth.opcode == OPCODE_RC_COMPARE_SWAP
                   || hdr.bth.opcode == OPCODE_RC_FETCH_ADD || hdr.bth.opcode == OPCODE_RC_SEND_LAST_INV
                   || hdr.bth.opcode == OPCODE_RC_SEND_ONLY_INV || hdr.bth.opcode == OPCODE_RC_FLUSH
                   || hdr.bth.opcode == OPCODE_RC_ATOMIC_WRITE) {
            meta.kind = Kind.READ;
            is_request = true;
        } else {
            meta.drop_reason = Drop.UNSUPPORTED_OPCODE;
        }
    }
}

#endif  // ALFIRK_OPTIONAL_CLASSIFY_P4
