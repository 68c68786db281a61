// One feature of a debugger after the other: tables, clones, recirculation, registers, drops.

#include "headers.p4"

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.first);
        transition select(hdr.first.kind) {
            9: parse_second;
            default: accept;
        }
    }

    state parse_second {
        packet.extract(hdr.second);
        transition accept;
    }
}

control Nothing(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<32>>(16) seen;
    Add() add;
    bit<32> before;

    action send(bit<9> port) {
        std.egress_spec = port;
        hdr.first.value = hdr.first.value + 2;
    }

    action drop() {
        mark_to_drop(std);
    }

    table route {
        key = { hdr.first.kind: exact; }
        actions = { send; drop; }
        default_action = drop();
    }

    apply {
        add.apply(hdr);
        DOUBLE(hdr.first.value);
        seen.read(before, 3);
        seen.write(3, before + 1);
        route.apply();
        if (hdr.first.kind == 2) {
            clone(CloneType.I2E, 32w5);
        }
    }
}

control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (hdr.first.kind == 3 && meta.rounds == 0) {
            meta.rounds = 1;
            recirculate_preserving_field_list(1);
        }
        hdr.first.kind = hdr.first.kind;
    }
}

control Dep(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(P(), Nothing(), In(), Out(), Nothing(), Dep()) main;
