// Parameters of every direction, return and exit, order of evaluation, sub-controls, functions and actions.

#include <core.p4>
#include <v1model.p4>

header data_t {
    bit<8> op;
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> d;
}

struct headers_t {
    data_t data;
    data_t copy;
}

struct pair_t {
    bit<8> x;
    bit<8> y;
}

struct metadata_t {
    pair_t pair;
}

// Changes its argument and returns the old value.
bit<8> add_to(inout bit<8> a, in bit<8> b) {
    a = a + b;
    return a;
}

bit<8> grow(in bit<8> a) {
    return a + (a > 3 ? a : a ^ 5);
}

bit<8> post_increment(inout bit<8> x) {
    bit<8> old = x;
    x = x + 1;
    return old;
}

bit<8> maximum(in bit<8> x, in bit<8> y) {
    if (x > y) {
        return x;
    }
    return y;
}

T twice<T>(in T x) {
    return x;
}

void swap(inout bit<8> x, inout bit<8> y) {
    bit<8> t = x;
    x = y;
    y = t;
}

bool touch(inout bit<8> x, in bool result) {
    x = x + 0x10;
    return result;
}

action set_global(out bit<8> x, in bit<8> value) {
    x = value;
    return;
}

control Adder(inout bit<8> x, in bit<8> y)(bit<8> offset) {
    bit<8> sum = 0;
    apply {
        sum = x + y + offset;
        if (sum == 0xff) {
            x = 0xaa;
            return;
        }
        x = sum;
    }
}

control Outer(inout data_t data, out pair_t pair) {
    Adder(1) one;
    Adder(offset = 2) two;
    apply {
        one.apply(data.a, data.b);
        two.apply(x = data.b, y = data.a);
        pair = {data.a, data.b};
        if (data.c == 0xee) {
            exit;
        }
    }
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.data);
        transition accept;
    }
}

control MyVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    Outer() outer;
    Adder(0) add;
    bit<8> local = 0;
    data_t saved;

    action set_c(bit<8> value) {
        hdr.data.c = value;
    }

    action early(in bit<8> limit) {
        if (hdr.data.a > limit) {
            hdr.data.c = 1;
            return;
        }
        hdr.data.c = 2;
        local = 3;
    }

    apply {
        standard_metadata.egress_spec = 1;
        switch (hdr.data.op) {
            1: {
                // left to right: 5 + 6 when a is 5
                hdr.data.c = post_increment(hdr.data.a) + post_increment(hdr.data.a);
            }
            2: { hdr.data.c = hdr.data.a + post_increment(hdr.data.a); }
            3: { hdr.data.c = maximum(hdr.data.a, maximum(hdr.data.b, hdr.data.d)); }
            4: { swap(hdr.data.a, hdr.data.b); }
            5: {
                if (touch(hdr.data.a, false) && touch(hdr.data.b, true)) {
                    hdr.data.c = 1;
                } else {
                    hdr.data.c = 2;
                }
            }
            6: {
                hdr.data.c = touch(hdr.data.a, true) || touch(hdr.data.b, true) ? 8w3 : 8w4;
            }
            7: { hdr.data.c = hdr.data.d == 0 ? post_increment(hdr.data.a) : post_increment(hdr.data.b); }
            8: {
                outer.apply(hdr.data, meta.pair);
                hdr.data.c = meta.pair.x;
                hdr.data.d = meta.pair.y;
            }
            9: { set_c(0x77); }
            10: { early(hdr.data.b); hdr.data.d = local; }
            11: { set_global(hdr.data.d, hdr.data.a); }
            12: {
                // a swap through a list
                meta.pair = {hdr.data.a, hdr.data.b};
                meta.pair = {meta.pair.y, meta.pair.x};
                hdr.data.c = meta.pair.x;
                hdr.data.d = meta.pair.y;
            }
            13: {
                saved = hdr.data;
                hdr.data.a = 0;
                hdr.copy = saved;
                hdr.copy.op = 0x99;
            }
            14: {
                hdr.data = {14, 1, 2, 3, 4};
                hdr.copy = {op = 1, a = hdr.data.b, d = hdr.data.a, c = 0, b = 9};
            }
            15: {
                meta.pair = {x = 1, y = 2};
                if (meta.pair == {1, 2} && hdr.copy != hdr.data && !hdr.copy.isValid()) {
                    hdr.data.c = 0x55;
                }
            }
            16: { hdr.data.c = twice<bit<8>>(hdr.data.a) + (bit<8>)twice(16w0x102); }
            17: { hdr.data.a = 9; exit; }
            18: { hdr.data.a = 8; return; }
            19: { set_global(_, 3); hdr.data.a[3:0] = hdr.data.b[7:4]; hdr.data.b[7:4] = 4w0xf; }
            20: { hdr.data.a |= 0x80; hdr.data.b += 3; hdr.data.c <<= 1; }
            // the first argument is copied in before the second one changes it
            21: { hdr.data.c = add_to(hdr.data.a, post_increment(hdr.data.a)); }
            22: { add.apply(hdr.data.a, post_increment(hdr.data.a)); add.apply(hdr.data.b, post_increment(hdr.data.a)); }
            // twelve levels, each of which reads its argument three times
            23: {
                hdr.data.d = grow(grow(grow(grow(grow(grow(
                             grow(grow(grow(grow(grow(grow(hdr.data.a))))))))))));
            }
        }
        hdr.data.op = 0xff;
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
