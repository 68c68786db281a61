// Explicit congestion notification and QoS: packets that waited behind a long queue are marked, and the
// protocol chooses the traffic class.

#include "common.p4"

const bit<19> THRESHOLD = 10;

enum bit<6> Dscp {
    Default = 0,
    Voice = 44,
    Expedited = 46
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
}

struct metadata_t { }

parser EcnParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control EcnVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control EcnIngress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.egress_spec = 2;
        hdr.ipv4.dscp = Dscp.Default;
        if (hdr.ipv4.protocol == PROTOCOL_UDP) {
            hdr.ipv4.dscp = Dscp.Expedited;
        } else if (hdr.ipv4.protocol == PROTOCOL_TCP) {
            hdr.ipv4.dscp = Dscp.Voice;
        }
    }
}

control EcnEgress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    action mark() {
        hdr.ipv4.ecn = 3;
    }

    apply {
        if ((hdr.ipv4.ecn == 1 || hdr.ipv4.ecn == 2) && standard_metadata.enq_qdepth >= THRESHOLD) {
            mark();
        }
    }
}

control EcnCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(), IPV4_SUMMED(hdr.ipv4), hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control EcnDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(EcnParser(), EcnVerify(), EcnIngress(), EcnEgress(), EcnCompute(), EcnDeparser()) main;
