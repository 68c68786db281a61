// Many receivers' feedback becomes the one stream that the sender's queue pair expects.
//
// A chain: each step knows what the ones before it have found, and none goes back. Each register array belongs to
// one step, which reads, changes and writes it once per packet; but for the last acknowledged PSN, which the first step needs
// (the source's window) and last_acked.p4 changes.
//
//   classify.p4        what is it? (before the bridge)
//   sender.p4          who is the source, what has it sent; does this count?
//   min_psn_tree.p4    the packet's own path rises; the oldest word of all paths
//   min_psn_walk.p4      ... or of those that a walk has seen
//   last_acked.p4            what was last acknowledged to the source: is the minimum newer?
//   waiting_nak.p4     the NAK that waits for the minimum
//   selective_nak.p4   was this loss reported to the source?
//   cnp_filter.p4      is this the most congested path?
//   refusal_limit.p4   was the path refused a request just now?
//   decide.p4          what becomes of the packet
//   source_tags.p4     with which VLAN tags feedback leaves
//
// The sender never sees an ACK of what some receiver lacks, nor a NAK that would also acknowledge an earlier loss of
// another receiver. Its own path counts as having all that it sent, so the minimum needs no exception for the source
// and a change of the source needs no repair. The path speaks for all that is behind its port.
//
// Where the minimum comes from is the group's strategy:
//
//   tree   from min_psn_tree.p4, in this pass
//   walk   from min_psn_walk.p4, after some recirculations (WALK); until then the last
//          minimum that was acknowledged stands in for it: it is never too new
//   punt   from the controller (PUNT), which gets the feedback and sends the result
//
// Old data of a group of the latter two is replicated, and a clone of it asks for the minimum, in
// case everyone has it: the copies all fall to the retransmission filter then. That of a former source asks only.
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

control AckAggregate(inout headers_t hdr, inout metadata_t meta, in bit<48> now, inout port_t egress_port) {
    Sender() sender;
    TreeLeaves() leaves;
    MinPsnTree() tree;
    MinPsnWalk() walk;
    LastAcked() last_acked;
    WaitingNak() waiting_nak;
    SelectiveNak() selective_nak;
    CnpFilter() cnp_filter;
    RefusalLimit() refusal_limit;
    Decide() decide;
    SourceTags() source_tags;
    // What was last acknowledged to the source: AckPSN ++ MSN.
    register<bit<48>>(MAX_GROUPS) agg;
    // What each strategy costs, see WORK_*.
    @id(3) counter(SIZE_WORK, CounterType.packets) work;

    TreeOp op;
    bit<4> absent;
    bit<1> is_first;
    word_t word;
    path_t at;
    psn_t minimum;
    msn_t msn;
    SearchState search;
    bool is_accepted;
    bool is_rise;
    bit<48> last;
    bool needs_minimum;
    bool has_minimum;
    bool is_final;
    bool is_answer;
    bool advances_minimum;
    bool forwards_nak;
    bit<32> work_slot;

    apply {
        agg.read(meta.last_acked, (bit<32>)meta.group_index);
        sender.apply(hdr, meta, meta.last_acked[47:24]);
        if (meta.drop_reason == Drop.NONE) {
            // The packet's own path.
            op = TreeOp.NONE;
            absent = meta.absent[3:0];
            if (meta.min_psn == MinPsn.PUNT) {
                // The controller looks at the other paths.
                absent = 4w0xf;
            }
            is_first = 0;
            word = 0;
            at = 0;
            is_accepted = false;
            is_rise = false;
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
                op = TreeOp.LOOK;
                meta.path_index = meta.walk_node << 2;
                word = meta.walk_word;
                at = meta.walk_path;
                is_first = (bit<1>)(meta.walk_node == 0 && meta.walk_seen == PATH_NONE);
                // Of the last node the children from `paths` on are not there.
                absent = 0;
                if (meta.path_index + 3 >= meta.paths) {
                    absent = 4w0b1000;
                }
                if (meta.path_index + 2 >= meta.paths) {
                    absent = 4w0b1100;
                }
                if (meta.path_index + 1 >= meta.paths) {
                    absent = 4w0b1110;
                }
            } else if (meta.kind == Kind.READ) {
                op = TreeOp.KEEP;
            } else if (meta.kind == Kind.REGISTERS) {
                op = TreeOp.KEEP;
                if (hdr.register_control.op == RegisterOp.INIT_GROUP) {
                    op = TreeOp.INIT;
                    word = INITIAL_PSN(hdr) ++ 8w0 ++ hdr.register_control.value[39:24];
                } else if (hdr.register_control.op == RegisterOp.WRITE
                           && hdr.register_control.reg == RegisterName.ACK) {
                    op = TreeOp.FORCE;
                    meta.absent = hdr.register_control.value[47:32];
                    absent = meta.absent[3:0];
                }
            }
            if (op != TreeOp.NONE) {
                leaves.apply(hdr, meta, op, absent, is_first, word, at, is_accepted, is_rise);
            }
            if (meta.kind == Kind.DATA) {
                meta.is_retransmission = (bit<1>)!is_accepted;
            }

            // The minimum over all paths.
            search = SearchState.IDLE;
            has_minimum = false;
            if ((needs_minimum && meta.min_psn == MinPsn.TREE)
                || op == TreeOp.INIT || op == TreeOp.FORCE) {
                tree.apply(op, meta.group_index, meta.path_index, meta.absent, word);
                has_minimum = true;
            }
            if ((meta.min_psn == MinPsn.WALK && (needs_minimum || op == TreeOp.LOOK))
                || meta.kind == Kind.REGISTERS) {
                meta.walk_word = word;
                meta.walk_path = at;
                walk.apply(hdr, meta, is_accepted, is_rise, search);
                has_minimum = search == SearchState.DONE;
            }

            // What the source knows, and is to know.
            is_final = (meta.is_feedback == 1 || meta.kind == Kind.MIN_SEARCH) && search != SearchState.ON
                && search != SearchState.LOST && meta.min_psn != MinPsn.PUNT;
            last_acked.apply(hdr, meta, has_minimum, is_final, word, minimum, msn, is_answer, advances_minimum,
                       last);
            if (last != meta.last_acked) {
                agg.write((bit<32>)meta.group_index, last);
            }
            waiting_nak.apply(hdr, meta, is_accepted, minimum, is_final && !is_answer, forwards_nak);
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

            if (meta.kind != Kind.REGISTERS && meta.drop_reason == Drop.NONE) {
                decide.apply(hdr, meta, minimum, msn, is_final, is_answer, advances_minimum, forwards_nak, search,
                             egress_port);
            }
            source_tags.apply(hdr, meta);
            work_slot = (bit<32>)meta.min_psn << 3;
            if (meta.is_feedback == 1) {
                work.count(work_slot + Work.FEEDBACK);
            }
            if (meta.verdict == Verdict.FEEDBACK) {
                work.count(work_slot + Work.FORWARDED);
            } else if (meta.verdict == Verdict.WALK
                       || (meta.role == Role.PROBE && meta.kind == Kind.DATA)) {
                work.count(work_slot + Work.RECIRCULATIONS);
            } else if (meta.verdict == Verdict.PUNT || meta.packet_in_reason == PacketInReason.PROBE) {
                work.count(work_slot + Work.PUNTS);
            }
        }
    }
}

#endif  // ALFIRK_ACK_AGGREGATE_P4
