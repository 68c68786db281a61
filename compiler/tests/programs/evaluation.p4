// What is evaluated first, and values of aggregate types: compound assignment, members of a union that depend on each other, stacks
// written as lists.

#include <core.p4>
#include <v1model.p4>

header op_t {
    bit<8> op;
    bit<8> a;
    bit<8> b;
    bit<8> c;
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
    item_t[2] items;
    bit<8>    rest;
}

struct headers_t {
    op_t      op;
    item_t[3] items;
    either_t  either;
}

struct metadata_t { }

const item_t[2] FIXED = { { 5 }, { 6 } };

bit<8> clear(inout bit<8> x) {
    x = 0x50;
    return 1;
}

bit<8> at(in pair_t p, in bit<8> i) {
    return p.items[i].value + p.rest;
}

bit<8> valid_at(in item_t[3] s, in bit<8> i) {
    return s[i].isValid() ? 8w1 : 8w2;
}

item_t[2] swapped(in item_t[2] s) {
    return { s[1], s[0] };
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.op);
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
        switch (hdr.op.op) {
            1: { hdr.op.a += clear(hdr.op.a); }
            2: { hdr.op.a[7:4] -= (bit<4>)clear(hdr.op.a); }
            3: { hdr.op.a = hdr.op.a + clear(hdr.op.a); }
            // the other member is looked at before it becomes invalid
            4: {
                hdr.either.wide = { 0x1234 };
                hdr.either.item = { hdr.either.wide.isValid() ? hdr.either.wide.value[7:0] : 0 };
            }
            // what a list leaves out is invalid
            5: { hdr.items = { { 1 }, { 2 }, { 3 } }; hdr.items = { { 4 }, { 5 } }; }
            6: { hdr.items = { { 1 }, { hdr.op.a }, ... }; hdr.items = { hdr.items[1], hdr.items[0] }; }
            7: {
                item_t[2] s = { { hdr.op.a }, { 6 } };
                if (s == FIXED) { hdr.op.b[0:0] = 1; }
                if (s == (item_t[2]) { { 5 }, { hdr.op.c } }) { hdr.op.b[1:1] = 1; }
                if (s != (item_t[2]) { { hdr.op.c }, { 6 } }) { hdr.op.b[2:2] = 1; }
                if (s == (item_t[2]) { { 5 } }) { hdr.op.b[3:3] = 1; }
            }
            8: { hdr.op.c = at({ { { 5 }, { hdr.op.a } }, 1 }, hdr.op.b); }
            9: { hdr.op.c = at({ FIXED, 1 }, hdr.op.b); }
            10: { hdr.op.c = valid_at({ { 1 }, { hdr.op.a } }, hdr.op.b); }
            11: { hdr.op.c = swapped({ { hdr.op.a }, { hdr.op.b } })[0].value; }
            12: { hdr.op.c = FIXED[1].value; }
        }
        hdr.op.op = 0xff;
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
        packet.emit(hdr.op);
        packet.emit(hdr.items);
        packet.emit(hdr.either);
    }
}

V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(), MyDeparser()) main;
