// Parsers: states, select, value sets, sub-parsers, stacks, lookahead, verify.
#include <core.p4>

error { BadVersion, TooDeep }
header eth_t { bit<48> dst; bit<48> src; bit<16> type; }
header label_t { bit<20> label; bit<3> tc; bit<1> bos; bit<8> ttl; }
header options_t { bit<8> length; varbit<320> data; }
header v4_t { bit<4> version; bit<4> ihl; }
header v6_t { bit<4> version; bit<28> rest; }
header_union ip_t { v4_t v4; v6_t v6; }
struct headers_t { eth_t eth; label_t[5] labels; options_t options; ip_t ip; }
struct pair_t { bit<16> a; @match(ternary) bit<8> b; }

parser Labels(packet_in p, inout headers_t h)(bit<8> limit) {
    state start {
        p.extract(h.labels.next);
        verify(h.labels.last.ttl != 0 && h.labels.lastIndex < 5, error.TooDeep);
        transition select(h.labels.last.bos, limit) {
            (0, _): start;
            (1w1, 0 .. 8): accept;
            default: reject;
        }
    }
}

parser Main(packet_in packet, out headers_t h, inout bit<16> port) {
    const bit<16> MPLS = 0x8847;
    value_set<bit<16>>(4) ip_types;
    value_set<pair_t>(8) pairs;
    value_set<tuple<bit<16>, bit<8>>>(8) tuples;
    Labels(8) labels;
    bit<8> seen = 0;
    state start {
        packet.extract(h.eth);
        transition select(h.eth.type) {
            MPLS: mpls;
            0x0800 &&& 0xff00: ip;
            0x1000 .. 0x1fff: options;
            ip_types: ip;
            (16w3): accept;
            _: second;
        }
    }
    state mpls {
        labels.apply(packet, h);
        seen = seen + 1;
        transition ip;
    }
    state ip {
        bit<4> version = packet.lookahead<bit<4>>();
        transition select(version) { 4: v4; 6: v6; }
    }
    state v4 { packet.extract(h.ip.v4); if (h.ip.v4.ihl == 5) { seen = 0; } transition accept; }
    state v6 { packet.extract<v6_t>(h.ip.v6); transition accept; }
    state options {
        transition accept;
    }
    state second {
        packet.extract(h.options, (bit<32>)packet.lookahead<bit<8>>() * 8);
        packet.advance(32w8 * 2);
        packet.extract<eth_t>(_);
        transition select(h.eth.type, seen) {
            pairs: accept;
            tuples: accept;
            (5, 6): reject;
            (_, _): accept;
        }
    }
}
