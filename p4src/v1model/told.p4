// What was last acknowledged to the source: AckPSN and MSN of the group (Cepheus, section III-D; Gleam, algorithm 2: agg_psn).
//
// It rises with the minimum, when a packet with it goes to the source. Where no minimum was looked for, it
// stands in for it: it is never too new.

#ifndef ALFIRK_TOLD_P4
#define ALFIRK_TOLD_P4

// `has_minimum`: `word` is the group's minimum. `is_conclusion`: it is feedback and looks no further.
// Gives the minimum and its MSN; `is_answer`: it is old data that all have; `is_news`: the minimum is news to the
// source, and counts as acknowledged to it if the packet goes there.
control Told(inout headers_t hdr, inout metadata_t meta, in bool has_minimum, in bool is_conclusion, in word_t word,
             out psn_t minimum, out msn_t msn, out bool is_answer, out bool is_news) {
    // AckPSN ++ MSN.
    register<bit<48>>(MAX_GROUPS) agg;
    RegisterAccess(RegisterName.AGG, RegisterOp.INIT_GROUP) access;
    bit<64> value;

    apply {
        agg.read(meta.told, (bit<32>)meta.group_index);
        minimum = meta.told[47:24];
        msn = meta.told[23:0];
        if (meta.kind == Kind.REGISTERS) {
            value = (bit<64>)meta.told;
            access.apply(hdr, (bit<64>)(INITIAL_PSN(hdr) ++ INITIAL_MSN(hdr)), value);
            agg.write((bit<32>)meta.group_index, value[47:0]);
        } else if (meta.kind == Kind.COMMAND) {
            minimum = hdr.feedback.agg_psn;
            msn = hdr.feedback.agg_msn;
        } else if (has_minimum) {
            minimum = WORD_PSN(word);
            // A sender counts no messages. Responders of one stream count the same ones.
            if (minimum != meta.told[47:24] && WORD_PATH(word) != PATH_OF_SENDER) {
                msn = msn + (bit<24>)(WORD_MSN(word) - msn[15:0]);
            }
        }
        // The packet's own MSN is right in full if it acknowledges just the minimum.
        if (meta.is_feedback == 1 && meta.acked_psn == minimum) {
            msn = hdr.aeth.msn;
        }
        // A count may lag, but does not fall: behind a port where several members have been the source a path may know
        // of no message since.
        if (meta.kind != Kind.COMMAND && (msn - meta.told[23:0])[23:23] == 1) {
            msn = meta.told[23:0];
        }
        is_news = PSN_LT(meta.told[47:24], minimum);
        // What a walk has found goes to the source first, whoever asked.
        is_answer = (meta.kind == Kind.DATA
                     || (meta.role == Role.PROBE && is_conclusion && (meta.is_source == 1 || !is_news)))
            && !PSN_LT(minimum, hdr.bth.psn);
        if (is_news && (meta.kind == Kind.COMMAND || (is_answer && meta.is_source == 1)
                        || (is_conclusion && !is_answer))) {
            agg.write((bit<32>)meta.group_index, minimum ++ msn);
        }
    }
}

#endif  // ALFIRK_TOLD_P4
