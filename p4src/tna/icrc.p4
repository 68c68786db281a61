// ICRCs that the pipeline computes: of feedback, CNPs, and empty WRITEs that replace announcements of memory regions.
//
// See ../shared/icrc_fields.p4 for the fields that they cover. Data keeps its ICRC by neutral bridging (group_lookup.p4,
// ../shared/bridge_exit.p4), because no payload is parsed here.
//
// The CRC-32 over a packet with its own CRC is the same constant for all packets (residue). So a table can check received
// packets against that constant.

#ifndef ALFIRK_ICRC_P4
#define ALFIRK_ICRC_P4

#include "../shared/icrc_fields.p4"

// CRC-32 of a packet followed by its CRC: the residue of the polynomial, reflected and inverted.
const bit<32> ICRC_RESIDUE = 0x2144df1c;

// CRC of received feedback, or of a received CNP. It is computed before the tables of groups, whether the packet is of a group or
// not: the fields of both take most of a stage's input crossbar, and a large table does not fit beside them.
control IcrcOfReceived(in headers_t hdr, inout bit<32> crc) {
    Hash<bit<32>>(HashAlgorithm_t.CRC32) of_feedback;
    Hash<bit<32>>(HashAlgorithm_t.CRC32) of_cnp;

    apply {
        if (hdr.aeth.isValid()) {
            crc = of_feedback.get({ ICRC_FIELDS_TO_BTH, ICRC_FIELDS_OF_AETH, hdr.icrc.crc });
        } else if (hdr.cnp.isValid()) {
            crc = of_cnp.get({ ICRC_FIELDS_TO_BTH, ICRC_FIELDS_OF_CNP, hdr.icrc.crc });
        }
    }
}

// ICRC of a received announcement of a memory region. Two CRCs over this many fields do not fit into one stage.
// This one is computed after the entry half of the bridge, which does not change the validity of an ICRC.
control IcrcOfRegion(in headers_t hdr, inout bit<32> crc) {
    Hash<bit<32>>(HashAlgorithm_t.CRC32) hash;

    action compute() {
        crc = hash.get({ ICRC_FIELDS_TO_BTH, ICRC_FIELDS_OF_RETH, ICRC_FIELDS_OF_MR_INFO, hdr.icrc.crc });
    }

    apply {
        compute();
    }
}

// Writes the ICRC of short packets, in wire order.
control Icrc(inout headers_t hdr, inout egress_metadata_t meta) {
    Hash<bit<32>>(HashAlgorithm_t.CRC32) of_feedback;
    Hash<bit<32>>(HashAlgorithm_t.CRC32) of_cnp;
    Hash<bit<32>>(HashAlgorithm_t.CRC32) of_empty_write;

    // An identity hash reverses the byte order in one stage; assignments would need one stage per byte.
    action write() {
        @in_hash {
            hdr.icrc.crc = ICRC_ON_THE_WIRE(meta.crc);
        }
    }

    apply {
        if (hdr.aeth.isValid()) {
            meta.crc = of_feedback.get({ ICRC_FIELDS_TO_BTH, ICRC_FIELDS_OF_AETH });
        } else if (hdr.cnp.isValid()) {
            // Its reserved bytes are written as zeros (../shared/feedback_frame.p4).
            meta.crc = of_cnp.get({ ICRC_FIELDS_TO_BTH, 64w0, 64w0 });
        } else {
            meta.crc = of_empty_write.get({ ICRC_FIELDS_TO_BTH, ICRC_FIELDS_OF_RETH });
        }
        write();
    }
}

#endif  // ALFIRK_ICRC_P4
