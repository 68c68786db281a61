// ARP responder: replies to requests for any address in the fabric with one virtual MAC.
//
//   host ── who has 10.255.0.1? ──> leaf switch
//   host <── VIRTUAL_MAC ────────── leaf switch
//
// McstIDs belong to no host that could reply, but an RC queue pair does not reach RTR before its remote address is
// resolved. Requests for hosts get the same reply, so the fabric routes, and no broadcast crosses a switch.

#ifndef ALFIRK_ARP_RESPONDER_P4
#define ALFIRK_ARP_RESPONDER_P4

control ArpResponder(inout headers_t hdr,
                     inout metadata_t meta,
                     in port_t ingress_port,
                     inout port_t egress_port) {
    @id(DIRECT_COUNTER_ID_ARP_TARGETS) DIRECT_COUNTER(arp_targets_counter);

    @id(ACTION_ID_IGNORE)
    action ignore() {
        arp_targets_counter.count();
        meta.drop_reason = Drop.ARP_NOT_FOR_US;
    }

    @id(ACTION_ID_REPLY)
    action reply(mac_t mac) {
        arp_targets_counter.count();
        ipv4_addr_t asked = hdr.arp.target_ip;
        hdr.arp.oper = ARP_OPER_REPLY;
        hdr.arp.target_mac = hdr.arp.sender_mac;
        hdr.arp.target_ip = hdr.arp.sender_ip;
        hdr.arp.sender_mac = mac;
        hdr.arp.sender_ip = asked;
        hdr.ethernet.dst = hdr.ethernet.src;
        hdr.ethernet.src = mac;
        egress_port = ingress_port;
    }

    @id(TABLE_ID_ARP_TARGETS)
    table arp_targets {
        key = { hdr.arp.target_ip: lpm @name("target_ip"); }
        actions = { reply; ignore; }
        const default_action = ignore();
        counters = arp_targets_counter;
        size = SIZE_ARP_TARGETS;
    }

    apply {
        // ARP probes (without sender address) and announcements (of the sender's own address) get no reply, which would
        // indicate an address conflict to the host (RFC 5227). The conditions are nested, as Tofino evaluates each step at once.
        if (hdr.arp.htype != ARP_HTYPE_ETHERNET || hdr.arp.ptype != ETHERTYPE_IPV4) {
            meta.drop_reason = Drop.ARP_NOT_FOR_US;
        } else if (hdr.arp.hlen != 6 || hdr.arp.plen != 4 || hdr.arp.oper != ARP_OPER_REQUEST) {
            meta.drop_reason = Drop.ARP_NOT_FOR_US;
        } else if (hdr.arp.sender_ip == 0) {
            meta.drop_reason = Drop.ARP_NOT_FOR_US;
        } else if (hdr.arp.sender_ip == hdr.arp.target_ip) {
            meta.drop_reason = Drop.ARP_NOT_FOR_US;
        } else {
            arp_targets.apply();
        }
    }
}

#endif  // ALFIRK_ARP_RESPONDER_P4
