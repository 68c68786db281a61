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

    action count_drop() {
        drops.count(meta.drop_reason);
    }

    apply {
        meta.now = ig_prsr_md.global_tstamp[47:16];
        meta.refusal_window = ig_prsr_md.global_tstamp[31:16] | 0x8000;
        set_port_word();
        mirrors.apply();

        if (ig_prsr_md.parser_err != PARSER_ERROR_OK) {
            meta.drop_reason = Drop.PARSER_ERROR;
        } else if (meta.checksum_error == 1) {
            meta.drop_reason = Drop.IPV4_CHECKSUM;
        } else if (hdr.packet_out.isValid() && !hdr.register_control.isValid()) {
            ig_tm_md.ucast_egress_port = (port_t)hdr.packet_out.egress_port;
            if (hdr.packet_out.kind != PacketOutKind.FORWARD) {
                meta.drop_reason = Drop.BAD_CONTROL;
            }
            hdr.packet_out.setInvalid();
        } else {
            if (hdr.register_control.isValid()) {
                is_of_group = true;
                check_register_control.apply(hdr, meta, ig_tm_md);
            } else if (hdr.ipv4.isValid()) {
                packet_words.apply(hdr, meta);
                // Registration packets reach the controller unmodified, whether the group exists or not.
                if (hdr.udp.isValid() && hdr.udp.dst_port == UDP_PORT_MRP) {
                    is_mrp = true;
                } else {
                    group_lookup.apply(hdr, meta, is_of_group);
                }
            }
            if (is_of_group) {
                admission.apply(hdr, meta, is_admitted);
                // Before routing, so that both can be placed in the same stages.
                if (is_admitted) {
                    ack_aggregate.apply(hdr, meta, ig_dprsr_md, ig_tm_md);
                }
            } else if (hdr.ipv4.isValid() || hdr.arp.isValid()) {
                meta.carried.kind = Kind.NONE;
                source_guard.apply(hdr, meta, meta.carried.ingress_port);
                if (meta.drop_reason != Drop.NONE) {
                    is_mrp = false;
                } else if (hdr.arp.isValid()) {
                    arp_responder.apply(hdr, meta, meta.carried.ingress_port, ig_tm_md.ucast_egress_port);
                } else if (meta.is_multicast == 1) {
                    datagram_multicast.apply(hdr, meta, ig_tm_md.mcast_grp_a);
                    meta.carried.origin = Origin.DATAGRAM;
                    is_mrp = false;
                } else {
                    ipv4_routing.apply(hdr, meta, ig_tm_md);
                    if (meta.drop_reason != Drop.NO_ROUTE) {
                        is_mrp = false;
                    }
                }
                if (is_mrp) {
                    // The packet is sent as a mirror, because only mirrors can be truncated; the original has no egress port.
                    meta.drop_reason = Drop.NONE;
                    meta.carried.packet_in_reason = PacketInReason.MRP;
                    meta.mirror_origin = Origin.PACKET_IN;
                    meta.mirror_session = SESSION_OF_REGISTRATIONS;
                    ig_dprsr_md.mirror_type = MIRROR_TO_ORIGIN;
                }
            } else {
                meta.drop_reason = Drop.UNKNOWN_ETHERTYPE;
            }
        }

        if (meta.drop_reason != Drop.NONE) {
            count_drop();
        }
        final_verdict.apply(meta, is_admitted, ig_dprsr_md);
    }
}

control egress(inout headers_t hdr,
               inout egress_metadata_t meta,
               in egress_intrinsic_metadata_t eg_intr_md,
               in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
               inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
               inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    @id(COUNTER_ID_EGRESS_DROPS) Counter<bit<64>, bit<8>>(SIZE_DROP_REASONS, CounterType_t.PACKETS) drops;
    CarriedWords() carried_words;
    RetransmissionFilter() retransmission_filter;
    PathMsn() path_msn;
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
    EcnMarking() ecn_marking;
    PuntLimit() punt_limit;

    bool is_own_copy = false;
    bool is_to_host = false;
    slot_t receiver = NO_SLOT;
    bool has_region = false;

    COMPARED(compare_ports, meta.port_difference, eg_intr_md.egress_port ^ meta.carried.ingress_port)
    COMPARED(compare_owners, meta.owner_difference, meta.region_owner ^ hdr.ipv4.dst)

    action count_drop() {
        drops.count(meta.drop_reason);
        eg_dprsr_md.drop_ctl = 1;
    }

    apply {
        compare_ports.apply();
        if (meta.port_difference == 0) {
            is_own_copy = true;
        }
        if (meta.carried.origin == Origin.ANSWER) {
            // The mirror is a copy of the received packet, before the entry half of the bridge.
            data_to_ack.apply(hdr);
        } else if (meta.carried.origin == Origin.SWITCHED && meta.carried.kind != Kind.NONE
                   && (hdr.aeth.isValid() || hdr.cnp.isValid())) {
            // After this, only PSN and AETH are from a member's frame.
            feedback_frame.apply(hdr, FEEDBACK_TTL);
        }
        ecn_marking.apply(hdr, eg_intr_md);
        if (meta.carried.origin == Origin.PACKET_IN) {
            hdr.packet_in.setValid();
            hdr.packet_in.reason = meta.carried.packet_in_reason;
            hdr.packet_in.pad = 0;
            hdr.packet_in.ingress_port = (port_id_t)meta.carried.ingress_port;
            punt_limit.apply(meta);
        } else if (meta.carried.origin == Origin.DATAGRAM) {
            if (is_own_copy) {
                meta.drop_reason = Drop.OWN_COPY;
            }
        } else if (meta.carried.kind != Kind.NONE) {
            carried_words.apply(hdr, meta, eg_intr_md.egress_rid);
            source_tags.apply(hdr, meta);
            retransmission_filter.apply(hdr, meta, is_own_copy);
            path_msn.apply(meta);
            last_acked_msn.apply(meta);
            if (meta.carried.origin == Origin.RECORD && meta.carried.is_new == 1) {
                window_update.apply(hdr, meta);
            } else if (meta.carried.origin == Origin.RECORD) {
                meta.drop_reason = Drop.FEEDBACK_RECORDED;
            } else if (meta.carried.kind == Kind.DATA && meta.carried.origin == Origin.SWITCHED) {
                if (is_own_copy) {
                    meta.drop_reason = Drop.OWN_COPY;
                } else if (meta.is_dropped == 1) {
                    meta.drop_reason = Drop.ALREADY_ACKED;
                }
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
            if (meta.carried.kind == Kind.REGISTERS && hdr.register_control.op == RegisterOp.INIT_REGIONS) {
                has_region = true;
                receiver = (slot_t)hdr.register_control.index;
                meta.psn = meta.psn & -PSN_WORD_ONE;
            } else if (is_to_host && hdr.reth.isValid() && receiver != NO_SLOT) {
                has_region = true;
            }
            if (hdr.mr_info.isValid()) {
                compare_owners.apply();
            }
            memory_regions.apply(hdr, meta, receiver[GROUP_BITS + LOCAL_BITS - 1:0], has_region);
            if (meta.carried.kind == Kind.REGISTERS) {
                answer_register_control.apply(hdr, eg_intr_md.egress_port);
            } else if (hdr.icrc.isValid() && !hdr.mr_info.isValid()) {
                icrc.apply(hdr, meta);
            }
        }
        if (meta.drop_reason != Drop.NONE) {
            count_drop();
        }
    }
}

Pipeline(IngressParser(), ingress(), IngressDeparser(), EgressParser(), egress(), EgressDeparser()) pipe;

Switch(pipe) main;
