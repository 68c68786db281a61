// Search of the minimum PSN by recirculation (table walk): an ACK recirculates and compares one leaf node, four paths, per pass.
//
// For targets without enough registers for a tree (Cepheus, section III-D, walks from port to port in the same way).
// Most ACKs start no walk: the minimum cannot advance before the path of the last minimum does (`tri_path`, the papers'
// trigger port). Of several paths with the minimum, it is the one visited last: a packet is copied to the paths in their order,
// so its last path is usually the last to acknowledge it, and the ACKs before start no walk.
//
// A walk is not atomic. Other ACKs are processed between its passes. One that advances the walk's candidate may be the
// last ACK of its path, so no later ACK would start another walk. Therefore:
//
//   - during a walk, tri_path is its candidate, the path of the oldest word so far;
//   - an advance of tri_path marks the walk as dirty, and a dirty walk is repeated before it ends. An ACK of the same
//     PSN does not mark it, because a path that repeats an ACK could then prevent the end of the walk;
//   - paths already visited need no attention: they only advance, and were not older than the candidate. Paths not yet
//     visited will be compared.
//
// When a walk ends clean, tri_path is the path of the minimum, and its next advance starts the next walk.
//
// The packet of a walk may be lost. The state contains the start time of the walk: after WALK_TIMEOUT_US any accepted ACK
// starts another walk, and a late packet finds a different start time and ends. If no ACK arrives any more, the
// sender retransmits, which starts a walk as well (a probe) and is acknowledged if all paths have the data. So a lost
// walk costs a retransmission, but never blocks the group.
//
// Data advances the path of its sender without any ACK. If that path is tri_path, any accepted ACK may start the next walk.

#ifndef ALFIRK_OPTIONAL_MIN_PSN_WALK_P4
#define ALFIRK_OPTIONAL_MIN_PSN_WALK_P4

// Compares the word of a child as LEAF_COMPARE does, and takes its path also if it has acknowledged the same PSN as `word`.
#define WALK_COMPARE(child, number, last) \
    if (skipped[number:number] == 0) { \
        child.read(sibling, node); \
        if (WORD_PSN(sibling) == WORD_PSN(word) && WORD_PATH(sibling) != PATH_OF_SENDER) { \
            oldest = path[7:2] ++ last; \
        } \
        if (WORD_LT(sibling, word)) { \
            word = sibling; \
            oldest = path[7:2] ++ last; \
        } \
    }

// The leaf node that a search packet visits. Returns in `word` the oldest word of the nodes visited so far, and in `oldest` the
// last path with its PSN.
control NextLeaf(inout metadata_t meta, out word_t word, out path_t oldest) {
    bit<32> node;
    path_t path;
    word_t sibling;
    bit<4> skipped;

    apply {
        path = meta.optional.walk_node << 2;
        meta.path_index = path;
        node = LEAF_NODE(meta.group_index, path);
        word = meta.optional.walk_word;
        oldest = meta.optional.walk_path;
        // Children of the last node from `paths` on do not exist.
        skipped = 0;
        if (path + 3 >= meta.optional.paths) {
            skipped = 4w0b1000;
        }
        if (path + 2 >= meta.optional.paths) {
            skipped = 4w0b1100;
        }
        if (path + 1 >= meta.optional.paths) {
            skipped = 4w0b1110;
        }
        if (meta.optional.walk_node == 0 && meta.optional.walk_seen == PATH_NONE) {
            // The first node of a walk without a node visited before.
            leaf_0.read(word, node);
            oldest = path;
            skipped = skipped | 1;
        }
        WALK_COMPARE(leaf_0, 0, 2w0)
        WALK_COMPARE(leaf_1, 1, 2w1)
        WALK_COMPARE(leaf_2, 2, 2w2)
        WALK_COMPARE(leaf_3, 3, 2w3)
    }
}

// `word` and `oldest`: oldest word, and its path, of the packet's own node (ACK, NAK), or as NextLeaf returns them (search
// packet). `now`: ingress timestamp in microseconds. Sets `search`.
control MinPsnWalk(in headers_t hdr, inout metadata_t meta, in word_t word, in path_t oldest, in bit<48> now,
                   in minimum_t minimum) {
    bit<64> known;
    bit<64> value;
    psn_t found;
    bit<1> is_under_way;
    bit<1> is_dirty;
    bit<30> start;
    path_t trigger;
    bool is_busy;
    path_t nodes;

    apply {
        if (meta.kind != Kind.MIN_SEARCH) {
            meta.optional.clock = now[29:0];
        }
        meta.optional.walk_word = word;
        meta.optional.walk_path = oldest;
        walks.read(known, (bit<32>)meta.group_index);
        is_under_way = known[63:63];
        is_dirty = known[62:62];
        start = known[61:32];
        trigger = known[31:24];
        found = known[23:0];
        is_busy = is_under_way == 1 && meta.optional.clock - start <= WALK_TIMEOUT_US;
        nodes = (meta.optional.paths + 3) >> 2;
        if (meta.kind == Kind.MIN_SEARCH) {
            meta.optional.search = SearchState.LOST;
            if (is_under_way == 1 && start == meta.optional.walk_start) {
                meta.optional.search = SearchState.ON;
                trigger = meta.optional.walk_path;
                meta.optional.walk_node = meta.optional.walk_node + 1;
                if (meta.optional.walk_node == meta.optional.walk_seen) {
                    meta.optional.walk_node = meta.optional.walk_node + 1;
                }
                if (meta.optional.walk_node >= nodes) {
                    if (is_dirty == 1) {
                        is_dirty = 0;
                        start = meta.optional.clock;
                        meta.optional.walk_start = start;
                        meta.optional.walk_node = 0;
                        meta.optional.walk_seen = PATH_NONE;
                    } else {
                        is_under_way = 0;
                        meta.optional.search = SearchState.DONE;
                    }
                }
            }
        } else if (meta.kind == Kind.DATA) {
            if (minimum.is_accepted) {
                if (trigger == meta.path_index) {
                    if (is_busy) {
                        is_dirty = 1;
                    } else {
                        trigger = PATH_NONE;
                    }
                }
            } else if (!is_busy && PSN_LT(found, hdr.bth.psn)) {
                meta.optional.role = Role.PROBE;
                is_under_way = 1;
                is_dirty = 0;
                start = meta.optional.clock;
                meta.optional.walk_start = start;
                meta.optional.walk_node = 0;
                meta.optional.walk_seen = PATH_NONE;
            }
        } else if (minimum.is_accepted) {
            if (is_busy) {
                if (minimum.is_rise && trigger == meta.path_index) {
                    is_dirty = 1;
                }
            } else if ((minimum.is_rise && trigger == meta.path_index) || trigger == PATH_NONE || is_under_way == 1) {
                trigger = meta.optional.walk_path;
                meta.optional.walk_seen = meta.path_index >> 2;
                meta.optional.walk_node = 0;
                if (meta.optional.walk_seen == 0) {
                    meta.optional.walk_node = 1;
                }
                is_under_way = 0;
                meta.optional.search = SearchState.DONE;
                if (meta.optional.walk_node < nodes) {
                    meta.optional.role = Role.WALK;
                    is_under_way = 1;
                    is_dirty = 0;
                    start = meta.optional.clock;
                    meta.optional.walk_start = start;
                    meta.optional.search = SearchState.ON;
                }
            }
        }
        if (is_under_way == 0) {
            is_dirty = 0;
            start = 0;
        }
        if (meta.optional.search == SearchState.DONE) {
            found = WORD_PSN(meta.optional.walk_word);
        }
        value = is_under_way ++ is_dirty ++ start ++ trigger ++ found;
        if (known != value) {
            walks.write((bit<32>)meta.group_index, value);
        }
    }
}

#endif  // ALFIRK_OPTIONAL_MIN_PSN_WALK_P4
