// A program for v1model that uses every feature of a switch: tables of every match kind, stateful objects, clones, multicast, resubmission,
// recirculation, digests, and packets to and from the controller.
//
// The first byte of a probe selects the operation (ptf-tests/alfirk_ptf/probes.py has the same numbers); the program writes the result into it.
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 510;

const bit<16> PROBE = 0x88B5;
const bit<16> IPV4 = 0x0800;
const bit<16> IPV6 = 0x86DD;

// Values of standard_metadata.instance_type in simple_switch.
const bit<32> INGRESS_CLONE = 1;
const bit<32> EGRESS_CLONE = 2;
const bit<32> RECIRCULATED = 4;
const bit<32> RESUBMITTED = 6;

// Field list of the metadata that clones, resubmitted and recirculated packets keep.
const bit<8> KEPT = 1;

// Values of probe.op.
const bit<8> OP_FORWARD = 0;
const bit<8> OP_EXACT = 1;
const bit<8> OP_LPM = 2;
const bit<8> OP_TERNARY = 3;
const bit<8> OP_RANGE = 4;
const bit<8> OP_OPTIONAL = 5;
const bit<8> OP_PROFILE = 6;
const bit<8> OP_SELECTOR = 7;
const bit<8> OP_METER = 8;
const bit<8> OP_DIRECT_METER = 9;
const bit<8> OP_REGISTER = 10;
const bit<8> OP_DIGEST = 11;
const bit<8> OP_CLONE_INGRESS = 12;
const bit<8> OP_CLONE_EGRESS = 13;
const bit<8> OP_MULTICAST = 14;
const bit<8> OP_RESUBMIT = 15;
const bit<8> OP_RECIRCULATE = 16;
const bit<8> OP_TRUNCATE = 17;
const bit<8> OP_PACKET_IN = 18;
const bit<8> OP_PRIORITY = 19;

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
    bit<8> tos;
    bit<16> length;
    bit<16> identification;
    bit<16> fragment;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> source;
    bit<32> destination;
}

header ipv6_t {
    bit<64> fixed;
    bit<128> source;
    bit<128> destination;
}

header probe_t {
    bit<8> op;
    // Set before cloning or resubmitting, to show which version of the packet a copy has.
    bit<8> mark;
    // Egress port, for operations that do not get it from a table.
    bit<16> port;
    bit<32> key;
    bit<32> other;
    bit<32> result;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    ethernet_t ethernet;
    ipv4_t ipv4;
    ipv6_t ipv6;
    probe_t probe;
}

struct metadata_t {
    @field_list(KEPT)
    bit<32> kept;
    bit<2> color;
}

struct learned_t {
    bit<48> source;
    bit<32> key;
    bit<9> port;
}

parser FeatureParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    value_set<bit<16>>(4) probe_kinds;

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
            PROBE: parse_probe;
            IPV4: parse_ipv4;
            IPV6: parse_ipv6;
            probe_kinds: parse_probe;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        transition accept;
    }
    state parse_probe {
        packet.extract(hdr.probe);
        transition accept;
    }
}

control FeatureVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control FeatureIngress(inout headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) {
    counter(512, CounterType.packets_and_bytes) arrivals;
    meter(16, MeterType.packets) rates;
    register<bit<32>>(16) cells;
    direct_counter(CounterType.packets_and_bytes) exact_hits;
    direct_meter<bit<2>>(MeterType.packets) direct_rates;
    action_profile(16) profile;
    action_selector(HashAlgorithm.crc32, 64, 16) selector;

    action drop() {
        mark_to_drop(standard_metadata);
    }

    // The result identifies the matching entry.
    action hit(bit<9> port, bit<32> result) {
        standard_metadata.egress_spec = port;
        hdr.probe.result = result;
    }

    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action metered_hit(bit<9> port) {
        direct_rates.read(meta.color);
        standard_metadata.egress_spec = port;
    }

    table exact_table {
        key = {
            hdr.probe.key: exact;
            hdr.probe.other: exact;
        }
        actions = { hit; drop; }
        default_action = drop();
        counters = exact_hits;
        support_timeout = true;
        size = 1024;
    }

    table lpm_table {
        key = { hdr.probe.key: lpm; }
        actions = { hit; drop; }
        default_action = drop();
        size = 1024;
    }

    table ternary_table {
        key = {
            hdr.probe.key: ternary;
            hdr.probe.other: ternary;
        }
        actions = { hit; drop; }
        default_action = drop();
        size = 1024;
    }

    table range_table {
        key = { hdr.probe.key: range; }
        actions = { hit; drop; }
        default_action = drop();
        size = 1024;
    }

    table optional_table {
        key = {
            hdr.probe.key: optional;
            hdr.probe.other: optional;
        }
        actions = { hit; drop; }
        default_action = drop();
        size = 1024;
    }

    table profile_table {
        key = { hdr.probe.key: exact; }
        actions = { hit; drop; }
        implementation = profile;
        size = 1024;
    }

    table selector_table {
        key = {
            hdr.probe.key: exact;
            hdr.probe.other: selector;
        }
        actions = { hit; drop; }
        implementation = selector;
        size = 1024;
    }

    table metered_table {
        key = { hdr.probe.key: exact; }
        actions = { metered_hit; drop; }
        default_action = drop();
        meters = direct_rates;
        size = 1024;
    }

    // Packets other than probes are forwarded by their valid headers.
    table layers {
        key = {
            hdr.ipv4.isValid(): exact;
            hdr.ipv6.isValid(): exact;
        }
        actions = { forward; drop; }
        const default_action = drop();
        const entries = {
            (true, false): forward(2);
            (false, true): forward(3);
            (false, false): forward(4);
        }
    }

    apply {
        arrivals.count((bit<32>)standard_metadata.ingress_port);
        if (hdr.packet_out.isValid()) {
            standard_metadata.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else if (!hdr.probe.isValid()) {
            layers.apply();
        } else {
            standard_metadata.egress_spec = (bit<9>)hdr.probe.port;
            if (hdr.probe.op == OP_EXACT) {
                exact_table.apply();
            } else if (hdr.probe.op == OP_LPM) {
                lpm_table.apply();
            } else if (hdr.probe.op == OP_TERNARY) {
                ternary_table.apply();
            } else if (hdr.probe.op == OP_RANGE) {
                range_table.apply();
            } else if (hdr.probe.op == OP_OPTIONAL) {
                optional_table.apply();
            } else if (hdr.probe.op == OP_PROFILE) {
                profile_table.apply();
            } else if (hdr.probe.op == OP_SELECTOR) {
                selector_table.apply();
            } else if (hdr.probe.op == OP_METER) {
                rates.execute_meter(hdr.probe.key, meta.color);
                hdr.probe.result = (bit<32>)meta.color;
            } else if (hdr.probe.op == OP_DIRECT_METER) {
                metered_table.apply();
                hdr.probe.result = (bit<32>)meta.color;
            } else if (hdr.probe.op == OP_REGISTER) {
                cells.read(hdr.probe.result, hdr.probe.key);
                cells.write(hdr.probe.key, hdr.probe.other);
            } else if (hdr.probe.op == OP_DIGEST) {
                digest<learned_t>(1, {hdr.ethernet.source, hdr.probe.key, standard_metadata.ingress_port});
            } else if (hdr.probe.op == OP_CLONE_INGRESS) {
                meta.kept = hdr.probe.other;
                // The clone is a copy of the received packet, without the mark.
                hdr.probe.mark = 1;
                clone_preserving_field_list(CloneType.I2E, hdr.probe.key, KEPT);
            } else if (hdr.probe.op == OP_CLONE_EGRESS) {
                meta.kept = hdr.probe.other;
            } else if (hdr.probe.op == OP_MULTICAST) {
                standard_metadata.mcast_grp = (bit<16>)hdr.probe.key;
            } else if (hdr.probe.op == OP_RESUBMIT) {
                if (standard_metadata.instance_type == RESUBMITTED) {
                    hdr.probe.result = meta.kept;
                } else {
                    meta.kept = hdr.probe.other;
                    // The received packet is resubmitted, without the mark.
                    hdr.probe.mark = 1;
                    resubmit_preserving_field_list(KEPT);
                }
            } else if (hdr.probe.op == OP_RECIRCULATE) {
                if (standard_metadata.instance_type == RECIRCULATED) {
                    hdr.probe.result = hdr.probe.result + meta.kept;
                }
            } else if (hdr.probe.op == OP_TRUNCATE) {
                truncate(hdr.probe.key);
            } else if (hdr.probe.op == OP_PACKET_IN) {
                standard_metadata.egress_spec = CPU_PORT;
            } else if (hdr.probe.op == OP_PRIORITY) {
                standard_metadata.priority = (bit<3>)hdr.probe.key;
            }
        }
    }
}

control FeatureEgress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    apply {
        if (hdr.probe.isValid()) {
            if (hdr.probe.op == OP_CLONE_INGRESS && standard_metadata.instance_type == INGRESS_CLONE) {
                hdr.probe.result = meta.kept;
            } else if (hdr.probe.op == OP_CLONE_EGRESS) {
                if (standard_metadata.instance_type == EGRESS_CLONE) {
                    hdr.probe.result = meta.kept;
                } else {
                    // The clone is a copy of the modified packet, with the mark.
                    hdr.probe.mark = 1;
                    clone_preserving_field_list(CloneType.E2E, hdr.probe.key, KEPT);
                }
            } else if (hdr.probe.op == OP_MULTICAST) {
                hdr.probe.result = (bit<32>)standard_metadata.egress_rid;
            } else if (hdr.probe.op == OP_RECIRCULATE && hdr.probe.key > 0) {
                meta.kept = hdr.probe.other;
                hdr.probe.key = hdr.probe.key - 1;
                recirculate_preserving_field_list(KEPT);
            }
        }
        if (standard_metadata.egress_port == CPU_PORT) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = standard_metadata.ingress_port;
            hdr.packet_in.padding = 0;
        }
    }
}

control FeatureCompute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control FeatureDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.probe);
    }
}

V1Switch(FeatureParser(), FeatureVerify(), FeatureIngress(), FeatureEgress(), FeatureCompute(), FeatureDeparser()) main;
