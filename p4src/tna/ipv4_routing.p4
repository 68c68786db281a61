// Unicast IPv4 with equal-cost multipath.
//
//   routes ──┬─ to_host ─────────────────> port, MAC of the host
//            ├─ to_switch ───────────────> port
//            └─ ecmp ── next_hops ───────> port
//
// The tables are those of v1model/ipv4_routing.p4. But a hash cannot be reduced modulo a size known only at run time. So
// the index is the hash ANDed with the parameter `mask`, and the controller writes a number of next hops that is a
// power of two.

#ifndef ALFIRK_IPV4_ROUTING_P4
#define ALFIRK_IPV4_ROUTING_P4

control Ipv4Routing(inout headers_t hdr,
                    inout ingress_metadata_t meta,
                    inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
    @id(DIRECT_COUNTER_ID_ROUTES) DIRECT_COUNTER(routes_counter);
    @id(DIRECT_COUNTER_ID_NEXT_HOPS) DIRECT_COUNTER(next_hops_counter);
    Hash<bit<16>>(HashAlgorithm_t.CRC16) hash;
    bit<16> ecmp_group = 0;
    bit<16> ecmp_index = 0;
    bit<16> ecmp_mask = 0;
    bit<16> ecmp_seed = 0;

    @id(ACTION_ID_NO_ROUTE)
    action no_route() {
        routes_counter.count();
        meta.drop_reason = Drop.NO_ROUTE;
    }

    @id(ACTION_ID_TO_HOST)
    action to_host(port_id_t port, mac_t mac) {
        routes_counter.count();
        ig_tm_md.ucast_egress_port = (port_t)port;
        hdr.ethernet.src = VIRTUAL_MAC;
        hdr.ethernet.dst = mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    @id(ACTION_ID_ROUTE_TO_SWITCH)
    action to_switch(port_id_t port) {
        routes_counter.count();
        ig_tm_md.ucast_egress_port = (port_t)port;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    @id(ACTION_ID_ECMP)
    action ecmp(@refers_to(next_hops, ecmp_group) bit<16> group, bit<16> mask, bit<16> seed) {
        routes_counter.count();
        ecmp_group = group;
        ecmp_mask = mask;
        ecmp_seed = seed;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
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

    action hash_flow() {
        ecmp_index = hash.get({ ecmp_seed, hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, meta.l4_ports });
    }

    action mask_hash() {
        ecmp_index = ecmp_index & ecmp_mask;
    }

    @id(ACTION_ID_NO_NEXT_HOP)
    action no_next_hop() {
        next_hops_counter.count();
        meta.drop_reason = Drop.NO_ROUTE;
    }

    @id(ACTION_ID_TO_SWITCH_HOP)
    action to_switch_hop(port_id_t port) {
        next_hops_counter.count();
        ig_tm_md.ucast_egress_port = (port_t)port;
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
        if (hdr.ipv4.ttl == 0 || hdr.ipv4.ttl == 1) {
            meta.drop_reason = Drop.TTL_EXPIRED;
        } else {
            switch (routes.apply().action_run) {
                ecmp: {
                    hash_flow();
                    mask_hash();
                    next_hops.apply();
                }
                default: {}
            }
        }
    }
}

#endif  // ALFIRK_IPV4_ROUTING_P4
