// The pending NAK, held until all paths have the packets before it, and the NAK last sent to the source.
//
// See v1model/waiting_nak.p4 for the rules. Here a NAK is a word, like acknowledgements (metadata.p4): the PSN before its own,
// which the minimum must reach, and a rank in the lower 8 bits (nak_ranks.p4). Of two NAKs for one PSN, the smaller word is used.
//
// A word older than the minimum means that no NAK is pending. It is set to just before the minimum, so that it does not seem
// newer again after half the PSN space.
//
// A stateful ALU has two comparisons and one result, so `waiting` is stored twice, as in sender.p4: one register decides
// whether the packet sends a NAK to the source, the other which NAK. Three cases:
//
//   feedback                           the pending NAK follows the minimum: the packet becomes that NAK
//   a NAK beyond the minimum           it becomes pending, unless an earlier one is
//   a NAK that follows the minimum     it is sent, unless it was sent before and the source has not resent the PSN
//
// A NAK that becomes pending, but advances the minimum to another pending NAK, does not send that one: the group's next
// feedback does. (v1model sends it at once; that would need a third comparison.)

#ifndef ALFIRK_WAITING_NAK_P4
#define ALFIRK_WAITING_NAK_P4

#include "nak_ranks.p4"

// Ternary match of a non-negative value of ingress_metadata_t.ahead or distance.
#define NOT_NEGATIVE 0 &&& 0x80000000
#define NOT_PASSED 0
#define PASSED_BY_ALL 0x80000000 &&& 0x80000000
#define JUST_AFTER 0 &&& 0xffffff00

// Word of the pending NAK, and the PSN before the NAK last sent to the source.
struct naks_t {
    psn_word_t waiting;
    psn_word_t sent;
}

// Sets `nak` to the word of a NAK.
control NakWord(inout headers_t hdr, inout ingress_metadata_t meta) {
    // Unsigned, because action parameters of constant entries must not be negative (bf-p4c writes them in base 16).
    action rank(bit<32> value) {
        meta.nak = meta.psn + (psn_word_t)value;
    }

#define NAK_RANK(kind, code, value) (kind, code): rank(32w##value - 32w256);

    table ranks {
        key = {
            hdr.aeth.kind: exact;
            hdr.aeth.value: exact;
        }
        actions = { rank; NoAction; }
        const default_action = NoAction();
        const entries = {
            NAK_RANKS(NAK_RANK)
        }
        size = 64;
    }

    apply {
        ranks.apply();
    }
}

// Final verdict on any packet: the only control that writes drop_ctl. `minimum_psn` is the minimum with zeros in the lower
// 8 bits.
control FinalVerdict(inout ingress_metadata_t meta, in bool is_admitted,
                     inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {
    Register<naks_t, group_cell_t>(MAX_GROUPS) naks;
    Register<psn_word_t, group_cell_t>(MAX_GROUPS) words;

    // Returns the value for drop_ctl.
    RegisterAction<naks_t, group_cell_t, bit<3>>(naks) check = {
        void apply(inout naks_t value, out bit<3> drop) {
            if (meta.minimum_psn - value.waiting > 0) {
                value.waiting = meta.minimum_psn - 1;
                drop = 1;
            } else if (meta.minimum_psn - value.waiting > -PSN_WORD_ONE) {
                value.waiting = meta.minimum_psn - 1;
                value.sent = meta.minimum_psn;
                drop = 0;
            } else {
                drop = 1;
            }
        }
    };
    RegisterAction<naks_t, group_cell_t, bit<3>>(naks) wait = {
        void apply(inout naks_t value) {
            if (meta.nak - value.waiting < 0 || value.waiting - meta.minimum_psn < 0) {
                value.waiting = meta.nak;
            }
        }
    };
    RegisterAction<naks_t, group_cell_t, bit<3>>(naks) forward = {
        void apply(inout naks_t value, out bit<3> drop) {
            if (value.sent == meta.minimum_psn) {
                drop = 1;
            } else {
                drop = 0;
            }
            value.waiting = meta.minimum_psn - 1;
            value.sent = meta.minimum_psn;
        }
    };
    // Clears the sent NAK when the source resends its PSN.
    RegisterAction<naks_t, group_cell_t, bit<3>>(naks) resend = {
        void apply(inout naks_t value) {
            if (value.sent == meta.nak) {
                value.sent = value.sent + 1;
            }
        }
    };

    // Returns the word of the NAK that the packet becomes, or 0.
    RegisterAction<psn_word_t, group_cell_t, psn_word_t>(words) check_word = {
        void apply(inout psn_word_t value, out psn_word_t due) {
            if (meta.minimum_psn - value > 0) {
                due = 0;
                value = meta.minimum_psn - 1;
            } else if (meta.minimum_psn - value > -PSN_WORD_ONE) {
                due = value;
                value = meta.minimum_psn - 1;
            } else {
                due = 0;
            }
        }
    };
    RegisterAction<psn_word_t, group_cell_t, psn_word_t>(words) wait_word = {
        void apply(inout psn_word_t value) {
            if (meta.nak - value < 0 || value - meta.minimum_psn < 0) {
                value = meta.nak;
            }
        }
    };
    RegisterAction<psn_word_t, group_cell_t, psn_word_t>(words) forward_word = {
        void apply(inout psn_word_t value) {
            value = meta.minimum_psn - 1;
        }
    };

    // Counts data dropped in the last stage, where the counter of drop reasons has already passed.
    @id(COUNTER_ID_LATE_DROPS) Counter<bit<64>, bit<8>>(SIZE_DROP_REASONS, CounterType_t.PACKETS) late_drops;

    // Drops the multicast copies and the unicast packet, but not the mirror.
    action answer() {
        meta.mirror_origin = Origin.ANSWER;
        meta.mirror_session = meta.answer_session;
        ig_dprsr_md.mirror_type = MIRROR_TO_ORIGIN;
        ig_dprsr_md.drop_ctl = 1;
    }

    // A fatal NAK acknowledges all packets before its PSN. It has the PSN of the request only if all receivers have all before it.
    action answer_own() {
        meta.carried.is_own_nak = 1;
        meta.mirror_origin = Origin.ANSWER;
        meta.mirror_session = meta.answer_session;
        ig_dprsr_md.mirror_type = MIRROR_TO_ORIGIN;
        ig_dprsr_md.drop_ctl = 1;
    }

    action not_the_source() {
        ig_dprsr_md.drop_ctl = 1;
        late_drops.count(Drop.NOT_THE_SOURCE);
    }

    // An advance of the minimum is sent to the recirculation port (source_window.p4).
    action check_and_advance() {
        check.execute(CELL_GROUP(meta.carried.cell));
        meta.carried.is_new = 1;
        meta.mirror_session = SESSION_TO_RECIRCULATION;
    }

    action check_only() {
        ig_dprsr_md.drop_ctl = check.execute(CELL_GROUP(meta.carried.cell));
    }

    action wait_and_advance() {
        wait.execute(CELL_GROUP(meta.carried.cell));
        meta.carried.is_new = 1;
        meta.mirror_session = SESSION_TO_RECIRCULATION;
    }

    action wait_only() {
        wait.execute(CELL_GROUP(meta.carried.cell));
        ig_dprsr_md.drop_ctl = 1;
    }

    action forward_own() {
        ig_dprsr_md.drop_ctl = forward.execute(CELL_GROUP(meta.carried.cell));
        meta.carried.is_own_nak = 1;
    }

    action forward_own_and_advance() {
        ig_dprsr_md.drop_ctl = forward.execute(CELL_GROUP(meta.carried.cell));
        meta.carried.is_own_nak = 1;
        meta.carried.is_new = 1;
        meta.mirror_session = SESSION_TO_RECIRCULATION;
    }

    action set_naks() {
        forward.execute(CELL_GROUP(meta.carried.cell));
    }

    action clear_sent() {
        resend.execute(CELL_GROUP(meta.carried.cell));
    }

    // Also drops a mirror to the controller.
    action drop() {
        ig_dprsr_md.drop_ctl = 5;
    }

    // Verdict. For data, `distance` is from its PSN to the minimum: if it is not negative, all paths have the data.
    //
    // For feedback, `ahead` is the distance by which the path's stored word is newer: then a NAK was reordered on the way.
    // `distance` is 0 to 255 if the NAK follows the minimum, more if it is beyond, negative if all paths have its PSN.
    table first {
        key = {
            meta.drop_reason: ternary;
            is_admitted: ternary;
            meta.carried.kind: ternary;
            meta.carried.is_source: ternary;
            meta.advances_minimum: ternary;
            meta.ahead: ternary;
            meta.distance: ternary;
        }
        actions = {
            check_and_advance;
            check_only;
            wait_and_advance;
            wait_only;
            forward_own;
            forward_own_and_advance;
            set_naks;
            answer;
            answer_own;
            not_the_source;
            clear_sent;
            drop;
            NoAction;
        }
        const default_action = drop();
        const entries = {
            (Drop.NONE, true, Kind.READ, _, _, _, NOT_NEGATIVE): answer_own();
            (Drop.NONE, true, Kind.READ, _, _, _, _): answer();
            (Drop.NONE, true, Kind.DATA, _, _, _, NOT_NEGATIVE): answer();
            (Drop.NONE, true, Kind.DATA, 1, _, _, _): clear_sent();
            (Drop.NONE, true, Kind.DATA, 0, _, _, _): not_the_source();
            (Drop.NONE, true, Kind.REGISTERS, _, _, _, _): set_naks();
            (Drop.NONE, true, Kind.NAK, _, 1, NOT_PASSED, PASSED_BY_ALL): check_and_advance();
            (Drop.NONE, true, Kind.NAK, _, 0, NOT_PASSED, PASSED_BY_ALL): check_only();
            (Drop.NONE, true, Kind.NAK, _, 1, NOT_PASSED, JUST_AFTER): forward_own_and_advance();
            (Drop.NONE, true, Kind.NAK, _, 0, NOT_PASSED, JUST_AFTER): forward_own();
            (Drop.NONE, true, Kind.NAK, _, 1, NOT_PASSED, _): wait_and_advance();
            (Drop.NONE, true, Kind.NAK, _, 0, NOT_PASSED, _): wait_only();
            (Drop.NONE, true, Kind.NAK, _, 1, _, _): check_and_advance();
            (Drop.NONE, true, Kind.NAK, _, 0, _, _): check_only();
            (Drop.NONE, true, Kind.ACK, _, 1, _, _): check_and_advance();
            (Drop.NONE, true, Kind.ACK, _, 0, _, _): check_only();
            (Drop.NONE, true, Kind.WINDOW, _, _, _, _): drop();
            (Drop.NONE, _, _, _, _, _, _): NoAction();
        }
        size = 32;
    }

    action check_words() {
        meta.carried.waited = check_word.execute(CELL_GROUP(meta.carried.cell));
    }

    action wait_words() {
        wait_word.execute(CELL_GROUP(meta.carried.cell));
    }

    action forward_words() {
        forward_word.execute(CELL_GROUP(meta.carried.cell));
    }

    table second {
        key = {
            meta.carried.kind: ternary;
            meta.ahead: ternary;
            meta.distance: ternary;
        }
        actions = { check_words; wait_words; forward_words; NoAction; }
        const default_action = NoAction();
        const entries = {
            (Kind.REGISTERS, _, _): forward_words();
            (Kind.NAK, NOT_PASSED, PASSED_BY_ALL): check_words();
            (Kind.NAK, NOT_PASSED, JUST_AFTER): forward_words();
            (Kind.NAK, NOT_PASSED, _): wait_words();
            (Kind.NAK, _, _): check_words();
            (Kind.ACK, _, _): check_words();
        }
        size = 16;
    }

    apply {
        first.apply();
        if (is_admitted && meta.drop_reason == Drop.NONE) {
            second.apply();
        }
    }
}

#endif  // ALFIRK_WAITING_NAK_P4
