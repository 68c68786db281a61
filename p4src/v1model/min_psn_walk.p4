// The minimum PSN by recirculation: an ACK goes round and looks at one leaf node, four paths, in each pass.
//
// It is what a target does that has no registers to spare for a tree (Cepheus, section III-D, walks
// from port to port in the same way). Most ACKs start no walk: while the path that held the last
// minimum (`tri_path`, the papers' trigger port) has nothing new, neither has the group.
//
// A walk is not atomic. Other ACKs pass between its passes, and one that raises the walk's candidate
// may be the last one of its path: nobody would ever look again. So:
//
//   - while a walk is under way, tri_path is its candidate, the path of the oldest word so far;
//   - news of tri_path marks a walk under way as dirty, and a dirty walk begins again before it ends;
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

// What becomes of the packet.
const bit<2> WALK_IDLE = 0;  // no walk
const bit<2> WALK_ON = 1;    // goes round once more
const bit<2> WALK_DONE = 2;  // meta.walk_word is the minimum
const bit<2> WALK_LOST = 3;  // another walk has taken over

// Before: `is_news` and the oldest word of the packet's own node in meta.walk_word and walk_path (ACK, NAK), or
// of the nodes seen so far (a walk's packet).
// `is_init` makes the group's state that of a group that has not begun.
control MinPsnWalk(inout metadata_t meta, in bit<1> is_init, in bit<1> is_data, in bit<1> is_news,
                   out bit<2> outcome) {
    // busy ++ dirty ++ start in microseconds, or 0.
    register<bit<32>>(MAX_GROUPS) state;
    register<path_t>(MAX_GROUPS) tri_path;
    bit<32> group;
    bit<32> current;
    path_t trigger;
    bit<30> clock;
    bool is_busy;
    path_t nodes;

    apply {
        group = (bit<32>)meta.group_index;
        clock = meta.clock;
        state.read(current, group);
        tri_path.read(trigger, group);
        is_busy = current[31:31] == 1 && clock - current[29:0] <= WALK_TIMEOUT_US;
        nodes = (meta.paths + 3) >> 2;
        outcome = WALK_IDLE;
        if (is_init == 1) {
            state.write(group, 0);
            tri_path.write(group, PATH_NONE);
        } else if (meta.role != ROLE_NONE) {
            if (current[31:31] == 0 || current[29:0] != meta.walk_start) {
                outcome = WALK_LOST;
            } else {
                tri_path.write(group, meta.walk_path);
                meta.walk_node = meta.walk_node + 1;
                if (meta.walk_node == meta.walk_seen) {
                    meta.walk_node = meta.walk_node + 1;
                }
                outcome = WALK_ON;
                if (meta.walk_node >= nodes) {
                    if (current[30:30] == 1) {
                        meta.walk_start = clock;
                        meta.walk_node = 0;
                        meta.walk_seen = PATH_NONE;
                        state.write(group, 2w0b10 ++ clock);
                    } else {
                        state.write(group, 0);
                        outcome = WALK_DONE;
                    }
                }
            }
        } else if (is_data == 1) {
            if (is_news == 1) {
                if (trigger == meta.path_index) {
                    if (is_busy) {
                        state.write(group, current | 0x40000000);
                    } else {
                        tri_path.write(group, PATH_NONE);
                    }
                }
            } else if (meta.is_retransmission == 1 && !is_busy) {
                meta.role = ROLE_PROBE;
                meta.walk_start = clock;
                meta.walk_node = 0;
                meta.walk_seen = PATH_NONE;
                state.write(group, 2w0b10 ++ clock);
            }
        } else if (is_news == 1) {
            if (is_busy) {
                if (trigger == meta.path_index) {
                    state.write(group, current | 0x40000000);
                }
            } else if (trigger == meta.path_index || trigger == PATH_NONE || current[31:31] == 1) {
                tri_path.write(group, meta.walk_path);
                meta.walk_seen = meta.path_index >> 2;
                meta.walk_node = 0;
                if (meta.walk_seen == 0) {
                    meta.walk_node = 1;
                }
                if (meta.walk_node >= nodes) {
                    state.write(group, 0);
                    outcome = WALK_DONE;
                } else {
                    meta.role = ROLE_WALK;
                    meta.walk_start = clock;
                    state.write(group, 2w0b10 ++ clock);
                    outcome = WALK_ON;
                }
            }
        }
    }
}

#endif  // ALFIRK_MIN_PSN_WALK_P4
