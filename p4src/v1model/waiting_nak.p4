// The NAK that waits until all have what is before it, and the one that was sent to the source.
//
// A requester takes a NAK of e as an ACK of everything before e (IBTA vol. 1, section 9.7.5.2). So the oldest NAK
// waits until the minimum has come to e - 1, and one that the minimum has passed is stale (Gleam, algorithm 3; its
// line 7 compares the wrong way round, its text is right).
//
// Cepheus, section III-D, "NACK Aggregation"; what follows is in no paper.
//
// Receivers that lack the same packet send NAKs one after the other, but a requester that goes back N for each of them
// sends the same window as often, and counts down rnr_retry. The source gets a NAK for a loss once, and again only when it
// has sent the packet again. Of several RNR NAKs that wait for one PSN the longest timer counts, and any of them
// rather than a sequence error: who resends at once would find the same receiver not ready.

#ifndef ALFIRK_WAITING_NAK_P4
#define ALFIRK_WAITING_NAK_P4

// Of RNR timer codes 1 is the shortest and 0 the longest (IBTA vol. 1, table 45).
#define RNR_TIMER_RANK(value) ((value) - 1)

// `may_forward`: this packet can become the NAK for the source.
// `forwards_nak`: it does; it has the NAK's PSN and syndrome.
control WaitingNak(inout headers_t hdr, inout metadata_t meta, in bool is_accepted, in psn_t minimum, in bool may_forward,
                   out bool forwards_nak) {
    // Was it sent to the source? (1 bit) ++ lower 7 bits of the syndrome ++ PSN; 0 if there is none.
    register<bit<32>>(MAX_GROUPS) nak;
    RegisterAccess(RegisterName.NAK, RegisterOp.INIT_GROUP) access;
    bit<32> known;
    bit<32> waiting;
    bit<32> arrived;
    bit<64> value;

    apply {
        forwards_nak = false;
        nak.read(known, (bit<32>)meta.group_index);
        waiting = known;
        if (meta.kind == Kind.REGISTERS) {
            value = (bit<64>)waiting;
            access.apply(hdr, 0, value);
            waiting = value[31:0];
        } else if (meta.kind == Kind.COMMAND) {
            // The controller waits for itself.
            if (hdr.aeth.kind != AETH_ACK) {
                if (waiting[31:31] == 1 && waiting[23:0] == hdr.bth.psn) {
                    meta.drop_reason = Drop.NAK_ALREADY_SENT;
                }
                waiting = (hdr.aeth.kind | 0b100) ++ hdr.aeth.value ++ hdr.bth.psn;
            }
        } else if (waiting != 0 || meta.kind == Kind.NAK) {
            if (waiting != 0
                && (!PSN_LT(minimum, waiting[23:0])
                    || (meta.kind == Kind.DATA && waiting[31:31] == 1 && meta.from_current_source == 1
                        && hdr.bth.psn == waiting[23:0]))) {
                // All have passed it, or it is sent again.
                waiting = 0;
            }
            // One that its own path or everyone has passed was overtaken on the way.
            if (meta.kind == Kind.NAK && is_accepted && PSN_LT(minimum, hdr.bth.psn)
                && meta.min_psn != MinPsn.PUNT) {
                arrived = hdr.aeth.kind ++ hdr.aeth.value ++ hdr.bth.psn;
                if (waiting == 0 || PSN_LT(hdr.bth.psn, waiting[23:0])) {
                    waiting = arrived;
                } else if (hdr.bth.psn == waiting[23:0] && waiting[31:31] == 0 && hdr.aeth.kind == AETH_RNR_NAK
                           && (waiting[31:29] == AETH_NAK
                               || RNR_TIMER_RANK(hdr.aeth.value) > RNR_TIMER_RANK(waiting[28:24]))) {
                    waiting = arrived;
                }
            }
            if (may_forward && waiting != 0 && waiting[31:31] == 0 && minimum + 1 == waiting[23:0]) {
                forwards_nak = true;
                hdr.bth.psn = waiting[23:0];
                hdr.aeth.kind = waiting[31:29];
                hdr.aeth.value = waiting[28:24];
                waiting = waiting | 0x80000000;
            }
        }
        if (waiting != known) {
            nak.write((bit<32>)meta.group_index, waiting);
        }
    }
}

#endif  // ALFIRK_WAITING_NAK_P4
