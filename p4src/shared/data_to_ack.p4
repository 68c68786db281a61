// Turns a request into an ACK to its own sender. MSN and ICRC must be set afterwards.
//
// PSN and queue pair number are kept; all other fields are those of any feedback (feedback_frame.p4).

#ifndef ALFIRK_DATA_TO_ACK_P4
#define ALFIRK_DATA_TO_ACK_P4

#include "feedback_frame.p4"

control DataToAck(inout headers_t hdr) {
    FeedbackFrame() feedback_frame;

    apply {
        hdr.reth.setInvalid();
        hdr.mr_info.setInvalid();
#ifndef NO_PAYLOAD_HEADER
        hdr.payload.setInvalid();
#endif
        hdr.aeth.setValid();
        hdr.icrc.setValid();
        hdr.bth.opcode = OPCODE_RC_ACKNOWLEDGE;
        hdr.aeth.kind = AETH_ACK;
        hdr.aeth.value = SYNDROME_ACK_NO_CREDITS[4:0];
        hdr.aeth.msn = 0;
        hdr.icrc.crc = 0;
        feedback_frame.apply(hdr, ACK_TTL, false);
    }
}

#endif  // ALFIRK_DATA_TO_ACK_P4
