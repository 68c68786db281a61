// What mark_to_drop does to copies of standard metadata.
#include <core.p4>
#include <v1model.p4>

header data_t {
    bit<8> op;
    bit<8> port;
}

struct headers_t {
    data_t data;
}

struct metadata_t {}

parser P(packet_in pkt, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        pkt.extract(hdr.data);
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

void discard(inout standard_metadata_t any) {
    mark_to_drop(any);
}

void discard_second(inout standard_metadata_t first, inout standard_metadata_t second) {
    mark_to_drop(second);
    first.egress_spec = first.egress_spec + 1;
}

control Inner(inout standard_metadata_t any, in bit<8> op) {
    action give_up(inout standard_metadata_t given) {
        mark_to_drop(given);
    }
    apply {
        if (op == 4) {
            give_up(any);
        }
    }
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    Inner() inner;
    apply {
        standard_metadata_t copy = sm;
        sm.egress_spec = (bit<9>)hdr.data.port;
        if (hdr.data.op == 1) {
            // The packet's own.
            discard(sm);
        } else if (hdr.data.op == 2) {
            // Only a copy, which shows the port that drops.
            discard(copy);
            hdr.data.port = (bit<8>)(copy.egress_spec >> 1);
        } else if (hdr.data.op == 3) {
            // A copy that becomes the packet's own.
            copy = sm;
            discard(copy);
            sm = copy;
        } else if (hdr.data.op == 5) {
            // The group goes, too, and nothing of it here.
            copy.mcast_grp = 7;
            sm.mcast_grp = 1;
            mark_to_drop(copy);
            hdr.data.port = (bit<8>)copy.mcast_grp;
        } else if (hdr.data.op == 6) {
            discard_second(sm, copy);
        }
        inner.apply(sm, hdr.data.op);
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {}
}

control C(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control D(packet_out pkt, in headers_t hdr) {
    apply {
        pkt.emit(hdr.data);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
