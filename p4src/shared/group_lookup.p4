// Multicast forwarding table: looks up the packet's group, and the path of its ingress port.
//
//   dstIP = McstID ──> groups ──> group_index ─┐
//   ingress port ──────────────────────────────┴─> mft ──> path_index, absent, is_host
//
// The McstID is the IPv4 address to which members send; it is a unicast address.
// A path is a port of the group's tree. `paths` paths are numbered 0, 1, ... per group
// and switch. `absent` marks nodes of the tournament tree without paths, next to those
// of this path (min_psn_tree.p4). `min_psn` and `icrc` are the group's strategies:
// MinPsn and IcrcMode of constants.p4. `virtual_qpn` is the destination queue pair number of members' packets
// (bridge_entry.p4): the group's own, or FIXED_VIRTUAL_QPN for hosts that use the same number in every group. `window`: packets,
// 1 to 2^23 - 1, that a source may send beyond the last acknowledged one (sender.p4). `is_selective`: the group's
// queue pairs use selective repeat, so NAK_SELECTIVE is accepted (classify.p4).
//
// Cepheus, section III-B, "MFT Structure".

#ifndef ALFIRK_GROUP_LOOKUP_P4
#define ALFIRK_GROUP_LOOKUP_P4

control GroupLookup(inout headers_t hdr,
                    inout metadata_t meta,
                    in port_t ingress_port,
                    out bool is_group) {
    @id(DIRECT_COUNTER_ID_GROUPS) DIRECT_COUNTER(groups_counter);
    @id(DIRECT_COUNTER_ID_MFT) DIRECT_COUNTER(mft_counter);

    @id(ACTION_ID_NOT_A_GROUP)
    action not_a_group() {
        groups_counter.count();
    }

    @id(ACTION_ID_SET_GROUP)
    action set_group(@refers_to(mft, group_index) group_t group_index, path_t paths, bit<2> min_psn, bit<2> icrc) {
        groups_counter.count();
        meta.group_index = group_index;
        meta.paths = paths;
        meta.min_psn = min_psn;
        meta.icrc_mode = icrc;
        meta.virtual_qpn = FIXED_VIRTUAL_QPN;
        meta.window = DEFAULT_WINDOW;
        meta.is_selective = 0;
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
        meta.is_selective = is_selective;
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
            ingress_port: exact @name("ingress_port");
        }
        actions = { set_path; @defaultonly not_a_path; }
        const default_action = not_a_path();
        counters = mft_counter;
        size = SIZE_PATHS;
    }

    apply {
        is_group = groups.apply().hit;
        if (is_group) {
            mft.apply();
        }
    }
}

#endif  // ALFIRK_GROUP_LOOKUP_P4
