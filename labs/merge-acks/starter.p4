// Lab "merge the ACKs": the start. It multicasts data and forwards every ACK to the sender.

#include "lab.p4"

control LabIngress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    // TODO 1: a register with the newest PSN of each receiver, and one with the last PSN acknowledged to the sender.

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
            // TODO 2: store hdr.lab.psn for this receiver, unless it acknowledged more before.
            // TODO 3: find the smallest of the three.
            // TODO 4: send the sender that PSN if it is newer, and drop the ACK if not.
            // TODO 5: make TODO 2 to 4 right when PSNs wrap around from 0xffffff to 0.
            standard_metadata.egress_spec = SENDER;
        } else {
            mark_to_drop(standard_metadata);
        }
    }
}

V1Switch(LabParser(), NoVerify(), LabIngress(), NoEgress(), NoUpdate(), LabDeparser()) main;
