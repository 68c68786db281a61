#include <core.p4>
header h_t { bit<8> a; }
struct s_t { h_t h; h_t[3] stack; }
control c(inout s_t s, in bit<8> n, in s_t ro) {
    action a() { }
    action b() { t0.apply(); exit; switch (n) { 1: { } } }
    table t { actions = { a; NoAction; } }
    action d() { t.apply(); }
    table u { key = { s : exact; s.h.a : exact; 1 : exact; } actions = { a; a; } }
    apply {
        break;
        for (bit<8> i = 0; i; i = i + 1) { continue; }
        for (bool i in 0 .. 3) { }
        for (bit<8> i in s.h) { }
        for (bit<8> i in s.stack) { }
        switch (t.apply()) { }
        switch (t.apply().action_run) { a: { } b: { } a: { } n: { } 3: { } default: { } a: { } }
        switch (n) { 1: { } 1: { } n: { } true: { } 8w1 &&& 8w1: { } }
        switch (s) { }
        s.stack[3].a = 1;
        s.stack[n].a = 1;
        s.stack["a"].a = 1;
        s.stack.next.a = 1;
        s.stack.lastIndex = 1;
        s.stack.size = 2;
        s.stack.push_front(n);
        ro.h.setValid();
        ro.stack.pop_front(1);
        ro.h.a = 3;
        s.h.setValid;
        s.h.isValid().x = 1;
        return 1;
        h_t x = s.h.a;
        const bit<8> k = n;
        static_assert(k == 4);
        static_assert(1 == 2, "numbers differ");
        packet_in p;
    }
}
