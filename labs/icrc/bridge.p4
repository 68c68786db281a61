// Lab "the neutral ICRC": the switch. It rewrites addresses and queue pair as in the lab "bridge", without computing CRCs.

#define LAB_CHECKSUM LabChecksum
#include "roce.p4"

control LabIngress(inout lab_headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.mcast_grp = 1;  // all receivers
    }
}

control LabEgress(inout lab_headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    action deliver(bit<48> mac, bit<32> ip, bit<24> qpn, bit<16> id_xor, bit<16> sport_xor) {
        hdr.ethernet.dst = mac;
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.ipv4.dst = ip;
        hdr.bth.dest_qp = qpn;
        hdr.ipv4.identification = hdr.ipv4.identification ^ id_xor;
        hdr.udp.src_port = hdr.udp.src_port ^ sport_xor;
    }

    table receivers {
        key = { standard_metadata.egress_port: exact @name("egress_port"); }
        actions = { deliver; NoAction; }
        default_action = NoAction();
    }

    apply {
        receivers.apply();
    }
}

control LabChecksum(inout lab_headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
                        { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_len,
                          hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.frag_offset,
                          hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
                        hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

#include "roce_switch.p4"
