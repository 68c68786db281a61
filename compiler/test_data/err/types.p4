#include <core.p4>
header h_t { bit<8> a; bit<16> b; }
struct s_t { bit<8> a; bool b; h_t h; }
type bit<9> port_t;
const bit<8> A = 1;
void f(inout s_t s, in bit<8> n, packet_in p, in packet_in q, inout int r, string t) {
    int x = 1;
    string y;
    packet_in z;
    void v;
    s.a = s.b;
    s.b = 1;
    s.h = s;
    s = { 1, true, { 1, 2, 3 } };
    n = 1;
    s.a = f(s, n, p, q, 1, "a");
    if (s.a) { }
    if (n == s.h.b) { }
    s.a = s.h.b;
    s.a = n << 8s1;
    s.a = 1 << n;
    s.a = n[n:0];
    s.a[n+:9] = 1;
    s.a += 16w1;
    s.h[1].a = 1;
    s.a = { 1 };
    s.a = (bit<8>)n > 1;
    s.h.b = n ++ s.b;
    A = 1;
    3 = n;
    port_t o = (port_t)9w3 + 1;
}
