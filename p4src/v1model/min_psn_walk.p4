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

// On entry, meta.walk_word and walk_path have the oldest word of the packet's own node (ACK, NAK), or of the nodes visited so
// far (search packet). `is_accepted`: the path's newest PSN has advanced or was repeated. `is_rise`: it has advanced.
control MinPsnWalk(in headers_t hdr, inout metadata_t meta, in bool is_accepted, in bool is_rise,
                   out SearchState outcome) {
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
        walks.read(known, (bit<32>)meta.group_index);
        is_under_way = known[63:63];
        is_dirty = known[62:62];
        start = known[61:32];
        trigger = known[31:24];
        found = known[23:0];
        is_busy = is_under_way == 1 && meta.clock - start <= WALK_TIMEOUT_US;
        nodes = (meta.paths + 3) >> 2;
        outcome = SearchState.IDLE;
        if (meta.kind == Kind.MIN_SEARCH) {
            outcome = SearchState.LOST;
            if (is_under_way == 1 && start == meta.walk_start) {
                outcome = SearchState.ON;
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
                        outcome = SearchState.DONE;
                    }
                }
            }
        } else if (meta.kind == Kind.DATA) {
            if (is_accepted) {
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
        } else if (is_accepted) {
            if (is_busy) {
                if (is_rise && trigger == meta.path_index) {
                    is_dirty = 1;
                }
            } else if ((is_rise && trigger == meta.path_index) || trigger == PATH_NONE || is_under_way == 1) {
                trigger = meta.walk_path;
                meta.walk_seen = meta.path_index >> 2;
                meta.walk_node = 0;
                if (meta.walk_seen == 0) {
                    meta.walk_node = 1;
                }
                is_under_way = 0;
                outcome = SearchState.DONE;
                if (meta.walk_node < nodes) {
                    meta.role = Role.WALK;
                    is_under_way = 1;
                    is_dirty = 0;
                    start = meta.clock;
                    meta.walk_start = start;
                    outcome = SearchState.ON;
                }
            }
        }
        if (is_under_way == 0) {
            is_dirty = 0;
            start = 0;
        }
        if (outcome == SearchState.DONE) {
            found = WORD_PSN(meta.walk_word);
        }
        value = is_under_way ++ is_dirty ++ start ++ trigger ++ found;
        if (known != value) {
            walks.write((bit<32>)meta.group_index, value);
        }
    }
}

#endif  // ALFIRK_MIN_PSN_WALK_P4
