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
// ICRC_LEFT_WRONG leaves the constants out, for tests of those who have to notice.
//
// The table is also the group's guard: a host that is not the member on this port, or
// that addresses another queue pair than VIRTUAL_QPN (on which the exit half's
// constants rest), gets nothing in.

#ifndef ALFIRK_BRIDGE_ENTRY_P4
#define ALFIRK_BRIDGE_ENTRY_P4

control BridgeEntry(inout headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    direct_counter(CounterType.packets_and_bytes) members_counter;

    action not_a_member() {
        members_counter.count();
        meta.drop_reason = DROP_NOT_A_MEMBER;
    }

    action enter(bit<16> id_xor, bit<16> sport_xor) {
        members_counter.count();
        hdr.ipv4.src = hdr.ipv4.dst;
#ifndef ICRC_LEFT_WRONG
        hdr.ipv4.identification = hdr.ipv4.identification ^ id_xor;
        hdr.udp.src_port = hdr.udp.src_port ^ sport_xor;
#endif
    }

    table members {
        key = {
            meta.group_index: exact @name("group_index");
            standard_metadata.ingress_port: exact @name("ingress_port");
            hdr.ipv4.src: exact @name("src_ip");
        }
        actions = { enter; @defaultonly not_a_member; }
        const default_action = not_a_member();
        counters = members_counter;
        size = SIZE_MEMBERS;
    }

    apply {
        if (hdr.bth.dest_qp != VIRTUAL_QPN) {
            meta.drop_reason = DROP_WRONG_QPN;
        } else if (meta.is_host == 1) {
            members.apply();
        } else if (hdr.ipv4.src != hdr.ipv4.dst) {
            // Between switches a group's packets carry the McstID as both addresses.
            meta.drop_reason = DROP_NOT_A_MEMBER;
        }
    }
}

#endif  // ALFIRK_BRIDGE_ENTRY_P4
