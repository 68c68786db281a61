#include <core.p4>
header h_t { bit<8> a; }
struct s_t { h_t h; h_t[3] stack; }
parser p(packet_in b, out s_t s, in bit<8> n) {
    state start {
        return;
        exit;
        b.extract(s);
        b.extract(s.h, 3);
        b.extract(n);
        bit<8> x = b.lookahead();
        string y = b.lookahead<string>();
        switch (n) { }
        for (bit<8> i in 0 .. 1) { }
        transition select(n, s) {
            (1, 2, 3): accept;
            1: nowhere;
            300: accept;
            true: accept;
            2 .. 1: accept;
            _: acept;
        }
    }
    state accept { }
    state twice { transition start; }
    state twice { transition reject; }
}
parser nostart(packet_in b) { state begin { transition accept; } }
void fill(out h_t h) { }
parser changed(packet_in b, out s_t s) {
    state start {
        b.extract(s.stack.last);
        s.stack.last = s.h;
        s.stack.last.a = 5;
        s.stack.last.a[3:0] += 1;
        s.stack.last.setInvalid();
        fill(s.stack.last);
        s.stack.lastIndex = 1;
        s.stack.next.a = s.stack.last.a;
        transition accept;
    }
}
