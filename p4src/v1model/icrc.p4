// ICRCs that the pipeline computes.
//
// ../shared/icrc_fields.p4 has the fields that they cover.
//
// The ICRC of feedback, CNPs and announcements of memory regions is always recomputed: these packets are short,
// and their changes (a merged PSN, another syndrome) are not constant. Data keeps its ICRC
// by neutral bridging (bridge_entry.p4), unless the group's mode is IcrcMode.RECOMPUTE; then
// its payload is parsed. If the ICRC is recomputed in egress, ingress verifies the received one;
// otherwise a corrupted packet would get a valid ICRC.

#ifndef ALFIRK_ICRC_P4
#define ALFIRK_ICRC_P4

// Computes the ICRC of every packet whose ICRC is parsed; the result is in meta.icrc, in wire order.
control Icrc(inout headers_t hdr, inout metadata_t meta) {
    bit<32> crc;

    apply {
        if (hdr.aeth.isValid()) {
            hash(crc, HashAlgorithm.crc32, 32w0,
                 { ICRC_FIELDS_TO_BTH, ICRC_FIELDS_OF_AETH }, 33w0x100000000);
        } else if (hdr.cnp.isValid()) {
            hash(crc, HashAlgorithm.crc32, 32w0,
                 { ICRC_FIELDS_TO_BTH, ICRC_FIELDS_OF_CNP }, 33w0x100000000);
        } else if (hdr.mr_info.isValid()) {
            hash(crc, HashAlgorithm.crc32, 32w0,
                 { ICRC_FIELDS_TO_BTH, ICRC_FIELDS_OF_RETH, ICRC_FIELDS_OF_MR_INFO }, 33w0x100000000);
        } else if (!hdr.payload.isValid()) {
            // The empty WRITE that replaces an announcement of a memory region.
            hash(crc, HashAlgorithm.crc32, 32w0,
                 { ICRC_FIELDS_TO_BTH, ICRC_FIELDS_OF_RETH }, 33w0x100000000);
        } else if (hdr.reth.isValid()) {
            hash(crc, HashAlgorithm.crc32, 32w0,
                 { ICRC_FIELDS_TO_BTH, ICRC_FIELDS_OF_RETH, hdr.payload.data }, 33w0x100000000);
        } else {
            hash(crc, HashAlgorithm.crc32, 32w0,
                 { ICRC_FIELDS_TO_BTH, hdr.payload.data }, 33w0x100000000);
        }
        meta.icrc = ICRC_ON_THE_WIRE(crc);
    }
}

#endif  // ALFIRK_ICRC_P4
