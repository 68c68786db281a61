// How numbers become other numbers: types made by `type`, integers without a width, widths that are computed, parts of tuples,
// arguments that are copied back in the order of the call.

#include <core.p4>
#include <v1model.p4>

const int BYTES = 2;

type bit<10> short_id_t;
type short_id_t long_id_t;

const short_id_t NO_ID = 0;

header op_t {
    bit<8>           op;
    int<8>           i;
    bit<4 * 2>       a;
    bit<BYTES * 8>   w;
    bit<(BYTES > 1 ? 8 : 16)> b;
}

struct headers_t {
    op_t op;
}

struct inner_t {
    tuple<bit<8>, op_t[2]> parts;
}

struct metadata_t {
    short_id_t           id;
    tuple<bit<8>, bool>  pair;
    inner_t              inner;
}

short_id_t truncated() {
    return 1024 + 5;
}

bit<BYTES + 6> minus_one(in bit<8 - 0> x) {
    return x - 1;
}

void two(out bit<8> x, out bit<8> y) {
    x = 1;
    y = 2;
}

void add(inout bit<8> x) {
    x = x + 1;
}

control Times(inout bit<8> x)(int n) {
    apply {
        x = x * n;
    }
}

control Exchange<T>(inout T x, inout T y) {
    T held;
    apply {
        held = x;
        x = y;
        y = held;
    }
}

control Above(int n, inout bit<8> x) {
    apply {
        if (x == n) {
            x = n + 8w1;
        } else {
            x = n;
        }
    }
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.op);
        transition select() { default: accept; }
    }
}

control MyVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    register<bit<BYTES * 8>>(4) kept;
    Times(3) thrice;
    Exchange<bit<8>>() exchange_bytes;
    Exchange<bool>() exchange_flags;

    action hash() {
        // The extern function: inside of the action its own name is the one around it.
        hash(hdr.op.w, HashAlgorithm.identity, 16w0, { hdr.op.a }, 16w7);
    }

    action two_out(out bit<8> x, out bit<8> y) {
        x = 3;
        y = 4;
    }

    action hit(bit<8> value) {
        hdr.op.b = value;
    }

    table optional_masks {
        key = {
            hdr.op.a : optional;
            hdr.op.b : exact;
        }
        actions = { hit; NoAction; }
        const default_action = NoAction;
        const entries = {
            (8w3 &&& 0xff, 8w4 &&& 255) : hit(0x77);
            (_, 5) : hit(0x88);
        }
    }

    apply {
        standard_metadata.egress_spec = 1;
        if (hdr.op.op == 1) {
            // A number becomes a `type`, cut to its width.
            meta.id = 2049;
            short_id_t other = 1;
            long_id_t far = (long_id_t)other;
            hdr.op.a = meta.id == other ? 8w1 : 0;
            hdr.op.b = far == (long_id_t)(short_id_t)10w1 ? 8w1 : 0;
            meta.id = truncated();
            hdr.op.w = (bit<16>)(bit<10>)meta.id;
            meta.id = NO_ID;
            hdr.op.i = (int<8>)(bit<8>)((bit<10>)meta.id)[7:0];
        } else if (hdr.op.op == 2) {
            // Arithmetic on integers without a width loses no bit.
            hdr.op.w = (bit<16>)((int)hdr.op.i * 2 - (int)hdr.op.a);
            hdr.op.i = (int<8>)((int)hdr.op.i + 1);
            hdr.op.b = (int)hdr.op.a + (int)hdr.op.b > 255 ? 8w1 : 0;
        } else if (hdr.op.op == 3) {
            hdr.op.w = (bit<16>)((int)hdr.op.a << 4 >> 1) + (int)hdr.op.i;
            hdr.op.b = (bit<8>)(-(int)hdr.op.a >> 1);
        } else if (hdr.op.op == 4) {
            thrice.apply(hdr.op.a);
            Above.apply(9, hdr.op.b);
        } else if (hdr.op.op == 5) {
            kept.write(1, hdr.op.w);
            kept.read(hdr.op.w, 1);
            hdr.op.a = minus_one(hdr.op.a);
        } else if (hdr.op.op == 6) {
            // Parts of tuples are places.
            meta.pair[0] = hdr.op.a;
            meta.pair[1] = true;
            add(meta.pair[0]);
            meta.pair[0][7:4] = 0xf;
            meta.inner.parts[1][hdr.op.b & 1].setValid();
            meta.inner.parts[1][hdr.op.b & 1].a = 0x21;
            hdr.op.a = meta.pair[0];
            hdr.op.b = meta.inner.parts[1][1].a;
            hdr.op.w = meta.pair[1] ? 16w5 : 6;
        } else if (hdr.op.op == 7) {
            // What is copied back last stays.
            two(y = hdr.op.a, x = hdr.op.a);
            two(hdr.op.b, hdr.op.b);
        } else if (hdr.op.op == 8) {
            two_out(y = hdr.op.a, x = hdr.op.a);
            hash();
        } else if (hdr.op.op == 9) {
            optional_masks.apply();
        } else if (hdr.op.op == 10) {
            bool yes = true;
            bool no = false;
            exchange_bytes.apply(hdr.op.a, hdr.op.b);
            exchange_flags.apply(yes, no);
            hdr.op.w = no && !yes ? 16w1 : 0;
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
        packet.emit(hdr.op);
    }
}

V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(), MyDeparser()) main;
