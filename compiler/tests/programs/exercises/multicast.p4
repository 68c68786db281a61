// Layer 2 multicast: unknown and broadcast destinations go to a group, never back where they came from.

#include "common.p4"

struct headers_t {
    ethernet_t ethernet;
}

struct metadata_t { }

parser MulticastParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control MulticastVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MulticastIngress(inout headers_t hdr, inout metadata_t meta,
                         inout standard_metadata_t standard_metadata) {
    action flood() {
        standard_metadata.mcast_grp = 1;
    }

    action forward(port_t port) {
        standard_metadata.egress_spec = port;
    }

    table mac_lookup {
        key = { hdr.ethernet.dst: exact; }
        actions = { flood; forward; }
        size = 1024;
        default_action = flood;
    }

    apply {
        mac_lookup.apply();
    }
}

control MulticastEgress(inout headers_t hdr, inout metadata_t meta,
                        inout standard_metadata_t standard_metadata) {
    apply {
        if (standard_metadata.egress_port == standard_metadata.ingress_port) {
            mark_to_drop(standard_metadata);
        }
    }
}

control MulticastCompute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MulticastDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(MulticastParser(), MulticastVerify(), MulticastIngress(), MulticastEgress(), MulticastCompute(),
         MulticastDeparser()) main;
