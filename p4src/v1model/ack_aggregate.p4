// Many receivers' feedback becomes the one stream that the sender's queue pair expects.
//
//   data p from port i ──> own path := max(own path, p)
//                            │ p is older than or equal to the minimum: everyone has it
//                            ├───────────────────────────────> ANSWER: ACK of the minimum to port i
//                            └ else src_port := i ───────────> REPLICATE
//   ACK p, NAK p+1 of path i ──> path i := max(path i, p) ──> m = minimum over all paths
//                            │ a NAK waits and m is just before it
//                            ├───────────────────────────────> FEEDBACK: the NAK to src_port
//                            │ m is newer than what the source was told last
//                            ├───────────────────────────────> FEEDBACK: an ACK of m to src_port
//                            └ else ─────────────────────────> RECORD: only the filter learns of it
//   CNP, fatal NAK ───────────────────────────────────────> PASS: to src_port as it is
//
// The sender never sees an ACK of what some receiver lacks, nor a NAK that would also
// acknowledge an earlier loss of another receiver: a requester takes a NAK of e as an
// ACK of everything before e (IBTA vol. 1, section 9.7.5.2), so it may leave only when
// the minimum has come to e - 1. A NAK that the minimum has passed is stale.
//
// The sender's own path counts as having all that it sent, so the minimum needs no
// exception for the source and a change of the source needs no repair.
//
// An acknowledged PSN that comes again means that its ACK was lost between here and
// the sender. It is answered, not dropped: else the sender would retry until it gives up.
//
// Cepheus, section III-D, and Gleam, algorithms 2 and 3, are the origin. (Line 7 of Gleam's
// algorithm 3 compares the wrong way round; its text is right.)

#ifndef ALFIRK_ACK_AGGREGATE_P4
#define ALFIRK_ACK_AGGREGATE_P4

#include "min_psn_tree.p4"

control AckAggregate(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    MinPsnTree() tree;

    // What the source was told last: agg_psn ++ agg_msn.
    register<bit<48>>(MAX_GROUPS) agg;
    // The NAK that waits: syndrome ++ PSN, or 0.
    register<bit<32>>(MAX_GROUPS) nak;
    register<bit<16>>(MAX_GROUPS) src_port;
    // MSN of the newest acknowledgement of each path.
    register<bit<32>>(SIZE_PATHS) path_msn;

    bit<32> group;
    bit<32> path_slot;
    bit<2> op = TREE_UPDATE;
    group_t tree_group;
    path_t tree_path;
    bit<8> tree_lone;
    word_t word;
    bit<1> is_news;

    bit<48> told;
    bit<32> waiting;
    bit<16> source;
    psn_t minimum;
    bit<32> msn;
    bool is_nak = false;
    bool is_pass = false;
    bool tell_source = false;

    apply {
        tree_group = meta.group_index;
        tree_path = meta.path_index;
        tree_lone = meta.lone;
        word = 0;

        if (hdr.register_control.isValid()) {
            tree_group = hdr.register_control.group;
            tree_path = hdr.register_control.index[7:0];
            tree_lone = hdr.register_control.count;
            op = TREE_READ;
            if (hdr.register_control.op == REGISTER_OP_INIT_GROUP) {
                op = TREE_INIT;
                tree_path = (bit<8>)hdr.register_control.index << 1;
                // The word before the first PSN of the group.
                word = (hdr.register_control.value[23:0] - 1) ++ 8w0;
            } else if (hdr.register_control.op == REGISTER_OP_WRITE
                       && hdr.register_control.reg == REGISTER_ACK) {
                op = TREE_FORCE;
                word = hdr.register_control.value[31:0];
            }
        } else if (hdr.bth.opcode == OPCODE_CNP
                   || (hdr.aeth.isValid() && hdr.aeth.kind == AETH_NAK
                       && hdr.aeth.value != NAK_PSN_SEQUENCE_ERROR)) {
            // A fatal NAK ends the queue pair: the source must see it, and it acknowledges nothing.
            is_pass = true;
            op = TREE_READ;
        } else if (hdr.aeth.isValid()) {
            meta.acked_psn = hdr.bth.psn;
            if (hdr.aeth.kind != AETH_ACK) {
                is_nak = true;
                meta.acked_psn = hdr.bth.psn - 1;
            }
            word = meta.acked_psn ++ tree_path;
        } else {
            word = hdr.bth.psn ++ PATH_OF_SENDER;
        }

        group = (bit<32>)tree_group;
        path_slot = (group << PATH_BITS) | (bit<32>)tree_path;
        tree.apply(op, tree_group, tree_path, tree_lone, word, is_news);
        minimum = WORD_PSN(word);
        agg.read(told, group);

        if (hdr.register_control.isValid()) {
            if (op == TREE_INIT) {
                path_msn.write(path_slot, 0);
                path_msn.write(path_slot | 1, 0);
                if (hdr.register_control.index == 0) {
                    agg.write(group, minimum ++ 24w0);
                    nak.write(group, 0);
                    src_port.write(group, 0);
                }
            } else if (op == TREE_READ) {
                if (hdr.register_control.reg == REGISTER_ACK) {
                    hdr.register_control.value = (bit<64>)word;
                } else if (hdr.register_control.reg == REGISTER_AGG) {
                    if (hdr.register_control.op == REGISTER_OP_READ) {
                        hdr.register_control.value = (bit<64>)told;
                    } else {
                        agg.write(group, hdr.register_control.value[47:0]);
                    }
                } else if (hdr.register_control.reg == REGISTER_NAK) {
                    if (hdr.register_control.op == REGISTER_OP_READ) {
                        nak.read(waiting, group);
                        hdr.register_control.value = (bit<64>)waiting;
                    } else {
                        nak.write(group, hdr.register_control.value[31:0]);
                    }
                } else if (hdr.register_control.reg == REGISTER_SRC_PORT) {
                    if (hdr.register_control.op == REGISTER_OP_READ) {
                        src_port.read(source, group);
                        hdr.register_control.value = (bit<64>)source;
                    } else {
                        src_port.write(group, hdr.register_control.value[15:0]);
                    }
                } else if (hdr.register_control.reg == REGISTER_MSN) {
                    if (hdr.register_control.op == REGISTER_OP_READ) {
                        path_msn.read(msn, path_slot);
                        hdr.register_control.value = (bit<64>)msn;
                    } else {
                        path_msn.write(path_slot, hdr.register_control.value[31:0]);
                    }
                }
            }
        } else if (is_pass) {
            meta.verdict = VERDICT_PASS;
            src_port.read(source, group);
            standard_metadata.egress_spec = source[8:0];
            if (source == 0) {
                meta.drop_reason = DROP_NO_SOURCE;
            }
        } else if (hdr.aeth.isValid()) {
            if (is_news == 1) {
                path_msn.write(path_slot, (bit<32>)hdr.aeth.msn);
            }
            // The MSN that goes with the minimum: responders of one stream count the same messages, so
            // this packet's own is right if it acknowledges just the minimum.
            if (meta.acked_psn == minimum) {
                msn = (bit<32>)hdr.aeth.msn;
            } else if (told[47:24] == minimum || WORD_PATH(word) == PATH_OF_SENDER) {
                msn = (bit<32>)told[23:0];
            } else {
                path_msn.read(msn, (group << PATH_BITS) | (bit<32>)WORD_PATH(word));
            }

            nak.read(waiting, group);
            // A NAK that its own path or everyone has passed was overtaken on the way.
            if (is_nak && is_news == 1 && PSN_LT(minimum, hdr.bth.psn)
                && (waiting == 0 || PSN_LT(hdr.bth.psn, waiting[23:0]))) {
                waiting = hdr.aeth.kind ++ hdr.aeth.value ++ hdr.bth.psn;
            }
            if (waiting != 0 && minimum + 1 == waiting[23:0]) {
                tell_source = true;
                hdr.bth.psn = waiting[23:0];
                hdr.aeth.kind = waiting[31:29];
                hdr.aeth.value = waiting[28:24];
                waiting = 0;
            } else if (PSN_LT(told[47:24], minimum)) {
                tell_source = true;
                hdr.bth.psn = minimum;
                hdr.aeth.kind = AETH_ACK;
                hdr.aeth.value = SYNDROME_ACK_NO_CREDITS[4:0];
            }
            if (waiting != 0 && !PSN_LT(minimum, waiting[23:0])) {
                waiting = 0;
            }
            nak.write(group, waiting);

            meta.verdict = VERDICT_RECORD;
            if (tell_source) {
                hdr.aeth.msn = msn[23:0];
                agg.write(group, minimum ++ msn[23:0]);
                src_port.read(source, group);
                if (source != 0) {
                    meta.verdict = VERDICT_FEEDBACK;
                    standard_metadata.egress_spec = source[8:0];
                }
            }
        } else if (PSN_LT(minimum, hdr.bth.psn)) {
            meta.verdict = VERDICT_REPLICATE;
            src_port.write(group, (bit<16>)standard_metadata.ingress_port);
        } else {
            meta.verdict = VERDICT_ANSWER;
            if (told[47:24] == minimum || WORD_PATH(word) == PATH_OF_SENDER) {
                msn = (bit<32>)told[23:0];
            } else {
                path_msn.read(msn, (group << PATH_BITS) | (bit<32>)WORD_PATH(word));
            }
            if (PSN_LT(told[47:24], minimum)) {
                agg.write(group, minimum ++ msn[23:0]);
            }
            hdr.reth.setInvalid();
            hdr.aeth.setValid();
            hdr.icrc.setValid();
            hdr.ipv4.total_len = ACK_IPV4_BYTES;
            hdr.ipv4.ecn = 0;
            hdr.udp.length = ACK_UDP_BYTES;
            hdr.bth.opcode = OPCODE_RC_ACKNOWLEDGE;
            hdr.bth.solicited_event = 0;
            hdr.bth.pad_count = 0;
            hdr.bth.ack_req = 0;
            hdr.bth.psn = minimum;
            hdr.aeth.kind = AETH_ACK;
            hdr.aeth.value = SYNDROME_ACK_NO_CREDITS[4:0];
            hdr.aeth.msn = msn[23:0];
            standard_metadata.egress_spec = standard_metadata.ingress_port;
        }
    }
}

#endif  // ALFIRK_ACK_AGGREGATE_P4
