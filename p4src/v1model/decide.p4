// Decision on a group's packet, after all registers have been read: what happens to it, and its egress port.
//
//   DATA           acknowledged by all paths            ANSWER: an ACK of the minimum to its sender
//                  not from the source                  dropped
//                  else                                 REPLICATE
//   ACK, NAK       a NAK is pending after the minimum   FEEDBACK: that NAK to the source
//                  the minimum has advanced             FEEDBACK: an ACK of the minimum to the source
//                  else                                 RECORD: only the retransmission filter is updated
//   FATAL_NAK                                           PASS: with the PSN after the last acknowledged one
//
// optional/decisions.p4 has the decisions on packets of other kinds, and on packets that search for the minimum.
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

control Decide(inout headers_t hdr, inout metadata_t meta, in group_state_t state, in minimum_t minimum,
               inout decision_t decision) {
    DataToAck() data_to_ack;
    OptionalDecisions() optional_decisions;

    apply {
        decision.port = state.source_port[8:0];
        if (minimum.is_answer) {
            decision.verdict = Verdict.ANSWER;
            decision.port = meta.origin_port;
            data_to_ack.apply(hdr);
            hdr.aeth.msn = MSN_NEAR(state.last_acked[23:0], state.path_msn);
            if (state.is_source == 1 || hdr.bth.psn == minimum.psn) {
                hdr.bth.psn = minimum.psn;
                hdr.aeth.msn = minimum.msn;
            }
        } else if (minimum.is_final) {
            hdr.aeth.msn = minimum.msn;
            if (!minimum.forwards_nak && minimum.advances) {
                hdr.bth.psn = minimum.psn;
                hdr.aeth.kind = AETH_ACK;
                hdr.aeth.value = SYNDROME_ACK_NO_CREDITS[4:0];
            }
            if ((minimum.forwards_nak || minimum.advances) && state.source_port != 0) {
                decision.verdict = Verdict.FEEDBACK;
                decision.clone = Verdict.MIRROR;
            } else {
                decision.verdict = Verdict.RECORD;
                decision.port = meta.origin_port;
            }
        } else if (meta.kind == Kind.DATA) {
            if (state.from_current_source == 1) {
                decision.verdict = Verdict.REPLICATE;
                decision.group = meta.group_index + 1;
            } else {
                meta.drop_reason = Drop.NOT_THE_SOURCE;
            }
        } else if (meta.kind == Kind.FATAL_NAK) {
            decision.verdict = Verdict.PASS;
            decision.clone = Verdict.TO_CONTROLLER;
            decision.packet_in_reason = PacketInReason.FATAL_NAK;
            hdr.bth.psn = minimum.psn + 1;
            hdr.aeth.msn = minimum.msn;
        }
        optional_decisions.apply(hdr, meta, state, minimum, decision);

        // There is no source before any data.
        if (decision.port == 0 && decision.verdict == Verdict.PASS) {
            meta.drop_reason = Drop.NO_SOURCE;
        }
    }
}

#endif  // ALFIRK_DECIDE_P4
