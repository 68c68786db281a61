// What takes the place of the optional parts in the core profile (features.p4): controls and parsers that do nothing, or that drop what
// the core does not support.

#ifndef ALFIRK_ABSENT_P4
#define ALFIRK_ABSENT_P4

#include "groups.p4"
#include "min_psn.p4"

parser ParseTags(packet_in packet, inout headers_t hdr, out bit<16> ether_type) {
    state start {
        ether_type = hdr.ethernet.ether_type;
        transition accept;
    }
}

parser ParsePayload(packet_in packet, inout headers_t hdr) {
    state start {
        transition accept;
    }
}

parser ParseWrite(packet_in packet, inout headers_t hdr, inout metadata_t meta) {
    state start {
        transition accept;
    }
}

control OtherIcrc(in headers_t hdr, inout bit<32> crc) {
    apply {}
}

control RequirePayload(inout metadata_t meta) {
    apply {}
}

control PuntIcrc(inout headers_t hdr,
                 inout metadata_t meta,
                 inout standard_metadata_t standard_metadata,
                 in bool is_to_host) {
    apply {}
}

// There are no registers with a cell per receiver, so nothing has to be initialised.
control CheckRegionControl(inout headers_t hdr, inout metadata_t meta, out bool is_of_receivers) {
    apply {
        is_of_receivers = hdr.register_control.op == RegisterOp.INIT_REGIONS;
    }
}

control OptionalRegisters(in headers_t hdr) {
    apply {}
}

control RegionRegisters(inout headers_t hdr, in metadata_t meta, inout bool is_more) {
    apply {}
}

control DatagramMulticast(inout headers_t hdr,
                          inout metadata_t meta,
                          inout bit<16> mcast_grp) {
    apply {
        meta.drop_reason = Drop.NO_ROUTE;
    }
}

control ClassifyOther(in headers_t hdr, inout metadata_t meta, inout bool is_request) {
    apply {
        meta.drop_reason = Drop.UNSUPPORTED_OPCODE;
        if (hdr.aeth.isValid()) {
            meta.drop_reason = Drop.RESERVED_SYNDROME;
        }
    }
}

control ControllerFeedback(inout headers_t hdr, inout metadata_t meta, inout decision_t decision) {
    apply {}
}

control Filters(inout headers_t hdr, inout metadata_t meta, in group_state_t state, in bit<48> now) {
    apply {}
}

control OptionalDecisions(inout headers_t hdr, inout metadata_t meta, in group_state_t state, in minimum_t minimum,
                          inout decision_t decision) {
    apply {}
}

control SourceTags(inout headers_t hdr, in metadata_t meta, in Verdict verdict) {
    apply {}
}

control CountWork(in metadata_t meta, in decision_t decision) {
    apply {}
}

control OptionalExit(inout headers_t hdr, inout metadata_t meta, in bool is_to_host, in slot_t receiver) {
    apply {}
}

control OptionalVerdicts(inout headers_t hdr,
                         inout metadata_t meta,
                         inout standard_metadata_t standard_metadata,
                         in Verdict verdict,
                         inout bool is_sent) {
    apply {}
}

control EcnMarking(inout headers_t hdr, inout standard_metadata_t standard_metadata) {
    apply {}
}

#endif  // ALFIRK_ABSENT_P4
