// Feedback aggregation: merges the feedback of many receivers into the one stream that the sender's queue pair expects.
//
// A chain of steps, each of which uses the results of those before it. Each register array belongs to one step, which reads and
// writes it once per packet. The exception is the last acknowledged PSN: the first step reads it for the source's window, and
// last_acked.p4 writes it. Register accesses of the controller skip all but the tree (register_control.p4).
//
//   classify.p4        kind of the packet (before the bridge)
//   sender.p4          source and newest PSN sent; whether the packet is from the source
//   min_psn_tree.p4    update of the packet's own path; oldest word of all paths
//   min_psn_walk.p4      ... or of the paths that a walk has visited
//   last_acked.p4      PSN and MSN last acknowledged to the source; whether the minimum is newer
//   waiting_nak.p4     NAK that is pending until the minimum reaches it
//   selective_nak.p4   whether a loss was already reported to the source
//   cnp_filter.p4      whether the path is the most congested one
//   refusal_limit.p4   whether a request of the path was refused recently
//   decide.p4          decision
//   source_tags.p4     VLAN tags of feedback
//
// The source never gets an ACK of data that a receiver lacks, nor a NAK that would also acknowledge an earlier loss of
// another receiver. The path of the source has all that the source sent. So the minimum includes all paths, and a change
// of the source needs no repair. A path stands for all members behind its port.
//
// The group's strategy determines how the minimum is found:
//
//   tree   by min_psn_tree.p4, in this pass
//   walk   by min_psn_walk.p4, after some recirculations (WALK); until then the last acknowledged PSN is used, which is
//          a lower bound of the minimum
//   punt   by the controller (PUNT), which gets the feedback and sends the result
//
// With the latter two, old data of the source is replicated, and a clone of it is a probe for the minimum. If all paths have
// the data, the retransmission filter drops all copies. Old data of a former source only triggers the probe.
//
// Cepheus, section III-D, and Gleam, algorithms 2 and 3, are the origin.

#ifndef ALFIRK_ACK_AGGREGATE_P4
#define ALFIRK_ACK_AGGREGATE_P4

#include "sender.p4"
#include "min_psn_tree.p4"
#include "min_psn_walk.p4"
#include "last_acked.p4"
#include "waiting_nak.p4"
#include "selective_nak.p4"
#include "cnp_filter.p4"
#include "refusal_limit.p4"
#include "source_tags.p4"

control AckAggregate(inout headers_t hdr, inout metadata_t meta, in bit<48> now, inout decision_t decision) {
    Sender() sender;
    TreeLeaves() leaves;
    MinPsnTree() tree;
    NextLeaf() next_leaf;
    MinPsnWalk() walk;
    LastAcked() last_acked;
    WaitingNak() waiting_nak;
    SelectiveNak() selective_nak;
    CnpFilter() cnp_filter;
    RefusalLimit() refusal_limit;
    Decide() decide;
    SourceTags() source_tags;
    IngressRegisters() registers;
    // Packets processed under each strategy, see Work.
    @id(COUNTER_ID_WORK) counter(SIZE_WORK, CounterType.packets) work;

    TreeOp op;
    bit<4> absent;
    bit<1> is_first;
    word_t word;
    path_t at;
    minimum_t minimum;
    bool needs_minimum;
    bool has_minimum;
    bit<32> work_slot;

    apply {
        op = TreeOp.NONE;
        word = 0;
        if (meta.kind == Kind.REGISTERS) {
            // The controller accesses registers of all steps; after that only the minimum is computed again.
            registers.apply(hdr, meta, op, word);
        } else {
            last_positions.read(meta.last_acked, (bit<32>)meta.group_index);
            sender.apply(hdr, meta, meta.last_acked[47:24]);
        }
        if (meta.drop_reason == Drop.NONE) {
            // Update the packet's own path.
            absent = meta.absent[3:0];
            if (meta.min_psn == MinPsn.PUNT) {
                // The controller compares the other paths.
                absent = 4w0xf;
            }
            is_first = 0;
            at = 0;
            minimum.is_accepted = false;
            minimum.is_rise = false;
            needs_minimum = false;
            if (meta.is_feedback == 1) {
                op = TreeOp.UPDATE;
                needs_minimum = true;
                word = meta.acked_psn ++ meta.path_index ++ hdr.aeth.msn[15:0];
            } else if (meta.kind == Kind.DATA) {
                op = TreeOp.KEEP;
                needs_minimum = true;
                if (meta.from_current_source == 1) {
                    op = TreeOp.UPDATE;
                    word = hdr.bth.psn ++ PATH_OF_SENDER ++ 16w0;
                }
            } else if (meta.kind == Kind.MIN_SEARCH) {
                next_leaf.apply(meta, op, absent, is_first, word, at);
            } else if (meta.kind == Kind.READ) {
                op = TreeOp.KEEP;
            }
            if (op != TreeOp.NONE) {
                leaves.apply(meta, op, absent, is_first, word, at, minimum.is_accepted, minimum.is_rise);
            }
            if (meta.kind == Kind.DATA) {
                meta.is_retransmission = (bit<1>)!minimum.is_accepted;
            }

            // Find the minimum over all paths.
            minimum.search = SearchState.IDLE;
            has_minimum = false;
            if ((needs_minimum && meta.min_psn == MinPsn.TREE)
                || op == TreeOp.INIT || op == TreeOp.FORCE) {
                tree.apply(op, meta.group_index, meta.path_index, meta.absent, word);
                has_minimum = true;
            }
            if (meta.kind != Kind.REGISTERS) {
                if (meta.min_psn == MinPsn.WALK && (needs_minimum || op == TreeOp.LOOK)) {
                    walk.apply(hdr, meta, word, at, minimum);
                    has_minimum = minimum.search == SearchState.DONE;
                }

                // Compare the minimum with what was acknowledged to the source.
                minimum.is_final = (meta.is_feedback == 1 || meta.kind == Kind.MIN_SEARCH)
                    && minimum.search != SearchState.ON && minimum.search != SearchState.LOST
                    && meta.min_psn != MinPsn.PUNT;
                last_acked.apply(hdr, meta, has_minimum, word, minimum);
                waiting_nak.apply(hdr, meta, minimum);
                if (meta.kind == Kind.DATA || meta.kind == Kind.SELECTIVE_NAK) {
                    selective_nak.apply(hdr, meta);
                }
                if (op == TreeOp.NONE) {
                    if (meta.kind == Kind.CNP && meta.source_port != 0) {
                        cnp_filter.apply(meta, now);
                    }
                } else if (meta.kind == Kind.READ) {
                    refusal_limit.apply(meta, now);
                }

                if (meta.drop_reason == Drop.NONE) {
                    decide.apply(hdr, meta, minimum, decision);
                }
                source_tags.apply(hdr, meta, decision.verdict);
                work_slot = (bit<32>)meta.min_psn << 3;
                if (meta.is_feedback == 1) {
                    work.count(work_slot + Work.FEEDBACK);
                }
                if (decision.verdict == Verdict.FEEDBACK) {
                    work.count(work_slot + Work.FORWARDED);
                } else if (decision.verdict == Verdict.WALK || decision.verdict == Verdict.CONTINUE_WALK
                           || decision.verdict == Verdict.PROBE_WALK || decision.clone == Verdict.PROBE_WALK) {
                    work.count(work_slot + Work.RECIRCULATIONS);
                } else if (decision.verdict == Verdict.PUNT || decision.packet_in_reason == PacketInReason.PROBE) {
                    work.count(work_slot + Work.PUNTS);
                }
            }
        }
    }
}

#endif  // ALFIRK_ACK_AGGREGATE_P4
