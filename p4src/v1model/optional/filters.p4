// Optional filters of the chain: of losses already reported, of CNPs, and of refusals.

#ifndef ALFIRK_OPTIONAL_FILTERS_P4
#define ALFIRK_OPTIONAL_FILTERS_P4

#include "selective_nak.p4"
#include "cnp_filter.p4"
#include "refusal_limit.p4"

// `now`: ingress timestamp in microseconds.
control Filters(inout headers_t hdr, inout metadata_t meta, in group_state_t state, in bit<48> now) {
    SelectiveNak() selective_nak;
    CnpFilter() cnp_filter;
    RefusalLimit() refusal_limit;

    apply {
        if (meta.kind == Kind.DATA || meta.kind == Kind.SELECTIVE_NAK) {
            selective_nak.apply(hdr, meta, state);
        } else if (meta.kind == Kind.CNP) {
            if (state.source_port != 0) {
                cnp_filter.apply(meta, state, now);
            }
        } else if (meta.kind == Kind.READ) {
            refusal_limit.apply(meta, now);
        }
    }
}

#endif  // ALFIRK_OPTIONAL_FILTERS_P4
