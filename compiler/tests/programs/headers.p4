// Headers as values: stacks with indices known and not known, push and pop, unions, copies, nested structs, bool and
// signed fields, enums.

#include <core.p4>
#include <v1model.p4>

enum bit<8> Kind {
    Small = 1,
    Large = 2
}

enum Color { Red, Green, Blue }

struct point_t {
    bit<4> x;
    bit<4> y;
}

header op_t {
    bit<8> op;
    bit<8> index;
}

header item_t {
    point_t at;
    bit<8>  value;
}

header small_t {
    Kind   kind;
    bit<8> s;
}

header large_t {
    Kind    kind;
    bit<16> l;
}

header_union either_t {
    small_t small;
    large_t large;
}

struct headers_t {
    op_t      op;
    item_t[3] items;
    either_t  either;
}

struct metadata_t {
    Color color;
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.op);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        transition select(packet.lookahead<Kind>()) {
            Kind.Small: small;
            Kind.Large: large;
            default: accept;
        }
    }
    state small {
        packet.extract(hdr.either.small);
        transition accept;
    }
    state large {
        packet.extract(hdr.either.large);
        transition accept;
    }
}

control MyVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    item_t spare;
    either_t other;
    item_t[3] stack;
    tuple<bit<8>, bit<8>> two;

    apply {
        standard_metadata.egress_spec = 1;
        meta.color = Color.Green;
        switch (hdr.op.op) {
            1: { hdr.items.push_front(1); hdr.items[0].setValid(); hdr.items[0] = {{0xa, 0xb}, 0xcc}; }
            2: { hdr.items.pop_front(1); }
            3: { hdr.items[hdr.op.index].value = 0xee; }
            4: { hdr.op.index = hdr.items[hdr.op.index].value; }
            5: {
                spare = hdr.items[0];
                hdr.items[0] = hdr.items[1];
                hdr.items[1] = spare;
            }
            6: { hdr.items[hdr.op.index] = {{1, 2}, 3}; }
            7: { hdr.items[hdr.op.index].setInvalid(); }
            8: {
                if (hdr.either.isValid() && hdr.either.small.isValid()) {
                    hdr.either.large.setValid();
                    hdr.either.large.kind = Kind.Large;
                    hdr.either.large.l = 8w0 ++ hdr.either.small.s;
                } else {
                    hdr.either.large.setInvalid();
                }
            }
            9: { stack = hdr.items; hdr.items[0].setInvalid(); hdr.items = stack; hdr.items[1].at.y = 0; }
            10: { hdr.items[0].at = {7, 8}; }
            11: { other = hdr.either; hdr.either.small.setInvalid(); hdr.either.large.setInvalid(); hdr.either = other; }
            12: {
                if (meta.color == Color.Green) {
                    meta.color = Color.Blue;
                }
                hdr.op.index = meta.color == Color.Blue ? 8w1 : 8w0;
            }
            13: { two = {hdr.op.op, 5}; hdr.op.index = two[0] + two[1]; }
            14: {
                hdr.op.index = 0;
                if (hdr.items[0] == hdr.items[1]) {
                    hdr.op.index = 1;
                }
                if (hdr.items[2].isValid() || hdr.items[hdr.op.index].isValid()) {
                    hdr.op.index = hdr.op.index + 2;
                }
            }
            15: { hdr.op.index = (bit<8>)hdr.items.size; }
            16: { hdr.op = {#}; }
            17: { hdr.op.index = hdr.items[1].at.x ++ hdr.items[0].at.y; }
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
