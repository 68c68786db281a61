//! The recorded state of a simulation, which is compared with later ones.

use std::collections::BTreeSet;
use std::ops::Range;

use alfirk_roce::steady::{Stream, Value};

use crate::engine::{Event, NodeId};

/// The begin of a possible period: the node that marked it, and the phase of its link: the time in picoseconds from the
/// mark until the link is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) node: NodeId,
    pub(super) phase: u64,
}

/// The recorded state of a simulation.
pub(super) struct Recording {
    pub(super) mark: Mark,
    pub(super) at: u64,
    /// Number of events handled before.
    pub(super) handled: u64,
    pub(super) disturbances: u64,
    pub(super) streams: Vec<Stream>,
    /// In the order of node numbers.
    pub(super) nodes: Vec<NodeRecording>,
    /// In the order of the agenda.
    pub(super) events: Vec<EventRecording>,
    pub(super) values: Vec<Value>,
}

/// A node in a recording.
#[derive(Clone)]
pub(super) struct NodeRecording {
    pub(super) id: NodeId,
    pub(super) wake: Option<u64>,
    /// Whether a wake event before any deadline of the node only schedules the next one.
    pub(super) may_pass_wakes: bool,
    pub(super) is_supported: bool,
    pub(super) values: Range<usize>,
}

/// A scheduled event in a recording.
#[derive(Clone)]
pub(super) struct EventRecording {
    pub(super) at: u64,
    /// Number by which the agenda identifies the event.
    pub(super) number: u32,
    pub(super) form: EventForm,
    pub(super) values: Range<usize>,
}

/// An event without its time and frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventForm {
    Arrival {
        node: NodeId,
        port: u32,
        outages: u32,
    },
    Idle {
        node: NodeId,
        port: u32,
    },
    Wake {
        node: NodeId,
    },
    /// A message, which is never part of a period.
    Message,
    /// An event with which no period is possible.
    Unsupported,
}

impl EventForm {
    /// Whether an event of this form may be scheduled apart from the period.
    pub(super) fn may_wait(self) -> bool {
        matches!(self, EventForm::Wake { .. } | EventForm::Message)
    }
}

impl Recording {
    /// Numbers and times of the events that may be scheduled apart from a period.
    pub(super) fn events_that_may_wait(&self) -> BTreeSet<(u32, u64)> {
        let waiting = self.events.iter().filter(|event| event.form.may_wait());
        waiting.map(|event| (event.number, event.at)).collect()
    }
}

impl<M, F> Event<M, F> {
    pub(super) fn form(&self) -> EventForm {
        match self {
            Event::Arrival { to, outages, .. } => EventForm::Arrival {
                node: to.node,
                port: to.port,
                outages: *outages,
            },
            Event::Idle { node, port } => EventForm::Idle {
                node: *node,
                port: *port,
            },
            Event::Wake { node } => EventForm::Wake { node: *node },
            Event::Message { .. } => EventForm::Message,
            Event::LinkEnd { .. } | Event::Ahead { .. } => EventForm::Unsupported,
        }
    }
}
