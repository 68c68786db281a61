// Objects of each kind that BfRuntime accesses: the program of the tests of the BfRuntime server.
#include <core.p4>
#include <tna.p4>

header ethernet_h {
    bit<48> dst;
    bit<48> src;
    bit<16> kind;
}

struct headers_t {
    ethernet_h ethernet;
}

struct empty_t {}

struct port_metadata_t {
    bit<16> group;
    bit<32> unused;
}

struct metadata_t {
    bit<16>         group;
    bit<16>         level;
    bit<8>          color;
    port_metadata_t port;
}

struct pair_t {
    bit<32> low;
    bit<32> high;
}

struct learn_t {
    bit<48> src;
    bit<9>  port;
}

parser IngressParser(packet_in packet, out headers_t hdr, out metadata_t meta, out ingress_intrinsic_metadata_t ig_intr_md) {
    value_set<bit<16>>(4) kinds;

    state start {
        packet.extract(ig_intr_md);
        meta.port = port_metadata_unpack<port_metadata_t>(packet);
        packet.extract(hdr.ethernet);
        meta.group = meta.port.group;
        meta.level = 0;
        meta.color = 0;
        transition select(hdr.ethernet.kind) {
            kinds: refused;
            default: accept;
        }
    }
    state refused {
        meta.level = 1;
        transition accept;
    }
}

control Ingress(
    inout headers_t hdr,
    inout metadata_t meta,
    in ingress_intrinsic_metadata_t ig_intr_md,
    in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,
    inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
    inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
    Register<pair_t, bit<32>>(16) pairs;
    RegisterAction<pair_t, bit<32>, bit<32>>(pairs) bump = {
        void apply(inout pair_t value, out bit<32> result) {
            value.low = value.low + 1;
            result = value.low;
        }
    };
    Register<pair_t, bit<32>>(4, { 5, 7 }) initial;
    RegisterAction<pair_t, bit<32>, bit<32>>(initial) keep = {
        void apply(inout pair_t value) {
            value.high = value.high;
        }
    };
    DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) hits;
    Counter<bit<64>, bit<9>>(512, CounterType_t.PACKETS) ports;
    ActionProfile(8) members;
    Hash<bit<16>>(HashAlgorithm_t.CRC16) spread;
    ActionSelector(members, spread, SelectorMode_t.FAIR, 4, 2) groups;

    action send(bit<9> port) {
        ig_tm_md.ucast_egress_port = port;
        hits.count();
    }
    action drop() {
        ig_dprsr_md.drop_ctl = 1;
        hits.count();
    }
    @dynamic_table_key_masks(1)
    table forward {
        key = { hdr.ethernet.dst : exact; }
        idle_timeout = true;
        actions = { send; @defaultonly drop; }
        const default_action = drop();
        counters = hits;
        size = 4;
    }

    action mark(bit<16> group) {
        meta.group = group;
    }
    table classify {
        key = {
            hdr.ethernet.src  : ternary;
            hdr.ethernet.kind : range;
        }
        actions = { mark; NoAction; }
        default_action = NoAction();
        size = 16;
    }

    DirectWred<bit<16>>(1, 0) early;
    action limit() {
        meta.level = (bit<16>) early.execute(meta.group);
    }
    table detect {
        key = { hdr.ethernet.dst : exact; }
        actions = { limit; }
        filters = early;
        size = 4;
    }

    DirectMeter(MeterType_t.BYTES) rates;
    DirectRegister<pair_t>({ 1, 2 }) seen;
    DirectRegisterAction<pair_t, bit<32>>(seen) see = {
        void apply(inout pair_t value) {
            value.low = value.low + 1;
        }
    };
    action police() {
        meta.color = (bit<8>) rates.execute();
    }
    table metered {
        key = { hdr.ethernet.dst : exact; }
        actions = { police; }
        meters = rates;
        size = 4;
    }
    action remember() {
        see.execute();
    }
    table remembered {
        key = { hdr.ethernet.dst : exact; }
        actions = { remember; }
        registers = seen;
        size = 4;
    }

    action learn() {
        ig_dprsr_md.digest_type = 1;
    }
    table choose {
        key = {
            meta.group       : exact;
            hdr.ethernet.src : selector;
        }
        actions = { learn; NoAction; }
        implementation = groups;
        size = 16;
    }

    apply {
        ports.count(ig_intr_md.ingress_port);
        bump.execute(0);
        forward.apply();
        classify.apply();
        keep.execute(0);
        detect.apply();
        metered.apply();
        remembered.apply();
        choose.apply();
        if (meta.level == 1 || meta.color == 3) {
            ig_dprsr_md.drop_ctl = 1;
        }
    }
}

control IngressDeparser(
    packet_out packet,
    inout headers_t hdr,
    in metadata_t meta,
    in ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
    in ingress_intrinsic_metadata_t ig_intr_md) {
    Digest<learn_t>() learned;

    apply {
        if (ig_dprsr_md.digest_type == 1) {
            learned.pack({ hdr.ethernet.src, ig_intr_md.ingress_port });
        }
        packet.emit(hdr);
    }
}

parser EgressParser(packet_in packet, out empty_t hdr, out empty_t meta, out egress_intrinsic_metadata_t eg_intr_md) {
    state start {
        packet.extract(eg_intr_md);
        transition accept;
    }
}

control Egress(
    inout empty_t hdr,
    inout empty_t meta,
    in egress_intrinsic_metadata_t eg_intr_md,
    in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
    inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
    inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    apply {}
}

control EgressDeparser(
    packet_out packet,
    inout empty_t hdr,
    in empty_t meta,
    in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {
    apply {}
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), EgressParser(), Egress(), EgressDeparser()) pipe;

Switch(pipe) main;
