// The pending NAK, held until all paths have the packets before it, or the NAK last sent to the source.
//
// A requester takes a NAK of e as an ACK of all packets before e (IBTA vol. 1, section 9.7.5.2). So the oldest NAK is
// pending until the minimum reaches e - 1. A NAK whose PSN the minimum has reached is stale (Gleam, algorithm 3; its
// line 7 has the comparison reversed, its text is right).
//
// Cepheus, section III-D, "NACK Aggregation"; the following rules are in no paper.
//
// Receivers that lack the same packet each send a NAK. A requester that goes back N for each of them would resend the same
// window as often, and exhaust its RNR retry count. So the source gets one NAK per loss, and another one only after
// it has resent the packet. A pending NAK ends when the source resends its packet, because an earlier loss of another receiver
// has made it go back: otherwise the source would resend the window again for a packet that is on its way. If that
// packet is lost too, its receiver sends no second NAK, and the source's timeout repairs it. Of several RNR NAKs for one PSN, the longest timer is used, and any RNR NAK is preferred to
// a sequence error: an immediate resend would meet the same busy receiver.

#ifndef ALFIRK_WAITING_NAK_P4
#define ALFIRK_WAITING_NAK_P4

// Of RNR timer codes 1 is the shortest and 0 the longest (IBTA vol. 1, table 45).
#define RNR_TIMER_RANK(value) ((value) - 1)

// Sets `forwards_nak` if the packet has become the NAK to the source, with its PSN and syndrome.
control WaitingNak(inout headers_t hdr, in metadata_t meta, in group_state_t state, inout minimum_t minimum) {
    bit<32> known;
    bit<32> waiting;
    bit<32> arrived;

    apply {
        minimum.forwards_nak = false;
        pending_naks.read(known, (bit<32>)meta.group_index);
        waiting = known;
        if (waiting != 0 || meta.kind == Kind.NAK) {
            if (waiting != 0
                && (!PSN_LT(minimum.psn, waiting[23:0])
                    || (meta.kind == Kind.DATA && state.from_current_source == 1 && hdr.bth.psn == waiting[23:0]))) {
                // The minimum has reached its PSN, or the source has resent it.
                waiting = 0;
            }
            // A NAK older than its path's newest PSN, or than the minimum, was reordered on the way.
            if (meta.kind == Kind.NAK && minimum.is_accepted && PSN_LT(minimum.psn, hdr.bth.psn)) {
                arrived = hdr.aeth.kind ++ hdr.aeth.value ++ hdr.bth.psn;
                if (waiting == 0 || PSN_LT(hdr.bth.psn, waiting[23:0])) {
                    waiting = arrived;
                } else if (hdr.bth.psn == waiting[23:0] && waiting[31:31] == 0 && hdr.aeth.kind == AETH_RNR_NAK
                           && (waiting[31:29] == AETH_NAK
                               || RNR_TIMER_RANK(hdr.aeth.value) > RNR_TIMER_RANK(waiting[28:24]))) {
                    waiting = arrived;
                }
            }
            if (minimum.is_final && !minimum.is_answer && waiting != 0 && waiting[31:31] == 0
                && minimum.psn + 1 == waiting[23:0]) {
                minimum.forwards_nak = true;
                hdr.bth.psn = waiting[23:0];
                hdr.aeth.kind = waiting[31:29];
                hdr.aeth.value = waiting[28:24];
                waiting = waiting | 0x80000000;
            }
        }
        if (waiting != known) {
            pending_naks.write((bit<32>)meta.group_index, waiting);
        }
    }
}

#endif  // ALFIRK_WAITING_NAK_P4
