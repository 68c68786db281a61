// IPv4 header checksum (RFC 791). The ICRC does not cover it, so it can be
// recomputed after a rewrite without changing the ICRC.

#ifndef ALFIRK_IPV4_CHECKSUM_P4
#define ALFIRK_IPV4_CHECKSUM_P4

#define IPV4_CHECKSUM_FIELDS(ip) \
    { ip.version, ip.ihl, ip.dscp, ip.ecn, ip.total_len, ip.identification, \
      ip.flags, ip.frag_offset, ip.ttl, ip.protocol, ip.src, ip.dst }

// Headers with options are routed without verification, because options are not parsed.
control VerifyIpv4Checksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
                        IPV4_CHECKSUM_FIELDS(hdr.ipv4), hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control UpdateIpv4Checksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
                        IPV4_CHECKSUM_FIELDS(hdr.ipv4), hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

#endif  // ALFIRK_IPV4_CHECKSUM_P4
