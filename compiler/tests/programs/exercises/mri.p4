// Multi-hop route inspection: each switch adds its id and queue depth behind an IPv4 option.

#include "common.p4"

#define MAX_HOPS 9

const bit<5> OPTION_MRI = 31;

error { OptionTooShort }

header option_t {
    bit<1> copied;
    bit<2> class;
    bit<5> number;
    bit<8> length;
}

header mri_t {
    bit<16> count;
}

header hop_t {
    bit<32> switch_id;
    bit<32> depth;
}

struct headers_t {
    ethernet_t      ethernet;
    ipv4_t          ipv4;
    option_t        option;
    mri_t           mri;
    hop_t[MAX_HOPS] hops;
}

struct metadata_t {
    bit<16> remaining;
}

parser MriParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        verify(hdr.ipv4.ihl >= 5, error.HeaderTooShort);
        transition select(hdr.ipv4.ihl) {
            5: accept;
            default: parse_option;
        }
    }
    state parse_option {
        packet.extract(hdr.option);
        verify(hdr.option.length >= 4, error.OptionTooShort);
        transition select(hdr.option.number) {
            OPTION_MRI: parse_mri;
            default: accept;
        }
    }
    state parse_mri {
        packet.extract(hdr.mri);
        meta.remaining = hdr.mri.count;
        transition select(meta.remaining) {
            0: accept;
            default: parse_hop;
        }
    }
    state parse_hop {
        packet.extract(hdr.hops.next);
        meta.remaining = meta.remaining - 1;
        transition select(meta.remaining) {
            0: accept;
            default: parse_hop;
        }
    }
}

control MriVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MriIngress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    apply {
        if (standard_metadata.parser_error != error.NoError) {
            mark_to_drop(standard_metadata);
        } else {
            standard_metadata.egress_spec = 2;
        }
    }
}

control MriEgress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    action add_hop(bit<32> id) {
        hdr.mri.count = hdr.mri.count + 1;
        hdr.hops.push_front(1);
        hdr.hops[0].setValid();
        hdr.hops[0].switch_id = id;
        hdr.hops[0].depth = (bit<32>)standard_metadata.deq_qdepth;
        hdr.ipv4.ihl = hdr.ipv4.ihl + 2;
        hdr.option.length = hdr.option.length + 8;
        hdr.ipv4.length = hdr.ipv4.length + 8;
    }

    table swtrace {
        actions = { add_hop; NoAction; }
        default_action = NoAction();
    }

    apply {
        if (hdr.mri.isValid()) {
            swtrace.apply();
        }
    }
}

control MriCompute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MriDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.option);
        packet.emit(hdr.mri);
        packet.emit(hdr.hops);
    }
}

V1Switch(MriParser(), MriVerify(), MriIngress(), MriEgress(), MriCompute(), MriDeparser()) main;
