// Load balancing: a hash over the flow chooses the next hop, whose MAC is set on the way out.

#include "common.p4"

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    tcp_t      tcp;
}

struct metadata_t {
    bit<14> choice;
}

parser BalanceParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol) {
            PROTOCOL_TCP: parse_tcp;
            default: accept;
        }
    }
    state parse_tcp {
        packet.extract(hdr.tcp);
        transition accept;
    }
}

control BalanceVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(), IPV4_SUMMED(hdr.ipv4), hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control BalanceIngress(inout headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) {
    action drop() {
        mark_to_drop(standard_metadata);
    }

    action choose(bit<16> base, bit<32> count) {
        hash(meta.choice, HashAlgorithm.crc16, base,
             {hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, hdr.tcp.src, hdr.tcp.dst}, count);
    }

    action set_hop(mac_t mac, ipv4_address_t address, port_t port) {
        hdr.ethernet.dst = mac;
        hdr.ipv4.dst = address;
        standard_metadata.egress_spec = port;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    table group {
        key = { hdr.ipv4.dst: lpm; }
        actions = { drop; choose; }
        size = 1024;
    }

    table hop {
        key = { meta.choice: exact; }
        actions = { drop; set_hop; }
        size = 2;
    }

    apply {
        if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 0) {
            group.apply();
            hop.apply();
        }
    }
}

control BalanceEgress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    action rewrite(mac_t src) {
        hdr.ethernet.src = src;
    }

    table frame {
        key = { standard_metadata.egress_port: exact; }
        actions = { rewrite; NoAction; }
    }

    apply {
        frame.apply();
    }
}

control BalanceCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(), IPV4_SUMMED(hdr.ipv4), hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control BalanceDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(BalanceParser(), BalanceVerify(), BalanceIngress(), BalanceEgress(), BalanceCompute(), BalanceDeparser()) main;
