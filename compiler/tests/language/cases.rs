//! The accepted and rejected programs, by chapter of the language.

use super::Item;
use super::Part::{All, Apply, Control, Deparser, Parser, ParserWith, Top, Whole, With};

macro_rules! item {
    ($name:literal, [$($accepted:expr),* $(,)?], [$($refused:expr),* $(,)?]) => {
        Item { name: $name, accepted: &[$($accepted),*], refused: &[$($refused),*] }
    };
}

pub const PREPROCESSOR: &[Item] = &[
    item!("macros", [
        With("#define TWICE(x) ((x) + (x))\n#define ONE 1", "hdr.h.a = TWICE(ONE);"),
        With("#define CAT(x, y) x ## y", "hdr.h.CAT(, a) = 1;"),
        With("#define OF(h, f) h. ## f", "OF(hdr.h, a) = 1;"),
        With("#define SET(x, ...) x = f(1 __VA_OPT__(,) __VA_ARGS__)\nbit<8> f(in bit<8> a, in bit<8> b = 2) { return a + b; }", "SET(hdr.h.a); SET(hdr.h.b, 3);"),
        With("#define O\\\nNE 1", "hd\\\nr.h.a = ON\\\nE;"),
    ], [
        With("#define TWICE(x) ((x) + (x))", "hdr.h.a = TWICE(1, 2);"),
        With("#define TWICE(x) ((x) + (x))", "hdr.h.a = TWICE(1;"),
    ]),
    item!("conditions", [
        Top("#if defined(__P4C__) || (3 * 2 == 6 && !0)\nconst bit<8> k = 1;\n#elif 1\nwrong\n#else\nwrong\n#endif"),
        Top("#if __has_include(<core.p4>) && 'A' == 65\nconst bit<8> k = 1;\n#else\nwrong\n#endif"),
        With("#ifndef NONE\n#define X 4\n#endif", "hdr.h.a = X;\n#if X >= 4 && X << 1 != 8\nwrong\n#endif"),
    ], [
        Top("#if 1\nconst bit<8> k = 1;"),
        Top("#else"),
        Top("#if 1 +\n#endif"),
        Top("#error no such target"),
    ]),
    item!("lines and pragmas", [
        With("#pragma once\n#line 40 \"other.p4\"", "hdr.h.c = __LINE__;"),
        With("#elseif x\n#ident \"x\"\n#", "log_msg(__DATE__);"),
    ], [
        Top("#line 40 \"other.p4\"\nwrong"),
        Top("#line x"),
    ]),
    item!("includes", [Top("")], [Top("#include \"nowhere.p4\""), Top("#include nowhere")]),
];

pub const TYPES: &[Item] = &[
    item!("bit<W> and int<W>", [
        Apply("bit<8> a = 8w5; int<8> b = -8s3; bit<(4 + 4)> c = a; bit d = 1; hdr.h.i = b; hdr.h.a = c + (bit<8>)d;"),
        With("const int N = 4; register<bit<N * 2>>(4) r; header x_t { varbit<N * 8> v; bit<N + 4> b; int<N << 1> c; } bit<N> f(in bit<N - 1> x) { return 1w1 ++ x; }", "bit<N> x = f(1); bit<(N > 3 ? 8 : 16)> y = 1; bit<N == 4 ? 8 : 16> z = y; tuple<bit<N + 4>, bit<N>> t = { (bit<N * 2>)z, x }; r.write(0, t[0]);"),
    ], [
        Apply("bit<0 - 1> a;"),
        Apply("int<8> a = 8w5;"),
        Apply("bit<8> a = 16w5;"),
        Apply("bit<hdr.h.a> a;"),
        Apply("bit<4 > 3> a;"),
        Apply("bit<4 +> a;"),
    ]),
    item!("int", [
        Apply("hdr.h.i = (int<8>)((int)hdr.h.i + 1); hdr.h.c = (bit<16>)(-(int)hdr.h.a * 3 << 2); if ((int)hdr.h.a - (int)hdr.h.b < 0) { hdr.h.a = hdr.h.b + (int)hdr.h.c; }"),
        With("const int z = 2w3; control K(int n, inout bit<8> x) { apply { if (x == n) { x = n + 8w1; } else { x = 1 + n; } } }", "K.apply(3, hdr.h.a); hdr.h.b = z;"),
        With("const int big = 1 << 100; const bit<8> k = (bit<8>)(big >> 96);", "hdr.h.a = k;"),
    ], [
        Apply("int a = 5;"),
        Apply("hdr.h.a = (bit<8>)((int)hdr.h.a / 3);"),
        Apply("hdr.h.a = (bit<8>)(1 << (int)hdr.h.a);"),
        Apply("hdr.h.a = (bit<8>)(int)meta.y;"),
        Top("header x_t { int a; }"),
        Apply("bit<8> a = 5.0;"),
    ]),
    item!("varbit", [
        Apply("v_t v = hdr.v; hdr.v = v; if (hdr.v.v == v.v) { hdr.h.a = 1; }"),
    ], [
        Apply("hdr.v.v = 8w1;"),
        Apply("bool b = hdr.v.v < hdr.v.v;"),
        Top("struct s_t { varbit<8>[2] x; }"),
    ]),
    item!("bool", [Apply("bool b = hdr.h.a == 1; if (!b && true) { hdr.h.b = (bit<8>)(bit<1>)b; }")], [
        Apply("bool b = 1;"),
        Apply("if (hdr.h.a) { }"),
        Apply("bool b = true + true;"),
        Apply("hdr.h.a = (bit<8>)true;"),
    ]),
    item!("error and match_kind", [
        With("error { Mine, Yours } match_kind { nearest }", "if (sm.parser_error == error.Mine) { hdr.h.a = 1; }"),
    ], [
        Apply("if (sm.parser_error == error.Missing) { }"),
        Top("error { Mine } error { Mine }"),
        Top("match_kind { exact }"),
        Apply("bit<8> x = (bit<8>)sm.parser_error;"),
    ]),
    item!("string", [
        Apply("log_msg(\"a string\");"),
        Control("@entry_restriction(\"\n // the port's \\\"name\\\"\n a != 0;\n\") table t { actions = { NoAction; } }", "t.apply(); log_msg(\"two\nlines\"); hdr.h.a = 1;"),
        Top("#if 0\nisn't \"closed\n#endif"),
    ], [
        Apply("string s = \"a\"; hdr.h.a = s;"),
        Apply("log_msg(\"a\" + \"b\");"),
        Top("header x_t { string s; }"),
        Apply("log_msg(\"never ends);"),
    ]),
    item!("enum", [With("enum e_t { A, B }", "e_t e = e_t.A; if (e != e_t.B) { hdr.h.a = 1; }")], [
        With("enum e_t { A, B }", "e_t e = e_t.C;"),
        With("enum e_t { A, B }", "bit<8> x = (bit<8>)e_t.A;"),
        With("enum e_t { A, B }", "bool b = e_t.A < e_t.B;"),
        Top("enum e_t { A, A }"),
        With("enum e_t { A }", "tuple<> t = e_t.A;"),
        Top("header x_t { e_t e; } enum e_t { A }"),
    ]),
    item!("serializable enum", [
        With("enum bit<8> e_t { A = 1, B = 2 } header x_t { e_t e; }", "e_t e = (e_t)hdr.h.a; hdr.h.b = e; if (e == e_t.B) { hdr.h.a = 3; }"),
    ], [
        Top("enum bit<8> e_t { A, B = 2 }"),
        Top("enum bit<4> e_t { A = { ... } };"),
        With("enum bit<8> e_t { A = 1 }", "e_t e = 1;"),
        Top("enum bool e_t { A = true }"),
        Top("enum bit<8> e_t { A = 1, A = 2 }"),
        Top("enum f_t e_t { A = 1 }"),
        Top("enum list<_> e_t { A = 1 }"),
    ]),
    item!("struct", [
        With("struct s_t { bit<8> a; bool b; }", "s_t s = { 1, true }; s_t t = { b = false, a = 2 }; if (s == t) { hdr.h.a = s.a; }"),
        With("struct s_t { bit<8> a; bool b; } s_t f() { return { 1, ... }; } void g(in s_t s) { }", "s_t s = f(); g({ 1, ... }); if (s == { 1, ... } || s != { b = true, ... }) { hdr.h.a = 1; }"),
    ], [
        With("struct s_t { bit<8> a; bool b; }", "s_t s; if (s == { ..., 1 }) { }"),
        With("struct s_t { bit<8> a; }", "s_t s = { 1, 2 };"),
        With("struct s_t { bit<8> a; }", "s_t s; s.b = 1;"),
        Top("struct s_t { bit<8> a; bit<8> a; }"),
        Top("struct s_t { s_t inner; }"),
        With("struct s_t { bit<8> a; } struct r_t { bit<8> a; }", "s_t s = { 1 }; r_t r = s;"),
        With("struct s_t { bit<8> a; }", "s_t s = { a = 1, a = 2 };"),
        Apply("v_t v = ...;"),
    ]),
    item!("header", [
        Apply("h_t h = { 1, 2, 3, 4 }; hdr.g = h; hdr.g.setInvalid(); if (hdr.g == hdr.h || hdr.g.isValid()) { hdr.g = {#}; }"),
        With("struct part_t { bit<8> a; } header x_t { part_t p; }", "x_t x; x.setValid(); x.p.a = 1; hdr.h.a = x.p.a;"),
    ], [
        Top("header x_t { h_t h; }"),
        Apply("hdr.h.isValid() = true;"),
        Apply("hdr.h.setValid(1);"),
        Apply("metadata_t m; m.setValid();"),
        Top("header x_t { tuple<bit<8>> t; }"),
        With("header x_t { bit<8> f; } header y_t { bit<8> f; }", "x_t x; y_t y; x = y;"),
        With("header x_t { bit<8> f; } struct s_t { bit<8> f; }", "x_t x; s_t s; x = s;"),
        With("header x_t { bit<8> f; } struct s_t { bit<8> f; }", "x_t x; s_t s; s = x;"),
    ]),
    item!("header union", [
        Apply("if (hdr.u.isValid()) { hdr.u.h.a = 1; } hdr.u.h.setValid(); hdr.u.v.setInvalid(); hdr.u = {#};"),
    ], [
        Top("header_union x_t { bit<8> a; }"),
        Top("header_union x_t { tuple<bit<8>> t; }"),
        Apply("hdr.u.setValid();"),
        Top("header_union x_t { h_t a; v_t a; }"),
    ]),
    item!("header stack", [
        Apply("hdr.s[0] = hdr.h; hdr.s.push_front(1); hdr.s.pop_front(1); hdr.h.a = (bit<8>)hdr.s.size; hdr.s[hdr.h.a & 1].b = 2;"),
    ], [
        Apply("hdr.s[2].a = 1;"),
        Apply("h_t h = hdr.s[-1];"),
        Apply("hdr.s.last = { 1, 2, 3, 4 };"),
        Apply("metadata_t[2] m; metadata_t n = m.next;"),
        Apply("hdr.s.next.a = 1;"),
        Apply("hdr.s.push_front(hdr.h.a);"),
        Apply("h_t[3] t = hdr.s;"),
        Apply("hdr.h[0].a = 1;"),
    ]),
    item!("tuple", [
        Apply("tuple<bit<8>, bool> t = { 1, true }; hdr.h.a = t[0]; if (t == { 8w1, true }) { hdr.h.b = 2; } meta.t = t;"),
        With("void f(inout bit<8> x) { x = 1; } struct s_t { tuple<h_t[2], bit<8>> n; }", "meta.t[0] = 2; f(meta.t[0]); s_t s; s.n[0][hdr.h.a].b = 2; s.n[1][3:0] = 5;"),
    ], [
        Apply("tuple<bit<8>, bool> t = { 1 };"),
        Apply("tuple<bit<8>, bool> t = { 1, true }; hdr.h.a = t[2];"),
        Apply("tuple<bit<8>, bool> t = { 1, true }; hdr.h.a = t[hdr.h.b];"),
        Apply("meta.t[0] = true;"),
        With("const tuple<bit<8>, bool> k = { 1, true };", "k[0] = 2;"),
    ]),
    item!("typedef and type", [
        With("typedef bit<8> byte_t; type bit<8> id_t; typedef h_t[2] pair_t;", "byte_t b = 8w1; id_t id = (id_t)b; hdr.h.a = (bit<8>)id; pair_t p; p[0] = hdr.h;"),
        With("type bit<10> id_t; type id_t own_t; const id_t k = 0; const int n = 3; id_t f() { return 9; } struct s_t { id_t id; }", "id_t id = 3; s_t s; s.id = 2048; s.id = n; own_t own = (own_t)(id_t)10w7; if (s.id == k && f() == (id_t)own) { hdr.h.a = 1; }"),
    ], [
        With("type bit<8> id_t;", "id_t id = 8w1;"),
        With("type bit<8> id_t; void f(in id_t x) { }", "f(1);"),
        With("type bit<8> id_t;", "id_t id = 1; if (id == 1) { }"),
        With("type bit<8> id_t; type id_t own_t;", "own_t own = 1;"),
        With("type bit<8> id_t; struct s_t { id_t id; }", "s_t s = { 1 };"),
        With("type bit<8> id_t;", "for (id_t id in 1..3) { }"),
        With("type bool id_t;", "id_t id = 1;"),
        All("type bit<8> id_t; struct s_t { id_t id; }", "s_t s; action a() { } table t { key = { s.id : exact; } actions = { a; } const entries = { 1 : a(); } }", "t.apply();"),
        ParserWith("type bit<8> id_t;", "", "transition select((id_t)8w1) { 1: accept; default: reject; }"),
        With("type bit<8> id_t;", "id_t id = (id_t)8w1; id = id + id;"),
        Top("type h_t id_t;"),
        Top("type tuple<bit> id_t;"),
        Top("typedef nothing_t id_t;"),
        With("type bit<8> id_t; type bit<8> it_t;", "id_t a = (id_t)8w1; it_t b = (it_t)8w1; if (a == b) { }"),
        Top("struct one<T> { T a; } typedef one one_t;"),
        Top("type list<_> id_t;"),
        Top("enum kind_t { one, two } type kind_t own_t;"),
        Top("type error own_t;"),
    ]),
    item!("generic types", [
        With("struct two<T, U> { T a; U b; } header box<T> { T v; }", "two<bit<8>, bool> t = { 1, true }; box<bit<8>> b; b.setValid(); b.v = t.a; hdr.h.a = b.v;"),
    ], [
        With("struct two<T, U> { T a; U b; }", "two<bit<8>> t;"),
        With("struct two<T, U> { T a; U b; }", "two t;"),
        With("header box<T> { T v; }", "box<h_t> b;"),
        Top("struct two<T, T> { T a; }"),
        With("void foo<T>(in T x) { }", "foo<string>(true);"),
        ParserWith("void f<T>(in T t) { }", "", "f(p); transition accept;"),
    ]),
];

pub const EXPRESSIONS: &[Item] = &[
    item!("arithmetic", [Apply("hdr.h.a = hdr.h.a * 3 + hdr.h.b - 1; hdr.h.c = 17 / 5 % 2; hdr.h.i = -hdr.h.i;"), Apply("hdr.h.a = hdr.h.a / 4 + hdr.h.b % 8; hdr.h.a = 8w0 / hdr.h.b;")], [
        Apply("hdr.h.c = hdr.h.a + hdr.h.c;"),
        Apply("hdr.h.a = hdr.h.a + hdr.h.i;"),
        Apply("hdr.h.a = 5 / 0;"),
        Apply("hdr.h.a = 5 % -2;"),
        Apply("hdr.h.i = hdr.h.i / 8s2;"),
        Apply("hdr.h.a = 32w5 + 16w3;"),
        Apply("hdr.h.a = -true;"),
        Apply("hdr.h.a = hdr.h.a / 3;"),
        Apply("hdr.h.a = hdr.h.a % hdr.h.b;"),
        Apply("hdr.h.a /= hdr.h.b;"),
        Apply("hdr.h.a = hdr.h.a / -1;"),
        Apply("hdr.h.a = -5 % hdr.h.a;"),
    ]),
    item!("division", [
        Apply("bit<8> n = 12; bit<8> m = 5; hdr.h.a = n / m;"),
        Apply("if (false) { hdr.h.a = hdr.h.a / hdr.h.b; } hdr.h.a = 100 / 7; hdr.h.c = hdr.h.c / 1 + hdr.h.c % 1;"),
        All("control K(inout bit<8> x)(bit<8> by) { apply { x = x % by; } }", "K(16) k;", "k.apply(hdr.h.a);"),
    ], [
        Apply("bit<8> n = 3; hdr.h.a = hdr.h.b / n;"),
        Apply("bit<8> n = 3; if (hdr.h.a == 1) { n = hdr.h.a; } bit<8> m = n; hdr.h.a = m / hdr.h.b;"),
        Apply("bit<8> n; hdr.h.a = 100 % n;"),
        All("control K(inout bit<8> x)(bit<8> by) { apply { x = x % by; } }", "K(3) k;", "k.apply(hdr.h.a);"),
    ]),
    item!("saturating arithmetic", [Apply("hdr.h.a = hdr.h.a |+| 200; hdr.h.i = hdr.h.i |-| 100;")], [
        Apply("hdr.h.a = true |+| false;"),
        Top("const int k = 5 |+| 3;"),
    ]),
    item!("shifts", [Apply("hdr.h.a = hdr.h.a << 2; hdr.h.i = hdr.h.i >> hdr.h.b; hdr.h.c = 1 << 3;")], [
        Apply("hdr.h.a = hdr.h.a << -1;"),
        Apply("hdr.h.a = hdr.h.a << hdr.h.i;"),
        Apply("hdr.h.a = hdr.h.a << true;"),
        Apply("hdr.h.a <<= meta.y;"),
        Apply("hdr.h.a = 1 << hdr.h.b;"),
    ]),
    item!("bitwise operators", [Apply("hdr.h.a = ~hdr.h.a & 0xf | hdr.h.b ^ 1;")], [
        Apply("hdr.h.a = hdr.h.a & hdr.h.c;"),
        Apply("hdr.h.a = ~5;"),
    ]),
    item!("comparisons", [Apply("if (hdr.h.a < 5 && hdr.h.i >= -3 && hdr.h != hdr.g && hdr.s == hdr.s) { hdr.h.a = 1; }")], [
        Apply("if (hdr.h.a < hdr.h.c) { }"),
        Apply("if (hdr.h < hdr.g) { }"),
        Apply("if (hdr.h == meta) { }"),
        Apply("if (hdr.h.a < 5 < 6) { }"),
        Apply("h_t[3] t; if (hdr.s == t) { }"),
    ]),
    item!("slices", [Apply("hdr.h.a[3:0] = hdr.h.b[7:4]; hdr.h.c = hdr.h.c[7:0] ++ hdr.h.c[15:8]; hdr.h.a = (bit<8>)hdr.h.i[6:0];")], [
        Apply("hdr.h.a = hdr.h.a[8:1];"),
        Apply("bit<4> x = hdr.h.a[2:5];"),
        Apply("bit<4> x = hdr.h.a[hdr.h.b:0];"),
        Apply("hdr.h.a[3:0] = 8w1;"),
        Apply("bit<1> x = true[0:0];"),
    ]),
    item!("concatenation", [Apply("hdr.h.c = hdr.h.a ++ hdr.h.b; hdr.h.c = 8w1 ++ hdr.h.i;")], [
        Apply("hdr.h.c = hdr.h.a ++ 5;"),
        Apply("hdr.h.c = hdr.h.a ++ true;"),
    ]),
    item!("casts", [
        Apply("hdr.h.c = (bit<16>)hdr.h.a; hdr.h.i = (int<8>)hdr.h.a; hdr.h.i = (int<8>)(int<4>)(bit<4>)hdr.h.a; bool b = (bool)hdr.h.a[0:0]; bit<1> c = (bit<1>)b;"),
    ], [
        Apply("hdr.h.c = hdr.h.a;"),
        Apply("hdr.h.c = (bit<16>)hdr.h.i;"),
        Apply("bool b = (bool)hdr.h.a;"),
        Apply("hdr.h.a = (bit<8>)hdr.h;"),
        Apply("h_t h = (h_t)5;"),
        Apply("bit<32> x = bit<32>(0);"),
        Apply("bit<1> b = (bit<1>){ 0 };"),
        With("type bit<4> a_t;", "a_t a = (a_t)hdr.h.a;"),
    ]),
    item!("conditional", [Apply("hdr.h.a = hdr.h.b == 1 ? 8w5 : hdr.h.a; hdr.h.c = meta.y ? 1 : 2;")], [
        Apply("hdr.h.a = hdr.h.b ? 8w1 : 8w2;"),
        Apply("hdr.h.a = meta.y ? 8w1 : 16w2;"),
        Apply("hdr.h.a = meta.y ? 8w1 : true;"),
    ]),
    item!("structure-valued and list expressions", [
        With("struct s_t { bit<8> a; h_t h; }", "s_t s = { a = 1, h = { 1, 2, 3, 4 } }; s = (s_t){ 2, ... }; hdr.g = (h_t){ a = 1, ... }; hdr.s = { { 1, 2, 3, 4 }, {#} };"),
    ], [
        With("struct s_t { bit<8> a; bool b; }", "s_t s = { a = 1 };"),
        With("struct s_t { bit<8> a; bool b; }", "s_t s = { a = 1, c = true };"),
        With("struct s_t { bit<8> a; bool b; }", "s_t s = { 1, b = true };"),
        Apply("bit<8> x = { ... };"),
        Apply("h_t h = { 1, 2 };"),
        With("struct s_t { bit<8> a; }", "s_t s = { ..., 1 };"),
        Apply("bool b = {#};"),
    ]),
    item!("literals", [Apply("hdr.h.a = 0b1010_1010; hdr.h.a = 0o17; hdr.h.c = 16w0xbe_ef; hdr.h.i = -8s1;")], [
        Apply("hdr.h.a = 0xg;"),
        Apply("hdr.h.a = 0b2;"),
        Apply("hdr.h.a = 8w;"),
        Apply("hdr.h.a = 1e3;"),
    ]),
    item!("sizes", [
        Apply("hdr.h.c = (bit<16>)hdr.h.minSizeInBits(); hdr.h.a = (bit<8>)hdr.v.maxSizeInBytes();"),
        Top("const int k = h_t.minSizeInBytes();"),
    ], [
        Apply("hdr.h.a = hdr.h.a.sizeInAcres();"),
        Apply("hdr.h.c = (bit<16>)meta.x.isValid();"),
    ]),
    item!("names", [Control("bit<8> x = 1;", "bit<8> y = x; { bit<8> x = 2; y = x; } hdr.h.a = y;")], [
        Apply("hdr.h.a = nothing;"),
        Apply("hdr.h.nothing = 1;"),
        Apply("bit<8> x; bit<8> x;"),
        Apply("x = 1; bit<8> x;"),
        Apply("hdr.h.a = .x; bit<8> x;"),
        Apply("hdr.h.a = bit;"),
        Apply("hdr.h.a = h_t;"),
    ]),
];

pub const STATEMENTS: &[Item] = &[
    item!("assignment", [Apply("hdr.h.a = 1; hdr.h = hdr.g; hdr.s[0] = hdr.s[1]; (hdr.h.a) = 2;")], [
        Apply("5 = hdr.h.a;"),
        Apply("hdr.h.a + 1 = 5;"),
        With("const bit<8> k = 1;", "k = 2;"),
        Apply("hdr.h.a = true;"),
        Apply("hdr.h.a == 1;"),
    ]),
    item!("compound assignment", [Apply("hdr.h.a += 1; hdr.h.a |-|= 2; hdr.h.c <<= 3; hdr.h.a[3:0] ^= 0xf; hdr.h.a %= 4;")], [
        Apply("hdr.h.a += hdr.h.c;"),
        Apply("meta.y += 1;"),
        Apply("5 += 1;"),
    ]),
    item!("if", [Apply("if (meta.y) hdr.h.a = 1; else if (hdr.h.b == 1) { } else ;")], [
        Apply("if meta.y { }"),
        Apply("if (5) { }"),
        Apply("else { }"),
    ]),
    item!("switch on action_run", [
        Control("action a() { } action b() { } table t { actions = { a; b; } default_action = a; }", "switch (t.apply().action_run) { a: { hdr.h.a = 1; } b: default: { hdr.h.a = 2; } }"),
    ], [
        Control("action a() { } action b() { } table t { actions = { a; } default_action = a; }", "switch (t.apply().action_run) { b: { } }"),
        Control("action a() { } table t { actions = { a; } default_action = a; }", "switch (t.apply().action_run) { a: { } a: { } }"),
        Control("action a() { } action b() { } table t { actions = { a; b; } default_action = a; }", "switch (t.apply().action_run) { default: { } b: { } }"),
        Control("action a() { } table t { actions = { a; } default_action = a; } action c() { switch (t.apply().action_run) { a: { } } }", "c();"),
        Control("action a() { } table t { actions = { a; } default_action = a; }", "switch (t.apply().action_run) { default: { } default: { } }"),
    ]),
    item!("switch on expressions", [
        With("enum e_t { A, B }", "switch (hdr.h.a) { 1: 2: { hdr.h.b = 1; } 8w3: { } default: { } } e_t e = e_t.A; switch (e) { e_t.A: { hdr.h.a = 1; } e_t.B: { } }"),
        Control("action a() { switch (hdr.h.a) { 1: { hdr.h.b = 1; } default: { } } } table t { actions = { a; } default_action = a; }", "t.apply(); a();"),
    ], [
        Apply("switch (hdr.h.a) { 1: { } 8w1: { } }"),
        Apply("switch (hdr.h.a) { hdr.h.b: { } }"),
        Apply("switch (hdr.h.a) { true: { } }"),
        Apply("switch (hdr.h) { default: { } }"),
        With("enum e_t { A, B }", "e_t e = e_t.A; switch (e) { e_t.A: { } e_t.A: { } }"),
    ]),
    item!("for", [
        Apply("for (bit<8> i = 0; i < 4; i = i + 1) { if (i == 2) { continue; } hdr.h.a = hdr.h.a + i; } for (bit<8> i in 1..3) { if (i == hdr.h.b) { break; } } for (h_t h in hdr.s) { hdr.h.a += h.a; }"),
    ], [
        Apply("for (bit<8> i = 0; i; i = i + 1) { }"),
        Apply("break;"),
        Apply("continue;"),
        Apply("for (bit<8> i in hdr.h) { }"),
        Parser("for (bit<8> i in 0..3) { meta.x = true; } transition accept;"),
    ]),
    item!("return and exit", [
        All("bit<8> f(in bit<8> x) { if (x == 1) { return 2; } return 3; }", "action a() { if (meta.y) { return; } exit; }", "a(); if (f(1) == 2) { return; } exit;"),
    ], [
        Apply("return 5;"),
        Top("bit<8> f() { return; }"),
        Top("bit<8> f() { return true; }"),
        Top("bit<8> f(in bool b) { if (b) { return 1; } }"),
        Top("void f() { return 1; }"),
        Parser("return; transition accept;"),
        Parser("exit; transition accept;"),
    ]),
    item!("blocks", [Apply("{ } ; { bit<8> x = 1; hdr.h.a = x; } ;;")], [
        Apply("{ bit<8> x = 1; } hdr.h.a = x;"),
        Apply("{ hdr.h.a = 1;"),
        Apply("hdr.h.a = 1"),
    ]),
];

pub const CALLS: &[Item] = &[
    item!("functions", [
        With("bit<8> inc(in bit<8> x) { return x + 1; } void swap(inout bit<8> a, inout bit<8> b) { bit<8> t = a; a = b; b = t; } T same<T>(in T x) { return x; }", "hdr.h.a = inc(same(hdr.h.b)); swap(hdr.h.a, hdr.h.b); hdr.h.a = same<bit<8>>(1);"),
    ], [
        With("bit<8> inc(in bit<8> x) { return x + 1; }", "hdr.h.a = inc();"),
        With("bit<8> inc(in bit<8> x) { return x + 1; }", "hdr.h.a = inc(1, 2);"),
        With("bit<8> inc(in bit<8> x) { return x + 1; }", "hdr.h.a = inc(true);"),
        With("bit<8> inc(in bit<8> x) { return x + 1; }", "meta.y = inc(1);"),
        Top("bit<8> f(in bit<8> x) { return f(x); }"),
        Top("void f(in bit<8> x) { x = 1; }"),
        Top("void f(bit<8> x, bit<8> x) { }"),
        Top("int f() { return 1; }"),
        Top("string f() { return \"x\"; }"),
        All("void f<T>(T t) { } control K() { apply { } }", "K() k;", "f(k);"),
    ]),
    item!("directions", [
        With("void f(in bit<8> a, out bit<8> b, inout bit<8> c) { b = a; c = c + a; }", "f(hdr.h.a, hdr.h.b, hdr.h.a);"),
    ], [
        With("void f(out bit<8> b) { b = 1; }", "f(5);"),
        With("void f(inout bit<8> b) { b = 1; }", "f(hdr.h.a + 1);"),
        With("void f(inout bit<8> b) { b = 1; }", "f(hdr.h.c);"),
        With("const bit<8> k = 1; void f(inout bit<8> b) { b = 1; }", "f(k);"),
        With("void f(inout bit<8> b) { b = 1; } control K(in bit<8> x) { apply { f(x); } }", "K.apply(hdr.h.a);"),
        Control("action a(int x) { }", ""),
        Control("action a(string x) { }", ""),
    ]),
    item!("named and optional arguments", [
        With("bit<8> f(in bit<8> a, in bit<8> b = 2) { return a - b; }", "hdr.h.a = f(b = 1, a = 5); hdr.h.a = f(1); hdr.h.a = f(a = 3);"),
    ], [
        With("bit<8> f(in bit<8> a, in bit<8> b) { return a; }", "hdr.h.a = f(a = 1, 2);"),
        With("bit<8> f(in bit<8> a, in bit<8> b) { return a; }", "hdr.h.a = f(a = 1, a = 2);"),
        With("bit<8> f(in bit<8> a, in bit<8> b) { return a; }", "hdr.h.a = f(a = 1, c = 2);"),
        With("bit<8> f(in bit<8> a, in bit<8> b) { return a; }", "hdr.h.a = f(b = 1);"),
        Top("bit<8> f(in bit<8> a, out bit<8> b = 5) { b = 1; return a; }"),
        Top("bit<8> g() { return 1; } bit<8> f(in bit<8> a = g()) { return a; }"),
        Top("extern void f(@optional in bit<8> a = 1);"),
        Top("control K(in bit<8> a = 1);"),
    ]),
    item!("overloading", [
        With("bit<8> f(in bit<8> a) { return a; } bit<8> f(in bit<8> a, in bit<8> b) { return b; }", "hdr.h.a = f(1); hdr.h.b = f(1, 2);"),
        Control("action hash() { hash(hdr.h.a, HashAlgorithm.crc16, 8w0, { }, 8w7); } action truncate(bit<32> n) { truncate(n); }", "hash(); truncate(5);"),
    ], [
        Control("action hash() { }", "hash(hdr.h.a, HashAlgorithm.crc16, 8w0, { }, 8w7);"),
        Control("action a() { a(); }", "a();"),
        Top("bit<8> f(in bit<8> a) { return a; } bit<8> f(in bit<8> a) { return a; }"),
        With("bit<8> f(in bit<8> a) { return a; } bit<8> f(in bit<8> a, in bit<8> b) { return b; }", "hdr.h.a = f(1, 2, 3);"),
    ]),
    item!("actions", [
        Control("action a(bit<8> x) { hdr.h.a = x; } action b(inout bit<8> f, bit<8> x) { f = x; }", "a(5); b(hdr.h.a, 3);"),
    ], [
        Control("action a(bit<8> x) { hdr.h.a = x; }", "a();"),
        Control("action a(bit<8> x, in bit<8> y) { hdr.h.a = x; }", "a(1, 2);"),
        Control("action a() { return 5; }", "a();"),
        Control("action a() { b(); } action b() { a(); }", "a();"),
        ParserWith("action a(out bit<8> x) { x = 1; }", "", "a(meta.x); transition accept;"),
        Control("action a(metadata_t m) { } table t { actions = { a; } }", "t.apply();"),
        All("control K() { apply { } }", "K() k; action a() { k.apply(); }", "a();"),
        Control("action a(packet_in p) { }", ""),
        Control("action a() { } table t { actions = { a; } } action b() { t.apply(); }", "b();"),
    ]),
    item!("controls and their constructors", [
        With("control K(inout bit<8> x)(bit<8> by, bool twice) { apply { x = x + by; if (twice) { x = x + by; } } } control L(inout bit<8> x) { K(1, false) one; K(by = 2, twice = true) two; apply { one.apply(x); two.apply(x); } }", "L.apply(hdr.h.a);"),
        All("control K(inout bit<8> x)(bit<8> by) { apply { x = x + by; } }", "K(3) k;", "k.apply(hdr.h.a); k.apply(x = hdr.h.b);"),
        All("control T(inout bit<8> x); control K(inout bit<8> y) { apply { y = 1; } } control L(inout bit<8> z)(T t) { apply { t.apply(z); } }", "K() k; L(k) l;", "l.apply(hdr.h.a);"),
        With("control K(inout bit<8> x)(bit<8> by = 1) { apply { x = x + by; } }", "K.apply(hdr.h.a);"),
        All("control K<T>(inout T x, in T y) { T z; apply { z = x; x = y; } }", "K<bit<8>>() k; K<h_t>() kh;", "k.apply(hdr.h.a, hdr.h.b); kh.apply(hdr.h, hdr.g); K<bit<16>>.apply(hdr.h.c, 7);"),
        ParserWith("parser Q<T>(inout T h, in T z) { state start { h = z; transition accept; } }", "Q<bit<8>>() q;", "q.apply(hdr.h.a, 5); transition accept;"),
    ], [
        All("control K<T>(inout T x, in T y) { apply { x = y; } }", "K<bit<8>>() k;", "k.apply(hdr.h.a, hdr.h.c);"),
        All("control K<T>(inout T x) { apply { x = x + 1; } }", "K<bit<8>>() k;", "k.apply(hdr.h.a);"),
        All("control K(inout bit<8> x)(bit<8> by) { apply { x = x + by; } }", "K() k;", "k.apply(hdr.h.a);"),
        All("control K(inout bit<8> x)(bit<8> by) { apply { x = x + by; } }", "K(true) k;", "k.apply(hdr.h.a);"),
        All("control K(inout bit<8> x)(bit<8> by) { apply { x = x + by; } }", "bit<8> n = 1; K(n) k;", "k.apply(hdr.h.a);"),
        All("control K(inout bit<8> x) { apply { } }", "K() k;", "k.apply();"),
        All("control K(inout bit<8> x) { apply { } }", "K() k;", "k(hdr.h.a);"),
        With("control K(inout bit<8> x) { K() k; apply { k.apply(x); } }", "K.apply(hdr.h.a);"),
        All("control K(inout bit<8> x) { apply { } }", "action a() { K() k; }", "a();"),
        Top("control K<p>(inout bit<32> p)(bit<32> p) { apply { } }"),
        Control("nothing() n;", ""),
        Top("parser Q(packet_in p) { state start { transition accept; } } control K()(Q q) { apply { } }"),
        Top("control K() { apply { } action a() { } }"),
    ]),
    item!("evaluation order", [
        With("bit<8> f(inout bit<8> x) { x = x + 1; return x; }", "hdr.h.a = hdr.h.a + f(hdr.h.a); if (f(hdr.h.a) == 1 && f(hdr.h.b) == 2) { f(hdr.h.a); }"),
    ], [
        With("void f(inout bit<8> x) { }", "hdr.h.a = f(hdr.h.a);"),
    ]),
    item!("constants", [
        With("const bit<8> k = 5 + 3; const tuple<bit<8>, bool> t = { 1, true }; const h_t h = { 1, 2, 3, 4 };", "hdr.h.a = k + t[0] + h.a;"),
    ], [
        Control("bit<8> x = 1; const bit<8> k = x;", ""),
        Top("const bit<8> k;"),
        Top("const bit<8> k = 1; const bit<8> k = 2;"),
        Top("const bit<8> k = true;"),
        Top("bit<8> x = 1;"),
        Top("const bit<8> a = b; const bit<8> b = a;"),
        Top("extern X { X(); } const X x = X();"),
        Top("bit<8> x;"),
    ]),
    item!("control-plane names", [
        Control("@name(\".a\") action a() { } @name(\".b\") action b() { } @name(\".a\") table t { actions = { a; b; } } counter(4, CounterType.bytes) c; @name(\".c\") counter(4, CounterType.bytes) d;", "t.apply(); c.count(0); d.count(0);"),
        All("action f(inout bit<8> x) { x = 1; }", "table t { actions = { f(hdr.h.a); } } table u { actions = { f(hdr.h.b); } }", "t.apply(); u.apply(); f(hdr.h.a);"),
        All("control K(inout headers_t hdr) { register<bit<8>>(4) r; table t { actions = { NoAction; } } apply { t.apply(); r.write(0, 1); } }", "K() k; K() l;", "k.apply(hdr); l.apply(hdr); K.apply(hdr); K.apply(hdr);"),
        All("control K(inout bit<8> x)(register<bit<8>> r) { apply { r.read(x, 0); } }", "K(register<bit<8>>(4)) k; K(register<bit<8>>(4)) l;", "k.apply(hdr.h.a); l.apply(hdr.h.a);"),
        ParserWith("parser Q(packet_in p, out h_t h) { value_set<bit<8>>(4) vs; state start { p.extract(h); transition select(h.a) { vs: accept; default: reject; } } }", "", "Q.apply(p, hdr.g); Q.apply(p, hdr.h); transition accept;"),
    ], [
        All("action top() { }", "@name(\".top\") action a() { hdr.h.a = 1; } table t { actions = { a; top; } }", "t.apply();"),
        Control("@name(\".a\") action a() { } @name(\".a\") action b() { } table t { actions = { a; } }", "t.apply(); b();"),
        Control("table t { actions = { NoAction; } } @name(\"t\") table u { actions = { NoAction; } }", "t.apply(); u.apply();"),
        All("control K() { @name(\".r\") register<bit<8>>(4) r; apply { r.write(0, 1); } }", "K() k; K() l;", "k.apply(); l.apply();"),
        Control("register<bit<8>>(4) r; @name(\"r\") register<bit<8>>(4) s;", "r.write(0, 1); s.write(0, 1);"),
        Control("@name(\"c\") counter(4, CounterType.bytes) a; @name(\"c\") counter(4, CounterType.bytes) b;", "a.count(0); b.count(0);"),
        Control("@name(\"m\") meter(4, MeterType.bytes) a; @name(\"m\") meter(4, MeterType.bytes) b;", "a.execute_meter(0, hdr.h.a); b.execute_meter(0, hdr.h.a);"),
        ParserWith("", "value_set<bit<8>>(4) vs; @name(\"vs\") value_set<bit<8>>(4) other;", "transition select(hdr.h.a) { vs: accept; other: reject; default: accept; }"),
    ]),
    item!("annotations", [
        Control("@name(\"x.y\") @brief(\"b\") @mine[1, \"two\", true] @other[k=1, l=\"m\"] @free(any (thing) at all) action a() { } @hidden @id(5) table t { actions = { @defaultonly a; } default_action = a; }", "t.apply();"),
        Control("@mine @mine[1] action a() { }", "a();"),
        Control("@free(that's $ # ? \\ ` é) action a() { }", "a();"),
    ], [
        Control("@name(5) action a() { }", "a();"),
        Control("@id(\"x\") table t { actions = { NoAction; } }", "t.apply();"),
        Control("@mine[1, k=2] action a() { }", "a();"),
        Control("@free(unbalanced action a() { }", "a();"),
        Control("@mine[k=4<H] action a() { }", "a();"),
        Control("@mine[k=1, k=2] action a() { }", "a();"),
        Control("action a() { hdr.h.a = 1; } @name(\"a\") action b() { hdr.h.a = 2; } table t { actions = { a; b; } }", "t.apply();"),
        With("control K() { @name(\".t\") table t { actions = { NoAction; } } apply { t.apply(); } }", "K.apply(); K.apply();"),
        All("@p4runtime_translation(\"u\", bit<5 + 3>) type bit<8> id_t;", "action a(id_t i) { hdr.h.a = (bit<8>)i; } table t { actions = { a; } key = { hdr.h.b: exact; } }", "t.apply();"),
        Control("@mine(1) @mine[1] action a() { }", "a();"),
    ]),
    item!("extern objects with abstract methods", [
        Top("extern Runner { Runner(); abstract bit<8> run(in bit<8> x); }"),
    ], [
        Control("register<bit<8>>(4) r = { void run() { } };", ""),
        Top("control ctr(); control c() { apply { } } package top(ctr _c); top(c()) again = { error a() { } };"),
        Top("extern X { void X(); }"),
        Top("extern Runner { Runner(); abstract bit<8> run(in bit<8> x); } control K()(Runner r) { apply { } } control L() { K(Runner()) k; apply { k.apply(); } }"),
        Top("extern Runner { Runner(); bit<8> run(Runner other); }"),
    ]),
];

pub const PARSERS: &[Item] = &[
    item!("states and transitions", [
        Parser("transition next; } state next { p.extract(hdr.g); transition accept;"),
        Parser("transition next; } state next { p.advance(8); hdr.h.a = 1; transition next;"),
    ], [
        Parser("transition nowhere;"),
        Parser("transition accept; } state accept { transition accept;"),
        Parser("transition accept; } state start { transition accept;"),
        Parser("hdr.h.a = 1"),
        ParserWith("parser Q(packet_in p) { state first { transition accept; } }", "Q() q;", "q.apply(p); transition accept;"),
        Parser("if (hdr.h.a == 1) { transition accept; } transition accept;"),
        Parser("transition one; } state one { hdr.h.a = 1; transition two; } state two { transition one;"),
        Parser("transition one; } state one { transition one;"),
    ]),
    item!("select", [
        Parser("transition select(hdr.h.a, hdr.h.c) { (1, 5): accept; (0x10 &&& 0xf0, 1..5): reject; (_, 7): accept; default: accept; }"),
        Parser("transition select(hdr.h.a) { 1: accept; 2 &&& 3: accept; 4..7: accept; _: reject; }"),
        Parser("transition select() { default: accept; }"),
    ], [
        Parser("transition select() { 1: accept; }"),
        Parser("transition select(hdr.h.a) { (1, 2): accept; }"),
        Parser("transition select(hdr.h.a) { true: accept; }"),
        Parser("transition select(hdr.h.a) { hdr.h.b: accept; }"),
        Parser("transition select(hdr.h) { default: accept; }"),
        Parser("transition select(hdr.h.a, hdr.h.b) { (1, 2, 3): accept; }"),
        Parser("transition select(hdr.h.a) { 1: nowhere; }"),
        Parser("transition select(hdr.h.a) { 7..4: accept; }"),
        ParserWith("bit<8> f() { return 1; }", "", "transition select(hdr.h.a) { f(): accept; default: reject; }"),
    ]),
    item!("value sets", [
        ParserWith("", "value_set<bit<8>>(4) vs;", "transition select(hdr.h.a) { vs: accept; default: reject; }"),
        ParserWith("struct k_t { bit<8> a; bit<16> c; }", "value_set<k_t>(4) vs;", "transition select(hdr.h.a, hdr.h.c) { vs: accept; default: reject; }"),
        ParserWith("struct in_t { bit<8> a; bit<8> b; } struct k_t { bit<16> c; in_t i; }", "value_set<k_t>(4) vs;", "transition select(hdr.h.c, hdr.h.a, hdr.h.b) { vs: accept; default: reject; }"),
        ParserWith("struct k_t { @match(ternary) bit<8> a; @match(exact) bit<8> b; }", "value_set<k_t>(4) vs;", "transition select(hdr.h.a, hdr.h.b) { vs: accept; default: reject; }"),
    ], [
        ParserWith("", "value_set<bit<16>>(4) vs;", "transition select(hdr.h.a) { vs: accept; }"),
        ParserWith("", "bit<8> n; value_set<bit<8>>(n) vs;", "transition select(hdr.h.a) { vs: accept; }"),
        Control("value_set<bit<8>>(4) vs;", ""),
        ParserWith("struct in_t { bit<8> a; bit<8> b; } struct k_t { bit<16> c; in_t i; }", "value_set<k_t>(4) vs;", "transition select(hdr.h.c, hdr.h.a) { vs: accept; default: reject; }"),
        ParserWith("struct k_t { h_t h; }", "value_set<k_t>(4) vs;", "transition select(hdr.h.a) { vs: accept; default: reject; }"),
        ParserWith("struct k_t { @match(nearest) bit<8> a; }", "value_set<k_t>(4) vs;", "transition select(hdr.h.a) { vs: accept; default: reject; }"),
    ]),
    item!("extract", [
        Parser("p.extract(hdr.s.next); p.extract(hdr.v, 8); p.extract<h_t>(_); transition accept;"),
    ], [
        Parser("p.extract(hdr.v); transition accept;"),
        Parser("p.extract(meta); transition accept;"),
        Parser("p.extract(hdr.h.a); transition accept;"),
        Parser("p.extract(hdr.h, 8); transition accept;"),
        Parser("p.extract(_); transition accept;"),
        Apply("packet_in p; p.extract(hdr.h);"),
    ]),
    item!("lookahead, advance and length", [
        Parser("meta.x = p.lookahead<bit<8>>(); h_t ahead = p.lookahead<h_t>(); meta.x = ahead.a; p.advance(8); transition select(p.lookahead<bit<4>>()) { 0: accept; default: reject; }"),
        ParserWith("struct l_t { bit<8> a; h_t[2] s; }", "", "l_t l = p.lookahead<l_t>(); meta.x = l.s[1].a; transition accept;"),
    ], [
        Parser("meta.x = p.lookahead<bit<16>>(); transition accept;"),
        Parser("meta.x = p.lookahead(); transition accept;"),
        Parser("p.advance(true); transition accept;"),
        Parser("v_t v = p.lookahead<v_t>(); transition accept;"),
    ]),
    item!("verify", [
        ParserWith("error { Odd }", "", "verify(hdr.h.a == 0, error.Odd); transition accept;"),
    ], [
        Parser("verify(hdr.h.a, error.NoMatch); transition accept;"),
        Parser("verify(true, 5); transition accept;"),
        Apply("verify(true, error.NoMatch);"),
    ]),
    item!("stacks", [
        Parser("transition loop; } state loop { p.extract(hdr.s.next); meta.x = (bit<8>)hdr.s.lastIndex; transition select(hdr.s.last.a) { 0: loop; default: accept; }"),
        Parser("transition select(hdr.s.next.a) { 0: accept; default: reject; }"),
    ], [
        Parser("p.extract(hdr.s.last); transition accept;"),
        Parser("p.extract(hdr.s); transition accept;"),
        Parser("hdr.s.lastIndex = 1; transition accept;"),
        Parser("p.extract(hdr.h.next); transition accept;"),
    ]),
    item!("sub-parsers", [
        ParserWith("parser Q(packet_in p, out h_t h)(bit<8> k) { state start { p.extract(h); transition select(h.a) { k: accept; default: reject; } } }", "Q(5) q;", "q.apply(p, hdr.g); transition accept;"),
    ], [
        ParserWith("parser Q(packet_in p, out h_t h) { state start { p.extract(h); transition accept; } }", "Q() q;", "q.apply(p); transition accept;"),
        All("parser Q(packet_in p, out h_t h) { state start { p.extract(h); transition accept; } }", "Q() q;", ""),
        ParserWith("parser Q(packet_in p) { Q() q; state start { q.apply(p); transition accept; } }", "Q() q;", "q.apply(p); transition accept;"),
        ParserWith("control K() { apply { } }", "K() k;", "k.apply(); transition accept;"),
    ]),
];

pub const TABLES: &[Item] = &[
    item!("keys", [
        Control("table t { key = { hdr.h.a: exact; hdr.h.c: lpm; hdr.h.isValid(): exact; hdr.h.b + 1: exact @name(\"b1\"); hdr.h.c[3:0]: ternary; } actions = { NoAction; } }", "t.apply();"),
        Control("table t { key = { hdr.h.a: range; hdr.h.b: optional; hdr.h.c: ternary; } actions = { NoAction; } }", "t.apply();"),
        Control("table u { key = { hdr.h.a: exact; } actions = { NoAction; } } table t { key = { u.apply().hit: exact @name(\"u\"); } actions = { NoAction; } }", "t.apply();"),
    ], [
        Control("table t { key = { hdr.h.a: nearest; } actions = { NoAction; } }", "t.apply();"),
        Control("table t { key = { hdr.h.a: lpm; hdr.h.c: lpm; } actions = { NoAction; } }", "t.apply();"),
        Control("table t { key = { hdr.h: exact; } actions = { NoAction; } }", "t.apply();"),
        Control("table t { key = { hdr.h.a: exact; } key = { hdr.h.b: exact; } actions = { NoAction; } }", "t.apply();"),
        Control("table t { key = { hdr.h.a; } actions = { NoAction; } }", "t.apply();"),
        Control("table t { key = { hdr.v.v: exact; } actions = { NoAction; } }", "t.apply();"),
        Control("table t { key = { t.apply().hit: exact @name(\"t\"); } actions = { NoAction; } }", "t.apply();"),
    ]),
    item!("actions", [
        Control("action a(inout bit<8> f, bit<8> x) { f = x; } table t { key = { hdr.h.a: exact; } actions = { a(hdr.h.b); @tableonly NoAction; } default_action = a(hdr.h.b, 5); }", "t.apply();"),
    ], [
        Control("table t { key = { hdr.h.a: exact; } }", "t.apply();"),
        Control("table t { actions = { nothing; } }", "t.apply();"),
        Control("action a(inout bit<8> f) { f = 1; } table t { actions = { a; } }", "t.apply();"),
        Control("action a(in bit<8> x) { } table t { key = { hdr.h.a: exact; } actions = { a(1); } const entries = { 1: a(2); } }", "t.apply();"),
        Control("action a(in bit<8> x) { } table t { actions = { a(1); } default_action = a(2); }", "t.apply();"),
        Control("action a() { } table t { key = { hdr.h.a: exact; } actions = { a; } } const entries = { 1: a(); }", "t.apply();"),
        Control("action a() { } table t { key = { hdr.h.a: exact; } actions = { @defaultonly a; } const entries = { 1: a(); } }", "t.apply();"),
        Control("action a(inout bit<8> f, bit<8> x) { f = x; } table t { actions = { a(hdr.h.a, 0); } default_action = a(hdr.h.a, 0); }", "t.apply();"),
        Control("action a() { } table t { actions = { a; a; } }", "t.apply();"),
        Control("action a() { } table t { actions = { hdr; } }", "t.apply();"),
    ]),
    item!("default actions", [
        Control("action a(in bit<8> v) { hdr.h.a = v; } table t { actions = { a(meta.y ? hdr.h.b : (bit<8>)hdr.h.i); } default_action = a(meta.y ? hdr.h.b : (bit<8>)hdr.h.i); }", "t.apply();"),
        Control("action a(bit<8> x) { hdr.h.a = x; } table t { actions = { a; @defaultonly NoAction; } const default_action = a(5); }", "t.apply();"),
    ], [
        Control("action a() { } action b() { } table t { actions = { a; } default_action = b; }", "t.apply();"),
        Control("action a(bit<8> x) { hdr.h.a = x; } table t { actions = { a; } default_action = a; }", "t.apply();"),
        Control("action a(bit<8> x) { hdr.h.a = x; } table t { actions = { a; } default_action = a(hdr.h.b); }", "t.apply();"),
        Control("action a() { } table t { actions = { @tableonly a; } default_action = a; }", "t.apply();"),
        Control("action a() { } table t { actions = { a; } default_action = a; default_action = a; }", "t.apply();"),
        Control("action a(in bit<16> v) { hdr.h.c = v; } table t { actions = { a((bit<16>)hdr.h.a); } default_action = a((bit<16>)(bit<4>)hdr.h.a); }", "t.apply();"),
        Control("table t { default_action = NoAction; actions = { NoAction; } }", "t.apply();"),
    ]),
    item!("priorities", [
        Control("action a() { } table t { key = { hdr.h.a: exact; hdr.h.c: range; } actions = { a; } priority_delta = 3; entries = { priority = 9: (1, 5): a(); (2, 5): a(); (3, 5): a(); } }", "t.apply();"),
        Control("action a() { } table t { key = { hdr.h.a: optional; } actions = { a; } largest_priority_wins = false; const entries = { 1: a(); _: a(); } }", "t.apply();"),
    ], [
        Control("table t { key = { hdr.h.a: ternary; } actions = { NoAction; } priority_delta = 0; entries = { priority = 8: 1: NoAction(); } }", "t.apply();"),
        Control("table t { key = { hdr.h.a: ternary; } actions = { NoAction; } priority_delta = true; entries = { priority = 8: 1: NoAction(); } }", "t.apply();"),
        Control("table t { key = { hdr.h.a: ternary; } actions = { NoAction; } priority_delta = hdr.h.b; entries = { priority = 8: 1: NoAction(); } }", "t.apply();"),
        Control("table t { key = { hdr.h.a: ternary; } actions = { NoAction; } largest_priority_wins = 3; entries = { priority = 8: 1: NoAction(); } }", "t.apply();"),
        Control("table t { key = { hdr.h.a: ternary; } actions = { NoAction; } entries = { priority = (hdr.h.a): 1: NoAction(); } }", "t.apply();"),
    ]),
    item!("entries", [
        Control("action a(bit<8> x) { hdr.h.a = x; } table t { key = { hdr.h.a: exact; hdr.h.c: ternary; } actions = { a; } const entries = { (1, 5): a(1); (2, 0x10 &&& 0xf0): a(2); (3, _): a(3); } }", "t.apply();"),
        Control("action a(bit<8> x) { hdr.h.a = x; } table t { key = { hdr.h.c: ternary; } actions = { a; } largest_priority_wins = false; priority_delta = 10; entries = { const priority = 10: 5: a(1); 6: a(2); priority = 100: _: a(2); } }", "t.apply();"),
        Control("action a(bit<8> x) { hdr.h.a = x; } table t { key = { hdr.h.c: ternary; } actions = { a; } const entries = { { 1 }: a(1); { 2 }: a(2); } }", "t.apply();"),
        Control("table t { key = { hdr.h.a: lpm; } actions = { NoAction; } const entries = { 0x10 &&& 0xf0: NoAction(); 0x10 &&& 0xff: NoAction(); _: NoAction(); } }", "t.apply();"),
        Control("table t { key = { hdr.h.a: ternary; } actions = { NoAction; } const entries = { 1: NoAction(); 1: NoAction(); } }", "t.apply();"),
        Control("table t { key = { hdr.h.a: optional; hdr.h.b: exact; hdr.h.c: range; } actions = { NoAction; } const entries = { (8w3 &&& 0xff, 4 &&& 0xff, 5 &&& 0xffff): NoAction(); } }", "t.apply();"),
    ], [
        Control("table t { key = { hdr.h.a: optional; } actions = { NoAction; } const entries = { 8w3 &&& 0xfe: NoAction(); } }", "t.apply();"),
        Control("action a() { } table t { actions = { a; } default_action = a; entries = { _: a; } }", "t.apply();"),
        Control("action a() { } table t { key = { hdr.h.a: exact; } actions = { a; } const entries = { (1, 2): a(); } }", "t.apply();"),
        Control("action a() { } table t { key = { hdr.h.a: exact; } actions = { a; } const entries = { true: a(); } }", "t.apply();"),
        Control("action a() { } table t { key = { hdr.h.a: exact; } actions = { a; } const entries = { 1 &&& 3: a(); } }", "t.apply();"),
        Control("action a() { } table t { key = { hdr.h.a: exact; } actions = { a; } const entries = { 1: b(); } }", "t.apply();"),
        Control("action a(bit<8> x) { } table t { key = { hdr.h.a: exact; } actions = { a; } const entries = { 1: a(); } }", "t.apply();"),
        Control("action a() { } table t { key = { hdr.h.a: exact; } actions = { a; } const entries = { hdr.h.b: a(); } }", "t.apply();"),
        Control("action a() { } table t { key = { hdr.h.a: lpm; } actions = { a; } const entries = { 1 &&& 0x0f: a(); } }", "t.apply();"),
        Control("table t { key = { hdr.h.a: exact; hdr.h.c: lpm; } actions = { NoAction; } entries = { priority = 1: (1, 2): NoAction(); } }", "t.apply();"),
        Control("table t { key = { hdr.h.a: exact; hdr.h.b: exact; } actions = { NoAction; } const entries = { (1, 2): NoAction(); (2, 1): NoAction(); (1, 2): NoAction(); } }", "t.apply();"),
        Control("table t { key = { hdr.h.a: lpm; } actions = { NoAction; } entries = { 0x10 &&& 0xf0: NoAction(); 0x15 &&& 0xf0: NoAction(); } }", "t.apply();"),
        Control("table t { key = { hdr.h.a: ternary; } actions = { NoAction; } entries = { 1: NoAction(); priority = 1: 2: NoAction(); } }", "t.apply();"),
        Control("table t { key = { hdr.h.a: ternary; } actions = { NoAction; } priority_delta = 10; entries = { priority = 5: 1: NoAction(); 2: NoAction(); } }", "t.apply();"),
        Control("table t { entries = { 1: NoAction(); } key = { hdr.h.a: ternary; } actions = { NoAction; } }", "t.apply();"),
    ]),
    item!("apply", [
        Control("table t { key = { hdr.h.a: exact; } actions = { NoAction; } }", "if (t.apply().hit) { hdr.h.a = 1; } if (!t.apply().hit && meta.y) { hdr.h.b = 1; } else if (t.apply().miss) { }"),
    ], [
        Control("table t { actions = { NoAction; } }", "t.apply(5);"),
        Control("table t { actions = { NoAction; } }", "t();"),
        Control("table t { actions = { NoAction; } }", "if (t.apply()) { }"),
        Control("table t { actions = { NoAction; } }", "if (t.apply().hits) { }"),
        Control("table t { actions = { NoAction; } }", "t.hit();"),
        Control("table t { key = { hdr.h.a: exact; } actions = { NoAction; } } action a() { if (t.apply().hit) { } }", "a();"),
    ]),
    item!("properties", [
        Control("direct_counter(CounterType.packets) c; direct_meter<bit<8>>(MeterType.bytes) m; action a() { m.read(hdr.h.a); c.count(); } table t { key = { hdr.h.a: exact; } actions = { a; } size = 128; counters = c; meters = m; support_timeout = true; }", "t.apply();"),
        Control("table t { key = { hdr.h.a: exact; hdr.h.b: selector; } actions = { NoAction; } implementation = action_selector(HashAlgorithm.crc16, 32w8, 32w16); }", "t.apply();"),
    ], [
        Control("table t { actions = { NoAction; } size = true; }", "t.apply();"),
        Control("table t { actions = { NoAction; } size = hdr.h.a; }", "t.apply();"),
        Control("table t { actions = { NoAction; } counters = 5; }", "t.apply();"),
        Control("direct_counter(CounterType.packets) c; table t { actions = { NoAction; } counters = c; } table u { actions = { NoAction; } counters = c; }", "t.apply(); u.apply();"),
        Control("direct_meter<bit<8>>(MeterType.bytes) m; action a() { m.read(hdr.h.a); } table t { key = { hdr.h.a: exact; } actions = { a; } }", "t.apply();"),
        Control("counter(4, CounterType.packets) c; table t { actions = { NoAction; } counters = c; }", "t.apply();"),
    ]),
];

pub const EXTERNS: &[Item] = &[
    item!("counters, meters and registers", [
        Control("counter(4, CounterType.bytes) c; meter(4, MeterType.packets) m; register<bit<8>>(4) r;", "c.count(0); m.execute_meter(1, hdr.h.a); r.read(hdr.h.b, 2); r.write(3, hdr.h.b);"),
    ], [
        Control("counter(4, CounterType.bits) c;", "c.count(0);"),
        Control("counter(4, CounterType.bytes) c;", "c.count(true);"),
        Control("register<bit<8>>(4) r;", "r.read(hdr.h.c, 2);"),
        Control("register<bit<8>>(4) r;", "r.write(3, hdr.h.c);"),
        Control("register(4) r;", "r.write(3, 8w1);"),
        Control("register<bit<8>>(true) r;", "r.write(3, 8w1);"),
        Control("register<bit<8>>(4) r;", "r.erase();"),
    ]),
    item!("hash and checksums", [
        Apply("hash(hdr.h.c, HashAlgorithm.crc16, 16w0, { hdr.h.a, hdr.h.b }, 32w65536);"),
    ], [
        Apply("hash(hdr.h.c, HashAlgorithm.md5, 16w0, { hdr.h.a }, 32w65536);"),
        Apply("hash(hdr.h, HashAlgorithm.crc16, 16w0, { hdr.h.a }, 32w65536);"),
        Apply("hash(hdr.h.c, HashAlgorithm.crc16, 16w0);"),
    ]),
    item!("clone, resubmit, recirculate and digest", [
        With("struct d_t { bit<8> a; }", "clone(CloneType.I2E, 5); clone_preserving_field_list(CloneType.I2E, 5, 1); resubmit_preserving_field_list(1); digest<d_t>(1, { hdr.h.a });"),
    ], [
        Apply("clone(CloneType.X2Y, 5);"),
        Apply("clone(CloneType.I2E);"),
        Apply("resubmit_preserving_field_list(hdr.h.a);"),
        Apply("recirculate_preserving_field_list(1);"),
        Apply("digest<h_t>(1, { hdr.h.a });"),
    ]),
    item!("the rest", [
        Apply("random(hdr.h.a, 0, 5); log_msg(\"x\"); log_msg(\"{}\", { hdr.h.a }); assert(hdr.h.a == 1); assume(true); truncate(64); mark_to_drop(sm); mark_to_drop();"),
        Whole("#define V1MODEL_VERSION 20180101\n#include <v1model.p4>\nstruct H { } struct M { bit<8> x; }\nparser P(packet_in p, out H h, inout M m, inout standard_metadata_t sm) { state start { transition accept; } }\ncontrol V(inout H h, inout M m) { apply { } }\ncontrol I(inout H h, inout M m, inout standard_metadata_t sm) { apply { mark_to_drop(); clone3(CloneType.I2E, 5, { m.x }); resubmit({ m.x }); } }\ncontrol D(packet_out p, in H h) { apply { } }\ncontrol E(inout H h, inout M m, inout standard_metadata_t sm) { apply { recirculate({ m.x }); } }\nV1Switch(P(), V(), I(), E(), V(), D()) main;\n"),
        Deparser("log_msg(\"out\"); { p.emit(hdr.h); } log_msg(\"a {}\", { hdr.h.a }); assert(hdr.h.a != 1 || true); assume(hdr.h.isValid()); truncate(64); return; p.emit(hdr.h);"),
    ], [
        Deparser("if (hdr.h.isValid()) { p.emit(hdr.h); }"),
        Apply("random(hdr.h.a, 0);"),
        Apply("random(5, 0, 5);"),
        Apply("assert(hdr.h.a);"),
        Apply("truncate(true);"),
        Apply("mark_to_drop(hdr);"),
        Apply("log_msg(5);"),
    ]),
];

pub const PACKAGES: &[Item] = &[
    item!("main", [Top("")], [
        Whole(""),
        Whole("#include <v1model.p4>\nstruct H { }\n"),
        Top("V1Switch() main;"),
        Top("V1Switch(P(), V(), I(), E(), C(), D()) main;"),
    ]),
    item!("blocks", [Top("")], [
        Whole("#include <v1model.p4>\nstruct H { } struct M { }\nparser P(packet_in p, out H h, inout M m, inout standard_metadata_t sm) { state start { transition accept; } }\ncontrol V(in H h, inout M m) { apply { } }\ncontrol U(inout H h, inout M m) { apply { } }\ncontrol I(inout H h, inout M m, inout standard_metadata_t sm) { apply { } }\ncontrol D(packet_out p, in H h) { apply { } }\nV1Switch(P(), V(), I(), I(), U(), D()) main;\n"),
        Whole("#include <v1model.p4>\nstruct H { } struct M { }\nparser P(packet_in p, out H h, inout M m, inout standard_metadata_t sm) { state start { transition accept; } }\ncontrol U(inout H h, inout M m) { apply { } }\ncontrol I(inout H h, inout standard_metadata_t sm) { apply { } }\ncontrol J(inout H h, inout M m, inout standard_metadata_t sm) { apply { } }\ncontrol D(packet_out p, in H h) { apply { } }\nV1Switch(P(), U(), I(), J(), U(), D()) main;\n"),
        Whole("#include <v1model.p4>\nstruct H { } struct M { }\nparser P(packet_in p, out H h, inout M m, inout standard_metadata_t sm) { state start { transition accept; } }\ncontrol U(inout H h, inout M m) { apply { } }\ncontrol J(inout H h, inout M m, inout standard_metadata_t sm) { apply { } }\ncontrol D(packet_out p, in H h) { apply { } }\nV1Switch(P(), U(), J(), J(), U()) main;\n"),
    ]),
];
