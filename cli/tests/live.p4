// Objects that a test of a started switch uses: entries of all kinds, direct counters, registers, copies.

#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> kind;
}

struct headers_t {
    ethernet_t ethernet;
}

struct metadata_t { }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,
         inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control I(inout headers_t hdr, inout metadata_t meta,
          inout standard_metadata_t standard_metadata) {
    direct_counter(CounterType.packets_and_bytes) hits;
    counter(8, CounterType.packets) kinds;
    register<bit<48>>(4) sources;
    meter(2, MeterType.packets) rates;

    action drop() {
        mark_to_drop(standard_metadata);
    }
    action forward(bit<9> port) {
        hits.count();
        standard_metadata.egress_spec = port;
    }
    action flood(bit<16> group) {
        standard_metadata.mcast_grp = group;
    }
    action mirror(bit<9> port, bit<32> session) {
        standard_metadata.egress_spec = port;
        clone(CloneType.I2E, session);
    }

    table routes {
        key = {
            hdr.ethernet.dst: ternary;
            hdr.ethernet.isValid(): exact;
            hdr.ethernet.kind: range;
        }
        actions = { drop; forward; flood; mirror; }
        default_action = drop;
        counters = hits;
    }

    table prefixes {
        key = { hdr.ethernet.src: lpm; hdr.ethernet.kind: optional; }
        actions = { drop; NoAction; }
    }

    apply {
        bit<48> from;
        bit<2> color;
        kinds.count((bit<32>)hdr.ethernet.kind & 7);
        sources.read(from, 1);
        hdr.ethernet.src = hdr.ethernet.src | from;
        sources.write(2, hdr.ethernet.src);
        routes.apply();
        prefixes.apply();
        rates.execute_meter(1, color);
        if (color == 2) {
            drop();
        }
    }
}

control E(inout headers_t hdr, inout metadata_t meta,
          inout standard_metadata_t standard_metadata) {
    apply {
        if (standard_metadata.instance_type != 0) {
            hdr.ethernet.kind = (bit<16>)standard_metadata.egress_rid;
        }
    }
}

control C(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
