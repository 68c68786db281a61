// Parameters of actions with signed types, and constant entries that a key's mask excludes.

#include <core.p4>
#include <v1model.p4>

header data_t {
    bit<8> selector;
    int<8> value;
    int<8> sum;
    int<16> wide;
    bit<8> is_negative;
}

struct headers_t {
    data_t data;
}

struct meta_t {}

parser start_parser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.data);
        transition accept;
    }
}

control verify_nothing(inout headers_t hdr, inout meta_t meta) {
    apply {}
}

control ingress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    action add(int<8> number) {
        hdr.data.sum = hdr.data.value |+| number;
        hdr.data.wide = (int<16>) number;
        hdr.data.is_negative = number < 0 ? 8w1 : 0;
    }

    // The second and the third entry never match.
    table numbers {
        key = { hdr.data.selector & 0x0f: exact @name("low"); }
        actions = { add; }
        const entries = {
            0x01: add(-3);
            0x11: add(7);
            0x22: add(8);
            0x02: add(127);
        }
        const default_action = add(-128);
    }

    apply {
        standard.egress_spec = 1;
        numbers.apply();
    }
}

control egress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    apply {}
}

control update_nothing(inout headers_t hdr, inout meta_t meta) {
    apply {}
}

control deparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.data);
    }
}

V1Switch(start_parser(), verify_nothing(), ingress(), egress(), update_nothing(), deparser()) main;
