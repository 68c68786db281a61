// The minimum PSN by recirculation: an ACK recirculates and looks at one leaf node, four paths, in each pass.
//
// It is what a target does that has no registers to spare for a tree (Cepheus, section III-D, walks
// from port to port in the same way). Most ACKs start no walk: while the path that held the last
// minimum (`tri_path`, the papers' trigger port) has nothing new, neither has the group.
//
// A walk is not atomic. Other ACKs pass between its passes, and one that raises the walk's candidate
// may be the last one of its path: nobody would ever look again. So:
//
//   - while a walk is under way, tri_path is its candidate, the path of the oldest word so far;
//   - a rise of tri_path marks a walk under way as dirty, and a dirty walk begins again before it ends. An ACK of the same
//     PSN does not: a path that repeats it could keep a walk from its end;
//   - paths that the walk has passed over cannot matter, whatever comes: they only rise, and were not
//     older than the candidate; those ahead will be seen.
//
// When it ends clean, tri_path holds the minimum, and the next news of it starts the next walk.
//
// A walk can lose its packet. Its state carries the time of its start: after WALK_TIMEOUT_US anybody's
// news starts another, and whoever comes back late finds another start there and ends. If no news
// comes any more, the sender sends old data again, and that starts a walk too (a probe), which answers
// it if all have it: a lost walk costs a retransmission, never the group.
//
// A sender's own data raises its path without any ACK. If that path is tri_path, any news may start
// the next walk.

#ifndef ALFIRK_MIN_PSN_WALK_P4
#define ALFIRK_MIN_PSN_WALK_P4

// Before: the oldest word of the packet's own node in meta.walk_word and walk_path (ACK, NAK), or of the nodes seen so
// far (a walk's packet). `is_accepted` says that the packet's path has risen or repeats its newest PSN, `is_rise` that it has risen.
control MinPsnWalk(inout headers_t hdr, inout metadata_t meta, in bool is_accepted, in bool is_rise, out SearchState outcome) {
    // busy ++ dirty ++ start in microseconds, or 0 ++ tri_path ++ the minimum that the last walk found.
    register<bit<64>>(MAX_GROUPS) walks;
    RegisterAccess(RegisterName.AGG, RegisterOp.INIT_GROUP) access;
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
        if (meta.kind == Kind.REGISTERS) {
            // What was last acknowledged to the source is what the last walk found.
            value = (bit<64>)(found ++ 24w0);
            access.apply(hdr, (bit<64>)(INITIAL_PSN(hdr) ++ 24w0), value);
            found = value[47:24];
            if (hdr.register_control.op == RegisterOp.INIT_GROUP) {
                is_under_way = 0;
                trigger = PATH_NONE;
            }
        } else if (meta.kind == Kind.MIN_SEARCH) {
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
