// Completes LabIngress and LabEgress to a switch. Nothing to change here.
//
// LabIngress gets data only. Acknowledgements are forwarded to the sender (merging them is another
// lab), and the fabric answers ARP requests, as no host has a group's address.
// LAB_CHECKSUM is a program's control for the IPv4 checksum, if it has one.

const bit<48> FABRIC_MAC = VIRTUAL_MAC;

control LabNoChecksum(inout lab_headers_t hdr, inout metadata_t meta) {
    apply { }
}

#ifndef LAB_CHECKSUM
#define LAB_CHECKSUM LabNoChecksum
#endif

control LabSwitchIngress(inout lab_headers_t hdr, inout metadata_t meta,
                         inout standard_metadata_t standard_metadata) {
    LabIngress() ingress;
    bit<32> asked;

    apply {
        if (hdr.mark.isValid()) {
            standard_metadata.egress_spec = hdr.mark.port[8:0];
        } else if (hdr.arp.isValid() && hdr.arp.oper == ARP_OPER_REQUEST) {
            asked = hdr.arp.target_ip;
            hdr.arp.oper = ARP_OPER_REPLY;
            hdr.arp.target_mac = hdr.arp.sender_mac;
            hdr.arp.target_ip = hdr.arp.sender_ip;
            hdr.arp.sender_mac = FABRIC_MAC;
            hdr.arp.sender_ip = asked;
            hdr.ethernet.dst = hdr.ethernet.src;
            hdr.ethernet.src = FABRIC_MAC;
            standard_metadata.egress_spec = standard_metadata.ingress_port;
        } else if (hdr.bth.isValid() && hdr.bth.opcode == OPCODE_RC_ACKNOWLEDGE) {
            standard_metadata.egress_spec = SENDER;
        } else if (hdr.bth.isValid()) {
            ingress.apply(hdr, meta, standard_metadata);
        } else {
            mark_to_drop(standard_metadata);
        }
    }
}

control LabSwitchEgress(inout lab_headers_t hdr, inout metadata_t meta,
                        inout standard_metadata_t standard_metadata) {
    LabEgress() egress;

    apply {
        if (hdr.bth.isValid() && hdr.bth.opcode != OPCODE_RC_ACKNOWLEDGE) {
            egress.apply(hdr, meta, standard_metadata);
        }
    }
}

control LabNoVerify(inout lab_headers_t hdr, inout metadata_t meta) {
    apply { }
}

control LabDeparser(packet_out packet, in lab_headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.mark);
        packet.emit(hdr.arp);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.bth);
        packet.emit(hdr.payload);
        packet.emit(hdr.icrc);
    }
}

V1Switch(LabParser(), LabNoVerify(), LabSwitchIngress(), LabSwitchEgress(), LAB_CHECKSUM(), LabDeparser()) main;
