// Feedback aggregation: merges the feedback of many receivers into the one stream that the sender's queue pair expects.
//
// A chain of steps, each of which uses the results of those before it. Each register array belongs to one step, which reads and
// writes it once per packet. On Tofino each step is a stage:
//
//   0          group_lookup.p4    group and path; ICRC of feedback
//   1          group_lookup.p4    member; entry half of the bridge
//   2          admission.p4       whether the packet is admitted; PSN that the path has acknowledged (sender.p4)
//   3          sender.p4          source and newest PSN sent; whether the packet is from the source
//   4          min_psn_tree.p4    update of the packet's own path
//   5 .. 9     min_psn_tree.p4    oldest word of all 32 paths, one level each; twice the paths need one stage more
//   10         last_acked.p4      PSN last acknowledged to the source; whether the minimum is newer
//   11         waiting_nak.p4     NAK that is pending until the minimum reaches it; final verdict on the packet
//
// The decisions of v1model/decide.p4 are distributed here, because there is no stage after the last one:
//
//   DATA       replicated by default; the last stage reverts that if all paths have it or it is not from the source
//   ACK, NAK   sent to the source by default; a mirror goes to the ingress port, where egress updates the registers of the
//              path (retransmission_filter.p4); the last stage drops the packet, but not the mirror
//   replies    mirrors, because no other packet can be truncated: the mirror session truncates them after the BTH
//
// Egress writes the feedback to the source (feedback.p4).
//
// Words of acknowledgements: an ACK of p is p ++ 0xff, a NAK of e is e ++ 0. In serial order a NAK of e follows an ACK of
// e - 1 and precedes an ACK of e, and neither needs a subtraction in the first stage.

#ifndef ALFIRK_ACK_AGGREGATE_P4
#define ALFIRK_ACK_AGGREGATE_P4

#include "sender.p4"
#include "min_psn_tree.p4"
#include "last_acked.p4"
#include "waiting_nak.p4"
#include "cnp_filter.p4"
#include "refusal_limit.p4"

// Routes a packet by the results of the previous stage: whether it is from the source, and what was sent (sender.p4).
control RouteBySender(inout ingress_metadata_t meta,
                      inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
                      inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
    // PRE group 0 means no replication.
    action replicate() {
        ig_tm_md.mcast_grp_a = meta.group_index + 1;
    }

    action source_sends() {
        meta.carried.is_source = 1;
        meta.carried.is_new = 1;
        ig_tm_md.mcast_grp_a = meta.group_index + 1;
    }

    action source_sends_again() {
        meta.carried.is_source = 1;
        ig_tm_md.mcast_grp_a = meta.group_index + 1;
    }

    // To the source, with a mirror to egress at the ingress port.
    action to_source() {
        @in_hash {
            ig_tm_md.ucast_egress_port = (PortId_t)meta.source;
        }
        meta.mirror_origin = Origin.RECORD;
        meta.mirror_session = meta.record_session;
        ig_dprsr_md.mirror_type = MIRROR_TO_ORIGIN;
    }

    // The controller gets the unmodified packet, whose source address identifies the member.
    action to_source_and_controller() {
        @in_hash {
            ig_tm_md.ucast_egress_port = (PortId_t)meta.source;
        }
        meta.carried.packet_in_reason = PacketInReason.FATAL_NAK;
        meta.mirror_origin = Origin.PACKET_IN;
        meta.mirror_session = SESSION_TO_CPU;
        ig_dprsr_md.mirror_type = MIRROR_TO_ORIGIN;
    }

    // A NAK of the next unsent PSN is an ACK of all that was sent, with the same word.
    action to_source_as_ack() {
        meta.carried.kind = Kind.ACK;
        @in_hash {
            ig_tm_md.ucast_egress_port = (PortId_t)meta.source;
        }
        meta.mirror_origin = Origin.RECORD;
        meta.mirror_session = meta.record_session;
        ig_dprsr_md.mirror_type = MIRROR_TO_ORIGIN;
    }

    action to_last_source() {
        @in_hash {
            ig_tm_md.ucast_egress_port = (PortId_t)meta.last_source;
        }
        meta.source_difference = meta.last_source ^ meta.port_word;
    }

    action compare_ports() {
        meta.source_difference = meta.last_source ^ meta.port_word;
    }

    action refuse(bit<8> reason) {
        meta.drop_reason = reason;
    }

    // A CNP before any data: there is no source.
    action no_source() {
        meta.drop_reason = Drop.NO_SOURCE;
        meta.source_difference = 1;
    }

    table route_by_sender {
        key = {
            meta.carried.kind: ternary;
            meta.is_caught_up: ternary;
            meta.is_beyond: ternary;
            meta.turn: ternary;
            meta.source: ternary;
            meta.last_source: ternary;
        }
        actions = {
            replicate;
            source_sends;
            source_sends_again;
            to_source;
            to_source_as_ack;
            to_source_and_controller;
            to_last_source;
            compare_ports;
            no_source;
            refuse;
            NoAction;
        }
        const default_action = NoAction();
        const entries = {
            (Kind.DATA, _, 1, _, _, _): compare_ports();
            (Kind.DATA, _, _, TURN_SOURCE_AND_PSN &&& TURN_SOURCE_AND_PSN, _, _): source_sends();
            (Kind.DATA, 1, _, TURN_PSN &&& TURN_PSN, _, _): source_sends();
            (Kind.DATA, _, _, TURN_SOURCE &&& TURN_SOURCE, _, _): source_sends_again();
            (Kind.DATA, _, _, _, _, _): replicate();
            (Kind.READ, _, _, _, _, _): compare_ports();
            (Kind.CNP, _, _, _, _, 0): no_source();
            (Kind.CNP, _, _, _, _, _): to_last_source();
            (Kind.ACK, _, _, _, 0, _): refuse(Drop.BEYOND_SENT);
            (Kind.ACK, _, _, _, _, _): to_source();
            (Kind.NAK, _, _, _, 0, _): refuse(Drop.BEYOND_SENT);
            (Kind.NAK, _, _, TURN_PSN &&& TURN_PSN, _, _): to_source_as_ack();
            (Kind.NAK, _, _, _, _, _): to_source();
            (Kind.FATAL_NAK, _, _, _, 0, _): refuse(Drop.BEYOND_SENT);
            (Kind.FATAL_NAK, _, _, _, _, _): to_source_and_controller();
        }
        size = 16;
    }

    apply {
        route_by_sender.apply();
    }
}

control AckAggregate(inout headers_t hdr, inout ingress_metadata_t meta,
                     inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
                     inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
    Sender() sender;
    RouteBySender() route_by_sender;
    TreeLeaves() leaves;
    MinPsnTree() tree;
    LastAcked() last_acked;
    CnpFilter() cnp_filter;
    RefusalLimit() refusal_limit;
    bit<1> is_limited = 0;

    action distance_of_data() {
        meta.distance = (bit<32>)(meta.carried.minimum - meta.psn);
        meta.minimum_psn = meta.carried.minimum & -PSN_WORD_ONE;
    }

    action distance_of_feedback() {
        meta.distance = (bit<32>)(meta.top - meta.carried.minimum);
        meta.minimum_psn = meta.carried.minimum & -PSN_WORD_ONE;
    }

    action distance_of_old_feedback() {
        meta.distance = (bit<32>)(meta.top - meta.carried.minimum);
        meta.minimum_psn = meta.carried.minimum & -PSN_WORD_ONE;
        meta.carried.is_old = 1;
    }

    table distances {
        key = {
            meta.carried.kind: ternary;
            meta.ahead: ternary;
        }
        actions = { distance_of_data; distance_of_feedback; distance_of_old_feedback; }
        const default_action = distance_of_old_feedback();
        const entries = {
            (Kind.DATA, _): distance_of_data();
            (Kind.READ, _): distance_of_data();
            (_, 0): distance_of_feedback();
        }
        size = 4;
    }

    // Window of CNPs (cnp_filter.p4); here, so that their count is a stage earlier.
    action set_cnp_window() {
        meta.cnp_window = meta.now[19:4];
    }

    action from_source() {
        meta.carried.is_source = 1;
    }

    action refuse(bit<8> reason) {
        meta.drop_reason = reason;
    }

    // Whether a request that a group cannot execute, a CNP, or data beyond the window is from the source's port. A CNP from it
    // would return to its sender (IBTA annex A17.9.3).
    table check_sender {
        key = {
            meta.carried.kind: ternary;
            is_limited: ternary;
            meta.is_beyond: ternary;
            meta.source_difference: ternary;
        }
        actions = { from_source; refuse; NoAction; }
        const default_action = NoAction();
        const entries = {
            (Kind.READ, 1, _, _): refuse(Drop.REFUSAL_LIMITED);
            (Kind.READ, _, _, 0): from_source();
            (Kind.CNP, _, _, 0): refuse(Drop.OWN_CNP);
            (Kind.DATA, _, 1, 0): refuse(Drop.BEYOND_WINDOW);
            (Kind.DATA, _, 1, _): refuse(Drop.NOT_THE_SOURCE);
        }
        size = 8;
    }

    apply {
        if (hdr.mr_info.isValid() && meta.region_crc != ICRC_RESIDUE) {
            // The ICRC of an announcement of a memory region is computed anew, so the received one must be valid.
            meta.drop_reason = Drop.DATA_ICRC;
        } else {
            sender.apply(hdr, meta);
            refusal_limit.apply(meta, is_limited);
            set_cnp_window();
            // Before a NAK may be turned into an ACK.
            leaves.apply(meta);
            route_by_sender.apply(meta, ig_dprsr_md, ig_tm_md);
            check_sender.apply();
            // No other condition may extend over several stages in parallel to this one: Tofino 1 takes one branch at a time.
            if (meta.in_tree == 1) {
                meta.ahead = (bit<32>)(meta.carried.word - meta.carried.minimum);
                tree.apply(meta);
                distances.apply();
                last_acked.apply(meta);
            } else if (meta.carried.kind == Kind.CNP && meta.drop_reason == Drop.NONE) {
                cnp_filter.apply(meta);
            }
        }
    }
}

#endif  // ALFIRK_ACK_AGGREGATE_P4
