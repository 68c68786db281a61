// Tables with initial entries: const ones and mutable ones, with and without priorities.

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
    @id(0x01000001) action forward(bit<9> port) {
        standard.egress_spec = port;
    }

    @id(0x13000001) direct_counter(CounterType.packets) hits;

    // The largest priority wins; the first entry cannot be changed.
    @id(0x02000001) table ranked {
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

    // The key alone identifies entries.
    @id(0x02000002) table exactly {
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
    @id(0x02000003) table smallest {
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

    // The program sets no priorities.
    @id(0x02000004) table unranked {
        key = { hdr.data.value: ternary @name("value"); }
        actions = { NoAction; forward; }
        default_action = forward(9);
        priority_delta = 100;
        entries = {
            0xa0 &&& 0xf0: forward(5);
            0xb0 &&& 0xf0: forward(6);
            _: forward(7);
        }
    }

    @id(0x02000005) table fixed {
        key = { hdr.data.value: ternary @name("value"); }
        actions = { NoAction; forward; }
        default_action = forward(9);
        const entries = {
            0xa0 &&& 0xf0: forward(5);
            _: forward(6);
        }
    }

    apply {
        if (hdr.data.table_number == 1) {
            ranked.apply();
        } else if (hdr.data.table_number == 2) {
            exactly.apply();
        } else if (hdr.data.table_number == 3) {
            smallest.apply();
        } else if (hdr.data.table_number == 4) {
            unranked.apply();
        } else {
            fixed.apply();
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
