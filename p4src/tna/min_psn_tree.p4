// The minimum PSN over all paths of a group, in one pass: a tournament tree in registers.
//
//   level 2                0   1                            one node per group (with 8 paths)
//                        ┌─┘   └─┐
//   level 1            0   1   2   3                        node = path >> 2
//                     ┌┘   └┐  ...
//   level 0          0 1   2 3   4 5   6 7                  node = path >> 1
//   leaves           0 1   2 3   4 5   6 7                  path
//
// A node has two children, each in a register array of its own. A packet of path p writes its own child, reads the
// sibling, and passes the older word to the next level. The result of the last level is the minimum, with its path in the
// lower 8 bits. There are PATH_BITS levels of one stage each, without loops or recirculation. The search is atomic, because
// every packet passes the stages in the same order.
//
// v1model/min_psn_tree.p4 has four children per node. Here a register array is accessed once per packet, and a stateful ALU
// compares one memory word with one field, so three siblings would need three stages.
//
// A stateful ALU returns either a computed value or a memory word, but cannot choose between them. So a level returns
// sibling - word if that is negative, else 0, and the action adds it.
//
// Serial numbers have no infinity for unused children. If bit L of `absent` is set, the sibling at level L has no
// path, and is skipped.
//
// Leaves store the newest word of their path: an old or duplicate ACK changes nothing. They are separate from level 0,
// because an array is in one stage: a packet of an odd path would access its sibling before its own word is known.

#ifndef ALFIRK_MIN_PSN_TREE_P4
#define ALFIRK_MIN_PSN_TREE_P4

control TreeLeaves(inout ingress_metadata_t meta) {
    Register<psn_word_t, cell_t>(SIZE_PATHS) leaves;

    // Compares with `top`: an acknowledgement of an equal PSN is stored, a retransmission of the sender is not.
    RegisterAction<psn_word_t, cell_t, psn_word_t>(leaves) raise = {
        void apply(inout psn_word_t value, out psn_word_t word) {
            if (meta.top - value >= 0) {
                value = meta.carried.word;
            }
            word = value;
        }
    };
    RegisterAction<psn_word_t, cell_t, psn_word_t>(leaves) look = {
        void apply(inout psn_word_t value, out psn_word_t word) {
            word = value;
        }
    };
    RegisterAction<psn_word_t, cell_t, psn_word_t>(leaves) set = {
        void apply(inout psn_word_t value, out psn_word_t word) {
            value = meta.carried.word;
            word = value;
        }
    };

    action raise_leaf() {
        meta.carried.minimum = raise.execute(meta.carried.cell);
        meta.in_tree = 1;
    }

    action look_at_leaf() {
        meta.carried.minimum = look.execute(meta.carried.cell);
        meta.in_tree = 1;
    }

    action set_leaf() {
        meta.carried.minimum = set.execute(meta.carried.cell);
        meta.in_tree = 1;
    }

    // `turn` and `is_caught_up`: results of sender.p4 for data; `source`: its result for feedback.
    table leaf {
        key = {
            meta.carried.kind: ternary;
            meta.is_caught_up: ternary;
            meta.turn: ternary;
            meta.source: ternary;
        }
        actions = { raise_leaf; look_at_leaf; set_leaf; NoAction; }
        const default_action = NoAction();
        const entries = {
            (Kind.ACK, _, _, 0): NoAction();
            (Kind.NAK, _, _, 0): NoAction();
            (Kind.FATAL_NAK, _, _, 0): NoAction();
            (Kind.ACK, _, _, _): raise_leaf();
            (Kind.NAK, _, _, _): raise_leaf();
            (Kind.FATAL_NAK, _, _, _): look_at_leaf();
            (Kind.DATA, _, TURN_SOURCE &&& TURN_SOURCE, _): raise_leaf();
            (Kind.DATA, _, TURN_SOURCE_AND_PSN &&& TURN_SOURCE_AND_PSN, _): raise_leaf();
            (Kind.DATA, 1, TURN_PSN &&& TURN_PSN, _): raise_leaf();
            (Kind.DATA, _, _, _): look_at_leaf();
            (Kind.READ, _, _, _): look_at_leaf();
            (Kind.REGISTERS, _, _, _): set_leaf();
        }
        size = 16;
    }

    apply {
        leaf.apply();
    }
}

#define TREE_LEVEL(level) \
    Register<psn_word_t, bit<(15 - level)>>(SIZE_PATHS >> (level + 1)) left_##level; \
    Register<psn_word_t, bit<(15 - level)>>(SIZE_PATHS >> (level + 1)) right_##level; \
    RegisterAction<psn_word_t, bit<(15 - level)>, psn_word_t>(left_##level) write_left_##level = { \
        void apply(inout psn_word_t value) { value = meta.carried.minimum; } \
    }; \
    RegisterAction<psn_word_t, bit<(15 - level)>, psn_word_t>(right_##level) write_right_##level = { \
        void apply(inout psn_word_t value) { value = meta.carried.minimum; } \
    }; \
    RegisterAction<psn_word_t, bit<(15 - level)>, psn_word_t>(left_##level) compare_left_##level = { \
        void apply(inout psn_word_t value, out psn_word_t difference) { \
            if (value - meta.carried.minimum < 0) { difference = value - meta.carried.minimum; } else { difference = 0; } \
        } \
    }; \
    RegisterAction<psn_word_t, bit<(15 - level)>, psn_word_t>(right_##level) compare_right_##level = { \
        void apply(inout psn_word_t value, out psn_word_t difference) { \
            if (value - meta.carried.minimum < 0) { difference = value - meta.carried.minimum; } else { difference = 0; } \
        } \
    }; \
    action own_left_##level() { write_left_##level.execute(meta.carried.cell[15:level + 1]); } \
    action own_right_##level() { write_right_##level.execute(meta.carried.cell[15:level + 1]); } \
    action sibling_left_##level() { \
        meta.carried.minimum = meta.carried.minimum + compare_left_##level.execute(meta.carried.cell[15:level + 1]); \
    } \
    action sibling_right_##level() { \
        meta.carried.minimum = meta.carried.minimum + compare_right_##level.execute(meta.carried.cell[15:level + 1]); \
    } \
    table on_left_##level { actions = { own_left_##level; } const default_action = own_left_##level(); } \
    table on_right_##level { actions = { own_right_##level; } const default_action = own_right_##level(); } \
    table from_right_##level { \
        key = { meta.absent[level:level]: exact; } actions = { sibling_right_##level; NoAction; } \
        const default_action = NoAction(); const entries = { 0: sibling_right_##level(); } size = 2; \
    } \
    table from_left_##level { \
        key = { meta.absent[level:level]: exact; } actions = { sibling_left_##level; NoAction; } \
        const default_action = NoAction(); const entries = { 0: sibling_left_##level(); } size = 2; \
    }

#define APPLY_TREE_LEVEL(level) \
    if (meta.carried.cell[level:level] == 0) { \
        on_left_##level.apply(); \
        from_right_##level.apply(); \
    } else { \
        on_right_##level.apply(); \
        from_left_##level.apply(); \
    }

// All levels above the leaves.
control MinPsnTree(inout ingress_metadata_t meta) {
    TREE_LEVEL(0)
    TREE_LEVEL(1)
#if PATH_BITS > 2
    TREE_LEVEL(2)
#endif
#if PATH_BITS > 3
    TREE_LEVEL(3)
#endif
#if PATH_BITS > 4
    TREE_LEVEL(4)
#endif
#if PATH_BITS > 5
    TREE_LEVEL(5)
#endif
#if PATH_BITS > 6
    TREE_LEVEL(6)
#endif

    apply {
        APPLY_TREE_LEVEL(0)
        APPLY_TREE_LEVEL(1)
#if PATH_BITS > 2
        APPLY_TREE_LEVEL(2)
#endif
#if PATH_BITS > 3
        APPLY_TREE_LEVEL(3)
#endif
#if PATH_BITS > 4
        APPLY_TREE_LEVEL(4)
#endif
#if PATH_BITS > 5
        APPLY_TREE_LEVEL(5)
#endif
#if PATH_BITS > 6
        APPLY_TREE_LEVEL(6)
#endif
    }
}

#endif  // ALFIRK_MIN_PSN_TREE_P4
