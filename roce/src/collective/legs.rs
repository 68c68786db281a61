//! State of a transfer that concerns its legs, the parts carried by different algorithms.
//!
//! Terms: the data is cut into *slices*, each of which is one message. An *overlay* uses connections between members only.
//! The *root* has rank 0 and the data at the start.

use super::connection::Connection;
use super::spec::{GroupSpec, RemoteMemory};

/// State of a transfer that concerns its legs (the parts carried by different algorithms), except for the connections
/// of the present leg.
#[derive(Default)]
pub(super) struct Legs {
    pub(super) stage: Stage,
    /// The first slice (message) that the root must not post yet; `None` for no limit.
    pub(super) limit: Option<u32>,
    /// Number of bytes that this member held at the start of the present leg.
    pub(super) bytes_at_start: u64,
    /// The queue pair for a group that the next leg may use; `None` if no group is in preparation.
    pub(super) standby: Option<(GroupSpec, Connection)>,
    /// The memory window of each slice (message), for remote WRITEs; empty before the windows are bound.
    pub(super) windows: Vec<RemoteMemory>,
    /// The memory window over all data, for remote WRITEs; `None` before it is bound.
    pub(super) whole_window: Option<RemoteMemory>,
    /// Whether remote WRITEs can reach the data only through memory windows.
    pub(super) windows_only: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Stage {
    #[default]
    Running,
    /// The queue pairs of the previous leg are destroyed. Events that it caused may still be pending.
    Ended,
    /// The queue pairs of the next leg are created, and nothing is posted yet.
    Waiting,
}

impl Legs {
    /// Creates the state of the first leg. `windows_only`: remote WRITEs can reach the data only through memory
    /// windows.
    pub(super) fn new(windows_only: bool) -> Legs {
        Legs {
            windows_only,
            ..Legs::default()
        }
    }

    /// Records that the leg runs, so that this member may send.
    pub(super) fn begin(&mut self) {
        self.stage = Stage::Running;
    }

    /// Whether no leg is running, so that nothing may be posted.
    pub(super) fn is_halted(&self) -> bool {
        self.stage != Stage::Running
    }

    /// Whether the leg has ended, so that failures of its queue pairs are ignored.
    pub(super) fn has_ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// Whether the root must not post this slice (message) yet.
    pub(super) fn is_beyond_limit(&self, slice: u32) -> bool {
        self.limit.is_some_and(|limit| slice >= limit)
    }
}
