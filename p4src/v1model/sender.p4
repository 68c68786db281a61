// Who is the present source, and what has it sent?
//
//   from the source's port   any PSN counts, up to `window` beyond what was last acknowledged to the source
//   from another port        only the PSN that comes next, both in the group and on that path: then the source is there.
//                            The same while there is no source yet.
//
// The window keeps a source from moving `sent` so far that nobody else's PSN is the next one any more, nor has an order with
// what receivers have acknowledged.
//
// A source may begin when all members have what was sent before (docs/book/src/dataplane.md, "The source"). So its
// first PSN follows the newest that came through here, and its path has acknowledged all before it. Everything else
// would be a member's way to take the group over, or to speak for what others behind the same port have not received.
//
// Old data from a port that is no longer the source's changes nothing; it is answered if all have it (decide.p4), for
// the ACK of a source's tail may be lost when the next one has begun.
//
// Feedback beyond what was sent acknowledges nothing that anybody has; and PSNs that are half their number space
// apart have no order, so it must not come into the tree. But it is recorded as the path's claim: after a restart the
// controller sees in the claims of all paths how far the group was. A NAK of sent + 1 is an ACK of what was sent: nothing is lost yet.
//
// A fatal NAK ends the source's queue pair, so it must be of a request that was sent and that its path has not acknowledged: a
// receiver refuses the request that it expects next.
//
// Cepheus, section III-E, and Gleam, appendix B, see the source's change in the same place; what makes it safe is in no paper.

#ifndef ALFIRK_SENDER_P4
#define ALFIRK_SENDER_P4

// `last_acked`: the newest PSN that was acknowledged to the source.
control Sender(inout headers_t hdr, inout metadata_t meta, in psn_t last_acked) {
    // The newest PSN that each path has acknowledged, true or not: its claim. It counts for nothing but the path's own turn as
    // the source. It may be beyond what was sent: whoever has begun to send acknowledges its own, too.
    register<psn_t>(SIZE_PATHS) acked;
    // Port of the source, 0 if there was none yet ++ the newest PSN that was sent.
    register<bit<40>>(MAX_GROUPS) senders;
    RegisterAccess(RegisterName.ACK, RegisterOp.INIT_GROUP) access_acked;
    RegisterAccess(RegisterName.CLAIMED, RegisterOp.INIT_GROUP) access_claimed;
    RegisterAccess(RegisterName.SRC_PORT, RegisterOp.INIT_GROUP) access_source;
    RegisterAccess(RegisterName.SENT, RegisterOp.INIT_GROUP) access_sent;
    bit<32> path;
    psn_t newest;
    bit<40> known;
    bit<16> source;
    bit<16> port;
    psn_t sent;
    bit<64> value;

    apply {
        path = ((bit<32>)meta.group_index << PATH_BITS) | (bit<32>)meta.path_index;
        acked.read(newest, path);
        if (meta.is_feedback == 1) {
            if (PSN_LT(newest, meta.acked_psn)) {
                acked.write(path, meta.acked_psn);
            }
        } else if (meta.kind == Kind.REGISTERS) {
            value = (bit<64>)(newest ++ 8w0);
            access_acked.apply(hdr, (bit<64>)(INITIAL_PSN(hdr) ++ 8w0), value);
            newest = value[31:8];
            value = (bit<64>)newest;
            access_claimed.apply(hdr, (bit<64>)INITIAL_PSN(hdr), value);
            acked.write(path, value[23:0]);
        }

        senders.read(known, (bit<32>)meta.group_index);
        source = known[39:24];
        sent = known[23:0];
        port = (bit<16>)meta.origin_port;
        if (meta.kind == Kind.DATA) {
            meta.from_current_source = (bit<1>)(source == port || (hdr.bth.psn == sent + 1 && !PSN_LT(newest, sent)));
            if (PSN_LT(sent, hdr.bth.psn)) {
                if (meta.from_current_source == 0) {
                    meta.drop_reason = Drop.NOT_THE_SOURCE;
                } else if (hdr.bth.psn - last_acked > meta.window) {
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
        } else if (meta.kind == Kind.REGISTERS) {
            value = (bit<64>)source;
            access_source.apply(hdr, 0, value);
            source = value[15:0];
            value = (bit<64>)sent;
            access_sent.apply(hdr, (bit<64>)INITIAL_PSN(hdr), value);
            senders.write((bit<32>)meta.group_index, source ++ value[23:0]);
        }
        meta.source_port = source;
        meta.is_source = (bit<1>)(source == port);
    }
}

#endif  // ALFIRK_SENDER_P4
