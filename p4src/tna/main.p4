// Alfirk's data plane for Tofino: reliable RDMA multicast on ordinary RC queue pairs.
//
// This file connects the controls. ../shared has all controls without target-specific externs; this folder has the others, with
// the same file names as for v1model. ack_aggregate.p4 is the start of the protocol rules, and lists the steps by stage.
// differences.md lists the differences from v1model, with the reason for each.
//
// One source for Tofino (bf-p4c --target tofino --arch tna) and Tofino 2 (--target tofino2 --arch t2na).

#include <core.p4>
#if __TARGET_TOFINO__ == 2
#include <t2na.p4>
#else
#include <tna.p4>
#endif

#include "externs.p4"
#include "../shared/constants.p4"
#include "../shared/headers.p4"
#include "../shared/ids.p4"
#include "../shared/kinds.p4"
#include "../shared/sizes.p4"
#include "../shared/types.p4"
#include "metadata.p4"
#include "parser.p4"
#define metadata_t ingress_metadata_t
#include "../shared/source_guard.p4"
#include "../shared/arp_responder.p4"
#include "../shared/datagram_multicast.p4"
#undef metadata_t
#include "ipv4_routing.p4"
#include "register_control.p4"
#include "group_lookup.p4"
#include "admission.p4"
#include "ack_aggregate.p4"
#include "punt_limit.p4"
#include "retransmission_filter.p4"
#include "../shared/feedback_frame.p4"
#include "source_tags.p4"
#include "feedback.p4"
#include "../shared/data_to_ack.p4"
#define metadata_t egress_metadata_t
#include "../shared/bridge_exit.p4"
#undef metadata_t
#include "memory_regions.p4"
#include "icrc.p4"
#include "ecn_marking.p4"

control ingress(inout headers_t hdr,
                inout ingress_metadata_t meta,
                in ingress_intrinsic_metadata_t ig_intr_md,
                in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,
                inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
                inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
    @id(COUNTER_ID_INGRESS_DROPS) Counter<bit<64>, bit<8>>(SIZE_DROP_REASONS, CounterType_t.PACKETS) drops;
    CheckRegisterControl() check_register_control;
    SourceGuard() source_guard;
    ArpResponder() arp_responder;
    DatagramMulticast() datagram_multicast;
    IcrcOfReceived() icrc_of_received;
    PacketWords() packet_words;
    GroupLookup() group_lookup;
    Admission() admission;
    AckAggregate() ack_aggregate;
    FinalVerdict() final_verdict;
    Ipv4Routing() ipv4_routing;
    bool is_of_group = false;
    bool is_admitted = false;
    bool is_mrp = false;

    // Mirror sessions to the ingress port. Those for replies truncate a packet after the BTH: carried_t (20 bytes), and 62 bytes of
    // frame with two tags. Without tags, some bytes of padding remain.
    action set_sessions(MirrorId_t record, MirrorId_t answer) {
        meta.record_session = record;
        meta.answer_session = answer;
    }

    table mirrors {
        key = { (port_id_t)meta.carried.ingress_port: exact @name("ingress_port"); }
        actions = { set_sessions; @defaultonly NoAction; }
        const default_action = NoAction();
        size = SIZE_PORTS;
    }

    action set_port_word() {
        @in_hash {
            meta.port_word = (bit<32>)meta.carried.ingress_port;
        }
    }

    action refuse(bit<8> reason) {
        meta.drop_reason = reason;
    }

    // A frame of the controller.
    action send() {
        ig_tm_md.ucast_egress_port = (port_t)hdr.packet_out.egress_port;
        hdr.packet_out.setInvalid();
    }

    action refuse_packet_out() {
        meta.drop_reason = Drop.BAD_CONTROL;
        hdr.packet_out.setInvalid();
    }

    action control_registers() {
        is_of_group = true;
    }

    action look_up_group() {}

    // Registration packets reach the controller unmodified, whether the group exists or not.
    action register_member() {
        is_mrp = true;
    }

    action reply_to_arp() {}

    // The class of a packet, determined by one table: each condition would be a logical table, of which a stage has 16.
    table classes {
        key = {
            ig_prsr_md.parser_err: ternary;
            meta.checksum_error: ternary;
            hdr.register_control.isValid(): ternary;
            hdr.packet_out.isValid(): ternary;
            hdr.packet_out.kind: ternary;
            hdr.ipv4.isValid(): ternary;
            hdr.udp.isValid(): ternary;
            hdr.udp.dst_port: ternary;
            hdr.arp.isValid(): ternary;
        }
        actions = {
            refuse;
            send;
            refuse_packet_out;
            control_registers;
            look_up_group;
            register_member;
            reply_to_arp;
        }
        const default_action = refuse(Drop.PARSER_ERROR);
        const entries = {
            (PARSER_ERROR_OK, 1, _, _, _, _, _, _, _): refuse(Drop.IPV4_CHECKSUM);
            (PARSER_ERROR_OK, _, true, _, _, _, _, _, _): control_registers();
            (PARSER_ERROR_OK, _, _, true, PacketOutKind.FORWARD, _, _, _, _): send();
            (PARSER_ERROR_OK, _, _, true, _, _, _, _, _): refuse_packet_out();
            (PARSER_ERROR_OK, _, _, _, _, true, true, UDP_PORT_MRP, _): register_member();
            (PARSER_ERROR_OK, _, _, _, _, true, _, _, _): look_up_group();
            (PARSER_ERROR_OK, _, _, _, _, _, _, _, true): reply_to_arp();
            (PARSER_ERROR_OK, _, _, _, _, _, _, _, _): refuse(Drop.UNKNOWN_ETHERTYPE);
        }
        size = 8;
    }

    action count_drop() {
        drops.count(meta.drop_reason);
    }

    // The packet is sent as a mirror, because only mirrors can be truncated; the original has no egress port.
    action send_to_controller() {
        meta.drop_reason = Drop.NONE;
        meta.carried.packet_in_reason = PacketInReason.MRP;
        meta.mirror_origin = Origin.PACKET_IN;
        meta.mirror_session = SESSION_OF_REGISTRATIONS;
        ig_dprsr_md.mirror_type = MIRROR_TO_ORIGIN;
    }

    apply {
        meta.now = ig_prsr_md.global_tstamp[47:16];
        meta.refusal_window = ig_prsr_md.global_tstamp[31:16] | 0x8000;
        mirrors.apply();
        icrc_of_received.apply(hdr, meta.crc);

        switch (classes.apply().action_run) {
            control_registers: {
                check_register_control.apply(hdr, meta, ig_tm_md);
            }
            look_up_group: {
                set_port_word();
                packet_words.apply(hdr, meta);
                group_lookup.apply(hdr, meta, is_of_group);
            }
            default: {}
        }
        if (is_of_group) {
            admission.apply(hdr, meta, is_admitted);
            // Before routing, so that both can be placed in the same stages.
            if (is_admitted) {
                ack_aggregate.apply(hdr, meta, ig_dprsr_md, ig_tm_md);
            }
        } else if (meta.drop_reason == Drop.NONE && (hdr.ipv4.isValid() || hdr.arp.isValid())) {
            meta.carried.kind = Kind.NONE;
            source_guard.apply(hdr, meta, meta.carried.ingress_port);
            if (meta.drop_reason == Drop.NONE) {
                if (hdr.arp.isValid()) {
                    arp_responder.apply(hdr, meta, meta.carried.ingress_port, ig_tm_md.ucast_egress_port);
                } else if (meta.is_multicast == 1) {
                    datagram_multicast.apply(hdr, meta, ig_tm_md.mcast_grp_a);
                    meta.carried.origin = Origin.DATAGRAM;
                } else {
                    ipv4_routing.apply(hdr, meta, ig_tm_md);
                    if (is_mrp && meta.drop_reason == Drop.NO_ROUTE) {
                        send_to_controller();
                    }
                }
            }
        }

        if (meta.drop_reason != Drop.NONE) {
            count_drop();
        }
        final_verdict.apply(meta, is_admitted, ig_dprsr_md);
    }
}

// A stateful ALU returns 32 bits, which change the address and the key (memory_regions.p4).
@pa_container_size("egress", "hdr.reth.va", 32)
@pa_container_size("egress", "hdr.reth.r_key", 32)
control egress(inout headers_t hdr,
               inout egress_metadata_t meta,
               in egress_intrinsic_metadata_t eg_intr_md,
               in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
               inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
               inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    @id(COUNTER_ID_EGRESS_DROPS) Counter<bit<64>, bit<8>>(SIZE_DROP_REASONS, CounterType_t.PACKETS) drops;
    CarriedWords() carried_words;
    RetransmissionFilter() retransmission_filter;
    PathMsn() path_msn;  // on Tofino 2, of paths with an even number
#if __TARGET_TOFINO__ != 1
    PathMsn() path_msn_odd;
#endif
    LastAckedMsn() last_acked_msn;
    WindowUpdate() window_update;
    FeedbackFrame() feedback_frame;
    SourceTags() source_tags;
    Feedback() feedback;
    DataToAck() data_to_ack;
    AnswerRegisterControl() answer_register_control;
    BridgeExit() bridge_exit;
    MemoryRegions() memory_regions;
    Icrc() icrc;
    EcnLookup() ecn_lookup;
    EcnMarking() ecn_marking;
    PuntLimit() punt_limit;

    bit<8> color = (bit<8>)MeterColor_t.GREEN;
    bit<8> is_marked;
    bool is_to_host = false;
    slot_t receiver = NO_SLOT;
    bool has_region = false;

    COMPARED(compare_ports, meta.port_difference, eg_intr_md.egress_port ^ meta.carried.ingress_port)
    COMPARED(compare_owners, meta.owner_difference, meta.region_owner ^ hdr.ipv4.dst)

    action select_region_of_control() {
        has_region = true;
        receiver = (slot_t)hdr.register_control.index;
    }

    action select_region() {
        has_region = true;
    }

    // Whether the packet accesses the memory region of a receiver. The keys are those that are known in early stages.
    table regions {
        key = {
            meta.carried.kind: ternary;
            meta.carried.is_source: ternary;
            is_to_host: ternary;
            hdr.reth.isValid(): ternary;
            receiver: ternary;
        }
        actions = { select_region_of_control; select_region; NoAction; }
        const default_action = NoAction();
        const entries = {
            (Kind.REGISTERS, 1, _, _, _): select_region_of_control();
            (_, _, true, true, NO_SLOT): NoAction();
            (_, _, true, true, _): select_region();
        }
        size = 4;
    }

    action drop(bit<8> reason) {
        drops.count(reason);
        eg_dprsr_md.drop_ctl = 1;
    }

    // All drops of egress, in one table at the end: conditions above would delay what follows them (ack_aggregate.p4).
    table verdicts {
        key = {
            meta.carried.origin: ternary;
            meta.carried.kind: ternary;
            meta.carried.is_new: ternary;
            meta.port_difference: ternary;
            meta.is_dropped: ternary;
            color: ternary;
        }
        actions = { drop; NoAction; }
        const default_action = NoAction();
        const entries = {
            (Origin.PACKET_IN, _, _, _, _, MeterColor_t.GREEN): NoAction();
            (Origin.PACKET_IN, _, _, _, _, _): drop(Drop.PUNT_LIMITED);
            (Origin.DATAGRAM, _, _, 0, _, _): drop(Drop.OWN_COPY);
            (Origin.RECORD, _, 0, _, _, _): drop(Drop.FEEDBACK_RECORDED);
            (Origin.SWITCHED, Kind.DATA, _, 0, _, _): drop(Drop.OWN_COPY);
            (Origin.SWITCHED, Kind.DATA, _, _, 1, _): drop(Drop.ALREADY_ACKED);
        }
        size = 8;
    }

    apply {
        compare_ports.apply();
        ecn_lookup.apply(eg_intr_md, is_marked);
        if (meta.carried.origin == Origin.ANSWER) {
            // The mirror is a copy of the received packet, before the entry half of the bridge.
            data_to_ack.apply(hdr);
        } else if (meta.carried.origin == Origin.SWITCHED && meta.carried.kind != Kind.NONE && hdr.aeth.isValid()) {
            // After this, only PSN and AETH are from a member's frame.
            feedback_frame.apply(hdr, FEEDBACK_TTL, false);
        } else if (meta.carried.origin == Origin.SWITCHED && meta.carried.kind == Kind.CNP) {
            feedback_frame.apply(hdr, FEEDBACK_TTL, true);
        }
        if (meta.carried.origin == Origin.PACKET_IN) {
            hdr.packet_in.setValid();
            hdr.packet_in.reason = meta.carried.packet_in_reason;
            hdr.packet_in.pad = 0;
            hdr.packet_in.ingress_port = (port_id_t)meta.carried.ingress_port;
            punt_limit.apply(meta, color);
        } else if (meta.carried.origin != Origin.DATAGRAM && meta.carried.kind != Kind.NONE) {
            carried_words.apply(hdr, meta, eg_intr_md.egress_rid);
            source_tags.apply(hdr, meta);
            retransmission_filter.apply(meta);
#if __TARGET_TOFINO__ == 1
            path_msn.apply(meta);
#else
            if (meta.msn_cell[0:0] == 0) {
                path_msn.apply(meta);
            } else {
                path_msn_odd.apply(meta);
            }
#endif
            last_acked_msn.apply(meta);
            if (meta.carried.origin == Origin.RECORD && meta.carried.is_new == 1) {
                window_update.apply(hdr, meta);
            }
            // Separate conditions, so that the content of feedback and its egress port are computed in parallel stages.
            if (hdr.aeth.isValid() && meta.carried.kind != Kind.REGISTERS) {
                feedback.apply(hdr, meta);
            }
            if (hdr.aeth.isValid()) {
                hdr.aeth.msn = (msn_t)((bit<32>)meta.msn)[31:8];
            }
            if (meta.carried.kind != Kind.REGISTERS) {
                bridge_exit.apply(hdr, meta, eg_intr_md.egress_port, is_to_host, receiver);
            }
            compare_owners.apply();
            regions.apply();
            memory_regions.apply(hdr, meta, receiver[GROUP_BITS + LOCAL_BITS - 1:0], has_region);
            if (meta.carried.kind == Kind.REGISTERS) {
                answer_register_control.apply(hdr, eg_intr_md.egress_port);
            } else if (hdr.icrc.isValid() && !hdr.mr_info.isValid()) {
                icrc.apply(hdr, meta);
            }
        }
        // After ../shared/feedback_frame.p4, which makes feedback incapable of ECN.
        ecn_marking.apply(hdr, is_marked);
        verdicts.apply();
    }
}

Pipeline(IngressParser(), ingress(), IngressDeparser(), EgressParser(), egress(), EgressDeparser()) pipe;

Switch(pipe) main;
