#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; }
struct headers_t { h_t h; }
struct metadata_t { bit<8> x; }

const bit<8> LEVEL = 1;

parser P(packet_in p, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        p.extract(hdr.h);
        transition select(hdr.h.a) {
            1: odd;
            2: even;
        }
    }
    state odd {
        transition select(hdr.h.a) {
            1: accept;
            _: reject;
            3: even;
        }
    }
    state even {
        // The cases match all values, so no default is needed.
        transition select((bool)hdr.h.a[0:0]) {
            true: accept;
            false: reject;
        }
    }
    state lost { transition lost; }
    @noWarn("parser-transition")
    state lost_as_quietly { transition accept; }
    @noWarn("unreachable")
    state lost_quietly { transition accept; }
}

control V(inout headers_t hdr, inout metadata_t meta) { apply { } }

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    bit<8> LEVEL = 2;
    action mark(bit<8> meta) { hdr.h.a = meta + LEVEL; }
    @noWarn("shadow")
    action mark_quietly(bit<8> meta) { hdr.h.a = meta; }
    table t {
        key = { hdr.h.a: exact; }
        actions = { mark; mark_quietly; }
        implementatoin = action_profile(4);
        const entries = { 1: mark(1); }
    }
    apply {
        t.apply();
        if (hdr.h.a == 300) {
            exit;
        }
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply { } }
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out p, in headers_t hdr) { apply { p.emit(hdr); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
