// Search of the minimum PSN by recirculation (table walk): an ACK recirculates and compares one leaf node, four paths, per pass.
//
// For targets without enough registers for a tree (Cepheus, section III-D, walks from port to port in the same way).
// Most ACKs start no walk: the minimum cannot advance before the path of the last minimum does (`tri_path`, the papers'
// trigger port).
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

#ifndef ALFIRK_MIN_PSN_WALK_P4
#define ALFIRK_MIN_PSN_WALK_P4

// Leaf node that a search packet visits: `op`, `absent`, `is_first`, `word` and `at` are arguments of TreeLeaves.
control NextLeaf(inout metadata_t meta, out TreeOp op, out bit<4> absent, out bit<1> is_first, out word_t word,
                 out path_t at) {
    apply {
        op = TreeOp.LOOK;
        meta.path_index = meta.walk_node << 2;
        word = meta.walk_word;
        at = meta.walk_path;
        is_first = (bit<1>)(meta.walk_node == 0 && meta.walk_seen == PATH_NONE);
        // Children of the last node from `paths` on do not exist.
        absent = 0;
        if (meta.path_index + 3 >= meta.paths) {
            absent = 4w0b1000;
        }
        if (meta.path_index + 2 >= meta.paths) {
            absent = 4w0b1100;
        }
        if (meta.path_index + 1 >= meta.paths) {
            absent = 4w0b1110;
        }
    }
}

// `word` and `at`: oldest word, and its path, of the packet's own node (ACK, NAK), or of the nodes visited so far (search packet).
// Sets `search`.
control MinPsnWalk(in headers_t hdr, inout metadata_t meta, in word_t word, in path_t at, inout minimum_t minimum) {
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
        meta.walk_word = word;
        meta.walk_path = at;
        walks.read(known, (bit<32>)meta.group_index);
        is_under_way = known[63:63];
        is_dirty = known[62:62];
        start = known[61:32];
        trigger = known[31:24];
        found = known[23:0];
        is_busy = is_under_way == 1 && meta.clock - start <= WALK_TIMEOUT_US;
        nodes = (meta.paths + 3) >> 2;
        minimum.search = SearchState.IDLE;
        if (meta.kind == Kind.MIN_SEARCH) {
            minimum.search = SearchState.LOST;
            if (is_under_way == 1 && start == meta.walk_start) {
                minimum.search = SearchState.ON;
                trigger = meta.walk_path;
                meta.walk_node = meta.walk_node + 1;
                if (meta.walk_node == meta.walk_seen) {
                    meta.walk_node = meta.walk_node + 1;
                }
                if (meta.walk_node >= nodes) {
                    if (is_dirty == 1) {
                        is_dirty = 0;
                        start = meta.clock;
                        meta.walk_start = start;
                        meta.walk_node = 0;
                        meta.walk_seen = PATH_NONE;
                    } else {
                        is_under_way = 0;
                        minimum.search = SearchState.DONE;
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
                meta.role = Role.PROBE;
                is_under_way = 1;
                is_dirty = 0;
                start = meta.clock;
                meta.walk_start = start;
                meta.walk_node = 0;
                meta.walk_seen = PATH_NONE;
            }
        } else if (minimum.is_accepted) {
            if (is_busy) {
                if (minimum.is_rise && trigger == meta.path_index) {
                    is_dirty = 1;
                }
            } else if ((minimum.is_rise && trigger == meta.path_index) || trigger == PATH_NONE || is_under_way == 1) {
                trigger = meta.walk_path;
                meta.walk_seen = meta.path_index >> 2;
                meta.walk_node = 0;
                if (meta.walk_seen == 0) {
                    meta.walk_node = 1;
                }
                is_under_way = 0;
                minimum.search = SearchState.DONE;
                if (meta.walk_node < nodes) {
                    meta.role = Role.WALK;
                    is_under_way = 1;
                    is_dirty = 0;
                    start = meta.clock;
                    meta.walk_start = start;
                    minimum.search = SearchState.ON;
                }
            }
        }
        if (is_under_way == 0) {
            is_dirty = 0;
            start = 0;
        }
        if (minimum.search == SearchState.DONE) {
            found = WORD_PSN(meta.walk_word);
        }
        value = is_under_way ++ is_dirty ++ start ++ trigger ++ found;
        if (known != value) {
            walks.write((bit<32>)meta.group_index, value);
        }
    }
}

#endif  // ALFIRK_MIN_PSN_WALK_P4
