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
// path has it: the copy for that port comes here to record that, and ends.
//
// The whole PSN is kept: of two acknowledgements of one path that are 2^15 or more apart a shorter copy would refuse
// the newer one, and then drop every resend to that path.
//
// Cepheus, section III-D, "Filtering Retransmitted Packets"; the copy in egress is in no paper.

#ifndef ALFIRK_RETRANSMISSION_FILTER_P4
#define ALFIRK_RETRANSMISSION_FILTER_P4

control RetransmissionFilter(inout headers_t hdr,
                             inout metadata_t meta,
                             inout standard_metadata_t standard_metadata) {
    register<psn_t>(SIZE_PATHS) acked;
    RegisterAccess(RegisterName.FILTER, RegisterOp.INIT_GROUP) access;
    bit<32> path;
    psn_t known;
    psn_t newest;
    bit<64> value;

    apply {
        path = (bit<32>)meta.path_index;
        if (meta.verdict == Verdict.REPLICATE) {
            path = (bit<32>)standard_metadata.egress_rid;
        }
        acked.read(known, ((bit<32>)meta.group_index << PATH_BITS) | path);
        newest = known;
        if (hdr.register_control.isValid()) {
            value = (bit<64>)known;
            access.apply(hdr, (bit<64>)INITIAL_PSN(hdr), value);
            newest = value[23:0];
        } else if (meta.verdict != Verdict.REPLICATE) {
            if (PSN_LT(known, meta.acked_psn)) {
                newest = meta.acked_psn;
            }
        } else if (standard_metadata.egress_port != standard_metadata.ingress_port) {
            if (meta.is_retransmission == 1 && !PSN_LT(known, hdr.bth.psn)) {
                meta.drop_reason = Drop.ALREADY_ACKED;
            }
        } else {
            meta.drop_reason = Drop.OWN_COPY;
            if (meta.is_retransmission == 0 && PSN_LT(known, hdr.bth.psn)) {
                newest = hdr.bth.psn;
            }
        }
        if (newest != known) {
            acked.write(((bit<32>)meta.group_index << PATH_BITS) | path, newest);
        }
    }
}

#endif  // ALFIRK_RETRANSMISSION_FILTER_P4
