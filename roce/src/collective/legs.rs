//! What a transfer knows of its legs.

use super::connection::Connection;
use super::spec::{GroupSpec, RemoteMemory};

/// What is known of legs beside the connections of the present one.
#[derive(Default)]
pub(super) struct Legs {
    pub(super) stage: Stage,
    /// The first slice that the root does not post yet.
    pub(super) limit: Option<u32>,
    /// Bytes that were here when the leg began.
    pub(super) base: u64,
    /// A queue pair for a group that may become the next leg's.
    pub(super) standby: Option<(GroupSpec, Connection)>,
    /// Windows for each slice, and one for everything, once they have been bound.
    pub(super) windows: Vec<RemoteMemory>,
    pub(super) whole: Option<RemoteMemory>,
    /// Whether memory is open to WRITEs only through windows.
    pub(super) sealed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Stage {
    #[default]
    Running,
    /// The queue pairs are gone; events from before may still come.
    Left,
    /// The next leg's queue pairs are there, and nothing is posted yet.
    Waiting,
}

impl Legs {
    /// The first leg; `sealed` says that memory is open to WRITEs only through windows.
    pub(super) fn new(sealed: bool) -> Legs {
        Legs {
            sealed,
            ..Legs::default()
        }
    }

    /// The root has got its data.
    pub(super) fn begin(&mut self) {
        self.stage = Stage::Running;
    }

    /// Whether nothing may be posted now.
    pub(super) fn is_halted(&self) -> bool {
        self.stage != Stage::Running
    }

    /// Whether what happens to queue pairs does not matter any more.
    pub(super) fn is_left(&self) -> bool {
        self.stage == Stage::Left
    }

    /// Whether the root keeps a slice back that it could post.
    pub(super) fn keeps_back(&self, slice: u32) -> bool {
        self.limit.is_some_and(|limit| slice >= limit)
    }
}
