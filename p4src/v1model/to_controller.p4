// Packets to the controller: the PacketIn header, the position of the source, and truncation to what the controller reads.
//
//   PUNT, PROBE_PUNT   feedback header, then an ACK or NAK
//   TO_CONTROLLER      the packet: a NAK frame, a registration, or data whose ICRC the controller computes (the only one sent whole)
//
// Ingress has limited their rate (punt_limit.p4). The reply to a register access is not one of these packets, because it is
// caused by the controller (register_control.p4).

#ifndef ALFIRK_TO_CONTROLLER_P4
#define ALFIRK_TO_CONTROLLER_P4

control ToController(inout headers_t hdr, inout metadata_t meta, in Verdict verdict) {
    Icrc() icrc;

    apply {
        hdr.packet_in.setValid();
        hdr.packet_in.reason = meta.decision.packet_in_reason;
        hdr.packet_in.pad = 0;
        hdr.packet_in.ingress_port = meta.origin_port;
        if (verdict != Verdict.TO_CONTROLLER) {
            hdr.feedback.setValid();
            hdr.feedback.group = meta.group_index;
            hdr.feedback.port = meta.source_port;
            hdr.feedback.agg_psn = meta.last_acked[47:24];
            hdr.feedback.agg_msn = meta.last_acked[23:0];
            if (verdict == Verdict.PROBE_PUNT) {
                hdr.aeth.msn = MSN_NEAR(meta.last_acked[23:0], meta.path_msn);
            }
            icrc.apply(hdr, meta);
            hdr.icrc.crc = meta.icrc;
            truncate(PROBE_PACKET_IN_BYTES);
        } else if (meta.decision.packet_in_reason == PacketInReason.FATAL_NAK) {
            truncate(FATAL_NAK_PACKET_IN_BYTES + TAGS_BYTES(hdr));
        } else if (meta.decision.packet_in_reason == PacketInReason.MRP) {
            truncate(MRP_PACKET_IN_BYTES + TAGS_BYTES(hdr));
        }
    }
}

#endif  // ALFIRK_TO_CONTROLLER_P4
