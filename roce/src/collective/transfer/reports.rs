//! The events that a transfer has for its orchestrator, and its result.

use std::collections::VecDeque;

use crate::collective::error::TransferError;
use crate::collective::event::TransferEvent;

/// Events for the orchestrator that it has not taken yet, and the result of the transfer.
#[derive(Default)]
pub(super) struct Reports {
    events: VecDeque<TransferEvent>,
    is_done: bool,
    has_failed: bool,
}

impl Reports {
    /// Adds an event.
    pub(super) fn push(&mut self, event: TransferEvent) {
        self.events.push_back(event);
    }

    /// Removes and returns the oldest event.
    pub(super) fn poll(&mut self) -> Option<TransferEvent> {
        self.events.pop_front()
    }

    /// Records that this member is done, before its data is verified: it holds all data, and has the acknowledgements that it
    /// needs. Returns whether that is new.
    pub(super) fn mark_done(&mut self) -> bool {
        !std::mem::replace(&mut self.is_done, true)
    }

    /// Whether this member is done.
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Records a failure, and reports it.
    pub(super) fn fail(&mut self, error: TransferError) {
        self.has_failed = true;
        self.push(TransferEvent::Failed(error));
    }

    /// Whether the present leg has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Clears the failure of a leg that has ended.
    pub(super) fn clear_failure(&mut self) {
        self.has_failed = false;
    }
}
