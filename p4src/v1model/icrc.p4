// ICRCs that the pipeline computes.
//
// Which fields they cover, and how, is in ../shared/icrc_fields.p4.
//
// Feedback, CNPs included, changes in ways that no constant can foresee (a merged PSN, another
// syndrome), and it is short: it is always recomputed, and so are memory regions. Data
// keeps its ICRC by neutral bridging, see bridge_entry.p4, unless its group's mode is
// IcrcMode.RECOMPUTE: then its payload is parsed. What is recomputed on the way out must
// have been right on the way in, or a fault would get a valid ICRC.

#ifndef ALFIRK_ICRC_P4
#define ALFIRK_ICRC_P4

// Of every packet whose ICRC is parsed; the result, in the order of the wire, in meta.icrc.
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
        meta.icrc = ICRC_ON_THE_WIRE(crc);
    }
}

#endif  // ALFIRK_ICRC_P4
