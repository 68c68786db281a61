// Statements: loops, switch, return, exit, blocks, compound assignment.
#include <core.p4>

enum bit<8> Op { add = 0, sub = 1 }
enum Mode { fast, slow }
header byte_t { bit<8> v; }
struct headers_t { byte_t[3] bytes; byte_t one; }

bit<8> sum(in bit<8> n) {
    bit<8> total = 0;
    for (bit<8> i = 0, bit<8> j = 1; i < n; i += 1, j = j + 2) {
        if (i == 3) { continue; }
        if (j == 7) break;
        total = total + i;
    }
    for (bit<8> k in 0 .. n) { total += k; }
    for (bit<8> k in 8w1 .. 8w3) total += k;
    @unroll for (bit<8> k in { 1, 2, 3 }) { total |= k; }
    return total;
}

control c(inout headers_t h, inout bit<8> x, in Mode mode) {
    action nothing() { }
    action set(bit<8> v) { x = v; if (x == 3) { return; } exit; }
    action both(inout bit<8> target, in bit<8> a, bit<8> data) { target = a + data; }
    table t {
        key = { h.one.v : exact @name("v"); x & 3 : ternary; }
        actions = { nothing; set; both(x, h.one.v); @defaultonly NoAction; }
        const default_action = NoAction();
        const entries = {
            priority = 20 : (1, 2 &&& 3) : set(4);
            const priority = 10 : (2, _) : nothing();
            (3, default) : both(x, h.one.v, 5);
            (4, 7) : both(6);
        }
        size = 16;
    }
    apply {
        switch (t.apply().action_run) {
            nothing:
            set: { x = 1; }
            both: { }
            default: { x = 2; }
        }
        switch (x) {
            1: { x = 3; }
            2: 3: { }
            8w4: { return; }
            default: { }
        }
        switch (mode) { Mode.fast: { x = 1; } Mode.slow: { x = 2; } }
        switch ((Op)x) { Op.add: { x = 0; } default: { } }
        if (t.apply().hit) x = 9;
        else if (!t.apply().miss) { x = 8; } else { exit; }
        for (byte_t b in h.bytes) { x = x ^ b.v; }
        set(3);
        both(x, 3, 4);
        x = sum(n = x);
        @atomic { x += 1; }
        const bit<8> LOCAL = 4;
        x = LOCAL;
        return;
    }
}
