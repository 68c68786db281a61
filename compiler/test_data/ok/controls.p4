// Controls: instances, constructor parameters, direct application, tables with all properties.
#include <v1model.p4>

header h_t { bit<32> a; bit<32> b; }
struct headers_t { h_t h; }
struct meta_t { @field_list(1, 2) bit<32> x; @field_list(2) bit<16> y; bit<9> port; }

tuple<bit<32>> tuple_of(in bit<32> x) { return { x }; }

control Leaf(inout bit<32> v)(bit<32> step, bool up) {
    apply { if (up) { v = v + step; } else { v = v - step; } }
}
control Simple(inout bit<32> v) { apply { v = 0; } }
control Caller(inout bit<32> v, in bit<8> unused = 3)(Simple inner) {
    apply { inner.apply(v); }
}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.h); transition accept; }
}
control V(inout headers_t h, inout meta_t m) {
    apply { verify_checksum(true, { h.h.a, 16w0 }, h.h.b, HashAlgorithm.csum16); }
}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    Leaf(step = 4, up = true) leaf;
    Leaf(8, false) other;
    Simple() simple;
    Caller(Simple()) caller;
    counter(128, CounterType.packets_and_bytes) c;
    direct_counter(CounterType.packets) dc;
    direct_meter<bit<2>>(MeterType.bytes) dm;
    meter(16, MeterType.packets) m1;
    register<bit<32>>(64) r;
    action_profile(32) profile;
    action_selector(HashAlgorithm.crc16, 32w1024, 32w14) selector;
    bit<2> color;
    action drop() { mark_to_drop(s); }
    action forward(bit<9> port) { s.egress_spec = port; dm.read(color); dc.count(); }
    table t1 {
        key = { h.h.a : lpm; h.h.b[7:0] : range; h.h.isValid() : exact; s.ingress_port : optional; }
        actions = { @tableonly forward; @defaultonly drop; }
        default_action = drop;
        counters = dc;
        meters = dm;
        size = 1024;
        support_timeout = true;
    }
    table t2 {
        key = { h.h.a : exact; h.h.b : selector; }
        actions = { forward; NoAction; }
        implementation = selector;
    }
    table t3 {
        actions = { drop; }
        implementation = action_profile(4);
        const default_action = drop();
    }
    table t4 {
        key = { m.port : ternary; }
        actions = { forward; drop; }
        entries = {
            priority = 3 : 9w1 &&& 9w1 : forward(1);
            const priority = (1 + 4) : _ : drop();
        }
        largest_priority_wins = false;
        priority_delta = 10;
    }
    apply {
        leaf.apply(m.x);
        other.apply(v = h.h.a);
        simple.apply(m.x);
        Simple.apply(m.x);
        caller.apply(m.x);
        c.count(3);
        m1.execute_meter(5, color);
        m1.execute_meter<bit<2>>(5, color);
        bit<32> value;
        r.read(value, 0);
        r.write(1, value + 1);
        random(value, 0, 100);
        hash(value, HashAlgorithm.crc32, 32w0, { h.h.a, h.h.b }, 32w64);
        hash(m.y, HashAlgorithm.crc16, 16w1, tuple_of(h.h.a), 16w8);
        digest<meta_t>(1, m);
        digest(2, { m.x, m.y });
        digest(3, { a = m.x, b = m.y });
        clone(CloneType.I2E, 5);
        clone_preserving_field_list(CloneType.I2E, 5, 1);
        clone3(CloneType.I2E, 5, { m.x });
        resubmit_preserving_field_list(1);
        truncate(64);
        assert(m.x > 3);
        assume(m.y != 0);
        log_msg("here");
        log_msg("x is {} and {}", { m.x, m.y });
        if (t1.apply().hit) { t2.apply(); }
        t3.apply();
        t4.apply();
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply { recirculate_preserving_field_list(2); clone(CloneType.E2E, 7); }
}
control K(inout headers_t h, inout meta_t m) {
    apply { update_checksum_with_payload(h.h.isValid(), { h.h.a }, h.h.b, HashAlgorithm.crc32); }
}
control D(packet_out p, in headers_t h) { apply { p.emit(h); p.emit(h.h); } }
V1Switch(P(), V(), I(), E(), K(), D()) main;
