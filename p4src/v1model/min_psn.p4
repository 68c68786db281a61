// Update of the packet's own path, and the minimum over all paths, by the tournament tree. optional/min_psn.p4 takes the place of
// this control if groups can have other strategies.

#ifndef ALFIRK_MIN_PSN_P4
#define ALFIRK_MIN_PSN_P4

#include "path_word.p4"
#include "min_psn_tree.p4"

// `op` and `word`: for a register access of the controller, the operation on the tree that must follow; else set here. `word` is the
// oldest word of all paths then. Sets `has_word`, `is_final`, `is_probe` and what TreeLeaves sets of `minimum`.
control FindMinPsn(in headers_t hdr, inout metadata_t meta, inout TreeOp op, inout word_t word, in bit<48> now,
                   inout group_state_t state, inout minimum_t minimum) {
    PathWord() path_word;
    TreeLeaves() leaves;
    MinPsnTree() tree;
    path_t oldest;

    apply {
        minimum.is_final = meta.is_feedback == 1;
        path_word.apply(hdr, meta, state, op, word);
        minimum.has_word = op != TreeOp.NONE;
        if (minimum.has_word) {
            if (op != TreeOp.INIT) {
                leaves.apply(meta, op, meta.absent[3:0], word, oldest, state, minimum);
            }
            tree.apply(op, meta.group_index, meta.path_index, meta.absent, word);
        }
    }
}

#endif  // ALFIRK_MIN_PSN_P4
