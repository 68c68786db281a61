// Tables whose keys have the names that tests write in several ways, and varbit fields that are compared.
#include <core.p4>
#include <v1model.p4>

const bit<8> LOW_BITS = 0x0f;
const bit<2> SECOND = 1;

header data_t {
    bit<8> kind;
    bit<8> value;
}

header tail_t {
    varbit<32> bytes;
}

struct headers_t {
    data_t data;
    data_t[2] more;
    tail_t left;
    tail_t right;
}

struct metadata_t {
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.data);
        transition select(hdr.data.kind) {
            1: more;
            2: tails;
            default: accept;
        }
    }
    state more {
        packet.extract(hdr.more.next);
        packet.extract(hdr.more.next);
        transition accept;
    }
    state tails {
        packet.extract(hdr.left, 16);
        packet.extract(hdr.right, 16);
        transition accept;
    }
}

control MyVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action mark(bit<8> value) {
        hdr.data.value = value;
    }
    table ranked {
        key = { hdr.data.value: ternary; }
        actions = { mark; NoAction; }
        default_action = NoAction();
    }
    table named {
        key = {
            hdr.more[SECOND].value & LOW_BITS: exact;
            hdr.more[0].isValid(): exact;
            hdr.left.isValid(): exact @name("left.$valid$");
        }
        actions = { mark; NoAction; }
        default_action = NoAction();
    }
    apply {
        sm.egress_spec = 1;
        if (hdr.data.kind == 2) {
            tail_t copy = hdr.left;
            hdr.data.value = 0;
            if (hdr.left.bytes == hdr.right.bytes) {
                hdr.data.value = hdr.data.value + 1;
            }
            if (copy.bytes == hdr.left.bytes && copy == hdr.left) {
                hdr.data.value = hdr.data.value + 2;
            }
            if (hdr.left != hdr.right) {
                hdr.data.value = hdr.data.value + 4;
            }
        } else if (!ranked.apply().hit) {
            named.apply();
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { }
}

control MyCompute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
