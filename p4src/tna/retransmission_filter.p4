// Egress registers of each path: its newest acknowledged PSN, for the retransmission filter, and its MSN, for the feedback to
// the source.
//
// See v1model/retransmission_filter.p4 for the reason of the copy in egress. Here a mirror of each ACK and NAK is sent to its
// ingress port, only to update these registers (record). Registers of egress belong to a pipe, so all ports of a
// group's tree must be in one pipe.
//
// The record of feedback that has advanced the minimum continues to ingress, to the source's window (source_window.p4).
//
// Feedback has the MSN of the path at the minimum. The MSN sent to the source never decreases: a path may report an old one if
// several members behind it were the source.

#ifndef ALFIRK_RETRANSMISSION_FILTER_P4
#define ALFIRK_RETRANSMISSION_FILTER_P4

// Computes the inputs of the controls below from the packet and its carried header, and the path whose registers are accessed.
control CarriedWords(inout headers_t hdr, inout egress_metadata_t meta, in bit<16> rid) {
    action of_new_copy() {
        meta.filter_cell = meta.carried.cell[15:PATH_BITS] ++ rid[PATH_BITS - 1:0];
        meta.record = meta.psn | 255;
        meta.psn = meta.psn & -PSN_WORD_ONE;
    }

    action of_copy() {
        of_new_copy();
        meta.access = Access.COPY;
    }

    action of_own_copy() {
        of_new_copy();
        meta.access = Access.OWN_COPY;
    }

    action of_own_new_copy() {
        of_new_copy();
        meta.access = Access.OWN_NEW_COPY;
    }

    action of_cnp() {
        meta.access = Access.CNP;
    }

    action of_record() {
        meta.filter_cell = meta.carried.cell;
        meta.msn_cell = meta.carried.cell;
        meta.record = meta.carried.word;
        meta.access = Access.RECORD;
    }

    // Old feedback: its MSN is old as well, and its slack cannot be compared with that of the newest one.
    action of_old_record() {
        meta.filter_cell = meta.carried.cell;
        meta.record = meta.carried.word;
        meta.access = Access.OLD_RECORD;
    }

    action of_registers() {
        meta.filter_cell = meta.carried.cell;
        meta.msn_cell = meta.carried.cell;
        meta.record = meta.carried.word;
        meta.access = Access.INIT;
    }

    action of_regions() {
        meta.psn = meta.psn & -PSN_WORD_ONE;
    }

    action own_msn() {
        meta.msn_cell = meta.carried.cell;
        meta.access = Access.OWN;
    }

    action msn_of_path() {
        @in_hash {
            meta.msn_cell = meta.carried.cell[15:PATH_BITS] ++ ((bit<32>)meta.carried.minimum)[PATH_BITS - 1:0];
        }
        meta.access = Access.PATH;
    }

    action msn_last_acked() {
        meta.access = Access.LAST_ACKED;
    }

    action msn_of_reply_path() {
        meta.msn_cell = meta.carried.cell;
        meta.access = Access.REPLY_PATH;
    }

    EGRESS_PRIORITY(10)
    table words {
        key = {
            meta.carried.origin: ternary;
            meta.carried.kind: ternary;
            meta.carried.is_source: ternary;
            meta.carried.is_new: ternary;
            meta.carried.is_old: ternary;
            meta.port_difference: ternary;
            meta.difference: ternary;
            ((bit<32>)meta.carried.minimum)[7:0]: ternary @name("holder");
        }
        actions = {
            of_new_copy;
            of_copy;
            of_own_copy;
            of_own_new_copy;
            of_cnp;
            of_record;
            of_old_record;
            of_registers;
            of_regions;
            own_msn;
            msn_of_path;
            msn_last_acked;
            msn_of_reply_path;
            NoAction;
        }
        const default_action = NoAction();
        const entries = {
            (Origin.RECORD, _, _, _, 1, _, _, _): of_old_record();
            (Origin.RECORD, _, _, _, _, _, _, _): of_record();
            (Origin.ANSWER, _, 0, _, _, _, _, _): msn_of_reply_path();
            (Origin.ANSWER, _, 1, _, _, _, _, PATH_OF_SENDER): msn_last_acked();
            (Origin.ANSWER, _, 1, _, _, _, _, _): msn_of_path();
            (_, Kind.REGISTERS, _, 1, _, _, _, _): of_registers();
            (_, Kind.REGISTERS, 1, _, _, _, _, _): of_regions();
            (_, Kind.DATA, _, 0, _, 0, _, _): of_own_copy();
            (_, Kind.DATA, _, 0, _, _, _, _): of_copy();
            (_, Kind.DATA, _, 1, _, 0, _, _): of_own_new_copy();
            (_, Kind.DATA, _, 1, _, _, _, _): of_new_copy();
            (_, Kind.CNP, _, _, _, _, _, _): of_cnp();
            (_, Kind.FATAL_NAK, _, _, _, _, _, _): msn_last_acked();
            (_, Kind.ACK, _, _, _, _, 0 &&& 0xffffff00, _): own_msn();
            (_, Kind.NAK, _, _, _, _, 0 &&& 0xffffff00, _): own_msn();
            (_, Kind.ACK, _, _, _, _, _, PATH_OF_SENDER): msn_last_acked();
            (_, Kind.NAK, _, _, _, _, _, PATH_OF_SENDER): msn_last_acked();
            (_, Kind.ACK, _, _, _, _, _, _): msn_of_path();
            (_, Kind.NAK, _, _, _, _, _, _): msn_of_path();
        }
        size = 32;
    }

    apply {
        meta.group_index = (group_t)CELL_GROUP(meta.carried.cell);
        meta.after_minimum = ((bit<32>)meta.carried.minimum)[31:8] + 1;
        meta.difference = (bit<32>)(meta.carried.word ^ meta.carried.minimum);
        meta.msn = meta.msn & -PSN_WORD_ONE;
        words.apply();
        meta.slack = meta.carried.word - meta.msn;
    }
}

// Turns a record into the packet that advances the source's window.
//
// Only the fields that ingress reads are set: one action cannot write both constants and a shifted PSN to one container.
control WindowUpdate(inout headers_t hdr, in egress_metadata_t meta) {
    action make() {
        hdr.packet_out.setValid();
        hdr.packet_out.kind = PacketOutKind.REGISTERS;
        hdr.packet_out.pad = 0;
        hdr.packet_out.egress_port = (port_id_t)0;
        hdr.register_control.setValid();
        hdr.register_control.op = REGISTER_OP_RAISE_WINDOW;
        hdr.register_control.group = meta.group_index;
        hdr.register_control.value[23:0] = ((bit<32>)meta.carried.minimum)[31:8];
    }

    apply {
        make();
    }
}

control RetransmissionFilter(inout egress_metadata_t meta) {
    Register<psn_word_t, cell_t>(SIZE_PATHS) acked;

    RegisterAction<psn_word_t, cell_t, bit<1>>(acked) raise = {
        void apply(inout psn_word_t value) {
            if (meta.record - value > 0) {
                value = meta.record;
            }
        }
    };
    RegisterAction<psn_word_t, cell_t, bit<1>>(acked) compare = {
        void apply(inout psn_word_t value, out bit<1> has) {
            if (value - meta.psn >= 0) {
                has = 1;
            } else {
                has = 0;
            }
        }
    };
    RegisterAction<psn_word_t, cell_t, bit<1>>(acked) set = {
        void apply(inout psn_word_t value) {
            value = meta.record;
        }
    };

    action raise_path() {
        raise.execute(meta.filter_cell);
    }

    action compare_path() {
        meta.is_dropped = compare.execute(meta.filter_cell);
    }

    action set_path() {
        set.execute(meta.filter_cell);
    }

    EGRESS_PRIORITY(5)
    table path {
        key = { meta.access: exact; }
        actions = { set_path; raise_path; compare_path; NoAction; }
        const default_action = NoAction();
        const entries = {
            Access.INIT: set_path();
            Access.RECORD: raise_path();
            Access.OLD_RECORD: raise_path();
            Access.COPY: compare_path();
            Access.OWN_NEW_COPY: raise_path();
        }
        size = 8;
    }

    apply {
        path.apply();
    }
}

// MSN of a path, and the PSN acknowledged with it minus the MSN.
struct path_msn_t {
    psn_word_t msn;
    psn_word_t slack;
}

// Cells of the register of one PathMsn, and the cell of a packet in it.
//
// The memory of a Tofino 2 stage has two halves, and a register is in one of them (p4c, Device::isMemoryCoreSplit): 65,536 cells
// of 8 bytes do not fit. Hence paths with an even and with an odd number have one PathMsn each there.
#if __TARGET_TOFINO__ == 1
typedef cell_t msn_cell_t;
const bit<32> SIZE_PATH_MSNS = SIZE_PATHS;
#define CELL_MSN(cell) cell
#else
typedef bit<15> msn_cell_t;
const bit<32> SIZE_PATH_MSNS = SIZE_PATHS >> 1;
#define CELL_MSN(cell) cell[15:1]
#endif

// `msn_cell`: path of a record; otherwise the path at the minimum, or that of a request with a reply.
//
// An MSN is a claim of one member. Each message has at least one packet, so the MSN increases by at most the number of newly
// acknowledged PSNs. Hence the slack, PSN - MSN, never decreases. An MSN that would decrease the slack, or that decreases itself,
// is ignored, and the last one is kept.
control PathMsn(inout egress_metadata_t meta) {
    Register<path_msn_t, msn_cell_t>(SIZE_PATH_MSNS) msns;

    RegisterAction<path_msn_t, msn_cell_t, psn_word_t>(msns) raise = {
        void apply(inout path_msn_t value, out psn_word_t msn) {
            if (meta.msn - value.msn > 0 && meta.slack - value.slack >= 0) {
                value.msn = meta.msn;
                value.slack = meta.slack;
            }
            msn = value.msn;
        }
    };
    RegisterAction<path_msn_t, msn_cell_t, psn_word_t>(msns) set = {
        void apply(inout path_msn_t value) {
            value.msn = meta.msn;
            value.slack = meta.slack;
        }
    };
    RegisterAction<path_msn_t, msn_cell_t, psn_word_t>(msns) read = {
        void apply(inout path_msn_t value, out psn_word_t msn) {
            msn = value.msn;
        }
    };

    action raise_msn() {
        meta.msn = raise.execute(CELL_MSN(meta.msn_cell));
    }

    action set_msn() {
        set.execute(CELL_MSN(meta.msn_cell));
    }

    action read_msn() {
        meta.msn = read.execute(CELL_MSN(meta.msn_cell));
    }

    table msn {
        key = { meta.access: exact; }
        actions = { raise_msn; set_msn; read_msn; NoAction; }
        const default_action = NoAction();
        const entries = {
            Access.RECORD: raise_msn();
            Access.OWN: raise_msn();
            Access.INIT: set_msn();
            Access.PATH: read_msn();
            Access.REPLY_PATH: read_msn();
        }
        size = 8;
    }

    apply {
        msn.apply();
    }
}

control LastAckedMsn(inout egress_metadata_t meta) {
    Register<psn_word_t, group_cell_t>(MAX_GROUPS) msns;

    RegisterAction<psn_word_t, group_cell_t, psn_word_t>(msns) raise = {
        void apply(inout psn_word_t value, out psn_word_t msn) {
            if (meta.msn - value > 0) {
                value = meta.msn;
            }
            msn = value;
        }
    };
    RegisterAction<psn_word_t, group_cell_t, psn_word_t>(msns) read = {
        void apply(inout psn_word_t value, out psn_word_t msn) {
            msn = value;
        }
    };
    RegisterAction<psn_word_t, group_cell_t, psn_word_t>(msns) set = {
        void apply(inout psn_word_t value) {
            value = meta.msn;
        }
    };

    action raise_last_acked() {
        meta.msn = raise.execute(CELL_GROUP(meta.carried.cell));
    }

    action read_last_acked() {
        meta.msn = read.execute(CELL_GROUP(meta.carried.cell));
    }

    action set_last_acked() {
        set.execute(CELL_GROUP(meta.carried.cell));
    }

    table last_acked {
        key = { meta.access: exact; }
        actions = { set_last_acked; read_last_acked; raise_last_acked; NoAction; }
        const default_action = NoAction();
        const entries = {
            Access.INIT: set_last_acked();
            Access.LAST_ACKED: read_last_acked();
            Access.OWN: raise_last_acked();
            Access.PATH: raise_last_acked();
        }
        size = 8;
    }

    apply {
        last_acked.apply();
    }
}

#endif  // ALFIRK_RETRANSMISSION_FILTER_P4
