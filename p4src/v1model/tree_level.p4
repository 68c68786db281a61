// A level of the tournament tree above the leaves (min_psn_tree.p4).

#ifndef ALFIRK_TREE_LEVEL_P4
#define ALFIRK_TREE_LEVEL_P4

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

#endif  // ALFIRK_TREE_LEVEL_P4
