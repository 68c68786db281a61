#include <core.p4>
struct s_t { bit<8> a bit<8> b; }
header h_t {
    bit<8> a
    bit<W> b;
}
const bit<8> = 3;
const bit<8> X = 3 +;
bit<8> f(in bit<8> x) {
    x + 1;
    return x
}
control c(inout bit<8> x) {
    action a( { x = 1; }
    action b() { x = 2 }
    table t {
        key = { x : exact }
        actions = { b, NoAction; }
        foo;
    }
    apply {
        if x == 1 { x = 2; }
        x = (x + 1;
        if (x == 1) bit<8> y;
        else { x = 3; }
        x = 8w;
        x = 0xZZ;
        x = 1 @ 2;
        switch (x) { 1 { } }
        t.apply();
    }
}
parser p(packet_in b) {
    state start {
        transition select(1) { 1: accept }
    }
    state next {
        transition accept;
        b.advance(3);
    }
    bit<8> late;
}
control struct(inout bit<8> x) { apply { } }
control missing(inout bit<8> x) { action a() { } }
control open(inout bit<8> x) {
    apply {
        x = 1;
