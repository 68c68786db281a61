// Many receivers' feedback becomes the one stream that the sender's queue pair expects.
//
// A chain: each step knows what the ones before it have found, and none goes back. Each register array belongs to
// one step, which reads, changes and writes it once per packet. On Tofino each step is a stage:
//
//   0          group_lookup.p4    which group, which path; the feedback's ICRC
//   1          group_lookup.p4    which member; the bridge's entry
//   2          admission.p4       is the packet let in? what the path has acknowledged (sender.p4)
//   3          sender.p4          who is the source, what has it sent; does this count?
//   4          min_psn_tree.p4    the packet's own path rises
//   5 .. 9     min_psn_tree.p4    the oldest word of all 32 paths, one level each; each doubling is a stage more
//   10         last_acked.p4            what was last acknowledged to the source: is the minimum newer?
//   11         waiting_nak.p4     the NAK that waits for the minimum; what becomes of the packet
//
// What shared/decide.p4 decides in one place is divided here, for there is no stage behind the last one:
//
//   DATA       replicated from the start; the last stage takes that back, if all have it or it is not the source's
//   ACK, NAK   to the source from the start; a mirror goes out through the port it came from, where the registers of its
//              path in egress take note of it (retransmission_filter.p4); the last stage drops the packet, not the mirror
//   answers    a mirror, because no other packet can be cut: its session ends it behind the BTH
//
// and egress fills in what the source is sent (feedback.p4).
//
// Words of acknowledgements: an ACK of p is p ++ 0xff, a NAK of e is e ++ 0: it comes after an ACK of e - 1 and before
// one of e, and neither needs a subtraction in the first stage.

#ifndef ALFIRK_ACK_AGGREGATE_P4
#define ALFIRK_ACK_AGGREGATE_P4

#include "sender.p4"
#include "min_psn_tree.p4"
#include "last_acked.p4"
#include "waiting_nak.p4"
#include "cnp_filter.p4"
#include "refusal_limit.p4"

// What the registers of the last stage say of the packet (sender.p4).
control RouteBySender(inout ingress_metadata_t meta,
                 inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
                 inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
    // PRE group 0 means none.
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

    // To the source, and to egress at the port that it came from.
    action to_source() {
        @in_hash {
            ig_tm_md.ucast_egress_port = (PortId_t)meta.source;
        }
        meta.mirror_origin = Origin.RECORD;
        meta.mirror_session = meta.record_session;
        ig_dprsr_md.mirror_type = MIRROR_TO_ORIGIN;
    }

    // The controller gets it as it came: by its source address it knows the member.
    action to_source_and_controller() {
        @in_hash {
            ig_tm_md.ucast_egress_port = (PortId_t)meta.source;
        }
        meta.carried.packet_in_reason = PacketInReason.FATAL_NAK;
        meta.mirror_origin = Origin.RECORD;
        meta.mirror_session = SESSION_TO_CPU;
        ig_dprsr_md.mirror_type = MIRROR_TO_ORIGIN;
    }

    // A NAK of what comes next: an ACK of what was sent. Its words are the same.
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

    // A CNP before any data: from no source's port.
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

    // The word of a NAK gets its tie only here.
    action tie_nak() {
        meta.carried.word[7:0] = meta.tie;
    }

    action distance_of_data() {
        meta.distance = (bit<32>)(meta.carried.minimum - meta.psn);
        meta.minimum_psn = meta.carried.minimum & -PSN_WORD_ONE;
    }

    action distance_of_feedback() {
        meta.distance = (bit<32>)(meta.top - meta.carried.minimum);
        meta.minimum_psn = meta.carried.minimum & -PSN_WORD_ONE;
    }

    action from_source() {
        meta.carried.is_source = 1;
    }

    action refuse(bit<8> reason) {
        meta.drop_reason = reason;
    }

    // Does a request that no group can answer, a CNP, or data beyond the window come from the source's port? A CNP would go back to it
    // (IBTA annex A17.9.3).
    table asker {
        key = {
            meta.carried.kind: ternary;
            meta.is_beyond: ternary;
            meta.source_difference: ternary;
        }
        actions = { from_source; refuse; NoAction; }
        const default_action = NoAction();
        const entries = {
            (Kind.READ, _, 0): from_source();
            (Kind.CNP, _, 0): refuse(Drop.OWN_CNP);
            (Kind.DATA, 1, 0): refuse(Drop.BEYOND_WINDOW);
            (Kind.DATA, 1, _): refuse(Drop.NOT_THE_SOURCE);
        }
        size = 4;
    }

    apply {
        if (hdr.mr_info.isValid() && meta.region_crc != ICRC_RESIDUE) {
            // What announces a memory region gets an ICRC of its own, so the one that came must be right.
            meta.drop_reason = Drop.DATA_ICRC;
        } else {
            sender.apply(hdr, meta);
            if (meta.carried.kind == Kind.NAK || meta.carried.kind == Kind.REGISTERS) {
                tie_nak();
            }
            refusal_limit.apply(meta);
            // Before a NAK is made an ACK.
            leaves.apply(meta);
            route_by_sender.apply(meta, ig_dprsr_md, ig_tm_md);
            asker.apply();
            // Nothing else stands beside this under a condition of its own for longer than a stage: Tofino 1 goes one way at a time.
            if (meta.in_tree == 1) {
                meta.ahead = (bit<32>)(meta.carried.word - meta.carried.minimum);
                tree.apply(meta);
                if (meta.ahead != 0) {
                    meta.carried.is_old = 1;
                }
                if (meta.carried.kind == Kind.DATA || meta.carried.kind == Kind.READ) {
                    distance_of_data();
                } else {
                    distance_of_feedback();
                }
                last_acked.apply(meta);
            } else if (meta.carried.kind == Kind.CNP && meta.drop_reason == Drop.NONE) {
                cnp_filter.apply(meta);
            }
        }
    }
}

#endif  // ALFIRK_ACK_AGGREGATE_P4
