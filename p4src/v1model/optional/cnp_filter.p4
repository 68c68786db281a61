// CNP filter: forwards only the CNPs of the most congested path to the source.
//
// Each receiver that detects congestion sends CNPs, and a sender that got all of them would reduce its rate once per
// receiver instead of once per group. The rate must fit the slowest path, so the CNPs of the path with the most of
// them are forwarded, and all others dropped (Cepheus, section III-D, "Congestion Control").
//
// A path's count is halved for each window of 2^CNP_WINDOW_SHIFT microseconds since its last update, so it ages without
// polling. Paths store ten bits of their window number, so the count of a path without CNPs for a second may seem newer
// than it is until its next CNP.
//
// CNPs of a path beyond CNP_LIMIT in a window are dropped: a queue pair sends far fewer, and a hostile member could fill
// the source's link and the controller's queue. CNPs from the source's own port are dropped, because a CNP is addressed to
// the sender of the marked packet (IBTA annex A17.9.3), and would return to its own sender.

#ifndef ALFIRK_CNP_FILTER_P4
#define ALFIRK_CNP_FILTER_P4

control CnpFilter(inout metadata_t meta, in group_state_t state, in bit<48> now) {
    // Window of the last CNP, modulo 1024 ++ count.
    @name(".ingress.ack_aggregate.cnp_filter.paths") register<bit<16>>(SIZE_PATHS) paths;
    // Most congested path: window ++ path ++ count.
    @name(".ingress.ack_aggregate.cnp_filter.worst") register<bit<32>>(MAX_GROUPS) worst;
    bit<32> slot;
    bit<16> own;
    bit<32> top;
    bit<16> window;
    bit<10> age;
    bit<6> count;
    bit<8> top_count;

    apply {
        window = (now >> CNP_WINDOW_SHIFT)[15:0];
        slot = ((bit<32>)meta.group_index << PATH_BITS) | (bit<32>)meta.path_index;
        paths.read(own, slot);
        age = window[9:0] - own[15:6];
        count = 0;
        if (age < 8) {
            count = own[5:0] >> (bit<3>)age;
        }
        if (state.is_source == 1) {
            meta.drop_reason = Drop.OWN_CNP;
        } else if (count == CNP_LIMIT) {
            meta.drop_reason = Drop.CNP_LIMITED;
        } else {
            count = count + 1;
        }
        paths.write(slot, window[9:0] ++ count);

        worst.read(top, (bit<32>)meta.group_index);
        top_count = 0;
        if (window - top[31:16] < 8) {
            top_count = top[7:0] >> (window - top[31:16])[2:0];
        }
        if (meta.drop_reason != Drop.NONE) {
            // A CNP beyond the limit has no information about congestion.
        } else if (top[15:8] == meta.path_index || (bit<8>)count > top_count) {
            worst.write((bit<32>)meta.group_index, window ++ meta.path_index ++ (bit<8>)count);
        } else {
            meta.drop_reason = Drop.CNP_FILTERED;
        }
    }
}

#endif  // ALFIRK_CNP_FILTER_P4
