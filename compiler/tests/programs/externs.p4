// Externs of v1model: registers, counters, meters, hashes, random numbers, clones, resubmission, recirculation,
// multicast, truncation, action profiles and selectors.

#include <core.p4>
#define V1MODEL_VERSION 20200408
#include <v1model.p4>

const bit<8> KEEP = 3;

header data_t {
    bit<8>  op;
    bit<8>  a;
    bit<16> b;
    bit<32> c;
}

struct headers_t {
    data_t data;
}

struct inner_t {
    @field_list(KEEP, 4)
    bit<8> pass;
    bit<8> lost;
}

struct metadata_t {
    inner_t inner;
    @field_list(4)
    bit<16> kept;
    bit<8>  color;
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
    register<bit<32>, bit<8>>(16) totals;
    counter<bit<8>>(4, CounterType.packets_and_bytes) packets;
    direct_counter(CounterType.packets) hits;
    direct_meter<bit<8>>(MeterType.packets) colors;
    action_profile(16) profile;
    action_selector(HashAlgorithm.crc16, 16, 8) selector;
    bit<32> total;
    bit<16> hashed;
    bit<32> wide;
    bit<8> drawn;

    action set_port(bit<9> port) {
        standard_metadata.egress_spec = port;
        hits.count();
        colors.read(meta.color);
    }

    action mark(bit<8> value) {
        hdr.data.a = value;
    }

    action drop() {
        mark_to_drop(standard_metadata);
    }

    table ports {
        key = { hdr.data.a: exact; }
        actions = { set_port; drop; }
        default_action = drop;
        counters = hits;
        meters = colors;
    }

    table profiled {
        key = { hdr.data.b: exact; }
        actions = { mark; NoAction; }
        implementation = profile;
    }

    table selected {
        key = {
            hdr.data.b: exact;
            hdr.data.c: selector;
        }
        actions = { mark; NoAction; }
        implementation = selector;
    }

    apply {
        standard_metadata.egress_spec = 1;
        if (hdr.data.op == 1) {
            totals.read(total, hdr.data.a);
            total = total + (bit<32>)hdr.data.b;
            totals.write(hdr.data.a, total);
            hdr.data.c = total;
        } else if (hdr.data.op == 2) {
            packets.count(hdr.data.a);
        } else if (hdr.data.op == 3) {
            hash(hashed, HashAlgorithm.crc16, 16w0, {hdr.data.a, hdr.data.b}, 32w65536);
            hdr.data.c[31:16] = hashed;
            hash(hashed, HashAlgorithm.csum16, 16w0, {16w0x0102, hdr.data.b + 1}, 32w65536);
            hdr.data.c[15:0] = hashed;
        } else if (hdr.data.op == 4) {
            hash(wide, HashAlgorithm.crc32, 32w0, {8w0x31, 8w0x32, 56w0x33343536373839}, 64w0x100000000);
            hdr.data.c = wide;
        } else if (hdr.data.op == 5) {
            random(drawn, 8w5, 8w9);
            hdr.data.a = 0;
            if (drawn >= 5 && drawn <= 9) {
                hdr.data.a = 1;
            }
        } else if (hdr.data.op == 6) {
            clone(CloneType.I2E, 5);
        } else if (hdr.data.op == 7) {
            meta.kept = 0x1234;
            meta.inner.pass = 0x77;
            meta.inner.lost = 0x88;
            clone_preserving_field_list(CloneType.I2E, 5, 4);
            hdr.data.a = 1;
        } else if (hdr.data.op == 8) {
            if (standard_metadata.instance_type == 6) {
                hdr.data.a = meta.inner.pass;
                hdr.data.b = meta.kept;
            } else {
                meta.inner.pass = 0x55;
                meta.kept = 0xffff;
                hdr.data.c = 0;
                resubmit_preserving_field_list(KEEP);
            }
        } else if (hdr.data.op == 9) {
            standard_metadata.mcast_grp = 1;
        } else if (hdr.data.op == 10) {
            truncate(4);
        } else if (hdr.data.op == 11) {
            ports.apply();
            hdr.data.b[7:0] = meta.color;
        } else if (hdr.data.op == 12) {
            profiled.apply();
        } else if (hdr.data.op == 13) {
            selected.apply();
        } else if (hdr.data.op == 14) {
            assert(hdr.data.a != 0xff);
            assume(hdr.data.isValid());
            log_msg("a is {} and valid {}", {hdr.data.a, hdr.data.isValid()});
            log_msg("done");
        } else if (hdr.data.op == 15 && standard_metadata.instance_type == 4) {
            hdr.data.op = 0x20;
            hdr.data.b = 8w0 ++ meta.inner.pass;
        } else if (hdr.data.op == 16) {
            mark_to_drop(standard_metadata);
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    apply {
        if (hdr.data.op == 6 && standard_metadata.instance_type == 1) {
            hdr.data.a = 0xcc;
        } else if (hdr.data.op == 7 && standard_metadata.instance_type == 1) {
            hdr.data.b = meta.kept;
            hdr.data.c = meta.inner.pass ++ meta.inner.lost ++ 16w0;
        } else if (hdr.data.op == 9) {
            hdr.data.b = standard_metadata.egress_rid;
        } else if (hdr.data.op == 15) {
            hdr.data.a = hdr.data.a + 1;
            meta.inner.pass = 7;
            recirculate_preserving_field_list(KEEP);
        } else if (hdr.data.op == 17 && standard_metadata.instance_type == 0) {
            clone(CloneType.E2E, 6);
            hdr.data.a = 0x10;
        } else if (hdr.data.op == 17) {
            hdr.data.b = 0xe2e2;
        }
    }
}

control MyComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        log_msg("leaves with {}", {hdr.data.a});
        packet.emit(hdr);
        assert(!hdr.data.isValid() || hdr.data.op != 14 || hdr.data.a != 0xfe);
    }
}

V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(), MyDeparser()) main;
