// Tables of all kinds, for the tests of `alfirk new ptf`.

#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

struct headers_t {
    ethernet_t ethernet;
}

struct metadata_t {
    bit<8> word;
}

parser all_parser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control no_checksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action forward(bit<9> port) {
        std.egress_spec = port;
    }

    action set_word(bit<8> word) {
        meta.word = word;
    }

    action drop() {
        mark_to_drop(std);
    }

    action random_source() {
        random(hdr.ethernet.src, 0, 48w0xffffffffffff);
    }

    action only_default() {}

    table exact_keys {
        key = {
            std.ingress_port: exact;
            hdr.ethernet.type: exact;
        }
        actions = {
            set_word;
            @defaultonly only_default;
        }
        default_action = only_default;
    }

    table other_keys {
        key = {
            hdr.ethernet.dst: ternary;
            hdr.ethernet.type: range;
            hdr.ethernet.src: optional;
        }
        actions = {
            drop;
            forward;
        }
    }

    table constant {
        key = {
            meta.word: exact;
        }
        actions = {
            NoAction;
        }
        const entries = {
            7: NoAction();
        }
    }

    table keyless {
        actions = {
            set_word;
        }
    }

    @entry_restriction("hdr.ethernet.type == 7")
    table restricted {
        key = {
            hdr.ethernet.type: exact;
        }
        actions = {
            NoAction;
        }
    }

    table member {
        key = {
            hdr.ethernet.type: exact;
        }
        actions = {
            set_word;
        }
        implementation = action_profile(16);
    }

    table selected {
        key = {
            hdr.ethernet.type: exact;
            hdr.ethernet.src: selector;
        }
        actions = {
            forward;
        }
        implementation = action_selector(HashAlgorithm.crc16, 16, 16);
    }

    table not_reached {
        key = {
            hdr.ethernet.dst: lpm;
        }
        actions = {
            drop;
        }
    }

    table random_sources {
        key = {
            hdr.ethernet.type: exact;
        }
        actions = {
            random_source;
        }
    }

    apply {
        exact_keys.apply();
        other_keys.apply();
        constant.apply();
        keyless.apply();
        restricted.apply();
        member.apply();
        selected.apply();
        if (hdr.ethernet.type == 0x1212) {
            not_reached.apply();
        }
        random_sources.apply();
    }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {}
}

control deparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(all_parser(), no_checksum(), ingress(), egress(), no_checksum(), deparser()) main;
