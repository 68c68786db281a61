// Every frame contains its port and priority; egress writes the queueing metadata into it.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> kind;
}

header queue_t {
    bit<8> port;
    bit<8> priority;
    bit<32> number;
    bit<32> enq_qdepth;
    bit<32> deq_qdepth;
    bit<32> deq_timedelta;
}

struct headers_t {
    ethernet_t ethernet;
    queue_t queue;
}

struct metadata_t {}

parser QueuesParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.queue);
        transition accept;
    }
}

control VerifyNothing(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.egress_spec = (bit<9>)hdr.queue.port;
        standard_metadata.priority = (bit<3>)hdr.queue.priority;
    }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        hdr.queue.enq_qdepth = (bit<32>)standard_metadata.enq_qdepth;
        hdr.queue.deq_qdepth = (bit<32>)standard_metadata.deq_qdepth;
        hdr.queue.deq_timedelta = standard_metadata.deq_timedelta;
    }
}

control UpdateNothing(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control QueuesDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.queue);
    }
}

V1Switch(QueuesParser(), VerifyNothing(), ingress(), egress(), UpdateNothing(), QueuesDeparser()) main;
