//! Packets that neither a correct peer nor a correct fabric sends.
//!
//! Loss, duplication and reordering do not bring any of these about: they are counted apart from [`super::QpStats`], so
//! that a test of a switch can ask for zero.

use serde::{Deserialize, Serialize};

/// Counters of implausible packets, with what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Violations {
    // ---- At the requester: dropped, as if they had not come, unless stated otherwise. ----
    /// Answers to a PSN that was never sent (IBTA vol. 1, 9.7.5.1.3: outside the window of unacknowledged requests).
    pub psn_beyond_sent: u64,
    /// Answers with more completed messages than were sent (9.7.7.1). They are taken without their count, which only matters for
    /// credits; the PSN says what they acknowledge.
    pub msn_beyond_sent: u64,
    /// Answers that acknowledge more packets than the last one, and fewer messages. They are taken without their count, too. Where
    /// another end of a group has begun to send since, they are no violation.
    pub msn_went_back: u64,
    /// Answers with a syndrome or NAK code that is reserved, or of a service that was not used (tables 45 and 47). They are taken as Linux rxe
    /// takes them: as an acknowledgement of all before their PSN and a fatal error of the packet with that PSN.
    pub bad_syndrome: u64,
    /// Answers with a payload or padding.
    pub bad_answer_length: u64,
    /// Opcodes that are neither request nor answer of this service, and congestion notifications of a wrong shape.
    pub bad_opcode: u64,
    /// Congestion-marked packets for a queue pair that sends none of its packets as ECN-capable (RFC 3168, 5).
    pub marked_unasked: u64,

    // ---- At the responder: answered with a fatal NAK. ----
    /// Requests out of the sequence first, middle, last (9.7.4.1.2), and requests that are not supported.
    pub bad_sequence: u64,
    /// Payloads of a wrong length (9.7.4.1.6), and messages that do not add up to their DMA length or pass their buffer.
    pub bad_length: u64,
    /// WRITEs to memory that is not open to them (9.7.4.1.5).
    pub bad_access: u64,
}

impl Violations {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.psn_beyond_sent
            + self.msn_beyond_sent
            + self.msn_went_back
            + self.bad_syndrome
            + self.bad_answer_length
            + self.bad_opcode
            + self.marked_unasked
            + self.bad_sequence
            + self.bad_length
            + self.bad_access
    }
}

impl std::ops::AddAssign for Violations {
    fn add_assign(&mut self, other: Violations) {
        self.psn_beyond_sent += other.psn_beyond_sent;
        self.msn_beyond_sent += other.msn_beyond_sent;
        self.msn_went_back += other.msn_went_back;
        self.bad_syndrome += other.bad_syndrome;
        self.bad_answer_length += other.bad_answer_length;
        self.bad_opcode += other.bad_opcode;
        self.marked_unasked += other.marked_unasked;
        self.bad_sequence += other.bad_sequence;
        self.bad_length += other.bad_length;
        self.bad_access += other.bad_access;
    }
}
