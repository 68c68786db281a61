// An action selector, a random number, and a local variable that is read without a value.

#include <core.p4>
#include <v1model.p4>

header flow_t {
    bit<8> id;
    bit<8> mark;
}

struct headers_t {
    flow_t flow;
}

struct metadata_t {}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,
         inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.flow);
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Balance(inout headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    action drop() {
        mark_to_drop(standard_metadata);
    }
    action send(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    @mode("fair")
    action_selector(HashAlgorithm.crc16, 64, 8) links;

    table next_hops {
        key = {
            hdr.flow.id: exact;
            hdr.flow.mark: selector;
        }
        actions = { send; drop; }
        implementation = links;
    }

    apply {
        bit<8> value;
        next_hops.apply();
        if (hdr.flow.mark == 1) {
            random(value, 0, 2);
            hdr.flow.mark = value;
        } else if (hdr.flow.mark == 2) {
            // No value was assigned.
            hdr.flow.mark = value;
        }
    }
}

control E(inout headers_t hdr, inout metadata_t meta,
          inout standard_metadata_t standard_metadata) {
    apply {}
}

control C(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.flow);
    }
}

V1Switch(P(), V(), Balance(), E(), C(), D()) main;
