// ICRCs that the pipeline computes: of feedback, of CNPs, and of empty WRITEs that stand for memory regions.
//
// Which fields they cover, and how, is in ../shared/icrc_fields.p4. Data keeps its ICRC by neutral bridging
// (group_lookup.p4, ../shared/bridge_exit.p4), for no payload is parsed here.
//
// A CRC-32 over a packet and its own CRC, as it is on the wire, is the same for all packets. So what comes in is checked
// against one constant, and a table can do it.

#ifndef ALFIRK_ICRC_P4
#define ALFIRK_ICRC_P4

#include "../shared/icrc_fields.p4"

// CRC-32 of a packet with its CRC behind it: the residue of the polynomial, reflected and inverted.
const bit<32> ICRC_RESIDUE = 0x2144df1c;

// Of feedback as it comes in.
control IcrcOfFeedback(in headers_t hdr, inout bit<32> crc) {
    Hash<bit<32>>(HashAlgorithm_t.CRC32) hash;

    action compute() {
        crc = hash.get({ ICRC_FIELDS_TO_BTH, ICRC_FIELDS_OF_AETH, hdr.icrc.crc });
    }

    apply {
        compute();
    }
}

// Of a CNP as it comes in.
control IcrcOfCnp(in headers_t hdr, inout bit<32> crc) {
    Hash<bit<32>>(HashAlgorithm_t.CRC32) hash;

    action compute() {
        crc = hash.get({ ICRC_FIELDS_TO_BTH, ICRC_FIELDS_OF_CNP, hdr.icrc.crc });
    }

    apply {
        compute();
    }
}

// ICRC of a received announcement of a memory region. Two CRCs over this many fields do not fit into one stage.
// This one is computed behind the bridge's entry, which leaves an ICRC as right or as wrong as it was.
control IcrcOfRegion(in headers_t hdr, inout bit<32> crc) {
    Hash<bit<32>>(HashAlgorithm_t.CRC32) hash;

    action compute() {
        crc = hash.get({ ICRC_FIELDS_TO_BTH, ICRC_FIELDS_OF_RETH, ICRC_FIELDS_OF_MR_INFO, hdr.icrc.crc });
    }

    apply {
        compute();
    }
}

// Of packets that go out with an ICRC, which is short ones: as it is on the wire.
control Icrc(inout headers_t hdr, inout egress_metadata_t meta) {
    Hash<bit<32>>(HashAlgorithm_t.CRC32) of_feedback;
    Hash<bit<32>>(HashAlgorithm_t.CRC32) of_cnp;
    Hash<bit<32>>(HashAlgorithm_t.CRC32) of_empty_write;

    // As a hash, bytes change places in one stage; as assignments, in one for each.
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
