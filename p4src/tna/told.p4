// What was last acknowledged to the source: AckPSN of the group (Cepheus, section III-D; Gleam, algorithm 2: agg_psn).
//
// It rises with the minimum, when feedback with it goes to the source. The MSN last sent to the source is kept in
// egress (retransmission_filter.p4), where that of the path at the minimum is.

#ifndef ALFIRK_TOLD_P4
#define ALFIRK_TOLD_P4

control Told(inout ingress_metadata_t meta) {
    Register<psn_word_t, group_cell_t>(MAX_GROUPS) agg;

    // The lower 8 bits are ones: a minimum of the same PSN is no news, whoever holds it.
    RegisterAction<psn_word_t, group_cell_t, bit<1>>(agg) tell = {
        void apply(inout psn_word_t value, out bit<1> is_news) {
            if (meta.carried.minimum - value > 0) {
                value = meta.carried.minimum | 255;
                is_news = 1;
            } else {
                is_news = 0;
            }
        }
    };
    RegisterAction<psn_word_t, group_cell_t, bit<1>>(agg) set = {
        void apply(inout psn_word_t value) {
            value = meta.carried.minimum | 255;
        }
    };

    action tell_source() {
        meta.is_news = tell.execute(CELL_GROUP(meta.carried.cell));
    }

    action set_told() {
        set.execute(CELL_GROUP(meta.carried.cell));
    }

    table told {
        key = { meta.carried.kind: exact; }
        actions = { tell_source; set_told; NoAction; }
        const default_action = NoAction();
        const entries = {
            Kind.ACK: tell_source();
            Kind.NAK: tell_source();
            Kind.REGISTERS: set_told();
        }
        size = 16;
    }

    apply {
        told.apply();
    }
}

#endif  // ALFIRK_TOLD_P4
