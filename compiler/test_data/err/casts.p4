enum bit<8> kind_t { A = 1 }
enum bit<8> sort_t { A = 1 }
type bit<9> port_t;
void f(inout bit<32> w, inout bit<8> n, in kind_t k, in port_t p, inout sort_t s) {
    w = (bit<32>)kind_t.A;
    w = (bit<32>)k + 1;
    w = (bit<32>)p;
    n = (bit<8>)(int<8>)k;
    const int i = (int)kind_t.A;
    w = (bit<32>)(bit<8>)k;
    n = (bit<8>)k;
    s = (sort_t)k;
}
