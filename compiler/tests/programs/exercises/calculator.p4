// A calculator: the switch answers arithmetic in an Ethernet frame.

#include "common.p4"

const bit<16> ETHERTYPE_CALC = 0x1234;

header calc_t {
    bit<8>  p;
    bit<8>  four;
    bit<8>  version;
    bit<8>  op;
    bit<32> a;
    bit<32> b;
    bit<32> result;
}

struct headers_t {
    ethernet_t ethernet;
    calc_t     calc;
}

struct metadata_t { }

parser CalcParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_CALC: check;
            default: accept;
        }
    }
    state check {
        transition select(packet.lookahead<calc_t>().p, packet.lookahead<calc_t>().four,
                          packet.lookahead<calc_t>().version) {
            (0x50, 0x34, 0x01): parse_calc;
            default: accept;
        }
    }
    state parse_calc {
        packet.extract(hdr.calc);
        transition accept;
    }
}

control CalcVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control CalcIngress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    action answer(bit<32> result) {
        mac_t requester = hdr.ethernet.src;
        hdr.calc.result = result;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = requester;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }

    action add() { answer(hdr.calc.a + hdr.calc.b); }
    action subtract() { answer(hdr.calc.a - hdr.calc.b); }
    action bit_and() { answer(hdr.calc.a & hdr.calc.b); }
    action bit_or() { answer(hdr.calc.a | hdr.calc.b); }
    action bit_xor() { answer(hdr.calc.a ^ hdr.calc.b); }
    action drop() { mark_to_drop(standard_metadata); }

    table calculate {
        key = { hdr.calc.op: exact; }
        actions = { add; subtract; bit_and; bit_or; bit_xor; drop; }
        const default_action = drop();
        const entries = {
            0x2b: add();
            0x2d: subtract();
            0x26: bit_and();
            0x7c: bit_or();
            0x5e: bit_xor();
        }
    }

    apply {
        if (hdr.calc.isValid()) {
            calculate.apply();
        } else {
            drop();
        }
    }
}

control CalcEgress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    apply { }
}

control CalcCompute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control CalcDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.calc);
    }
}

V1Switch(CalcParser(), CalcVerify(), CalcIngress(), CalcEgress(), CalcCompute(), CalcDeparser()) main;
