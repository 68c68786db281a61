// Retransmission filter: drops copies of a retransmission for paths that have it.
//
// Go-back-N resends all packets after a loss, and most receivers have most of them. Egress stores a second copy of each
// path's newest acknowledged PSN, because the copies of a packet are separate there. It drops a copy of a
// retransmission that its path has acknowledged.
//
// Not every target can read ingress registers in egress, so each ACK also passes through egress. An ACK that does not advance
// the minimum is sent to its ingress port and dropped here; for a forwarded ACK, a mirror is. The path of data's own
// sender has the data: the copy for that port updates the register, and is dropped.
//
// The full PSN is stored. With fewer bits, of two acknowledgements 2^15 or more apart the newer one could seem
// older, and every resend to that path would be dropped.
//
// Cepheus, section III-D, "Filtering Retransmitted Packets"; the copy in egress is in no paper.

#ifndef ALFIRK_RETRANSMISSION_FILTER_P4
#define ALFIRK_RETRANSMISSION_FILTER_P4

control RetransmissionFilter(in headers_t hdr,
                             inout metadata_t meta,
                             in standard_metadata_t standard_metadata,
                             in Verdict verdict) {
    bit<32> path;
    psn_t known;
    psn_t newest;

    apply {
        if ((verdict == Verdict.REPLICATE
             && (meta.is_retransmission == 1
                 || standard_metadata.egress_port == standard_metadata.ingress_port))
            || UPDATES_FILTER(verdict)) {
            path = (bit<32>)meta.path_index;
            if (verdict == Verdict.REPLICATE) {
                path = (bit<32>)standard_metadata.egress_rid;
            }
            filter_psns.read(known, ((bit<32>)meta.group_index << PATH_BITS) | path);
            newest = known;
            if (verdict != Verdict.REPLICATE) {
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
                filter_psns.write(((bit<32>)meta.group_index << PATH_BITS) | path, newest);
            }
        }
    }
}

#endif  // ALFIRK_RETRANSMISSION_FILTER_P4
