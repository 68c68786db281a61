// Decision on a group's packet, after all registers have been read: what happens to it, and its egress port.
//
//   DATA           acknowledged by all paths            ANSWER: an ACK of the minimum to its sender
//                  not from the source                  dropped; old data becomes a probe (PROBE_WALK, PROBE_PUNT)
//                  else                                 REPLICATE; a clone of old data becomes a probe
//   ACK, NAK       a NAK is pending after the minimum   FEEDBACK: that NAK to the source
//   MIN_SEARCH     the minimum has advanced             FEEDBACK: an ACK of the minimum to the source
//                  else                                 RECORD: only the retransmission filter is updated
//                  the minimum is not known yet         WALK, CONTINUE_WALK, PUNT
//   CNP            of the most congested path           PASS
//   SELECTIVE_NAK  of a loss not yet reported           PASS
//   FATAL_NAK                                           PASS: with the PSN after the last acknowledged one
//   READ                                                ANSWER: a fatal NAK to its sender, with that PSN or its own if older
//   COMMAND                                             ANSWER: sent as the controller specifies
//
// A retransmission of acknowledged data means that its ACK was lost between here and the sender. It is acknowledged again,
// not dropped (the papers drop it), as the sender would otherwise retry until it gives up. A former source may also
// retransmit, after the data of the current source has advanced the minimum beyond what the former one sent. It gets
// an ACK of its own PSN with the MSN that its path had then, or of the minimum if both are equal: a requester discards
// an ACK beyond what it has sent.
//
// A requester takes any NAK as an ACK of all packets before it. So a fatal NAK leaves with the oldest PSN that
// some receiver may lack, and completes no request.
//
// Cepheus, section III-D, and Gleam, algorithms 2 and 3; the rules for READ, fatal NAKs and old data are in no paper.

#ifndef ALFIRK_DECIDE_P4
#define ALFIRK_DECIDE_P4

control Decide(inout headers_t hdr, inout metadata_t meta, in minimum_t minimum, inout decision_t decision) {
    DataToAck() data_to_ack;
    Verdict probe;

    apply {
        decision.port = meta.source_port[8:0];
        if (minimum.is_final && !minimum.is_answer) {
            decision.verdict = Verdict.RECORD;
            hdr.aeth.msn = minimum.msn;
            if (!minimum.forwards_nak && minimum.advances) {
                hdr.bth.psn = minimum.psn;
                hdr.aeth.kind = AETH_ACK;
                hdr.aeth.value = SYNDROME_ACK_NO_CREDITS[4:0];
            }
            if ((minimum.forwards_nak || minimum.advances) && meta.source_port != 0) {
                decision.verdict = Verdict.FEEDBACK;
                if (meta.role == Role.NONE) {
                    decision.clone = Verdict.MIRROR;
                }
            } else if (meta.role == Role.NONE) {
                decision.port = meta.origin_port;
            } else {
                // The retransmission filter was updated before the walk.
                meta.drop_reason = Drop.FEEDBACK_MERGED;
            }
        } else if (minimum.is_answer || meta.kind == Kind.READ) {
            decision.verdict = Verdict.ANSWER;
            decision.port = meta.origin_port;
            if (meta.kind != Kind.MIN_SEARCH) {
                data_to_ack.apply(hdr);
            }
            hdr.aeth.msn = MSN_NEAR(meta.last_acked[23:0], meta.path_msn);
            if (meta.kind == Kind.READ) {
                hdr.aeth.kind = AETH_NAK;
                hdr.aeth.value = NAK_INVALID_REQUEST;
                if (meta.is_source == 1) {
                    hdr.aeth.msn = minimum.msn;
                }
                // Earlier data of its sender may be missing at some receiver.
                if (PSN_LT(minimum.psn + 1, hdr.bth.psn)) {
                    hdr.bth.psn = minimum.psn + 1;
                }
            } else if (meta.is_source == 1 || hdr.bth.psn == minimum.psn) {
                hdr.bth.psn = minimum.psn;
                hdr.aeth.msn = minimum.msn;
            }
        } else if (meta.kind == Kind.DATA) {
            probe = Verdict.NONE;
            if (meta.role == Role.PROBE) {
                probe = Verdict.PROBE_WALK;
            } else if (meta.min_psn == MinPsn.PUNT && meta.is_retransmission == 1) {
                probe = Verdict.PROBE_PUNT;
                decision.packet_in_reason = PacketInReason.PROBE;
            }
            if (meta.from_current_source == 1) {
                decision.verdict = Verdict.REPLICATE;
                decision.group = meta.group_index + 1;
                decision.clone = probe;
            } else if (probe == Verdict.NONE) {
                meta.drop_reason = Drop.NOT_THE_SOURCE;
            } else {
                decision.verdict = probe;
                decision.port = probe == Verdict.PROBE_PUNT ? CPU_PORT : meta.origin_port;
            }
        } else if (meta.kind == Kind.FATAL_NAK) {
            decision.verdict = Verdict.PASS;
            decision.clone = Verdict.TO_CONTROLLER;
            decision.packet_in_reason = PacketInReason.FATAL_NAK;
            hdr.bth.psn = minimum.psn + 1;
            hdr.aeth.msn = minimum.msn;
        } else if (meta.kind == Kind.CNP || meta.kind == Kind.SELECTIVE_NAK) {
            decision.verdict = Verdict.PASS;
        } else if (meta.kind == Kind.COMMAND) {
            decision.verdict = Verdict.ANSWER;
            if (hdr.feedback.port != 0) {
                decision.port = hdr.feedback.port[8:0];
            }
            hdr.feedback.setInvalid();
            hdr.packet_out.setInvalid();
        } else if (meta.kind == Kind.MIN_SEARCH && minimum.search == SearchState.LOST) {
            meta.drop_reason = Drop.WALK_TAKEN_OVER;
        } else if (minimum.search == SearchState.ON) {
            decision.verdict = meta.kind == Kind.MIN_SEARCH ? Verdict.CONTINUE_WALK : Verdict.WALK;
            decision.port = meta.origin_port;
        } else {
            decision.verdict = Verdict.PUNT;
            decision.port = CPU_PORT;
            decision.packet_in_reason = PacketInReason.FEEDBACK;
        }

        // There is no source before any data.
        if (decision.port == 0 && (decision.verdict == Verdict.PASS || meta.kind == Kind.COMMAND)) {
            meta.drop_reason = Drop.NO_SOURCE;
        }
    }
}

#endif  // ALFIRK_DECIDE_P4
