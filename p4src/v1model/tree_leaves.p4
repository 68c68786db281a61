// Leaves of the tournament tree (min_psn_tree.p4): the newest word of each path (see word_t in ../shared/types.p4).
//
// A leaf node has four paths, each in a register of its own. A packet updates the word of its own path, and reads those of the
// other three. An old or duplicate ACK changes nothing.

#ifndef ALFIRK_TREE_LEAVES_P4
#define ALFIRK_TREE_LEAVES_P4

// Index of the leaf node of a path, in the registers leaf_0 to leaf_3.
#define LEAF_NODE(group, path) ((bit<32>)(group) << (PATH_BITS - 2)) | (bit<32>)((path) >> 2)
// Calls a method of the array that has the path's word.
#define OWN_LEAF(path, call) \
    if ((path)[1:0] == 0) { \
        leaf_0.call; \
    } else if ((path)[1:0] == 1) { \
        leaf_1.call; \
    } else if ((path)[1:0] == 2) { \
        leaf_2.call; \
    } else { \
        leaf_3.call; \
    }
// Takes the word of a child that is older than `word`, unless the child is in the bit mask `skipped`.
#define LEAF_COMPARE(child, number, last) \
    if (skipped[number:number] == 0) { \
        child.read(sibling, node); \
        if (WORD_LT(sibling, word)) { \
            word = sibling; \
            oldest = path[7:2] ++ last; \
        } \
    }

// Applies `op` with `word` to the packet's own path, then returns the oldest word of its leaf node in `word`, and the path of that
// word in `oldest`. `absent`: bit mask of children without a path. Sets `is_accepted` and `is_rise` of `minimum`.
control TreeLeaves(inout metadata_t meta, in TreeOp op, in bit<4> absent, inout word_t word, out path_t oldest,
                   inout group_state_t state, inout minimum_t minimum) {
    bit<32> node;
    path_t path;
    word_t own;
    word_t sibling;
    psn_t ahead;
    bit<4> skipped;

    apply {
        path = meta.path_index;
        node = LEAF_NODE(meta.group_index, path);
        oldest = path;
        OWN_LEAF(path, read(own, node))
        state.path_msn = WORD_MSN(own);
        ahead = WORD_PSN(word) - WORD_PSN(own);
        if (op == TreeOp.UPDATE) {
            minimum.is_accepted = ahead[23:23] == 0;
            minimum.is_rise = minimum.is_accepted && ahead != 0;
            if (meta.kind == Kind.DATA) {
                // Data is accepted only if it is new: the newest packet may be retransmitted as well.
                minimum.is_accepted = minimum.is_rise;
                word = WORD_PSN(word) ++ PATH_OF_SENDER ++ WORD_MSN(own);
            }
        }
        if (meta.kind == Kind.DATA) {
            meta.is_retransmission = (bit<1>)!minimum.is_accepted;
        }
        if (!minimum.is_accepted) {
            word = own;
        } else {
            OWN_LEAF(path, write(node, word))
        }
        skipped = absent | (4w1 << path[1:0]);
        LEAF_COMPARE(leaf_0, 0, 2w0)
        LEAF_COMPARE(leaf_1, 1, 2w1)
        LEAF_COMPARE(leaf_2, 2, 2w2)
        LEAF_COMPARE(leaf_3, 3, 2w3)
    }
}

#endif  // ALFIRK_TREE_LEAVES_P4
