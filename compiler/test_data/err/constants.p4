#include <core.p4>
header h_t { bit<8> a; bit<16> b; }
struct s_t { bit<8> a; bool b; h_t h; }
type bit<9> port_t;
enum bit<8> se_t { one = 1 }
header bad_t { string s; h_t h; error e; varbit<8> v1; varbit<8> v2; packet_in p; }
header_union u_t { h_t h; bit<8> x; }
const bit<8> A = 16w1;
const bit<-1> B = 1;
const bit<99999999> C = 1;
const h_t[0] D = {};
const bit<8>[2] E = {};
const tuple<bit<8>, bool> F = { 1, 2 };
const s_t G = { 1, true };
const s_t H = { a = 1, c = 2 };
const s_t I = { a = 1, a = 2, ... };
const bit<8> J = "text";
const bool K = 2;
const bool L = (bool)2;
const bool M = (bool)8w1;
const bit<16> N = (bit<16>)8s1;
const port_t O = 9w3;
const se_t P = 1;
const int<8> Q = ~5;
const int Z = 5 / 0 + 1 / -1 + (1 << -1);
const bit<8> R = 8w1 + 16w1;
const bool S = 8w1 == 16w1;
const bool T = 1 && true;
const bit<8> U = !8w1 + -true;
const bit<8> V = 8w1 |+| 8s1;
const bit<9> W = 8w1 ++ 1;
const bit<4> X = 8w1[3:4] + 8w1[8:5] + true[0:0];
const int<8> Y = 8s4 / 8s2;
const bit<8> AA = true ? 8w1 : false;
const int<0> AB = 1;
