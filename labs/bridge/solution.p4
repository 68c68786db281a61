// Lab "bridge": one solution.

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
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.ethernet.dst = mac;
        hdr.ipv4.dst = ip;
        hdr.bth.dest_qp = qpn;
    }

    table receivers {
        key = { standard_metadata.egress_port: exact @name("egress_port"); }
        actions = { deliver; NoAction; }
        default_action = NoAction();
    }

    apply {
        receivers.apply();
        hash(crc, HashAlgorithm.crc32, 32w0,
             { 64w0xffffffffffffffff,
               hdr.ipv4.version, hdr.ipv4.ihl, 8w0xff, hdr.ipv4.total_len,
               hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.frag_offset,
               8w0xff, hdr.ipv4.protocol, 16w0xffff, hdr.ipv4.src, hdr.ipv4.dst,
               hdr.udp.src_port, hdr.udp.dst_port, hdr.udp.length, 16w0xffff,
               hdr.bth.opcode, hdr.bth.solicited_event, hdr.bth.mig_req, hdr.bth.pad_count,
               hdr.bth.tver, hdr.bth.pkey, 8w0xff,
               hdr.bth.dest_qp, hdr.bth.ack_req, hdr.bth.reserved_b, hdr.bth.psn, hdr.payload.data },
             33w0x100000000);
        // The least significant byte is sent first.
        hdr.icrc.crc = crc[7:0] ++ crc[15:8] ++ crc[23:16] ++ crc[31:24];
    }
}

control LabChecksum(inout lab_headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
                        { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_len,
                          hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.frag_offset,
                          hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
                        hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

#include "roce_switch.p4"
