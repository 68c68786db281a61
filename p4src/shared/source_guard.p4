// Source address validation: a host may send only with its own address.
//
// Receivers accept packets from the McstID. A host that could send with that source address directly to a receiver's
// queue pair would inject data into a group of which it is not a member. Ports to hosts have an entry here; other ports
// lead to switches, which validate their own hosts.

#ifndef ALFIRK_SOURCE_GUARD_P4
#define ALFIRK_SOURCE_GUARD_P4

control SourceGuard(inout headers_t hdr,
                    inout metadata_t meta,
                    in port_t ingress_port) {
    bit<32> owner;

    @id(ACTION_ID_ATTACHED)
    action attached(ipv4_addr_t ip) {
        owner = ip;
    }

    @id(ACTION_ID_NOT_A_HOST)
    action not_a_host() {}

    @id(TABLE_ID_HOSTS)
    @entry_restriction(QUOTED(ingress_port < END_OF_PORTS))
    table hosts {
        key = { (port_id_t)ingress_port: exact @name("ingress_port"); }
        actions = { attached; @defaultonly not_a_host; }
        const default_action = not_a_host();
        size = SIZE_PORTS;
    }

    apply {
        if (hosts.apply().hit) {
            if (hdr.ipv4.isValid() && hdr.ipv4.src != owner) {
                meta.drop_reason = Drop.SPOOFED_SOURCE;
            } else if (hdr.arp.isValid() && hdr.arp.sender_ip != owner && hdr.arp.sender_ip != 0) {
                meta.drop_reason = Drop.SPOOFED_SOURCE;
            }
        }
    }
}

#endif  // ALFIRK_SOURCE_GUARD_P4
