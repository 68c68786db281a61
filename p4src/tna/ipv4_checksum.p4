// IPv4 header checksum (RFC 791). The ICRC does not cover it, so it can be
// recomputed after a rewrite without changing the ICRC.
//
// Verified in the parsers (parser.p4) and computed in the egress deparser. Headers with options are routed without
// verification or update, because options are not parsed.

#ifndef ALFIRK_IPV4_CHECKSUM_P4
#define ALFIRK_IPV4_CHECKSUM_P4

#define IPV4_CHECKSUM_FIELDS(ip) \
    { ip.version, ip.ihl, ip.dscp, ip.ecn, ip.total_len, ip.identification, \
      ip.flags, ip.frag_offset, ip.ttl, ip.protocol, ip.src, ip.dst }

#endif  // ALFIRK_IPV4_CHECKSUM_P4
