// What is passed out when an action of a table exits below calls that copy their arguments.

#include <core.p4>
#include <v1model.p4>

header op_t {
    bit<8> op;
    bit<8> a;
    bit<8> b;
    bit<8> c;
}

struct headers_t {
    op_t op;
}

struct metadata_t { }

// An action of both pipelines. It exits with its own argument still to be passed out.
action add_small(inout bit<8> to, bit<8> by) {
    to = to + by;
    if (to > 0x80) {
        exit;
    }
    to = to + 1;
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

// Its parameters may be two names of one variable, and it is applied in several places.
control Leaver(inout bit<8> x, inout bit<8> y, in bit<8> key) {
    action leave(bit<8> by) {
        y = y + by;
        if (y == 0) {
            exit;
        }
        x = x + 1;
    }
    action stay() {
        x = x + 2;
    }
    table t {
        key = { key: exact; }
        actions = { leave; stay; }
        const entries = {
            1: leave(1);
            2: leave(2);
        }
        default_action = stay();
    }
    apply {
        y = y + 1;
        switch (t.apply().action_run) {
            leave: { x = x + 0x10; }
            default: { x = x + 0x20; }
        }
    }
}

control Adder(inout bit<8> x, inout bit<8> y) {
    table t {
        key = { x: exact; }
        actions = { add_small(y); NoAction; }
        const entries = {
            1: add_small(y, 0x10);
            2: add_small(y, 0x70);
        }
        default_action = NoAction();
    }
    apply {
        x = x + 1;
        if (t.apply().hit) {
            y = y + 1;
        } else {
            x = x + 0x40;
        }
    }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    Leaver() leaver;
    Adder() adder;
    apply {
        standard_metadata.egress_spec = 1;
        switch (hdr.op.op) {
            1: { leaver.apply(hdr.op.a, hdr.op.a, hdr.op.c); hdr.op.b = 1; }
            2: { leaver.apply(hdr.op.a, hdr.op.b, hdr.op.c); hdr.op.b = 1; }
            3: { adder.apply(hdr.op.a, hdr.op.b); adder.apply(hdr.op.b, hdr.op.c); }
        }
        hdr.op.op = 0xff;
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    Adder() adder;
    apply {
        // An exit of ingress is none of egress.
        bit<8> once = 0;
        adder.apply(once, hdr.op.c);
        hdr.op.a[7:7] = 1;
    }
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
