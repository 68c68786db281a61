// A router for Tofino, with tables of each match kind, counters and registers: the program of tests of BfRuntime.
#include <core.p4>
#include <tna.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> tos;
    bit<16> total_length;
    bit<16> id;
    bit<3> flags;
    bit<13> offset;
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

struct metadata_t {
    bit<8> class;
}

struct seen_t {
    bit<32> packets;
    bit<32> last_src;
}

parser IngressParser(packet_in packet, out headers_t hdr, out metadata_t meta,
                     out ingress_intrinsic_metadata_t intrinsic) {
    state start {
        packet.extract(intrinsic);
        packet.advance(PORT_METADATA_SIZE);
        meta.class = 0;
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            0x0800: ipv4;
            default: accept;
        }
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control Ingress(
    inout headers_t hdr,
    inout metadata_t meta,
    in ingress_intrinsic_metadata_t intrinsic,
    in ingress_intrinsic_metadata_from_parser_t from_parser,
    inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
    inout ingress_intrinsic_metadata_for_tm_t for_tm) {
    Counter<bit<64>, bit<8>>(256, CounterType_t.PACKETS_AND_BYTES) classes;
    DirectCounter<bit<64>>(CounterType_t.PACKETS) routed;
    Meter<bit<8>>(16, MeterType_t.PACKETS) limits;
    Register<seen_t, bit<8>>(16) seen;
    RegisterAction<seen_t, bit<8>, bit<32>>(seen) record = {
        void apply(inout seen_t value) {
            value.packets = value.packets + 1;
            value.last_src = hdr.ipv4.src;
        }
    };

    action forward(bit<9> port) {
        for_tm.ucast_egress_port = port;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        routed.count();
    }

    action drop() {
        for_deparser.drop_ctl = 1;
        routed.count();
    }

    table routes {
        key = { hdr.ipv4.dst: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        counters = routed;
        size = 64;
    }

    action classify(bit<8> class) {
        meta.class = class;
    }

    table rules {
        key = {
            hdr.ipv4.src: ternary;
            hdr.ipv4.tos: range;
        }
        actions = { classify; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    action allow() {}

    action deny() {
        for_deparser.drop_ctl = 1;
    }

    table hosts {
        key = { hdr.ethernet.src: exact; }
        actions = { allow; deny; }
        default_action = allow();
        size = 64;
    }

    apply {
        if (hdr.ipv4.isValid()) {
            routes.apply();
            rules.apply();
            classes.count(meta.class);
            record.execute(0);
            bit<2> color = (bit<2>)limits.execute(0);
            if (color == 3) {
                for_deparser.drop_ctl = 1;
            }
        } else {
            for_deparser.drop_ctl = 1;
        }
        hosts.apply();
    }
}

control IngressDeparser(
    packet_out packet,
    inout headers_t hdr,
    in metadata_t meta,
    in ingress_intrinsic_metadata_for_deparser_t for_deparser) {
    apply {
        packet.emit(hdr);
    }
}

struct no_headers_t {}

struct no_metadata_t {}

parser EgressParser(packet_in packet, out no_headers_t hdr, out no_metadata_t meta,
                    out egress_intrinsic_metadata_t intrinsic) {
    state start {
        packet.extract(intrinsic);
        transition accept;
    }
}

control Egress(
    inout no_headers_t hdr,
    inout no_metadata_t meta,
    in egress_intrinsic_metadata_t intrinsic,
    in egress_intrinsic_metadata_from_parser_t from_parser,
    inout egress_intrinsic_metadata_for_deparser_t for_deparser,
    inout egress_intrinsic_metadata_for_output_port_t for_port) {
    apply {}
}

control EgressDeparser(
    packet_out packet,
    inout no_headers_t hdr,
    in no_metadata_t meta,
    in egress_intrinsic_metadata_for_deparser_t for_deparser) {
    apply {
        packet.emit(hdr);
    }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), EgressParser(), Egress(), EgressDeparser()) pipe;

Switch(pipe) main;
