// Many receivers' feedback becomes the one stream that the sender's queue pair expects.
//
//   data p from port i ──> own path := max(own path, p)
//                            │ p is older than or equal to the minimum: everyone has it
//                            ├───────────────────────────────> ANSWER: ACK of the minimum to port i
//                            └ else ─────────────────────────> REPLICATE
//                            (and src_port := i, if it is new)
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
// exception for the source and a change of the source needs no repair. It speaks for all
// that is behind its port: a source may begin when all members have what was sent before,
// though feedback about it may still be on the way.
//
// An acknowledged PSN that comes again means that its ACK was lost between here and
// the sender. It is answered, not dropped: else the sender would retry until it gives up.
//
// A source of before, whose own tail was lost, may ask when the present one's data has raised the
// minimum beyond what the asker ever sent. It gets an ACK of no more than it asked about, with the MSN
// that it counted itself when it last received: no requester takes an answer that is ahead of it.
//
// Where m comes from is the group's strategy:
//
//   tree   from min_psn_tree.p4, in this pass
//   walk   from min_psn_walk.p4, after some recirculations (WALK); until then the last
//          m that was told stands in for it: it is never too new
//   punt   from the controller (PUNT), which gets the feedback and sends the result
//
// Old data of a group of the latter two is replicated, and a clone of it asks for m, in
// case everyone has it: the copies all fall to the retransmission filter then.
//
// Cepheus, section III-D, and Gleam, algorithms 2 and 3, are the origin. (Line 7 of Gleam's
// algorithm 3 compares the wrong way round; its text is right.)

#ifndef ALFIRK_ACK_AGGREGATE_P4
#define ALFIRK_ACK_AGGREGATE_P4

#include "cnp_filter.p4"
#include "data_to_ack.p4"
#include "min_psn_tree.p4"
#include "min_psn_walk.p4"

control AckAggregate(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    TreeLeaves() leaves;
    MinPsnTree() tree;
    MinPsnWalk() walk;
    CnpFilter() cnp_filter;
    DataToAck() data_to_ack;

    // What the source was told last: agg_psn ++ agg_msn.
    register<bit<48>>(MAX_GROUPS) agg;
    // The NAK that waits: syndrome ++ PSN, or 0.
    register<bit<32>>(MAX_GROUPS) nak;
    register<bit<16>>(MAX_GROUPS) src_port;
    // MSN of the newest acknowledgement of each path: its lower 16 bits. All that is ever read is of a path
    // that stands at the minimum, less than 2^16 messages beyond what the source was told last.
    register<bit<16>>(SIZE_PATHS) path_msn;
    // What each strategy costs, see WORK_*.
    counter(SIZE_WORK, CounterType.packets) work;

    bit<32> group;
    bit<32> path_slot;
    bit<32> work_slot;
    bit<3> op = TREE_UPDATE;
    bit<4> absent;
    word_t word = 0;
    path_t at = 0;
    bit<1> is_news = 0;
    bit<1> is_old = 0;
    bit<1> is_first = 0;
    bit<1> is_data = 0;
    bit<1> is_init = 0;

    bit<48> told;
    bit<32> waiting;
    bit<16> source;
    psn_t minimum;
    path_t minimum_path;
    bit<16> short_msn;
    msn_t msn;
    bit<2> walked = WALK_IDLE;
    bool is_feedback = false;
    bool is_nak = false;
    bool is_pass = false;
    bool is_told_by_controller = false;
    bool has_minimum = true;
    bool tell_source = false;
    bool answer = false;

    apply {
        // What is it?
        if (hdr.register_control.isValid()) {
            meta.group_index = hdr.register_control.group;
            meta.path_index = hdr.register_control.index[7:0];
            op = TREE_READ;
            if (hdr.register_control.op == REGISTER_OP_INIT_GROUP) {
                op = TREE_INIT;
                meta.path_index = (bit<8>)hdr.register_control.index << 2;
                // The word before the first PSN of the group.
                word = (hdr.register_control.value[23:0] - 1) ++ 8w0;
                is_init = 1;
            } else if (hdr.register_control.op == REGISTER_OP_WRITE
                       && hdr.register_control.reg == REGISTER_ACK) {
                op = TREE_FORCE;
                word = hdr.register_control.value[31:0];
                meta.absent = hdr.register_control.value[43:32];
            }
        } else if (hdr.feedback.isValid()) {
            is_told_by_controller = true;
            meta.group_index = hdr.feedback.group;
            op = TREE_READ;
        } else if (meta.role != ROLE_NONE) {
            op = TREE_WALK;
            meta.path_index = meta.walk_node << 2;
            word = meta.walk_word;
            at = meta.walk_path;
            is_first = (bit<1>)(meta.walk_node == 0 && meta.walk_seen == PATH_NONE);
        } else if (hdr.bth.opcode == OPCODE_CNP
                   || (hdr.aeth.isValid() && hdr.aeth.kind == AETH_NAK
                       && hdr.aeth.value != NAK_PSN_SEQUENCE_ERROR)) {
            // A fatal NAK ends the queue pair: the source must see it, and it acknowledges nothing.
            is_pass = true;
            op = TREE_READ;
        } else if (hdr.aeth.isValid()) {
            is_feedback = true;
            meta.acked_psn = hdr.bth.psn;
            if (hdr.aeth.kind != AETH_ACK) {
                is_nak = true;
                meta.acked_psn = hdr.bth.psn - 1;
            }
            word = meta.acked_psn ++ meta.path_index;
        } else {
            is_data = 1;
            word = hdr.bth.psn ++ PATH_OF_SENDER;
        }

        group = (bit<32>)meta.group_index;
        path_slot = (group << PATH_BITS) | (bit<32>)meta.path_index;
        work_slot = (bit<32>)meta.min_psn << 3;
        absent = meta.absent[3:0];
        if (op == TREE_WALK) {
            // Of the last node the children from `paths` on are not there.
            absent = 0;
            if (meta.path_index + 3 >= meta.paths) {
                absent = 4w0b1000;
            }
            if (meta.path_index + 2 >= meta.paths) {
                absent = 4w0b1100;
            }
            if (meta.path_index + 1 >= meta.paths) {
                absent = 4w0b1110;
            }
        }
        leaves.apply(op, meta.group_index, meta.path_index, absent, is_first, word, at, is_news, is_old);
        if (is_data == 1) {
            meta.is_retransmission = is_old;
        }
        if (op == TREE_INIT || op == TREE_FORCE
            || (op == TREE_UPDATE && meta.min_psn == MIN_PSN_TREE)) {
            tree.apply(op, meta.group_index, meta.path_index, meta.absent, word);
        }
        agg.read(told, group);
        nak.read(waiting, group);
        src_port.read(source, group);
        meta.told = told;
        meta.source_port = source;
        minimum = WORD_PSN(word);
        minimum_path = WORD_PATH(word);
        if (is_feedback) {
            work.count(work_slot + WORK_FEEDBACK);
            if (is_news == 1) {
                path_msn.write(path_slot, hdr.aeth.msn[15:0]);
            }
        }
        if (is_init == 1) {
            short_msn = hdr.register_control.value[39:24];
            path_msn.write(path_slot, short_msn);
            path_msn.write(path_slot | 1, short_msn);
            path_msn.write(path_slot | 2, short_msn);
            path_msn.write(path_slot | 3, short_msn);
        }

        // Without a tree the last told PSN stands in for the minimum.
        if (meta.min_psn != MIN_PSN_TREE || is_init == 1) {
            meta.walk_word = word;
            meta.walk_path = at;
            if (is_feedback || is_data == 1) {
                minimum = told[47:24];
                has_minimum = false;
            }
        }

        // A NAK that its own path or everyone has passed was overtaken on the way.
        if (is_nak && is_news == 1 && meta.min_psn != MIN_PSN_PUNT && PSN_LT(minimum, hdr.bth.psn)
            && (waiting == 0 || PSN_LT(hdr.bth.psn, waiting[23:0]))) {
            waiting = hdr.aeth.kind ++ hdr.aeth.value ++ hdr.bth.psn;
        }

        if (is_init == 1
            || (meta.min_psn == MIN_PSN_WALK
                && (meta.role != ROLE_NONE
                    || (is_feedback && (waiting == 0 || told[47:24] + 1 != waiting[23:0]))
                    || (is_data == 1 && PSN_LT(minimum, hdr.bth.psn))))) {
            walk.apply(meta, is_init, is_data, is_news, walked);
            if (walked == WALK_DONE) {
                has_minimum = true;
                minimum = WORD_PSN(meta.walk_word);
                minimum_path = meta.walk_path;
                if (WORD_PATH(meta.walk_word) == PATH_OF_SENDER) {
                    minimum_path = PATH_OF_SENDER;
                }
            }
        }

        // The MSN that goes with the minimum: responders of one stream count the same messages.
        msn = told[23:0];
        if (told[47:24] != minimum && minimum_path != PATH_OF_SENDER && has_minimum && is_init == 0) {
            path_msn.read(short_msn, (group << PATH_BITS) | (bit<32>)minimum_path);
            msn = told[23:0] + (bit<24>)(short_msn - told[15:0]);
        }
        // The packet's own MSN is right in full if it acknowledges just the minimum.
        if (is_feedback && meta.acked_psn == minimum) {
            msn = hdr.aeth.msn;
        }

        if (hdr.register_control.isValid()) {
            if (is_init == 1) {
                if (hdr.register_control.index == 0) {
                    agg.write(group, WORD_PSN(word) ++ hdr.register_control.value[47:24]);
                    nak.write(group, 0);
                    src_port.write(group, 0);
                }
            } else if (hdr.register_control.op == REGISTER_OP_READ) {
                if (hdr.register_control.reg == REGISTER_ACK) {
                    hdr.register_control.value = (bit<64>)word;
                } else if (hdr.register_control.reg == REGISTER_AGG) {
                    hdr.register_control.value = (bit<64>)told;
                } else if (hdr.register_control.reg == REGISTER_NAK) {
                    hdr.register_control.value = (bit<64>)waiting;
                } else if (hdr.register_control.reg == REGISTER_SRC_PORT) {
                    hdr.register_control.value = (bit<64>)source;
                } else if (hdr.register_control.reg == REGISTER_MSN) {
                    path_msn.read(short_msn, path_slot);
                    hdr.register_control.value = (bit<64>)short_msn;
                }
            } else if (hdr.register_control.reg == REGISTER_AGG) {
                agg.write(group, hdr.register_control.value[47:0]);
            } else if (hdr.register_control.reg == REGISTER_NAK) {
                nak.write(group, hdr.register_control.value[31:0]);
            } else if (hdr.register_control.reg == REGISTER_SRC_PORT) {
                src_port.write(group, hdr.register_control.value[15:0]);
            } else if (hdr.register_control.reg == REGISTER_MSN) {
                path_msn.write(path_slot, hdr.register_control.value[15:0]);
            }
        } else if (is_pass) {
            meta.verdict = VERDICT_PASS;
            standard_metadata.egress_spec = source[8:0];
            if (source == 0) {
                meta.drop_reason = DROP_NO_SOURCE;
            } else if (hdr.aeth.isValid()) {
                meta.packet_in_reason = PACKET_IN_FATAL_NAK;
            } else {
                cnp_filter.apply(meta, standard_metadata.ingress_global_timestamp);
            }
        } else if (is_told_by_controller) {
            meta.verdict = VERDICT_ANSWER;
            if (PSN_LT(told[47:24], hdr.feedback.agg_psn)) {
                agg.write(group, hdr.feedback.agg_psn ++ hdr.feedback.agg_msn);
            }
            if (hdr.feedback.port != 0) {
                source = hdr.feedback.port;
            }
            standard_metadata.egress_spec = source[8:0];
            if (source == 0) {
                meta.drop_reason = DROP_NO_SOURCE;
            }
            hdr.feedback.setInvalid();
            hdr.packet_out.setInvalid();
        } else if (is_data == 1) {
            path_msn.read(meta.asker_msn, path_slot);
            if (is_news == 1) {
                // Even if everyone has it already: its first copies may have passed when it did not count.
                source = (bit<16>)standard_metadata.ingress_port;
                src_port.write(group, source);
            }
            if (PSN_LT(minimum, hdr.bth.psn)) {
                meta.verdict = VERDICT_REPLICATE;
                if (meta.role == ROLE_PROBE) {
                    work.count(work_slot + WORK_RECIRCULATIONS);
                } else if (meta.min_psn == MIN_PSN_PUNT && is_old == 1) {
                    work.count(work_slot + WORK_PUNTS);
                    meta.packet_in_reason = PACKET_IN_PROBE;
                }
            } else {
                answer = true;
                data_to_ack.apply(hdr);
            }
        } else if (is_feedback && meta.min_psn == MIN_PSN_PUNT) {
            work.count(work_slot + WORK_PUNTS);
            meta.verdict = VERDICT_PUNT;
            meta.packet_in_reason = PACKET_IN_FEEDBACK;
            standard_metadata.egress_spec = CPU_PORT;
        } else if (walked == WALK_ON) {
            work.count(work_slot + WORK_RECIRCULATIONS);
            nak.write(group, waiting);
            meta.verdict = VERDICT_WALK;
            standard_metadata.egress_spec = meta.origin_port;
        } else if (walked == WALK_LOST) {
            meta.drop_reason = DROP_WALK_TAKEN_OVER;
        } else if (meta.role == ROLE_PROBE && !PSN_LT(minimum, hdr.bth.psn)) {
            answer = true;
        } else {
            // Feedback, or a walk that has ended.
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
                hdr.aeth.msn = msn;
                agg.write(group, minimum ++ msn);
                if (source != 0) {
                    work.count(work_slot + WORK_TOLD);
                    meta.verdict = VERDICT_FEEDBACK;
                    standard_metadata.egress_spec = source[8:0];
                }
            }
        }

        if (answer) {
            meta.verdict = VERDICT_ANSWER;
            standard_metadata.egress_spec = meta.origin_port;
            if (PSN_LT(told[47:24], minimum)) {
                agg.write(group, minimum ++ msn);
            }
            hdr.aeth.msn = MSN_NEAR(told[23:0], meta.asker_msn);
            if (source[8:0] == meta.origin_port) {
                hdr.bth.psn = minimum;
                hdr.aeth.msn = msn;
            }
        }
    }
}

#endif  // ALFIRK_ACK_AGGREGATE_P4
