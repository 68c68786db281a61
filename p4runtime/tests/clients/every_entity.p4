// One object of each kind that P4Runtime can write and read.
#include <core.p4>
#include <v1model.p4>

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<7> padding;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> padding;
}

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> kind;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> dscp_ecn;
    bit<16> length;
    bit<16> identification;
    bit<16> fragment;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> source;
    bit<32> destination;
}

struct headers_t {
    packet_out_t packet_out;
    packet_in_t packet_in;
    ethernet_t ethernet;
    ipv4_t ipv4;
}

struct metadata_t {
    bit<2> color;
}

struct learned_t {
    bit<48> source;
    bit<9> port;
}

const bit<9> CPU_PORT = 510;

parser EntityParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    value_set<bit<16>>(4) ip_kinds;

    state start {
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: from_controller;
            default: parse_ethernet;
        }
    }
    state from_controller {
        packet.extract(hdr.packet_out);
        transition parse_ethernet;
    }
    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) {
            ip_kinds: parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control EntityVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control EntityIngress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    counter(16, CounterType.packets_and_bytes) port_packets;
    meter(16, MeterType.packets) port_rates;
    register<bit<32>>(16) last_seen;
    direct_counter(CounterType.packets_and_bytes) exact_packets;
    direct_meter<bit<2>>(MeterType.bytes) ternary_rates;
    action_selector(HashAlgorithm.crc32, 64, 16) next_hops;

    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action multicast(bit<16> group) {
        standard_metadata.mcast_grp = group;
    }

    action mirror(bit<32> session) {
        clone(CloneType.I2E, session);
    }

    action to_controller() {
        standard_metadata.egress_spec = CPU_PORT;
    }

    action learn() {
        digest<learned_t>(1, {hdr.ethernet.source, standard_metadata.ingress_port});
    }

    action metered(bit<9> port) {
        ternary_rates.read(meta.color);
        standard_metadata.egress_spec = port;
    }

    action drop() {
        mark_to_drop(standard_metadata);
    }

    table exact_table {
        key = {
            hdr.ethernet.destination: exact;
        }
        actions = { forward; multicast; mirror; to_controller; learn; drop; }
        default_action = drop();
        counters = exact_packets;
        size = 1024;
        support_timeout = true;
    }

    table lpm_table {
        key = {
            hdr.ipv4.destination: lpm;
        }
        actions = { forward; drop; NoAction; }
        size = 1024;
    }

    table ternary_table {
        key = {
            hdr.ipv4.source: ternary;
        }
        actions = { metered; NoAction; }
        meters = ternary_rates;
        size = 1024;
    }

    table range_table {
        key = {
            hdr.ipv4.length: range;
        }
        actions = { forward; NoAction; }
        size = 1024;
    }

    table optional_table {
        key = {
            hdr.ipv4.protocol: optional;
        }
        actions = { forward; NoAction; }
        size = 1024;
    }

    table selected_table {
        key = {
            hdr.ipv4.ttl: exact;
            hdr.ethernet.source: selector;
        }
        actions = { forward; NoAction; }
        implementation = next_hops;
        size = 1024;
    }

    apply {
        bit<32> index = (bit<32>)(standard_metadata.ingress_port & 15);
        port_packets.count(index);
        port_rates.execute_meter(index, meta.color);
        last_seen.write(index, hdr.ethernet.source[31:0]);
        // For egress port 0, the tables select the port.
        if (hdr.packet_out.isValid() && hdr.packet_out.egress_port != 0) {
            standard_metadata.egress_spec = hdr.packet_out.egress_port;
        } else {
            exact_table.apply();
            if (hdr.ipv4.isValid()) {
                lpm_table.apply();
                ternary_table.apply();
                range_table.apply();
                optional_table.apply();
                selected_table.apply();
            }
        }
        hdr.packet_out.setInvalid();
    }
}

control EntityEgress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    apply {
        if (standard_metadata.egress_port == CPU_PORT) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = standard_metadata.ingress_port;
            hdr.packet_in.padding = 0;
        }
    }
}

control EntityCompute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control EntityDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(EntityParser(), EntityVerify(), EntityIngress(), EntityEgress(), EntityCompute(), EntityDeparser()) main;
