// Window of the source: the maximum number of packets beyond the last acknowledged PSN (set_group_with_limits).
//
// Data beyond the window is dropped before it advances the newest PSN sent (sender.p4). Otherwise a source could advance that
// so far that no other member has the next PSN, and that it has no serial order with acknowledged PSNs.
//
// The last acknowledged PSN is updated eight stages after this one (last_acked.p4), and a packet cannot go back. So a packet
// carries it to this stage: the record of feedback that has advanced it passes egress of the recirculation port
// (retransmission_filter.p4) and returns to ingress as Kind.WINDOW:
//
//   ACK ──> ... ──> last_acked ──> source
//    └ record ──> registers of egress ──> recirculation port ──> here
//
// The word here is updated within a microsecond or two. Each record carries the whole PSN, so a lost record only makes the
// window smaller until the next one. Data dropped because of that is resent.

#ifndef ALFIRK_SOURCE_WINDOW_P4
#define ALFIRK_SOURCE_WINDOW_P4

// Second stage: computes the PSN that must be acknowledged before this data may pass, its PSN minus the window.
control WindowStart(inout ingress_metadata_t meta) {
    action subtract() {
        meta.window = meta.acked - meta.window;
    }

    apply {
        subtract();
    }
}

control SourceWindow(inout ingress_metadata_t meta) {
    Register<psn_word_t, group_cell_t>(MAX_GROUPS) last_acked;

    RegisterAction<psn_word_t, group_cell_t, bit<1>>(last_acked) compare = {
        void apply(inout psn_word_t value, out bit<1> is_beyond) {
            if (meta.window - value > 0) {
                is_beyond = 1;
            } else {
                is_beyond = 0;
            }
        }
    };
    RegisterAction<psn_word_t, group_cell_t, bit<1>>(last_acked) raise = {
        void apply(inout psn_word_t value) {
            if (meta.acked - value > 0) {
                value = meta.acked;
            }
        }
    };
    RegisterAction<psn_word_t, group_cell_t, bit<1>>(last_acked) set = {
        void apply(inout psn_word_t value) {
            value = meta.acked - PSN_WORD_ONE;
        }
    };

    action compare_data() {
        meta.is_beyond = compare.execute(CELL_GROUP(meta.carried.cell));
    }

    action raise_window() {
        raise.execute(CELL_GROUP(meta.carried.cell));
    }

    action set_window() {
        set.execute(CELL_GROUP(meta.carried.cell));
    }

    table window {
        key = { meta.carried.kind: exact; }
        actions = { compare_data; raise_window; set_window; NoAction; }
        const default_action = NoAction();
        const entries = {
            Kind.DATA: compare_data();
            Kind.WINDOW: raise_window();
            Kind.REGISTERS: set_window();
        }
        size = 16;
    }

    apply {
        window.apply();
    }
}

#endif  // ALFIRK_SOURCE_WINDOW_P4
