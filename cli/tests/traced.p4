// A switch whose packets depend on its entries and its registers, with copies.

#include <core.p4>
#include <v1model.p4>

header packet_t {
    bit<8> kind;
    bit<8> value;
}

struct headers_t {
    packet_t packet;
}

struct metadata_t {}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.packet);
        transition accept;
    }
}

control Nothing(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<8>>(4) seen;
    bit<8> before;

    action send(bit<9> port) {
        std.egress_spec = port;
    }

    action copy(bit<16> group) {
        std.mcast_grp = group;
    }

    action drop() {
        mark_to_drop(std);
    }

    table route {
        key = { hdr.packet.kind: exact; }
        actions = { send; copy; drop; }
        default_action = drop();
    }

    apply {
        seen.read(before, 0);
        if (hdr.packet.value == 0) {
            hdr.packet.value = before;
        }
        seen.write(0, before + 1);
        route.apply();
    }
}

control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {}
}

control Dep(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet);
    }
}

V1Switch(P(), Nothing(), In(), Out(), Nothing(), Dep()) main;
