// Stacks and unions as lists: constant and not, shorter than the stack, compared, passed and indexed at run time; what their
// parts read before they are written. Arguments of a table's action that are passed out by exit.

#include <core.p4>
#include <v1model.p4>

header op_t {
    bit<8> op;
    bit<8> index;
    bit<8> result;
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

struct holder_t {
    item_t[3] items;
    bit<8>    more;
}

struct headers_t {
    op_t      op;
    item_t[3] items;
    either_t  either;
}

struct metadata_t { }

bit<8> pick(in holder_t holder, in bit<8> index) {
    return holder.items[index].value + holder.more;
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
    action last(inout bit<8> value) {
        value = 2;
        exit;
    }
    table leaving {
        key = { hdr.op.index: exact; }
        actions = { last(hdr.op.result); NoAction; }
        const entries = { 1: last(hdr.op.result); }
    }

    apply {
        standard_metadata.egress_spec = 1;
        if (hdr.op.op == 1) {
            hdr.items = (item_t[3]){ { 1 }, { 2 }, { 3 } };
        } else if (hdr.op.op == 2) {
            hdr.items = (item_t[3]){ { hdr.op.index }, { 2 }, { 3 } };
            hdr.items = (item_t[3]){ { hdr.items[1].value }, { hdr.items[0].value } };
        } else if (hdr.op.op == 3) {
            hdr.items = (item_t[3]){ { 1 }, { 2 }, { 3 } };
            if (hdr.items == (item_t[3]){ { 1 }, { hdr.op.index }, { 3 } }) {
                hdr.op.result = 1;
            }
            if (hdr.items != (item_t[3]){ { 1 }, { 2 } }) {
                hdr.op.result = hdr.op.result + 2;
            }
        } else if (hdr.op.op == 4) {
            hdr.op.result = pick({ { { 0x10 }, { hdr.op.op }, { 0x30 } }, 1 }, hdr.op.index);
        } else if (hdr.op.op == 5) {
            hdr.either.item = { 7 };
            hdr.either.wide = { hdr.either.item.isValid() ? (bit<16>)hdr.either.item.value : 0 };
        } else if (hdr.op.op == 6) {
            leaving.apply();
            hdr.op.result = 9;
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
