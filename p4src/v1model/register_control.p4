// Register access of the controller by PacketOut: one control in each pipeline, which contains only the layout of the registers
// (registers.p4), and no rule of the protocol.
//
//   PacketOut ──> CheckRegisterControl ──> IngressRegisters
//                        ^                      │
//                        └── recirculate <── EgressRegisters ──> PacketIn
//
// INIT_GROUP initialises one path per pass and recirculates until all are done. So it accesses no register twice in a
// pass, and one PacketOut initialises all registers of a group.

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

// Writes a cell, or reads it into `value` by way of the variable `known`.
#define ACCESS(array, cell, known, written) \
    if (is_write) { \
        array.write(cell, written); \
    } else { \
        array.read(known, cell); \
        value = (bit<64>)known; \
    }

// Registers of ingress: those of a group, and of one of its paths. READ and WRITE access one of them, INIT_GROUP all.
//
// `op` and `word`: operation on the tree of minima that must follow; the registers of its inner nodes belong to its levels
// (min_psn_tree.p4).
control IngressRegisters(inout headers_t hdr, inout metadata_t meta, out TreeOp op, out word_t word) {
    bit<32> group;
    bit<32> path;
    bit<64> value;
    bool is_write;
    psn_t psn;
    bit<32> nak;
    bit<40> sender;
    bit<48> position;
    bit<64> walk;

    apply {
        group = (bit<32>)meta.group_index;
        path = (group << PATH_BITS) | (bit<32>)meta.path_index;
        value = hdr.register_control.value;
        is_write = hdr.register_control.op == RegisterOp.WRITE;
        op = TreeOp.NONE;
        word = 0;
        if (hdr.register_control.op == RegisterOp.INIT_GROUP) {
            psn = value[23:0] - 1;
            claimed_psns.write(path, psn);
            senders.write(group, 16w0 ++ psn);
            walks.write(group, 32w0 ++ PATH_NONE ++ psn);
            msn_bases.write(group, psn);
            last_positions.write(group, psn ++ value[47:24]);
            pending_naks.write(group, 0);
            data_tags.write(group, 0);
            op = TreeOp.INIT;
            word = psn ++ 8w0 ++ value[39:24];
        } else if (hdr.register_control.reg == RegisterName.AGG) {
            ACCESS(last_positions, group, position, value[47:0])
            if (is_write) {
                // The MSN is only a lower bound (last_acked.p4).
                msn_bases.write(group, value[47:24] - UNKNOWN_MSN_ROOM);
                walks.read(walk, group);
                walks.write(group, walk[63:24] ++ value[47:24]);
            }
        } else if (hdr.register_control.reg == RegisterName.NAK) {
            ACCESS(pending_naks, group, nak, value[31:0])
        } else if (hdr.register_control.reg == RegisterName.SRC_PORT) {
            senders.read(sender, group);
            if (is_write) {
                senders.write(group, value[15:0] ++ sender[23:0]);
            } else {
                value = (bit<64>)sender[39:24];
            }
        } else if (hdr.register_control.reg == RegisterName.SENT) {
            senders.read(sender, group);
            if (is_write) {
                senders.write(group, sender[39:24] ++ value[23:0]);
            } else {
                value = (bit<64>)sender[23:0];
            }
        } else if (hdr.register_control.reg == RegisterName.CLAIMED) {
            claimed_psns.read(psn, path);
            value = (bit<64>)psn;
        } else if (hdr.register_control.reg == RegisterName.ACK) {
            OWN_LEAF(meta.path_index, read(word, path >> 2))
            if (is_write) {
                claimed_psns.write(path, value[31:8]);
                word = value[31:0] ++ WORD_MSN(word);
                OWN_LEAF(meta.path_index, write(path >> 2, word))
                op = TreeOp.FORCE;
                meta.absent = value[47:32];
            } else {
                value = (bit<64>)word[47:16];
            }
        } else if (hdr.register_control.reg == RegisterName.MSN) {
            OWN_LEAF(meta.path_index, read(word, path >> 2))
            if (is_write) {
                word = word[47:16] ++ value[15:0];
                OWN_LEAF(meta.path_index, write(path >> 2, word))
            } else {
                value = (bit<64>)WORD_MSN(word);
            }
        }
        hdr.register_control.value = value;
    }
}

// Registers of egress, then the reply, or the next pass of an initialisation.
control EgressRegisters(inout headers_t hdr, in metadata_t meta) {
    bit<32> cell;
    bit<64> value;
    bool is_write;
    psn_t psn;
    bit<64> va;
    bit<32> rkey;
    bit<32> neutral;
    bit<16> next;
    bool is_more;

    apply {
        value = hdr.register_control.value;
        is_write = hdr.register_control.op == RegisterOp.WRITE;
        if (meta.kind == Kind.REGISTERS) {
            cell = ((bit<32>)meta.group_index << PATH_BITS) | (bit<32>)meta.path_index;
            if (hdr.register_control.op == RegisterOp.INIT_GROUP) {
                filter_psns.write(cell, value[23:0] - 1);
            } else if (hdr.register_control.reg == RegisterName.FILTER) {
                ACCESS(filter_psns, cell, psn, value[23:0])
            }
        } else if (meta.is_of_receivers == 1) {
            cell = REGISTER_SLOT(hdr);
            if (hdr.register_control.op == RegisterOp.INIT_REGIONS) {
                region_va.write(cell, 0);
                region_rkey.write(cell, 0);
                region_neutral.write(cell, 0);
                region_announced_at.write(cell, value[23:0] - 1);
            } else if (hdr.register_control.reg == RegisterName.REGION_VA) {
                ACCESS(region_va, cell, va, value)
            } else if (hdr.register_control.reg == RegisterName.REGION_ANNOUNCED_AT) {
                ACCESS(region_announced_at, cell, psn, value[23:0])
            } else if (is_write) {
                region_rkey.write(cell, value[63:32]);
                region_neutral.write(cell, value[31:0]);
            } else {
                region_rkey.read(rkey, cell);
                region_neutral.read(neutral, cell);
                value = rkey ++ neutral;
            }
        }
        hdr.register_control.value = value;

        // Last, because it increments the index of the cell.
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

#undef ACCESS

#endif  // ALFIRK_REGISTER_CONTROL_P4
