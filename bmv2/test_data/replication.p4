// IPv4 multicast: one lpm table for the group, and new addresses for each copy.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> diffserv;
    bit<16> total_len;
    bit<16> identification;
    bit<3> flags;
    bit<13> frag_offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
}

struct metadata_t {}

parser ReplicationParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                         inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            0x0800: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control VerifyIpv4(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(),
                        { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_len,
                          hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.frag_offset,
                          hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
                        hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control ingress(inout headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    action discard() {
        mark_to_drop(standard_metadata);
    }

    action replicate(bit<16> group) {
        standard_metadata.mcast_grp = group;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    table groups {
        key = { hdr.ipv4.dst: lpm; }
        actions = { replicate; discard; }
        default_action = discard();
        size = 1024;
    }

    apply {
        if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1 && standard_metadata.checksum_error == 0) {
            groups.apply();
        } else {
            discard();
        }
    }
}

control egress(inout headers_t hdr, inout metadata_t meta,
               inout standard_metadata_t standard_metadata) {
    action discard() {
        mark_to_drop(standard_metadata);
    }

    action rewrite(bit<48> src, bit<48> dst, bit<32> ip) {
        hdr.ethernet.src = src;
        hdr.ethernet.dst = dst;
        hdr.ipv4.dst = ip;
    }

    table replicas {
        key = { standard_metadata.egress_rid: exact; }
        actions = { rewrite; discard; }
        default_action = discard();
        size = 64;
    }

    apply {
        replicas.apply();
    }
}

control UpdateIpv4(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
                        { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_len,
                          hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.frag_offset,
                          hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
                        hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control ReplicationDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(ReplicationParser(), VerifyIpv4(), ingress(), egress(), UpdateIpv4(), ReplicationDeparser()) main;
