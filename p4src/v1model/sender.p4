// The current source and the newest PSN sent.
//
//   from the source's port   any PSN is accepted, up to `window` beyond the last acknowledged PSN
//   from another port        only the next PSN of the group is accepted, if that path has acknowledged all before it; the port
//                            then becomes the source's. The same applies while there is no source.
//
// The window limits how far a source can advance `sent`. Otherwise no other member could have the next PSN, and `sent` would
// have no serial order with what receivers have acknowledged.
//
// A member may become the source when all members have what was sent before (docs/book/src/dataplane.md, "The source"). So its
// first PSN follows the newest one sent through this switch, and its path has acknowledged all before it. With weaker rules
// a member could take the group over, or acknowledge what others behind the same port have not received.
//
// Old data from a port that is no longer the source's changes no state. It is acknowledged if all paths have it (decide.p4),
// because the last ACK of a source may be lost after the next source has begun.
//
// Feedback beyond the newest PSN sent is invalid, and PSNs half the space apart have no serial order, so it must not enter the
// tree. It is only recorded as the path's claim: after a restart the controller reads the position of the group from the
// claims of all paths. A NAK of sent + 1 is an ACK of what was sent: no packet is missing.
//
// A fatal NAK ends the source's queue pair. So it is accepted only for a request that was sent and that its path has not
// acknowledged: a receiver can reject only the request that it expects next.
//
// Cepheus, section III-E, and Gleam, appendix B, detect the source's change in the same place; the safety rules are in no paper.

#ifndef ALFIRK_SENDER_P4
#define ALFIRK_SENDER_P4

// Sets the port of the source in `state`, and whether the packet is from it.
control Sender(inout headers_t hdr, inout metadata_t meta, inout group_state_t state) {
    bit<32> path;
    psn_t newest;
    bit<40> known;
    bit<16> source;
    bit<16> port;
    psn_t sent;

    apply {
        path = ((bit<32>)meta.group_index << PATH_BITS) | (bit<32>)meta.path_index;
        // The claim is not verified; it is used only to decide whether the path may become the source. It may be beyond `sent`,
        // because a member that has begun to send also acknowledges its own data.
        claimed_psns.read(newest, path);
        if (meta.is_feedback == 1 && PSN_LT(newest, meta.acked_psn)) {
            claimed_psns.write(path, meta.acked_psn);
        }

        senders.read(known, (bit<32>)meta.group_index);
        source = known[39:24];
        sent = known[23:0];
        port = (bit<16>)meta.origin_port;
        if (meta.kind == Kind.DATA) {
            state.from_current_source = (bit<1>)(source == port || (hdr.bth.psn == sent + 1 && !PSN_LT(newest, sent)));
            if (PSN_LT(sent, hdr.bth.psn)) {
                if (state.from_current_source == 0) {
                    meta.drop_reason = Drop.NOT_THE_SOURCE;
                } else if (hdr.bth.psn - state.last_acked[47:24] > meta.window) {
                    meta.drop_reason = Drop.BEYOND_WINDOW;
                } else {
                    source = port;
                    senders.write((bit<32>)meta.group_index, port ++ hdr.bth.psn);
                }
            }
        } else if (meta.is_feedback == 1 || meta.kind == Kind.FATAL_NAK || meta.kind == Kind.SELECTIVE_NAK) {
            if (PSN_LT(sent, meta.acked_psn) || (meta.kind == Kind.FATAL_NAK && meta.acked_psn == sent)) {
                meta.drop_reason = Drop.BEYOND_SENT;
            } else if (meta.kind == Kind.FATAL_NAK && !PSN_LT(newest, hdr.bth.psn)) {
                meta.drop_reason = Drop.STALE_NAK;
            } else if (meta.kind == Kind.NAK && meta.acked_psn == sent) {
                meta.kind = Kind.ACK;
                hdr.bth.psn = sent;
                hdr.aeth.kind = AETH_ACK;
                hdr.aeth.value = SYNDROME_ACK_NO_CREDITS[4:0];
            }
        }
        state.source_port = source;
        state.is_source = (bit<1>)(source == port);
    }
}

#endif  // ALFIRK_SENDER_P4
