// What becomes of a group's packet, when all is known: its verdict, and the port that it leaves by.
//
//   DATA       all have it                          ANSWER: an ACK of the minimum to its sender
//              not the source's                     dropped; old data becomes a question for the minimum (WALK, PUNT)
//              else                                 REPLICATE
//   ACK, NAK   a NAK waits just after the minimum   FEEDBACK: that NAK to the source
//   MIN_SEARCH     the minimum is news                  FEEDBACK: an ACK of the minimum to the source
//              else                                 RECORD: only the retransmission filter is updated
//              the minimum is yet to be found       WALK, PUNT
//   CNP        of the most congested path           PASS
//   SELECTIVE_NAK  of a loss that is news           PASS
//   FATAL_NAK                                       PASS: with the PSN after what was acknowledged to the source
//   READ                                            ANSWER: a fatal NAK to its sender, with the same PSN or its own if that is older
//   COMMAND                                         ANSWER: as the controller says
//
// An acknowledged PSN that comes again means that its ACK was lost between here and the sender. It is answered, not
// dropped (the papers drop it): else the sender would retry until it gives up. A former source may ask so, too,
// when the present one's data has raised the minimum beyond what the asker ever sent: it gets an ACK of no more
// than it asked about, with the MSN that its path counted when it last acknowledged, unless it asks about just the
// minimum, whose MSN is known. No requester takes an answer that is ahead of it.
//
// A requester takes any NAK as an ACK of what is before it. A fatal one therefore leaves with the oldest PSN that
// some receiver may lack, so that it completes no request.
//
// Cepheus, section III-D, and Gleam, algorithms 2 and 3; the rules for READ, fatal NAKs and old data are in no paper.

#ifndef ALFIRK_DECIDE_P4
#define ALFIRK_DECIDE_P4

// `is_final`: feedback that looks no further. `is_answer`: it is old data, or asks on its behalf, and all have it. `forwards_nak`: the packet has become the NAK that waited. `advances_minimum`: the minimum is news to the source.
control Decide(inout headers_t hdr, inout metadata_t meta, in psn_t minimum, in msn_t msn, in bool is_final,
               in bool is_answer, in bool advances_minimum, in bool forwards_nak, in SearchState search, inout port_t egress_port) {
    DataToAck() data_to_ack;

    apply {
        egress_port = meta.source_port[8:0];
        if (is_final && !is_answer) {
            meta.verdict = Verdict.RECORD;
            hdr.aeth.msn = msn;
            if (!forwards_nak && advances_minimum) {
                hdr.bth.psn = minimum;
                hdr.aeth.kind = AETH_ACK;
                hdr.aeth.value = SYNDROME_ACK_NO_CREDITS[4:0];
            }
            if ((forwards_nak || advances_minimum) && meta.source_port != 0) {
                meta.verdict = Verdict.FEEDBACK;
            } else {
                egress_port = meta.origin_port;
            }
        } else if (is_answer || meta.kind == Kind.READ) {
            meta.verdict = Verdict.ANSWER;
            egress_port = meta.origin_port;
            if (meta.kind != Kind.MIN_SEARCH) {
                data_to_ack.apply(hdr);
            }
            hdr.aeth.msn = MSN_NEAR(meta.last_acked[23:0], meta.asker_msn);
            if (meta.kind == Kind.READ) {
                hdr.aeth.kind = AETH_NAK;
                hdr.aeth.value = NAK_INVALID_REQUEST;
                if (meta.is_source == 1) {
                    hdr.aeth.msn = msn;
                }
                // Its sender may have data on the way that some receiver lacks.
                if (PSN_LT(minimum + 1, hdr.bth.psn)) {
                    hdr.bth.psn = minimum + 1;
                }
            } else if (meta.is_source == 1 || hdr.bth.psn == minimum) {
                hdr.bth.psn = minimum;
                hdr.aeth.msn = msn;
            }
        } else if (meta.kind == Kind.DATA) {
            if (meta.min_psn == MinPsn.PUNT && meta.is_retransmission == 1) {
                meta.packet_in_reason = PacketInReason.PROBE;
            }
            if (meta.from_current_source == 1) {
                meta.verdict = Verdict.REPLICATE;
            } else if (meta.role == Role.PROBE) {
                meta.verdict = Verdict.WALK;
                egress_port = meta.origin_port;
            } else if (meta.packet_in_reason == PacketInReason.PROBE) {
                meta.verdict = Verdict.PUNT;
            } else {
                meta.drop_reason = Drop.NOT_THE_SOURCE;
            }
        } else if (meta.kind == Kind.FATAL_NAK) {
            meta.verdict = Verdict.PASS;
            meta.packet_in_reason = PacketInReason.FATAL_NAK;
            hdr.bth.psn = minimum + 1;
            hdr.aeth.msn = msn;
        } else if (meta.kind == Kind.CNP || meta.kind == Kind.SELECTIVE_NAK) {
            meta.verdict = Verdict.PASS;
        } else if (meta.kind == Kind.COMMAND) {
            meta.verdict = Verdict.ANSWER;
            if (hdr.feedback.port != 0) {
                egress_port = hdr.feedback.port[8:0];
            }
            hdr.feedback.setInvalid();
            hdr.packet_out.setInvalid();
        } else if (meta.kind == Kind.MIN_SEARCH && search == SearchState.LOST) {
            meta.drop_reason = Drop.WALK_TAKEN_OVER;
        } else if (search == SearchState.ON) {
            meta.verdict = Verdict.WALK;
            egress_port = meta.origin_port;
        } else {
            meta.verdict = Verdict.PUNT;
            meta.packet_in_reason = PacketInReason.FEEDBACK;
        }

        // A CNP, a fatal NAK or a command before any data.
        if (egress_port == 0 && (meta.verdict == Verdict.PASS || meta.kind == Kind.COMMAND)) {
            meta.drop_reason = Drop.NO_SOURCE;
        }
    }
}

#endif  // ALFIRK_DECIDE_P4
