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

#include "tree_leaves.p4"

control CheckRegisterControl(inout headers_t hdr, inout metadata_t meta) {
    CheckRegionControl() check_region_control;
    bool is_of_receivers;

    apply {
        hdr.register_control.status = RegisterStatus.OK;
        check_region_control.apply(hdr, meta, is_of_receivers);
        if (is_of_receivers) {
            // Not a register of a group, so group processing is skipped.
        } else if (hdr.register_control.op != RegisterOp.INIT_GROUP
                   && hdr.register_control.op != RegisterOp.READ
                   && hdr.register_control.op != RegisterOp.WRITE) {
            hdr.register_control.status = RegisterStatus.BAD_OP;
        } else if (hdr.register_control.op != RegisterOp.INIT_GROUP
                   && (hdr.register_control.reg < RegisterName.AGG
                       || hdr.register_control.reg > RegisterName.CLAIMED
                       || (hdr.register_control.reg >= RegisterName.REGION_VA
                           && hdr.register_control.reg <= RegisterName.REGION_ANNOUNCED_AT)
                       || (hdr.register_control.reg == RegisterName.CLAIMED
                           && hdr.register_control.op == RegisterOp.WRITE))) {
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
    OptionalRegisters() optional_registers;
    bit<32> group;
    bit<32> path;
    bit<64> value;
    bool is_write;
    psn_t psn;
    bit<32> nak;
    bit<40> sender;
    bit<48> position;
    bit<32> node;
    path_t first;

    apply {
        group = (bit<32>)meta.group_index;
        path = (group << PATH_BITS) | (bit<32>)meta.path_index;
        value = hdr.register_control.value;
        is_write = hdr.register_control.op == RegisterOp.WRITE;
        op = TreeOp.NONE;
        word = 0;
        optional_registers.apply(hdr);
        if (hdr.register_control.op == RegisterOp.INIT_GROUP) {
            psn = value[23:0] - 1;
            claimed_psns.write(path, psn);
            senders.write(group, 16w0 ++ psn);
            msn_bases.write(group, psn);
            last_positions.write(group, psn ++ value[47:24]);
            pending_naks.write(group, 0);
            node = LEAF_NODE(group, meta.path_index);
            first = meta.path_index[7:2] ++ 2w0;
            leaf_0.write(node, psn ++ first ++ value[39:24]);
            leaf_1.write(node, psn ++ (first | 1) ++ value[39:24]);
            leaf_2.write(node, psn ++ (first | 2) ++ value[39:24]);
            leaf_3.write(node, psn ++ (first | 3) ++ value[39:24]);
            op = TreeOp.INIT;
            word = psn ++ 8w0 ++ value[39:24];
        } else if (hdr.register_control.reg == RegisterName.AGG) {
            ACCESS(last_positions, group, position, value[47:0])
            if (is_write) {
                // The MSN is only a lower bound (last_acked.p4).
                msn_bases.write(group, value[47:24] - UNKNOWN_MSN_ROOM);
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
    RegionRegisters() region_registers;
    bit<32> cell;
    bit<64> value;
    bool is_write;
    psn_t psn;
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
        }
        hdr.register_control.value = value;

        // Last, because it increments the index of the cell.
        next = hdr.register_control.index + 1;
        is_more = hdr.register_control.status == RegisterStatus.OK && hdr.register_control.op == RegisterOp.INIT_GROUP
            && next < (bit<16>)hdr.register_control.count;
        region_registers.apply(hdr, meta, is_more);
        if (is_more) {
            hdr.register_control.index = next;
            recirculate_preserving_field_list(FIELD_LIST_CARRIED);
        } else {
            hdr.packet_out.setInvalid();
            hdr.packet_in.setValid();
            hdr.packet_in.reason = PacketInReason.REGISTERS;
            hdr.packet_in.pad = 0;
            hdr.packet_in.ingress_port = (port_id_t)CPU_PORT;
        }
    }
}

#undef ACCESS

#endif  // ALFIRK_REGISTER_CONTROL_P4
