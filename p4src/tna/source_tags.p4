// VLAN tags of a group's feedback: those of the newest data of its source. See v1model/optional/source_tags.p4.
//
// The parser extracts the EtherType of the Ethernet header and the following 16 bits as one word; also that of the outer tag:
//
//   0x0800 ++ ...        untagged
//   0x8100 ++ tag        0x0800 ++ ...      one tag
//   0x88a8 ++ tag        0x8100 ++ tag      two tags
//
// The copy of data for its own ingress port stores its words here in egress, and is dropped; feedback reads them.

#ifndef ALFIRK_SOURCE_TAGS_P4
#define ALFIRK_SOURCE_TAGS_P4

control SourceTags(inout headers_t hdr, inout egress_metadata_t meta) {
    Register<bit<32>, group_cell_t>(MAX_GROUPS) outers;
    Register<bit<32>, group_cell_t>(MAX_GROUPS) inners;

#define TAG_WORD(array, write, clear, read, word) \
    RegisterAction<bit<32>, group_cell_t, bit<32>>(array) write = { \
        void apply(inout bit<32> value) { value = word; } \
    }; \
    RegisterAction<bit<32>, group_cell_t, bit<32>>(array) clear = { \
        void apply(inout bit<32> value) { value = 0; } \
    }; \
    RegisterAction<bit<32>, group_cell_t, bit<32>>(array) read = { \
        void apply(inout bit<32> value, out bit<32> known) { known = value; } \
    }; \
    action do_##write() { write.execute(CELL_GROUP(meta.carried.cell)); } \
    action do_##clear() { clear.execute(CELL_GROUP(meta.carried.cell)); } \
    action do_##read() { word = read.execute(CELL_GROUP(meta.carried.cell)); }

    TAG_WORD(outers, write_outer, clear_outer, read_outer, meta.outer_word)
    TAG_WORD(inners, write_inner, clear_inner, read_inner, meta.inner_word)

#define TAG_TABLE(name, write, clear, read) \
    EGRESS_PRIORITY(5) \
    table name { \
        key = { meta.access: exact; } \
        actions = { do_##write; do_##clear; do_##read; NoAction; } \
        const default_action = NoAction(); \
        const entries = { \
            Access.INIT: do_##clear(); \
            Access.OWN_COPY: do_##write(); \
            Access.OWN_NEW_COPY: do_##write(); \
            Access.OWN: do_##read(); \
            Access.PATH: do_##read(); \
            Access.LAST_ACKED: do_##read(); \
            Access.REPLY_PATH: do_##read(); \
            Access.CNP: do_##read(); \
        } \
        size = 8; \
    }

    TAG_TABLE(outer_words, write_outer, clear_outer, read_outer)
    TAG_TABLE(inner_words, write_inner, clear_inner, read_inner)

    action one_tag() {
        hdr.ethernet.ether_type = meta.outer_word[31:16];
        hdr.outer_tag.setValid();
        hdr.outer_tag.pcp = meta.outer_word[15:13];
        hdr.outer_tag.dei = meta.outer_word[12:12];
        hdr.outer_tag.vid = meta.outer_word[11:0];
        hdr.outer_tag.ether_type = ETHERTYPE_IPV4;
    }

    action two_tags() {
        hdr.ethernet.ether_type = meta.outer_word[31:16];
        hdr.outer_tag.setValid();
        hdr.outer_tag.pcp = meta.outer_word[15:13];
        hdr.outer_tag.dei = meta.outer_word[12:12];
        hdr.outer_tag.vid = meta.outer_word[11:0];
        hdr.outer_tag.ether_type = meta.inner_word[31:16];
        hdr.inner_tag.setValid();
        hdr.inner_tag.pcp = meta.inner_word[15:13];
        hdr.inner_tag.dei = meta.inner_word[12:12];
        hdr.inner_tag.vid = meta.inner_word[11:0];
        hdr.inner_tag.ether_type = ETHERTYPE_IPV4;
    }

    // ../shared/feedback_frame.p4 has removed all tags before.
    table tags {
        key = {
            meta.outer_word[31:16]: ternary @name("outer_type");
            meta.inner_word[31:16]: ternary @name("inner_type");
        }
        actions = { one_tag; two_tags; NoAction; }
        const default_action = NoAction();
        const entries = {
            (ETHERTYPE_C_TAG, ETHERTYPE_C_TAG): two_tags();
            (ETHERTYPE_S_TAG, ETHERTYPE_C_TAG): two_tags();
            (ETHERTYPE_C_TAG, _): one_tag();
            (ETHERTYPE_S_TAG, _): one_tag();
        }
        size = 4;
    }

    apply {
        outer_words.apply();
        inner_words.apply();
        if (hdr.aeth.isValid() || hdr.cnp.isValid()) {
            tags.apply();
        }
    }
}

#endif  // ALFIRK_SOURCE_TAGS_P4
