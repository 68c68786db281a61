// Rate limit of refusals: one fatal NAK per 2^16 ns (about 66 microseconds) and path for requests that a group cannot execute
// (ack_aggregate.p4). See v1model/optional/refusal_limit.p4.

#ifndef ALFIRK_REFUSAL_LIMIT_P4
#define ALFIRK_REFUSAL_LIMIT_P4

control RefusalLimit(inout ingress_metadata_t meta, inout bit<1> is_limited) {
    // Window of the last refusal, preceded by a one bit.
    Register<bit<16>, cell_t>(SIZE_PATHS) refused;

    RegisterAction<bit<16>, cell_t, bit<1>>(refused) refuse = {
        void apply(inout bit<16> value, out bit<1> limited) {
            if (value == meta.refusal_window) {
                limited = 1;
            } else {
                limited = 0;
            }
            value = meta.refusal_window;
        }
    };

    action refuse_once() {
        is_limited = refuse.execute(meta.carried.cell);
    }

    table refusals {
        key = { meta.carried.kind: exact; }
        actions = { refuse_once; NoAction; }
        const default_action = NoAction();
        const entries = {
            Kind.READ: refuse_once();
        }
        size = 2;
    }

    apply {
        refusals.apply();
    }
}

#endif  // ALFIRK_REFUSAL_LIMIT_P4
