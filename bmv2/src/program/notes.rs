//! Notes: what a program loaded with notes writes to traces and the log beside its effects.

use crate::exec::ops::Slot;
use crate::trace::Source;
use alfirk_bmv2_json::SourceInfo;

/// A note in the code of a program loaded with notes. It describes a condition or a primitive.
#[derive(Clone, Debug)]
pub(crate) enum Note {
    /// An action of this name starts.
    Action(String),
    /// A primitive starts, the first of a statement.
    Primitive(Option<SourceInfo>),
    /// A primitive starts that begins no statement: a further one of a statement, or a jump of an `if` statement in an action, of
    /// which traces have the outcome.
    Part(Option<SourceInfo>),
    /// The condition of an `if` statement in an action was evaluated. Only traces have it.
    Outcome {
        info: Option<SourceInfo>,
        holds: bool,
    },
    /// A condition is about to be evaluated. Only debuggers record it.
    Test(Option<SourceInfo>),
    /// A condition of this name was evaluated.
    Condition {
        info: Option<SourceInfo>,
        name: String,
        holds: bool,
    },
    RegisterRead {
        array: u16,
        i: Slot,
    },
    RegisterWrite {
        array: u16,
        i: Slot,
    },
    Count {
        array: u16,
        i: Slot,
    },
    Meter {
        array: u16,
        i: Slot,
    },
    Hash {
        base: Slot,
        max: Slot,
        value: Slot,
    },
    Random {
        low: Slot,
        high: Slot,
        value: Slot,
    },
}

/// Returns a position of the JSON file as traces state it.
pub(crate) fn source(info: &SourceInfo) -> Source {
    Source {
        file: info.filename.clone(),
        line: info.line,
        column: info.column + 1,
        text: info.source_fragment.clone(),
    }
}
