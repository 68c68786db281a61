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

// Whether it is about cells that receivers of this switch have, and which is the first.
#define IS_OF_RECEIVERS(hdr) \
    (hdr.register_control.op == RegisterOp.INIT_REGIONS \
     || (hdr.register_control.op != RegisterOp.INIT_GROUP \
         && hdr.register_control.reg >= RegisterName.REGION_VA && hdr.register_control.reg <= RegisterName.REGION_ANNOUNCED_AT))
#define REGISTER_SLOT(hdr) (hdr.register_control.group ++ hdr.register_control.index)

control CheckRegisterControl(inout headers_t hdr, inout metadata_t meta) {
    apply {
        hdr.register_control.status = RegisterStatus.OK;
        if (hdr.register_control.op != RegisterOp.INIT_GROUP
            && hdr.register_control.op != RegisterOp.READ
            && hdr.register_control.op != RegisterOp.WRITE
            && hdr.register_control.op != RegisterOp.INIT_REGIONS) {
            hdr.register_control.status = RegisterStatus.BAD_OP;
        } else if ((hdr.register_control.op == RegisterOp.READ || hdr.register_control.op == RegisterOp.WRITE)
                   && (hdr.register_control.reg < RegisterName.AGG
                       || hdr.register_control.reg > RegisterName.CLAIMED
                       || (hdr.register_control.reg == RegisterName.CLAIMED
                           && hdr.register_control.op == RegisterOp.WRITE))) {
            hdr.register_control.status = RegisterStatus.BAD_REGISTER;
        } else if (IS_OF_RECEIVERS(hdr)) {
            if (REGISTER_SLOT(hdr) >= SIZE_RECEIVERS) {
                hdr.register_control.status = RegisterStatus.OUT_OF_RANGE;
            } else {
                // No group's: what is a group's is passed by.
                meta.is_of_receivers = 1;
            }
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
// asked for. For the operation that makes such registers ready it becomes `initial`.
control RegisterAccess(inout headers_t hdr, in bit<64> initial, inout bit<64> value)(bit<8> number, bit<8> init) {
    apply {
        if (hdr.register_control.op == init) {
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
    bit<16> next;
    bool is_more;

    apply {
        next = hdr.register_control.index + 1;
        is_more = false;
        if (hdr.register_control.status == RegisterStatus.OK) {
            if (hdr.register_control.op == RegisterOp.INIT_GROUP) {
                is_more = next < (bit<16>)hdr.register_control.count;
            } else if (hdr.register_control.op == RegisterOp.INIT_REGIONS && hdr.register_control.count > 1) {
                is_more = true;
                hdr.register_control.count = hdr.register_control.count - 1;
                if (next == 0) {
                    hdr.register_control.group = hdr.register_control.group + 1;
                }
            }
        }
        if (is_more) {
            hdr.register_control.index = next;
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
