#include <core.p4>
extern E<T> { E(bit<8> n); T get(in T x, out bit<8> y); void two(in bit<8> a); void two(in bit<8> a, in bool b); }
extern void opt(in bit<8> a, @optional in bit<8> b);
extern T make<T>();
extern void same<T>(in T a, in T b);
extern A { A(); abstract bit<8> m(in bit<8> x); }
control inner(inout bit<8> x)(bit<8> n) { apply { x = n; } }
control proto(inout bit<8> x);
package pkg(proto p, bit<8> n);
bit<8> rec(in bit<8> x) { return rec(x); }
bit<8> noret(in bit<8> x) { if (x == 1) { return 1; } }
void ret(in bit<8> x) { return x; }
bit<8> dup(in bit<8> x) { return 1; }
bit<16> dup(in bit<8> x) { return 1; }
control c(inout bit<8> x, in bit<8> y) {
    E<bit<8>>(8w1) e;
    E(1) uninferred;
    E<bit<8>, bool>(1) toomany;
    E<bit<8>>() noargs;
    E<bit<8>>(1, 2) twoargs;
    E<bit<8>>(x) notconst;
    inner(1) i;
    inner() j;
    proto() k;
    c() self;
    A() a;
    A() a2 = { bit<16> m(in bit<8> x) { return 1; } void n() { } };
    inner(2) i2 = { };
    bit<8>(3) nonsense;
    action act(in bit<8> v, bit<8> w) { x = v + w; }
    action order(bit<8> w, in bit<8> v) { }
    table t { actions = { act(y); order(1, 2); act(y, 3); } default_action = act(y, y); }
    table t2 { key = { x : exact; } actions = { act(x); NoAction; } default_action = act(y, 1); const entries = { 1 : rec(x); y : NoAction(); 1 &&& 1 : NoAction(); _ : NoAction(); (1, 2) : NoAction(); 1 .. 3: NoAction(); } }
    table t3 { key = { x : lpm; } default_action = NoAction; size = y; sise = 4; size = 3; }
    table t4 { actions = { NoAction; @tableonly act(x); } default_action = act(x, 1); entries = { 1: NoAction(); } }
    apply { }
}
