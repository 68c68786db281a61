// The externs of the older v1model: field lists as structs and lists.

#include <core.p4>
#include <v1model.p4>

header data_t {
    bit<8>  op;
    bit<8>  a;
    bit<16> b;
}

struct headers_t {
    data_t data;
}

struct kept_t {
    bit<8>  a;
    bit<16> b;
}

struct metadata_t {
    kept_t kept;
    bit<8> lost;
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
    apply {
        standard_metadata.egress_spec = 1;
        if (hdr.data.op == 1) {
            if (standard_metadata.instance_type == 6) {
                hdr.data.a = meta.kept.a;
                hdr.data.b = meta.kept.b + (bit<16>)meta.lost;
            } else {
                meta.kept = {0x11, 0x2222};
                meta.lost = 0x33;
                resubmit(meta.kept);
            }
        } else if (hdr.data.op == 2) {
            meta.kept.a = 0x44;
            meta.lost = 0x55;
            clone3(CloneType.I2E, 7, {meta.kept.a, standard_metadata.ingress_port});
        } else if (hdr.data.op == 3 && standard_metadata.instance_type == 4) {
            hdr.data.op = 0x33;
            hdr.data.a = meta.lost;
            hdr.data.b = meta.kept.b;
        } else if (hdr.data.op == 4) {
            if (standard_metadata.instance_type == 6) {
                hdr.data.op = 0x34;
                hdr.data.a = 1;
            } else {
                resubmit<tuple<>>({});
            }
        } else if (hdr.data.op == 5) {
            mark_to_drop();
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    apply {
        if (hdr.data.op == 2 && standard_metadata.instance_type == 1) {
            hdr.data.a = meta.kept.a + meta.lost;
            hdr.data.b = 7w0 ++ standard_metadata.ingress_port;
        } else if (hdr.data.op == 3) {
            meta.kept.b = 0x6677;
            meta.lost = 0x88;
            recirculate({meta.kept.b});
        }
    }
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
