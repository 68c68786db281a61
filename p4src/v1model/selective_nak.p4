// Selective NAKs: each loss is reported to the source once, whoever reports it.
//
//   selective NAK   reported already, or all have it   dropped
//                   else                               to the source at once
//   data            its own loss was reported          the loss is forgotten: it may be lost again
//
// Receivers that repeat selectively (IRN: Mittal et al., "Revisiting Network Support for RDMA", SIGCOMM 2018) keep what
// comes after a gap and report what is missing, each packet by itself. Such a report acknowledges nothing, so it need
// not wait for the minimum as other NAKs do (waiting_nak.p4), and many losses are repaired at a time. What all have
// received in order is known from ACKs as ever.
//
// A loss near the source is reported by all receivers behind it. The first report passes; those of others are dropped,
// here and at each switch below, until the packet has come by again. A report may be lost above, so receivers repeat theirs
// after a while and say how often they have: one that was repeated more often than the reports of this packet that have
// passed, passes, and counts as the next one, whatever its count: a count of 255 must not silence all others.
// So at most one of each round of reports leaves a switch, and no clock is needed here, whatever the round trip.
//
// A requester takes a NAK of any code as an ACK of what is before its PSN. So what leaves to a host has the PSN after the last
// acknowledged one, which acknowledges nothing, and the lost PSN in place of the MSN (main.p4).
//
// Losses share slots: of two that are a multiple of 2^LOSS_BITS packets apart the newer report has it, and those of
// the older one may pass once more. The sender takes no report for more than it is worth. A slot that an earlier group
// has left, or the same PSN long ago, can hold back no more than the first report of a packet that did not
// come by at all.
//
// In no paper: IRN has one receiver.

#ifndef ALFIRK_SELECTIVE_NAK_P4
#define ALFIRK_SELECTIVE_NAK_P4

control SelectiveNak(inout headers_t hdr, inout metadata_t meta) {
    // PSN ++ how many reports of it have passed; 0 if none did.
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
            if (meta.from_current_source == 1 && known[31:8] == hdr.bth.psn) {
                loss = 0;
            }
        } else if (meta.is_source == 1 || !PSN_LT(meta.last_acked[47:24], hdr.bth.psn)) {
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
