// Ingress: from a received packet to one decision.
//
//   register access of the controller   register_control.p4
//   frame of the controller             sent as it is
//   ARP request                         arp_responder.p4
//   packet to a group                   group_lookup.p4, classify.p4, bridge_entry.p4, then the chain of ack_aggregate.p4
//   other IPv4 packet                   ipv4_routing.p4
//   registration (MRP)                  to the controller
//
// No branch drops, clones or meters a packet. All packets end in execute.p4, which does.

#ifndef ALFIRK_INGRESS_P4
#define ALFIRK_INGRESS_P4

#include "icrc.p4"
#include "register_control.p4"
#include "../shared/source_guard.p4"
#include "../shared/arp_responder.p4"
#include "ipv4_routing.p4"
#include "group_lookup.p4"
#include "classify.p4"
#include "bridge_entry.p4"
#include "ack_aggregate.p4"
#include "execute.p4"

control ingress(inout headers_t hdr,
                inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    CheckRegisterControl() check_register_control;
    ControllerFeedback() controller_feedback;
    SourceGuard() source_guard;
    ArpResponder() arp_responder;
    DatagramMulticast() datagram_multicast;
    @name("group_lookup")
    Groups() groups;
    GroupLookup() group_lookup;
    Classify() classify;
    CheckIcrc() check_icrc;
    BridgeEntry() bridge_entry;
    FeedbackFrame() feedback_frame;
    AckAggregate() ack_aggregate;
    Ipv4Routing() ipv4_routing;
    Execute() execute;

    decision_t decision = { Verdict.NONE, Verdict.NONE, 0, 0, 0, 0 };
    bool is_group = false;
    bool is_mrp = false;

    apply {
        if (standard_metadata.instance_type != INSTANCE_RECIRCULATED) {
            meta.origin_port = standard_metadata.ingress_port;
        }
        if (standard_metadata.parser_error != error.NoError) {
            meta.drop_reason = Drop.PARSER_ERROR;
        } else if (standard_metadata.checksum_error == 1) {
            meta.drop_reason = Drop.IPV4_CHECKSUM;
        } else if (hdr.register_control.isValid()) {
            check_register_control.apply(hdr, meta);
            decision.verdict = Verdict.REGISTERS;
            decision.port = CPU_PORT;
        } else if (hdr.packet_out.isValid()) {
            decision.verdict = Verdict.FORWARD;
            decision.port = (port_t)hdr.packet_out.egress_port;
            if (hdr.packet_out.kind != PacketOutKind.FORWARD) {
                meta.drop_reason = Drop.BAD_CONTROL;
            }
            controller_feedback.apply(hdr, meta, decision);
            hdr.packet_out.setInvalid();
        } else if (meta.kind == Kind.NONE) {
            source_guard.apply(hdr, meta, standard_metadata.ingress_port);
            if (meta.drop_reason != Drop.NONE) {
                // A host that sends with another address than its own.
            } else if (hdr.arp.isValid()) {
                decision.verdict = Verdict.FORWARD;
                arp_responder.apply(hdr, meta, standard_metadata.ingress_port, decision.port);
            } else if (hdr.ipv4.isValid()) {
                is_mrp = hdr.udp.isValid() && hdr.udp.dst_port == UDP_PORT_MRP;
                groups.apply(hdr, meta, is_group);
                if (is_group) {
                    group_lookup.apply(meta, standard_metadata.ingress_port);
                    if (!is_mrp && meta.drop_reason == Drop.NONE) {
                        classify.apply(hdr, meta, standard_metadata.packet_length);
                    }
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
                }
            } else {
                meta.drop_reason = Drop.UNKNOWN_ETHERTYPE;
            }
            if (meta.kind != Kind.NONE && meta.drop_reason == Drop.NONE) {
                check_icrc.apply(hdr, meta);
                if (meta.drop_reason == Drop.NONE) {
                    bridge_entry.apply(hdr, meta, standard_metadata.ingress_port);
                }
                if (meta.drop_reason == Drop.NONE && (hdr.aeth.isValid() || hdr.cnp.isValid())) {
                    // After this, only PSN and AETH are from a member's frame.
                    feedback_frame.apply(hdr, FEEDBACK_TTL, hdr.cnp.isValid());
                }
            }
        }
        if (meta.kind != Kind.NONE && meta.drop_reason == Drop.NONE) {
            ack_aggregate.apply(hdr, meta, standard_metadata.ingress_global_timestamp, decision);
        }
        execute.apply(meta, standard_metadata, decision);
    }
}

#endif  // ALFIRK_INGRESS_P4
