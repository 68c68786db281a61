// Metadata of a packet, and constants of Tofino.

#ifndef ALFIRK_METADATA_P4
#define ALFIRK_METADATA_P4

#include "../shared/kinds.p4"
#include "../shared/sizes.p4"
#include "../shared/types.p4"

// CPU port and recirculation port.
#ifndef CPU_PORT
#if __TARGET_TOFINO__ == 2
#define CPU_PORT 2
#else
#define CPU_PORT 64
#endif
#endif
#ifndef RECIRCULATION_PORT
#if __TARGET_TOFINO__ == 2
#define RECIRCULATION_PORT 6
#else
#define RECIRCULATION_PORT 68
#endif
#endif

// Word: a PSN in the upper 24 bits of a signed integer, so that the sign of a difference is the sign of the serial
// difference, and a tie-breaker in the lower 8 bits.
typedef int<32> psn_word_t;
const psn_word_t PSN_WORD_ONE = 256;

// Register index of a path: group ++ path.
typedef bit<16> cell_t;
typedef bit<(16 - PATH_BITS)> group_cell_t;
#define CELL_GROUP(cell) ((cell)[15:PATH_BITS])

#if GROUP_BITS + PATH_BITS > 16
#error "a register has at most 2^16 cells here: GROUP_BITS + PATH_BITS must not exceed 16"
#endif

// Origin of a packet in egress (carried_t.origin): the decision of ingress on the packet and on its mirror.
enum bit<8> Origin {
    SWITCHED = 1,  // the packet that ingress has forwarded
    RECORD = 2,  // mirror of feedback, which updates the registers of its path in egress
    ANSWER = 3,  // mirror of a request, which becomes the reply
    PACKET_IN = 4,  // mirror to the controller
    DATAGRAM = 5  // a datagram that ingress has replicated: one copy for each port but its own
}

// How a packet accesses the registers of paths and groups in egress (retransmission_filter.p4, source_tags.p4). One table
// determines it, and the tables of the registers match only it.
enum bit<4> Access {
    NONE = 0,  // none
    RECORD = 1,  // a record, which updates its path
    OLD_RECORD = 2,  // an old record, which does not update the MSN
    INIT = 3,  // register control
    OWN = 4,  // feedback of the path that is at the minimum
    PATH = 5,  // feedback while another path is at the minimum, or a reply with that path's MSN
    LAST_ACKED = 6,  // the same with the MSN last sent to the source: a sender is at the minimum, and has no MSN
    REPLY_PATH = 7,  // a reply with the MSN of the path that it goes to
    CNP = 8,  // a CNP
    COPY = 9,  // retransmitted data for another path
    OWN_COPY = 10,  // retransmitted data for the path that it came from
    OWN_NEW_COPY = 11  // new data for the path that it came from
}

// Mirrors are sent to the ingress port or the CPU port.
const MirrorType_t MIRROR_TO_ORIGIN = 1;

// Session of mirrors to the CPU port: its port number, as for other ports; Tofino 2 has 256 sessions.
const MirrorId_t SESSION_TO_CPU = CPU_PORT % (1 << MIRROR_ID_WIDTH);

// Session of mirrors to the recirculation port: its port number. The record of feedback that has advanced the minimum
// recirculates, and advances the source's window in ingress (source_window.p4). The port is in the pipe of the CPU port, as
// all ports of groups must be, because their registers are initialised from there (register_control.p4).
const MirrorId_t SESSION_TO_RECIRCULATION = RECIRCULATION_PORT;

// Session of registration packets to the CPU port, with a different truncation length. No port has this number.
const MirrorId_t SESSION_OF_REGISTRATIONS = (1 << MIRROR_ID_WIDTH) - 1;

// register_control.op of the packet that advances the window; not used by the controller.
const bit<8> REGISTER_OP_RAISE_WINDOW = 0x80;

// Header from ingress to egress, in front of each packet and each mirror.
header carried_t {
    Origin origin;
    @padding bit<4> pad_0;
    Kind kind;
    @padding bit<4> pad_1;
    // Feedback older than its path's newest PSN.
    bit<1> is_old;
    // Data: its PSN is new. Feedback: it has advanced the minimum. Register control: it sets the registers.
    bit<1> is_new;
    // The packet is from the port of the current source. Register control: it clears memory regions.
    bit<1> is_source;
    // The reply has the packet's own PSN: a NAK that is forwarded to the source, or a READ that is refused.
    bit<1> is_own_nak;
    bit<8> packet_in_reason;
    @padding bit<7> pad_2;
    port_t ingress_port;
    cell_t cell;
    // Oldest word so far; the group's minimum after the last level.
    psn_word_t minimum;
    // Word of the pending NAK that replaces this feedback; 0 if none (waiting_nak.p4).
    psn_word_t waited;
    // Acknowledged PSN as a word; stored in the path's register if it is newer.
    psn_word_t word;
}

struct ingress_metadata_t {
    carried_t carried;
    group_t group_index;
    Origin mirror_origin;
    bit<8> drop_reason;
    bit<1> checksum_error;
    // Drop reason of a packet that no group accepts (Kind.NONE), 0 for an unsupported opcode.
    bit<8> flaw;
    // IPv4 total length minus UDP length.
    bit<16> length_difference;
    bit<1> is_host;
    bit<1> is_member;
    bit<1> may_send;
    // srcIP minus dstIP: 0 on links between switches, where both are the McstID.
    ipv4_addr_t address_difference;
    bit<1> is_multicast;
    bit<32> source_difference;
    // UDP or TCP source and destination port, 0 for other protocols.
    bit<32> l4_ports;
    // Missing siblings of the path in the tournament tree: one bit per level, beginning with the leaves.
    bit<PATH_BITS> absent;
    // Word of the PSN before 0, with the path number as its tie-breaker in the lower 8 bits. Its sum with the word of a PSN is the
    // path's word of the PSN before that.
    psn_word_t tie;
    // Window of the group as a difference of words; for data, its PSN minus that, which must be acknowledged (source_window.p4).
    psn_word_t window;
    bit<1> is_beyond;
    bit<32> crc;
    bit<32> region_crc;
    qpn_t qpn_difference;
    // PSN of the packet, as a word.
    psn_word_t psn;
    // Acknowledged PSN, for comparisons with words (ack_aggregate.p4).
    psn_word_t acked;
    // Largest word that `word` replaces: for data one of the PSN before, for feedback one of the same PSN.
    psn_word_t top;
    // Word of a NAK (waiting_nak.p4); for data, of the NAK that its retransmission would clear.
    psn_word_t nak;
    bit<1> is_caught_up;
    bit<4> turn;
    // Ingress port.
    bit<32> port_word;
    // Port of the source, 0 if there was none.
    bit<32> source;
    // Port of the source for CNPs, READs and data beyond the window, read from the second copy of the register: two actions
    // of one stage cannot write the same field.
    bit<32> last_source;
    bit<1> in_tree;
    // Distance from the path's stored word to the packet's word: 0 if the packet's word was stored.
    bit<32> ahead;
    bit<1> advances_minimum;
    // Distance from the minimum to `top`: 0 to 255 if the packet acknowledges exactly the minimum.
    bit<32> distance;
    psn_word_t minimum_psn;
    MirrorId_t mirror_session;
    MirrorId_t record_session;
    MirrorId_t answer_session;
    // Time in units of 2^16 ns (about 66 microseconds).
    bit<32> now;
    // Window of refusals.
    bit<16> refusal_window;
    // CNP count of a path ++ path.
    bit<16> cnp_word;
    // Window of CNPs (cnp_filter.p4).
    bit<16> cnp_window;
}

struct egress_metadata_t {
    carried_t carried;
    group_t group_index;
    cell_t filter_cell;
    cell_t msn_cell;
    psn_word_t psn;
    psn_word_t record;
    psn_word_t msn;
    // Acknowledged PSN minus MSN (retransmission_filter.p4).
    psn_word_t slack;
    psn_t after_minimum;
    Access access;
    // Difference between the minimum and the PSN acknowledged by the packet's path.
    bit<32> difference;
    bit<1> is_dropped;
    port_t port_difference;
    ipv4_addr_t region_owner;
    // EtherTypes of Ethernet header and outer tag, each with the following 16 bits (source_tags.p4).
    bit<32> outer_word;
    bit<32> inner_word;
    ipv4_addr_t owner_difference;
    bit<1> has_checksum;
    bit<32> crc;
}

#endif  // ALFIRK_METADATA_P4
