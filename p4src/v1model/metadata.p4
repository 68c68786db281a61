// What the controls of one packet tell each other, and v1model's own constants.

#ifndef ALFIRK_METADATA_P4
#define ALFIRK_METADATA_P4

#include "../shared/types.p4"

// The port between pipeline and controller: start the switch with --cpu-port 510.
const port_t CPU_PORT = 510;

// standard_metadata.instance_type as BMv2 sets it (simple_switch document, "intrinsic metadata").
const bit<32> INSTANCE_INGRESS_CLONE = 1;
const bit<32> INSTANCE_RECIRCULATED = 4;

// What a mirrored ACK carries into egress: its group and path.
#define FIELD_LIST_MIRROR 1
// A recirculated register access finds all it needs in its own header; the list is not
// empty only because a field list must have a field.
#define FIELD_LIST_RECIRCULATE 2

// What ingress decided about a group's packet; egress acts on it.
const bit<3> VERDICT_NONE = 0;
const bit<3> VERDICT_REPLICATE = 1;  // data: one copy for each path
const bit<3> VERDICT_PASS = 2;       // to the source as it is (CNP)
const bit<3> VERDICT_FEEDBACK = 3;   // a merged ACK or NAK for the source
const bit<3> VERDICT_ANSWER = 4;     // data that everyone has, turned into an ACK
const bit<3> VERDICT_RECORD = 5;     // an ACK with no news for the source: only the filter learns of it

struct metadata_t {
    // Set once by some control; the packet is dropped and counted at the pipeline's end.
    bit<8> drop_reason;
    bit<8> packet_in_reason;
    bit<3> verdict;
    bit<1> is_host;
    // Source and destination port of UDP or TCP, 0 for other protocols.
    bit<32> l4_ports;
    @field_list(FIELD_LIST_MIRROR, FIELD_LIST_RECIRCULATE)
    group_t group_index;
    @field_list(FIELD_LIST_MIRROR)
    path_t path_index;
    bit<8> lone;
    // The highest PSN that a feedback packet acknowledges.
    @field_list(FIELD_LIST_MIRROR)
    psn_t acked_psn;
    bit<32> icrc;
}

#endif  // ALFIRK_METADATA_P4
