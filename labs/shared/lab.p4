// Headers, parser and deparser of the labs on feedback. Nothing to change here.

#include <core.p4>
#include <v1model.p4>

const bit<16> ETHERTYPE_LAB = 0x88b6;

const bit<8> KIND_DATA = 0;  // sender to receivers
const bit<8> KIND_ACK = 1;   // receiver to sender: "I have everything up to psn"
const bit<8> KIND_NAK = 2;   // receiver to sender: "psn is missing; I have everything before it"
const bit<8> KIND_MARK = 0xff;  // of the check: sent out of the port whose number is its psn

#ifndef RECEIVERS
#define RECEIVERS 3
#endif

const bit<9> SENDER = 1;          // the sender's port
const bit<9> FIRST_RECEIVER = 2;  // the receivers' ports follow one another
const bit<9> LAST_RECEIVER = 1 + RECEIVERS;
const bit<16> ALL_RECEIVERS = 1;  // multicast group of the receivers' ports

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

header lab_t {
    bit<8> kind;
    bit<24> psn;  // packet sequence number
}

struct headers_t {
    ethernet_t ethernet;
    lab_t lab;
}

struct metadata_t {
}

parser LabParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_LAB: parse_lab;
            default: accept;
        }
    }

    state parse_lab {
        packet.extract(hdr.lab);
        transition accept;
    }
}

control NoVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    apply { }
}

control NoUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control LabDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.lab);
    }
}
