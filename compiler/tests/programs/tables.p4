// Tables: all match kinds, entries of the program with priorities, results of apply, default actions, computed keys,
// several applications of one table.

#include <core.p4>
#include <v1model.p4>

enum bit<16> Kind {
    Plain = 0x0010,
    Other = 0x1234
}

header data_t {
    bit<8>  op;
    bit<16> key;
    bit<8>  other;
    bit<8>  result;
    bit<8>  more;
}

struct headers_t {
    data_t data;
}

struct metadata_t { }

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.data);
        transition accept;
    }
}

control MyVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    action set(bit<8> value) {
        hdr.data.result = value;
    }

    action set_both(bit<8> value, bit<8> more) {
        hdr.data.result = value;
        hdr.data.more = more;
    }

    action bound(inout bit<8> target, in bit<8> by, bit<8> value) {
        target = target + by + value;
    }

    action stop_at_nine(bit<8> value) {
        hdr.data.result = value;
        if (value == 9) {
            exit;
        }
        hdr.data.result = value + 1;
    }

    table stopping {
        key = { hdr.data.key: exact; }
        actions = { stop_at_nine; }
        default_action = stop_at_nine(9);
        const entries = { 1: stop_at_nine(1); }
    }

    table exact_match {
        key = {
            hdr.data.key: exact;
            hdr.data.other: exact @name("other");
        }
        actions = { set; set_both; NoAction; }
        default_action = set(0xdd);
    }

    table longest {
        key = { hdr.data.key: lpm; }
        actions = { set; }
        default_action = set(1);
        const entries = {
            0x1200 &&& 0xff00: set(2);
            0x1234: set(3);
            0x1000 &&& 0xf000: set(4);
        }
    }

    table masked {
        key = { hdr.data.key: ternary; hdr.data.other: ternary; }
        actions = { set; set_both; }
        const default_action = set(9);
        const entries = {
            (0x0001 &&& 0x0001, _): set(1);
            (_, 7): set_both(2, 3);
            (0x8000 &&& 0x8000, 0x10 &&& 0xf0): set(3);
            default: set(4);
        }
    }

    table ranges {
        key = { hdr.data.key: range; hdr.data.other: optional; }
        actions = { set; }
        default_action = set(0);
        largest_priority_wins = false;
        const entries = {
            const priority = 20: (10 .. 20, _): set(1);
            const priority = 10: (15 .. 30, 5): set(2);
        }
    }

    table computed {
        key = {
            hdr.data.key[7:0] ++ hdr.data.other: exact @name("joined");
            hdr.data.isValid(): exact;
            hdr.data.key & 0x0ff0: ternary;
            hdr.data.key == 0x1111: exact @name("is_ones");
        }
        actions = { bound(hdr.data.result, hdr.data.more); NoAction; }
    }

    table nested {
        key = {
            exact_match.apply().hit: exact @name("known");
            hdr.data.other: exact;
        }
        actions = { set; }
        default_action = set(0);
        const entries = {
            (true, 5): set(0x51);
            (false, 5): set(0x50);
        }
    }

    table kinds {
        key = { (Kind)hdr.data.key: ternary @name("kind"); }
        actions = { set; }
        default_action = set(0);
        const entries = {
            Kind.Plain: set(1);
            (bit<16>)Kind.Other &&& 0xff00: set(2);
            { (Kind)0x8010 }: set(3);
        }
    }

    table no_key {
        actions = { set; }
        default_action = set(0x42);
    }

    table again {
        key = { hdr.data.key: exact; }
        actions = { set; NoAction; }
        default_action = NoAction;
    }

    table once_more {
        key = { hdr.data.key: exact; }
        actions = { set; }
        default_action = set(0);
    }

    apply {
        standard_metadata.egress_spec = 1;
        if (hdr.data.op == 1) {
            exact_match.apply();
        } else if (hdr.data.op == 2) {
            longest.apply();
        } else if (hdr.data.op == 3) {
            masked.apply();
        } else if (hdr.data.op == 4) {
            if (ranges.apply().hit) {
                hdr.data.more = 0x11;
            } else {
                hdr.data.more = 0x22;
            }
        } else if (hdr.data.op == 5) {
            computed.apply();
        } else if (hdr.data.op == 6) {
            no_key.apply();
        } else if (hdr.data.op == 7) {
            switch (again.apply().action_run) {
                set: { hdr.data.more = 1; }
                NoAction: { hdr.data.more = 2; }
            }
        } else if (hdr.data.op == 8) {
            bool hit = !once_more.apply().miss && hdr.data.other == 8;
            hdr.data.more = hit ? 8w1 : 8w0;
        } else if (hdr.data.op == 9) {
            if (once_more.apply().hit) {
                hdr.data.more = 5;
            }
            hdr.data.key = 1;
            once_more.apply();
            hdr.data.other = 0xff;
        } else if (hdr.data.op == 10) {
            switch (again.apply().action_run) {
                set: { hdr.data.more = 3; }
                default: { hdr.data.more = 4; }
            }
        } else if (hdr.data.op == 11) {
            nested.apply();
        } else if (hdr.data.op == 12) {
            kinds.apply();
        } else if (hdr.data.op == 13) {
            stopping.apply();
            hdr.data.more = 7;
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    apply { }
}

control MyComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(), MyDeparser()) main;
