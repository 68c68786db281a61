//! State of a transfer that concerns its legs, the parts carried by different algorithms.
//!
//! Terms: the data is cut into *slices*, each of which is one message. An *overlay* uses connections between members only.
//! The *root* has rank 0 and the data at the start.

use super::connection::Connection;
use super::spec::{GroupSpec, RemoteMemory};

/// State of a transfer's legs. The connections of the present leg are not included.
#[derive(Default)]
pub(super) struct Legs {
    pub(super) stage: Stage,
    /// The first slice that the root must not post yet; `None` for no limit.
    pub(super) limit: Option<u32>,
    /// Bytes held at the start of the present leg.
    pub(super) base: u64,
    /// The queue pair for a group that the next leg may use; `None` if no group is in preparation.
    pub(super) standby: Option<(GroupSpec, Connection)>,
    /// The memory window of each slice; empty before they are bound.
    pub(super) windows: Vec<RemoteMemory>,
    /// The memory window over all data; `None` before it is bound.
    pub(super) whole_window: Option<RemoteMemory>,
    /// Whether remote WRITEs can reach the data only through memory windows.
    pub(super) sealed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Stage {
    #[default]
    Running,
    /// The queue pairs of the old leg are destroyed; earlier events may still be pending.
    Left,
    /// The queue pairs of the next leg exist, and nothing is posted yet.
    Waiting,
}

impl Legs {
    /// Creates the state of the first leg. `sealed`: remote WRITEs can reach the data only through memory windows.
    pub(super) fn new(sealed: bool) -> Legs {
        Legs {
            sealed,
            ..Legs::default()
        }
    }

    /// Records that this member has its data and may send.
    pub(super) fn begin(&mut self) {
        self.stage = Stage::Running;
    }

    /// Whether nothing may be posted, because no leg is running.
    pub(super) fn is_halted(&self) -> bool {
        self.stage != Stage::Running
    }

    /// Whether failures of queue pairs are ignored, because their leg has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.stage == Stage::Left
    }

    /// Whether the root must not post this slice yet.
    pub(super) fn is_beyond_limit(&self, slice: u32) -> bool {
        self.limit.is_some_and(|limit| slice >= limit)
    }
}
