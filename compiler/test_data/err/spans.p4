#include <core.p4>
header h_t { bit<8> a; }
// The span of an expression includes the parentheses of its operands.
control c(inout h_t h, in bool f, in bit<16> w) {
    apply {
        h.a = (h.a & 1) + (w);
        h.a = (f) ? (h.a) : (w);
        h.a = (h.a & 1)[9:8];
        h.a = (h).a(1);
        h.a = -(f);
        h.a = (bit<8>)(w) + (w);
        bool x = (h.a > 1) + (f);
        bool y = ((h.a)) && ((f));
        bool z = (h.a + 1);
    }
}
