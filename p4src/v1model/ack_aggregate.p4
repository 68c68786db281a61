// Feedback aggregation: merges the feedback of many receivers into the one stream that the sender's queue pair expects.
//
// A chain of steps, each of which uses the results of those before it. Each register array belongs to one step, which reads and
// writes it once per packet. The exception is the last acknowledged PSN: this file reads it for the source's window, and
// last_acked.p4 writes it. Register accesses of the controller skip all but the tree (register_control.p4).
//
//   classify.p4        kind of the packet (before the bridge)
//   sender.p4          source and newest PSN sent; whether the packet is from the source
//   min_psn.p4         update of the packet's own path (tree_leaves.p4); oldest word of all paths (min_psn_tree.p4)
//   last_acked.p4      PSN and MSN last acknowledged to the source; whether the minimum is newer
//   waiting_nak.p4     NAK that is pending until the minimum reaches it
//   filters            optional: losses already reported, CNPs, refusals (optional/filters.p4)
//   decide.p4          decision
//   source_tags        optional: VLAN tags of feedback (optional/source_tags.p4)
//
// The source never gets an ACK of data that a receiver lacks, nor a NAK that would also acknowledge an earlier loss of
// another receiver. The path of the source has all that the source sent. So the minimum includes all paths, and a change
// of the source needs no repair. A path stands for all members behind its port.
//
// Cepheus, section III-D, and Gleam, algorithms 2 and 3, are the origin.

#ifndef ALFIRK_ACK_AGGREGATE_P4
#define ALFIRK_ACK_AGGREGATE_P4

#include "sender.p4"
#include "last_acked.p4"
#include "waiting_nak.p4"
#include "decide.p4"

control AckAggregate(inout headers_t hdr, inout metadata_t meta, in bit<48> now, inout decision_t decision) {
    IngressRegisters() registers;
    Sender() sender;
    FindMinPsn() min_psn;
    LastAcked() last_acked;
    WaitingNak() waiting_nak;
    Filters() filters;
    Decide() decide;
    SourceTags() source_tags;
    CountWork() count_work;

    group_state_t state = { 0, 0, 0, 0, 0 };
    minimum_t minimum = { false, false, false, false, false, 0, 0, false, false, false };
    TreeOp op = TreeOp.NONE;
    word_t word = 0;

    apply {
        if (meta.kind == Kind.REGISTERS) {
            // The controller accesses registers of all steps; after that only the minimum is computed again.
            registers.apply(hdr, meta, op, word);
        } else {
            last_positions.read(state.last_acked, (bit<32>)meta.group_index);
            sender.apply(hdr, meta, state);
        }
        if (meta.drop_reason == Drop.NONE) {
            min_psn.apply(hdr, meta, op, word, now, state, minimum);
            if (meta.kind != Kind.REGISTERS) {
                last_acked.apply(hdr, meta, state, word, minimum);
                waiting_nak.apply(hdr, meta, state, minimum);
                filters.apply(hdr, meta, state, now);
                if (meta.drop_reason == Drop.NONE) {
                    decide.apply(hdr, meta, state, minimum, decision);
                }
                source_tags.apply(hdr, meta, decision.verdict);
                count_work.apply(meta, decision);
            }
        }
    }
}

#endif  // ALFIRK_ACK_AGGREGATE_P4
