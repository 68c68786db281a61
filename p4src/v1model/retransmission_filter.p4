// A retransmission goes only where it is missing.
//
// Go-back-N sends again all that follows one loss, and most receivers have most of it.
// Each path's newest acknowledged PSN is kept here a second time, in egress, where the
// copies of a packet are apart: a copy of a retransmission that its path has
// acknowledged is dropped.
//
// Ingress registers cannot be read in egress on every target, so each ACK passes
// through egress too: one with no news for the source leaves through the port it came
// from and ends here; of one that is forwarded a mirror does. Data shows that its own
// path has it: the copy for that port comes here to say so, and ends.
//
// Sixteen bits of the PSN do: new data always passes, and go-back-N begins a round with
// what the group's minimum lacks, so a copy that is dropped wrongly because its path is
// 2^15 packets behind costs another round, not the group.

#ifndef ALFIRK_RETRANSMISSION_FILTER_P4
#define ALFIRK_RETRANSMISSION_FILTER_P4

control RetransmissionFilter(inout headers_t hdr,
                             inout metadata_t meta,
                             inout standard_metadata_t standard_metadata) {
    register<bit<16>>(SIZE_PATHS) acked;
    bit<32> slot;
    bit<16> newest;
    bit<16> psn;

    apply {
        if (hdr.register_control.isValid()) {
            slot = ((bit<32>)hdr.register_control.group << PATH_BITS)
                   | (bit<32>)hdr.register_control.index;
            if (hdr.register_control.op == REGISTER_OP_INIT_GROUP) {
                slot = ((bit<32>)hdr.register_control.group << PATH_BITS)
                       | ((bit<32>)hdr.register_control.index << 2);
                psn = hdr.register_control.value[15:0] - 1;
                acked.write(slot, psn);
                acked.write(slot | 1, psn);
                acked.write(slot | 2, psn);
                acked.write(slot | 3, psn);
            } else if (hdr.register_control.reg == REGISTER_FILTER) {
                if (hdr.register_control.op == REGISTER_OP_READ) {
                    acked.read(newest, slot);
                    hdr.register_control.value = (bit<64>)newest;
                } else {
                    acked.write(slot, hdr.register_control.value[15:0]);
                }
            }
        } else if (meta.verdict == VERDICT_REPLICATE
                   && standard_metadata.egress_port != standard_metadata.ingress_port) {
            if (meta.is_retransmission == 1) {
                slot = ((bit<32>)meta.group_index << PATH_BITS) | (bit<32>)standard_metadata.egress_rid;
                acked.read(newest, slot);
                if (!SHORT_LT(newest, hdr.bth.psn[15:0])) {
                    meta.drop_reason = DROP_ALREADY_ACKED;
                }
            }
        } else {
            psn = meta.acked_psn[15:0];
            slot = ((bit<32>)meta.group_index << PATH_BITS) | (bit<32>)meta.path_index;
            acked.read(newest, slot);
            if (meta.verdict == VERDICT_REPLICATE) {
                meta.drop_reason = DROP_OWN_COPY;
                psn = newest;
                if (meta.is_retransmission == 0) {
                    psn = hdr.bth.psn[15:0];
                }
            }
            if (SHORT_LT(newest, psn)) {
                acked.write(slot, psn);
            }
        }
    }
}

#endif  // ALFIRK_RETRANSMISSION_FILTER_P4
