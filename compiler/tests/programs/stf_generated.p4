// Tables, actions, parameters and keys as test generators name them, and clone session 0.
#include <core.p4>
#include <v1model.p4>

header data_t {
    bit<8> kind;
    bit<7> unused;
    bit<9> value;
}

struct headers_t {
    data_t data;
}

struct metadata_t {
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.data);
        transition accept;
    }
}

control MyVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    counter(4, CounterType.packets) seen;
    register<bit<9>>(4) last;

    @name("change value")
    action change(@name("new value") bit<9> value) {
        hdr.data.value = value;
    }
    action copy() {
        clone(CloneType.I2E, 0);
    }
    table mixed {
        key = {
            hdr.data.kind: exact @name("the kind");
            hdr.data.value: optional;
            hdr.data.isValid(): exact;
            hdr.data.value & 0x0f0: ternary;
        }
        actions = { change; copy; NoAction; }
        default_action = NoAction();
    }
    apply {
        sm.egress_spec = 1;
        seen.count((bit<32>)hdr.data.kind & 3);
        last.write(2, hdr.data.value);
        mixed.apply();
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { }
}

control MyCompute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
