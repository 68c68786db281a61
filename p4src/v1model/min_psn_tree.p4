// The minimum PSN over all paths of a group, in one pass: a tournament tree in registers.
//
//   level 2                 left ───────── right            one node per group
//                            │               │
//   level 1            left ── right   left ── right        node = path >> 2
//                       │       │       │       │
//   level 0 (leaves)   l r     l r     l r     l r          node = path >> 1
//   path               0 1     2 3     4 5     6 7
//
// Each level has two registers, one for the left and one for the right children. A
// packet of path p writes its own side, reads the sibling and carries the older word
// (see word_t) one level up; what it carries out of the last level is the minimum.
// log2(MAX_PATHS) levels, no loop, no recirculation; and atomic, because every packet
// goes through the levels in the same order.
//
// Serial numbers have no infinity to mark an unused child with. A path whose sibling
// subtree is empty at some level has that level's bit set in `lone` and passes through.
//
// Leaves keep the newest word of their path: an old or duplicated ACK changes nothing.

#ifndef ALFIRK_MIN_PSN_TREE_P4
#define ALFIRK_MIN_PSN_TREE_P4

// UPDATE  the path has acknowledged `word`
// FORCE   the controller sets the path's word, be it older or newer
// INIT    the path and its neighbour start from `word`'s PSN
// READ    the leaf alone, nothing changes
const bit<2> TREE_UPDATE = 0;
const bit<2> TREE_FORCE = 1;
const bit<2> TREE_INIT = 2;
const bit<2> TREE_READ = 3;

control TreeLeaves(in bit<2> op, in group_t group, in path_t path, in bit<8> lone,
                   inout word_t word, out bit<1> is_news) {
    register<word_t>(SIZE_PATHS >> 1) left;
    register<word_t>(SIZE_PATHS >> 1) right;
    bit<32> node;
    word_t own;
    word_t sibling;

    apply {
        node = ((bit<32>)group << (PATH_BITS - 1)) | (bit<32>)(path >> 1);
        is_news = 0;
        if (op == TREE_INIT) {
            left.write(node, word[31:8] ++ path[7:1] ++ 1w0);
            right.write(node, word[31:8] ++ path[7:1] ++ 1w1);
        } else {
            if (path[0:0] == 0) {
                left.read(own, node);
                right.read(sibling, node);
            } else {
                right.read(own, node);
                left.read(sibling, node);
            }
            if (op == TREE_READ) {
                word = own;
            } else {
                // Of equal PSNs the last report counts, whoever made it: the path as sender or as receiver.
                if (op == TREE_UPDATE && WORD_LT(word | 0xff, own)) {
                    word = own;
                } else {
                    is_news = 1;
                    if (path[0:0] == 0) {
                        left.write(node, word);
                    } else {
                        right.write(node, word);
                    }
                }
                if (lone[0:0] == 0 && WORD_LT(sibling, word)) {
                    word = sibling;
                }
            }
        }
    }
}

// `level` counts from 1 above the leaves.
control TreeLevel(in bit<2> op, in group_t group, in path_t path, in bit<8> lone,
                  inout word_t word)(bit<8> level) {
    register<word_t>(SIZE_PATHS >> (level + 1)) left;
    register<word_t>(SIZE_PATHS >> (level + 1)) right;
    bit<32> node;
    path_t first;
    word_t sibling;

    apply {
        node = ((bit<32>)group << (PATH_BITS - 1 - level)) | (bit<32>)(path >> (level + 1));
        if (op == TREE_INIT) {
            // Each child starts as if its first path were its minimum.
            first = (path >> (level + 1)) << (level + 1);
            left.write(node, word[31:8] ++ first);
            right.write(node, word[31:8] ++ (first | (8w1 << level)));
        } else if (op != TREE_READ) {
            if ((path >> level)[0:0] == 0) {
                left.write(node, word);
                right.read(sibling, node);
            } else {
                right.write(node, word);
                left.read(sibling, node);
            }
            if ((lone >> level)[0:0] == 0 && WORD_LT(sibling, word)) {
                word = sibling;
            }
        }
    }
}

control MinPsnTree(in bit<2> op, in group_t group, in path_t path, in bit<8> lone,
                   inout word_t word, out bit<1> is_news) {
    TreeLeaves() leaves;
#if PATH_BITS >= 2
    TreeLevel(1) level_1;
#endif
#if PATH_BITS >= 3
    TreeLevel(2) level_2;
#endif
#if PATH_BITS >= 4
    TreeLevel(3) level_3;
#endif
#if PATH_BITS >= 5
    TreeLevel(4) level_4;
#endif
#if PATH_BITS >= 6
    TreeLevel(5) level_5;
#endif
#if PATH_BITS >= 7
    TreeLevel(6) level_6;
#endif

    apply {
        leaves.apply(op, group, path, lone, word, is_news);
#if PATH_BITS >= 2
        level_1.apply(op, group, path, lone, word);
#endif
#if PATH_BITS >= 3
        level_2.apply(op, group, path, lone, word);
#endif
#if PATH_BITS >= 4
        level_3.apply(op, group, path, lone, word);
#endif
#if PATH_BITS >= 5
        level_4.apply(op, group, path, lone, word);
#endif
#if PATH_BITS >= 6
        level_5.apply(op, group, path, lone, word);
#endif
#if PATH_BITS >= 7
        level_6.apply(op, group, path, lone, word);
#endif
    }
}

#endif  // ALFIRK_MIN_PSN_TREE_P4
