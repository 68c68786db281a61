// Register access by PacketOut: the checks before, and the answer after.
//
//   PacketOut ──> CheckRegisterControl ──> ack_aggregate (ingress registers)
//                        ^                      │
//                        │                retransmission_filter, memory_regions (egress registers)
//                        └── recirculate <── AnswerRegisterControl ──> PacketIn
//
// INIT_GROUP sets four paths in each pass and recirculates until all are set, so
// one PacketOut makes a group's registers ready however many paths it has.

#ifndef ALFIRK_REGISTER_CONTROL_P4
#define ALFIRK_REGISTER_CONTROL_P4

control CheckRegisterControl(inout headers_t hdr) {
    apply {
        hdr.register_control.status = REGISTER_STATUS_OK;
        if (hdr.register_control.op != REGISTER_OP_INIT_GROUP
            && hdr.register_control.op != REGISTER_OP_READ
            && hdr.register_control.op != REGISTER_OP_WRITE) {
            hdr.register_control.status = REGISTER_STATUS_BAD_OP;
        } else if (hdr.register_control.op != REGISTER_OP_INIT_GROUP
                   && (hdr.register_control.reg < REGISTER_AGG
                       || hdr.register_control.reg > REGISTER_REGION_TOLD_AT)) {
            hdr.register_control.status = REGISTER_STATUS_BAD_REGISTER;
        } else if ((bit<32>)hdr.register_control.group >= MAX_GROUPS
                   || (bit<32>)hdr.register_control.index >= MAX_PATHS
                   || (hdr.register_control.op == REGISTER_OP_INIT_GROUP
                       && (bit<32>)hdr.register_control.count > MAX_PATHS)) {
            hdr.register_control.status = REGISTER_STATUS_OUT_OF_RANGE;
        }
    }
}

control AnswerRegisterControl(inout headers_t hdr) {
    bit<16> done;

    apply {
        done = hdr.register_control.index + 1;
        if (hdr.register_control.status == REGISTER_STATUS_OK
            && hdr.register_control.op == REGISTER_OP_INIT_GROUP
            && done < ((bit<16>)hdr.register_control.count + 3) >> 2) {
            hdr.register_control.index = done;
            recirculate_preserving_field_list(FIELD_LIST_CARRIED);
        } else {
            hdr.packet_out.setInvalid();
            hdr.packet_in.setValid();
            hdr.packet_in.reason = PACKET_IN_REGISTERS;
            hdr.packet_in.pad = 0;
            hdr.packet_in.ingress_port = CPU_PORT;
        }
    }
}

#endif  // ALFIRK_REGISTER_CONTROL_P4
