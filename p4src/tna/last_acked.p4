// What was last acknowledged to the source: AckPSN of the group (Cepheus, section III-D; Gleam, algorithm 2: agg_psn).
//
// It rises with the minimum, when feedback with it goes to the source. The MSN last sent to the source is kept in
// egress (retransmission_filter.p4), where that of the path at the minimum is.

#ifndef ALFIRK_LAST_ACKED_P4
#define ALFIRK_LAST_ACKED_P4

control LastAcked(inout ingress_metadata_t meta) {
    Register<psn_word_t, group_cell_t>(MAX_GROUPS) agg;

    // The lower 8 bits are ones: a minimum of the same PSN is no news, whoever holds it.
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
