// The current source and the newest PSN sent.
//
//   from the source's port   any PSN is accepted
//   from another port        only the next PSN of the group is accepted, if that path has acknowledged all before it; the port
//                            then becomes the source's
//
// See v1model/sender.p4 for the rules. Without a source, only the group's first PSN is accepted here, because the ALU has no
// third comparison. So the controller must set the source's port when it initialises the registers of a running group.
//
// A stateful ALU has two comparisons. The previous stage determines whether the path has acknowledged all before this
// PSN, which selects one of two pairs of comparisons:
//
//   it has not   from the source's port? PSN beyond the newest one sent?   if both: the PSN is new
//   it has       from the source's port? PSN next to the newest one sent?  if the latter: the PSN is new, the port is the source's
//
// Data beyond the source's window (source_window.p4) changes no state; it only reads the port of the source.
//
// A NAK of the next unsent PSN is an ACK of all that was sent (`turn` is TURN_PSN then, ack_aggregate.p4).
//
// Data of the source is old if its path has acknowledged all before it, and it is not the next PSN.
// A stateful ALU has one result, so `senders` is stored twice: one copy classifies data, the other returns the source's port.
// Both are always changed in the same way.

#ifndef ALFIRK_SENDER_P4
#define ALFIRK_SENDER_P4

// Values of `turn`: one of four bits (RegisterAction.predicate of two conditions); 0b0001 if neither holds.
const bit<4> TURN_SOURCE = 0b0010;
const bit<4> TURN_PSN = 0b0100;
const bit<4> TURN_SOURCE_AND_PSN = 0b1000;

struct sender_t {
    psn_word_t sent;
    psn_word_t port;
}

// Newest PSN that each path claims to have. Not verified; used only to decide whether the path may become the source.
control PathAcknowledged(inout headers_t hdr, inout ingress_metadata_t meta) {
    Register<psn_word_t, cell_t>(SIZE_PATHS) acked;

    RegisterAction<psn_word_t, cell_t, bit<1>>(acked) raise = {
        void apply(inout psn_word_t value) {
            if (meta.acked - value > 0) {
                value = meta.acked;
            }
        }
    };
    // For data, `acked` is the word of a NAK of its PSN, which acknowledges all before it.
    RegisterAction<psn_word_t, cell_t, bit<1>>(acked) ask = {
        void apply(inout psn_word_t value, out bit<1> is_caught_up) {
            if (value - meta.acked > -2) {
                is_caught_up = 1;
            } else {
                is_caught_up = 0;
            }
        }
    };
    RegisterAction<psn_word_t, cell_t, bit<1>>(acked) set = {
        void apply(inout psn_word_t value) {
            value = meta.acked;
        }
    };

    action raise_path() {
        raise.execute(meta.carried.cell);
    }

    action ask_path() {
        meta.is_caught_up = ask.execute(meta.carried.cell);
    }

    action set_path() {
        set.execute(meta.carried.cell);
    }

    table path {
        key = { meta.carried.kind: exact; }
        actions = { raise_path; ask_path; set_path; NoAction; }
        const default_action = NoAction();
        const entries = {
            Kind.ACK: raise_path();
            Kind.NAK: raise_path();
            Kind.DATA: ask_path();
            Kind.REGISTERS: set_path();
        }
        size = 16;
    }

    apply {
        path.apply();
    }
}

control Sender(inout headers_t hdr, inout ingress_metadata_t meta) {
    Register<sender_t, group_cell_t>(MAX_GROUPS) senders;
    Register<sender_t, group_cell_t>(MAX_GROUPS) sources;

#define SENDER_CHANGES(array, continue_as_source, take_turn, set) \
    RegisterAction<sender_t, group_cell_t, bit<4>>(array) continue_as_source = { \
        void apply(inout sender_t value, out bit<4> turn) { \
            turn = this.predicate(value.port == (psn_word_t)meta.port_word, meta.acked - value.sent > 0); \
            if (value.port == (psn_word_t)meta.port_word && meta.acked - value.sent > 0) { \
                value.sent = meta.acked; \
            } \
        } \
    }; \
    RegisterAction<sender_t, group_cell_t, bit<4>>(array) take_turn = { \
        void apply(inout sender_t value, out bit<4> turn) { \
            turn = this.predicate(value.port == (psn_word_t)meta.port_word, meta.acked - value.sent == PSN_WORD_ONE); \
            if (meta.acked - value.sent == PSN_WORD_ONE) { \
                value.sent = meta.acked; \
                value.port = (psn_word_t)meta.port_word; \
            } \
        } \
    }; \
    RegisterAction<sender_t, group_cell_t, bit<4>>(array) set = { \
        void apply(inout sender_t value) { \
            value.sent = meta.acked - PSN_WORD_ONE; \
            value.port = (psn_word_t)meta.port_word; \
        } \
    };

    SENDER_CHANGES(senders, continue_as_source, take_turn, set_sender)
    SENDER_CHANGES(sources, continue_in_sources, take_turn_in_sources, set_source)

    // For feedback: returns the port of the source, or 0 if the feedback is beyond the newest PSN sent, or there was no source yet.
    // The word of an ACK of `sent` is 255 above it, that of a NAK of the next PSN 256. A PSN exactly half the PSN space away has no
    // serial order, and is treated as beyond.
    RegisterAction<sender_t, group_cell_t, bit<32>>(sources) ask = {
        void apply(inout sender_t value, out bit<32> port) {
            if (meta.acked - value.sent > PSN_WORD_ONE || meta.acked - value.sent < -0x7ffffeff) {
                port = 0;
            } else {
                port = (bit<32>)value.port;
            }
        }
    };
    RegisterAction<sender_t, group_cell_t, bit<32>>(senders) look = {
        void apply(inout sender_t value, out bit<32> port) {
            port = (bit<32>)value.port;
        }
    };

    action continue_senders() {
        meta.turn = continue_as_source.execute(CELL_GROUP(meta.carried.cell));
    }

    action take_senders() {
        meta.turn = take_turn.execute(CELL_GROUP(meta.carried.cell));
    }

    action set_senders() {
        set_sender.execute(CELL_GROUP(meta.carried.cell));
    }

    action look_at_senders() {
        meta.last_source = look.execute(CELL_GROUP(meta.carried.cell));
    }

    table first {
        key = {
            meta.carried.kind: exact;
            meta.is_caught_up: exact;
            meta.is_beyond: exact;
        }
        actions = { continue_senders; take_senders; set_senders; look_at_senders; NoAction; }
        const default_action = NoAction();
        const entries = {
            (Kind.DATA, 0, 0): continue_senders();
            (Kind.DATA, 1, 0): take_senders();
            // The source is not known, so the register is not changed.
            (Kind.NAK, 0, 0): continue_senders();
            (Kind.CNP, 0, 0): look_at_senders();
            (Kind.READ, 0, 0): look_at_senders();
            (Kind.DATA, 0, 1): look_at_senders();
            (Kind.DATA, 1, 1): look_at_senders();
            (Kind.REGISTERS, 0, 0): set_senders();
        }
        size = 16;
    }

    action continue_sources() {
        continue_in_sources.execute(CELL_GROUP(meta.carried.cell));
    }

    action take_sources() {
        take_turn_in_sources.execute(CELL_GROUP(meta.carried.cell));
    }

    action set_sources() {
        set_source.execute(CELL_GROUP(meta.carried.cell));
    }

    action ask_sources() {
        meta.source = ask.execute(CELL_GROUP(meta.carried.cell));
    }

    table second {
        key = {
            meta.carried.kind: exact;
            meta.is_caught_up: exact;
            meta.is_beyond: exact;
        }
        actions = { continue_sources; take_sources; set_sources; ask_sources; NoAction; }
        const default_action = NoAction();
        const entries = {
            (Kind.DATA, 0, 0): continue_sources();
            (Kind.DATA, 1, 0): take_sources();
            (Kind.ACK, 0, 0): ask_sources();
            (Kind.NAK, 0, 0): ask_sources();
            (Kind.FATAL_NAK, 0, 0): ask_sources();
            (Kind.REGISTERS, 0, 0): set_sources();
        }
        size = 16;
    }

    apply {
        first.apply();
        second.apply();
    }
}

#endif  // ALFIRK_SENDER_P4
