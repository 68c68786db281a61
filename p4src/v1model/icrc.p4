// The ICRC of feedback packets, computed in the pipeline.
//
// CRC-32 as in Ethernet over eight bytes of ones (the place of a GRH), then IPv4 to
// AETH, where the fields that routers change read as ones: TOS, TTL, IPv4 checksum,
// UDP checksum and the BTH byte of FECN, BECN and reserved bits (IBTA annex A17.3.3).
// The result goes out least significant byte first.
//
// Feedback changes in ways that no constant can foresee (a merged PSN, another
// syndrome), and it is short: it is always recomputed. Data keeps its ICRC by
// neutral bridging, see bridge_entry.p4.

#ifndef ALFIRK_ICRC_P4
#define ALFIRK_ICRC_P4

// Leaves the ICRC, in the order of the wire, in meta.icrc.
control FeedbackIcrc(inout headers_t hdr, inout metadata_t meta) {
    bit<32> crc;

    apply {
        hash(crc, HashAlgorithm.crc32, 32w0,
             { 64w0xffffffffffffffff,
               hdr.ipv4.version, hdr.ipv4.ihl, 8w0xff, hdr.ipv4.total_len,
               hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.frag_offset,
               8w0xff, hdr.ipv4.protocol, 16w0xffff, hdr.ipv4.src, hdr.ipv4.dst,
               hdr.udp.src_port, hdr.udp.dst_port, hdr.udp.length, 16w0xffff,
               hdr.bth.opcode, hdr.bth.solicited_event, hdr.bth.mig_req, hdr.bth.pad_count,
               hdr.bth.tver, hdr.bth.pkey, 8w0xff, hdr.bth.dest_qp,
               hdr.bth.ack_req, hdr.bth.reserved_b, hdr.bth.psn,
               hdr.aeth.kind, hdr.aeth.value, hdr.aeth.msn },
             33w0x100000000);
        meta.icrc = crc[7:0] ++ crc[15:8] ++ crc[23:16] ++ crc[31:24];
    }
}

#endif  // ALFIRK_ICRC_P4
