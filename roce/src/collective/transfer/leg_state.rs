//! State of the present leg: the part of a transfer that one algorithm carries.
//!
//! Terms: the data is cut into *slices*, each of which is one message. The *root* has rank 0 and the data at the start.

use std::collections::BTreeSet;

use crate::wire::QpNum;

/// State of the present leg, except for its connections and its plan.
pub(super) struct LegState {
    stage: Stage,
    /// Whether this member may forward slices before it has started the leg, as in a transfer's first leg.
    forwards_at_once: bool,
    /// The first slice (message) that the root must not post yet; `None` for no limit.
    limit: Option<u32>,
    /// Number of bytes that this member held at the start of the leg.
    bytes_at_start: u64,
}

/// Progress of a leg, from the creation of its queue pairs to their destruction.
enum Stage {
    /// The queue pairs are created.
    Open,
    /// The queue pairs are to be connected. Holds those whose connection is not established yet.
    Connecting(BTreeSet<QpNum>),
    /// This member has started: it may announce that it is ready to receive, and has entered a barrier.
    Started,
    /// The queue pairs are destroyed. Events that they caused may still be pending.
    Ended {
        /// Whether this member had started.
        had_started: bool,
    },
}

impl LegState {
    /// Creates the state of a transfer's first leg.
    pub(super) fn first() -> LegState {
        LegState {
            stage: Stage::Open,
            forwards_at_once: true,
            limit: None,
            bytes_at_start: 0,
        }
    }

    /// Creates the state of a later leg, in which nothing is posted before the start.
    pub(super) fn later(limit: Option<u32>, bytes_at_start: u64) -> LegState {
        LegState {
            stage: Stage::Open,
            forwards_at_once: false,
            limit,
            bytes_at_start,
        }
    }

    // ---- Stages ----

    /// Records that these queue pairs are to be connected.
    pub(super) fn connect(&mut self, pending: BTreeSet<QpNum>) {
        self.stage = Stage::Connecting(pending);
    }

    /// Records that the connection of a queue pair is established.
    pub(super) fn record_connection(&mut self, qpn: QpNum) {
        if let Stage::Connecting(pending) = &mut self.stage {
            pending.remove(&qpn);
        }
    }

    /// Records that this member has started.
    pub(super) fn start(&mut self) {
        self.stage = Stage::Started;
    }

    /// Records that the queue pairs are destroyed.
    pub(super) fn end(&mut self) {
        let had_started = self.has_started();
        self.stage = Stage::Ended { had_started };
    }

    /// Number of queue pairs whose connection is pending; `None` before [`LegState::connect`].
    pub(super) fn pending_connections(&self) -> Option<usize> {
        match &self.stage {
            Stage::Open => None,
            Stage::Connecting(pending) => Some(pending.len()),
            Stage::Started | Stage::Ended { .. } => Some(0),
        }
    }

    /// Whether all queue pairs are connected.
    pub(super) fn is_connected(&self) -> bool {
        self.pending_connections() == Some(0)
    }

    /// Whether this member has started.
    pub(super) fn has_started(&self) -> bool {
        matches!(
            self.stage,
            Stage::Started | Stage::Ended { had_started: true }
        )
    }

    /// Whether the leg has ended, so that failures of its queue pairs are ignored.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.stage, Stage::Ended { .. })
    }

    /// Whether slices may be posted.
    pub(super) fn may_post(&self) -> bool {
        match self.stage {
            Stage::Open | Stage::Connecting(_) => self.forwards_at_once,
            Stage::Started => true,
            Stage::Ended { .. } => false,
        }
    }

    // ---- Pace ----

    /// Sets the first slice (message) that the root must not post yet.
    pub(super) fn set_limit(&mut self, limit: u32) {
        self.limit = Some(limit);
    }

    /// The first slice (message) that the root must not post yet; `None` for no limit.
    pub(super) fn limit(&self) -> Option<u32> {
        self.limit
    }

    /// Number of bytes that this member held at the start of the leg.
    pub(super) fn bytes_at_start(&self) -> u64 {
        self.bytes_at_start
    }
}
