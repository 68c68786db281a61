// Default values for what a literal leaves out: in results, arguments and comparisons.

#include <core.p4>
#include <v1model.p4>

header op_t {
    bit<8> a;
    bit<8> b;
    bit<8> result;
}

struct record_t {
    bit<8> a;
    bit<8> b;
    op_t   rest;
}

struct headers_t {
    op_t op;
}

struct metadata_t { }

record_t with_a(in bit<8> a) {
    return { a, ... };
}

bit<8> sum(in record_t record) {
    return record.a + record.b;
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
    apply {
        standard_metadata.egress_spec = 1;
        record_t record = with_a(hdr.op.a);
        if (record == { 7, ... }) {
            hdr.op.result[0:0] = 1;
        }
        if (record != { b = 0, ... }) {
            hdr.op.result[1:1] = 1;
        }
        record.b = hdr.op.b;
        if (record == { b = 9, ... }) {
            hdr.op.result[2:2] = 1;
        }
        if (record == { ... }) {
            hdr.op.result[3:3] = 1;
        }
        hdr.op.result[7:4] = sum({ b = hdr.op.b, ... })[3:0];
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
