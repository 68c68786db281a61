// Only the most congested path's CNPs reach the sender.
//
// Each receiver that sees congestion sends CNPs of its own, and a sender that got them
// all would slow down once for each receiver rather than once for the group. The rate
// is to fit the slowest path, so the CNPs of the path that sends most of them pass, and
// the others end here (Cepheus, section III-D, "Congestion Control").
//
// A path's count is halved for each window of 2^CNP_WINDOW_SHIFT microseconds that has
// passed since it was last touched; it ages without being polled. Paths keep
// three bits of their window's number, so one that was silent for eight windows may
// look younger than it is until its next CNP.

#ifndef ALFIRK_CNP_FILTER_P4
#define ALFIRK_CNP_FILTER_P4

control CnpFilter(inout metadata_t meta, in bit<48> now) {
    // Window of the last CNP, modulo 8 ++ count.
    register<bit<8>>(SIZE_PATHS) paths;
    // The most congested path: window ++ path ++ count.
    register<bit<32>>(MAX_GROUPS) worst;
    bit<32> slot;
    bit<8> own;
    bit<32> top;
    bit<16> window;
    bit<3> age;
    bit<5> count;
    bit<8> top_count;

    apply {
        window = (now >> CNP_WINDOW_SHIFT)[15:0];
        slot = ((bit<32>)meta.group_index << PATH_BITS) | (bit<32>)meta.path_index;
        paths.read(own, slot);
        age = window[2:0] - own[7:5];
        count = own[4:0] >> age;
        if (count != 31) {
            count = count + 1;
        }
        paths.write(slot, window[2:0] ++ count);

        worst.read(top, (bit<32>)meta.group_index);
        top_count = 0;
        if (window - top[31:16] < 8) {
            top_count = top[7:0] >> (window - top[31:16])[2:0];
        }
        if (top[15:8] == meta.path_index || (bit<8>)count > top_count) {
            worst.write((bit<32>)meta.group_index, window ++ meta.path_index ++ (bit<8>)count);
        } else {
            meta.drop_reason = Drop.CNP_FILTERED;
        }
    }
}

#endif  // ALFIRK_CNP_FILTER_P4
