// Entry half of the bridge: a group's packet comes in from a host.
//
//   srcIP := McstID        identification ^= id_xor       source port ^= sport_xor
//
// Receivers accept a packet only from the remote address of their queue pair, which
// is the McstID. The ICRC covers srcIP, but a CRC is linear over GF(2): replacing a
// known address by a known McstID changes it by a constant that depends on what
// follows only through its length, and so does any change of the identification and
// the UDP source port, which the ICRC covers too and no RC queue pair looks at. The
// controller solves for the one pair of constants that cancels the change whatever
// follows. Neither payload nor trailer is touched.
//
// The ICRC covers neither TTL nor UDP checksum. Like any router a switch takes one off the TTL, and a
// checksum that another address makes wrong becomes 0, which says that there is none (RFC 768).
//
// ICRC_LEFT_WRONG leaves the constants out, for tests of those who have to notice.
//
// The table is also the group's guard: a host that is not the member on this port, or
// that addresses another queue pair than the group's (on which the exit half's constants
// rest) or another partition, gets nothing in. Each group that has had a McstID has had
// another queue pair number, so that queue pairs of an earlier one, which still send
// theirs, are kept out of a later one. Nor does data of a member that
// may only receive (`enter_receiver`): who may be a source is said at registration.
//
// Cepheus, section III-B, "Connection Bridging", rewrites both ends at the receivers' leaves; the two halves and
// their constants are in no paper.

#ifndef ALFIRK_BRIDGE_ENTRY_P4
#define ALFIRK_BRIDGE_ENTRY_P4

control BridgeEntry(inout headers_t hdr, inout metadata_t meta, in port_t ingress_port) {
    DIRECT_COUNTER(members_counter);

    action not_a_member() {
        members_counter.count();
        meta.drop_reason = Drop.NOT_A_MEMBER;
    }

    action enter(bit<16> id_xor, bit<16> sport_xor) {
        members_counter.count();
        hdr.ipv4.src = hdr.ipv4.dst;
#ifndef ICRC_LEFT_WRONG
        hdr.ipv4.identification = hdr.ipv4.identification ^ id_xor;
        hdr.udp.src_port = hdr.udp.src_port ^ sport_xor;
#endif
    }

    action enter_receiver(bit<16> id_xor, bit<16> sport_xor) {
        enter(id_xor, sport_xor);
        if (meta.kind == Kind.DATA) {
            meta.drop_reason = Drop.MAY_NOT_SEND;
        }
    }

    table members {
        key = {
            meta.group_index: exact @name("group_index");
            ingress_port: exact @name("ingress_port");
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
            // Between switches a group's packets carry the McstID as both addresses.
            meta.drop_reason = Drop.NOT_A_MEMBER;
        } else if (meta.kind == Kind.READ) {
            // Its first switch would have answered it.
            meta.drop_reason = Drop.UNSUPPORTED_OPCODE;
        }
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        hdr.udp.checksum = 0;
    }
}

#endif  // ALFIRK_BRIDGE_ENTRY_P4
