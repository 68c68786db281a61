// What the preprocessor and the lexer make of a program: continuations within tokens, `##` that gives no token, optional parts of
// variadic macros, conditions on characters and files, apostrophes, texts of several lines, numbers before signs.

#include <core.p4>
#include <v1model.p4>

#define FIELD(header, field) header. ## field
#define SUM(first, ...) sum(first __VA_OPT__(,) __VA_ARGS__)
#define EVERY(rest...) sum(0, ## rest)
#define TEN 1\
0
#elseif this line is passed over
#if 'A' == 65 && __has_include(<core.p4>) && !__has_include("none.p4") && -1 > 0u
#define TWENTY 20
#else
#define TWENTY 0
#endif

header op_t {
    bit<8> op;
    bit<8> result;
}

struct headers_t {
    op_t op;
}

struct metadata_t { }

bit<8> sum(in bit<8> first, in bit<8> second = 100) {
    return first + second;
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
    @free(that's $ # ? \ 'TEN' it)
    @description("a text // with TEN
        /* of several */ lines")
    @name(".set")
    action five() {
        FIELD(hdr.op, result) = 5;
    }
    table first {
        key = { hdr.op.op: exact; }
        actions = { five; NoAction; }
        const entries = { 1: five(); }
    }

    apply {
        standard_metadata.egress_spec = 1;
        first.apply();
        if (hdr.op.op == 2) {
            hdr.op.re\
sult = TEN;
        } else if (hdr.op.op == 3) {
            hdr.op.result = SUM(1);
        } else if (hdr.op.op == 4) {
            hdr.op.result = SUM(1, 2);
        } else if (hdr.op.op == 5) {
            hdr.op.result = EVERY();
        } else if (hdr.op.op == 6) {
            hdr.op.result = EVERY(7);
        } else if (hdr.op.op == 7) {
            hdr.op.result = TWENTY;
        } else if (hdr.op.op == 9) {
            hdr.op.result = (bit<4>)0x0E++4w2;
        } else if (hdr.op.op == 10) {
            hdr.op.result = 8w0x1E+8w1;
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    @name(".put")
    action six() {
        hdr.op.result = 6;
    }
    table second {
        key = { hdr.op.op: exact; }
        actions = { six; NoAction; }
        const entries = { 8: six(); }
    }

    apply {
        second.apply();
    }
}

control MyComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(), MyDeparser()) main;
