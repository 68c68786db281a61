// Optional parts of the way to a receiver, after ../../shared/bridge_exit.p4: selective NAKs and memory regions.

#ifndef ALFIRK_OPTIONAL_EXIT_P4
#define ALFIRK_OPTIONAL_EXIT_P4

#include "memory_regions.p4"

control OptionalExit(inout headers_t hdr, inout metadata_t meta, in bool is_to_host, in slot_t receiver) {
    MemoryRegions() memory_regions;

    apply {
        if (is_to_host) {
            if (meta.kind == Kind.SELECTIVE_NAK) {
                // A requester takes any NAK as an ACK of all packets before its PSN (selective_nak.p4).
                hdr.aeth.msn = hdr.bth.psn;
                hdr.bth.psn = meta.optional.last_acked[47:24] + 1;
            }
            if (hdr.reth.isValid()) {
                memory_regions.apply(hdr, meta, receiver);
            }
        }
    }
}

#endif  // ALFIRK_OPTIONAL_EXIT_P4
