#include <core.p4>
extern E<T> { E(bit<8> n); T get(in T x, out bit<8> y); void two(in bit<8> a); void two(in bit<8> a, in bool b); }
extern void opt(in bit<8> a, @optional in bit<8> b);
extern T make<T>();
extern void same<T>(in T a, in T b);
extern A { A(); abstract bit<8> m(in bit<8> x); }
control inner(inout bit<8> x)(bit<8> n) { apply { x = n; } }
control proto(inout bit<8> x);
package pkg(proto p, bit<8> n);
control c(inout bit<8> x, in bit<8> y) {
    E<bit<8>>(1) e;
    inner(1) i;
    action act(in bit<8> v, bit<8> w) { x = v + w; }
    table t { actions = { NoAction; } }
    apply {
        e.get(x);
        e.get(x, 3);
        e.get(x, y);
        e.get(1, x, 3);
        e.get(x = 1, z = x);
        e.get(1, y = x);
        e.nothing();
        e.two();
        e.two(1, 2);
        opt();
        opt(1, b = 2);
        make();
        make<bit<8>, bool>();
        same(8w1, 16w1);
        same(1, 2);
        i.apply();
        i.apply(3);
        inner.apply(x);
        proto.apply(x);
        t.apply(x);
        act(1);
        x = act(1, 2);
        x = t.apply();
        if (t.apply()) { }
        x.foo();
        E<bit<8>>(1);
        verify(true, error.NoError);
        c.apply(x, y);
        opt(_);
        pkg(i, 1) p;
    }
}
control wrong(in bit<8> x) { apply { } }
inner(3) top;
pkg(inner(3), 1) main;
pkg(wrong(), 1) main2;
