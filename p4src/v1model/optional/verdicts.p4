// Verdicts of optional parts (../egress.p4).
//
//   DATAGRAM                           sent unchanged, but not to the port that it came from
//   PROBE_WALK, PROBE_PUNT             turned into an ACK, then as the next ones
//   WALK, CONTINUE_WALK, PROBE_WALK    truncated and recirculated
//   PUNT, PROBE_PUNT                   to the controller: feedback header, then an ACK or NAK

#ifndef ALFIRK_OPTIONAL_VERDICTS_P4
#define ALFIRK_OPTIONAL_VERDICTS_P4

#include "../icrc.p4"
#include "../to_controller.p4"

control OptionalVerdicts(inout headers_t hdr,
                         inout metadata_t meta,
                         inout standard_metadata_t standard_metadata,
                         in Verdict verdict,
                         inout bool is_sent) {
    DataToAck() data_to_ack;
    ToController() to_controller;
    Icrc() icrc;

    apply {
        if (IS_PROBE(verdict)) {
            data_to_ack.apply(hdr);
        }
        if (verdict == Verdict.DATAGRAM) {
            is_sent = true;
            if (standard_metadata.egress_port == standard_metadata.ingress_port) {
                meta.drop_reason = Drop.OWN_COPY;
            }
        } else if (verdict == Verdict.PUNT || verdict == Verdict.PROBE_PUNT) {
            to_controller.apply(hdr, meta);
            hdr.feedback.setValid();
            hdr.feedback.group = meta.group_index;
            hdr.feedback.port = meta.optional.source_port;
            hdr.feedback.agg_psn = meta.optional.last_acked[47:24];
            hdr.feedback.agg_msn = meta.optional.last_acked[23:0];
            if (verdict == Verdict.PROBE_PUNT) {
                hdr.aeth.msn = MSN_NEAR(meta.optional.last_acked[23:0], meta.optional.path_msn);
            }
            icrc.apply(hdr, hdr.icrc.crc);
            truncate(PROBE_PACKET_IN_BYTES);
        } else {
            truncate(ACK_FRAME_BYTES);
            meta.kind = Kind.MIN_SEARCH;
            meta.optional.clock = standard_metadata.egress_global_timestamp[29:0];
            recirculate_preserving_field_list(FIELD_LIST_CARRIED);
        }
    }
}

#endif  // ALFIRK_OPTIONAL_VERDICTS_P4
