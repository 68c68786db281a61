// Feedback to a source: PSN, syndrome and MSN of the ACK or NAK that leaves.
//
//   ACK, NAK    a NAK was pending (`waited`)     that NAK
//               a NAK that follows the minimum   unchanged
//               else                             an ACK of the minimum
//   ANSWER      to data                          an ACK of the minimum, or of the data's own PSN
//               to READ                          a fatal NAK of its PSN, or of the one after the minimum if that is older
//   FATAL_NAK                                    with the PSN after the minimum
//
// The second half of ../v1model/decide.p4, where the rules are explained. Ingress has chosen the egress port (ack_aggregate.p4).

#ifndef ALFIRK_FEEDBACK_P4
#define ALFIRK_FEEDBACK_P4

#include "nak_ranks.p4"

control Feedback(inout headers_t hdr, inout egress_metadata_t meta) {
    action ack_of_minimum() {
        hdr.bth.psn = ((bit<32>)meta.carried.minimum)[31:8];
        hdr.aeth.kind = AETH_ACK;
        hdr.aeth.value = SYNDROME_ACK_NO_CREDITS[4:0];
    }

    action waiting_nak(bit<3> kind, bit<5> value) {
        hdr.bth.psn = meta.after_minimum;
        hdr.aeth.kind = kind;
        hdr.aeth.value = value;
    }

    action after_all() {
        hdr.bth.psn = meta.after_minimum;
    }

    action refusal() {
        hdr.aeth.kind = AETH_NAK;
        hdr.aeth.value = NAK_INVALID_REQUEST;
    }

    action refusal_after_minimum() {
        hdr.bth.psn = meta.after_minimum;
        hdr.aeth.kind = AETH_NAK;
        hdr.aeth.value = NAK_INVALID_REQUEST;
    }

#define WAITING_NAK(kind, code, rank) (_, _, _, rank): waiting_nak(kind, code);

    // The lower 8 bits of `waited` are the NAK's rank (nak_ranks.p4), 0 if there is none.
    table reply {
        key = {
            meta.carried.kind: ternary;
            meta.carried.is_own_nak: ternary;
            meta.carried.is_source: ternary;
            ((bit<32>)meta.carried.waited)[7:0]: ternary @name("rank");
        }
        actions = { ack_of_minimum; waiting_nak; after_all; refusal; refusal_after_minimum; NoAction; }
        const default_action = NoAction();
        const entries = {
            (Kind.NAK, 1, _, _): NoAction();
            (Kind.FATAL_NAK, _, _, _): after_all();
            (Kind.READ, 1, _, _): refusal();
            (Kind.READ, 0, _, _): refusal_after_minimum();
            (Kind.DATA, _, 1, _): ack_of_minimum();
            (Kind.DATA, _, 0, _): NoAction();
            (_, _, _, 0): ack_of_minimum();
            NAK_RANKS(WAITING_NAK)
        }
        size = 64;
    }

    apply {
        reply.apply();
    }
}

#endif  // ALFIRK_FEEDBACK_P4
