// Tables and arrays of each kind, all of which every packet accesses. The soak test fills and empties them
// while packets pass.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> kind;
}

@controller_header("packet_in")
header packet_in_t {
    bit<7> pad;
    bit<9> port;
}

@controller_header("packet_out")
header packet_out_t {
    bit<7> pad;
    bit<9> port;
}

struct headers_t {
    packet_out_t packet_out;
    packet_in_t packet_in;
    ethernet_t ethernet;
}

struct learned_t {
    bit<48> src;
    bit<9> port;
}

struct metadata_t {
    bit<8> color;
    bit<32> seen;
}

const bit<9> CPU_PORT = 510;

parser SoakParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    value_set<bit<16>>(64) kinds;

    state start {
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: parse_packet_out;
            default: parse_ethernet;
        }
    }

    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition parse_ethernet;
    }

    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) {
            kinds: accept;
            default: accept;
        }
    }
}

control VerifyNothing(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    register<bit<32>>(1024) seen;
    counter(1024, CounterType.packets_and_bytes) frames;
    meter(1024, MeterType.packets) police;
    direct_counter(CounterType.packets_and_bytes) forwarded;
    direct_meter<bit<8>>(MeterType.bytes) colors;

    action pass() {}

    action pass_coloured() {
        colors.read(meta.color);
    }

    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
        forwarded.count();
    }

    action flood(bit<16> group) {
        standard_metadata.mcast_grp = group;
        forwarded.count();
    }

    action to_controller() {
        standard_metadata.egress_spec = CPU_PORT;
        forwarded.count();
    }

    action learn(bit<9> port) {
        digest<learned_t>(1, { hdr.ethernet.src, standard_metadata.ingress_port });
        standard_metadata.egress_spec = port;
        forwarded.count();
    }

    action discard() {
        mark_to_drop(standard_metadata);
        forwarded.count();
    }

    action mirror(bit<32> session) {
        clone(CloneType.I2E, session);
    }

    table filter {
        key = {
            hdr.ethernet.src: ternary;
            hdr.ethernet.kind: range;
            standard_metadata.ingress_port: optional;
        }
        actions = { pass_coloured; }
        default_action = pass_coloured();
        meters = colors;
        size = 65536;
    }

    table prefixes {
        key = { hdr.ethernet.src: lpm; }
        actions = { pass; mirror; }
        default_action = pass();
        size = 65536;
    }

    table spread {
        key = { hdr.ethernet.kind: exact; }
        actions = { pass; }
        implementation = action_selector(HashAlgorithm.crc32, 32w1024, 32w16);
        size = 65536;
    }

    table stations {
        key = { hdr.ethernet.dst: exact; }
        actions = { forward; flood; to_controller; learn; discard; }
        default_action = discard();
        counters = forwarded;
        support_timeout = true;
        size = 65536;
    }

    apply {
        if (hdr.packet_out.isValid()) {
            standard_metadata.egress_spec = hdr.packet_out.port;
            hdr.packet_out.setInvalid();
        } else {
            bit<32> cell = (bit<32>)hdr.ethernet.src[9:0];
            seen.read(meta.seen, cell);
            seen.write(cell, meta.seen + 1);
            frames.count(cell);
            police.execute_meter(cell, meta.color);
            filter.apply();
            prefixes.apply();
            spread.apply();
            stations.apply();
        }
    }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        if (standard_metadata.egress_port == CPU_PORT) {
            hdr.packet_in.setValid();
            hdr.packet_in.port = standard_metadata.ingress_port;
        }
    }
}

control UpdateNothing(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control SoakDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
    }
}

V1Switch(SoakParser(), VerifyNothing(), ingress(), egress(), UpdateNothing(), SoakDeparser()) main;
