// Admission of a group's packets, and the register access of the same stage.
//
// One table with the rules of ../v1model/bridge_entry.p4 and ../v1model/classify.p4. The register of what the path has
// acknowledged is updated in the same stage: the result of a table is available to the next table, but a field only to
// the next stage.

#ifndef ALFIRK_ADMISSION_P4
#define ALFIRK_ADMISSION_P4

#include "icrc.p4"
#include "sender.p4"
#include "source_window.p4"
#include "waiting_nak.p4"

// Words computed from the packet alone; first stage.
control PacketWords(inout headers_t hdr, inout ingress_metadata_t meta) {
    action of_ack() {
        meta.acked = meta.psn | 255;
        meta.psn = meta.psn & -PSN_WORD_ONE;
        meta.length_difference = hdr.ipv4.total_len - hdr.udp.length;
        meta.address_difference = hdr.ipv4.src ^ hdr.ipv4.dst;
    }

    action of_others() {
        meta.acked = meta.psn & -PSN_WORD_ONE;
        meta.psn = meta.psn & -PSN_WORD_ONE;
        meta.length_difference = hdr.ipv4.total_len - hdr.udp.length;
        meta.address_difference = hdr.ipv4.src ^ hdr.ipv4.dst;
    }

    table words {
        key = { meta.carried.kind: exact; }
        actions = { of_ack; of_others; }
        const default_action = of_others();
        const entries = {
            Kind.ACK: of_ack();
        }
        size = 2;
    }

    apply {
        words.apply();
    }
}

// Words computed from those; second stage. A NAK acknowledges all packets before its PSN. A sender's own data has the
// largest tie-breaker, so that it loses every tie and the MSN of a receiver is used.
control PathWords(inout headers_t hdr, inout ingress_metadata_t meta) {
    action of_ack() {
        meta.carried.word[31:8] = meta.psn[31:8];
        meta.carried.word[7:0] = meta.tie[7:0];
        meta.top = meta.acked;
    }

    action of_nak() {
        meta.carried.word = meta.psn + meta.tie;
        meta.top = meta.psn - 1;
        // No port has this value. The word is compared like that of data, but must not match the port of the source (sender.p4).
        meta.port_word = 0xffff;
    }

    action of_data() {
        meta.carried.word = meta.psn | (psn_word_t)(bit<32>)PATH_OF_SENDER;
        meta.top = meta.psn - 1;
        meta.nak = meta.psn - PSN_WORD_ONE;
    }

    action of_registers() {
        meta.carried.word = meta.psn + meta.tie;
    }

    table words {
        key = { meta.carried.kind: exact; }
        actions = { of_ack; of_nak; of_data; of_registers; NoAction; }
        const default_action = NoAction();
        const entries = {
            Kind.ACK: of_ack();
            Kind.NAK: of_nak();
            Kind.DATA: of_data();
            Kind.REGISTERS: of_registers();
        }
        size = 16;
    }

    apply {
        words.apply();
    }
}

control Admission(inout headers_t hdr, inout ingress_metadata_t meta, inout bool is_admitted) {
    PathAcknowledged() path_acknowledged;
    PathWords() path_words;
    NakWord() nak_word;
    SourceWindow() source_window;
    IcrcOfRegion() icrc;

    action admit() {
        is_admitted = true;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        hdr.udp.checksum = 0;
    }

    action admit_register_control() {
        is_admitted = true;
    }

    action refuse(bit<8> reason) {
        meta.drop_reason = reason;
    }

    // For packets whose drop reason is already set, and for register control, whose reply has a status.
    action refuse_silently() {}

    action refuse_flawed() {
        meta.drop_reason = meta.flaw;
    }

#define UDP_OFFSET ((bit<16>)UDP_OFFSET_BYTES)
    // A P_Key of the default partition, with either membership bit.
#define PARTITION ((bit<16>)DEFAULT_PARTITION) &&& 0x7fff

    // Receivers drop a request with inconsistent lengths, so it must not be recorded as sent. (The length of the frame itself is not
    // checked, because a parser has no access to it.)
#define REFUSED_REQUEST(kind) \
            (_, _, _, kind, UDP_OFFSET, _, 0, PARTITION, _, _, _, _, _): refuse(Drop.NOT_A_MEMBER); \
            (_, _, _, kind, UDP_OFFSET, _, 0, _, _, _, _, _, _): refuse(Drop.WRONG_PKEY); \
            (_, _, _, kind, UDP_OFFSET, _, _, _, _, _, _, _, _): refuse(Drop.WRONG_QPN); \
            (_, _, _, kind, _, _, _, _, _, _, _, _, _): refuse(Drop.MALFORMED);

    table admission {
        key = {
            meta.carried.is_new: ternary;
            meta.drop_reason: ternary;
            meta.flaw: ternary;
            meta.carried.kind: ternary;
            meta.length_difference: ternary;
            meta.crc: ternary;
            meta.qpn_difference: ternary;
            hdr.bth.pkey: ternary;
            hdr.ipv4.ttl: ternary;
            meta.is_host: ternary;
            meta.is_member: ternary;
            meta.may_send: ternary;
            meta.address_difference: ternary;
        }
        actions = { admit; admit_register_control; refuse; refuse_silently; refuse_flawed; }
        const default_action = refuse(Drop.NOT_A_MEMBER);
        const entries = {
            (1, _, _, Kind.REGISTERS, _, _, _, _, _, _, _, _, _): admit_register_control();
            (_, _, _, Kind.REGISTERS, _, _, _, _, _, _, _, _, _): refuse_silently();
            (_, _, _, Kind.WINDOW, _, _, _, _, _, _, _, _, _): admit_register_control();
            (_, Drop.NOT_A_PATH, _, _, _, _, _, _, _, _, _, _, _): refuse_silently();
            (_, _, Drop.NONE, Kind.NONE, _, _, _, _, _, _, _, _, _): refuse(Drop.UNSUPPORTED_OPCODE);
            (_, _, _, Kind.NONE, _, _, _, _, _, _, _, _, _): refuse_flawed();
            (_, _, _, _, _, _, _, _, 0 &&& 0xfe, _, _, _, _): refuse(Drop.TTL_EXPIRED);
            (_, _, _, Kind.DATA, UDP_OFFSET, _, 0, PARTITION, _, 1, 1, 1, _): admit();
            (_, _, _, Kind.DATA, UDP_OFFSET, _, 0, PARTITION, _, 1, 1, 0, _): refuse(Drop.MAY_NOT_SEND);
            (_, _, _, Kind.DATA, UDP_OFFSET, _, 0, PARTITION, _, 0, _, _, 0): admit();
            // On links between switches: the first switch has already replied to it.
            (_, _, _, Kind.READ, UDP_OFFSET, _, 0, PARTITION, _, 1, 1, _, _): admit();
            (_, _, _, Kind.READ, UDP_OFFSET, _, 0, PARTITION, _, 0, _, _, 0): refuse(Drop.UNSUPPORTED_OPCODE);
            REFUSED_REQUEST(Kind.DATA)
            REFUSED_REQUEST(Kind.READ)
            // The remaining packets are feedback and CNPs, whose length fields are rewritten.
            (_, _, _, _, _, ICRC_RESIDUE, 0, PARTITION, _, 1, 1, _, _): admit();
            (_, _, _, _, _, ICRC_RESIDUE, 0, PARTITION, _, 0, _, _, 0): admit();
            (_, _, _, _, _, ICRC_RESIDUE, 0, PARTITION, _, _, _, _, _): refuse(Drop.NOT_A_MEMBER);
            (_, _, _, _, _, _, 0, PARTITION, _, _, _, _, _): refuse(Drop.FEEDBACK_ICRC);
            (_, _, _, _, _, _, 0, _, _, _, _, _, _): refuse(Drop.WRONG_PKEY);
            (_, _, _, _, _, _, _, _, _, _, _, _, _): refuse(Drop.WRONG_QPN);
        }
        size = 32;
    }

    apply {
        switch (admission.apply().action_run) {
            refuse: {}
            refuse_silently: {}
            refuse_flawed: {}
            default: {
                path_words.apply(hdr, meta);
                path_acknowledged.apply(hdr, meta);
                source_window.apply(meta);
                if (meta.carried.kind == Kind.NAK) {
                    nak_word.apply(hdr, meta);
                }
                if (hdr.mr_info.isValid()) {
                    icrc.apply(hdr, meta.region_crc);
                }
            }
        }
    }
}

#endif  // ALFIRK_ADMISSION_P4
