// Forwards frames by their destination address, and counts them per ingress port.

#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

struct headers_t {
    ethernet_t ethernet;
}

struct meta_t {
}

parser MyParser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control MyVerify(inout headers_t hdr, inout meta_t meta) {
    apply { }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    counter(4, CounterType.packets_and_bytes) seen;

    action send(bit<9> port) {
        std.egress_spec = port;
    }

    action drop() {
        mark_to_drop(std);
    }

    table forward {
        key = { hdr.ethernet.dst: exact; }
        actions = { send; drop; }
        const default_action = drop();
        size = 16;
    }

    apply {
        forward.apply();
        seen.count((bit<32>) std.ingress_port);
    }
}

control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply { }
}

control MyUpdate(inout headers_t hdr, inout meta_t meta) {
    apply { }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
    }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyUpdate(), MyDeparser()) main;
