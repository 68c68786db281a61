// A request becomes an empty ACK to its own sender: MSN and ICRC are to be filled in.

#ifndef ALFIRK_DATA_TO_ACK_P4
#define ALFIRK_DATA_TO_ACK_P4

control DataToAck(inout headers_t hdr) {
    apply {
        hdr.reth.setInvalid();
        hdr.mr_info.setInvalid();
#ifndef NO_PAYLOAD_HEADER
        hdr.payload.setInvalid();
#endif
        hdr.aeth.setValid();
        hdr.icrc.setValid();
        hdr.ipv4.total_len = ACK_IPV4_BYTES;
        hdr.ipv4.ecn = ECN_NOT_ECT;
        hdr.ipv4.ttl = ACK_TTL;
        hdr.udp.length = ACK_UDP_BYTES;
        hdr.bth.opcode = OPCODE_RC_ACKNOWLEDGE;
        hdr.bth.solicited_event = 0;
        hdr.bth.pad_count = 0;
        hdr.bth.ack_req = 0;
        hdr.aeth.kind = AETH_ACK;
        hdr.aeth.value = SYNDROME_ACK_NO_CREDITS[4:0];
        hdr.aeth.msn = 0;
        hdr.icrc.crc = 0;
    }
}

#endif  // ALFIRK_DATA_TO_ACK_P4
