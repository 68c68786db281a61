// Headers that the exercises share.

#ifndef COMMON_P4
#define COMMON_P4

#include <core.p4>
#include <v1model.p4>

typedef bit<48> mac_t;
typedef bit<32> ipv4_address_t;
typedef bit<9>  port_t;

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8> PROTOCOL_TCP = 6;
const bit<8> PROTOCOL_UDP = 17;

header ethernet_t {
    mac_t   dst;
    mac_t   src;
    bit<16> type;
}

header ipv4_t {
    bit<4>         version;
    bit<4>         ihl;
    bit<6>         dscp;
    bit<2>         ecn;
    bit<16>        length;
    bit<16>        id;
    bit<3>         flags;
    bit<13>        offset;
    bit<8>         ttl;
    bit<8>         protocol;
    bit<16>        checksum;
    ipv4_address_t src;
    ipv4_address_t dst;
}

header tcp_t {
    bit<16> src;
    bit<16> dst;
    bit<32> seq;
    bit<32> ack;
    bit<4>  offset;
    bit<4>  reserved;
    bit<8>  flags;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

header udp_t {
    bit<16> src;
    bit<16> dst;
    bit<16> length;
    bit<16> checksum;
}

#define IPV4_SUMMED(ip) \
    {ip.version, ip.ihl, ip.dscp, ip.ecn, ip.length, ip.id, ip.flags, ip.offset, ip.ttl, ip.protocol, ip.src, ip.dst}

#endif
