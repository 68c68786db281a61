// A stateful firewall: outside hosts may answer only connections that an inside host began; a Bloom filter in two
// registers remembers them.

#include "common.p4"

#define FILTER_BITS 4096

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    tcp_t      tcp;
}

struct metadata_t { }

parser FirewallParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
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

control FirewallVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control FirewallIngress(inout headers_t hdr, inout metadata_t meta,
                        inout standard_metadata_t standard_metadata) {
    register<bit<1>>(FILTER_BITS) first;
    register<bit<1>>(FILTER_BITS) second;
    bit<32> first_place;
    bit<32> second_place;
    bit<1> from_inside = 0;

    action drop() {
        mark_to_drop(standard_metadata);
    }

    action find_places(ipv4_address_t a, ipv4_address_t b, bit<16> a_port, bit<16> b_port) {
        hash(first_place, HashAlgorithm.crc16, 32w0, {a, b, a_port, b_port, hdr.ipv4.protocol},
             (bit<32>)FILTER_BITS);
        hash(second_place, HashAlgorithm.crc32, 32w0, {a, b, a_port, b_port, hdr.ipv4.protocol},
             (bit<32>)FILTER_BITS);
    }

    action forward(port_t port) {
        standard_metadata.egress_spec = port;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    table ipv4_lpm {
        key = { hdr.ipv4.dst: lpm; }
        actions = { forward; drop; }
        default_action = drop();
    }

    action set_direction(bit<1> inside) {
        from_inside = inside;
    }

    table direction {
        key = {
            standard_metadata.ingress_port: exact;
            standard_metadata.egress_spec: exact;
        }
        actions = { set_direction; NoAction; }
        default_action = NoAction();
    }

    apply {
        bit<1> known_first;
        bit<1> known_second;
        if (hdr.ipv4.isValid()) {
            ipv4_lpm.apply();
            if (hdr.tcp.isValid()) {
                if (direction.apply().hit) {
                    if (from_inside == 1) {
                        find_places(hdr.ipv4.src, hdr.ipv4.dst, hdr.tcp.src, hdr.tcp.dst);
                        if ((hdr.tcp.flags & 2) != 0) {
                            first.write(first_place, 1);
                            second.write(second_place, 1);
                        }
                    } else {
                        find_places(hdr.ipv4.dst, hdr.ipv4.src, hdr.tcp.dst, hdr.tcp.src);
                        first.read(known_first, first_place);
                        second.read(known_second, second_place);
                        if (known_first != 1 || known_second != 1) {
                            drop();
                        }
                    }
                }
            }
        }
    }
}

control FirewallEgress(inout headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) {
    apply { }
}

control FirewallCompute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control FirewallDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(FirewallParser(), FirewallVerify(), FirewallIngress(), FirewallEgress(), FirewallCompute(),
         FirewallDeparser()) main;
