// Lab "NAKs": one solution.

#include "lab.p4"

// Serial number arithmetic (RFC 1982): a is older than b if (b - a) mod 2^24 is not 0 and below 2^23.
#define OLDER(a, b) ((a) != (b) && ((b) - (a))[23:23] == 1w0)

control LabIngress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    register<bit<24>>(3) acked;  // the newest PSN of each receiver; its index is the port less FIRST_RECEIVER
    register<bit<24>>(1) merged;   // last PSN acknowledged to the sender
    register<bit<24>>(1) nak;    // the PSN of the NAK that waits
    register<bit<1>>(1) nak_waits;
    register<bit<24>>(1) sent_nak;  // PSN of the last NAK that was sent
    register<bit<1>>(1) sent_nak_valid;

    bit<32> receiver;
    bit<24> has;
    bit<24> smallest;
    bit<24> other;
    bit<24> last;
    bit<24> missing;
    bit<24> last_sent;
    bit<1> waits;
    bit<1> stands;

    apply {
        sent_nak.read(last_sent, 0);
        sent_nak_valid.read(stands, 0);
        if (!hdr.lab.isValid()) {
            mark_to_drop(standard_metadata);
        } else if (hdr.lab.kind == KIND_MARK) {
            standard_metadata.egress_spec = hdr.lab.psn[8:0];
        } else if (hdr.lab.kind == KIND_DATA && standard_metadata.ingress_port == SENDER) {
            standard_metadata.mcast_grp = ALL_RECEIVERS;
            if (hdr.lab.psn == last_sent) {
                sent_nak_valid.write(0, 0);
            }
        } else if ((hdr.lab.kind == KIND_ACK || hdr.lab.kind == KIND_NAK)
                   && standard_metadata.ingress_port >= FIRST_RECEIVER
                   && standard_metadata.ingress_port <= LAST_RECEIVER) {
            receiver = (bit<32>)(standard_metadata.ingress_port - FIRST_RECEIVER);
            has = hdr.lab.psn;
            if (hdr.lab.kind == KIND_NAK) {
                has = hdr.lab.psn - 1;
            }
            acked.read(last, receiver);
            if (OLDER(last, has)) {
                acked.write(receiver, has);
            }

            acked.read(smallest, 0);
            acked.read(other, 1);
            if (OLDER(other, smallest)) {
                smallest = other;
            }
            acked.read(other, 2);
            if (OLDER(other, smallest)) {
                smallest = other;
            }

            nak.read(missing, 0);
            nak_waits.read(waits, 0);
            if (hdr.lab.kind == KIND_NAK && !(stands == 1 && hdr.lab.psn == last_sent)) {
                if (waits == 0 || OLDER(hdr.lab.psn, missing)) {
                    missing = hdr.lab.psn;
                    waits = 1;
                }
            }
            if (waits == 1 && !OLDER(smallest, missing)) {
                waits = 0;  // all receivers have the packet
            }

            merged.read(last, 0);
            if (waits == 1 && smallest == missing - 1) {
                waits = 0;
                merged.write(0, smallest);
                sent_nak.write(0, missing);
                sent_nak_valid.write(0, 1);
                hdr.lab.kind = KIND_NAK;
                hdr.lab.psn = missing;
                standard_metadata.egress_spec = SENDER;
            } else if (OLDER(last, smallest)) {
                merged.write(0, smallest);
                hdr.lab.kind = KIND_ACK;
                hdr.lab.psn = smallest;
                standard_metadata.egress_spec = SENDER;
            } else {
                mark_to_drop(standard_metadata);
            }
            nak.write(0, missing);
            nak_waits.write(0, waits);
        } else {
            mark_to_drop(standard_metadata);
        }
    }
}

V1Switch(LabParser(), NoVerify(), LabIngress(), NoEgress(), NoUpdate(), LabDeparser()) main;
