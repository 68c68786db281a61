// Translated types in all places where P4Runtime has values.

#define V1MODEL_VERSION 20200408
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 510;

// Four values in the data plane, two of which the program maps.
@p4runtime_translation("example.org/name", string)
@p4runtime_translation_mappings({ { "", 0 }, { "pinned", 2 } })
type bit<2> name_t;

// Numbers wider than in the data plane.
@p4runtime_translation("example.org/port", bit<32>)
type bit<9> port_t;

@p4runtime_translation("example.org/label", string)
type bit<16> label_t;

typedef label_t label_alias_t;

// As wide as in the data plane: nothing is translated.
@p4runtime_translation("example.org/same", 16)
type bit<16> same_t;

@controller_header("packet_in")
header packet_in_t {
    port_t ingress_port;
    bit<7> unused;
}

@controller_header("packet_out")
header packet_out_t {
    port_t egress_port;
    bit<7> unused;
}

header data_t {
    bit<8> op;
    bit<8> value;
    bit<16> wide;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    data_t data;
}

struct inner_t {
    label_alias_t label;
}

struct digest_t {
    port_t port;
    inner_t inner;
}

struct meta_t {
    bit<1> in_set;
}

parser start_parser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    @id(0x03000001) value_set<label_t>(4) labels;

    state start {
        transition select(standard.ingress_port) {
            CPU_PORT: from_cpu;
            default: data;
        }
    }
    state from_cpu {
        packet.extract(hdr.packet_out);
        transition data;
    }
    state data {
        packet.extract(hdr.data);
        transition select((label_t)hdr.data.wide) {
            labels: in_set;
            default: accept;
        }
    }
    state in_set {
        meta.in_set = 1;
        transition accept;
    }
}

control verify_nothing(inout headers_t hdr, inout meta_t meta) {
    apply {}
}

control ingress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    @id(0x12000001) counter<port_t>(512, CounterType.packets) cells;
    @id(0x16000001) register<label_t, bit<32>>(4) last;

    @id(0x01000001) action set_name(name_t name) {
        hdr.data.value = (bit<8>)(bit<2>)name;
    }
    @id(0x01000002) action send(port_t port) {
        standard.egress_spec = (bit<9>)port;
        cells.count(port);
    }
    @id(0x01000003) action set_label(label_alias_t label) {
        hdr.data.wide = (bit<16>)label;
        last.write(1, label);
        digest<digest_t>(1, { (port_t)standard.ingress_port, { label } });
    }

    // The controller's value of the packet's number.
    @id(0x02000001) table by_name {
        key = { (name_t)hdr.data.value[1:0]: exact @name("name"); }
        actions = { NoAction; set_name; set_label; }
        default_action = NoAction();
    }
    @id(0x02000002) table by_port {
        key = {
            (port_t)standard.ingress_port: optional @name("port");
            (port_t)hdr.data.wide[8:0]: ternary @name("masked");
            (same_t)hdr.data.wide: ternary @name("same");
        }
        actions = { NoAction; send; }
        default_action = NoAction();
    }
    @id(0x02000003) table by_label {
        key = { (label_t)hdr.data.wide: exact @name("label"); }
        actions = { NoAction; set_name; }
        default_action = NoAction();
        size = 100000;
    }
    // The data plane's value 1 is in use from the start.
    @id(0x02000004) table fixed {
        key = { (label_t)hdr.data.wide: exact @name("label"); }
        actions = { NoAction; set_label; }
        const entries = { (label_t)1: set_label((label_t)3); }
    }
    @id(0x02000005) table shared_actions {
        key = { hdr.data.op: exact @name("op"); }
        actions = { NoAction; set_label; }
        @id(0x11000001) implementation = action_profile(8);
    }

    apply {
        if (standard.ingress_port == CPU_PORT) {
            standard.egress_spec = (bit<9>)hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            standard.egress_spec = 5;
            if (hdr.data.op == 1) {
                by_name.apply();
            } else if (hdr.data.op == 2) {
                by_port.apply();
            } else if (hdr.data.op == 3) {
                by_label.apply();
            } else if (hdr.data.op == 4) {
                standard.egress_spec = CPU_PORT;
            } else if (hdr.data.op == 5) {
                fixed.apply();
            } else if (hdr.data.op == 6) {
                hdr.data.value = (bit<8>)meta.in_set;
            } else {
                shared_actions.apply();
            }
        }
    }
}

control egress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    apply {
        if (standard.egress_port == CPU_PORT) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = (port_t)standard.ingress_port;
            hdr.packet_in.unused = 0;
        }
    }
}

control compute_nothing(inout headers_t hdr, inout meta_t meta) {
    apply {}
}

control deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.data);
    }
}

V1Switch(start_parser(), verify_nothing(), ingress(), egress(), compute_nothing(), deparse()) main;
