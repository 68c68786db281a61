// Entry half of the bridge: rewrites a group's packet received from a host.
//
//   srcIP := McstID        identification ^= id_xor       source port ^= sport_xor
//
// Receivers accept a packet only from the remote address of their queue pair, which is the McstID. The ICRC covers srcIP,
// but a CRC is linear over GF(2). Replacing a known address by a known McstID changes the CRC by a constant that depends on
// the following bytes only by their number. The same holds for changes of the identification and the UDP source
// port, which the ICRC covers as well and RC queue pairs ignore. The controller computes the one pair of constants that
// cancels the change for any following bytes. Payload and ICRC are not changed.
//
// The ICRC does not cover TTL and UDP checksum. Like any router, a switch decrements the TTL. The UDP checksum, which the
// new address invalidates, is set to 0: no checksum (RFC 768).
//
// ICRC_LEFT_WRONG omits the constants, to test that receivers detect the wrong ICRC.
//
// The table also filters: packets of a host that is not the member on this port are dropped, and those with another
// queue pair number than the group's (on which the constants of the exit half depend) or another partition. Successive
// groups with the same McstID have different queue pair numbers, so that queue pairs of an earlier group cannot
// send into a later one. Data of a member registered as receive-only is dropped as well (`enter_receiver`).
//
// Cepheus, section III-B, "Connection Bridging", rewrites both ends at the receivers' leaves; the two halves and
// their constants are in no paper.

#ifndef ALFIRK_BRIDGE_ENTRY_P4
#define ALFIRK_BRIDGE_ENTRY_P4

control BridgeEntry(inout headers_t hdr, inout metadata_t meta, in port_t ingress_port) {
    @id(DIRECT_COUNTER_ID_MEMBERS) DIRECT_COUNTER(members_counter);

    @id(ACTION_ID_NOT_A_MEMBER)
    action not_a_member() {
        members_counter.count();
        meta.drop_reason = Drop.NOT_A_MEMBER;
    }

    @id(ACTION_ID_ENTER)
    action enter(bit<16> id_xor, bit<16> sport_xor) {
        members_counter.count();
        hdr.ipv4.src = hdr.ipv4.dst;
#ifndef ICRC_LEFT_WRONG
        hdr.ipv4.identification = hdr.ipv4.identification ^ id_xor;
        hdr.udp.src_port = hdr.udp.src_port ^ sport_xor;
#endif
    }

    @id(ACTION_ID_ENTER_RECEIVER)
    action enter_receiver(bit<16> id_xor, bit<16> sport_xor) {
        enter(id_xor, sport_xor);
        if (meta.kind == Kind.DATA) {
            meta.drop_reason = Drop.MAY_NOT_SEND;
        }
    }

    @id(TABLE_ID_MEMBERS)
    @entry_restriction(QUOTED(ingress_port < END_OF_PORTS && src_ip != 0))
    table members {
        key = {
            meta.group_index: exact @name("group_index") @refers_to(receivers, group_index);
            (port_id_t)ingress_port: exact @name("ingress_port") @refers_to(receivers, egress_port);
            hdr.ipv4.src: exact @name("src_ip");
        }
        actions = { enter; enter_receiver; @defaultonly not_a_member; }
        const default_action = not_a_member();
        counters = members_counter;
        size = SIZE_MEMBERS;
    }

    apply {
        if (hdr.bth.dest_qp != meta.virtual_qpn) {
            meta.drop_reason = Drop.WRONG_QPN;
        } else if (hdr.bth.pkey[14:0] != DEFAULT_PARTITION) {
            meta.drop_reason = Drop.WRONG_PKEY;
        } else if (hdr.ipv4.ttl <= 1) {
            meta.drop_reason = Drop.TTL_EXPIRED;
        } else if (meta.is_host == 1) {
            members.apply();
        } else if (hdr.ipv4.src != hdr.ipv4.dst) {
            // Between switches, a group's packets have the McstID as both addresses.
            meta.drop_reason = Drop.NOT_A_MEMBER;
        } else if (meta.kind == Kind.READ) {
            // The first switch on its path would have refused it.
            meta.drop_reason = Drop.UNSUPPORTED_OPCODE;
        }
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        hdr.udp.checksum = 0;
    }
}

#endif  // ALFIRK_BRIDGE_ENTRY_P4
