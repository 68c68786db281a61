// Constructor parameters that are parsers and controls of abstract types, and ones with default values.

#include <core.p4>
#include <v1model.p4>

header data_t {
    bit<8> op;
    bit<8> a;
    bit<8> b;
}

header more_t {
    bit<8> value;
}

struct headers_t {
    data_t data;
    more_t more;
    more_t last;
}

struct metadata_t { }

parser Part(packet_in from, out more_t into);
control Change(inout bit<8> value);

parser One(packet_in packet, out more_t to) {
    state start {
        packet.extract(to);
        transition accept;
    }
}

parser Skipping(packet_in packet, out more_t to)(bit<32> bits = 8) {
    state start {
        packet.advance(bits);
        packet.extract(to);
        transition accept;
    }
}

parser Both(packet_in packet, inout headers_t hdr)(Part first, Part second) {
    state start {
        first.apply(packet, hdr.more);
        second.apply(packet, hdr.last);
        transition accept;
    }
}

control Add(inout bit<8> to)(bit<8> by = 3, bool twice = false) {
    apply {
        to = to + by;
        if (twice) {
            to = to + by;
        }
    }
}

control Double(inout bit<8> number) {
    apply {
        number = number << 1;
    }
}

control Then(inout bit<8> x)(Change first, Change second) {
    apply {
        first.apply(x);
        second.apply(x);
    }
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    One() one;
    Skipping() skipping;
    Both(one, skipping) both;

    state start {
        packet.extract(hdr.data);
        transition select(hdr.data.op) {
            2: parts;
            default: accept;
        }
    }
    state parts {
        both.apply(packet, hdr);
        transition accept;
    }
}

control MyVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    Add(5) add;
    Double() double;
    Then(add, double) sum_first;
    Then(double, add) double_first;

    apply {
        standard_metadata.egress_spec = 1;
        if (hdr.data.op == 1) {
            sum_first.apply(hdr.data.a);
            double_first.apply(hdr.data.b);
        } else if (hdr.data.op == 3) {
            Add.apply(hdr.data.a);
            Add.apply(to = hdr.data.b);
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
