//! The state of a transfer across its legs.

use super::connection::Connection;
use super::spec::{GroupSpec, RemoteMemory};

/// State of the legs other than the connections of the present one.
#[derive(Default)]
pub(super) struct Legs {
    pub(super) stage: Stage,
    /// The first slice that the root must not post yet.
    pub(super) limit: Option<u32>,
    /// Bytes held when the present leg began.
    pub(super) base: u64,
    /// The queue pair for a group that may become the next leg's.
    pub(super) standby: Option<(GroupSpec, Connection)>,
    /// The memory windows of each slice, once bound.
    pub(super) windows: Vec<RemoteMemory>,
    pub(super) whole_window: Option<RemoteMemory>,
    /// Whether WRITEs can reach memory only through windows.
    pub(super) sealed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Stage {
    #[default]
    Running,
    /// The queue pairs are destroyed; earlier events may still be pending.
    Left,
    /// The queue pairs of the next leg exist, and nothing is posted yet.
    Waiting,
}

impl Legs {
    /// The state of the first leg; `sealed`: WRITEs can reach memory only through windows.
    pub(super) fn new(sealed: bool) -> Legs {
        Legs {
            sealed,
            ..Legs::default()
        }
    }

    /// Records that the root has its data.
    pub(super) fn begin(&mut self) {
        self.stage = Stage::Running;
    }

    /// Whether nothing may be posted.
    pub(super) fn is_halted(&self) -> bool {
        self.stage != Stage::Running
    }

    /// Whether failures of queue pairs are ignored, because the leg has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.stage == Stage::Left
    }

    /// Whether the root must not post a slice yet.
    pub(super) fn is_beyond_limit(&self, slice: u32) -> bool {
        self.limit.is_some_and(|limit| slice >= limit)
    }
}
