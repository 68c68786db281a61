// Unreliable datagrams to a multicast group of hosts, from any host.
//
//   groups ──> replicate ──> PRE group ──> one copy per port; that of the port it came from is dropped in egress
//
// RoCEv2 maps a multicast GID to an IPv4 group address (224.0.0.0/4) and to the MAC address of RFC 1112, and queue pairs
// receive it under number 0xffffff (IBTA vol. 1, annex A17.3.2 and section 10.5). Packets are not changed, not even the TTL: to its
// hosts the fabric is one link, and group traffic often starts with a TTL of 1. Every switch has entries of each group; a switch
// outside the group's tree forwards towards the tree.

#ifndef ALFIRK_DATAGRAM_MULTICAST_P4
#define ALFIRK_DATAGRAM_MULTICAST_P4

control DatagramMulticast(inout headers_t hdr,
                          inout metadata_t meta,
                          inout bit<16> mcast_grp) {
    @id(DIRECT_COUNTER_ID_DATAGRAM_GROUPS) DIRECT_COUNTER(groups_counter);
    // XOR of the lower 23 bits of the destination MAC address and of the IPv4 group address; 0 if both match.
    bit<23> mac_difference;

    @id(ACTION_ID_NOT_A_DATAGRAM_GROUP)
    action not_a_group() {
        groups_counter.count();
        meta.drop_reason = Drop.NO_ROUTE;
    }

    // PRE groups of datagrams follow those of reliable multicast, which are 1 to MAX_GROUPS.
    @id(ACTION_ID_REPLICATE)
    action replicate(bit<16> index) {
        groups_counter.count();
        mcast_grp = FIRST_DATAGRAM_PRE_GROUP + index;
    }

    @id(TABLE_ID_DATAGRAM_GROUPS)
    @entry_restriction("group_ip >= 0xe0000000 && group_ip < 0xf0000000")
    table groups {
        key = { hdr.ipv4.dst: exact @name("group_ip"); }
        actions = { replicate; @defaultonly not_a_group; }
        const default_action = not_a_group();
        counters = groups_counter;
        size = MAX_DATAGRAM_GROUPS;
    }

    @hidden
    action refuse(bit<8> reason) {
        meta.drop_reason = reason;
    }

    // A table instead of conditions, because those of some targets compare fewer bits, and each would be a table there.
    @hidden
    table datagrams {
        key = {
            hdr.bth.isValid(): ternary;
            hdr.bth.opcode[7:5]: ternary @name("opcode_class");
            hdr.bth.dest_qp: ternary;
            hdr.ethernet.dst[47:23]: ternary @name("mac_prefix");
            mac_difference: ternary;
        }
        actions = { NoAction; refuse; }
        const default_action = refuse(Drop.UNSUPPORTED_OPCODE);
        const entries = {
            (true, OPCODE_CLASS_UD, MULTICAST_QPN, MULTICAST_MAC ++ 1w0, 0): NoAction();
            (true, OPCODE_CLASS_UD, MULTICAST_QPN, _, _): refuse(Drop.WRONG_MULTICAST_MAC);
            (true, OPCODE_CLASS_UD, _, _, _): refuse(Drop.WRONG_QPN);
        }
        size = 4;
    }

    apply {
        mac_difference = hdr.ethernet.dst[22:0] ^ hdr.ipv4.dst[22:0];
        switch (datagrams.apply().action_run) {
            NoAction: {
                groups.apply();
            }
            default: {}
        }
    }
}

#endif  // ALFIRK_DATAGRAM_MULTICAST_P4
