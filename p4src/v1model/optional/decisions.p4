// Decisions on packets of optional kinds, and on packets that search for the minimum (../decide.p4).
//
//   old data       a search is possible                 a clone becomes a query; not from the source: the data itself does
//                                                       (PROBE_WALK, PROBE_PUNT)
//   ACK, NAK       the minimum is not known yet         WALK, PUNT
//   MIN_SEARCH     the minimum is not known yet         CONTINUE_WALK
//                  the minimum has advanced             FEEDBACK without a mirror; the retransmission filter is updated already
//                  else                                 dropped
//   CNP            of the most congested path           PASS
//   SELECTIVE_NAK  of a loss not yet reported           PASS
//   READ                                                ANSWER: a fatal NAK to its sender, with the PSN after the last
//                                                       acknowledged one, or its own if older

#ifndef ALFIRK_OPTIONAL_DECISIONS_P4
#define ALFIRK_OPTIONAL_DECISIONS_P4

control OptionalDecisions(inout headers_t hdr, inout metadata_t meta, in group_state_t state, in minimum_t minimum,
                          inout decision_t decision) {
    DataToAck() data_to_ack;

    apply {
        if (minimum.is_answer) {
            // Decided.
        } else if (minimum.is_final) {
            if (meta.kind == Kind.MIN_SEARCH) {
                decision.clone = Verdict.NONE;
                if (decision.verdict == Verdict.RECORD) {
                    meta.drop_reason = Drop.FEEDBACK_MERGED;
                }
            }
        } else if (meta.kind == Kind.DATA) {
            if (meta.optional.role == Role.PROBE) {
                decision.clone = Verdict.PROBE_WALK;
            } else if (meta.optional.min_psn == MinPsn.PUNT && meta.is_retransmission == 1) {
                decision.clone = Verdict.PROBE_PUNT;
                decision.packet_in_reason = PacketInReason.PROBE;
            }
            if (meta.drop_reason == Drop.NOT_THE_SOURCE && decision.clone != Verdict.NONE) {
                meta.drop_reason = Drop.NONE;
                decision.verdict = decision.clone;
                decision.clone = Verdict.NONE;
                decision.port = decision.verdict == Verdict.PROBE_PUNT ? CPU_PORT : meta.origin_port;
            }
        } else if (meta.kind == Kind.READ) {
            decision.verdict = Verdict.ANSWER;
            decision.port = meta.origin_port;
            data_to_ack.apply(hdr);
            hdr.aeth.kind = AETH_NAK;
            hdr.aeth.value = NAK_INVALID_REQUEST;
            hdr.aeth.msn = MSN_NEAR(state.last_acked[23:0], state.path_msn);
            if (state.is_source == 1) {
                hdr.aeth.msn = minimum.msn;
            }
            // Earlier data of its sender may be missing at some receiver.
            if (PSN_LT(minimum.psn + 1, hdr.bth.psn)) {
                hdr.bth.psn = minimum.psn + 1;
            }
        } else if (meta.kind == Kind.CNP || meta.kind == Kind.SELECTIVE_NAK) {
            decision.verdict = Verdict.PASS;
        } else if (meta.kind == Kind.FATAL_NAK) {
            // Decided.
        } else if (meta.optional.search == SearchState.LOST) {
            meta.drop_reason = Drop.WALK_TAKEN_OVER;
        } else if (meta.optional.search == SearchState.ON) {
            decision.verdict = meta.kind == Kind.MIN_SEARCH ? Verdict.CONTINUE_WALK : Verdict.WALK;
            decision.port = meta.origin_port;
        } else {
            decision.verdict = Verdict.PUNT;
            decision.port = CPU_PORT;
            decision.packet_in_reason = PacketInReason.FEEDBACK;
        }

        if (meta.optional.icrc_mode == IcrcMode.PUNT
            && (decision.verdict == Verdict.REPLICATE || (decision.verdict == Verdict.PASS && meta.kind == Kind.CNP))) {
            // Each copy for a host goes to the controller.
            decision.copies_reason = (bit<8>)PacketInReason.ICRC;
        }
        meta.optional.source_port = state.source_port;
        meta.optional.last_acked = state.last_acked;
        meta.optional.path_msn = state.path_msn;
    }
}

#endif  // ALFIRK_OPTIONAL_DECISIONS_P4
