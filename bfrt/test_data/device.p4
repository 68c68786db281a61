// Features of the chip around the pipeline: the program of the tests of ports, the packet generator and replication.
#include <core.p4>
#include <tna.p4>

header length_h {
    bit<16> bytes;
}

struct headers_t {
    pktgen_timer_header_t timer;
}

struct egress_headers_t {
    length_h length;
}

struct empty_t {}

parser IngressParser(packet_in packet, out headers_t hdr, out empty_t meta, out ingress_intrinsic_metadata_t ig_intr_md) {
    state start {
        packet.extract(ig_intr_md);
        packet.advance(PORT_METADATA_SIZE);
        transition select(ig_intr_md.ingress_port) {
            68: generated;
            default: accept;
        }
    }
    state generated {
        packet.extract(hdr.timer);
        transition accept;
    }
}

control Ingress(
    inout headers_t hdr,
    inout empty_t meta,
    in ingress_intrinsic_metadata_t ig_intr_md,
    in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,
    inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
    inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
    action send(bit<9> port) {
        ig_tm_md.ucast_egress_port = port;
    }
    action replicate(bit<16> group) {
        ig_tm_md.mcast_grp_a = group;
    }
    action shorten(bit<9> port) {
        ig_tm_md.ucast_egress_port = port;
        hdr.timer.setInvalid();
    }
    table forward {
        key = { ig_intr_md.ingress_port : exact; }
        actions = { send; replicate; shorten; }
        size = 16;
    }
    apply {
        forward.apply();
    }
}

control IngressDeparser(
    packet_out packet,
    inout headers_t hdr,
    in empty_t meta,
    in ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {
    apply {
        packet.emit(hdr);
    }
}

parser EgressParser(packet_in packet, out egress_headers_t hdr, out empty_t meta, out egress_intrinsic_metadata_t eg_intr_md) {
    state start {
        packet.extract(eg_intr_md);
        transition accept;
    }
}

control Egress(
    inout egress_headers_t hdr,
    inout empty_t meta,
    in egress_intrinsic_metadata_t eg_intr_md,
    in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
    inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
    inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    apply {
        hdr.length.setValid();
        hdr.length.bytes = eg_intr_md.pkt_length;
    }
}

control EgressDeparser(
    packet_out packet,
    inout egress_headers_t hdr,
    in empty_t meta,
    in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {
    apply {
        packet.emit(hdr);
    }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), EgressParser(), Egress(), EgressDeparser()) pipe;

Switch(pipe) main;
