// The program of the book's page "Why was my packet dropped?": an access list, and routes to ports, multicast groups and
// clone sessions.

#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

header ipv4_t {
    bit<96> before_addresses;
    bit<32> src;
    bit<32> dst;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
}

struct metadata_t {}

parser PacketParser(packet_in packet,
                    out headers_t hdr,
                    inout metadata_t meta,
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

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Router(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    action drop() {
        mark_to_drop(standard_metadata);
    }

    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action replicate(bit<16> group) {
        standard_metadata.mcast_grp = group;
    }

    action mirror(bit<32> session, bit<9> port) {
        clone(CloneType.I2E, session);
        standard_metadata.egress_spec = port;
    }

    table acl {
        key = {
            hdr.ipv4.src: exact;
        }
        actions = { drop; NoAction; }
        const default_action = NoAction();
    }

    table routes {
        key = {
            hdr.ipv4.dst: lpm;
        }
        actions = { forward; replicate; mirror; drop; NoAction; }
        default_action = drop();
    }

    apply {
        if (standard_metadata.parser_error != error.NoError) {
            drop();
        } else {
            acl.apply();
            routes.apply();
        }
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {}
}

control PacketDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(PacketParser(), NoChecksum(), Router(), NoEgress(), NoChecksum(), PacketDeparser()) main;
