//! Traces: the steps of packets through a program.
//!
//! Off by default ([`Switch::set_trace`](crate::Switch::set_trace)). A switch that does not trace tests only one
//! flag per packet, parser state and table.

mod candidates;
mod recorder;
pub mod stops;
mod text;
mod tree;
mod variables;

use serde::Serialize;
use std::fmt;
use std::sync::Arc;

pub(crate) use self::candidates::candidates;
pub(crate) use self::recorder::Recorder;
pub use self::tree::{trees, PacketTree};
pub use self::variables::{Variable, VariableKind};

/// A function of a frame's bytes.
type Condition = dyn Fn(&[u8]) -> bool + Send + Sync;

/// A condition on received frames.
#[derive(Clone)]
pub struct FrameFilter(Arc<Condition>);

impl FrameFilter {
    /// Creates a filter from a function of the frame's bytes.
    pub fn new(holds: impl Fn(&[u8]) -> bool + Send + Sync + 'static) -> FrameFilter {
        FrameFilter(Arc::new(holds))
    }

    /// Whether a frame meets the condition.
    pub fn holds(&self, frame: &[u8]) -> bool {
        (self.0)(frame)
    }
}

impl fmt::Debug for FrameFilter {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("FrameFilter")
    }
}

/// A set of the observers of traces, by their numbers; see [`Switch::observe`](crate::Switch::observe).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observers(u64);

impl Observers {
    /// The limit of the numbers of observers.
    pub const MAX: u8 = 64;

    /// Whether the set has an observer.
    pub fn contains(self, observer: u8) -> bool {
        self.0 & bit(observer) != 0
    }

    /// Whether the set has no observer.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn and(self, other: Observers) -> Observers {
        Observers(self.0 & other.0)
    }
}

impl FromIterator<u8> for Observers {
    fn from_iter<T: IntoIterator<Item = u8>>(observers: T) -> Observers {
        let bits = observers.into_iter().map(bit);
        Observers(bits.fold(0, |set, bit| set | bit))
    }
}

/// Returns the bit of an observer; 0 for a number beyond the limit.
fn bit(observer: u8) -> u64 {
    1u64.checked_shl(observer.into()).unwrap_or(0)
}

/// A line of a trace: one step of one packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceLine {
    /// Number of the received frame since the switch began to record, from 1; copies have the number of the original.
    pub packet: u64,
    /// Number of the copy: 0 for the received packet, counted from 1 for its clones, replicas, and the packet after
    /// resubmission or recirculation.
    #[serde(skip_serializing_if = "is_zero")]
    pub copy: u32,
    /// The step of the packet.
    #[serde(flatten)]
    pub event: TraceEvent,
    /// The observers that have chosen the packet.
    #[serde(skip)]
    pub observers: Observers,
}

/// A step of a packet. Values of any width are hexadecimal text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum TraceEvent {
    /// A frame was received.
    In {
        /// Ingress port.
        port: u32,
        /// Length of the frame in bytes.
        bytes: usize,
    },
    /// A block of the program has started or ended. Recorded only on request
    /// ([`Switch::set_block_trace`](crate::Switch::set_block_trace)).
    Block {
        /// Name of the block: `parser`, `ingress`, `egress` or `deparser`; on Tofino with the gress in front.
        block: &'static str,
        /// Whether the block has started; `false` if it has ended.
        starts: bool,
    },
    /// The parser has finished parsing the packet.
    Parsed {
        /// Names of the states that the parser visited, in order.
        states: Vec<String>,
        /// Names of the headers that are valid after parsing.
        headers: Vec<String>,
        /// Length of the payload in bytes.
        payload: usize,
        /// Name of the error constant with which the parser ended; `None` for `NoError`.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The condition of an `if` statement was evaluated. Recorded with programs that were loaded with notes
    /// ([`LoadedProgram::with_notes`](crate::LoadedProgram::with_notes)), as the next five are.
    Condition {
        /// The condition in the P4 source.
        source: Source,
        /// Value of the condition.
        holds: bool,
    },
    /// A statement of an action, of which the changes up to the next step are effects.
    Statement {
        /// The statement in the P4 source.
        source: Source,
    },
    /// A cell of a register was read or written.
    Register {
        /// Name of the register.
        register: String,
        /// Index of the cell.
        index: u64,
        /// Whether the packet has written the cell.
        written: bool,
        /// Value of the cell after the access.
        value: String,
    },
    /// A counter or a meter was updated.
    Updated {
        /// `counter` or `meter`.
        kind: &'static str,
        /// Name of the counter or meter.
        name: String,
        /// Index of the cell.
        index: u64,
    },
    /// An index beyond the end of an array was used; the access had no effect.
    OutOfBounds {
        /// `register`, `counter` or `meter`.
        kind: &'static str,
        /// Name of the array.
        name: String,
        /// Index that the packet used.
        index: u64,
        /// Number of cells of the array.
        size: usize,
    },
    /// A table was applied to the packet.
    Table {
        /// Name of the table.
        table: String,
        /// Name and value of each key field.
        key: Vec<NamedValue>,
        /// Whether an entry of the table matched.
        hit: bool,
        /// Handle of the matching entry, on a hit.
        #[serde(skip_serializing_if = "Option::is_none")]
        entry: Option<u32>,
        /// Number of entries of the table.
        entries: usize,
        /// Name of the action that ran, if any.
        #[serde(skip_serializing_if = "Option::is_none")]
        action: Option<String>,
        /// Name and value of each action argument.
        data: Vec<NamedValue>,
        /// Declaration of the table in the P4 source, if the program names it.
        #[serde(skip_serializing_if = "Option::is_none")]
        source: Option<Source>,
    },
    /// An entry of the table that was just applied which did not win: one that matches too, or, after a miss, one of
    /// those that differ in the fewest key fields.
    Candidate {
        /// Handle of the entry.
        entry: u32,
        /// Reason why the entry did not win.
        #[serde(flatten)]
        reason: Lost,
    },
    /// A field changed, or a header became valid or invalid (`$valid$`).
    Changed {
        /// Name of the field, as `header.field`.
        field: String,
        /// Value of the field when changes were last recorded.
        before: String,
        /// Value of the field after the change.
        after: String,
    },
    /// Ingress enqueued the packet, or a copy of it, for a port.
    Queued {
        /// Egress port.
        port: u32,
        /// Priority of the queue; the highest is served first.
        priority: u8,
        /// Replication id of the copy; 0 for packets that are not multicast.
        rid: u64,
        /// Number of the copy that was enqueued; 0 if the packet itself was.
        #[serde(skip_serializing_if = "is_zero")]
        as_copy: u32,
    },
    /// Ingress replicates the packet to a multicast group.
    Multicast {
        /// Number of the group.
        group: u32,
        /// Number of replicas of the group; 0 also if the group does not exist.
        replicas: usize,
    },
    /// Egress started to process the packet.
    Egress {
        /// Egress port.
        port: u32,
    },
    /// A clone was created for a clone session.
    Cloned {
        /// Number of the clone session.
        session: u32,
        /// Number of the clone.
        #[serde(skip_serializing_if = "is_zero")]
        as_copy: u32,
    },
    /// A clone was requested for a clone session that does not exist; there is no clone.
    NoSession {
        /// Number of the clone session.
        session: u32,
    },
    /// A digest was created for the controller.
    Digest {
        /// Name of the digest.
        digest: String,
        /// Its fields.
        fields: Vec<String>,
    },
    /// The packet was resubmitted to ingress.
    Resubmitted {
        /// Number of the packet from then on.
        #[serde(skip_serializing_if = "is_zero")]
        as_copy: u32,
    },
    /// The packet was recirculated to ingress.
    Recirculated {
        /// Number of the packet from then on.
        #[serde(skip_serializing_if = "is_zero")]
        as_copy: u32,
    },
    /// The packet left the switch.
    Out {
        /// Egress port.
        port: u32,
        /// Length of the frame in bytes.
        bytes: usize,
    },
    /// The packet was dropped; see [`DropReason::name`](crate::DropReason::name).
    Dropped {
        /// Name of the reason for the drop.
        reason: &'static str,
    },
}

/// Name and value of a key field or action argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamedValue {
    /// Name of the key field or parameter.
    pub name: String,
    /// The value in hexadecimal.
    pub value: String,
}

/// A position in the P4 source, with the text there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Path of the file as it was given to the compiler.
    pub file: String,
    /// Line, counted from 1.
    pub line: u64,
    /// Column of the first character, counted from 1.
    pub column: u64,
    /// Text of the source there, shortened by the compiler.
    pub text: String,
}

/// Reason why a table entry did not win.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Lost {
    /// A key field differs.
    Differs {
        /// Name of the first key field that differs.
        field: String,
        /// Value of the entry: a number, `value/prefix length`, `value &&& mask` or `low..high`.
        entry_value: String,
        /// Value of the packet.
        packet_value: String,
    },
    /// The entry matches, but the winner's prefix is longer.
    Prefix {
        /// Length of the entry's prefix in bits.
        bits: u32,
    },
    /// The entry matches, but the winner has a higher priority.
    Priority,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}
