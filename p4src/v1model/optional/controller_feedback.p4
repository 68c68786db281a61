// Feedback that the controller sends, for groups whose minimum it computes: an ACK or NAK with the position that it acknowledges.
//
// This control does for such a packet what the chain does for others (../ack_aggregate.p4): it records the position as acknowledged
// to the source, and the NAK as the one last sent.

#ifndef ALFIRK_OPTIONAL_CONTROLLER_FEEDBACK_P4
#define ALFIRK_OPTIONAL_CONTROLLER_FEEDBACK_P4

#include "source_tags.p4"

control ControllerFeedback(inout headers_t hdr, inout metadata_t meta, inout decision_t decision) {
    FeedbackFrame() feedback_frame;
    SourceTags() source_tags;
    bit<32> group;
    bit<48> last;
    bit<32> nak;
    bit<40> sender;

    apply {
        if (!hdr.feedback.isValid()) {
            // A frame of the controller.
        } else if (!hdr.aeth.isValid() || (bit<32>)hdr.feedback.group >= MAX_GROUPS) {
            meta.drop_reason = Drop.BAD_CONTROL;
        } else {
            meta.drop_reason = Drop.NONE;
            meta.group_index = hdr.feedback.group;
            group = (bit<32>)hdr.feedback.group;
            feedback_frame.apply(hdr, hdr.ipv4.ttl, hdr.cnp.isValid());
            last_positions.read(last, group);
            if (PSN_LT(last[47:24], hdr.feedback.agg_psn)) {
                last_positions.write(group, hdr.feedback.agg_psn ++ hdr.feedback.agg_msn);
                if (last[23:0] != hdr.feedback.agg_msn) {
                    msn_bases.write(group, hdr.feedback.agg_psn);
                }
            }
            if (hdr.aeth.kind != AETH_ACK) {
                // The controller has its own pending NAK.
                pending_naks.read(nak, group);
                if (nak[31:31] == 1 && nak[23:0] == hdr.bth.psn) {
                    meta.drop_reason = Drop.NAK_ALREADY_SENT;
                }
                pending_naks.write(group, (hdr.aeth.kind | 0b100) ++ hdr.aeth.value ++ hdr.bth.psn);
            }
            if (meta.drop_reason == Drop.NONE) {
                senders.read(sender, group);
                decision.verdict = Verdict.ANSWER;
                decision.port = sender[32:24];
                if (hdr.feedback.port != 0) {
                    decision.port = hdr.feedback.port[8:0];
                }
                if (decision.port == 0) {
                    // There is no source before any data.
                    meta.drop_reason = Drop.NO_SOURCE;
                }
                source_tags.apply(hdr, meta, Verdict.ANSWER);
                hdr.feedback.setInvalid();
            }
        }
    }
}

#endif  // ALFIRK_OPTIONAL_CONTROLLER_FEEDBACK_P4
