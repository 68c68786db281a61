// Every header that the pipelines know, in the order of the wire.

#ifndef ALFIRK_HEADERS_P4
#define ALFIRK_HEADERS_P4

#include "types.p4"

// Frames to and from the controller (P4Runtime spec, "Packet I/O").
@controller_header("packet_in")
header packet_in_t {
    bit<8> reason;
    bit<7> pad;
    port_t ingress_port;
}

@controller_header("packet_out")
header packet_out_t {
    bit<8> kind;
    bit<7> pad;
    port_t egress_port;
}

// Register access by PacketOut, which works on every target: P4Runtime servers of
// BMv2 refuse RegisterEntry. The answer is the same header in a PacketIn.
//   INIT_GROUP  all state of `group` for `count` paths as before PSN value[23:0], after value[47:24] messages; on Tofino the source is
//               behind port value[63:48], on v1model it is where the next data comes from
//   READ        value := reg of `group` (and of path `index`, where it is per path)
//   WRITE       the other way round
//   INIT_REGIONS  what `count` receivers, from `group` ++ `index` on, got announced of memory: as before PSN value[23:0]
// `index` counts the paths done while INIT_GROUP recirculates. Of registers that have a cell for each receiver, `group` ++
// `index` is the receiver's number.
@contract header register_control_t {
    bit<8> op;
    bit<8> status;
    bit<8> reg;
    bit<8> count;
    bit<16> group;
    bit<16> index;
    bit<64> value;
    bit<32> cookie;
}

// Before an ACK or NAK that goes to the controller or comes from it (MinPsn.PUNT).
//   PacketIn   `port` is the source's (0: none yet), with what was last acknowledged to it
//   PacketOut  the feedback to send, through `port`; 0 means the source's
@contract header feedback_t {
    bit<16> group;
    bit<16> port;
    psn_t agg_psn;
    msn_t agg_msn;
}

header ethernet_t {
    mac_t dst;
    mac_t src;
    bit<16> ether_type;
}

// A VLAN or priority tag, behind the EtherType that announces it (IEEE 802.1Q, section 9.6).
header vlan_tag_t {
    bit<3> pcp;
    bit<1> dei;
    bit<12> vid;
    bit<16> ether_type;
}

#define TAGS_BYTES(hdr) \
    (hdr.inner_tag.isValid() ? 2 * TAG_BYTES : (hdr.outer_tag.isValid() ? TAG_BYTES : 0))

header arp_t {
    bit<16> htype;
    bit<16> ptype;
    bit<8> hlen;
    bit<8> plen;
    bit<16> oper;
    mac_t sender_mac;
    ipv4_addr_t sender_ip;
    mac_t target_mac;
    ipv4_addr_t target_ip;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<6> dscp;
    bit<2> ecn;
    bit<16> total_len;
    bit<16> identification;
    bit<3> flags;
    bit<13> frag_offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    ipv4_addr_t src;
    ipv4_addr_t dst;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

// Base transport header (IBTA vol. 1, section 9.2).
header bth_t {
    bit<8> opcode;
    bit<1> solicited_event;
    bit<1> mig_req;
    bit<2> pad_count;
    bit<4> tver;
    bit<16> pkey;
    bit<1> fecn;
    bit<1> becn;
    bit<6> reserved_a;
    qpn_t dest_qp;
    bit<1> ack_req;
    bit<7> reserved_b;
    psn_t psn;
}

// RDMA extended transport header (IBTA vol. 1, section 9.3.3).
header reth_t {
    bit<64> va;
    bit<32> r_key;
    bit<32> dma_length;
}

// ACK extended transport header (IBTA vol. 1, section 9.3.5).
header aeth_t {
    bit<3> kind;
    bit<5> value;
    msn_t msn;
}

// The 16 bytes behind the BTH of a CNP (IBTA annex A17.9.3).
header cnp_t {
    bit<128> reserved;
}

// XOR differences between what the sender writes to and a receiver's memory region, with the constants
// that keep the ICRC of a packet with a RETH (memory_regions.p4).
header mr_info_t {
    bit<64> va_xor;
    bit<32> rkey_xor;
    bit<16> id_xor;
    bit<16> sport_xor;
}

#ifndef NO_PAYLOAD_HEADER
// Immediate data, payload and padding, up to an MTU of 4096; parsed for IcrcMode.RECOMPUTE alone. A target that cannot
// hash a payload says NO_PAYLOAD_HEADER.
header payload_t {
    varbit<32800> data;
}
#endif

// Invariant CRC, least significant byte first (IBTA vol. 1, section 7.8.1 and annex A17).
// Parsed only where it is computed: elsewhere it stays at the end of the payload, untouched.
header icrc_t {
    bit<32> crc;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    register_control_t register_control;
    feedback_t feedback;
    ethernet_t ethernet;
    vlan_tag_t outer_tag;
    vlan_tag_t inner_tag;
    arp_t arp;
    ipv4_t ipv4;
    udp_t udp;
    bth_t bth;
    reth_t reth;
    aeth_t aeth;
    cnp_t cnp;
    mr_info_t mr_info;
#ifndef NO_PAYLOAD_HEADER
    payload_t payload;
#endif
    icrc_t icrc;
}

#endif  // ALFIRK_HEADERS_P4
