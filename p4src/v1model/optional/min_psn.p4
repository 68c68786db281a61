// Update of the packet's own path, and the minimum over all paths, by the strategy of the group:
//
//   tree   by ../min_psn_tree.p4, in this pass
//   walk   by min_psn_walk.p4, after some recirculations; until then the last acknowledged PSN is used, which is a lower
//          bound of the minimum
//   punt   by the controller, which gets the feedback and sends the result (controller_feedback.p4)
//
// With the latter two, old data of the source is replicated, and a clone of it is a query for the minimum. If all paths have
// the data, the retransmission filter drops all copies. Old data of a former source only causes the query.

#ifndef ALFIRK_OPTIONAL_MIN_PSN_P4
#define ALFIRK_OPTIONAL_MIN_PSN_P4

#include "../path_word.p4"
#include "../min_psn_tree.p4"
#include "min_psn_walk.p4"

// Parameters as in ../min_psn.p4. Also sets the state of the search (optional_t).
control FindMinPsn(in headers_t hdr, inout metadata_t meta, inout TreeOp op, inout word_t word, in bit<48> now,
                   inout group_state_t state, inout minimum_t minimum) {
    PathWord() path_word;
    TreeLeaves() leaves;
    MinPsnTree() tree;
    NextLeaf() next_leaf;
    MinPsnWalk() walk;
    bit<4> absent;
    path_t oldest = 0;
    bool needs_minimum;

    apply {
        meta.optional.search = SearchState.IDLE;
        path_word.apply(hdr, meta, state, op, word);
        needs_minimum = op != TreeOp.NONE;
        if (meta.kind == Kind.MIN_SEARCH) {
            next_leaf.apply(meta, word, oldest);
        } else {
            if (meta.kind == Kind.READ) {
                op = TreeOp.KEEP;
            }
            absent = meta.absent[3:0];
            if (meta.optional.min_psn == MinPsn.PUNT) {
                // The controller compares the other paths.
                absent = 4w0xf;
            }
            if (op != TreeOp.NONE && op != TreeOp.INIT) {
                leaves.apply(meta, op, absent, word, oldest, state, minimum);
            }
        }
        if (meta.optional.min_psn == MinPsn.TREE) {
            if (needs_minimum) {
                tree.apply(op, meta.group_index, meta.path_index, meta.absent, word);
                minimum.has_word = true;
            }
        } else if (meta.optional.min_psn == MinPsn.WALK) {
            if (needs_minimum || meta.kind == Kind.MIN_SEARCH) {
                walk.apply(hdr, meta, word, oldest, now, minimum);
                minimum.has_word = meta.optional.search == SearchState.DONE;
            }
        } else if (meta.kind == Kind.NAK) {
            // The controller has the pending NAK.
            minimum.is_accepted = false;
        }
        minimum.is_final = (meta.is_feedback == 1 || meta.kind == Kind.MIN_SEARCH)
            && meta.optional.search != SearchState.ON && meta.optional.search != SearchState.LOST
            && meta.optional.min_psn != MinPsn.PUNT;
        minimum.is_probe = meta.optional.role == Role.PROBE && minimum.is_final;
    }
}

#endif  // ALFIRK_OPTIONAL_MIN_PSN_P4
