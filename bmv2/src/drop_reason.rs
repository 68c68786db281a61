//! Why packets go no further.

/// Why a packet went no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DropReason {
    /// `egress_spec` was the drop port at the end of ingress.
    Ingress,
    /// The same at the end of egress.
    Egress,
    /// `standard_metadata.priority` named a queue that ports do not have.
    Priority,
    /// A multicast group that does not exist or is empty.
    NoGroup,
    /// A parser of Tofino's found an error, and the program does not look for one.
    ParserError,
    /// A program of Tofino's let the packet access a register twice.
    RegisterAccessedTwice,
    /// An `assert` or `assume` did not hold.
    Assertion,
    /// Resubmitted again and again, or recirculated without end in [`Switch::process`](crate::Switch::process).
    EndlessLoop,
    /// More packets at a time than the switch has room for: the program makes copies of copies.
    TooManyCopies,
    /// Recirculated longer than any frame can be: the program lets the packet grow without end.
    TooLong,
    /// The program was replaced while the packet was queued, or there is none.
    NoProgram,
}

impl DropReason {
    /// A short name for counters and traces.
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
