// PSN last acknowledged to the source (Cepheus, section III-D: AckPSN; Gleam, algorithm 2: agg_psn).
//
// It advances with the minimum, when feedback with it goes to the source. The MSN last sent to the source is stored in
// egress (retransmission_filter.p4), like the MSNs of paths.

#ifndef ALFIRK_LAST_ACKED_P4
#define ALFIRK_LAST_ACKED_P4

control LastAcked(inout ingress_metadata_t meta) {
    Register<psn_word_t, group_cell_t>(MAX_GROUPS) agg;

    // The lower 8 bits are ones, so that a minimum with the same PSN does not advance it, whatever its lower bits are.
    RegisterAction<psn_word_t, group_cell_t, bit<1>>(agg) advance = {
        void apply(inout psn_word_t value, out bit<1> advances_minimum) {
            if (meta.carried.minimum - value > 0) {
                value = meta.carried.minimum | 255;
                advances_minimum = 1;
            } else {
                advances_minimum = 0;
            }
        }
    };
    RegisterAction<psn_word_t, group_cell_t, bit<1>>(agg) set = {
        void apply(inout psn_word_t value) {
            value = meta.carried.minimum | 255;
        }
    };

    action advance_minimum() {
        meta.advances_minimum = advance.execute(CELL_GROUP(meta.carried.cell));
    }

    action set_last_acked() {
        set.execute(CELL_GROUP(meta.carried.cell));
    }

    table last_acked {
        key = { meta.carried.kind: exact; }
        actions = { advance_minimum; set_last_acked; NoAction; }
        const default_action = NoAction();
        const entries = {
            Kind.ACK: advance_minimum();
            Kind.NAK: advance_minimum();
            Kind.REGISTERS: set_last_acked();
        }
        size = 16;
    }

    apply {
        last_acked.apply();
    }
}

#endif  // ALFIRK_LAST_ACKED_P4
