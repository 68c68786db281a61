// Lab "minimum": one solution, a tournament tree of two levels.

#define RECEIVERS 4
#include "lab.p4"

// Serial number arithmetic (RFC 1982): a is older than b if (b - a) mod 2^24 is not 0 and below 2^23.
#define OLDER(a, b) ((a) != (b) && ((b) - (a))[23:23] == 1w0)

control LabIngress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    register<bit<24>>(2) left;  // what the left receiver of each pair has
    register<bit<24>>(2) right;
    register<bit<24>>(1) left_pair;  // the smaller one of the left pair
    register<bit<24>>(1) right_pair;
    register<bit<24>>(1) merged;  // last PSN acknowledged to the sender

    bit<9> receiver;
    bit<32> pair;
    bit<24> one;
    bit<24> two;
    bit<24> smallest;
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
            receiver = standard_metadata.ingress_port - FIRST_RECEIVER;
            pair = (bit<32>)(receiver >> 1);

            left.read(one, pair);
            if (receiver[0:0] == 0 && OLDER(one, hdr.lab.psn)) {
                one = hdr.lab.psn;
            }
            left.write(pair, one);
            right.read(two, pair);
            if (receiver[0:0] == 1 && OLDER(two, hdr.lab.psn)) {
                two = hdr.lab.psn;
            }
            right.write(pair, two);
            smallest = one;
            if (OLDER(two, one)) {
                smallest = two;
            }

            left_pair.read(one, 0);
            if (pair == 0) {
                one = smallest;
            }
            left_pair.write(0, one);
            right_pair.read(two, 0);
            if (pair == 1) {
                two = smallest;
            }
            right_pair.write(0, two);
            smallest = one;
            if (OLDER(two, one)) {
                smallest = two;
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
