// What a group's packet can be, and what can become of it.

#ifndef ALFIRK_KINDS_P4
#define ALFIRK_KINDS_P4

// What a packet is, in terms of the protocol (classify.p4).
enum bit<4> Kind {
    NONE = 0,       // none of the group's
    DATA = 1,       // SEND or WRITE
    ACK = 2,
    NAK = 3,        // PSN sequence error, or RNR
    FATAL_NAK = 4,  // a receiver has ended its queue pair
    CNP = 5,
    READ = 6,       // READ or ATOMIC: nothing that a group could answer
    MIN_SEARCH = 7,     // an ACK that recirculates, looking for the minimum
    COMMAND = 8,    // an ACK or NAK that the controller has aggregated
    REGISTERS = 9,  // register control
    SELECTIVE_NAK = 10,  // one packet is lost; nothing is acknowledged
    WINDOW = 11  // on Tofino: what was acknowledged to the source, on its way back to the source's window
}

// What ingress decided about a group's packet; egress acts on it.
enum bit<3> Verdict {
    NONE = 0,
    REPLICATE = 1,  // data: one copy for each path
    PASS = 2,       // to the source: a CNP, a selective or fatal NAK
    FEEDBACK = 3,   // a merged ACK or NAK for the source
    ANSWER = 4,     // a request turned into an ACK or NAK for its sender
    RECORD = 5,     // an ACK with no news for the source: only the filter is updated
    WALK = 6,       // an ACK that recirculates, looking for the minimum
    PUNT = 7        // an ACK for the controller, which looks for the minimum
}

// Roles of clones and recirculated packets that ingress chose beforehand.
enum bit<2> Role {
    NONE = 0,
    WALK = 1,  // looks for the minimum, node by node
    PROBE = 2  // the same, on behalf of old data, which gets an answer
}

// What the walk makes of a packet.
enum bit<2> SearchState {
    IDLE = 0,  // no walk
    ON = 1,    // it recirculates once more
    DONE = 2,  // meta.walk_word is the minimum
    LOST = 3   // another walk has taken over
}

// What the tournament tree is to do with a path's word.
enum bit<3> TreeOp {
    NONE = 0,    // nothing: the packet concerns no path
    UPDATE = 1,  // the path has acknowledged or sent the word: the newer one stays
    KEEP = 2,    // the path's word stays; the minimum is wanted all the same
    FORCE = 3,   // the controller sets the word, be it older or newer
    INIT = 4,    // the paths of the node start from the word's PSN
    LOOK = 5     // the oldest word of the node; nothing changes
}

#endif  // ALFIRK_KINDS_P4
