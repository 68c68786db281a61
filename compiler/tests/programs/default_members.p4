// The default action of tables with an action profile or selector runs after a miss, with its arguments, until the control plane
// gives the table a member.

#include <core.p4>
#include <v1model.p4>

header data_t {
    bit<8> op;
    bit<8> key;
    bit<8> one;
    bit<8> two;
    bit<8> three;
    bit<8> next;
}

struct headers_t {
    data_t data;
}

struct metadata_t { }

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.data);
        transition accept;
    }
}

control MyVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    action one(bit<8> value) {
        hdr.data.one = value;
    }
    action two(bit<8> value) {
        hdr.data.two = value;
    }
    action three(bit<8> value) {
        hdr.data.three = value;
    }
    table profiled {
        key = { hdr.data.key: exact; }
        actions = { one; NoAction; }
        default_action = one(0x77);
        implementation = action_profile(16);
    }
    table selected {
        key = { hdr.data.key: exact; hdr.data.op: selector; }
        actions = { two; NoAction; }
        default_action = two(0x78);
        implementation = action_selector(HashAlgorithm.crc16, 16, 8);
    }
    table constant {
        key = { hdr.data.key: ternary; }
        actions = { three; one; NoAction; }
        const default_action = three(0x79);
        implementation = action_profile(16);
    }
    // Nothing happens, and what follows is chosen by it.
    table nothing {
        key = { hdr.data.key: exact; }
        actions = { one; NoAction; }
        default_action = NoAction();
        implementation = action_profile(16);
    }

    apply {
        standard_metadata.egress_spec = 1;
        if (profiled.apply().miss) {
            hdr.data.next[0:0] = 1;
        }
        selected.apply();
        switch (constant.apply().action_run) {
            three: { hdr.data.next[1:1] = 1; }
            default: { hdr.data.next[2:2] = 1; }
        }
        switch (nothing.apply().action_run) {
            NoAction: { hdr.data.next[3:3] = 1; }
            default: { hdr.data.next[4:4] = 1; }
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
        packet.emit(hdr.data);
    }
}

V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(), MyDeparser()) main;
