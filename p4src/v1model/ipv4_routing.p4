// Unicast IPv4 with equal-cost multipath.
//
//   routes ──┬─ to_host ─────────────────> port, MAC of the host
//            ├─ to_switch ───────────────> port
//            └─ ecmp ── next_hops ───────> port
//
// RoCEv2 senders vary the UDP source port per queue pair, so it is the entropy of the
// hash. Each switch has another seed: with the same hash in every layer, all flows
// that reach an aggregation switch would select the same uplink again.

#ifndef ALFIRK_IPV4_ROUTING_P4
#define ALFIRK_IPV4_ROUTING_P4

control Ipv4Routing(inout headers_t hdr,
                    inout metadata_t meta,
                    inout port_t egress_port) {
    @id(DIRECT_COUNTER_ID_ROUTES) direct_counter(CounterType.packets_and_bytes) routes_counter;
    @id(DIRECT_COUNTER_ID_NEXT_HOPS) direct_counter(CounterType.packets_and_bytes) next_hops_counter;
    bit<16> ecmp_group = 0;
    bit<16> ecmp_index = 0;

    @id(ACTION_ID_NO_ROUTE)
    action no_route() {
        routes_counter.count();
        meta.drop_reason = Drop.NO_ROUTE;
    }

    @id(ACTION_ID_TO_HOST)
    action to_host(port_id_t port, mac_t mac) {
        routes_counter.count();
        egress_port = (port_t)port;
        hdr.ethernet.src = VIRTUAL_MAC;
        hdr.ethernet.dst = mac;
    }

    @id(ACTION_ID_ROUTE_TO_SWITCH)
    action to_switch(port_id_t port) {
        routes_counter.count();
        egress_port = (port_t)port;
    }

    @id(ACTION_ID_ECMP)
    action ecmp(@refers_to(next_hops, ecmp_group) bit<16> group, bit<16> size, bit<16> seed) {
        routes_counter.count();
        ecmp_group = group;
        hash(ecmp_index, HashAlgorithm.crc16, 16w0,
             { seed, hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, meta.l4_ports }, size);
    }

    @id(TABLE_ID_ROUTES)
    @entry_restriction("dst_ip::prefix_length > 0")
    table routes {
        key = { hdr.ipv4.dst: lpm @name("dst_ip"); }
        actions = { to_host; to_switch; ecmp; no_route; }
        const default_action = no_route();
        counters = routes_counter;
        size = SIZE_ROUTES;
    }

    @id(ACTION_ID_NO_NEXT_HOP)
    action no_next_hop() {
        next_hops_counter.count();
        meta.drop_reason = Drop.NO_ROUTE;
    }

    @id(ACTION_ID_TO_SWITCH_HOP)
    action to_switch_hop(port_id_t port) {
        next_hops_counter.count();
        egress_port = (port_t)port;
    }

    @id(TABLE_ID_NEXT_HOPS)
    table next_hops {
        key = {
            ecmp_group: exact @name("ecmp_group");
            ecmp_index: exact @name("ecmp_index");
        }
        actions = { to_switch_hop; no_next_hop; }
        const default_action = no_next_hop();
        counters = next_hops_counter;
        size = SIZE_NEXT_HOPS;
    }

    apply {
        if (hdr.ipv4.ttl <= 1) {
            meta.drop_reason = Drop.TTL_EXPIRED;
        } else {
            switch (routes.apply().action_run) {
                ecmp: { next_hops.apply(); }
                default: {}
            }
            // A packet without a route is not changed, because a registration packet still goes to the controller.
            if (meta.drop_reason == Drop.NONE) {
                hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
            }
        }
    }
}

#endif  // ALFIRK_IPV4_ROUTING_P4
