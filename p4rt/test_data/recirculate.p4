// Every packet is copied to multicast group 4, and every copy comes back from egress.
#include <core.p4>
#include <v1model.p4>

struct headers_t {}

struct metadata_t {}

parser NoParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    state start {
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control ingress(inout headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.mcast_grp = 4;
    }
}

control egress(inout headers_t hdr, inout metadata_t meta,
               inout standard_metadata_t standard_metadata) {
    apply {
        recirculate_preserving_field_list(0);
    }
}

control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Emit(packet_out packet, in headers_t hdr) {
    apply {}
}

V1Switch(NoParser(), Verify(), ingress(), egress(), Compute(), Emit()) main;
