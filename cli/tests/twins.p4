// Two actions with one control-plane name: valid as long as no P4Info is requested, as with p4c.

#include <core.p4>
#include <v1model.p4>

header op_t {
    bit<8> op;
    bit<8> result;
}

struct headers_t {
    op_t op;
}

struct metadata_t { }

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
    @name(".set")
    action five() {
        hdr.op.result = 5;
    }
    table first {
        key = { hdr.op.op: exact; }
        actions = { five; NoAction; }
        const entries = { 1: five(); }
    }

    apply {
        standard_metadata.egress_spec = 1;
        first.apply();
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    @name(".set")
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
