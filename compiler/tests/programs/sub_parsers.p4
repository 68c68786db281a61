// What a sub-parser that rejects leaves: its parameters are copied out at its end only, where it is called with several lists of
// arguments; where all calls have the same arguments, its parameters stand for them.

#include <core.p4>
#include <v1model.p4>

header op_t {
    bit<8> op;
}

header report_t {
    bit<8> error_number;
    bit<8> count;
    bit<8> other;
    bit<8> sum;
}

header h_t {
    bit<8> v;
}

header wide_t {
    bit<8>  v;
    bit<16> rest;
}

struct pair_t {
    h_t    h;
    wide_t wide;
}

struct headers_t {
    op_t     op;
    report_t report;
    h_t      first;
    h_t      second;
    h_t      third;
    pair_t   left;
    pair_t   right;
    h_t[3]   loop;
}

struct metadata_t {
    bit<8> count;
    bit<8> other;
    bit<8> sum;
}

parser One(packet_in packet, out h_t h, inout bit<8> count) {
    state start {
        packet.extract(h);
        count = count + 1;
        verify(h.v < 0x80, error.HeaderTooShort);
        count = count + 0x10;
        transition accept;
    }
}

// Whole structs, of which a part is extracted before it rejects.
parser Pair(packet_in packet, inout pair_t pair, in bit<8> limit) {
    state start {
        packet.extract(pair.h);
        packet.extract(pair.wide);
        verify(pair.h.v < limit, error.HeaderTooShort);
        transition accept;
    }
}

// Calls one twice with other arguments, and is itself called once.
parser Nested(packet_in packet, out h_t a, out h_t b, inout bit<8> count) {
    One() one;
    state start {
        one.apply(packet, a, count);
        one.apply(packet, b, count);
        transition accept;
    }
}

// States that come around again.
parser Loop(packet_in packet, inout h_t[3] stack, inout bit<8> count) {
    state start {
        packet.extract(stack.next);
        count = count + 1;
        transition select(stack.last.v) {
            0: accept;
            0x80 &&& 0x80: reject;
            default: start;
        }
    }
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    One() twice;
    One() once;
    One() same;
    Pair() pairs;
    Nested() nested;
    Nested() nested_twice;
    Loop() loops;

    state start {
        packet.extract(hdr.op);
        transition select(hdr.op.op) {
            1: other_arguments;
            2: one_call;
            3: same_arguments;
            4: structs;
            5: within_another;
            6: within_two;
            7: around;
            8: in_choice;
            9: direct;
        }
    }
    state other_arguments {
        twice.apply(packet, hdr.first, meta.count);
        twice.apply(packet, hdr.second, meta.other);
        transition accept;
    }
    state in_choice {
        if (meta.count == 0) {
            twice.apply(packet, hdr.third, meta.count);
        }
        transition accept;
    }
    state one_call {
        once.apply(packet, hdr.first, meta.count);
        transition accept;
    }
    state same_arguments {
        same.apply(packet, hdr.first, meta.count);
        transition select(hdr.first.v) {
            0: same_again;
            default: accept;
        }
    }
    state same_again {
        same.apply(packet, hdr.first, meta.count);
        transition accept;
    }
    state structs {
        pairs.apply(packet, hdr.left, 0x80);
        pairs.apply(packet, hdr.right, 0x40);
        transition accept;
    }
    state within_another {
        nested.apply(packet, hdr.first, hdr.second, meta.count);
        transition accept;
    }
    state within_two {
        nested_twice.apply(packet, hdr.first, hdr.second, meta.count);
        nested_twice.apply(packet, hdr.third, hdr.right.h, meta.other);
        transition accept;
    }
    state around {
        loops.apply(packet, hdr.loop, meta.count);
        transition accept;
    }
    state direct {
        One.apply(packet, hdr.first, meta.count);
        One.apply(packet, hdr.second, meta.count);
        transition accept;
    }
}

control MyVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    apply {
        hdr.report.setValid();
        if (standard_metadata.parser_error == error.NoError) {
            hdr.report.error_number = 0;
        } else if (standard_metadata.parser_error == error.PacketTooShort) {
            hdr.report.error_number = 1;
        } else if (standard_metadata.parser_error == error.HeaderTooShort) {
            hdr.report.error_number = 5;
        } else {
            hdr.report.error_number = 0xff;
        }
        hdr.report.count = meta.count;
        hdr.report.other = meta.other;
        hdr.report.sum = meta.sum;
        standard_metadata.egress_spec = 3;
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
        packet.emit(hdr.report);
        packet.emit(hdr.first);
        packet.emit(hdr.second);
        packet.emit(hdr.third);
        packet.emit(hdr.left);
        packet.emit(hdr.right);
        packet.emit(hdr.loop);
    }
}

V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(), MyDeparser()) main;
