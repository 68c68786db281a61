// All headers of the pipelines, in wire order.

#ifndef ALFIRK_HEADERS_P4
#define ALFIRK_HEADERS_P4

#include "types.p4"

// Frames to and from the controller (P4Runtime spec, "Packet I/O").
@controller_header("packet_in")
header packet_in_t {
    bit<8> reason;
    bit<7> pad;
    port_id_t ingress_port;
}

@controller_header("packet_out")
header packet_out_t {
    bit<8> kind;
    bit<7> pad;
    port_id_t egress_port;
}

// Register access by PacketOut, which works on every target: the P4Runtime server of
// BMv2 rejects RegisterEntry. The reply is the same header in a PacketIn.
//   INIT_GROUP  initialises `group` with `count` paths: the next PSN is value[23:0], the MSN value[47:24]; on Tofino the port of the
//               source is value[63:48], on v1model the sender of the next data becomes the source
//   READ        value := reg of `group` (and of path `index`, if it has a cell per path)
//   WRITE       reg of `group` (and of path `index`) := value
//   INIT_REGIONS  clears the memory regions announced to `count` receivers, from slot `group` ++ `index` on. Announcements with
//               PSN value[23:0] or newer are accepted from then on
// While INIT_GROUP recirculates, `index` is the number of initialised paths. For registers with a cell per receiver, `group` ++
// `index` is the receiver's slot.
@contract header register_control_t {
    bit<8> op;  // operation, a RegisterOp
    bit<8> status;  // result of the operation, a RegisterStatus, in replies
    bit<8> reg;  // register to read or write, a RegisterName
    bit<8> count;  // number of paths or receivers to initialise
    bit<16> group;  // index of the group
    bit<16> index;  // path index; while INIT_GROUP recirculates, number of initialised paths
    bit<64> value;  // value read or to be written
    bit<32> cookie;  // number chosen by the controller to match the reply with its request
}

// Header before an ACK or NAK to or from the controller, for groups whose minimum PSN it computes (MinPsn.PUNT).
//   PacketIn   `port` leads to the source (0: none yet); PSN and MSN are those last acknowledged to it
//   PacketOut  the switch sends the ACK or NAK through `port`, or if that is 0 through the port of the source
@contract header feedback_t {
    bit<16> group;  // index of the group
    bit<16> port;  // in PacketIn the port of the source, in PacketOut the egress port
    psn_t agg_psn;  // PSN last acknowledged to the source
    msn_t agg_msn;  // MSN last acknowledged to the source
}

header ethernet_t {
    mac_t dst;
    mac_t src;
    bit<16> ether_type;
}

// A VLAN or priority tag, after the EtherType that announces it (IEEE 802.1Q, section 9.6).
header vlan_tag_t {
    bit<3> pcp;
    bit<1> dei;
    bit<12> vid;
    bit<16> ether_type;
}

#define TAGS_BYTES(hdr) \
    (hdr.inner_tag.isValid() ? 2 * TAG_BYTES : (hdr.outer_tag.isValid() ? TAG_BYTES : 0))
// UDP length of a request without its payload.
#define UDP_OVERHEAD(hdr) (hdr.reth.isValid() ? UDP_OVERHEAD_WITH_RETH_BYTES : UDP_OVERHEAD_BYTES)

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

// The 16 reserved bytes after the BTH of a CNP (IBTA annex A17.9.3).
header cnp_t {
    bit<128> reserved;
}

// XOR differences from the sender's virtual address and R_Key to those of a receiver's memory region, for the RETH of a
// WRITE. The XOR constants for the IPv4 identification and the UDP source port keep the ICRC valid (memory_regions.p4).
header mr_info_t {
    bit<64> va_xor;
    bit<32> rkey_xor;
    bit<16> id_xor;
    bit<16> sport_xor;
}

#ifndef NO_PAYLOAD_HEADER
// Immediate data, payload and padding, up to an MTU of 4096; parsed only for IcrcMode.RECOMPUTE. A target that cannot
// hash a payload defines NO_PAYLOAD_HEADER.
header payload_t {
    varbit<32800> data;
}
#endif

// Invariant CRC, least significant byte first (IBTA vol. 1, section 7.8.1 and annex A17).
// Parsed only if the pipeline computes it; otherwise it remains unchanged at the end of the payload.
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
