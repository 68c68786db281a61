// Packets to the controller: the PacketIn header, and truncation to what the controller reads.
//
// Ingress has limited their rate (punt_limit.p4). The reply to a register access is not one of these packets, because it is
// caused by the controller (register_control.p4).

#ifndef ALFIRK_TO_CONTROLLER_P4
#define ALFIRK_TO_CONTROLLER_P4

control ToController(inout headers_t hdr, in metadata_t meta) {
    apply {
        hdr.packet_in.setValid();
        hdr.packet_in.reason = meta.packet_in_reason;
        hdr.packet_in.pad = 0;
        hdr.packet_in.ingress_port = (port_id_t)meta.origin_port;
        if (meta.packet_in_reason == PacketInReason.FATAL_NAK) {
            truncate(FATAL_NAK_PACKET_IN_BYTES + TAGS_BYTES(hdr));
        } else if (meta.packet_in_reason == PacketInReason.MRP) {
            truncate(MRP_PACKET_IN_BYTES + TAGS_BYTES(hdr));
        }
    }
}

#endif  // ALFIRK_TO_CONTROLLER_P4
