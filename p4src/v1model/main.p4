// Alfirk's data plane for v1model: reliable RDMA multicast on ordinary RC queue pairs.
//
// This file is the table of contents. The protocol's rules stand in ack_aggregate.p4,
// the ICRC algebra in bridge_entry.p4 and bridge_exit.p4, names and numbers in ../shared.

#include <core.p4>
#include <v1model.p4>

#include "../shared/constants.p4"
#include "../shared/headers.p4"
#include "../shared/sizes.p4"
#include "../shared/types.p4"
#include "metadata.p4"
#include "parser.p4"
#include "ipv4_checksum.p4"
#include "icrc.p4"
#include "register_control.p4"
#include "arp_responder.p4"
#include "ipv4_routing.p4"
#include "group_lookup.p4"
#include "bridge_entry.p4"
#include "ack_aggregate.p4"
#include "retransmission_filter.p4"
#include "bridge_exit.p4"

control ingress(inout headers_t hdr,
                inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    counter(SIZE_DROP_REASONS, CounterType.packets) drops;
    CheckRegisterControl() check_register_control;
    ArpResponder() arp_responder;
    GroupLookup() group_lookup;
    BridgeEntry() bridge_entry;
    FeedbackIcrc() feedback_icrc;
    AckAggregate() ack_aggregate;
    Ipv4Routing() ipv4_routing;

    bool is_group = false;
    bool is_mrp = false;
    bool reaches_aggregate = false;

    apply {
        if (standard_metadata.parser_error != error.NoError) {
            meta.drop_reason = DROP_PARSER_ERROR;
        } else if (standard_metadata.checksum_error == 1) {
            meta.drop_reason = DROP_IPV4_CHECKSUM;
        } else if (hdr.register_control.isValid()) {
            check_register_control.apply(hdr);
            standard_metadata.egress_spec = CPU_PORT;
            reaches_aggregate = hdr.register_control.status == REGISTER_STATUS_OK;
        } else if (hdr.packet_out.isValid()) {
            standard_metadata.egress_spec = hdr.packet_out.egress_port;
            if (hdr.packet_out.kind != PACKET_OUT_FORWARD) {
                meta.drop_reason = DROP_BAD_CONTROL;
            }
            hdr.packet_out.setInvalid();
        } else if (hdr.arp.isValid()) {
            arp_responder.apply(hdr, meta, standard_metadata);
        } else if (hdr.ipv4.isValid()) {
            is_mrp = hdr.udp.isValid() && hdr.udp.dst_port == UDP_PORT_MRP;
            group_lookup.apply(hdr, meta, standard_metadata, is_group);
            if (!is_group) {
                ipv4_routing.apply(hdr, meta, standard_metadata);
                is_mrp = is_mrp && meta.drop_reason == DROP_NO_ROUTE;
            }
            if (is_mrp) {
                // Registration reaches the controller before the group exists.
                meta.drop_reason = DROP_NONE;
                meta.packet_in_reason = PACKET_IN_MRP;
                standard_metadata.egress_spec = CPU_PORT;
            } else if (is_group && meta.drop_reason == DROP_NONE) {
                if (!hdr.bth.isValid()
                    || (hdr.bth.opcode > OPCODE_RC_WRITE_ONLY_IMM
                        && hdr.bth.opcode != OPCODE_RC_ACKNOWLEDGE
                        && hdr.bth.opcode != OPCODE_CNP)
                    || (hdr.aeth.isValid() && hdr.aeth.kind != AETH_ACK
                        && hdr.aeth.kind != AETH_RNR_NAK && hdr.aeth.kind != AETH_NAK)) {
                    meta.drop_reason = DROP_UNSUPPORTED_OPCODE;
                } else {
                    if (hdr.aeth.isValid()) {
                        // What is recomputed on the way out must have been right on the way in.
                        feedback_icrc.apply(hdr, meta);
                        if (meta.icrc != hdr.icrc.crc) {
                            meta.drop_reason = DROP_FEEDBACK_ICRC;
                        }
                    }
                    if (meta.drop_reason == DROP_NONE) {
                        bridge_entry.apply(hdr, meta, standard_metadata);
                        reaches_aggregate = meta.drop_reason == DROP_NONE;
                    }
                }
            }
        } else {
            meta.drop_reason = DROP_UNKNOWN_ETHERTYPE;
        }

        if (reaches_aggregate) {
            ack_aggregate.apply(hdr, meta, standard_metadata);
        }

        if (meta.drop_reason != DROP_NONE) {
            drops.count((bit<32>)meta.drop_reason);
            mark_to_drop(standard_metadata);
        } else if (meta.verdict == VERDICT_REPLICATE) {
            // PRE group 0 means none.
            standard_metadata.mcast_grp = meta.group_index + 1;
        } else if (meta.verdict == VERDICT_RECORD) {
            standard_metadata.egress_spec = standard_metadata.ingress_port;
        } else if (meta.verdict == VERDICT_FEEDBACK) {
            // The clone session of a port has the port's number and leads back to it.
            clone_preserving_field_list(CloneType.I2E,
                                        (bit<32>)standard_metadata.ingress_port,
                                        FIELD_LIST_MIRROR);
        }
    }
}

control egress(inout headers_t hdr,
               inout metadata_t meta,
               inout standard_metadata_t standard_metadata) {
    counter(SIZE_DROP_REASONS, CounterType.packets) drops;
    RetransmissionFilter() retransmission_filter;
    AnswerRegisterControl() answer_register_control;
    BridgeExit() bridge_exit;
    FeedbackIcrc() feedback_icrc;

    bool is_mirror = false;

    apply {
        is_mirror = standard_metadata.instance_type == INSTANCE_INGRESS_CLONE;
        if (meta.verdict == VERDICT_REPLICATE
            && standard_metadata.egress_port == standard_metadata.ingress_port) {
            meta.drop_reason = DROP_OWN_COPY;
        } else if (is_mirror || meta.verdict == VERDICT_REPLICATE || meta.verdict == VERDICT_RECORD
                   || hdr.register_control.isValid()) {
            retransmission_filter.apply(hdr, meta, standard_metadata);
        }

        if (is_mirror) {
            meta.drop_reason = DROP_FEEDBACK_RECORDED;
        } else if (meta.verdict == VERDICT_RECORD) {
            meta.drop_reason = DROP_FEEDBACK_MERGED;
        } else if (hdr.register_control.isValid()) {
            answer_register_control.apply(hdr);
        } else if (meta.verdict != VERDICT_NONE && meta.drop_reason == DROP_NONE) {
            bridge_exit.apply(hdr, meta, standard_metadata);
            if (meta.verdict == VERDICT_FEEDBACK || meta.verdict == VERDICT_ANSWER) {
                feedback_icrc.apply(hdr, meta);
                hdr.icrc.crc = meta.icrc;
                if (meta.verdict == VERDICT_ANSWER) {
                    truncate(ACK_FRAME_BYTES);
                }
            }
        } else if (meta.packet_in_reason != 0) {
            hdr.packet_in.setValid();
            hdr.packet_in.reason = meta.packet_in_reason;
            hdr.packet_in.pad = 0;
            hdr.packet_in.ingress_port = standard_metadata.ingress_port;
        }

        if (meta.drop_reason != DROP_NONE) {
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
