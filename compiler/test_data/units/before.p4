// The common start of all programs in this folder: headers, the parser, and the start of the control that each program completes.
#include <core.p4>
#if defined(__TARGET_TOFINO__) && __TARGET_TOFINO__ == 2
#include <t2na.p4>
#else
#include <tna.p4>
#endif

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> kind;
}

header data_t {
    bit<8> a8;
    bit<8> b8;
    bit<8> c8;
    bit<8> d8;
    bit<16> a16;
    bit<16> b16;
    bit<16> c16;
    bit<16> d16;
    bit<32> a32;
    bit<32> b32;
    bit<32> c32;
    bit<32> d32;
    bit<64> a64;
    bit<64> b64;
}

header tag_t {
    bit<16> value;
}

struct headers_t {
    ethernet_t ethernet;
    data_t d;
    tag_t tag;
}

struct metadata_t {
    bit<16> m16;
    bit<32> m32;
}

struct pair_t {
    bit<32> first;
    bit<32> second;
}

parser IngressParser(packet_in packet, out headers_t hdr, out metadata_t md, out ingress_intrinsic_metadata_t ig_intr_md) {
    state start {
        packet.extract(ig_intr_md);
        packet.advance(PORT_METADATA_SIZE);
        md = {0, 0};
        packet.extract(hdr.ethernet);
        packet.extract(hdr.d);
        transition select(hdr.ethernet.kind) {
            0x1234: parse_tag;
            default: accept;
        }
    }

    state parse_tag {
        packet.extract(hdr.tag);
        transition accept;
    }
}

control Ingress(
    inout headers_t hdr,
    inout metadata_t md,
    in ingress_intrinsic_metadata_t ig_intr_md,
    in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,
    inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
    inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
