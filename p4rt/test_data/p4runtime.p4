// A small program with one object of each kind, for the tests of the P4Runtime and Thrift servers.
//
// Packets are Ethernet frames. Ingress: packets from the CPU port go to the port in their packet_out header; all others pass `acl`,
// `routes`, `ecmp`, `kinds` and `l2`. Egress adds a packet_in header to packets for the CPU port.

#include <core.p4>
#include <v1model.p4>

#define CPU_PORT 510

header eth_t {
    bit<48> dst;
    bit<48> src;
    bit<16> kind;
}

@controller_header("packet_in")
header in_t {
    @id(1) bit<8> code;
    @id(2) bit<7> pad;
    @id(3) bit<9> port;
}

@controller_header("packet_out")
header out_t {
    @id(1) bit<8> code;
    @id(2) bit<7> pad;
    @id(3) bit<9> port;
}

struct headers_t {
    in_t packet_in;
    out_t packet_out;
    eth_t eth;
}

struct meta_t {
    bit<32> ip;
    bit<32> color;
}

struct digest_t {
    bit<48> mac;
    bit<9> port;
}

struct kind_t {
    @name("kind") bit<16> kind;
}

parser parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    @name(".parser.kinds") @id(0x03000001) value_set<kind_t>(2) kinds;

    state start {
        transition select(standard.ingress_port) {
            CPU_PORT: from_cpu;
            default: ethernet;
        }
    }

    state from_cpu {
        packet.extract(hdr.packet_out);
        transition ethernet;
    }

    state ethernet {
        packet.extract(hdr.eth);
        transition select(hdr.eth.kind) {
            kinds: marked;
            default: accept;
        }
    }

    state marked {
        meta.ip = 0x0a000001;
        transition accept;
    }
}

control verify_nothing(inout headers_t hdr, inout meta_t meta) {
    apply {}
}

control ingress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    @id(0x12000001) counter(4, CounterType.packets_and_bytes) cells;
    @id(0x13000001) direct_counter(CounterType.packets_and_bytes) l2_hits;
    @id(0x14000001) meter(4, MeterType.packets) police;
    @id(0x15000001) direct_meter<bit<32>>(MeterType.bytes) acl_meter;
    @id(0x16000001) register<bit<32>>(4) state;

    @id(0x01000002) action forward(bit<9> port) {
        standard.egress_spec = port;
    }

    @id(0x01000003) action flood(bit<16> group) {
        standard.mcast_grp = group;
    }

    @id(0x01000004) action drop() {
        mark_to_drop(standard);
    }

    @id(0x01000005) action learn(bit<9> port) {
        digest<digest_t>(1, { hdr.eth.src, standard.ingress_port });
        standard.egress_spec = port;
    }

    @id(0x01000006) action miss() {
        mark_to_drop(standard);
    }

    action send() {
        standard.egress_spec = hdr.packet_out.port;
    }

    @id(0x02000003) table acl {
        key = {
            hdr.eth.src: ternary @name("eth.src");
            hdr.eth.kind: range @name("eth.kind");
            standard.ingress_port: optional @name("port");
        }
        actions = { NoAction; drop; }
        default_action = NoAction();
        meters = acl_meter;
        size = 4;
    }

    @id(0x02000002) table routes {
        key = { meta.ip: lpm @name("ip"); }
        actions = { NoAction; forward; }
        const default_action = NoAction();
        size = 4;
    }

    @id(0x02000004) table ecmp {
        key = {
            hdr.eth.kind: exact @name("eth.kind");
            hdr.eth.dst: selector;
        }
        actions = { NoAction; forward; }
        @id(0x11000001) @name("ingress.selector") @max_group_size(4)
        implementation = action_selector(HashAlgorithm.crc32, 16, 32);
        size = 4;
    }

    @id(0x02000005) table kinds {
        key = { hdr.eth.kind: exact @name("eth.kind"); }
        actions = { NoAction; drop; }
        default_action = NoAction();
        const entries = { 0x88cc: drop(); }
        size = 4;
    }

    @id(0x02000001) table l2 {
        key = { hdr.eth.dst: exact @name("eth.dst"); }
        actions = { NoAction; forward; flood; @tableonly drop; learn; @defaultonly miss; }
        default_action = NoAction();
        counters = l2_hits;
        support_timeout = true;
        size = 4;
    }

    @hidden table to_port {
        actions = { send; }
        const default_action = send();
    }

    apply {
        if (standard.ingress_port == CPU_PORT) {
            to_port.apply();
        } else {
            acl.apply();
            routes.apply();
            ecmp.apply();
            kinds.apply();
            l2.apply();
        }
    }
}

control egress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    apply {
        if (standard.egress_port == CPU_PORT) {
            hdr.packet_in.setValid();
            hdr.packet_in.port = standard.ingress_port;
            hdr.packet_in.code = 3;
        }
    }
}

control compute_nothing(inout headers_t hdr, inout meta_t meta) {
    apply {}
}

control deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.eth);
    }
}

V1Switch(parse(), verify_nothing(), ingress(), egress(), compute_nothing(), deparse()) main;
