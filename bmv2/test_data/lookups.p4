// One table of each match kind; a field of the frame selects the table.
#include <core.p4>
#include <v1model.p4>

enum bit<8> Kind {
    EXACT = 0,
    LPM = 1,
    TERNARY = 2,
    RANGE = 3,
    OPTIONAL = 4
}

header request_t {
    Kind kind;
    bit<32> a;
    bit<16> b;
}

struct headers_t {
    request_t request;
}

struct metadata_t {}

parser LookupParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.request);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control ingress(inout headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action discard() {
        mark_to_drop(standard_metadata);
    }

    table by_exact {
        key = { hdr.request.a: exact; hdr.request.b: exact; }
        actions = { forward; discard; }
        default_action = discard();
        size = 1048576;
    }

    table by_lpm {
        key = { hdr.request.a: lpm; }
        actions = { forward; discard; }
        default_action = discard();
        size = 1048576;
    }

    table by_ternary {
        key = { hdr.request.a: ternary; hdr.request.b: ternary; }
        actions = { forward; discard; }
        default_action = discard();
        size = 1048576;
    }

    table by_range {
        key = { hdr.request.a: range; }
        actions = { forward; discard; }
        default_action = discard();
        size = 1048576;
    }

    table by_optional {
        key = { hdr.request.a: optional; hdr.request.b: optional; }
        actions = { forward; discard; }
        default_action = discard();
        size = 1048576;
    }

    apply {
        switch (hdr.request.kind) {
            Kind.EXACT: { by_exact.apply(); }
            Kind.LPM: { by_lpm.apply(); }
            Kind.TERNARY: { by_ternary.apply(); }
            Kind.RANGE: { by_range.apply(); }
            Kind.OPTIONAL: { by_optional.apply(); }
        }
    }
}

control egress(inout headers_t hdr, inout metadata_t meta,
               inout standard_metadata_t standard_metadata) {
    apply {}
}

control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Emit(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.request);
    }
}

V1Switch(LookupParser(), Verify(), ingress(), egress(), Compute(), Emit()) main;
