// Loops, and what leaves them.

#include <core.p4>
#include <v1model.p4>

header data_t {
    bit<8>  op;
    bit<8>  n;
    bit<16> sum;
}

header item_t {
    bit<8> value;
}

struct headers_t {
    data_t    data;
    item_t[4] items;
}

struct metadata_t { }

const list<bit<8>> STEPS = { 1, 2, 4, 8 };

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.data);
        transition item;
    }
    state item {
        packet.extract(hdr.items.next);
        transition select(hdr.items.lastIndex) {
            3: accept;
            default: item;
        }
    }
}

control MyVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    action sum_of(in bit<8> n) {
        for (bit<8> i = 1; i <= n; i = i + 1) {
            if (i == 3) {
                continue;
            }
            if (i > 5) {
                break;
            }
            hdr.data.sum = hdr.data.sum + (bit<16>)i;
        }
    }

    apply {
        standard_metadata.egress_spec = 1;
        if (hdr.data.op == 1) {
            sum_of(hdr.data.n);
        } else if (hdr.data.op == 2) {
            for (item_t item in hdr.items) {
                hdr.data.sum = hdr.data.sum + (bit<16>)item.value;
            }
        } else if (hdr.data.op == 3) {
            for (bit<8> i in 1 .. hdr.data.n) {
                for (bit<8> j in 1 .. 2) {
                    if (j == 2 && i == 2) {
                        break;
                    }
                    hdr.data.sum = hdr.data.sum + 1;
                }
            }
        } else if (hdr.data.op == 4) {
            for (bit<8> i = 0, bit<16> k = 100; i < 4; i += 1, k += 10) {
                hdr.data.sum += k;
            }
        } else if (hdr.data.op == 5) {
            for (bit<8> i in 0 .. 3) {
                hdr.items[i].value = i;
            }
        } else if (hdr.data.op == 6) {
            for (bit<8> step in STEPS) {
                hdr.data.sum += (bit<16>)step;
            }
            for (bit<8> step in (list<bit<8>>){ 0x10, 0x20 }) {
                hdr.data.sum += (bit<16>)step;
            }
        }
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
