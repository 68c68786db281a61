// The word that a packet writes into the tournament tree at its own path (see word_t in ../shared/types.p4).
//
//   ACK, NAK              what it acknowledges
//   data of the source    its PSN: the path of the source has all that the source sent
//   other data            none; the word of the path is read

#ifndef ALFIRK_PATH_WORD_P4
#define ALFIRK_PATH_WORD_P4

control PathWord(in headers_t hdr, in metadata_t meta, in group_state_t state, inout TreeOp op, inout word_t word) {
    apply {
        if (meta.is_feedback == 1) {
            op = TreeOp.UPDATE;
            word = meta.acked_psn ++ meta.path_index ++ hdr.aeth.msn[15:0];
        } else if (meta.kind == Kind.DATA) {
            op = TreeOp.KEEP;
            if (state.from_current_source == 1) {
                op = TreeOp.UPDATE;
                word = hdr.bth.psn ++ PATH_OF_SENDER ++ 16w0;
            }
        }
    }
}

#endif  // ALFIRK_PATH_WORD_P4
