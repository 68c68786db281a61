// Metadata that the controls exchange about one packet, and constants of v1model.

#ifndef ALFIRK_METADATA_P4
#define ALFIRK_METADATA_P4

#include "../shared/kinds.p4"
#include "../shared/sizes.p4"
#include "../shared/types.p4"
#include "profile.p4"

// Port between pipeline and controller: BMv2 must be started with --cpu-port 510.
const port_t CPU_PORT = END_OF_PORTS;

// Value of standard_metadata.instance_type of a clone made in ingress (BMv2's simple_switch document, "intrinsic
// metadata").
const bit<32> INSTANCE_INGRESS_CLONE = 1;
const bit<32> INSTANCE_EGRESS_CLONE = 2;  // instance_type of a clone made in egress
const bit<32> INSTANCE_RECIRCULATED = 4;  // instance_type of a recirculated packet

// Field list of the metadata that clones and recirculated packets keep.
#define FIELD_LIST_CARRIED 1

struct metadata_t {
    // Drop reason, set by at most one control; the packet is dropped and counted at the end of the pipeline.
    bit<8> drop_reason;

    // Decision of ingress that egress follows; for a copy whose ICRC the controller computes, egress sets that of its clone.
    @field_list(FIELD_LIST_CARRIED)
    Verdict verdict;
    @field_list(FIELD_LIST_CARRIED)
    Verdict clone_verdict;
    @field_list(FIELD_LIST_CARRIED)
    bit<8> packet_in_reason;

    @field_list(FIELD_LIST_CARRIED)
    Kind kind;
    @field_list(FIELD_LIST_CARRIED)
    group_t group_index;
    @field_list(FIELD_LIST_CARRIED)
    path_t path_index;
    // Newest PSN that a feedback packet acknowledges.
    @field_list(FIELD_LIST_CARRIED)
    psn_t acked_psn;
    // Ingress port; for a copy whose ICRC the controller computes, the egress port.
    @field_list(FIELD_LIST_CARRIED)
    port_t origin_port;

    // Destination queue pair number of all packets that members send to the group.
    qpn_t virtual_qpn;
    // Maximum number of packets that a source may send beyond the last acknowledged one.
    bit<24> window;
    // Nodes of the tournament tree without paths (group_lookup.p4).
    bit<16> absent;
    bit<1> is_host;
    // An ACK or a NAK that is not fatal.
    bit<1> is_feedback;
    // Data that its sender has sent before.
    bit<1> is_retransmission;
    // Source and destination port of UDP or TCP, 0 for other protocols.
    bit<32> l4_ports;

    // Fields of optional parts (profile.p4).
    @field_list(FIELD_LIST_CARRIED)
    optional_t optional;
}

// What the chain has read about the source and the packet's path (ack_aggregate.p4).
struct group_state_t {
    bit<16> source_port;  // port of the source, 0 if there was none
    bit<1> is_source;  // the packet is from that port
    bit<1> from_current_source;  // the data is from the source, including a member that has just become the source
    bit<48> last_acked;  // position last acknowledged to the source: PSN ++ MSN
    bit<16> path_msn;  // lower 16 bits of the MSN stored for the packet's path
}

#endif  // ALFIRK_METADATA_P4
