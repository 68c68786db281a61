// The group of a packet by its McstID. optional/groups.p4 takes the place of this control if groups can have other strategies.
//
// `paths`: number of paths, only for the controller, which reads it back. `virtual_qpn` is the destination queue pair number of
// members' packets (bridge_entry.p4): the group's own, or FIXED_VIRTUAL_QPN for hosts that use the same number in every group.
// `window`: packets, 1 to 2^23 - 1, that a source may send beyond the last acknowledged one (sender.p4).

#ifndef ALFIRK_GROUPS_P4
#define ALFIRK_GROUPS_P4

control Groups(in headers_t hdr, inout metadata_t meta, out bool is_group) {
    @id(DIRECT_COUNTER_ID_GROUPS) DIRECT_COUNTER(groups_counter);

    @id(ACTION_ID_NOT_A_GROUP)
    action not_a_group() {
        groups_counter.count();
    }

    @id(ACTION_ID_SET_GROUP_WITH_WINDOW)
    action set_group_with_window(@refers_to(mft, group_index) group_t group_index, path_t paths, qpn_t virtual_qpn,
                                 bit<24> window) {
        groups_counter.count();
        meta.group_index = group_index;
        meta.virtual_qpn = virtual_qpn;
        meta.window = window;
    }

    @id(TABLE_ID_GROUPS)
    @entry_restriction("mcst_id > 0x00ffffff && mcst_id < 0xe0000000")
    table groups {
        key = { hdr.ipv4.dst: exact @name("mcst_id"); }
        actions = { set_group_with_window; @defaultonly not_a_group; }
        const default_action = not_a_group();
        counters = groups_counter;
        size = MAX_GROUPS;
    }

    apply {
        is_group = groups.apply().hit;
    }
}

#endif  // ALFIRK_GROUPS_P4
