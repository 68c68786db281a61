// What was last acknowledged to the source: AckPSN and MSN of the group (Cepheus, section III-D; Gleam, algorithm 2: agg_psn).
//
// It rises with the minimum, when a packet with it goes to the source. Where no minimum was looked for, it
// stands in for it: it is never too new.
//
// A count of messages (MSN) is a claim of one member. A message has at least one packet, so the count rises by at most the packets
// that were acknowledged since it last rose; a count beyond that, or one that falls, is not believed, and the last one stands.
// A controller that writes AGG does not know the count to the message: after that the next one may be up to
// UNKNOWN_MSN_ROOM ahead.

#ifndef ALFIRK_LAST_ACKED_P4
#define ALFIRK_LAST_ACKED_P4

// `has_minimum`: `word` is the group's minimum. `is_final`: it is feedback and looks no further.
// Gives the minimum and its MSN; `is_answer`: it is old data that all have; `advances_minimum`: the minimum is news to the
// source, and counts as acknowledged to it if the packet goes there: `last` then is the new AckPSN ++ MSN.
control LastAcked(inout headers_t hdr, inout metadata_t meta, in bool has_minimum, in bool is_final, in word_t word,
             out psn_t minimum, out msn_t msn, out bool is_answer, out bool advances_minimum, out bit<48> last) {
    // The AckPSN with which the MSN last rose.
    register<psn_t>(MAX_GROUPS) msn_bases;
    RegisterAccess(RegisterName.AGG, RegisterOp.INIT_GROUP) access;
    psn_t base;
    bool is_new_base;
    psn_t room;
    msn_t step;
    bit<64> value;

    apply {
        msn_bases.read(base, (bit<32>)meta.group_index);
        last = meta.last_acked;
        minimum = meta.last_acked[47:24];
        msn = meta.last_acked[23:0];
        if (meta.kind == Kind.REGISTERS) {
            value = (bit<64>)meta.last_acked;
            access.apply(hdr, (bit<64>)(INITIAL_PSN(hdr) ++ INITIAL_MSN(hdr)), value);
            last = value[47:0];
        } else if (meta.kind == Kind.COMMAND) {
            minimum = hdr.feedback.agg_psn;
            msn = hdr.feedback.agg_msn;
        } else if (has_minimum) {
            minimum = WORD_PSN(word);
            // A sender counts no messages. Responders of one stream count the same ones.
            if (minimum != meta.last_acked[47:24] && WORD_PATH(word) != PATH_OF_SENDER) {
                msn = msn + (bit<24>)(WORD_MSN(word) - msn[15:0]);
            }
        }
        // The packet's own MSN is right in full if it acknowledges just the minimum.
        if (meta.is_feedback == 1 && meta.acked_psn == minimum) {
            msn = hdr.aeth.msn;
        }
        // A count may lag, but does not fall: behind a port where several members have been the source a path may know
        // of no message since.
        room = minimum - base;
        step = msn - meta.last_acked[23:0];
        if (meta.kind != Kind.COMMAND && (step[23:23] == 1 || room[23:23] == 1 || step > room)) {
            msn = meta.last_acked[23:0];
        }
        advances_minimum = PSN_LT(meta.last_acked[47:24], minimum);
        // What a walk has found goes to the source first, whoever asked.
        is_answer = (meta.kind == Kind.DATA
                     || (meta.role == Role.PROBE && is_final && (meta.is_source == 1 || !advances_minimum)))
            && !PSN_LT(minimum, hdr.bth.psn);
        if (advances_minimum && (meta.kind == Kind.COMMAND || (is_answer && meta.is_source == 1)
                        || (is_final && !is_answer))) {
            last = minimum ++ msn;
        }
        base = last[47:24];
        is_new_base = last[23:0] != meta.last_acked[23:0];
        if (meta.kind == Kind.REGISTERS) {
            is_new_base = hdr.register_control.op == RegisterOp.INIT_GROUP;
            if (hdr.register_control.op == RegisterOp.WRITE && hdr.register_control.reg == RegisterName.AGG) {
                is_new_base = true;
                base = base - UNKNOWN_MSN_ROOM;
            }
        }
        if (is_new_base) {
            msn_bases.write((bit<32>)meta.group_index, base);
        }
    }
}

#endif  // ALFIRK_LAST_ACKED_P4
