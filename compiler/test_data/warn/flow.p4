// Values read before they are written, invalid headers.
#include <v1model.p4>
header h_t { bit<8> f; bit<8> g; }
struct headers_t { h_t a; h_t b; }
struct meta_t { bit<8> x; }

bit<8> unset(in bit<8> n, out bit<8> never) {
    bit<8> x;
    bit<8> y;
    if (n == 1) { y = 1; }
    return x + y;
}
bit<8> set(in bit<8> n, out bit<8> always) {
    bit<8> x;
    if (n == 1) { x = 1; } else { x = 2; }
    switch (n) { 1: { always = 1; } default: { always = 2; } }
    bit<8> y;
    y[3:0] = 4;
    for (bit<8> i in 0 .. 3) { x = x + i; }
    return x + y;
}
bit<8> leave(in bit<8> n) {
    if (n == 1) {
        return 1;
    } else {
        return 2;
    }
    return 3;
}
parser Twice(packet_in p, inout headers_t h) {
    state start {
        p.extract(h.a);
        transition select(h.a.f) { 1: again; default: other; }
    }
    state again { p.extract(h.a); transition other; }
    state other { p.extract(h.b); h.b.setInvalid(); p.extract(h.b); transition accept; }
}
parser Never(packet_in p, inout headers_t h) {
    state start { transition select(h.a.f) { 1: next; default: reject; } }
    state next { transition start; }
}
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    bit<8> early;
    Twice() twice;
    Never() never;
    bit<8> late;
    state start {
        m.x = h.a.f;
        p.extract(h.a);
        m.x = h.a.f;
        late = 1;
        transition select(h.a.g) { 1: one; default: two; }
    }
    state one { early = 1; transition two; }
    state two { m.x = early + late + h.b.f; transition three; }
    state three { twice.apply(p, h); never.apply(p, h); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    bit<8> by_action;
    bit<8> unwritten;
    register<bit<8>>(4) unused_register;
    action write() { by_action = 1; }
    action unused_action() { }
    @noWarn("unused") action silent_action() { }
    table t { actions = { write; } default_action = write; }
    table unused_table { actions = { NoAction; } }
    apply {
        t.apply();
        m.x = by_action + unwritten;
        h.a.setInvalid();
        m.x = h.a.f;
        h.a.setValid();
        m.x = h.a.f;
        if (h.b.isValid() && h.b.f == 1) { m.x = h.b.f; } else if (!h.b.isValid()) { m.x = h.b.g; }
        h_t local;
        m.x = local.f;
        local = { 1, 2 };
        m.x = local.f;
        local = {#};
        m.x = local.f;
        bit<8> r;
        m.x = unset(1, r) + set(1, _) + r;
        bit<4> overflow = 16;
        overflow = overflow << 4;
        overflow = -1;
        m.x = leave(1);
        for (bit<8> i in 0 .. 3) {
            if (i == 2) { break; m.x = 1; }
        }
        exit;
        ;
        m.x = 1;
        m.x = 2;
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { mark_to_drop(); } }
control Unused(inout bit<8> x) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
