// Multicast forwarding table, and the entry half of the bridge: lookup of group, path and member.
//
//   dstIP = McstID ─────────────┬─> groups   ──> virtual_qpn ───────────┐
//   ingress port ───────────────┼─> mft      ──> cell, absent, is_host ─┼─> admission ──> admitted, or drop reason
//   srcIP ──────────────────────┴─> members  ──> two XORs ──────────────┘
//
// The tables of ../v1model/group_lookup.p4 and ../v1model/bridge_entry.p4 in two stages instead of four, with the same
// entries. Their key is the McstID instead of the group's index, so that no table depends on another. Together with the
// following steps (ack_aggregate.p4), four stages would exceed Tofino's twelve. Their names are those of v1model, so that the
// controller needs no others.
//
// `cell` is the group's index ++ the path's index. An entry of `mft` has the parameters of `groups` and `mft` of the shared
// tables, except the strategies: this target has only the tree for the minimum, and neutral constants for the ICRC.

#ifndef ALFIRK_GROUP_LOOKUP_P4
#define ALFIRK_GROUP_LOOKUP_P4

#include "source_window.p4"

control GroupLookup(inout headers_t hdr, inout ingress_metadata_t meta, inout bool is_group) {
    @id(DIRECT_COUNTER_ID_GROUPS) DIRECT_COUNTER(groups_counter);
    @id(DIRECT_COUNTER_ID_MEMBERS) DIRECT_COUNTER(members_counter);

    @id(ACTION_ID_NOT_A_GROUP)
    action not_a_group() {
        groups_counter.count();
    }

    // The parameters `paths`, `min_psn` and `icrc` are only for the controller, which reads them back; this target ignores them.
    @id(ACTION_ID_SET_GROUP_WITH_QPN)
    action set_group_with_qpn(bit<16> group_index, bit<8> paths, bit<2> min_psn, bit<2> icrc, qpn_t virtual_qpn) {
        groups_counter.count();
        is_group = true;
        meta.qpn_difference = hdr.bth.dest_qp ^ virtual_qpn;
        meta.group_index = group_index;
        meta.window = (psn_word_t)((bit<32>)DEFAULT_WINDOW << 8);
    }

    // `is_selective` is only for the controller: this target does not support selective repeat (parser.p4).
    @id(ACTION_ID_SET_GROUP_WITH_LIMITS)
    action set_group_with_limits(bit<16> group_index, bit<8> paths, bit<2> min_psn, bit<2> icrc, qpn_t virtual_qpn,
                                 bit<24> window, bit<1> is_selective) {
        groups_counter.count();
        is_group = true;
        meta.qpn_difference = hdr.bth.dest_qp ^ virtual_qpn;
        meta.group_index = group_index;
        meta.window[31:8] = window;
    }

    @id(TABLE_ID_GROUPS)
    @entry_restriction("mcst_id > 0x00ffffff && mcst_id < 0xe0000000")
    table groups {
        key = { hdr.ipv4.dst: exact @name("mcst_id"); }
        actions = { set_group_with_qpn; set_group_with_limits; @defaultonly not_a_group; }
        const default_action = not_a_group();
        counters = groups_counter;
        size = MAX_GROUPS;
    }

    @id(ACTION_ID_NOT_A_PATH)
    action not_a_path() {
        meta.drop_reason = Drop.NOT_A_PATH;
    }

    @id(ACTION_ID_SET_PATH)
    action set_path(cell_t cell, bit<PATH_BITS> absent, bit<1> is_host) {
        meta.carried.cell = cell;
        meta.tie[7:0] = (bit<8>)cell[PATH_BITS - 1:0];
        meta.absent = absent;
        meta.is_host = is_host;
    }

    @id(TABLE_ID_MFT)
    @entry_restriction(QUOTED(ingress_port < END_OF_PORTS))
    table mft {
        key = {
            hdr.ipv4.dst: exact @name("mcst_id");
            (port_id_t)meta.carried.ingress_port: exact @name("ingress_port");
        }
        actions = { set_path; @defaultonly not_a_path; }
        const default_action = not_a_path();
        size = SIZE_PATHS;
    }

    @name(".ingress.bridge_entry.not_a_member")
    @id(ACTION_ID_NOT_A_MEMBER)
    action not_a_member() {
        members_counter.count();
    }

    @name(".ingress.bridge_entry.enter")
    @id(ACTION_ID_ENTER)
    action enter(bit<16> id_xor, bit<16> sport_xor) {
        members_counter.count();
        meta.is_member = 1;
        meta.may_send = 1;
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.ipv4.identification = hdr.ipv4.identification ^ id_xor;
        hdr.udp.src_port = hdr.udp.src_port ^ sport_xor;
    }

    @name(".ingress.bridge_entry.enter_receiver")
    @id(ACTION_ID_ENTER_RECEIVER)
    action enter_receiver(bit<16> id_xor, bit<16> sport_xor) {
        members_counter.count();
        meta.is_member = 1;
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.ipv4.identification = hdr.ipv4.identification ^ id_xor;
        hdr.udp.src_port = hdr.udp.src_port ^ sport_xor;
    }

    @name(".ingress.bridge_entry.members")
    @id(TABLE_ID_MEMBERS)
    @entry_restriction(QUOTED(ingress_port < END_OF_PORTS && src_ip != 0))
    table members {
        key = {
            hdr.ipv4.dst: exact @name("mcst_id");
            (port_id_t)meta.carried.ingress_port: exact @name("ingress_port");
            hdr.ipv4.src: exact @name("src_ip");
        }
        actions = { enter; enter_receiver; @defaultonly not_a_member; }
        const default_action = not_a_member();
        counters = members_counter;
        size = SIZE_MEMBERS;
    }

    WindowStart() window_start;

    apply {
        if (groups.apply().hit) {
            mft.apply();
            members.apply();
            window_start.apply(meta);
        }
    }
}

#endif  // ALFIRK_GROUP_LOOKUP_P4
