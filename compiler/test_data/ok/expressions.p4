// Operators, literals, casts and slices of every kind.
#include <core.p4>

const int BIG = 1 << 100;
const bit<8> A = 8w0xFF;
const int<8> B = -8s1;
const bit<8> C = 5 + A;
const bit<16> D = A ++ C;
const bool E = A > 3 && (C != 7 || !true);
const bit<4> F = A[7:4];
const bit<4> F2 = A[2+:4];
const int<16> G = (int<16>)(int<8>)A;
const bit<32> H = 0b1010_1010 | 0o17 | 0d10 | 32w0x_dead_beef;
const bit<8> I = A |+| 8w1;
const bit<8> J = 8w0 |-| 8w1;
const int<8> K = 8s127 |+| 8s1;
const bit<8> L = true ? 1 : 2;
const bit<8> M = A >> 2 << 1;
const int N = 17 / 5 * 3 % 4 - -1;
const bit<1> O = (bit<1>)true;
const bool P = (bool)1w1;
const string S = "a \"quoted\" text\n";
const bit<8> Q = ~A ^ 0x0f & +8w3;
const int R = 3 * (BIG >> 99) + N;
const bit<128> T = (bit<128>)BIG;
const error ERR = error.NoError;
const tuple<bit<8>, bool> TUP = { 1, true };
const bit<8> TUP0 = TUP[0];

enum bit<8> Kind { one = 1, two = 2, three = Q }
enum Color { red, green }
const Kind KIND = Kind.two;
const bit<8> KIND_BITS = KIND;
const bit<8> KIND_SUM = Kind.one + 1;
const Kind FROM_BITS = (Kind)8w1;
const bool SAME = Color.red == Color.green;

type bit<9> Port;
typedef bit<9> RawPort;
const Port PORT = (Port)9w3;
const RawPort RAW = (RawPort)PORT;
const bool PORTS = PORT == (Port)4;

struct Pair<T, U> { T first; U second; }
typedef Pair<bit<8>, bool> ByteBool;
const ByteBool PAIR = { first = 3, second = false };
const ByteBool PAIR2 = { 3, false };
const bit<8> FIRST = PAIR.first;
const Pair<Pair<bit<4>, bit<4>>, bit<2>> NESTED = { { 1, 2 }, 3 };

header hdr_t { bit<8> a; int<8> b; varbit<64> c; bool d; bit<7> pad; Kind kind; }
header small_t { bit<8> x; }
header hdr2_t { bit<16> y; }
header_union union_t { small_t small; hdr2_t two; }
struct all_t { hdr_t h; small_t[4] stack; union_t u; tuple<bit<3>, bool> t; }

bit<16> arith(in bit<16> x, in int<16> y, bit<4> n) {
    bit<16> r = x + 1;
    r = 1 + r * 2 - x;
    r = r << n;
    r = r >> 3;
    r = (bit<16>)y + r;
    r = r & 0xff | x ^ 3;
    r[7:0] = 8w3;
    r[n +: 2] = 2;
    r = x[3:0] ++ x[15:4];
    r = x == 3 ? r : 0;
    r += 1;
    r <<= 2;
    r >>= 1;
    r |+|= 5;
    r ^= x;
    bool z = y < 0 || y >= (int<16>)x;
    if (z) return r; else return -r;
}

T identity<T>(in T x) { return x; }
void swap<T>(inout T a, inout T b) { T t = a; a = b; b = t; }

control headers(inout all_t h, out bit<16> result) {
    apply {
        bit<8> i = 1;
        h.stack[i].x = identity(i);
        h.stack[0] = h.stack[1];
        h.stack.push_front(1);
        h.stack.pop_front(2);
        h.h.setInvalid();
        h.h = { 1, -1, h.h.c, true, 0, Kind.one };
        h.stack[2] = { x = 3 };
        h.stack[2] = { ... };
        h.stack[1] = { x = 3, ... };
        h.h = {#};
        h.t = { 3, true };
        swap(h.stack[0], h.stack[1]);
        swap<bit<8>>(h.stack[0].x, h.h.a);
        bool valid = h.h.isValid() && h.u.isValid() && h.u.two.isValid();
        if (h.stack[0] == h.stack[1] && h.h == (hdr_t){#} || h.t == { 3, false }) {
            result = (bit<16>)h.h.minSizeInBits() + (bit<16>)h.u.maxSizeInBytes();
        } else {
            result = arith(n = 3, x = 16w5, y = -2);
        }
        h.u.small = { 4 };
        h.stack = (small_t[4]){ { 1 }, { 2 }, { 3 }, { 4 } };
        i = (bit<8>)(Kind)h.h.kind;
        i = h.h.kind;
        result = h.stack.size < 5 && valid ? 16w1 : result;
        bit<8> lowest = i[0:0] ++ 7w3;
        { bit<8> inner = lowest; i = inner; }
        ;
    }
}
