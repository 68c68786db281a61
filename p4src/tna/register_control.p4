// Register access by PacketOut: one initialises a group's registers (INIT_GROUP), another clears announced memory regions
// (INIT_REGIONS). See v1model/register_control.p4.
//
//   PacketOut ──> CheckRegisterControl ──> registers of ingress ──> registers of egress ──> PacketIn
//                        ^                                                 │
//                        └───────────────── recirculation port <───────────┘  the next path
//
// INIT_GROUP sets one path per pass, and the group's own registers each time; INIT_REGIONS one receiver per pass. All other
// accesses use the driver, which can access every register array: a stateful ALU has four instructions, and the protocol
// needs most of them. The registers are set by the table of each step, because an array is in one stage and one table there
// accesses it (differences.md).

#ifndef ALFIRK_REGISTER_CONTROL_P4
#define ALFIRK_REGISTER_CONTROL_P4

control CheckRegisterControl(inout headers_t hdr, inout ingress_metadata_t meta,
                             inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
    // The reply is sent at once, although paths or receivers remain.
    action refuse(bit<8> status) {
        ig_tm_md.ucast_egress_port = CPU_PORT;
        hdr.register_control.status = status;
    }

    // `port`: the CPU port, or the recirculation port if paths remain.
    action init_group(port_t port) {
        ig_tm_md.ucast_egress_port = port;
        hdr.register_control.status = RegisterStatus.OK;
        meta.carried.is_new = 1;
        @in_hash {
            meta.carried.cell = hdr.register_control.group[15 - PATH_BITS:0]
                ++ hdr.register_control.index[PATH_BITS - 1:0];
        }
        meta.tie[7:0] = (bit<8>)hdr.register_control.index;
        meta.absent = (bit<PATH_BITS>)~8w0;
        meta.acked = meta.psn & -PSN_WORD_ONE;
        meta.psn = meta.psn & -PSN_WORD_ONE;
    }

    // Sets the port of the source; a separate action, because one table has at most 32 hash bits.
    action set_source() {
        @in_hash {
            meta.port_word = (bit<32>)hdr.register_control.value[63:48];
        }
    }

    // Advances the window of the source; the packet was created by egress (retransmission_filter.p4).
    action raise_window() {
        @in_hash {
            meta.carried.cell = hdr.register_control.group[15 - PATH_BITS:0] ++ (bit<PATH_BITS>)0;
        }
        meta.acked = meta.psn & -PSN_WORD_ONE;
    }

    // Announced memory regions are stored in egress (memory_regions.p4).
    action init_regions(port_t port) {
        ig_tm_md.ucast_egress_port = port;
        hdr.register_control.status = RegisterStatus.OK;
        meta.carried.is_source = 1;
    }

    // `count` is the number of remaining paths or receivers, including this one; 0 is the last one, too.
#define LAST_COUNT 0 &&& 0xfe

    table operations {
        key = {
            hdr.register_control.op: ternary;
            hdr.register_control.count: ternary;
            hdr.register_control.group[15:GROUP_BITS]: ternary @name("group_beyond");
            hdr.register_control.index[15:PATH_BITS]: ternary @name("index_beyond");
        }
        actions = { refuse; init_group; init_regions; raise_window; }
        const default_action = refuse(RegisterStatus.BAD_OP);
        const entries = {
            (REGISTER_OP_RAISE_WINDOW, _, _, _): raise_window();
            (RegisterOp.INIT_GROUP, LAST_COUNT, 0, 0): init_group(CPU_PORT);
            (RegisterOp.INIT_GROUP, _, 0, 0): init_group(RECIRCULATION_PORT);
            (RegisterOp.INIT_GROUP, _, _, _): refuse(RegisterStatus.OUT_OF_RANGE);
            (RegisterOp.INIT_REGIONS, LAST_COUNT, _, _): init_regions(CPU_PORT);
            (RegisterOp.INIT_REGIONS, _, _, _): init_regions(RECIRCULATION_PORT);
        }
        size = 8;
    }

    apply {
        set_source();
        operations.apply();
    }
}

control AnswerRegisterControl(inout headers_t hdr, in port_t egress_port) {
    apply {
        if (egress_port == RECIRCULATION_PORT) {
            hdr.register_control.index = hdr.register_control.index + 1;
            hdr.register_control.count = hdr.register_control.count - 1;
        } else {
            hdr.packet_out.setInvalid();
            hdr.packet_in.setValid();
            hdr.packet_in.reason = PacketInReason.REGISTERS;
            hdr.packet_in.pad = 0;
            hdr.packet_in.ingress_port = (port_id_t)CPU_PORT;
        }
    }
}

#endif  // ALFIRK_REGISTER_CONTROL_P4
