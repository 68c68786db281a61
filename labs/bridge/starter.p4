// Lab "bridge": the start. Each receiver gets a copy as the sender sent it, and its card drops it.

#define LAB_CHECKSUM LabChecksum
#include "roce.p4"

control LabIngress(inout lab_headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.mcast_grp = 1;  // all receivers
    }
}

control LabEgress(inout lab_headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    bit<32> crc;

    action deliver(bit<48> mac, bit<32> ip, bit<24> qpn) {
        // TODO 1: the copy is for this MAC and IPv4 address.
        // TODO 2: the copy is for this queue pair.
        // TODO 3: the source address is the queue pair's peer: the group's McstID.
    }

    table receivers {
        key = { standard_metadata.egress_port: exact @name("egress_port"); }
        actions = { deliver; NoAction; }
        default_action = NoAction();
    }

    apply {
        receivers.apply();
        // TODO 4: fields that routers may change are replaced by ones: type of service, TTL, both checksums, and the byte of the BTH
        // with FECN and BECN. So do eight bytes before the packet.
        hash(crc, HashAlgorithm.crc32, 32w0,
             { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_len,
               hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.frag_offset,
               hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.checksum, hdr.ipv4.src, hdr.ipv4.dst,
               hdr.udp.src_port, hdr.udp.dst_port, hdr.udp.length, hdr.udp.checksum,
               hdr.bth.opcode, hdr.bth.solicited_event, hdr.bth.mig_req, hdr.bth.pad_count,
               hdr.bth.tver, hdr.bth.pkey, hdr.bth.fecn, hdr.bth.becn, hdr.bth.reserved_a,
               hdr.bth.dest_qp, hdr.bth.ack_req, hdr.bth.reserved_b, hdr.bth.psn, hdr.payload.data },
             33w0x100000000);
        // The least significant byte is sent first.
        hdr.icrc.crc = crc[7:0] ++ crc[15:8] ++ crc[23:16] ++ crc[31:24];
    }
}

control LabChecksum(inout lab_headers_t hdr, inout metadata_t meta) {
    apply {
        // TODO 1: a changed address needs a new IPv4 checksum: update_checksum(), HashAlgorithm.csum16.
    }
}

#include "roce_switch.p4"
