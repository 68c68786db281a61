// PSN and MSN last acknowledged to the source (Cepheus, section III-D: AckPSN; Gleam, algorithm 2: agg_psn).
//
// Both advance with the minimum, when a packet with it goes to the source. They are a lower bound of the minimum, used when
// the minimum was not computed.
//
// An MSN is a claim of one member. A message has at least one packet, so the MSN increases by at most the packets acknowledged
// since its last increase. An MSN beyond that, or below the last one, is replaced by the last one.
// A controller that writes AGG has only a lower bound of the MSN: after that the next one may be up to UNKNOWN_MSN_ROOM ahead
// (register_control.p4).

#ifndef ALFIRK_LAST_ACKED_P4
#define ALFIRK_LAST_ACKED_P4

// `word`: the oldest word, if it was found. Sets PSN and MSN of `minimum`, `advances` and `is_answer`.
control LastAcked(in headers_t hdr, in metadata_t meta, in group_state_t state, in word_t word,
                  inout minimum_t minimum) {
    bit<48> last;
    psn_t base;
    psn_t room;
    msn_t step;

    apply {
        msn_bases.read(base, (bit<32>)meta.group_index);
        last = state.last_acked;
        minimum.psn = state.last_acked[47:24];
        minimum.msn = state.last_acked[23:0];
        if (minimum.has_word) {
            minimum.psn = WORD_PSN(word);
            // A sender has no MSN. All responders of one stream count the same messages.
            if (minimum.psn != state.last_acked[47:24] && WORD_PATH(word) != PATH_OF_SENDER) {
                minimum.msn = minimum.msn + (bit<24>)(WORD_MSN(word) - minimum.msn[15:0]);
            }
        }
        // If the packet acknowledges exactly the minimum, its MSN has all 24 bits.
        if (meta.is_feedback == 1 && meta.acked_psn == minimum.psn) {
            minimum.msn = hdr.aeth.msn;
        }
        // Keep the larger MSN: a path may report an old one if several members behind it were the source.
        room = minimum.psn - base;
        step = minimum.msn - state.last_acked[23:0];
        if (step[23:23] == 1 || room[23:23] == 1 || step > room) {
            minimum.msn = state.last_acked[23:0];
        }
        minimum.advances = PSN_LT(state.last_acked[47:24], minimum.psn);
        // A new minimum goes to the source first, also if data of a former source caused the query.
        minimum.is_answer = (meta.kind == Kind.DATA
                             || (minimum.is_probe && (state.is_source == 1 || !minimum.advances)))
            && !PSN_LT(minimum.psn, hdr.bth.psn);
        if (minimum.advances
            && ((minimum.is_answer && state.is_source == 1) || (minimum.is_final && !minimum.is_answer))) {
            last = minimum.psn ++ minimum.msn;
        }
        if (last != state.last_acked) {
            last_positions.write((bit<32>)meta.group_index, last);
        }
        if (last[23:0] != state.last_acked[23:0]) {
            msn_bases.write((bit<32>)meta.group_index, last[47:24]);
        }
    }
}

#endif  // ALFIRK_LAST_ACKED_P4
