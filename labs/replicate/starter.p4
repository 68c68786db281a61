// Lab "replicate": the start. Every packet is sent to the members of multicast group 1.

#include "roce.p4"

control LabIngress(inout lab_headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    counter(1, CounterType.packets) unknown_groups;  // packets for unknown groups

    action replicate(bit<16> multicast_group) {
        standard_metadata.mcast_grp = 1;  // TODO 1: the multicast group of this McstID
    }

    action refuse() {
        standard_metadata.mcast_grp = 1;  // TODO 2: count it in `unknown_groups`, and drop it
    }

    table groups {
        key = { hdr.ipv4.dst: exact @name("mcst_id"); }
        actions = { replicate; refuse; }
        default_action = refuse();
    }

    apply {
        groups.apply();
    }
}

control LabEgress(inout lab_headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    counter(16, CounterType.packets) copies;  // copies sent, by path index

    apply {
        // TODO 3: drop the copy for the sender.
        // TODO 4: count the copy at the index standard_metadata.egress_rid.
    }
}

#include "roce_switch.p4"
