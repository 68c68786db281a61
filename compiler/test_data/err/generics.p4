#include <core.p4>
header H<T> { T f; }
header_union U<T> { T f; }
struct S<T> { T f; }
header plain { bit<8> x; }
extern E<T> { E(); void stack(in T x, in S<T> y); }
extern void st<T>(in T x);
extern void of_header<T>(in H<T> x);
const S<_> A = { 1 };
typedef H<string> bad1;
typedef H<plain> bad2;
typedef U<bit<8>> bad3;
typedef S<E<bit<8>>> bad4;
typedef H<bit<8>> good1;
typedef U<plain> good2;
typedef S bad5;
typedef bad5<bit<8>> bad6;
typedef plain<bit<8>> bad5;
struct bad6 { S f; }
struct bad7 { S<bit<8>, bool> f; }
control c(in S<bit<8>> s, in H<bit<8>> h) {
    apply {
        of_header(h);
        of_header<bit<8>>({ 1 });
        of_header<error>({ error.NoError });
        st<S<plain>>({ { 1 } });
        S<_> open = s;
    }
}
