// Register access by PacketOut: checks, access to each register, and reply.
//
//   PacketOut ──> CheckRegisterControl ──> ingress registers (RegisterAccess in the control of each)
//                        ^                      │
//                        │                egress registers (the same)
//                        └── recirculate <── AnswerRegisterControl ──> PacketIn
//
// INIT_GROUP initialises one path per pass and recirculates until all are done. So no pass accesses a register
// twice, and one PacketOut initialises all registers of a group.

#ifndef ALFIRK_REGISTER_CONTROL_P4
#define ALFIRK_REGISTER_CONTROL_P4

// Whether the access is to cells indexed by receivers of this switch.
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
                // Not a register of a group, so group processing is skipped.
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

// Register access of one register: on a read, `value` is copied to the reply; on a write, it becomes the value of the
// request; on the initialisation, it becomes `initial`.
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

// PSN before a group's first one, for INIT_GROUP.
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
