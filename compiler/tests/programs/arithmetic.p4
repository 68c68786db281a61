// Every operator on run-time values: the packet chooses one and carries the operands.

#include <core.p4>
#include <v1model.p4>

header calc_t {
    bit<8>  op;
    bit<16> a;
    bit<16> b;
    bit<32> r;
}

struct headers_t {
    calc_t calc;
}

struct metadata_t {
    int<16> sa;
    int<16> sb;
    bool    flag;
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.calc);
        meta.sa = (int<16>)hdr.calc.a;
        meta.sb = (int<16>)hdr.calc.b;
        transition accept;
    }
}

control MyVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    bit<16> a;
    bit<16> b;
    bit<32> r = 0;

    apply {
        a = hdr.calc.a;
        b = hdr.calc.b;
        switch (hdr.calc.op) {
            1: { r = (bit<32>)(a + b); }
            2: { r = (bit<32>)(a - b); }
            3: { r = (bit<32>)(a * b); }
            4: { r = (bit<32>)(a |+| b); }
            5: { r = (bit<32>)(a |-| b); }
            6: { r = (bit<32>)(a << (bit<8>)b); }
            7: { r = (bit<32>)(a >> b); }
            8: { r = (bit<32>)(a & b); }
            9: { r = (bit<32>)(a | b); }
            10: { r = (bit<32>)(a ^ b); }
            11: { r = (bit<32>)~a; }
            12: { r = (bit<32>)(-a); }
            13: { r = a ++ b; }
            14: { r = (bit<32>)a[11:4]; }
            15: { r[15:8] = a[7:0]; }
            16: { r = (bit<32>)(bit<1>)(a < b) ++ 31w0 == 32w0 ++ 31w0 ? 32w7 : 32w9; }
            17: { r = a == b ? 32w1 : 32w2; }
            18: { r = (bit<32>)(int<32>)meta.sa; }
            19: { r = (bit<32>)(bit<16>)(meta.sa + meta.sb); }
            20: { r = (bit<32>)(bit<16>)(meta.sa >> 4); }
            21: { r = (bit<32>)(bit<16>)(meta.sa |+| meta.sb); }
            22: { r = meta.sa < meta.sb ? 32w1 : 32w0; }
            23: { r = (bit<32>)(a << b); }
            24: {
                meta.flag = a > b && (a & 1) == 0 || b == 0xffff;
                r = (bit<32>)(bit<1>)meta.flag;
            }
            25: { r = (bit<32>)(a / 16w8 + a % 16w8); }
            26: { r = (bit<32>)(bit<16>)(-meta.sa); }
            27: { r = (bit<32>)(bit<16>)(meta.sa |-| meta.sb); }
            28:
            29: { r = 0x2829; }
            default: { r = 0xdeadbeef; }
        }
        hdr.calc.r = r;
        standard_metadata.egress_spec = 2;
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    apply { }
}

control MyComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(), MyDeparser()) main;
