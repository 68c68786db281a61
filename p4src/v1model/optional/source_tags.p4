// VLAN tags and DSCP of a group's feedback: those of the newest data of its source.
//
// A source on a tagged link accepts only tagged ACKs, one on an untagged link only untagged ones. Tags of a member's feedback
// may differ (feedback_frame.p4 removes them), and entries of groups contain no tags. So the tags of the source's data
// are used. The same applies to the DSCP: a queue pair must use its lossless class (PFC) in both directions.
//
// IEEE 802.1Q, section 9.6.

#ifndef ALFIRK_SOURCE_TAGS_P4
#define ALFIRK_SOURCE_TAGS_P4

control SourceTags(inout headers_t hdr, in metadata_t meta, in Verdict verdict) {
    bit<72> known;
    bit<66> own;

    apply {
        data_tags.read(known, (bit<32>)meta.group_index);
        if (verdict == Verdict.REPLICATE) {
            own = 0;
            if (hdr.outer_tag.isValid()) {
                own = 2w1 ++ hdr.ethernet.ether_type ++ hdr.outer_tag.pcp ++ hdr.outer_tag.dei ++ hdr.outer_tag.vid
                    ++ 32w0;
            }
            if (hdr.inner_tag.isValid()) {
                own = 2w2 ++ own[63:32] ++ hdr.outer_tag.ether_type ++ hdr.inner_tag.pcp ++ hdr.inner_tag.dei
                    ++ hdr.inner_tag.vid;
            }
            if (hdr.ipv4.dscp ++ own != known) {
                data_tags.write((bit<32>)meta.group_index, hdr.ipv4.dscp ++ own);
            }
        } else if (verdict == Verdict.FEEDBACK || verdict == Verdict.PASS
                   || verdict == Verdict.ANSWER) {
            hdr.ipv4.dscp = known[71:66];
            if (known[65:64] != 0) {
                hdr.ethernet.ether_type = known[63:48];
                hdr.outer_tag.setValid();
                hdr.outer_tag.pcp = known[47:45];
                hdr.outer_tag.dei = known[44:44];
                hdr.outer_tag.vid = known[43:32];
                hdr.outer_tag.ether_type = ETHERTYPE_IPV4;
            }
            if (known[65:64] == 2) {
                hdr.outer_tag.ether_type = known[31:16];
                hdr.inner_tag.setValid();
                hdr.inner_tag.pcp = known[15:13];
                hdr.inner_tag.dei = known[12:12];
                hdr.inner_tag.vid = known[11:0];
                hdr.inner_tag.ether_type = ETHERTYPE_IPV4;
            }
        }
    }
}

#endif  // ALFIRK_SOURCE_TAGS_P4
