// `switch` on values in actions, of controls and of the top level, in functions, in choices and in each other.

#include <core.p4>
#include <v1model.p4>

enum Color { Red, Green, Blue }

enum bit<8> Kind {
    First = 1,
    Second = 2
}

header data_t {
    bit<8> op;
    bit<8> key;
    bit<8> result;
    bit<8> more;
}

struct headers_t {
    data_t data;
}

struct metadata_t { }

action top(inout bit<8> value, in bit<8> by) {
    switch (by) {
        1: { value = 0x11; }
        2:
        3: { value = 0x23; }
        default: { value = 0xdd; }
    }
}

bit<8> of_function(in Kind kind) {
    switch (kind) {
        Kind.First: { return 1; }
        Kind.Second: { return 2; }
    }
    return 0xff;
}

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
    Color color = Color.Green;

    action local() {
        switch (hdr.data.key) {
            1: { hdr.data.result = 1; }
            // Cases without a body go on to the next one.
            2:
            3: { hdr.data.result = 2; }
            4: { }
            default: { hdr.data.result = 9; }
        }
        hdr.data.more = 1;
    }
    action without_default() {
        switch (hdr.data.key) {
            7: { hdr.data.result = 7; }
        }
    }
    action parameter(bit<8> given) {
        switch (given + hdr.data.key) {
            5: { hdr.data.result = given; }
            6: { top(hdr.data.result, given); }
            default: { return; }
        }
        hdr.data.more = 2;
    }
    action changes_its_subject() {
        switch (hdr.data.key) {
            1: { hdr.data.key = 2; hdr.data.result = hdr.data.result + 1; }
            2: { hdr.data.key = 1; hdr.data.result = hdr.data.result + 2; }
        }
    }
    action nested() {
        if (hdr.data.key > 0x7f) {
            switch (hdr.data.key & 0x0f) {
                1: {
                    switch (hdr.data.result) {
                        0: { hdr.data.result = 0xa0; }
                        default: { hdr.data.result = 0xaf; }
                    }
                }
                2: { exit; }
                default: { hdr.data.result = 0xb0; }
            }
        } else {
            switch ((int<8>)hdr.data.key - 6) {
                -1: { hdr.data.result = 0x55; }
                0: { hdr.data.result = 0x56; }
            }
        }
        hdr.data.more = 3;
    }
    action of_enums() {
        switch (color) {
            Color.Red: { hdr.data.result = 1; }
            Color.Green: { hdr.data.result = of_function((Kind)hdr.data.key); }
            Color.Blue: { hdr.data.result = 3; }
        }
    }
    action constant() {
        switch (8w3) {
            3: { hdr.data.result = 0x33; }
            default: { hdr.data.result = 0x44; }
        }
    }
    table t {
        key = { hdr.data.op: exact; }
        actions = { local; without_default; parameter; changes_its_subject; nested; of_enums; constant; top(hdr.data.result, 3); NoAction; }
        default_action = NoAction();
        const entries = {
            1: local();
            2: without_default();
            3: parameter(2);
            4: changes_its_subject();
            5: nested();
            6: of_enums();
            7: constant();
            8: top(hdr.data.result, 3);
        }
    }

    apply {
        standard_metadata.egress_spec = 1;
        if (hdr.data.op != 0x10) {
            switch (t.apply().action_run) {
                without_default: { hdr.data.more = 0x20; }
                default: { }
            }
        } else {
            // Called, not by a table.
            local();
            top(hdr.data.result, hdr.data.result);
        }
        hdr.data.more = hdr.data.more + 0x80;
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
        packet.emit(hdr.data);
    }
}

V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(), MyDeparser()) main;
