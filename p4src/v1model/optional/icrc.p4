// ICRCs of CNPs, of announcements of memory regions, and of data of groups with IcrcMode.RECOMPUTE, whose payload is parsed. With
// IcrcMode.PUNT the controller computes the ICRC of each copy for a host.

#ifndef ALFIRK_OPTIONAL_ICRC_P4
#define ALFIRK_OPTIONAL_ICRC_P4

// Computes the ICRC of a packet without an AETH.
control OtherIcrc(in headers_t hdr, inout bit<32> crc) {
    apply {
        if (hdr.cnp.isValid()) {
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
    }
}

// Drops data of a group whose ICRC is recomputed, if its payload is not parsed: its address is not in RECOMPUTE_NETWORK, and
// receivers would drop it.
control RequirePayload(inout metadata_t meta) {
    apply {
        if (meta.optional.icrc_mode == IcrcMode.RECOMPUTE) {
            meta.drop_reason = Drop.DATA_ICRC;
        }
    }
}

// Passes a packet for a host to the controller, which computes its ICRC, and sends it through this port.
control PuntIcrc(inout headers_t hdr,
                 inout metadata_t meta,
                 inout standard_metadata_t standard_metadata,
                 in bool is_to_host) {
    apply {
        if (is_to_host && meta.optional.icrc_mode == IcrcMode.PUNT && (!hdr.icrc.isValid() || hdr.cnp.isValid())) {
            meta.clone_verdict = Verdict.TO_CONTROLLER;
            meta.packet_in_reason = PacketInReason.ICRC;
            meta.origin_port = standard_metadata.egress_port;
            clone_preserving_field_list(CloneType.E2E, (bit<32>)CPU_PORT, FIELD_LIST_CARRIED);
            meta.drop_reason = Drop.ICRC_PUNTED;
        } else if (hdr.cnp.isValid()) {
            // Removes bytes that a member has appended.
            truncate(CNP_FRAME_BYTES + TAGS_BYTES(hdr));
        }
    }
}

#endif  // ALFIRK_OPTIONAL_ICRC_P4
