// Parsers: stacks, lookahead, advance, varbit, masks and ranges, sub-parsers, functions, conditions, errors.

#include <core.p4>
#include <v1model.p4>

error { BadVersion, TooManyLabels }

header first_t {
    bit<8> kind;
    bit<8> length;
}

header label_t {
    bit<7> value;
    bit<1> bottom;
}

header blob_t {
    varbit<64> data;
}

header report_t {
    bit<8>  error_number;
    bit<8>  labels;
    bit<8>  last_label;
    bit<8>  seen;
    bit<16> sum;
}

struct headers_t {
    report_t    report;
    first_t     first;
    label_t[4]  labels;
    blob_t      blob;
}

struct metadata_t {
    bit<8>  labels;
    bit<8>  last_label;
    bit<8>  seen;
    bit<16> sum;
}

struct ahead_t {
    bit<8>     lead;
    label_t[2] labels;
}

bit<16> plus(in bit<16> x, in bit<8> y) {
    if (y == 0) {
        return x;
    }
    return x + (bit<16>)y;
}

parser One(packet_in packet, out label_t label, inout bit<16> sum) {
    state start {
        packet.extract(label);
        sum = sum + (bit<16>)label.value;
        transition accept;
    }
}

parser Labels(packet_in packet, inout label_t[4] labels, inout metadata_t meta) {
    state start {
        transition next;
    }
    state next {
        packet.extract(labels.next);
        meta.labels = meta.labels + 1;
        meta.last_label = (bit<8>)labels.last.value;
        meta.sum = plus(meta.sum, (bit<8>)labels.last.value);
        transition select(labels.last.bottom) {
            0: next;
            1: accept;
        }
    }
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    Labels() labels;
    One() one;
    bit<8> ahead;
    int<8> at = 0;

    state start {
        packet.extract(hdr.first);
        meta.seen = 1;
        transition select(hdr.first.kind, hdr.first.length) {
            (1, _): with_labels;
            (2, 0 .. 8): with_blob;
            (2, _): reject;
            (0x30 &&& 0xf0, 0x01 &&& 0x01): odd;
            (0x30 &&& 0xf0, _): even;
            (4, 5): peek;
            (5, _): check;
            (6, _): skip;
            (7, _): two_labels;
            (8, _): peek_labels;
            (9, _): before_first;
            (10, _): counted;
            (0xf0 .. 0xff, 7): ranged;
        }
    }
    state with_labels {
        labels.apply(packet, hdr.labels, meta);
        meta.seen = 2;
        transition accept;
    }
    state counted {
        packet.extract(hdr.labels[at]);
        at = at + 1;
        meta.sum = meta.sum + 1;
        transition select(hdr.labels[at - 1].bottom) {
            1: accept;
            default: counted;
        }
    }
    state two_labels {
        one.apply(packet, hdr.labels.next, meta.sum);
        one.apply(packet, hdr.labels.next, meta.sum);
        meta.seen = 11;
        transition accept;
    }
    state with_blob {
        packet.extract(hdr.blob, (bit<32>)hdr.first.length << 3);
        meta.seen = 3;
        transition accept;
    }
    state odd {
        meta.seen = 4;
        transition accept;
    }
    state even {
        meta.seen = 5;
        transition accept;
    }
    state peek {
        ahead = packet.lookahead<bit<8>>();
        meta.sum = packet.lookahead<bit<16>>();
        if (ahead > 0x7f) {
            meta.seen = 6;
        } else {
            meta.seen = 7;
        }
        transition select(packet.lookahead<bit<4>>()) {
            0xf: odd;
            default: accept;
        }
    }
    state check {
        verify(hdr.first.length == 4, error.BadVersion);
        meta.seen = 8;
        transition accept;
    }
    state skip {
        packet.advance((bit<32>)hdr.first.length * 8);
        meta.last_label = packet.lookahead<bit<8>>();
        meta.seen = 9;
        transition accept;
    }
    state peek_labels {
        ahead_t next = packet.lookahead<ahead_t>();
        meta.last_label = next.lead;
        meta.sum = (bit<16>)(next.labels[0].value ++ next.labels[1].value);
        meta.seen = next.labels[1].isValid() ? 8w12 : 8w0;
        transition accept;
    }
    state before_first {
        meta.seen = 13;
        // Nothing is there yet: the value means nothing, and asking for it does no harm.
        transition select(hdr.labels.next.bottom) {
            default: accept;
        }
    }
    state ranged {
        meta.seen = 10;
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
        } else if (standard_metadata.parser_error == error.NoMatch) {
            hdr.report.error_number = 1;
        } else if (standard_metadata.parser_error == error.BadVersion) {
            hdr.report.error_number = 2;
        } else if (standard_metadata.parser_error == error.PacketTooShort) {
            hdr.report.error_number = 3;
        } else if (standard_metadata.parser_error == error.StackOutOfBounds) {
            hdr.report.error_number = 4;
        } else {
            hdr.report.error_number = 0xff;
        }
        hdr.report.labels = meta.labels;
        hdr.report.last_label = meta.last_label;
        hdr.report.seen = meta.seen;
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
        packet.emit(hdr.report);
        packet.emit(hdr.first);
        packet.emit(hdr.labels);
        packet.emit(hdr.blob);
    }
}

V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(), MyDeparser()) main;
