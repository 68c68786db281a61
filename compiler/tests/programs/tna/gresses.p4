// What a packet does on Tofino: the first byte says which of it.
#include <core.p4>
#if __TARGET_TOFINO__ == 2
#include <t2na.p4>
#define RECIRCULATION_PORT 6
#else
#include <tna.p4>
#define RECIRCULATION_PORT 68
#endif

const bit<8> BRIDGED = 1;
const bit<8> MIRRORED = 2;
const bit<8> MIRRORED_IN_EGRESS = 3;

header operation_t {
    bit<8> code;
    bit<8> a;
    bit<16> b;
}

header sum_t {
    bit<16> x;
    bit<16> checksum;
}

header bridge_t {
    bit<8> origin;
    bit<16> note;
}

header mirrored_t {
    bit<8> origin;
    bit<4> high;
    bit<12> low;
    bool flag;
    bit<7> padding;
}

header resubmitted_t {
    bit<16> note;
    bit<48> padding;
}

struct headers_t {
    bridge_t bridge;
    operation_t op;
    sum_t sum;
}

struct metadata_t {
    resubmitted_t resubmitted;
    mirrored_t mirrored;
    bit<16> note;
    bool is_wrong;
    bit<1> does_mirror;
    bit<1> does_resubmit;
    bit<1> does_digest;
    MirrorId_t session;
}

struct digest_t {
    bit<8> a;
    bit<16> b;
}

parser IngressParser(packet_in packet, out headers_t hdr, out metadata_t meta, out ingress_intrinsic_metadata_t ig_intr_md) {
    Checksum() checksum;

    state start {
        packet.extract(ig_intr_md);
        transition select(ig_intr_md.resubmit_flag) {
            1: resubmitted;
            default: port_metadata;
        }
    }
    state resubmitted {
        packet.extract(meta.resubmitted);
#if __TARGET_TOFINO__ == 2
        packet.advance(PORT_METADATA_SIZE - 64);
#endif
        transition operation;
    }
    state port_metadata {
        packet.advance(PORT_METADATA_SIZE);
        transition operation;
    }
    state operation {
        packet.extract(hdr.op);
        transition select(hdr.op.code) {
            9: sum;
            default: accept;
        }
    }
    state sum {
        packet.extract(hdr.sum);
        checksum.add(hdr.sum);
        meta.is_wrong = checksum.verify();
        checksum.subtract({ hdr.sum.x });
        checksum.subtract({ hdr.sum.checksum });
        meta.note = checksum.get();
        transition accept;
    }
}

struct pair_t {
    bit<16> first;
    int<16> second;
}

control Ingress(inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t ig_intr_md,
                in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,
                inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
                inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
    Register<bit<16>, bit<8>>(256, 7) counts;
    RegisterAction<bit<16>, bit<8>, bit<16>>(counts) count = {
        void apply(inout bit<16> value, out bit<16> old) {
            old = value;
            value = value |+| 1;
        }
    };
    Register<pair_t, bit<8>>(16) pairs;
    RegisterAction<pair_t, bit<8>, bit<16>>(pairs) push = {
        void apply(inout pair_t value, out bit<16> left) {
            if (value.second < 0) {
                left = 0xffff;
                return;
            }
            left = (bit<16>)value.second;
            value.second = (int<16>)value.first;
            value.first = hdr.op.b;
        }
    };
    CRCPolynomial<bit<16>>(16w0x1021, false, false, false, 16w0xffff, 16w0) ccitt;
    Hash<bit<16>>(HashAlgorithm_t.CUSTOM, ccitt) crc;
    Hash<bit<8>>(HashAlgorithm_t.IDENTITY) lowest;
    Hash<bit<64>>(HashAlgorithm_t.CRC64) wide;
    Counter<bit<32>, bit<8>>(16, CounterType_t.PACKETS) seen;

    action send() { ig_tm_md.ucast_egress_port = (PortId_t)hdr.op.a; }
    action leave() {
        send();
        exit;
    }
    action discard() { ig_dprsr_md.drop_ctl = 1; }
    table codes {
        key = { hdr.op.code: exact; }
        actions = { send; leave; discard; @defaultonly NoAction; }
        const default_action = NoAction();
        const entries = {
            1: send();
            7: discard();
            11: leave();
        }
    }

    apply {
        seen.count(hdr.op.code);
        hdr.bridge.setValid();
        hdr.bridge.origin = BRIDGED;
        hdr.bridge.note = 0;
        codes.apply();
        if (hdr.op.code == 1) {
            hdr.bridge.note = hdr.op.b;
        } else if (hdr.op.code == 2) {
            // To port 1, and a mirror by session `a`.
            ig_tm_md.ucast_egress_port = 1;
            meta.does_mirror = 1;
            meta.session = (MirrorId_t)hdr.op.a;
            hdr.op.b = 0xdddd;
        } else if (hdr.op.code == 3) {
            ig_tm_md.ucast_egress_port = 1;
            hdr.op.b = count.execute(hdr.op.a);
        } else if (hdr.op.code == 4) {
            ig_tm_md.ucast_egress_port = 1;
            hdr.op.b = push.execute(hdr.op.a);
        } else if (hdr.op.code == 5) {
            ig_tm_md.mcast_grp_a = (MulticastGroupId_t)hdr.op.a;
            ig_tm_md.rid = 100;
            ig_tm_md.level1_exclusion_id = (L1ExclusionId_t)hdr.op.b[15:8];
            ig_tm_md.level2_exclusion_id = (L2ExclusionId_t)hdr.op.b[7:0];
        } else if (hdr.op.code == 6) {
            if (ig_intr_md.resubmit_flag == 0) {
                meta.does_resubmit = 1;
                hdr.op.b = 0xdddd;
            } else {
                ig_tm_md.ucast_egress_port = 1;
                hdr.bridge.note = meta.resubmitted.note;
            }
        } else if (hdr.op.code == 7) {
            ig_tm_md.ucast_egress_port = 1;
        } else if (hdr.op.code == 8) {
            if (ig_intr_md.ingress_port == RECIRCULATION_PORT) {
                send();
            } else {
                ig_tm_md.ucast_egress_port = RECIRCULATION_PORT;
            }
        } else if (hdr.op.code == 9) {
            ig_tm_md.ucast_egress_port = meta.is_wrong ? 9w2 : 1;
            hdr.op.b = crc.get({ hdr.op.a, hdr.sum.x });
            hdr.op.a = lowest.get({ hdr.sum.x, hdr.op.a[3:0], hdr.op.a[7:4] });
            hdr.sum.x = hdr.sum.x + 1;
        } else if (hdr.op.code == 10) {
            ig_tm_md.ucast_egress_port = 1;
        } else if (hdr.op.code == 12) {
            // Nothing of egress, and to the CPU.
            ig_tm_md.ucast_egress_port = (PortId_t)hdr.op.a;
            ig_tm_md.bypass_egress = 1;
            hdr.bridge.setInvalid();
        } else if (hdr.op.code == 13) {
            // `setValid` keeps what is written to an invalid header.
            ig_tm_md.ucast_egress_port = 1;
            hdr.bridge.setInvalid();
            hdr.bridge.note = hdr.op.b;
            hdr.bridge.setValid();
        } else if (hdr.op.code == 15) {
            ig_tm_md.ucast_egress_port = 1;
            hdr.op.b = (bit<16>)wide.get({ hdr.op.a });
        } else if (hdr.op.code == 14) {
            // A type of 0 differs from none.
            ig_tm_md.ucast_egress_port = 1;
            ig_dprsr_md.mirror_type = 0;
            meta.session = (MirrorId_t)hdr.op.a;
        }
        hdr.op.code = hdr.op.code + 0x80;
    }
}

control IngressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {
    Mirror() mirror;
    Resubmit() resubmit;
    Checksum() checksum;

    apply {
        if (meta.does_mirror == 1 || ig_dprsr_md.mirror_type == 0) {
            mirror.emit<mirrored_t>(meta.session, { MIRRORED, 0xa, 0xbcd, true, 0 });
        }
        if (meta.does_resubmit == 1) {
            resubmit.emit<resubmitted_t>({ 0x1234, 0 });
        }
        if (hdr.sum.isValid()) {
            hdr.sum.checksum = checksum.update({ hdr.sum.x, meta.note });
        }
        packet.emit(hdr);
    }
}

parser EgressParser(packet_in packet, out headers_t hdr, out metadata_t meta, out egress_intrinsic_metadata_t eg_intr_md) {
    state start {
        packet.extract(eg_intr_md);
        transition select(packet.lookahead<bit<8>>()) {
            BRIDGED: bridged;
            default: mirrored;
        }
    }
    state bridged {
        packet.extract(hdr.bridge);
        transition operation;
    }
    state mirrored {
        packet.extract(meta.mirrored);
        transition operation;
    }
    state operation {
        packet.extract(hdr.op);
        transition accept;
    }
}

control Egress(inout headers_t hdr, inout metadata_t meta, in egress_intrinsic_metadata_t eg_intr_md,
               in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
               inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
               inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    apply {
        if (meta.mirrored.isValid()) {
            hdr.op.a = meta.mirrored.origin;
            hdr.op.b = meta.mirrored.high ++ meta.mirrored.low;
            if (!meta.mirrored.flag) {
                hdr.op.b = 0;
            }
        } else if (hdr.op.code == 0x81 || hdr.op.code == 0x86 || hdr.op.code == 0x8d) {
            hdr.op.b = hdr.bridge.note + 1;
        } else if (hdr.op.code == 0x85) {
            hdr.op.b = eg_intr_md.egress_rid;
        } else if (hdr.op.code == 0x88) {
            hdr.op.code = 8;
            hdr.op.b = hdr.op.b + 1;
        } else if (hdr.op.code == 0x8a) {
            hdr.op.b = 0xeeee;
            meta.does_mirror = 1;
            if (hdr.op.a == 0xff) {
                eg_dprsr_md.drop_ctl = 1;
            }
        }
        hdr.bridge.setInvalid();
    }
}

control EgressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                       in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {
    Mirror() mirror;

    apply {
        if (meta.does_mirror == 1) {
            mirror.emit<mirrored_t>(5, { MIRRORED_IN_EGRESS, 0x1, 0x234, true, 0 });
        }
        packet.emit(hdr);
    }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), EgressParser(), Egress(), EgressDeparser()) pipe;

Switch(pipe) main;
