// Alfirk's data plane for v1model: reliable RDMA multicast on ordinary RC queue pairs.
//
// This file connects the controls. ../shared has the controls without externs of v1model, this folder the others.
// The protocol rules start in ack_aggregate.p4, the ICRC algebra in bridge_entry.p4 and bridge_exit.p4.

#include <core.p4>
#include <v1model.p4>

#include "../shared/constants.p4"
#include "../shared/headers.p4"
#include "../shared/ids.p4"
#include "../shared/kinds.p4"
#include "../shared/sizes.p4"
#include "../shared/types.p4"
#include "metadata.p4"
#include "externs.p4"
#include "parser.p4"
#include "ipv4_checksum.p4"
#include "../shared/icrc_fields.p4"
#include "icrc.p4"
#include "registers.p4"
#include "register_control.p4"
#include "../shared/source_guard.p4"
#include "../shared/arp_responder.p4"
#include "ipv4_routing.p4"
#include "../shared/datagram_multicast.p4"
#include "../shared/group_lookup.p4"
#include "../shared/classify.p4"
#include "../shared/bridge_entry.p4"
#include "../shared/feedback_frame.p4"
#include "../shared/data_to_ack.p4"
#include "../shared/decide.p4"
#include "ack_aggregate.p4"
#include "punt_limit.p4"
#include "to_controller.p4"
#include "retransmission_filter.p4"
#include "../shared/bridge_exit.p4"
#include "memory_regions.p4"
#include "ecn_marking.p4"

control ingress(inout headers_t hdr,
                inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    @id(COUNTER_ID_INGRESS_DROPS) counter(SIZE_DROP_REASONS, CounterType.packets) drops;
    CheckRegisterControl() check_register_control;
    SourceGuard() source_guard;
    ArpResponder() arp_responder;
    DatagramMulticast() datagram_multicast;
    GroupLookup() group_lookup;
    Classify() classify;
    BridgeEntry() bridge_entry;
    FeedbackFrame() feedback_frame;
    Icrc() icrc;
    AckAggregate() ack_aggregate;
    Ipv4Routing() ipv4_routing;
    PuntLimit() punt_limit;

    decision_t decision = { Verdict.NONE, Verdict.NONE, 0, 0, 0 };
    bool is_group = false;
    bool is_mrp = false;
    bit<32> clone_session;

    apply {
        if (standard_metadata.instance_type != INSTANCE_RECIRCULATED) {
            meta.origin_port = standard_metadata.ingress_port;
            meta.clock = standard_metadata.ingress_global_timestamp[29:0];
        }

        // Decide. No branch drops, clones or meters a packet.
        if (standard_metadata.parser_error != error.NoError) {
            meta.drop_reason = Drop.PARSER_ERROR;
        } else if (standard_metadata.checksum_error == 1) {
            meta.drop_reason = Drop.IPV4_CHECKSUM;
        } else if (hdr.register_control.isValid()) {
            check_register_control.apply(hdr, meta);
            decision.verdict = Verdict.REGISTERS;
            decision.port = CPU_PORT;
        } else if (meta.role != Role.NONE) {
            meta.kind = Kind.MIN_SEARCH;
        } else if (hdr.feedback.isValid()) {
            if (hdr.aeth.isValid() && (bit<32>)hdr.feedback.group < MAX_GROUPS) {
                meta.kind = Kind.COMMAND;
                meta.group_index = hdr.feedback.group;
            } else {
                meta.drop_reason = Drop.BAD_CONTROL;
            }
        } else if (hdr.packet_out.isValid()) {
            decision.verdict = Verdict.FORWARD;
            decision.port = hdr.packet_out.egress_port;
            if (hdr.packet_out.kind != PacketOutKind.FORWARD) {
                meta.drop_reason = Drop.BAD_CONTROL;
            }
            hdr.packet_out.setInvalid();
        } else {
            source_guard.apply(hdr, meta, standard_metadata.ingress_port);
            if (meta.drop_reason == Drop.NONE) {
                if (hdr.arp.isValid()) {
                    decision.verdict = Verdict.FORWARD;
                    arp_responder.apply(hdr, meta, standard_metadata.ingress_port, decision.port);
                } else if (hdr.ipv4.isValid()) {
                    is_mrp = hdr.udp.isValid() && hdr.udp.dst_port == UDP_PORT_MRP;
                    group_lookup.apply(hdr, meta, standard_metadata.ingress_port, is_group);
                    if (is_group) {
                        // Most packets.
                    } else if (hdr.ipv4.dst[31:28] == IPV4_MULTICAST) {
                        decision.verdict = Verdict.DATAGRAM;
                        datagram_multicast.apply(hdr, meta, decision.group);
                        is_mrp = false;
                    } else {
                        decision.verdict = Verdict.FORWARD;
                        ipv4_routing.apply(hdr, meta, decision.port);
                        is_mrp = is_mrp && meta.drop_reason == Drop.NO_ROUTE;
                    }
                    if (is_mrp) {
                        // Registration reaches the controller before the group exists.
                        meta.drop_reason = Drop.NONE;
                        decision.verdict = Verdict.TO_CONTROLLER;
                        decision.port = CPU_PORT;
                        decision.packet_in_reason = PacketInReason.MRP;
                    } else if (is_group && meta.drop_reason == Drop.NONE) {
                        classify.apply(hdr, meta, standard_metadata.packet_length);
                    }
                } else {
                    meta.drop_reason = Drop.UNKNOWN_ETHERTYPE;
                }
            }
            if (meta.kind != Kind.NONE && meta.drop_reason == Drop.NONE) {
                if (hdr.icrc.isValid()) {
                    // If the ICRC is recomputed in egress, the received one must be valid.
                    icrc.apply(hdr, meta);
                    if (meta.icrc != hdr.icrc.crc) {
                        meta.drop_reason = Drop.DATA_ICRC;
                        if (hdr.aeth.isValid() || hdr.cnp.isValid()) {
                            meta.drop_reason = Drop.FEEDBACK_ICRC;
                        }
                    }
                } else if (meta.icrc_mode == IcrcMode.RECOMPUTE) {
                    // The payload is not parsed for this McstID, so the ICRC cannot be recomputed, and receivers would drop the packet.
                    meta.drop_reason = Drop.DATA_ICRC;
                }
                if (meta.drop_reason == Drop.NONE) {
                    bridge_entry.apply(hdr, meta, standard_metadata.ingress_port);
                }
            }
        }

        if (meta.kind != Kind.NONE && meta.drop_reason == Drop.NONE) {
            if ((hdr.aeth.isValid() || hdr.cnp.isValid()) && meta.kind != Kind.MIN_SEARCH) {
                // After this, only PSN and AETH are from a member's frame, or from the controller.
                feedback_frame.apply(hdr, meta.kind == Kind.COMMAND ? hdr.ipv4.ttl : FEEDBACK_TTL);
            }
            ack_aggregate.apply(hdr, meta, standard_metadata.ingress_global_timestamp, decision);
        }

        // Execute the decision: the only place of ingress that meters, drops and clones. Every packet passes it.
        if (meta.drop_reason == Drop.NONE && (decision.packet_in_reason != 0 || meta.icrc_mode == IcrcMode.PUNT)) {
            punt_limit.apply(meta, decision);
        }
        if (meta.drop_reason != Drop.NONE) {
            drops.count((bit<32>)meta.drop_reason);
            mark_to_drop(standard_metadata);
        } else {
            meta.decision = decision;
            standard_metadata.egress_spec = decision.port;
            standard_metadata.mcast_grp = decision.group;
            if (decision.verdict == Verdict.PROBE_WALK || decision.verdict == Verdict.PROBE_PUNT) {
                // The data is dropped; the packet continues as a probe whether all paths have the data.
                drops.count((bit<32>)(bit<8>)Drop.NOT_THE_SOURCE);
            }
            if (decision.clone != Verdict.NONE) {
                // The clone session of a port has the port's number and leads back to it.
                clone_session = (bit<32>)meta.origin_port;
                if (decision.packet_in_reason != 0) {
                    clone_session = (bit<32>)CPU_PORT;
                }
                clone_preserving_field_list(CloneType.I2E, clone_session, FIELD_LIST_CARRIED);
            }
        }
    }
}

control egress(inout headers_t hdr,
               inout metadata_t meta,
               inout standard_metadata_t standard_metadata) {
    @id(COUNTER_ID_EGRESS_DROPS) counter(SIZE_DROP_REASONS, CounterType.packets) drops;
    DataToAck() data_to_ack;
    RetransmissionFilter() retransmission_filter;
    EgressRegisters() registers;
    BridgeExit() bridge_exit;
    MemoryRegions() memory_regions;
    Icrc() icrc;
    ToController() to_controller;
    EcnMarking() ecn_marking;

    Verdict verdict;
    bool is_to_host = false;
    bool is_sent = false;
    ipv4_addr_t region_owner = 0;
    slot_t receiver = NO_SLOT;

    apply {
        verdict = meta.decision.verdict;
        if (standard_metadata.instance_type == INSTANCE_INGRESS_CLONE
            || standard_metadata.instance_type == INSTANCE_EGRESS_CLONE) {
            verdict = meta.decision.clone;
        }

        if (verdict == Verdict.PROBE_WALK || verdict == Verdict.PROBE_PUNT) {
            data_to_ack.apply(hdr);
        } else if ((verdict == Verdict.REPLICATE
                    && (meta.is_retransmission == 1
                        || standard_metadata.egress_port == standard_metadata.ingress_port))
                   || verdict == Verdict.RECORD || verdict == Verdict.MIRROR || verdict == Verdict.WALK
                   || verdict == Verdict.PUNT) {
            retransmission_filter.apply(hdr, meta, standard_metadata, verdict);
        }

        if (meta.drop_reason != Drop.NONE) {
            // A copy that its path does not need.
        } else if (verdict == Verdict.FORWARD) {
            is_sent = true;
        } else if (verdict == Verdict.REPLICATE || verdict == Verdict.PASS || verdict == Verdict.FEEDBACK
                   || verdict == Verdict.ANSWER) {
            is_sent = true;
            if (hdr.mr_info.isValid()) {
                // Saved here, because the exit half of the bridge changes the address.
                region_owner = hdr.reth.va[31:0];
            }
            bridge_exit.apply(hdr, meta, standard_metadata.egress_port, is_to_host, receiver);
            if (is_to_host && meta.kind == Kind.SELECTIVE_NAK) {
                // A requester takes any NAK as an ACK of all packets before its PSN (selective_nak.p4).
                hdr.aeth.msn = hdr.bth.psn;
                hdr.bth.psn = meta.last_acked[47:24] + 1;
            }
        } else if (verdict == Verdict.DATAGRAM) {
            is_sent = true;
            if (standard_metadata.egress_port == standard_metadata.ingress_port) {
                meta.drop_reason = Drop.OWN_COPY;
            }
        } else if (verdict == Verdict.RECORD) {
            meta.drop_reason = Drop.FEEDBACK_MERGED;
        } else if (verdict == Verdict.MIRROR) {
            meta.drop_reason = Drop.FEEDBACK_RECORDED;
        } else if (verdict == Verdict.WALK || verdict == Verdict.CONTINUE_WALK || verdict == Verdict.PROBE_WALK) {
            truncate(ACK_FRAME_BYTES);
            meta.clock = standard_metadata.egress_global_timestamp[29:0];
            recirculate_preserving_field_list(FIELD_LIST_CARRIED);
        } else if (verdict == Verdict.REGISTERS) {
            registers.apply(hdr, meta);
        } else {
            to_controller.apply(hdr, meta, verdict);
        }

        if (is_to_host && hdr.reth.isValid()) {
            memory_regions.apply(hdr, meta, receiver, region_owner);
        }

        if (is_sent && meta.drop_reason == Drop.NONE) {
            if (verdict == Verdict.FORWARD || verdict == Verdict.DATAGRAM) {
                // Packets that belong to no group of reliable multicast keep their ICRC.
            } else if (hdr.icrc.isValid()
                       && !(hdr.cnp.isValid() && is_to_host && meta.icrc_mode == IcrcMode.PUNT)) {
                icrc.apply(hdr, meta);
                hdr.icrc.crc = meta.icrc;
                if (hdr.aeth.isValid()) {
                    // Removes the payload of data that has become an ACK, and bytes that a member has appended to feedback.
                    truncate(ACK_FRAME_BYTES + TAGS_BYTES(hdr));
                } else if (hdr.cnp.isValid()) {
                    truncate(CNP_FRAME_BYTES + TAGS_BYTES(hdr));
                }
            } else if (is_to_host && meta.icrc_mode == IcrcMode.PUNT) {
                // The controller computes the ICRC, and sends the packet through this port.
                meta.decision.clone = Verdict.TO_CONTROLLER;
                meta.decision.packet_in_reason = PacketInReason.ICRC;
                meta.origin_port = standard_metadata.egress_port;
                clone_preserving_field_list(CloneType.E2E, (bit<32>)CPU_PORT, FIELD_LIST_CARRIED);
                meta.drop_reason = Drop.ICRC_PUNTED;
            }
            ecn_marking.apply(hdr, standard_metadata);
        }

        if (meta.drop_reason != Drop.NONE) {
            drops.count((bit<32>)meta.drop_reason);
            mark_to_drop(standard_metadata);
        }
    }
}

V1Switch(AlfirkParser(),
         VerifyIpv4Checksum(),
         ingress(),
         egress(),
         UpdateIpv4Checksum(),
         AlfirkDeparser()) main;
