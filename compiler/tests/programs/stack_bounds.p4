// `last` of an empty stack and `next` of a full one reject with StackOutOfBounds, wherever they are evaluated (spec § 8.18).

#include <core.p4>
#include <v1model.p4>

header op_t {
    bit<8> op;
    bit<8> count;
}

header report_t {
    bit<8>  error_number;
    bit<8>  seen;
    bit<8>  value;
    bit<32> last_index;
}

header label_t {
    bit<8> v;
}

header_union either_t {
    label_t a;
    label_t b;
}

struct headers_t {
    op_t        op;
    report_t    report;
    label_t     copy;
    label_t[2]  labels;
    either_t[1] unions;
}

struct metadata_t {
    bit<8>  seen;
    bit<8>  value;
    bit<32> last_index;
}

bit<8> same(in bit<8> v) {
    return v;
}

void fill(out label_t label) {
    label.setValid();
    label.v = 0xf1;
}

parser Value(packet_in packet, in bit<8> v, out bit<8> value) {
    state start {
        value = v;
        transition accept;
    }
}

parser Header(packet_in packet, in label_t label, inout bit<8> value) {
    state start {
        value = label.v;
        transition accept;
    }
}

// Has the stack from its caller.
parser Last(packet_in packet, in label_t[2] labels, inout bit<8> value) {
    state start {
        value = labels.last.v;
        transition accept;
    }
}

parser Next(packet_in packet, out label_t label, inout bit<8> value) {
    state start {
        value = (bit<8>)(bit<1>)label.isValid();
        packet.extract(label);
        value = value + label.v;
        transition accept;
    }
}

parser Twice(packet_in packet, inout label_t[2] labels, inout bit<8> value) {
    Last() last;
    state start {
        last.apply(packet, labels, value);
        transition accept;
    }
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    Value() value;
    Header() header_value;
    Last() last_value;
    Next() next_value;
    Twice() twice;

    state start {
        packet.extract(hdr.op);
        meta.value = 1;
        meta.seen = 1;
        transition select(hdr.op.count) {
            0: cases;
            1: one;
            2: two;
        }
    }
    state two {
        packet.extract(hdr.labels.next);
        transition one;
    }
    state one {
        packet.extract(hdr.labels.next);
        transition cases;
    }
    state cases {
        meta.last_index = hdr.labels.lastIndex;
        transition select(hdr.op.op) {
            1: assigned;
            2: compound;
            3: tested;
            4: verified;
            5: advanced;
            6: copied;
            7: is_valid;
            8: only_default;
            9: selected;
            10: chosen;
            11: right_side;
            12: function;
            13: sub_parser;
            14: sub_parser_with_header;
            15: sub_parser_with_stack;
            16: nested;
            17: popped;
            18: pushed;
            19: of_empty_copy;
            20: next_read;
            21: next_valid;
            22: next_written;
            23: next_filled;
            24: next_extracted;
            25: next_default;
            26: next_compound;
            27: union_last;
            28: union_next;
            29: union_valid;
            30: next_pushed;
            31: value_of_index;
            32: verified_first;
            33: next_copied;
        }
    }
    state assigned {
        meta.value = hdr.labels.last.v;
        transition seen;
    }
    state compound {
        meta.value += hdr.labels.last.v;
        transition seen;
    }
    state tested {
        if (hdr.labels.last.v == 7) {
            meta.value = 2;
        } else {
            meta.value = 3;
        }
        transition seen;
    }
    state verified {
        verify(hdr.labels.last.v != 0, error.HeaderTooShort);
        transition seen;
    }
    state advanced {
        packet.advance((bit<32>)hdr.labels.last.v << 3);
        transition seen;
    }
    state copied {
        hdr.copy = hdr.labels.last;
        transition seen;
    }
    state is_valid {
        meta.value = (bit<8>)(bit<1>)hdr.labels.last.isValid();
        transition seen;
    }
    state only_default {
        transition select(hdr.labels.last.v) {
            default: seen;
        }
    }
    state selected {
        transition select(hdr.labels.last.v, hdr.op.op) {
            (7, 9): seen;
            default: accept;
        }
    }
    state chosen {
        meta.value = hdr.op.count == 0 ? 8w9 : hdr.labels.last.v;
        transition seen;
    }
    state right_side {
        // Not evaluated unless it counts.
        meta.value = hdr.op.count != 0 && hdr.labels.last.v == 7 ? 8w2 : 3;
        transition seen;
    }
    state function {
        meta.value = same(hdr.labels.last.v);
        transition seen;
    }
    state sub_parser {
        value.apply(packet, hdr.labels.last.v, meta.value);
        transition seen;
    }
    state sub_parser_with_header {
        header_value.apply(packet, hdr.labels.last, meta.value);
        transition seen;
    }
    state sub_parser_with_stack {
        last_value.apply(packet, hdr.labels, meta.value);
        transition seen;
    }
    state nested {
        twice.apply(packet, hdr.labels, meta.value);
        transition seen;
    }
    state popped {
        packet.extract(hdr.labels.next);
        hdr.labels.pop_front(2);
        meta.value = hdr.labels.last.v;
        transition seen;
    }
    state pushed {
        // The index counts what was pushed, too.
        hdr.labels.push_front(1);
        meta.value = (bit<8>)(bit<1>)hdr.labels.last.isValid();
        transition seen;
    }
    state of_empty_copy {
        label_t[2] own;
        packet.extract(hdr.labels.next);
        hdr.labels = own;
        meta.value = hdr.labels.last.v;
        transition seen;
    }
    state next_read {
        meta.value = same(hdr.labels.next.v) * 0;
        transition seen;
    }
    state next_valid {
        meta.value = (bit<8>)(bit<1>)hdr.labels.next.isValid();
        transition seen;
    }
    state next_written {
        // Valid, but not extracted: it stays the next one.
        hdr.labels.next.setValid();
        hdr.labels.next.v = 0xaa;
        meta.value = hdr.labels.next.v;
        transition seen;
    }
    state next_filled {
        fill(hdr.labels.next);
        transition seen;
    }
    state next_extracted {
        next_value.apply(packet, hdr.labels.next, meta.value);
        transition seen;
    }
    state next_default {
        transition select(hdr.labels.next.v) {
            default: seen;
        }
    }
    state next_compound {
        hdr.labels.next = {5};
        hdr.labels.next.v += 2;
        transition seen;
    }
    state union_last {
        meta.value = hdr.unions.last.b.v;
        transition seen;
    }
    state union_next {
        packet.extract(hdr.unions.next.b);
        meta.value = hdr.unions.last.b.v;
        hdr.unions.next.a.setValid();
        transition seen;
    }
    state union_valid {
        meta.value = (bit<8>)(bit<1>)hdr.unions.last.isValid();
        transition seen;
    }
    state next_pushed {
        hdr.labels.push_front(2);
        hdr.labels.next.setValid();
        transition seen;
    }
    state value_of_index {
        // Its value is undefined for an empty stack, and nothing is rejected.
        meta.last_index = hdr.labels.lastIndex;
        transition seen;
    }
    state verified_first {
        // The order counts: the first failure gives the error.
        verify(hdr.op.count != 0, error.HeaderTooShort);
        meta.value = hdr.labels.last.v;
        transition seen;
    }
    state next_copied {
        hdr.labels.next = hdr.labels.last;
        transition seen;
    }
    state seen {
        meta.seen = 2;
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
        } else if (standard_metadata.parser_error == error.StackOutOfBounds) {
            hdr.report.error_number = 4;
        } else if (standard_metadata.parser_error == error.HeaderTooShort) {
            hdr.report.error_number = 5;
        } else {
            hdr.report.error_number = 0xff;
        }
        hdr.report.seen = meta.seen;
        hdr.report.value = meta.value;
        hdr.report.last_index = meta.last_index;
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
        packet.emit(hdr.copy);
        packet.emit(hdr.labels);
        packet.emit(hdr.unions);
    }
}

V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(), MyDeparser()) main;
