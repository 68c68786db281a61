//! Counters of packets that neither a correct peer nor a correct network sends.
//!
//! Loss, duplication and reordering cause none of these. They are counted apart from [`super::QpStats`], so that a test
//! of a switch can require zero.

use serde::{Deserialize, Serialize};

/// Counters of packets that no correct peer sends, and how each kind is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Violations {
    // ---- At the requester: dropped, unless stated otherwise. ----
    /// Acknowledgements of a PSN that was never sent (IBTA vol. 1, 9.7.5.1.3: outside the window of unacknowledged requests).
    pub psn_beyond_sent: u64,
    /// Acknowledgements whose MSN exceeds the messages sent (9.7.7.1). Accepted without the MSN, which only matters for credits; the
    /// PSN acknowledges.
    pub msn_beyond_sent: u64,
    /// Acknowledgements with a larger PSN but a smaller MSN than an earlier one. Accepted without the MSN. Not counted once another
    /// source of the group has started.
    pub msn_went_back: u64,
    /// Acknowledgements with a syndrome or NAK code that is reserved, or that belongs to an unused service (tables 45
    /// and 47). Handled as by Linux rxe: they acknowledge all packets before their PSN, and fail the packet with that
    /// PSN.
    pub bad_syndrome: u64,
    /// Acknowledgements with a payload or padding.
    #[serde(rename = "bad_answer_length")]
    pub bad_ack_length: u64,
    /// Opcodes that are neither a request nor a response of this service, and malformed CNPs.
    pub bad_opcode: u64,
    /// Packets with the congestion mark (CE) that were not sent as ECN-capable: responses, and all packets without
    /// congestion control (RFC 3168, 5).
    pub marked_unasked: u64,

    // ---- At the responder: rejected with a fatal NAK. ----
    /// Requests with an opcode out of sequence (9.7.4.1.2), or that are not supported.
    pub bad_sequence: u64,
    /// Payloads of a wrong length (9.7.4.1.6), and messages that differ from their DMA length or exceed their buffer.
    pub bad_length: u64,
    /// WRITEs to memory that does not allow them (9.7.4.1.5).
    pub bad_access: u64,
}

impl Violations {
    /// All counters, in the order of their declaration.
    pub(crate) fn counters_mut(&mut self) -> [&mut u64; 10] {
        let Violations {
            psn_beyond_sent,
            msn_beyond_sent,
            msn_went_back,
            bad_syndrome,
            bad_ack_length,
            bad_opcode,
            marked_unasked,
            bad_sequence,
            bad_length,
            bad_access,
        } = self;
        [
            psn_beyond_sent,
            msn_beyond_sent,
            msn_went_back,
            bad_syndrome,
            bad_ack_length,
            bad_opcode,
            marked_unasked,
            bad_sequence,
            bad_length,
            bad_access,
        ]
    }

    /// Sum of all counters.
    pub fn total(&self) -> u64 {
        let mut all = *self;
        all.counters_mut().map(|count| *count).iter().sum()
    }
}

impl std::ops::AddAssign for Violations {
    fn add_assign(&mut self, mut other: Violations) {
        for (count, more) in self.counters_mut().into_iter().zip(other.counters_mut()) {
            *count += *more;
        }
    }
}
