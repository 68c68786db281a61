// The minimum PSN over all paths of a group, in one pass: a tournament tree in registers.
//
//   level 2                0 ─ 1 ─ 2 ─ 3                    one node per group
//                          │   │   │   │
//   level 1        0 ─ 1 ─ 2 ─ 3   ...                      node = path >> 4
//                  │   │   │   │
//   level 0   0 1 2 3  ...                                  node = path >> 2 (leaves)
//   path      0 1 2 3  4 5 6 7  ...
//
// A node has four children, each in a register of its own. A packet of path p writes
// its own child, reads the others, and passes the oldest word (see word_t) to the next
// level. The result of the last level is the minimum, with its MSN. There are PATH_BITS / 2
// levels, without loops or recirculation. The search is atomic, because every packet
// passes the levels in the same order. Four children instead of two need a third less
// memory for the same number of register accesses. If PATH_BITS is odd, the top node has two.
//
// Serial numbers have no infinity for unused children. If bit 4 L + c of `absent` is set,
// child c of the path's node at level L contains no path, and is skipped.
//
// Not in a paper: Cepheus and Gleam compare port by port (min_psn_walk.p4).
//
// Leaves store the newest word of their path: an old or duplicate ACK changes nothing.
// All three strategies use them; min_psn_walk.p4 reads them one node per pass.

#ifndef ALFIRK_MIN_PSN_TREE_P4
#define ALFIRK_MIN_PSN_TREE_P4

// Applies `op` with `word` to the path's entry, then returns the oldest word of its leaf node in `word`, and the path of
// that word in `at`. `is_accepted`: the entry has become `word`, which is newer or has the same PSN. `is_rise`: it is newer.
// With TreeOp.LOOK, `word` and `at` are the oldest of the nodes visited before, unless `is_first` is set.
control TreeLeaves(inout metadata_t meta, in TreeOp op, in bit<4> absent,
                   in bit<1> is_first, inout word_t word, inout path_t at, out bool is_accepted, out bool is_rise) {
    bit<32> node;
    path_t path;
    word_t own;
    word_t sibling;
    psn_t ahead;
    bit<1> is_open;
    // Children to skip.
    bit<4> passed;

#define LEAF_COMPARE(child, number, last) \
    if (passed[number:number] == 0) { \
        child.read(sibling, node); \
        if (is_open == 1 || WORD_LT(sibling, word)) { \
            is_open = 0; \
            word = sibling; \
            at = path[7:2] ++ last; \
        } \
    }

    apply {
        path = meta.path_index;
        node = ((bit<32>)meta.group_index << (PATH_BITS - 2)) | (bit<32>)(path >> 2);
        is_accepted = false;
        is_rise = false;
        is_open = is_first;
        passed = absent;
        if (op == TreeOp.INIT) {
            leaf_0.write(node, WORD_PSN(word) ++ path[7:2] ++ 2w0 ++ WORD_MSN(word));
            leaf_1.write(node, WORD_PSN(word) ++ path[7:2] ++ 2w1 ++ WORD_MSN(word));
            leaf_2.write(node, WORD_PSN(word) ++ path[7:2] ++ 2w2 ++ WORD_MSN(word));
            leaf_3.write(node, WORD_PSN(word) ++ path[7:2] ++ 2w3 ++ WORD_MSN(word));
        } else {
            if (op != TreeOp.LOOK) {
                at = path;
                passed = absent | (4w1 << path[1:0]);
                OWN_LEAF(path, read(own, node))
                meta.path_msn = WORD_MSN(own);
                ahead = WORD_PSN(word) - WORD_PSN(own);
                if (op == TreeOp.UPDATE) {
                    // Of acknowledgements with the same PSN, the last one is stored. Data is accepted only if it is new: the newest
                    // packet may be retransmitted as well, and the filter must treat it as a retransmission.
                    is_accepted = ahead[23:23] == 0;
                    is_rise = is_accepted && ahead != 0;
                    if (meta.kind == Kind.DATA) {
                        is_accepted = is_rise;
                        word = WORD_PSN(word) ++ PATH_OF_SENDER ++ WORD_MSN(own);
                    }
                }
                if (!is_accepted) {
                    word = own;
                } else {
                    OWN_LEAF(path, write(node, word))
                }
            }
            LEAF_COMPARE(leaf_0, 0, 2w0)
            LEAF_COMPARE(leaf_1, 1, 2w1)
            LEAF_COMPARE(leaf_2, 2, 2w2)
            LEAF_COMPARE(leaf_3, 3, 2w3)
        }
    }
#undef LEAF_COMPARE
}

#if PATH_BITS > 2
// `level` counts from 1 above the leaves; a group has 2^node_bits nodes there. `absent` has this level's bits.
control TreeLevel(in TreeOp op, in group_t group, in path_t path, in bit<4> absent,
                  inout word_t word)(bit<8> level, bit<8> node_bits) {
    register<word_t>(MAX_GROUPS << node_bits) child_0;
    register<word_t>(MAX_GROUPS << node_bits) child_1;
    register<word_t>(MAX_GROUPS << node_bits) child_2;
    register<word_t>(MAX_GROUPS << node_bits) child_3;
    bit<32> node;
    path_t first;
    bit<2> own_child;
    word_t own;
    word_t sibling;

#define LEVEL_COMPARE(child, number) \
    if (own_child == number) { \
        child.write(node, own); \
    } else if (absent[number:number] == 0) { \
        child.read(sibling, node); \
        if (WORD_LT(sibling, word)) { \
            word = sibling; \
        } \
    }

    apply {
        node = ((bit<32>)group << node_bits) | (bit<32>)(path >> (2 * level + 2));
        own_child = (path >> (2 * level))[1:0];
        own = word;
        if (op == TreeOp.INIT) {
            // Each child starts as if its first path were its minimum.
            first = (path >> (2 * level + 2)) << (2 * level + 2);
            child_0.write(node, WORD_PSN(word) ++ first ++ WORD_MSN(word));
            child_1.write(node, WORD_PSN(word) ++ (first | (8w1 << (2 * level))) ++ WORD_MSN(word));
            child_2.write(node, WORD_PSN(word) ++ (first | (8w2 << (2 * level))) ++ WORD_MSN(word));
            child_3.write(node, WORD_PSN(word) ++ (first | (8w3 << (2 * level))) ++ WORD_MSN(word));
        } else {
            LEVEL_COMPARE(child_0, 0)
            LEVEL_COMPARE(child_1, 1)
            LEVEL_COMPARE(child_2, 2)
            LEVEL_COMPARE(child_3, 3)
        }
    }
#undef LEVEL_COMPARE
}
#endif

// All levels above the leaves.
control MinPsnTree(in TreeOp op, in group_t group, in path_t path, in bit<16> absent, inout word_t word) {
#if PATH_BITS > 4
    TreeLevel(1, PATH_BITS - 4) level_1;
#elif PATH_BITS > 2
    TreeLevel(1, 0) level_1;
#endif
#if PATH_BITS > 6
    TreeLevel(2, PATH_BITS - 6) level_2;
    TreeLevel(3, 0) level_3;
#elif PATH_BITS > 4
    TreeLevel(2, 0) level_2;
#endif

    apply {
#if PATH_BITS > 2
        level_1.apply(op, group, path, absent[7:4], word);
#endif
#if PATH_BITS > 4
        level_2.apply(op, group, path, absent[11:8], word);
#endif
#if PATH_BITS > 6
        level_3.apply(op, group, path, absent[15:12], word);
#endif
    }
}

#endif  // ALFIRK_MIN_PSN_TREE_P4
