#include <core.p4>
#include <tna.p4>

header tag_t {
    bit<8> index;
    bit<32> value;
}

struct headers_t {
    tag_t tag;
}

struct metadata_t {
    bit<32> count;
}

// Declarations:

parser MyIngressParser(packet_in packet, out headers_t hdr, out metadata_t meta, out ingress_intrinsic_metadata_t ig) {
    // In the parser:
    state start {
        meta.count = 0;
        packet.extract(ig);
        packet.advance(PORT_METADATA_SIZE);
        packet.extract(hdr.tag);
        transition accept;
    }
    // End
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t ig,
        in ingress_intrinsic_metadata_from_parser_t ig_prsr, inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr,
        inout ingress_intrinsic_metadata_for_tm_t ig_tm) {
    // In the ingress control:
    apply {
        ig_tm.ucast_egress_port = 1;
    }
    // End
}

control MyIngressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
        in ingress_intrinsic_metadata_for_deparser_t ig_dprsr) {
    apply {
        packet.emit(hdr);
    }
}

parser MyEgressParser(packet_in packet, out headers_t hdr, out metadata_t meta, out egress_intrinsic_metadata_t eg) {
    state start {
        meta.count = 0;
        packet.extract(eg);
        transition accept;
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, in egress_intrinsic_metadata_t eg,
        in egress_intrinsic_metadata_from_parser_t eg_prsr, inout egress_intrinsic_metadata_for_deparser_t eg_dprsr,
        inout egress_intrinsic_metadata_for_output_port_t eg_port) {
    apply { }
}

control MyEgressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
        in egress_intrinsic_metadata_for_deparser_t eg_dprsr) {
    apply {
        packet.emit(hdr);
    }
}

Pipeline(MyIngressParser(), MyIngress(), MyIngressDeparser(), MyEgressParser(), MyEgress(), MyEgressDeparser()) pipe;
Switch(pipe) main;
