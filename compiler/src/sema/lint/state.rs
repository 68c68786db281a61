//! Dataflow facts at a program point: assigned variables and validity of headers.

use crate::syntax::ast::DeclId;
use std::collections::BTreeSet;

/// Dataflow facts at a program point. `Default` is the entry: nothing is unassigned or invalid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// The point cannot be reached: after `return`, `exit`, `break`.
    pub dead: bool,
    /// Variables that are unassigned on some path to this point.
    pub unset: BTreeSet<DeclId>,
    /// Headers, as written (`hdr.ipv4`, with the variable's id in front), that are invalid on all paths to this point.
    pub invalid: BTreeSet<String>,
    /// Headers that are extracted on some path to this point.
    pub extracted: BTreeSet<String>,
}

impl State {
    /// Joins the facts of two paths.
    pub fn join(&mut self, other: &State) {
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
    pub fn unreachable() -> State {
        State {
            dead: true,
            ..State::default()
        }
    }

    /// Clears the recorded validity of the headers in and around `path`.
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
