// The minimum PSN over all paths of a group, in one pass: a tournament tree in registers.
//
//   level 2                0 ─ 1 ─ 2 ─ 3                    one node per group
//                          │   │   │   │
//   level 1        0 ─ 1 ─ 2 ─ 3   ...                      node = path >> 4
//                  │   │   │   │
//   level 0   0 1 2 3  ...                                  node = path >> 2 (tree_leaves.p4)
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
// Not in a paper: Cepheus and Gleam compare port by port (optional/min_psn_walk.p4).

#ifndef ALFIRK_MIN_PSN_TREE_P4
#define ALFIRK_MIN_PSN_TREE_P4

#include "tree_leaves.p4"
#if PATH_BITS > 2
#include "tree_level.p4"
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
