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
// its own child, reads the others and carries the oldest word (see word_t) one level
// up; what it carries out of the last level is the minimum. log4(MAX_PATHS) levels, no
// loop, no recirculation; and atomic, because every packet goes through the levels in
// the same order. Four children rather than two take a third less memory for as many
// register accesses.
//
// Serial numbers have no infinity to mark an unused child with. Bit 4 L + c of `absent`
// says that at level L, child c of the path's node holds no path; it is passed over.
//
// Leaves keep the newest word of their path: an old or duplicated ACK changes nothing.
// They serve all three strategies; min_psn_walk.p4 looks at them one node after another.

#ifndef ALFIRK_MIN_PSN_TREE_P4
#define ALFIRK_MIN_PSN_TREE_P4

// UPDATE  the path has acknowledged `word`
// FORCE   the controller sets the path's word, be it older or newer
// INIT    the node's four paths start from `word`'s PSN
// READ    the leaf alone, nothing changes
// WALK    the oldest word of the node, nothing changes
const bit<3> TREE_UPDATE = 0;
const bit<3> TREE_FORCE = 1;
const bit<3> TREE_INIT = 2;
const bit<3> TREE_READ = 3;
const bit<3> TREE_WALK = 4;

// `is_first` says that `word` does not count yet. `at` is the path of the oldest word. `is_news` says that the
// path has risen to `word`, or acknowledged it again; `is_old` that data had come before.
control TreeLeaves(in bit<3> op, in group_t group, in path_t path, in bit<4> absent,
                   in bit<1> is_first, inout word_t word, inout path_t at, out bit<1> is_news,
                   out bit<1> is_old) {
    register<word_t>(SIZE_PATHS >> 2) child_0;
    register<word_t>(SIZE_PATHS >> 2) child_1;
    register<word_t>(SIZE_PATHS >> 2) child_2;
    register<word_t>(SIZE_PATHS >> 2) child_3;
    bit<32> node;
    word_t own;
    word_t sibling;
    psn_t ahead;
    bit<1> is_open;
    // Children that are not read.
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
        node = ((bit<32>)group << (PATH_BITS - 2)) | (bit<32>)(path >> 2);
        is_news = 0;
        is_old = 0;
        is_open = is_first;
        passed = absent;
        if (op == TREE_INIT) {
            child_0.write(node, word[31:8] ++ path[7:2] ++ 2w0);
            child_1.write(node, word[31:8] ++ path[7:2] ++ 2w1);
            child_2.write(node, word[31:8] ++ path[7:2] ++ 2w2);
            child_3.write(node, word[31:8] ++ path[7:2] ++ 2w3);
        } else {
            if (op != TREE_WALK) {
                at = path;
                passed = absent | (4w1 << path[1:0]);
                if (path[1:0] == 0) {
                    child_0.read(own, node);
                } else if (path[1:0] == 1) {
                    child_1.read(own, node);
                } else if (path[1:0] == 2) {
                    child_2.read(own, node);
                } else {
                    child_3.read(own, node);
                }
                // Of equal PSNs the last acknowledgement counts. Data that comes again is no news: the newest
                // is sent again as well, and must not look new to the filter, nor make its sender the source.
                ahead = WORD_PSN(word) - WORD_PSN(own);
                if (WORD_PATH(word) == PATH_OF_SENDER) {
                    is_old = (bit<1>)(ahead == 0 || ahead[23:23] == 1);
                } else {
                    is_old = ahead[23:23];
                }
                if (op == TREE_READ || (op == TREE_UPDATE && is_old == 1)) {
                    word = own;
                } else {
                    is_news = 1;
                    if (path[1:0] == 0) {
                        child_0.write(node, word);
                    } else if (path[1:0] == 1) {
                        child_1.write(node, word);
                    } else if (path[1:0] == 2) {
                        child_2.write(node, word);
                    } else {
                        child_3.write(node, word);
                    }
                }
            }
            if (op != TREE_READ) {
                LEAF_COMPARE(child_0, 0, 2w0)
                LEAF_COMPARE(child_1, 1, 2w1)
                LEAF_COMPARE(child_2, 2, 2w2)
                LEAF_COMPARE(child_3, 3, 2w3)
            }
        }
    }
#undef LEAF_COMPARE
}

#if PATH_BITS >= 4
// `level` counts from 1 above the leaves; `absent` is shifted so that its lowest bits are this level's.
control TreeLevel(in bit<3> op, in group_t group, in path_t path, in bit<4> absent,
                  inout word_t word)(bit<8> level) {
    register<word_t>(SIZE_PATHS >> (2 * (level + 1))) child_0;
    register<word_t>(SIZE_PATHS >> (2 * (level + 1))) child_1;
    register<word_t>(SIZE_PATHS >> (2 * (level + 1))) child_2;
    register<word_t>(SIZE_PATHS >> (2 * (level + 1))) child_3;
    bit<32> node;
    bit<8> shift = 2 * level;
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
        node = ((bit<32>)group << (PATH_BITS - 2 - 2 * level)) | (bit<32>)(path >> (shift + 2));
        own_child = (path >> shift)[1:0];
        own = word;
        if (op == TREE_INIT) {
            // Each child starts as if its first path were its minimum.
            first = (path >> (shift + 2)) << (shift + 2);
            child_0.write(node, word[31:8] ++ first);
            child_1.write(node, word[31:8] ++ (first | (8w1 << shift)));
            child_2.write(node, word[31:8] ++ (first | (8w2 << shift)));
            child_3.write(node, word[31:8] ++ (first | (8w3 << shift)));
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
control MinPsnTree(in bit<3> op, in group_t group, in path_t path, in bit<12> absent, inout word_t word) {
#if PATH_BITS >= 4
    TreeLevel(1) level_1;
#endif
#if PATH_BITS >= 6
    TreeLevel(2) level_2;
#endif

    apply {
#if PATH_BITS >= 4
        level_1.apply(op, group, path, absent[7:4], word);
#endif
#if PATH_BITS >= 6
        level_2.apply(op, group, path, absent[11:8], word);
#endif
    }
}

#endif  // ALFIRK_MIN_PSN_TREE_P4
