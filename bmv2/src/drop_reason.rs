//! Reasons for dropping packets.

/// Reason for which the switch dropped a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DropReason {
    /// `egress_spec` was the drop port at the end of ingress, as after `mark_to_drop`.
    Ingress,
    /// `egress_spec` was the drop port at the end of egress.
    Egress,
    /// `standard_metadata.priority` was not below the number of queues per port.
    Priority,
    /// The packet's multicast group does not exist or is empty.
    NoGroup,
    /// A parser of Tofino found an error, and the program does not read `parser_err`.
    ParserError,
    /// A program for Tofino accessed a register twice for one packet.
    RegisterAccessedTwice,
    /// An `assert` or `assume` failed.
    Assertion,
    /// The packet exceeded the limit of resubmissions, or of egress passes in
    /// [`Switch::process`](crate::Switch::process).
    EndlessLoop,
    /// Too many packets were in the switch at a time, because the program copies its copies.
    TooManyCopies,
    /// The packet is longer than any frame may be, because the program lengthens it at each recirculation.
    TooLong,
    /// The queue of the packet's port was full. Only traces have this reason; the owner of the queues counts such packets.
    QueueFull,
    /// The port of a chip was disabled by the control plane.
    PortDisabled,
    /// No program is loaded, or the program was replaced while the packet was queued.
    NoProgram,
}

impl DropReason {
    /// Returns the name of the reason in counters and traces.
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
            DropReason::QueueFull => "queue_full",
            DropReason::PortDisabled => "port_disabled",
            DropReason::NoProgram => "no_program",
        }
    }
}
