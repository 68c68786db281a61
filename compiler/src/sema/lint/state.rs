//! Dataflow facts at a program point: assigned variables and validity of headers.

use crate::syntax::ast::DeclId;
use std::collections::BTreeSet;

/// Dataflow facts at a program point. The default is the entry of a body: no variable is unassigned and no header invalid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FlowFacts {
    /// Whether the point is unreachable, as after `return`, `exit` or `break`.
    pub dead: bool,
    /// Variables that are unassigned on some path to this point.
    pub unset: BTreeSet<DeclId>,
    /// Headers that are invalid on all paths to this point: access paths such as `7.ipv4`, with the [`DeclId`] of the variable first.
    pub invalid: BTreeSet<String>,
    /// Headers that were extracted on some path to this point: access paths as in `invalid`.
    pub extracted: BTreeSet<String>,
}

impl FlowFacts {
    /// Merges the facts of another path that leads to the same point.
    pub fn join(&mut self, other: &FlowFacts) {
        if other.dead {
            return;
        }
        if self.dead {
            *self = other.clone();
            return;
        }
        self.unset.extend(other.unset.iter().copied());
        self.invalid.retain(|path| other.invalid.contains(path));
        self.extracted.extend(other.extracted.iter().cloned());
    }

    /// Facts at a point that cannot be reached.
    pub fn unreachable() -> FlowFacts {
        FlowFacts {
            dead: true,
            ..FlowFacts::default()
        }
    }

    /// Removes the facts about the validity of all headers within `path`, and of those that contain it.
    pub fn clear(&mut self, path: &str) {
        self.invalid
            .retain(|known| !is_part(known, path) && !is_part(path, known));
    }
}

/// Whether `part` is `whole` or a part of it.
fn is_part(part: &str, whole: &str) -> bool {
    part.strip_prefix(whole)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}
