// Metadata that the controls exchange about one packet, and constants of v1model.

#ifndef ALFIRK_METADATA_P4
#define ALFIRK_METADATA_P4

#include "../shared/kinds.p4"
#include "../shared/sizes.p4"
#include "../shared/types.p4"

// Port between pipeline and controller: BMv2 must be started with --cpu-port 510.
const port_t CPU_PORT = END_OF_PORTS;

// Value of standard_metadata.instance_type of a clone made in ingress (BMv2's simple_switch document, "intrinsic
// metadata").
const bit<32> INSTANCE_INGRESS_CLONE = 1;
const bit<32> INSTANCE_EGRESS_CLONE = 2;  // instance_type of a clone made in egress
const bit<32> INSTANCE_RECIRCULATED = 4;  // instance_type of a recirculated packet

// Field list of the metadata that clones and recirculated packets keep.
#define FIELD_LIST_CARRIED 1

// Path index of a packet that concerns no path.
const path_t PATH_NONE = 0xff;

struct metadata_t {
    // Drop reason, set by at most one control; the packet is dropped and counted at the end of the pipeline.
    bit<8> drop_reason;
    // Decision of ingress; for a copy whose ICRC the controller computes, egress sets the verdict on its clone.
    @field_list(FIELD_LIST_CARRIED)
    decision_t decision;
    Kind kind;
    // Destination queue pair number of all packets that members send to the group.
    qpn_t virtual_qpn;
    // Maximum number of packets that a source may send beyond the last acknowledged one.
    bit<24> window;
    // The group's queue pairs use selective repeat.
    bit<1> is_selective;
    // Register control of registers with a cell per receiver, not per group.
    bit<1> is_of_receivers;
    // An ACK or a NAK that is not fatal.
    bit<1> is_feedback;
    bit<1> is_host;
    // UDP length without payload: UDP, BTH, RETH and ICRC.
    bit<16> udp_overhead;
    // Source and destination port of UDP or TCP, 0 for other protocols.
    bit<32> l4_ports;
    bit<16> absent;
    // Data that its sender has sent before.
    bit<1> is_retransmission;
    // The data is from the source, including a member that has just become the source.
    bit<1> from_current_source;
    // The packet is from the port of the current source.
    bit<1> is_source;
    bit<32> icrc;

    @field_list(FIELD_LIST_CARRIED)
    group_t group_index;
    @field_list(FIELD_LIST_CARRIED)
    path_t path_index;
    @field_list(FIELD_LIST_CARRIED)
    bit<2> min_psn;
    @field_list(FIELD_LIST_CARRIED)
    bit<2> icrc_mode;
    // Paths of the group on this switch, numbered from 0.
    @field_list(FIELD_LIST_CARRIED)
    path_t paths;
    // Newest PSN that a feedback packet acknowledges.
    @field_list(FIELD_LIST_CARRIED)
    psn_t acked_psn;
    // Ingress port; for a copy whose ICRC the controller computes, the egress port.
    @field_list(FIELD_LIST_CARRIED)
    port_t origin_port;

    // Lower 16 bits of the MSN stored for the packet's path.
    @field_list(FIELD_LIST_CARRIED)
    bit<16> path_msn;

    // For the controller: port of the source, and position last acknowledged to it.
    @field_list(FIELD_LIST_CARRIED)
    bit<16> source_port;
    @field_list(FIELD_LIST_CARRIED)
    bit<48> last_acked;

    // State of a walk: oldest word so far and its path, leaf node to visit next, leaf node visited before the first
    // recirculation, and start time.
    @field_list(FIELD_LIST_CARRIED)
    Role role;
    @field_list(FIELD_LIST_CARRIED)
    word_t walk_word;
    @field_list(FIELD_LIST_CARRIED)
    path_t walk_path;
    @field_list(FIELD_LIST_CARRIED)
    path_t walk_node;
    @field_list(FIELD_LIST_CARRIED)
    path_t walk_seen;
    @field_list(FIELD_LIST_CARRIED)
    bit<30> walk_start;
    // Microseconds since the switch started. Recirculated packets have no ingress timestamp of their own.
    @field_list(FIELD_LIST_CARRIED)
    bit<30> clock;
}

#endif  // ALFIRK_METADATA_P4
