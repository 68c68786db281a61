// One control instantiated and applied several times, tables in it, generic types, direct application, constants,
// exit and return inside of nested controls, header arguments.

#include <core.p4>
#include <v1model.p4>

const bit<8> STEP = 2;
typedef bit<8> byte_t;
type bit<8> Id_t;

header data_t {
    byte_t op;
    byte_t a;
    byte_t b;
    byte_t c;
}

struct box_t<T> {
    T first;
    T second;
}

struct headers_t {
    data_t data;
}

struct metadata_t {
    box_t<byte_t> box;
    Id_t          id;
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

control Lookup(inout byte_t value, in byte_t key) {
    action replace(byte_t with) {
        value = with;
    }
    action bump() {
        value = value + STEP;
    }
    table map {
        key = { key: exact @name("key"); }
        actions = { replace; bump; NoAction; }
        default_action = bump;
    }
    apply {
        if (map.apply().hit) {
            return;
        }
        value = value + 1;
    }
}

control Both(inout data_t data) {
    Lookup() first;
    Lookup() second;
    apply {
        first.apply(data.a, data.c);
        second.apply(data.b, data.c);
        first.apply(data.b, data.a);
    }
}

control Clear(out byte_t value) {
    apply {
        value = 0;
    }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    Both() both;
    apply {
        standard_metadata.egress_spec = 1;
        meta.box = {1, 2};
        meta.id = (Id_t)hdr.data.op;
        if (hdr.data.op == 1) {
            both.apply(hdr.data);
        } else if (hdr.data.op == 2) {
            Clear.apply(hdr.data.a);
            Clear.apply(hdr.data.b);
        } else if (hdr.data.op == 3) {
            hdr.data.a = meta.box.first;
            hdr.data.b = meta.box.second;
            hdr.data.c = (byte_t)meta.id;
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
