// Multicast forwarding table: looks up the packet's group, and the path of its ingress port.
//
//   dstIP = McstID ──> groups ──> group_index ─┐
//   ingress port ──────────────────────────────┴─> mft ──> path_index, absent, is_host
//
// The McstID is the IPv4 address to which members send; it is a unicast address. groups.p4 has the first table.
// A path is a port of the group's tree. Paths are numbered 0, 1, ... per group
// and switch. `absent` marks nodes of the tournament tree without paths, next to those
// of this path (min_psn_tree.p4).
//
// Cepheus, section III-B, "MFT Structure".

#ifndef ALFIRK_GROUP_LOOKUP_P4
#define ALFIRK_GROUP_LOOKUP_P4

control GroupLookup(inout metadata_t meta, in port_t ingress_port) {
    @id(DIRECT_COUNTER_ID_MFT) DIRECT_COUNTER(mft_counter);

    @id(ACTION_ID_NOT_A_PATH)
    action not_a_path() {
        mft_counter.count();
        meta.drop_reason = Drop.NOT_A_PATH;
    }

    @id(ACTION_ID_SET_PATH)
    action set_path(path_t path_index, bit<16> absent, bit<1> is_host) {
        mft_counter.count();
        meta.path_index = path_index;
        meta.absent = absent;
        meta.is_host = is_host;
    }

    @id(TABLE_ID_MFT)
    @entry_restriction(QUOTED(ingress_port < END_OF_PORTS))
    table mft {
        key = {
            meta.group_index: exact @name("group_index");
            (port_id_t)ingress_port: exact @name("ingress_port");
        }
        actions = { set_path; @defaultonly not_a_path; }
        const default_action = not_a_path();
        counters = mft_counter;
        size = SIZE_PATHS;
    }

    apply {
        mft.apply();
    }
}

#endif  // ALFIRK_GROUP_LOOKUP_P4
