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

    // XOR of the sender's and the target's address: 0 in an announcement.
    ipv4_addr_t own_difference;

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

    @hidden
    action refuse() {
        meta.drop_reason = Drop.ARP_NOT_FOR_US;
    }

    // ARP probes (without sender address) and announcements (of the sender's own address) get no reply, which would
    // indicate an address conflict to the host (RFC 5227). A table instead of conditions, each of which would be one on Tofino.
    @hidden
    table requests {
        key = {
            hdr.arp.htype: ternary;
            hdr.arp.ptype: ternary;
            hdr.arp.hlen: ternary;
            hdr.arp.plen: ternary;
            hdr.arp.oper: ternary;
            hdr.arp.sender_ip: ternary;
            own_difference: ternary;
        }
        actions = { NoAction; refuse; }
        const default_action = refuse();
        const entries = {
            (_, _, _, _, _, 0, _): refuse();
            (_, _, _, _, _, _, 0): refuse();
            (ARP_HTYPE_ETHERNET, ETHERTYPE_IPV4, 6, 4, ARP_OPER_REQUEST, _, _): NoAction();
        }
        size = 4;
    }

    apply {
        own_difference = hdr.arp.sender_ip ^ hdr.arp.target_ip;
        switch (requests.apply().action_run) {
            NoAction: {
                arp_targets.apply();
            }
            default: {}
        }
    }
}

#endif  // ALFIRK_ARP_RESPONDER_P4
