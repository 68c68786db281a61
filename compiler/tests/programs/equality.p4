// Comparisons of headers, unions, stacks and structs: what is invalid on both sides is equal.

#include <core.p4>
#include <v1model.p4>

header op_t {
    bit<8> op;
    bit<8> result;
}

header item_t {
    bit<8> value;
}

header wide_t {
    bit<16> value;
}

header_union either_t {
    item_t item;
    wide_t wide;
}

struct pair_t {
    item_t first;
    bit<8> second;
}

struct headers_t {
    op_t   op;
    item_t a;
    item_t b;
}

struct metadata_t { }

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.op);
        transition select(hdr.op.op) {
            1 &&& 1: with_a;
            2 &&& 2: with_b;
            default: accept;
        }
    }
    state with_a {
        packet.extract(hdr.a);
        transition select(hdr.op.op) {
            2 &&& 2: with_b;
            default: accept;
        }
    }
    state with_b {
        packet.extract(hdr.b);
        transition accept;
    }
}

control MyVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.egress_spec = 1;
        item_t[2] s;
        item_t[2] t;
        s[1] = hdr.a;
        t[1] = hdr.b;
        either_t u;
        either_t v;
        if (hdr.a.isValid()) {
            u.item = hdr.a;
        }
        if (hdr.b.isValid()) {
            v.item = hdr.b;
        }
        pair_t p = { hdr.a, 7 };
        pair_t q = { hdr.b, 7 };
        if (hdr.a == hdr.b) {
            hdr.op.result[0:0] = 1;
        }
        if (hdr.a != hdr.b) {
            hdr.op.result[1:1] = 1;
        }
        if (s == t) {
            hdr.op.result[2:2] = 1;
        }
        if (u == v) {
            hdr.op.result[3:3] = 1;
        }
        if (p == q) {
            hdr.op.result[4:4] = 1;
        }
        if (hdr.a == {#}) {
            hdr.op.result[5:5] = 1;
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    apply { }
}

control MyComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(), MyDeparser()) main;
