// ICRCs that the pipeline computes: those of feedback, which is short, and whose changes (a merged PSN, another syndrome) are
// not constant. Data keeps its ICRC by neutral bridging (bridge_entry.p4).
//
// ../shared/icrc_fields.p4 has the fields that an ICRC covers, optional/icrc.p4 the ICRCs of other packets.

#ifndef ALFIRK_ICRC_P4
#define ALFIRK_ICRC_P4

// Computes the ICRC of a packet whose ICRC is parsed, in wire order.
control Icrc(in headers_t hdr, out bit<32> icrc) {
    OtherIcrc() other_icrc;
    bit<32> crc;

    apply {
        crc = 0;
        if (hdr.aeth.isValid()) {
            hash(crc, HashAlgorithm.crc32, 32w0,
                 { ICRC_FIELDS_TO_BTH, ICRC_FIELDS_OF_AETH }, 33w0x100000000);
        } else {
            other_icrc.apply(hdr, crc);
        }
        icrc = ICRC_ON_THE_WIRE(crc);
    }
}

// Drops a packet whose ICRC is wrong, if egress computes another one; otherwise a corrupted packet would get a valid ICRC.
control CheckIcrc(in headers_t hdr, inout metadata_t meta) {
    Icrc() icrc;
    RequirePayload() require_payload;
    bit<32> crc;

    apply {
        if (!hdr.icrc.isValid()) {
            require_payload.apply(meta);
        } else {
            icrc.apply(hdr, crc);
            if (crc != hdr.icrc.crc) {
                meta.drop_reason = Drop.DATA_ICRC;
                if (hdr.aeth.isValid() || hdr.cnp.isValid()) {
                    meta.drop_reason = Drop.FEEDBACK_ICRC;
                }
            }
        }
    }
}

// Sets the ICRC of a packet as it leaves the switch.
control UpdateIcrc(inout headers_t hdr,
                   inout metadata_t meta,
                   inout standard_metadata_t standard_metadata,
                   in bool is_to_host) {
    Icrc() icrc;
    PuntIcrc() punt_icrc;

    apply {
        punt_icrc.apply(hdr, meta, standard_metadata, is_to_host);
        if (meta.drop_reason == Drop.NONE && hdr.icrc.isValid()) {
            icrc.apply(hdr, hdr.icrc.crc);
            if (hdr.aeth.isValid()) {
                // Removes the payload of data that has become an ACK, and bytes that a member has appended to feedback.
                truncate(ACK_FRAME_BYTES + TAGS_BYTES(hdr));
            }
        }
    }
}

#endif  // ALFIRK_ICRC_P4
