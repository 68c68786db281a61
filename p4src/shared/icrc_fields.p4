// Fields that an ICRC covers, and their form in its computation.
//
// CRC-32 as in Ethernet over eight bytes of ones (in place of a GRH), then from IPv4 to the end of the payload. Fields that
// routers change are replaced by ones: TOS, TTL, IPv4 checksum, UDP checksum, and the BTH byte with FECN, BECN and
// reserved bits (IBTA annex A17.3.3). These are lists of fields, because each target has its own hash extern.

#ifndef ALFIRK_ICRC_FIELDS_P4
#define ALFIRK_ICRC_FIELDS_P4

#define ICRC_FIELDS_TO_BTH \
    64w0xffffffffffffffff, \
    hdr.ipv4.version, hdr.ipv4.ihl, 8w0xff, hdr.ipv4.total_len, \
    hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.frag_offset, \
    8w0xff, hdr.ipv4.protocol, 16w0xffff, hdr.ipv4.src, hdr.ipv4.dst, \
    hdr.udp.src_port, hdr.udp.dst_port, hdr.udp.length, 16w0xffff, \
    hdr.bth.opcode, hdr.bth.solicited_event, hdr.bth.mig_req, hdr.bth.pad_count, \
    hdr.bth.tver, hdr.bth.pkey, 8w0xff, hdr.bth.dest_qp, \
    hdr.bth.ack_req, hdr.bth.reserved_b, hdr.bth.psn

#define ICRC_FIELDS_OF_AETH hdr.aeth.kind, hdr.aeth.value, hdr.aeth.msn
#define ICRC_FIELDS_OF_CNP hdr.cnp.reserved
#define ICRC_FIELDS_OF_RETH hdr.reth.va, hdr.reth.r_key, hdr.reth.dma_length
#define ICRC_FIELDS_OF_MR_INFO hdr.mr_info.va_xor, hdr.mr_info.rkey_xor, hdr.mr_info.id_xor, hdr.mr_info.sport_xor

// A CRC is transmitted least significant byte first.
#define ICRC_ON_THE_WIRE(crc) ((crc)[7:0] ++ (crc)[15:8] ++ (crc)[23:16] ++ (crc)[31:24])

#endif  // ALFIRK_ICRC_FIELDS_P4
