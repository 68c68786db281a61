// Kinds of a group's packets, verdicts on them, and states of the search for the minimum.

#ifndef ALFIRK_KINDS_P4
#define ALFIRK_KINDS_P4

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

// Decision of the ingress pipeline on a group's packet, which the egress pipeline executes.
enum bit<3> Verdict {
    NONE = 0,  // no verdict: the packet is not of a group, or is dropped
    REPLICATE = 1,  // replicate data: one copy for each path
    PASS = 2,       // forward a CNP, a selective or a fatal NAK to the source
    FEEDBACK = 3,   // send a merged ACK or NAK to the source
    ANSWER = 4,     // turn a request into an ACK or NAK to its sender
    RECORD = 5,     // update only the retransmission filter, by an ACK that does not advance the minimum
    WALK = 6,       // recirculate an ACK to find the minimum
    PUNT = 7        // pass an ACK to the controller, which computes the minimum
}

// Purpose of a clone or recirculated packet, chosen by the ingress pipeline.
enum bit<2> Role {
    NONE = 0,  // neither WALK nor PROBE
    WALK = 1,  // an ACK that searches for the minimum PSN, node by node
    PROBE = 2  // a clone of retransmitted data that searches for the minimum; the data is acknowledged if all paths have it
}

// State of a packet's search for the minimum PSN by recirculation (the papers' table walk).
enum bit<2> SearchState {
    IDLE = 0,  // the packet does not search
    ON = 1,    // the packet recirculates once more
    DONE = 2,  // the search is complete: meta.walk_word is the minimum
    LOST = 3   // the search is abandoned: a newer packet searches instead
}

// Operation on the tournament tree of the paths' words (PSN, path, MSN; word_t in types.p4).
enum bit<3> TreeOp {
    NONE = 0,    // no operation: the packet concerns no path
    UPDATE = 1,  // store the word that the path has acknowledged or sent, if it is newer than the stored one
    KEEP = 2,    // read the minimum without an update
    FORCE = 3,   // store the word that the controller sets, even if it is older
    INIT = 4,    // initialise all paths of the node with the word's PSN
    LOOK = 5     // read the oldest word of the node
}

#endif  // ALFIRK_KINDS_P4
