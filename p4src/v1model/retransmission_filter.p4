// A retransmission goes only where it is missing.
//
// Go-back-N sends again all that follows one loss, and most receivers have most of it.
// Each path's newest acknowledged PSN is kept here a second time, in egress, where the
// copies of a packet are apart: a copy that its path has acknowledged is dropped.
//
// Ingress registers cannot be read in egress on every target, so each ACK passes
// through egress too: one with no news for the source leaves through the port it came
// from and ends here; of one that is forwarded a mirror does.

#ifndef ALFIRK_RETRANSMISSION_FILTER_P4
#define ALFIRK_RETRANSMISSION_FILTER_P4

control RetransmissionFilter(inout headers_t hdr,
                             inout metadata_t meta,
                             inout standard_metadata_t standard_metadata) {
    register<psn_t>(SIZE_PATHS) acked;
    bit<32> slot;
    psn_t newest;

    apply {
        if (hdr.register_control.isValid()) {
            slot = ((bit<32>)hdr.register_control.group << PATH_BITS)
                   | (bit<32>)hdr.register_control.index;
            if (hdr.register_control.op == REGISTER_OP_INIT_GROUP) {
                slot = ((bit<32>)hdr.register_control.group << PATH_BITS)
                       | ((bit<32>)hdr.register_control.index << 1);
                acked.write(slot, hdr.register_control.value[23:0] - 1);
                acked.write(slot | 1, hdr.register_control.value[23:0] - 1);
            } else if (hdr.register_control.reg == REGISTER_FILTER) {
                if (hdr.register_control.op == REGISTER_OP_READ) {
                    acked.read(newest, slot);
                    hdr.register_control.value = (bit<64>)newest;
                } else {
                    acked.write(slot, hdr.register_control.value[23:0]);
                }
            }
        } else if (meta.verdict == VERDICT_REPLICATE) {
            slot = ((bit<32>)meta.group_index << PATH_BITS) | (bit<32>)standard_metadata.egress_rid;
            acked.read(newest, slot);
            if (!PSN_LT(newest, hdr.bth.psn)) {
                meta.drop_reason = DROP_ALREADY_ACKED;
            }
        } else {
            slot = ((bit<32>)meta.group_index << PATH_BITS) | (bit<32>)meta.path_index;
            acked.read(newest, slot);
            if (PSN_LT(newest, meta.acked_psn)) {
                acked.write(slot, meta.acked_psn);
            }
        }
    }
}

#endif  // ALFIRK_RETRANSMISSION_FILTER_P4
