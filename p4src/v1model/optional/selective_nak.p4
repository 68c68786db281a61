// Filter of selective NAKs: each loss is reported to the source once, not once per receiver.
//
//   selective NAK   already reported, or acknowledged   dropped
//                   else                                forwarded to the source at once
//   data            its loss was reported               the loss is cleared, as the packet may be lost again
//
// Receivers with selective repeat (IRN: Mittal et al., "Revisiting Network Support for RDMA", SIGCOMM 2018) keep packets
// after a gap, and report each missing packet. Such a report acknowledges nothing, so it does not wait for the minimum
// as other NAKs do (waiting_nak.p4), and many losses are repaired concurrently. ACKs acknowledge in-order data as usual.
//
// A loss near the source is reported by all receivers behind it. The first report is forwarded; others are dropped, here
// and at each switch below, until the packet is resent. A forwarded report may be lost, so receivers repeat theirs with a
// report count. A report whose count exceeds the number of reports forwarded for this packet is forwarded, and increments
// that number by one: a count of 255 must not suppress the reports of all other receivers. So at most one report of each
// round leaves a switch. No clock is needed, whatever the round-trip time.
//
// A requester takes a NAK of any code as an ACK of all packets before its PSN. So a report to a host has the PSN after the last
// acknowledged one, which acknowledges nothing new, and the lost PSN in place of the MSN (main.p4).
//
// Losses share slots: of two losses a multiple of 2^LOSS_BITS packets apart, the newer report replaces the older one, whose
// reports may be forwarded once more. The sender resends only the packet named, so that does no harm. A stale slot of an
// earlier group, or of the same PSN long ago, can suppress only the first report of a packet that was not resent.
//
// Not in a paper: IRN has one receiver.

#ifndef ALFIRK_SELECTIVE_NAK_P4
#define ALFIRK_SELECTIVE_NAK_P4

control SelectiveNak(inout headers_t hdr, inout metadata_t meta, in group_state_t state) {
    @name(".ingress.ack_aggregate.selective_nak.losses")
    // PSN ++ number of reports forwarded; 0 if none.
    register<bit<32>>(MAX_GROUPS << LOSS_BITS) losses;
    bit<32> slot;
    bit<32> known;
    bit<32> loss;
    bit<8> passed;

    apply {
        slot = ((bit<32>)meta.group_index << LOSS_BITS) | (bit<32>)(hdr.bth.psn & LOSS_MASK);
        losses.read(known, slot);
        loss = known;
        if (meta.kind == Kind.DATA) {
            if (state.from_current_source == 1 && known[31:8] == hdr.bth.psn) {
                loss = 0;
            }
        } else if (state.is_source == 1 || !PSN_LT(state.last_acked[47:24], hdr.bth.psn)) {
            meta.drop_reason = Drop.FEEDBACK_MERGED;
        } else {
            passed = 0;
            if (known[31:8] == hdr.bth.psn) {
                passed = known[7:0];
            }
            if (hdr.aeth.msn[7:0] <= passed) {
                meta.drop_reason = Drop.NAK_ALREADY_SENT;
            } else {
                loss = hdr.bth.psn ++ (passed + 1);
                hdr.aeth.msn = (bit<24>)(passed + 1);
            }
        }
        if (loss != known) {
            losses.write(slot, loss);
        }
    }
}

#endif  // ALFIRK_SELECTIVE_NAK_P4
