// Headers and parser of the labs on RoCEv2 packets. Nothing to change here.
// At its end a program includes roce_switch.p4.

#include <core.p4>
#include <v1model.p4>
#include "../../p4src/shared/constants.p4"
#include "../../p4src/shared/headers.p4"

const bit<16> ETHERTYPE_LAB = 0x88b6;
const bit<8> KIND_MARK = 0xff;
const bit<9> SENDER = 1;  // where acknowledgements go

// Of the check: sent out of the port whose number it contains.
header mark_t {
    bit<8> kind;
    bit<24> port;
}

struct lab_headers_t {
    ethernet_t ethernet;
    mark_t mark;
    arp_t arp;
    ipv4_t ipv4;
    udp_t udp;
    bth_t bth;
    payload_t payload;
    icrc_t icrc;
}

struct metadata_t {
}

parser LabParser(packet_in packet, out lab_headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_LAB: parse_mark;
            ETHERTYPE_ARP: parse_arp;
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_mark {
        packet.extract(hdr.mark);
        transition accept;
    }

    state parse_arp {
        packet.extract(hdr.arp);
        transition accept;
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl, hdr.ipv4.protocol) {
            (4w5, IP_PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst_port) {
            UDP_PORT_ROCEV2: parse_bth;
            default: accept;
        }
    }

    state parse_bth {
        packet.extract(hdr.bth);
        packet.extract(hdr.payload, (bit<32>)(hdr.udp.length - UDP_OVERHEAD_BYTES) << 3);
        packet.extract(hdr.icrc);
        transition accept;
    }
}
