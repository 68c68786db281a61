// Kinds of a group's packets, verdicts on them, and states of the search for the minimum.

#ifndef ALFIRK_KINDS_P4
#define ALFIRK_KINDS_P4

#include "types.p4"

// Kind of a packet of a group, from its transport headers (classify.p4).
enum bit<4> Kind {
    NONE = 0,       // not a packet of a group
    DATA = 1,       // SEND or WRITE
    ACK = 2,        // positive acknowledgement
    NAK = 3,        // NAK of a PSN sequence error, or RNR NAK
    FATAL_NAK = 4,  // NAK after which the receiver's queue pair is in the error state
    CNP = 5,        // congestion notification packet
    READ = 6,       // READ or ATOMIC, which a group cannot execute
    MIN_SEARCH = 7,  // an ACK that recirculates to find the minimum
    COMMAND = 8,    // an ACK or NAK that the controller sends
    REGISTERS = 9,  // register control header from the controller
    SELECTIVE_NAK = 10,  // NAK of one lost packet; acknowledges nothing
    WINDOW = 11  // on Tofino: a recirculated record of an ACK that advances the window of the source
}

// What the egress pipeline does with a packet or a clone of it.
enum bit<4> Verdict {
    NONE = 0,  // nothing: the packet is dropped, or not cloned
    FORWARD = 1,  // send the packet as ingress has left it: unicast, ARP replies, and frames of the controller
    DATAGRAM = 2,  // replicate a datagram: one copy for each port but its own
    REPLICATE = 3,  // replicate data: one copy for each path that needs it
    PASS = 4,  // forward a CNP, a selective or a fatal NAK to the source
    FEEDBACK = 5,  // send a merged ACK or NAK to the source
    ANSWER = 6,  // send the ACK or NAK that a request has become to its sender
    RECORD = 7,  // update only the retransmission filter, by an ACK that does not advance the minimum
    MIRROR = 8,  // the same, by a clone of an ACK that is forwarded
    WALK = 9,  // update the retransmission filter, and recirculate the ACK to find the minimum
    CONTINUE_WALK = 10,  // recirculate an ACK again
    PROBE_WALK = 11,  // turn old data into an ACK, and recirculate that to find the minimum
    PUNT = 12,  // update the retransmission filter, and pass the ACK to the controller, which computes the minimum
    PROBE_PUNT = 13,  // turn old data into an ACK, and pass that to the controller
    REGISTERS = 14,  // execute a register access of the controller, and reply to it
    TO_CONTROLLER = 15  // pass the packet to the controller
}

// Whether an ACK or NAK with this verdict updates the retransmission filter.
#define UPDATES_FILTER(verdict) \
    ((verdict) == Verdict.RECORD || (verdict) == Verdict.MIRROR || (verdict) == Verdict.WALK \
     || (verdict) == Verdict.PUNT)
// Whether the packet is data that is dropped, and becomes a query whether all paths have it.
#define IS_PROBE(verdict) ((verdict) == Verdict.PROBE_WALK || (verdict) == Verdict.PROBE_PUNT)

// Decision of the ingress pipeline on a packet that has no drop reason. One place at the end of ingress executes it; egress
// gets the two verdicts and the reason.
struct decision_t {
    Verdict verdict;  // on the packet
    Verdict clone;  // on a clone of the received packet; NONE: the packet is not cloned
    port_t port;  // egress port, if `group` is 0
    bit<16> group;  // PRE multicast group, 0 if the packet is not replicated
    bit<8> packet_in_reason;  // PacketInReason of the packet or its clone, 0 if neither goes to the controller
    bit<8> copies_reason;  // PacketInReason of copies that egress passes to the controller, 0 if it passes none
}

// Purpose of a packet that searches for the minimum by recirculation, chosen by the ingress pipeline.
enum bit<2> Role {
    NONE = 0,  // neither WALK nor PROBE
    WALK = 1,  // an ACK that searches for the minimum PSN, node by node
    PROBE = 2  // a clone of retransmitted data that searches for the minimum; the data is acknowledged if all paths have it
}

// State of a packet's search for the minimum PSN by recirculation (the papers' table walk).
enum bit<2> SearchState {
    IDLE = 0,  // the packet does not search
    ON = 1,    // the packet recirculates once more
    DONE = 2,  // the search is complete: meta.optional.walk_word is the minimum
    LOST = 3   // the search is abandoned: a newer packet searches instead
}

// Operation on the tournament tree of the paths' words (PSN, path, MSN; word_t in types.p4).
enum bit<3> TreeOp {
    NONE = 0,    // no operation: the packet concerns no path
    UPDATE = 1,  // store the word that the path has acknowledged or sent, if it is newer than the stored one
    KEEP = 2,    // read the minimum without an update
    FORCE = 3,   // compute the minimum again, after the controller has set the word of the path
    INIT = 4     // initialise all paths of the node with the word's PSN
}

// The minimum of a group, as far as the steps of the chain have found it out (v1model/ack_aggregate.p4).
struct minimum_t {
    bool is_accepted;  // the path's newest PSN has advanced, or was repeated
    bool is_rise;  // the path's newest PSN has advanced
    bool has_word;  // the oldest word of all paths was found; else the position last acknowledged is a lower bound
    bool is_final;  // the packet is feedback that needs no further search
    bool is_probe;  // the packet is a query for old data, and needs no further search
    psn_t psn;  // PSN of the minimum, or a lower bound of it
    msn_t msn;  // MSN acknowledged with that PSN
    bool advances;  // the PSN is beyond the one last acknowledged to the source
    bool is_answer;  // the packet is old data, or a probe for it, that all paths have
    bool forwards_nak;  // the packet has become the pending NAK
}

#endif  // ALFIRK_KINDS_P4
