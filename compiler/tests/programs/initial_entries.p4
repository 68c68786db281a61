// Entries of the program that are not const: they are there at the start, and others are added beside them.

#include <core.p4>
#include <v1model.p4>

header data_t {
    bit<8> table_number;
    bit<8> value;
}

struct headers_t {
    data_t data;
}

struct meta_t {}

parser start_parser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.data);
        transition accept;
    }
}

control verify_nothing(inout headers_t hdr, inout meta_t meta) {
    apply {}
}

control ingress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    action forward(bit<9> port) {
        standard.egress_spec = port;
    }

    direct_counter(CounterType.packets) hits;

    // The largest priority wins; the first entry cannot be changed.
    table ranked {
        key = { hdr.data.value: ternary @name("value"); }
        actions = { NoAction; forward; }
        default_action = forward(9);
        counters = hits;
        size = 4;
        entries = {
            const priority = 20: 0xa0 &&& 0xf0: forward(1);
            priority = 10: _: forward(2);
        }
    }

    // Nothing but the key tells entries apart.
    table exactly {
        key = { hdr.data.value: exact @name("value"); }
        actions = { NoAction; forward; }
        default_action = forward(9);
        size = 4;
        entries = {
            1: forward(3);
            const 2: forward(4);
        }
    }

    // The smallest priority wins.
    table smallest {
        key = { hdr.data.value: ternary @name("value"); }
        actions = { NoAction; forward; }
        default_action = forward(9);
        largest_priority_wins = false;
        priority_delta = 5;
        entries = {
            0xa0 &&& 0xf0: forward(5);
            _: forward(6);
        }
    }

    apply {
        if (hdr.data.table_number == 1) {
            ranked.apply();
        } else if (hdr.data.table_number == 2) {
            exactly.apply();
        } else {
            smallest.apply();
        }
    }
}

control egress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    apply {}
}

control compute_nothing(inout headers_t hdr, inout meta_t meta) {
    apply {}
}

control deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.data);
    }
}

V1Switch(start_parser(), verify_nothing(), ingress(), egress(), compute_nothing(), deparse()) main;
