// How far may a source be ahead of what was last acknowledged to it? By the group's window (set_group_with_limits).
//
// Data beyond the window is refused before it moves the newest PSN that was sent (sender.p4): else a source could move that so far
// that no other member's PSN is the next one any more, nor has an order with what receivers have acknowledged.
//
// What was last acknowledged to the source is known eight stages behind this one (last_acked.p4), and no stage goes back. So it
// comes back with a packet: the record of feedback that has raised it, which goes through egress of the recirculation port
// (retransmission_filter.p4) and comes in again as Kind.WINDOW:
//
//   ACK ──> ... ──> last_acked ──> source
//    └ record ──> registers of egress ──> recirculation port ──> here
//
// The word here follows within a microsecond or two, and each record carries the whole PSN, so one that is lost only makes
// the window smaller until the next one. Data that is refused for that is resent.

#ifndef ALFIRK_SOURCE_WINDOW_P4
#define ALFIRK_SOURCE_WINDOW_P4

// For the second stage: of data, what must have been acknowledged.
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
