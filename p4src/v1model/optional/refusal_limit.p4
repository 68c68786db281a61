// Rate limit of refusals. A request that a group cannot execute is refused by a fatal NAK (decide.p4). A hostile host
// could otherwise cause enough of them to fill the link to it, and delay its copies of the group's data and so the group. One refusal
// per 2^REFUSAL_WINDOW_SHIFT microseconds and path is enough, because the first one ends a queue pair.

#ifndef ALFIRK_REFUSAL_LIMIT_P4
#define ALFIRK_REFUSAL_LIMIT_P4

control RefusalLimit(inout metadata_t meta, in bit<48> now) {
    // A refusal was sent (1 bit) ++ window of the last one, modulo 2^15.
    @name(".ingress.ack_aggregate.refusal_limit.refused") register<bit<16>>(SIZE_PATHS) refused;
    bit<32> slot;
    bit<16> last;
    bit<16> window;

    apply {
        slot = ((bit<32>)meta.group_index << PATH_BITS) | (bit<32>)meta.path_index;
        window = 1w1 ++ (now >> REFUSAL_WINDOW_SHIFT)[14:0];
        refused.read(last, slot);
        refused.write(slot, window);
        if (last == window) {
            meta.drop_reason = Drop.REFUSAL_LIMITED;
        }
    }
}

#endif  // ALFIRK_REFUSAL_LIMIT_P4
