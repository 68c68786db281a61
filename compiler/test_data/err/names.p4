#include <core.p4>
const bit<8> WIDTH = 8;
const bit<8> WIDTH = 9;
const bit<8> A = WIDHT;
struct s_t { bit<8> field; bit<8> field; }
enum e_t { one, two, one }
enum bit<8> se_t { one = 1, two }
enum pe_t { one = 1 }
error { NoError }
match_kind { exact }
typedef missing_t alias_t;
bit<8> f(in s_t s) {
    later_t x;
    return s.feild + e_t.three + WIDTH.x + s_t + f;
}
struct later_t { bit<8> x; }
control c(inout s_t s, in V1Switch x) {
    action a() { }
    action a() { }
    table t { key = { s.field : exat; } actions = { a; f; undefined; } }
    apply {
        a.apply();
        s.isValid();
        error e = error.NoErorr;
        undefined(3);
        t(3);
        s();
        e_t.one();
        .a();
        bit<8> y = y;
        mark_to_drop(s);
    }
}
