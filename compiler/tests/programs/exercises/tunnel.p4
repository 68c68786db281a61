// Basic tunnelling: packets with a tunnel header are forwarded by its id, others by IPv4.

#include "common.p4"

const bit<16> ETHERTYPE_TUNNEL = 0x1212;

header tunnel_t {
    bit<16> protocol;
    bit<16> id;
}

struct headers_t {
    ethernet_t ethernet;
    tunnel_t   tunnel;
    ipv4_t     ipv4;
}

struct metadata_t { }

parser TunnelParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_TUNNEL: parse_tunnel;
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }
    state parse_tunnel {
        packet.extract(hdr.tunnel);
        transition select(hdr.tunnel.protocol) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control TunnelVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TunnelIngress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    counter(16, CounterType.packets) entered;

    action drop() {
        mark_to_drop(standard_metadata);
    }

    action ipv4_forward(port_t port) {
        standard_metadata.egress_spec = port;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    action enter(bit<16> id, port_t port) {
        hdr.tunnel.setValid();
        hdr.tunnel.protocol = hdr.ethernet.type;
        hdr.tunnel.id = id;
        hdr.ethernet.type = ETHERTYPE_TUNNEL;
        standard_metadata.egress_spec = port;
        entered.count((bit<32>)id);
    }

    action forward(port_t port) {
        standard_metadata.egress_spec = port;
    }

    action leave(port_t port) {
        hdr.ethernet.type = hdr.tunnel.protocol;
        hdr.tunnel.setInvalid();
        standard_metadata.egress_spec = port;
    }

    table ipv4_lpm {
        key = { hdr.ipv4.dst: lpm; }
        actions = { ipv4_forward; enter; drop; }
        default_action = drop();
    }

    table tunnel_exact {
        key = { hdr.tunnel.id: exact; }
        actions = { forward; leave; drop; }
        default_action = drop();
    }

    apply {
        if (hdr.tunnel.isValid()) {
            tunnel_exact.apply();
        } else if (hdr.ipv4.isValid()) {
            ipv4_lpm.apply();
        }
    }
}

control TunnelEgress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    apply { }
}

control TunnelCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(), IPV4_SUMMED(hdr.ipv4), hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control TunnelDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.tunnel);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(TunnelParser(), TunnelVerify(), TunnelIngress(), TunnelEgress(), TunnelCompute(), TunnelDeparser()) main;
