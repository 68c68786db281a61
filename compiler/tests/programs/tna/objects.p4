// Stateful objects of Tofino: the first byte says which of them a packet asks, `a` which cell, `b` what for. The answer stands in `b`.
#include <core.p4>
#if __TARGET_TOFINO__ == 2
#include <t2na.p4>
#else
#include <tna.p4>
#endif

header operation_t {
    bit<8> code;
    bit<8> a;
    bit<16> b;
}

header part_t {
    bit<8> value;
}

struct headers_t {
    operation_t op;
    part_t[4] parts;
}

struct metadata_t {
    bit<8> color;
    bit<8> parts;
    bit<8> drops;
    bit<16> answer;
}

parser IngressParser(packet_in packet, out headers_t hdr, out metadata_t meta, out ingress_intrinsic_metadata_t ig_intr_md) {
    ParserCounter() counter;

    state start {
        packet.extract(ig_intr_md);
        packet.advance(PORT_METADATA_SIZE);
        packet.extract(hdr.op);
        meta.parts = 0;
        transition select(hdr.op.code) {
            20: count_parts;
            21: count_in_range;
            default: accept;
        }
    }
    state count_parts {
        counter.set(hdr.op.a);
        transition select(counter.is_zero()) {
            true: accept;
            false: part;
        }
    }
    // The upper four bits of `b`'s upper byte, and one more; at most 0x7f before that.
    state count_in_range {
        counter.set(hdr.op.b[15:8], 0x7f, 4, 3, 1);
        transition part;
    }
    state part {
        packet.extract(hdr.parts.next);
        meta.parts = meta.parts + 1;
        counter.decrement(1);
        transition select(counter.is_zero(), counter.is_negative()) {
            (false, false): part;
            default: accept;
        }
    }
}

control Ingress(inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t ig_intr_md,
                in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,
                inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
                inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
    // ---- Mathematics ----
    MathUnit<bit<32>>(MathOp_t.SQRT, 1) root;
    MathUnit<bit<32>>(MathOp_t.DIV, 1000) quotient;
    // A byte for each of the highest four bits, 15 first; the exponent is not used.
    MathUnit<bit<32>>(false, 0, -3, {
        0xf0, 0xe0, 0xd0, 0xc0, 0xb0, 0xa0, 0x90, 0x80, 7, 6, 5, 4, 3, 2, 1, 0x58
    }) table_of_bytes;
    Register<bit<32>, bit<8>>(16) roots;
    Register<bit<32>, bit<8>>(16) quotients;
    Register<bit<32>, bit<8>>(16) looked_up;
    RegisterAction<bit<32>, bit<8>, bit<32>>(roots) find_root = {
        void apply(inout bit<32> value, out bit<32> result) {
            value = root.execute((bit<32>)hdr.op.b);
            result = value;
        }
    };
    RegisterAction<bit<32>, bit<8>, bit<32>>(quotients) divide = {
        void apply(inout bit<32> value, out bit<32> result) {
            value = quotient.execute((bit<32>)hdr.op.b);
            result = value;
        }
    };
    RegisterAction<bit<32>, bit<8>, bit<32>>(looked_up) look_up = {
        void apply(inout bit<32> value, out bit<32> result) {
            value = table_of_bytes.execute((bit<32>)hdr.op.b);
            result = value;
        }
    };

    // ---- A number of the control plane's ----
    RegisterParam<bit<16>>(5) step;
    Register<bit<16>, bit<8>>(16) sums;
    RegisterAction<bit<16>, bit<8>, bit<16>>(sums) add_step = {
        void apply(inout bit<16> value, out bit<16> result) {
            value = value + step.read();
            result = value;
        }
    };

    // ---- Filters ----
    Lpf<bit<16>, bit<8>>(16) mean;
    DirectLpf<bit<16>>() mean_of_entry;
    DirectWred<bit<16>>(1, 0) drop_early;

    // ---- Registers of entries ----
    DirectRegister<bit<16>>(100) hits;
    DirectRegisterAction<bit<16>, bit<16>>(hits) hit = {
        void apply(inout bit<16> value, out bit<16> result) {
            result = value;
            value = value + 1;
        }
    };

    // ---- Meters ----
    Meter<bit<8>>(16, MeterType_t.PACKETS) rate;
    Meter<bit<8>>(16, MeterType_t.PACKETS, 30, 20, 10) named_rate;
    DirectMeter(MeterType_t.PACKETS) rate_of_entry;

#if __TARGET_TOFINO__ == 2
    Register<bit<128>, bit<8>>(4) words;
    MinMaxAction<bit<128>, bit<8>, bit<8>>(words) least = {
        void apply(inout bit<128> value, out bit<8> result, out bit<8> place) {
            bit<4> index;
            result = this.min8(value, hdr.op.b, index);
            place = (bit<8>)index;
        }
    };
    Register<bit<128>, bit<8>>(4) halves;
    MinMaxAction<bit<128>, bit<8>, bit<16>>(halves) most = {
        void apply(inout bit<128> value, out bit<16> result) {
            result = this.max16(value, hdr.op.b[7:0]);
        }
    };
#endif

    action count_hit() {
        meta.answer = hit.execute();
    }
    table seen {
        key = { hdr.op.a: exact; }
        actions = { count_hit; NoAction; }
        const default_action = NoAction();
        registers = hits;
        size = 4;
    }

    action follow() {
        meta.answer = mean_of_entry.execute(hdr.op.b);
        meta.drops = drop_early.execute(hdr.op.b);
    }
    table followed {
        key = { hdr.op.a: exact; }
        actions = { follow; NoAction; }
        const default_action = NoAction();
        filters = mean_of_entry;
        meters = drop_early;
    }

    action police() {
        meta.answer = (bit<16>)rate_of_entry.execute(color = (MeterColor_t)meta.color);
    }
    table policed {
        key = { hdr.op.a: exact; }
        actions = { police; NoAction; }
        const default_action = NoAction();
        meters = rate_of_entry;
    }

    apply {
        ig_tm_md.ucast_egress_port = 2;
        ig_tm_md.bypass_egress = 1;
        meta.color = hdr.op.b[7:0];
        meta.answer = 0xeeee;
        meta.drops = 0;
        if (hdr.op.code == 1) {
            meta.answer = (bit<16>)find_root.execute(hdr.op.a);
        } else if (hdr.op.code == 2) {
            meta.answer = (bit<16>)divide.execute(hdr.op.a);
        } else if (hdr.op.code == 3) {
            meta.answer = (bit<16>)look_up.execute(hdr.op.a);
        } else if (hdr.op.code == 4) {
            meta.answer = add_step.execute(hdr.op.a);
        } else if (hdr.op.code == 5) {
            meta.answer = mean.execute(hdr.op.b, hdr.op.a);
        } else if (hdr.op.code == 6) {
            seen.apply();
        } else if (hdr.op.code == 7) {
            followed.apply();
        } else if (hdr.op.code == 8) {
            meta.answer = (bit<16>)rate.execute(index = hdr.op.a, color = (MeterColor_t)meta.color);
        } else if (hdr.op.code == 9) {
            meta.answer = (bit<16>)named_rate.execute(hdr.op.a);
        } else if (hdr.op.code == 10) {
            policed.apply();
        } else if (hdr.op.code == 20) {
            meta.answer = (bit<16>)meta.parts;
        } else if (hdr.op.code == 21) {
            meta.answer = (bit<16>)meta.parts;
            if (ig_prsr_md.parser_err != 0) {
                meta.answer = ig_prsr_md.parser_err;
            }
        }
#if __TARGET_TOFINO__ == 2
        else if (hdr.op.code == 30) {
            bit<8> place;
            hdr.op.a = least.execute(hdr.op.a, place);
            meta.answer = (bit<16>)place;
        } else if (hdr.op.code == 31) {
            meta.answer = most.execute(hdr.op.a);
        }
#endif
        hdr.op.b = meta.answer;
        if (meta.drops != 0) {
            ig_dprsr_md.drop_ctl = 1;
        }
    }
}

control IngressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {
    apply {
        packet.emit(hdr.op);
    }
}

struct nothing_t {}

parser EgressParser(packet_in packet, out headers_t hdr, out nothing_t meta, out egress_intrinsic_metadata_t eg_intr_md) {
    state start {
        packet.extract(eg_intr_md);
        transition accept;
    }
}

control Egress(inout headers_t hdr, inout nothing_t meta, in egress_intrinsic_metadata_t eg_intr_md,
               in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
               inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
               inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    apply {}
}

control EgressDeparser(packet_out packet, inout headers_t hdr, in nothing_t meta,
                       in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {
    apply {}
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), EgressParser(), Egress(), EgressDeparser()) pipe;

Switch(pipe) main;
