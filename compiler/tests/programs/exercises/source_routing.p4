// Source routing: the packet carries its way as a stack of ports.

#include "common.p4"

const bit<16> ETHERTYPE_SOURCE_ROUTE = 0x1234;

header route_t {
    bit<1>  last;
    bit<15> port;
}

struct headers_t {
    ethernet_t ethernet;
    route_t[9] routes;
    ipv4_t     ipv4;
}

struct metadata_t { }

parser RouteParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_SOURCE_ROUTE: parse_route;
            default: accept;
        }
    }
    state parse_route {
        packet.extract(hdr.routes.next);
        transition select(hdr.routes.last.last) {
            1: parse_ipv4;
            default: parse_route;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control RouteVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control RouteIngress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    action follow() {
        standard_metadata.egress_spec = (port_t)hdr.routes[0].port;
        hdr.routes.pop_front(1);
    }

    apply {
        if (hdr.routes[0].isValid()) {
            if (hdr.routes[0].last == 1) {
                hdr.ethernet.type = ETHERTYPE_IPV4;
            }
            follow();
            if (hdr.ipv4.isValid()) {
                hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
            }
        } else {
            mark_to_drop(standard_metadata);
        }
    }
}

control RouteEgress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    apply { }
}

control RouteCompute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control RouteDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.routes);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(RouteParser(), RouteVerify(), RouteIngress(), RouteEgress(), RouteCompute(), RouteDeparser()) main;
