// Multicast forwarding table: which group is this, and which of its paths?
//
//   dstIP = McstID ──> groups ──> group_index ─┐
//   ingress port ──────────────────────────────┴─> mft ──> path_index, absent, is_host
//
// All members of a group know it by its McstID, an address that looks like unicast.
// A path is a port of the group's tree; paths are numbered densely from 0 per group
// and switch, `paths` of them. `absent` says where a path's neighbours in the tournament
// tree are missing (min_psn_tree.p4). `min_psn` and `icrc` are the group's strategies,
// MinPsn and IcrcMode of constants.p4. `virtual_qpn` is the queue pair that members address
// (bridge_entry.p4): the group's own, or one for hosts that cannot be given another with each group. `window` is the number of
// packets, 1 to 2^23 - 1, that a source may be ahead of what was last acknowledged to it (sender.p4). `is_selective` says that
// the group's queue pairs repeat selectively, so that NAK_SELECTIVE has a meaning (classify.p4).
//
// Cepheus, section III-B, "MFT Structure".

#ifndef ALFIRK_GROUP_LOOKUP_P4
#define ALFIRK_GROUP_LOOKUP_P4

control GroupLookup(inout headers_t hdr,
                    inout metadata_t meta,
                    in port_t ingress_port,
                    out bool is_group) {
    @id(2) DIRECT_COUNTER(groups_counter);
    @id(3) DIRECT_COUNTER(mft_counter);

    @id(5)
    action not_a_group() {
        groups_counter.count();
    }

    @id(6)
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

    @id(22)
    action set_group_with_qpn(@refers_to(mft, group_index) group_t group_index, path_t paths,
                              bit<2> min_psn, bit<2> icrc, qpn_t virtual_qpn) {
        set_group(group_index, paths, min_psn, icrc);
        meta.virtual_qpn = virtual_qpn;
    }

    @id(26)
    action set_group_with_limits(@refers_to(mft, group_index) group_t group_index, path_t paths, bit<2> min_psn,
                                 bit<2> icrc, qpn_t virtual_qpn, bit<24> window, bit<1> is_selective) {
        set_group_with_qpn(group_index, paths, min_psn, icrc, virtual_qpn);
        meta.window = window;
        meta.is_selective = is_selective;
    }

    @id(3)
    @entry_restriction("mcst_id > 0x00ffffff && mcst_id < 0xe0000000")
    table groups {
        key = { hdr.ipv4.dst: exact @name("mcst_id"); }
        actions = { set_group; set_group_with_qpn; set_group_with_limits; @defaultonly not_a_group; }
        const default_action = not_a_group();
        counters = groups_counter;
        size = MAX_GROUPS;
    }

    @id(7)
    action not_a_path() {
        mft_counter.count();
        meta.drop_reason = Drop.NOT_A_PATH;
    }

    @id(8)
    action set_path(path_t path_index, bit<16> absent, bit<1> is_host) {
        mft_counter.count();
        meta.path_index = path_index;
        meta.absent = absent;
        meta.is_host = is_host;
    }

    @id(4)
    @entry_restriction("ingress_port < 510")
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
