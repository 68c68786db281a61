// Scopes, contextual keywords as names, absolute names, typedefs of declarations, lists.
#include <core.p4>

const bit<8> x = 1;
typedef struct Inner { bit<8> key; bit<8> actions; bit<8> entries; bit<8> state; bit<8> type; bit<8> apply; bit<8> priority; bit<8> list; } Alias;
type bit<8> type_t;
const list<bit<8>> numbers = { 1, 2, 3 };
const list<tuple<bit<8>, bool>> pairs = (list<tuple<bit<8>, bool>>){ { 1, true }, { 2, false } };
error { NewError }
match_kind { fuzzy, }
enum Trailing { a, b, }

control scopes(inout Inner s, inout Alias t, out bit<8> r) {
    bit<8> key = x;
    bit<8> apply = 3;
    @noWarn("shadow") bit<8> x = 5;
    action a(bit<8> state) { r = state + x + .x; }
    table entries {
        key = { s.key : fuzzy; key : exact; }
        actions = { a; .NoAction; }
    }
    apply {
        bit<8> type = s.type + s.list;
        s = t;
        r = type + apply + .x + s.apply + s.state;
        entries.apply();
        a(3);
        if (x < key && key > (x)) { r = 1; }
        bool b = (x) - key == 3 && (bit<8>) - key == 4;
    }
}
