// The group of a packet by its McstID, with the group's strategies.
//
// The parameters are those of ../groups.p4, and: `min_psn` and `icrc`, MinPsn and IcrcMode of ../../shared/constants.p4; `paths`,
// which a walk visits; `is_selective`: the group's queue pairs use selective repeat, so NAK_SELECTIVE is accepted (classify.p4).

#ifndef ALFIRK_OPTIONAL_GROUPS_P4
#define ALFIRK_OPTIONAL_GROUPS_P4

control Groups(in headers_t hdr, inout metadata_t meta, out bool is_group) {
    @id(DIRECT_COUNTER_ID_GROUPS) DIRECT_COUNTER(groups_counter);

    @id(ACTION_ID_NOT_A_GROUP)
    action not_a_group() {
        groups_counter.count();
    }

    @id(ACTION_ID_SET_GROUP)
    action set_group(@refers_to(mft, group_index) group_t group_index, path_t paths, bit<2> min_psn, bit<2> icrc) {
        groups_counter.count();
        meta.group_index = group_index;
        meta.optional.paths = paths;
        meta.optional.min_psn = min_psn;
        meta.optional.icrc_mode = icrc;
        meta.virtual_qpn = FIXED_VIRTUAL_QPN;
        meta.window = DEFAULT_WINDOW;
        meta.optional.is_selective = 0;
    }

    @id(ACTION_ID_SET_GROUP_WITH_QPN)
    action set_group_with_qpn(@refers_to(mft, group_index) group_t group_index, path_t paths,
                              bit<2> min_psn, bit<2> icrc, qpn_t virtual_qpn) {
        set_group(group_index, paths, min_psn, icrc);
        meta.virtual_qpn = virtual_qpn;
    }

    @id(ACTION_ID_SET_GROUP_WITH_LIMITS)
    action set_group_with_limits(@refers_to(mft, group_index) group_t group_index, path_t paths, bit<2> min_psn,
                                 bit<2> icrc, qpn_t virtual_qpn, bit<24> window, bit<1> is_selective) {
        set_group_with_qpn(group_index, paths, min_psn, icrc, virtual_qpn);
        meta.window = window;
        meta.optional.is_selective = is_selective;
    }

    @id(TABLE_ID_GROUPS)
    @entry_restriction("mcst_id > 0x00ffffff && mcst_id < 0xe0000000")
    table groups {
        key = { hdr.ipv4.dst: exact @name("mcst_id"); }
        actions = { set_group; set_group_with_qpn; set_group_with_limits; @defaultonly not_a_group; }
        const default_action = not_a_group();
        counters = groups_counter;
        size = MAX_GROUPS;
    }

    apply {
        is_group = groups.apply().hit;
    }
}

#endif  // ALFIRK_OPTIONAL_GROUPS_P4
