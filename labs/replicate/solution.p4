// Lab "replicate": one solution.

#include "roce.p4"

control LabIngress(inout lab_headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    counter(1, CounterType.packets) unknown_groups;  // packets for unknown groups

    action replicate(bit<16> multicast_group) {
        standard_metadata.mcast_grp = multicast_group;
    }

    action refuse() {
        unknown_groups.count(0);
        mark_to_drop(standard_metadata);
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
        if (standard_metadata.egress_port == standard_metadata.ingress_port) {
            mark_to_drop(standard_metadata);
        } else {
            copies.count((bit<32>)standard_metadata.egress_rid);
        }
    }
}

#include "roce_switch.p4"
