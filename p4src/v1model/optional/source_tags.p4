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
    bit<41> known;
    bit<41> own;

    apply {
        data_tags.read(known, (bit<32>)meta.group_index);
        if (verdict == Verdict.REPLICATE) {
            own = hdr.ipv4.dscp ++ 35w0;
            if (hdr.outer_tag.isValid()) {
                own[34:34] = 1;
                own[33:33] = hdr.ethernet.ether_type == ETHERTYPE_S_TAG ? 1w1 : 1w0;
                own[32:17] = hdr.outer_tag.pcp ++ hdr.outer_tag.dei ++ hdr.outer_tag.vid;
            }
            if (hdr.inner_tag.isValid()) {
                own[16:0] = 1w1 ++ hdr.inner_tag.pcp ++ hdr.inner_tag.dei ++ hdr.inner_tag.vid;
            }
            if (own != known) {
                data_tags.write((bit<32>)meta.group_index, own);
            }
        } else if (verdict == Verdict.FEEDBACK || verdict == Verdict.PASS
                   || verdict == Verdict.ANSWER) {
            hdr.ipv4.dscp = known[40:35];
            if (known[34:34] == 1) {
                hdr.ethernet.ether_type = known[33:33] == 1 ? ETHERTYPE_S_TAG : ETHERTYPE_C_TAG;
                hdr.outer_tag.setValid();
                hdr.outer_tag.pcp = known[32:30];
                hdr.outer_tag.dei = known[29:29];
                hdr.outer_tag.vid = known[28:17];
                hdr.outer_tag.ether_type = ETHERTYPE_IPV4;
            }
            if (known[16:16] == 1) {
                hdr.outer_tag.ether_type = ETHERTYPE_C_TAG;
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
