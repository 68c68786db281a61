// Register access by PacketOut: the checks before, each register's part, and the answer after.
//
//   PacketOut ──> CheckRegisterControl ──> ingress registers (RegisterAccess in each one's room)
//                        ^                      │
//                        │                egress registers (the same)
//                        └── recirculate <── AnswerRegisterControl ──> PacketIn
//
// INIT_GROUP sets one path in each pass and recirculates until all are set, so that no pass
// touches a register twice and one PacketOut makes a group's registers ready.

#ifndef ALFIRK_REGISTER_CONTROL_P4
#define ALFIRK_REGISTER_CONTROL_P4

control CheckRegisterControl(inout headers_t hdr, inout metadata_t meta) {
    apply {
        hdr.register_control.status = RegisterStatus.OK;
        if (hdr.register_control.op != RegisterOp.INIT_GROUP
            && hdr.register_control.op != RegisterOp.READ
            && hdr.register_control.op != RegisterOp.WRITE) {
            hdr.register_control.status = RegisterStatus.BAD_OP;
        } else if (hdr.register_control.op != RegisterOp.INIT_GROUP
                   && (hdr.register_control.reg < RegisterName.AGG
                       || hdr.register_control.reg > RegisterName.SENT)) {
            hdr.register_control.status = RegisterStatus.BAD_REGISTER;
        } else if ((bit<32>)hdr.register_control.group >= MAX_GROUPS
                   || (bit<32>)hdr.register_control.index >= MAX_PATHS
                   || (hdr.register_control.op == RegisterOp.INIT_GROUP
                       && (bit<32>)hdr.register_control.count > MAX_PATHS)) {
            hdr.register_control.status = RegisterStatus.OUT_OF_RANGE;
        } else {
            meta.kind = Kind.REGISTERS;
            meta.group_index = hdr.register_control.group;
            meta.path_index = hdr.register_control.index[7:0];
        }
    }
}

// What a register's room does for register control: `value`, as it was read, is answered, or becomes what is
// asked for. For INIT_GROUP it becomes `initial`.
control RegisterAccess(inout headers_t hdr, in bit<64> initial, inout bit<64> value)(bit<8> number) {
    apply {
        if (hdr.register_control.op == RegisterOp.INIT_GROUP) {
            value = initial;
        } else if (hdr.register_control.reg == number) {
            if (hdr.register_control.op == RegisterOp.WRITE) {
                value = hdr.register_control.value;
            } else {
                hdr.register_control.value = value;
            }
        }
    }
}

// The PSN before a group's first, for INIT_GROUP.
#define INITIAL_PSN(hdr) (hdr.register_control.value[23:0] - 1)
#define INITIAL_MSN(hdr) (hdr.register_control.value[47:24])

control AnswerRegisterControl(inout headers_t hdr) {
    bit<16> done;

    apply {
        done = hdr.register_control.index + 1;
        if (hdr.register_control.status == RegisterStatus.OK
            && hdr.register_control.op == RegisterOp.INIT_GROUP
            && done < (bit<16>)hdr.register_control.count) {
            hdr.register_control.index = done;
            recirculate_preserving_field_list(FIELD_LIST_CARRIED);
        } else {
            hdr.packet_out.setInvalid();
            hdr.packet_in.setValid();
            hdr.packet_in.reason = PacketInReason.REGISTERS;
            hdr.packet_in.pad = 0;
            hdr.packet_in.ingress_port = CPU_PORT;
        }
    }
}

#endif  // ALFIRK_REGISTER_CONTROL_P4
