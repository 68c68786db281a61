// Value sets, stacks of header unions, and sub-parsers that return through several states.

#include <core.p4>
#include <v1model.p4>

header byte_t {
    bit<8> value;
}

header word_t {
    bit<16> value;
}

header_union part_t {
    byte_t byte;
    word_t word;
}

header kind_t {
    bit<8> kind;
}

header report_t {
    bit<8> parts;
    bit<8> seen;
}

struct headers_t {
    report_t  report;
    kind_t    kind;
    part_t[3] parts;
    byte_t    end;
}

struct pair_t {
    bit<8> kind;
    bit<9> port;
}

struct metadata_t {
    bit<8> parts;
    bit<8> seen;
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    value_set<bit<8>>(4) known;
    value_set<pair_t>(2) pairs;

    state start {
        packet.extract(hdr.kind);
        transition select(hdr.kind.kind) {
            known: is_known;
            1: parts;
            default: other;
        }
    }
    state is_known {
        meta.seen = 1;
        transition accept;
    }
    state other {
        transition select(hdr.kind.kind, standard_metadata.ingress_port) {
            pairs: is_pair;
            default: accept;
        }
    }
    state is_pair {
        meta.seen = 2;
        transition accept;
    }
    state parts {
        transition select(packet.lookahead<bit<8>>()[7:6]) {
            0: byte;
            1: word;
            default: end;
        }
    }
    state byte {
        packet.extract(hdr.parts.next.byte);
        meta.parts = meta.parts + 1;
        transition parts;
    }
    state word {
        packet.extract(hdr.parts.next.word);
        meta.parts = meta.parts + 0x10;
        transition parts;
    }
    state end {
        packet.extract(hdr.end);
        meta.seen = 3;
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
        hdr.report = {meta.parts, meta.seen};
        if (hdr.parts[1].word.isValid()) {
            hdr.parts[1].byte.setValid();
            hdr.parts[1].byte.value = 0x3f;
        }
        if (hdr.parts[2].isValid()) {
            hdr.parts.pop_front(1);
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
