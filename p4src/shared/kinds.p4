// Kinds of a group's packets, verdicts on them, and states of the search for the minimum.

#ifndef ALFIRK_KINDS_P4
#define ALFIRK_KINDS_P4

// Kind of a packet in terms of the protocol (classify.p4).
enum bit<4> Kind {
    NONE = 0,       // not a packet of a group
    DATA = 1,       // SEND or WRITE
    ACK = 2,  // positive acknowledgement
    NAK = 3,        // PSN sequence error, or RNR
    FATAL_NAK = 4,  // the receiver's queue pair is in the error state
    CNP = 5,  // congestion notification
    READ = 6,       // READ or ATOMIC, which a group cannot execute
    MIN_SEARCH = 7,  // an ACK that recirculates to find the minimum
    COMMAND = 8,    // an ACK or NAK that the controller sends
    REGISTERS = 9,  // register control
    SELECTIVE_NAK = 10,  // report of one lost packet; acknowledges nothing
    WINDOW = 11  // on Tofino: a recirculated record, which advances the window of the source
}

// Decision of ingress on a group's packet, which egress executes.
enum bit<3> Verdict {
    NONE = 0,  // no verdict: the packet is not of a group, or is dropped
    REPLICATE = 1,  // data: one copy for each path
    PASS = 2,       // to the source: a CNP, a selective or fatal NAK
    FEEDBACK = 3,   // a merged ACK or NAK to the source
    ANSWER = 4,     // a request turned into an ACK or NAK to its sender
    RECORD = 5,     // an ACK that does not advance the minimum: only the filter is updated
    WALK = 6,       // an ACK that recirculates to find the minimum
    PUNT = 7        // an ACK to the controller, which computes the minimum
}

// Roles of clones and recirculated packets, chosen by ingress.
enum bit<2> Role {
    NONE = 0,  // any other packet
    WALK = 1,  // searches the minimum, node by node
    PROBE = 2  // the same on behalf of old data, which is acknowledged if all paths have it
}

// State of the search for the minimum (the papers' table walk), as far as this packet is concerned.
enum bit<2> SearchState {
    IDLE = 0,  // the packet does not search
    ON = 1,    // the packet recirculates once more
    DONE = 2,  // meta.walk_word is the minimum
    LOST = 3   // another walk has taken over
}

// Operation of the tournament tree on a path's word.
enum bit<3> TreeOp {
    NONE = 0,    // none: the packet concerns no path
    UPDATE = 1,  // the path has acknowledged or sent the word: the newer one is stored
    KEEP = 2,    // read only: the minimum is needed without an update
    FORCE = 3,   // the controller sets the word, older or newer
    INIT = 4,    // initialise all paths of the node with the word's PSN
    LOOK = 5     // read the oldest word of the node
}

#endif  // ALFIRK_KINDS_P4
