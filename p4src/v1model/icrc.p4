// ICRCs that the pipeline computes.
//
// CRC-32 as in Ethernet over eight bytes of ones (the place of a GRH), then IPv4 to
// the end of the payload, where the fields that routers change read as ones: TOS, TTL, IPv4 checksum,
// UDP checksum and the BTH byte of FECN, BECN and reserved bits (IBTA annex A17.3.3).
// The result goes out least significant byte first.
//
// Feedback changes in ways that no constant can foresee (a merged PSN, another
// syndrome), and it is short: it is always recomputed, and so are memory regions. Data
// keeps its ICRC by neutral bridging, see bridge_entry.p4, unless its group's mode is
// IcrcMode.RECOMPUTE: then its payload is parsed. What is recomputed on the way out must
// have been right on the way in, or a fault would get a valid ICRC.

#ifndef ALFIRK_ICRC_P4
#define ALFIRK_ICRC_P4

#define ICRC_FIELDS_TO_BTH \
    64w0xffffffffffffffff, \
    hdr.ipv4.version, hdr.ipv4.ihl, 8w0xff, hdr.ipv4.total_len, \
    hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.frag_offset, \
    8w0xff, hdr.ipv4.protocol, 16w0xffff, hdr.ipv4.src, hdr.ipv4.dst, \
    hdr.udp.src_port, hdr.udp.dst_port, hdr.udp.length, 16w0xffff, \
    hdr.bth.opcode, hdr.bth.solicited_event, hdr.bth.mig_req, hdr.bth.pad_count, \
    hdr.bth.tver, hdr.bth.pkey, 8w0xff, hdr.bth.dest_qp, \
    hdr.bth.ack_req, hdr.bth.reserved_b, hdr.bth.psn

#define ICRC_FIELDS_OF_RETH hdr.reth.va, hdr.reth.r_key, hdr.reth.dma_length

// Of every packet whose ICRC is parsed; the result, in the order of the wire, in meta.icrc.
control Icrc(inout headers_t hdr, inout metadata_t meta) {
    bit<32> crc;

    apply {
        if (hdr.aeth.isValid()) {
            hash(crc, HashAlgorithm.crc32, 32w0,
                 { ICRC_FIELDS_TO_BTH, hdr.aeth.kind, hdr.aeth.value, hdr.aeth.msn }, 33w0x100000000);
        } else if (hdr.mr_info.isValid()) {
            hash(crc, HashAlgorithm.crc32, 32w0,
                 { ICRC_FIELDS_TO_BTH, ICRC_FIELDS_OF_RETH, hdr.mr_info.va_xor, hdr.mr_info.rkey_xor,
                   hdr.mr_info.id_xor, hdr.mr_info.sport_xor }, 33w0x100000000);
        } else if (!hdr.payload.isValid()) {
            // The empty WRITE that is left of a memory region.
            hash(crc, HashAlgorithm.crc32, 32w0,
                 { ICRC_FIELDS_TO_BTH, ICRC_FIELDS_OF_RETH }, 33w0x100000000);
        } else if (hdr.reth.isValid()) {
            hash(crc, HashAlgorithm.crc32, 32w0,
                 { ICRC_FIELDS_TO_BTH, ICRC_FIELDS_OF_RETH, hdr.payload.data }, 33w0x100000000);
        } else {
            hash(crc, HashAlgorithm.crc32, 32w0,
                 { ICRC_FIELDS_TO_BTH, hdr.payload.data }, 33w0x100000000);
        }
        meta.icrc = crc[7:0] ++ crc[15:8] ++ crc[23:16] ++ crc[31:24];
    }
}

#endif  // ALFIRK_ICRC_P4
