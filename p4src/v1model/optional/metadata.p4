// Metadata of optional parts.

#ifndef ALFIRK_OPTIONAL_METADATA_P4
#define ALFIRK_OPTIONAL_METADATA_P4

// Path index of a packet that concerns no path.
const path_t PATH_NONE = 0xff;

struct optional_t {
    // Strategies of the group (groups.p4).
    bit<2> min_psn;
    bit<2> icrc_mode;
    // Paths of the group on this switch, numbered from 0.
    path_t paths;
    // The group's queue pairs use selective repeat.
    bit<1> is_selective;

    // Register control of registers with a cell per receiver, not per group (region_control.p4).
    bit<1> is_of_receivers;
    // Host whose memory region the packet announces (memory_regions.p4).
    ipv4_addr_t region_owner;

    // For the controller and for selective NAKs: port of the source, position last acknowledged to it, and the MSN of the path.
    bit<16> source_port;
    bit<48> last_acked;
    bit<16> path_msn;

    // State of a walk: its kind, the state of the search, oldest word so far and its path, leaf node to visit next, leaf node visited
    // before the first recirculation, and start time (min_psn_walk.p4).
    Role role;
    SearchState search;
    word_t walk_word;
    path_t walk_path;
    path_t walk_node;
    path_t walk_seen;
    bit<30> walk_start;
    // Microseconds since the switch started. Recirculated packets have no ingress timestamp of their own.
    bit<30> clock;
}

#endif  // ALFIRK_OPTIONAL_METADATA_P4
