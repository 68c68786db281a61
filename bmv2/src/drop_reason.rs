//! Reasons for dropping packets.

/// Reason why the switch dropped a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DropReason {
    /// `egress_spec` was the drop port at the end of ingress.
    Ingress,
    /// `egress_spec` was the drop port at the end of egress.
    Egress,
    /// `standard_metadata.priority` was not a queue of the ports.
    Priority,
    /// A multicast group that does not exist or is empty.
    NoGroup,
    /// A parser of Tofino found an error, and the program does not read `parser_err`.
    ParserError,
    /// A program for Tofino accessed a register twice for one packet.
    RegisterAccessedTwice,
    /// An `assert` or `assume` failed.
    Assertion,
    /// Too many resubmissions, or endless recirculation in [`Switch::process`](crate::Switch::process).
    EndlessLoop,
    /// Too many packets in the switch at a time, because the program copies its copies.
    TooManyCopies,
    /// Longer than any frame may be: the program recirculates the packet and makes it longer each time.
    TooLong,
    /// No program is loaded, or it was replaced while the packet was queued.
    NoProgram,
}

impl DropReason {
    /// Returns the short name in counters and traces.
    pub fn name(self) -> &'static str {
        match self {
            DropReason::Ingress => "ingress",
            DropReason::Egress => "egress",
            DropReason::Priority => "priority",
            DropReason::NoGroup => "no_group",
            DropReason::ParserError => "parser_error",
            DropReason::RegisterAccessedTwice => "register_accessed_twice",
            DropReason::Assertion => "assertion",
            DropReason::EndlessLoop => "endless_loop",
            DropReason::TooManyCopies => "too_many_copies",
            DropReason::TooLong => "too_long",
            DropReason::NoProgram => "no_program",
        }
    }
}
