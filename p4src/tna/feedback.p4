// Feedback to a source: PSN, syndrome and MSN of the ACK or NAK that leaves.
//
//   ACK, NAK    a NAK was pending (`waited`)     that NAK
//               a NAK that follows the minimum   unchanged
//               else                             an ACK of the minimum
//   ANSWER      to data                          an ACK of the minimum, or of the data's own PSN
//               to READ                          a fatal NAK of its PSN, or of the one after the minimum if that is older
//   FATAL_NAK                                    with the PSN after the minimum
//
// The second half of ../shared/decide.p4, where the rules are explained. Ingress has chosen the egress port (ack_aggregate.p4).

#ifndef ALFIRK_FEEDBACK_P4
#define ALFIRK_FEEDBACK_P4

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

    // The lower 8 bits of `waited` are the NAK's rank (waiting_nak.p4), 0 if there is none.
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
            (_, _, _, 33): waiting_nak(AETH_NAK, NAK_PSN_SEQUENCE_ERROR);
            (_, _, _, 1): waiting_nak(AETH_RNR_NAK, 0);
            (_, _, _, 2): waiting_nak(AETH_RNR_NAK, 31);
            (_, _, _, 3): waiting_nak(AETH_RNR_NAK, 30);
            (_, _, _, 4): waiting_nak(AETH_RNR_NAK, 29);
            (_, _, _, 5): waiting_nak(AETH_RNR_NAK, 28);
            (_, _, _, 6): waiting_nak(AETH_RNR_NAK, 27);
            (_, _, _, 7): waiting_nak(AETH_RNR_NAK, 26);
            (_, _, _, 8): waiting_nak(AETH_RNR_NAK, 25);
            (_, _, _, 9): waiting_nak(AETH_RNR_NAK, 24);
            (_, _, _, 10): waiting_nak(AETH_RNR_NAK, 23);
            (_, _, _, 11): waiting_nak(AETH_RNR_NAK, 22);
            (_, _, _, 12): waiting_nak(AETH_RNR_NAK, 21);
            (_, _, _, 13): waiting_nak(AETH_RNR_NAK, 20);
            (_, _, _, 14): waiting_nak(AETH_RNR_NAK, 19);
            (_, _, _, 15): waiting_nak(AETH_RNR_NAK, 18);
            (_, _, _, 16): waiting_nak(AETH_RNR_NAK, 17);
            (_, _, _, 17): waiting_nak(AETH_RNR_NAK, 16);
            (_, _, _, 18): waiting_nak(AETH_RNR_NAK, 15);
            (_, _, _, 19): waiting_nak(AETH_RNR_NAK, 14);
            (_, _, _, 20): waiting_nak(AETH_RNR_NAK, 13);
            (_, _, _, 21): waiting_nak(AETH_RNR_NAK, 12);
            (_, _, _, 22): waiting_nak(AETH_RNR_NAK, 11);
            (_, _, _, 23): waiting_nak(AETH_RNR_NAK, 10);
            (_, _, _, 24): waiting_nak(AETH_RNR_NAK, 9);
            (_, _, _, 25): waiting_nak(AETH_RNR_NAK, 8);
            (_, _, _, 26): waiting_nak(AETH_RNR_NAK, 7);
            (_, _, _, 27): waiting_nak(AETH_RNR_NAK, 6);
            (_, _, _, 28): waiting_nak(AETH_RNR_NAK, 5);
            (_, _, _, 29): waiting_nak(AETH_RNR_NAK, 4);
            (_, _, _, 30): waiting_nak(AETH_RNR_NAK, 3);
            (_, _, _, 31): waiting_nak(AETH_RNR_NAK, 2);
            (_, _, _, 32): waiting_nak(AETH_RNR_NAK, 1);
        }
        size = 64;
    }

    apply {
        reply.apply();
    }
}

#endif  // ALFIRK_FEEDBACK_P4
