// Exit half of the bridge: rewrites a group's packet to a host.
//
//   dst MAC, dstIP := host      DestQP := host's QPN      (WRITE: VA ^=, R_Key ^=)
//   identification ^= id_xor    source port ^= sport_xor
//
// Every field changes by a constant XOR difference: dstIP was the McstID, and DestQP the group's virtual_qpn. Memory regions
// are aligned to a power of two not below their size, so VA changes by a constant as well. As in the entry half, one pair of
// constants keeps the ICRC valid; packets with a RETH need a second pair, because two more fields change.
//
// Ports to other switches have no entry: their copies are not changed.
//
// Cepheus, section III-B, "Connection Bridging"; the constants are in no paper.

#ifndef ALFIRK_BRIDGE_EXIT_P4
#define ALFIRK_BRIDGE_EXIT_P4

control BridgeExit(inout headers_t hdr,
                   inout metadata_t meta,
                   in port_t egress_port,
                   inout bool is_to_host,
                   inout slot_t receiver) {
    @id(DIRECT_COUNTER_ID_RECEIVERS) DIRECT_COUNTER(receivers_counter);
    bit<16> with_reth_id_xor = 0;
    bit<16> with_reth_sport_xor = 0;
    bit<64> with_reth_va_xor = 0;
    bit<32> with_reth_rkey_xor = 0;
    bit<16> without_reth_id_xor = 0;
    bit<16> without_reth_sport_xor = 0;

    @id(ACTION_ID_EXIT_TO_SWITCH)
    action to_switch() {
        receivers_counter.count();
    }

    @id(ACTION_ID_DELIVER)
    action deliver(mac_t mac, ipv4_addr_t ip, qpn_t qpn,
                   bit<16> id_xor, bit<16> sport_xor,
                   bit<16> reth_id_xor, bit<16> reth_sport_xor,
                   bit<64> va_xor, bit<32> rkey_xor) {
        receivers_counter.count();
        is_to_host = true;
        hdr.ethernet.src = VIRTUAL_MAC;
        hdr.ethernet.dst = mac;
        hdr.ipv4.dst = ip;
        hdr.bth.dest_qp = qpn;
        without_reth_id_xor = id_xor;
        without_reth_sport_xor = sport_xor;
        with_reth_id_xor = reth_id_xor;
        with_reth_sport_xor = reth_sport_xor;
        with_reth_va_xor = va_xor;
        with_reth_rkey_xor = rkey_xor;
    }

    // For a receiver with announced memory regions (memory_regions.p4).
    @id(ACTION_ID_DELIVER_WITH_SLOT)
    action deliver_with_slot(mac_t mac, ipv4_addr_t ip, qpn_t qpn,
                             bit<16> id_xor, bit<16> sport_xor,
                             bit<16> reth_id_xor, bit<16> reth_sport_xor,
                             bit<64> va_xor, bit<32> rkey_xor, slot_t slot) {
        deliver(mac, ip, qpn, id_xor, sport_xor, reth_id_xor, reth_sport_xor, va_xor, rkey_xor);
        receiver = slot;
    }

    @id(TABLE_ID_RECEIVERS)
    @entry_restriction(QUOTED(egress_port < END_OF_PORTS))
    table receivers {
        key = {
            meta.group_index: exact @name("group_index");
            (port_id_t)egress_port: exact @name("egress_port");
        }
        actions = { deliver; deliver_with_slot; @defaultonly to_switch; }
        const default_action = to_switch();
        counters = receivers_counter;
        size = SIZE_RECEIVERS;
    }

    apply {
        receivers.apply();
        if (is_to_host) {
            if (hdr.reth.isValid()) {
                hdr.ipv4.identification = hdr.ipv4.identification ^ with_reth_id_xor;
                hdr.udp.src_port = hdr.udp.src_port ^ with_reth_sport_xor;
                hdr.reth.va = hdr.reth.va ^ with_reth_va_xor;
                hdr.reth.r_key = hdr.reth.r_key ^ with_reth_rkey_xor;
            } else {
                hdr.ipv4.identification = hdr.ipv4.identification ^ without_reth_id_xor;
                hdr.udp.src_port = hdr.udp.src_port ^ without_reth_sport_xor;
            }
        }
    }
}

#endif  // ALFIRK_BRIDGE_EXIT_P4
