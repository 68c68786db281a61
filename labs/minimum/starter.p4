// Lab "minimum": the start. It merges the ACKs of four receivers correctly, but reads one register array five times for each.

#define RECEIVERS 4
#include "lab.p4"

// Serial number arithmetic (RFC 1982): a is older than b if (b - a) mod 2^24 is not 0 and below 2^23.
#define OLDER(a, b) ((a) != (b) && ((b) - (a))[23:23] == 1w0)

control LabIngress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    // TODO 1: two arrays in place of one: what the left and what the right receiver of each pair has.
    // TODO 3: two arrays of one cell above them: what the left and what the right pair has.
    register<bit<24>>(4) acked;
    register<bit<24>>(1) merged;  // last PSN acknowledged to the sender

    bit<32> receiver;
    bit<24> smallest;
    bit<24> other;
    bit<24> last;

    apply {
        if (!hdr.lab.isValid()) {
            mark_to_drop(standard_metadata);
        } else if (hdr.lab.kind == KIND_MARK) {
            standard_metadata.egress_spec = hdr.lab.psn[8:0];
        } else if (hdr.lab.kind == KIND_DATA && standard_metadata.ingress_port == SENDER) {
            standard_metadata.mcast_grp = ALL_RECEIVERS;
        } else if (hdr.lab.kind == KIND_ACK
                   && standard_metadata.ingress_port >= FIRST_RECEIVER
                   && standard_metadata.ingress_port <= LAST_RECEIVER) {
            receiver = (bit<32>)(standard_metadata.ingress_port - FIRST_RECEIVER);
            // TODO 2: read both cells of the receiver's pair, change the receiver's own, write it.
            acked.read(last, receiver);
            if (OLDER(last, hdr.lab.psn)) {
                acked.write(receiver, hdr.lab.psn);
            }

            // TODO 3: the smaller of the two goes one level up, where the same happens.
            acked.read(smallest, 0);
            acked.read(other, 1);
            if (OLDER(other, smallest)) {
                smallest = other;
            }
            acked.read(other, 2);
            if (OLDER(other, smallest)) {
                smallest = other;
            }
            acked.read(other, 3);
            if (OLDER(other, smallest)) {
                smallest = other;
            }

            merged.read(last, 0);
            if (OLDER(last, smallest)) {
                merged.write(0, smallest);
                hdr.lab.psn = smallest;
                standard_metadata.egress_spec = SENDER;
            } else {
                mark_to_drop(standard_metadata);
            }
        } else {
            mark_to_drop(standard_metadata);
        }
    }
}

V1Switch(LabParser(), NoVerify(), LabIngress(), NoEgress(), NoUpdate(), LabDeparser()) main;
