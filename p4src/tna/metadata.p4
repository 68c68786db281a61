// What the controls pass on to each other about one packet, and Tofino's own constants.

#ifndef ALFIRK_METADATA_P4
#define ALFIRK_METADATA_P4

#include "../shared/kinds.p4"
#include "../shared/sizes.p4"
#include "../shared/types.p4"

// The ports between pipeline and controller, and of packets that recirculate.
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

// PSNs in registers stand in the upper 24 bits of a signed word, so that the sign of a difference is the sign of the
// serial difference, and what is in the lower 8 bits breaks ties.
typedef int<32> psn_word_t;
const psn_word_t PSN_WORD_ONE = 256;

// A path of a group, over all groups: group ++ path.
typedef bit<16> cell_t;
typedef bit<(16 - PATH_BITS)> group_cell_t;
#define CELL_GROUP(cell) ((cell)[15:PATH_BITS])

#if GROUP_BITS + PATH_BITS > 16
#error "a register has at most 2^16 cells here: GROUP_BITS + PATH_BITS must not exceed 16"
#endif

// What a packet in egress is (carried_t.origin).
enum bit<8> Origin {
    SWITCHED = 1,  // as ingress sent it on
    RECORD = 2,  // the mirror of feedback, for the registers of its path in egress
    ANSWER = 3  // the mirror of a request that gets an answer
}

// Where the MSN of a packet comes from (retransmission_filter.p4).
enum bit<3> MsnWay {
    NONE = 0,  // it has none
    RECORD = 1,  // that of a record, which updates its path
    INIT = 2,  // register control
    OWN = 3,  // the packet's own path holds the minimum
    PATH = 4,  // another path does
    LAST_ACKED = 5,  // the one last sent to the source: a sender holds the minimum, and counts no messages
    REPLY_PATH = 6  // that of the path which the reply goes to
}

// A mirror leaves by the port that the packet came from, or by the CPU port.
const MirrorType_t MIRROR_TO_ORIGIN = 1;

// The session of the mirror that leaves by the CPU port has the port's number, like those of other ports; Tofino 2 has 256 sessions.
const MirrorId_t SESSION_TO_CPU = CPU_PORT % (1 << MIRROR_ID_WIDTH);

// Feedback that has raised the group's minimum is recorded on its way through the recirculation port: it comes into ingress again and
// raises the source's window there (source_window.p4). The session has the port's number. The port is in the pipe of the CPU port, as
// must be those of all groups, whose registers are made ready from there (register_control.p4).
const MirrorId_t SESSION_TO_RECIRCULATION = RECIRCULATION_PORT;

// Registrations leave by the CPU port, too, but are cut elsewhere: behind the longest that there are. No port has this number.
const MirrorId_t SESSION_OF_REGISTRATIONS = (1 << MIRROR_ID_WIDTH) - 1;

// register_control.op of the packet that recirculates so; the controller has no use for it.
const bit<8> REGISTER_OP_RAISE_WINDOW = 0x80;

// From ingress to egress: before each packet, and before each mirror.
header carried_t {
    Origin origin;
    @padding bit<4> pad_0;
    Kind kind;
    @padding bit<3> pad_1;
    // Feedback that its path has passed already.
    bit<1> is_old;
    // Data that was not sent before; of feedback, that it has raised the minimum; of register control, that it sets the registers.
    bit<1> is_new;
    // The packet came from the port that the present source is behind.
    bit<1> is_source;
    // A NAK whose PSN is what the source is to be sent; a READ whose PSN its refusal is to have.
    bit<1> is_own_nak;
    bit<1> is_datagram;
    bit<8> packet_in_reason;
    @padding bit<7> pad_2;
    port_t ingress_port;
    cell_t cell;
    // The oldest word so far; in the end the group's minimum.
    psn_word_t minimum;
    // The NAK that feedback becomes, 0 if none (waiting_nak.p4).
    psn_word_t waited;
    // What becomes the word of the path, if it is newer: what it has acknowledged.
    psn_word_t word;
}

struct ingress_metadata_t {
    carried_t carried;
    group_t group_index;
    Origin mirror_origin;
    bit<8> drop_reason;
    bit<1> checksum_error;
    // Of a packet that no group accepts (Kind.NONE): the drop reason, 0 for an opcode that is not supported.
    bit<8> flaw;
    // Total length of IPv4 minus the length of UDP.
    bit<16> length_difference;
    bit<1> is_host;
    bit<1> is_member;
    bit<1> may_send;
    // Between switches: srcIP is dstIP.
    ipv4_addr_t address_difference;
    bit<1> is_multicast;
    bit<32> source_difference;
    // Source and destination port of UDP or TCP, 0 for other protocols.
    bit<32> l4_ports;
    // Does the path miss a neighbour in the tournament tree? One bit for each level, the leaves' first.
    bit<PATH_BITS> absent;
    // The path's number, for the end of a word.
    bit<8> tie;
    // The group's window as a difference of words; of data, its PSN minus that: what must be acknowledged already (source_window.p4).
    psn_word_t window;
    bit<1> is_beyond;
    bit<32> crc;
    bit<32> region_crc;
    qpn_t qpn_difference;
    // The PSN of the packet, as a word.
    psn_word_t psn;
    // What it acknowledges, for comparisons with words (ack_aggregate.p4).
    psn_word_t acked;
    // The largest word that a path's becomes this one instead of: of data any of the PSN before, of feedback any of its own.
    psn_word_t top;
    // A NAK as it waits (waiting_nak.p4), or of data the NAK that it answers.
    psn_word_t nak;
    bit<1> is_caught_up;
    bit<4> turn;
    // The port that the packet came from, and that of the source, 0 if there was none yet.
    bit<32> port_word;
    bit<32> source;
    // The same for CNPs, READs and data beyond the window, which ask the register's twin: two that write one field cannot be in one stage.
    bit<32> last_source;
    bit<1> in_tree;
    // By how much the packet's word is newer than what its path's has become: 0, if it has become that.
    bit<32> ahead;
    bit<1> advances_minimum;
    // From the minimum to `top`: 0 to 255, if the packet acknowledges just the minimum.
    bit<32> distance;
    psn_word_t minimum_psn;
    MirrorId_t mirror_session;
    MirrorId_t record_session;
    MirrorId_t answer_session;
    // The time in 2^16 ns, about 66 microseconds; and the window of time for refusals.
    bit<32> now;
    bit<16> refusal_window;
    // A path's count of CNPs ++ its number.
    bit<16> cnp_word;
    bit<16> cnp_window;
}

struct egress_metadata_t {
    carried_t carried;
    bit<8> drop_reason;
    group_t group_index;
    cell_t filter_cell;
    cell_t msn_cell;
    psn_word_t psn;
    psn_word_t record;
    psn_word_t msn;
    // The PSN that feedback acknowledges minus its MSN (retransmission_filter.p4).
    psn_word_t slack;
    psn_t after_minimum;
    MsnWay msn_way;
    // Between the minimum and what the packet's path has acknowledged.
    bit<32> difference;
    bit<1> is_dropped;
    port_t port_difference;
    ipv4_addr_t region_owner;
    // The EtherTypes of Ethernet header and outer tag, each with the 16 bits behind it (source_tags.p4).
    bit<32> outer_word;
    bit<32> inner_word;
    ipv4_addr_t owner_difference;
    bit<1> has_checksum;
    bit<32> crc;
}

#endif  // ALFIRK_METADATA_P4
