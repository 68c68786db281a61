// Egress: executes the verdict of ingress on each packet, copy and clone.
//
//   REPLICATE, PASS, FEEDBACK, ANSWER   rewritten for its receiver (../shared/bridge_exit.p4), ICRC updated (icrc.p4), sent
//   FORWARD                             sent
//   RECORD, MIRROR                      retransmission_filter.p4 updated, dropped
//   REGISTERS                           register_control.p4
//   TO_CONTROLLER                       to_controller.p4
//
// A copy of a retransmission for a path that has it is dropped.

#ifndef ALFIRK_EGRESS_P4
#define ALFIRK_EGRESS_P4

#include "retransmission_filter.p4"
#include "../shared/bridge_exit.p4"
#include "icrc.p4"
#include "register_control.p4"
#include "to_controller.p4"

control egress(inout headers_t hdr,
               inout metadata_t meta,
               inout standard_metadata_t standard_metadata) {
    @id(COUNTER_ID_EGRESS_DROPS) counter(SIZE_DROP_REASONS, CounterType.packets) drops;
    RetransmissionFilter() retransmission_filter;
    BridgeExit() bridge_exit;
    OptionalExit() optional_exit;
    UpdateIcrc() update_icrc;
    EgressRegisters() registers;
    ToController() to_controller;
    OptionalVerdicts() optional_verdicts;
    EcnMarking() ecn_marking;

    Verdict verdict;
    bool is_sent = false;
    bool is_of_group = false;
    bool is_to_host = false;
    slot_t receiver = NO_SLOT;

    apply {
        verdict = meta.verdict;
        if (standard_metadata.instance_type == INSTANCE_INGRESS_CLONE
            || standard_metadata.instance_type == INSTANCE_EGRESS_CLONE) {
            verdict = meta.clone_verdict;
        }
        retransmission_filter.apply(hdr, meta, standard_metadata, verdict);

        if (meta.drop_reason != Drop.NONE) {
            // A copy that its path does not need.
        } else if (verdict == Verdict.FORWARD) {
            is_sent = true;
        } else if (verdict == Verdict.REPLICATE || verdict == Verdict.PASS || verdict == Verdict.FEEDBACK
                   || verdict == Verdict.ANSWER) {
            is_sent = true;
            is_of_group = true;
            bridge_exit.apply(hdr, meta, standard_metadata.egress_port, is_to_host, receiver);
            optional_exit.apply(hdr, meta, is_to_host, receiver);
        } else if (verdict == Verdict.RECORD) {
            meta.drop_reason = Drop.FEEDBACK_MERGED;
        } else if (verdict == Verdict.MIRROR) {
            meta.drop_reason = Drop.FEEDBACK_RECORDED;
        } else if (verdict == Verdict.REGISTERS) {
            registers.apply(hdr, meta);
        } else if (verdict == Verdict.TO_CONTROLLER) {
            to_controller.apply(hdr, meta);
        } else {
            optional_verdicts.apply(hdr, meta, standard_metadata, verdict, is_sent);
        }

        if (is_sent && meta.drop_reason == Drop.NONE) {
            if (is_of_group) {
                // All other packets keep their ICRC.
                update_icrc.apply(hdr, meta, standard_metadata, is_to_host);
            }
            ecn_marking.apply(hdr, standard_metadata);
        }
        if (meta.drop_reason != Drop.NONE) {
            drops.count((bit<32>)meta.drop_reason);
            mark_to_drop(standard_metadata);
        }
    }
}

#endif  // ALFIRK_EGRESS_P4
