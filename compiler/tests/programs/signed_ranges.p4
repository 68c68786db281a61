// Ranges of signed numbers: in entries of tables, with one and with several keys, and in selects. Those that go through zero become several
// entries of the target, which compares bits.

#include <core.p4>
#include <v1model.p4>

enum int<8> Level {
    Low = -100,
    Middle = 0,
    High = 100
}

header in_t {
    int<8>  a;
    int<8>  b;
    int<16> wide;
}

header out_t {
    bit<8> one;
    bit<8> two;
    bit<8> small;
    bit<8> changeable;
    bit<8> selected;
    bit<8> level;
}

struct headers_t {
    in_t  in_;
    out_t out_;
}

struct metadata_t {
    bit<8> selected;
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.in_);
        transition select(hdr.in_.a, hdr.in_.wide) {
            (-128 .. -100, _): lowest;
            (-2 .. 2, -300 .. 300): near;
            (-128 .. 127, 32767): all;
            (-1 .. 127, _): above;
            default: accept;
        }
    }
    state lowest { meta.selected = 1; transition accept; }
    state near { meta.selected = 2; transition accept; }
    state all { meta.selected = 3; transition accept; }
    state above { meta.selected = 4; transition accept; }
}

control MyVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    bit<8> result = 0;

    action is(bit<8> value) {
        result = value;
    }
    table one {
        key = { hdr.in_.a: range; }
        actions = { is; NoAction; }
        default_action = is(0);
        const entries = {
            -5 .. 1: is(1);
            -1 .. 0: is(2);
            -10 .. 10: is(3);
            -128 .. -120: is(4);
            -128 .. 126: is(5);
            127: is(6);
        }
    }
    // Two ranges: four entries.
    table two {
        key = { hdr.in_.a: range; hdr.in_.b: range; hdr.in_.wide: ternary; }
        actions = { is; NoAction; }
        default_action = is(0);
        const entries = {
            (-5 .. 5, -7 .. 7, -1): is(1);
            (-5 .. 5, -7 .. 7, 0x8000 &&& 0x8000): is(2);
            (-128 .. 127, -7 .. 7, _): is(3);
            (-5 .. 5, _, _): is(4);
        }
    }
    // Room for the entries as written is room enough.
    table small {
        key = { hdr.in_.wide: range; }
        actions = { is; NoAction; }
        default_action = is(0);
        size = 2;
        const entries = {
            -300 .. 300: is(1);
            -32768 .. 400: is(2);
        }
    }
    // Entries that the control plane may change, with priorities.
    table changeable {
        key = { hdr.in_.b: range; }
        actions = { is; NoAction; }
        default_action = is(0);
        largest_priority_wins = false;
        entries = {
            priority = 20: -50 .. 50: is(1);
            priority = 10: -5 .. 5: is(2);
        }
    }
    table levels {
        key = { hdr.in_.b: range; }
        actions = { is; NoAction; }
        default_action = is(0);
        const entries = {
            (int<8>)Level.Low .. (int<8>)Level.High: is(1);
        }
    }

    apply {
        standard_metadata.egress_spec = 1;
        hdr.out_.setValid();
        one.apply();
        hdr.out_.one = result;
        two.apply();
        hdr.out_.two = result;
        small.apply();
        hdr.out_.small = result;
        changeable.apply();
        hdr.out_.changeable = result;
        hdr.out_.selected = meta.selected;
        levels.apply();
        hdr.out_.level = result;
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
        packet.emit(hdr.in_);
        packet.emit(hdr.out_);
    }
}

V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(), MyDeparser()) main;
