//! Windows: conservative parallel simulation of nodes that run ahead of the others.
//!
//! An action of another node reaches a node that runs ahead ([`super::Node::runs_ahead`]) only after the *lookahead* L. L is
//! the minimum, over all links to such nodes, of propagation delay, transmission time of the shortest frame and reception
//! delay together, and over messages to them, of the minimum message delay. Time is divided into epochs of length L. At the
//! first event of an epoch, the agenda contains all events that reach these nodes before its end (Chandy and Misra:
//! Distributed simulation, IEEE Trans. Softw. Eng. 5, 1979; with windows as in Nicol: The cost of conservative
//! synchronization in parallel discrete event simulations, J. ACM 40, 1993). Two phases follow:
//!
//! 1. Nodes that run ahead handle their events of the window in parallel. Effects on others are not applied but recorded,
//!    event by event ([`Effect`]). A node accesses only itself and its [`Attachment`].
//! 2. The engine processes the agenda sequentially. For an event handled ahead ([`Event::Ahead`]) it applies the recorded
//!    effects.
//!
//! Results are identical to those with one thread, because every node handles the same events in the same order at the same
//! times. Events of one node keep their order in the agenda, and an event that a node schedules for itself within the window
//! follows those of the same instant, as it would in the agenda. Effects are applied at the same point as with one thread, so
//! events are scheduled in the same order.
//!
//! Information from other nodes without an event takes effect at the beginning of an epoch, also with one thread
//! ([`super::train::Departures`]). Counters are read as of the current time ([`Lane::pending`]).
//!
//! There are no windows if there are observers, or after any link has been down.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::context::Context;
use super::link::{Count, End};
use super::state::{Attachment, Core};
use super::train::Place;
use super::{deliver, Engine, Event, Frame, Node, NodeId, ThreadError};

/// Number of threads of an engine, and the minimum work for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threads {
    /// Number of threads; 0 and 1 both mean one.
    pub count: usize,
    /// Minimum number of events in a window for nodes that run ahead, below which one thread handles them: distributing
    /// them takes time as well.
    pub least_events: usize,
}

/// State of the engine for a node that runs ahead.
pub(super) struct Lane<M, F> {
    /// Events of the window from the agenda, by time.
    inbox: VecDeque<(u64, Event<M, F>)>,
    /// Events that the node has scheduled for itself, by time; at equal times they follow those of the inbox.
    own: VecDeque<(u64, Event<M, F>)>,
    /// Times of the handled events, and the number of effects of each.
    handled: VecDeque<(u64, u32)>,
    effects: VecDeque<Effect<M, F>>,
}

/// Recorded effect of a node that runs ahead.
pub(super) enum Effect<M, F> {
    /// A frame of `len` bytes was transmitted on `port`; it is delivered at `at`.
    Carry {
        port: u32,
        len: u32,
        to: End,
        epoch: u32,
        at: u64,
        frame: F,
    },
    /// The frame was duplicated; the copy is delivered at `at`.
    Again {
        to: End,
        epoch: u32,
        at: u64,
        frame: F,
    },
    /// A follower was transmitted.
    Board {
        port: u32,
        len: u32,
        to: End,
        epoch: u32,
        at: u64,
        place: Place,
    },
    /// An event is scheduled for another node, or for this node after the window.
    Add {
        at: u64,
        event: Event<M, F>,
    },
    /// An event was scheduled for this node within the window.
    Own {
        at: u64,
    },
    /// A counter of a port was updated.
    Count {
        port: u32,
        count: Count,
    },
    Notify,
}

impl<M, F> Lane<M, F> {
    pub(super) fn new() -> Lane<M, F> {
        Lane {
            inbox: VecDeque::new(),
            own: VecDeque::new(),
            handled: VecDeque::new(),
            effects: VecDeque::new(),
        }
    }

    /// Records an effect of the event being handled.
    #[inline]
    pub(super) fn record(&mut self, effect: Effect<M, F>) {
        self.effects.push_back(effect);
        if let Some((_, effects)) = self.handled.back_mut() {
            *effects += 1;
        }
    }

    /// Schedules an event of the node itself within the window.
    pub(super) fn add_own(&mut self, at: u64, event: Event<M, F>) {
        let behind = self.own.partition_point(|(other, _)| *other <= at);
        self.own.insert(behind, (at, event));
        self.record(Effect::Own { at });
    }

    /// Takes the node's next event.
    fn next(&mut self) -> Option<(u64, Event<M, F>)> {
        let own = self.own.front().map(|(at, _)| *at);
        let is_own = match self.inbox.front() {
            Some((at, _)) => own.is_some_and(|own| own < *at),
            None => true,
        };
        let queue = if is_own {
            &mut self.own
        } else {
            &mut self.inbox
        };
        let (at, event) = queue.pop_front()?;
        self.handled.push_back((at, 0));
        Some((at, event))
    }

    /// Whether the node has handled future events.
    pub(super) fn is_ahead(&self) -> bool {
        !self.handled.is_empty()
    }

    /// Counter updates of a port that belong to future events.
    pub(super) fn pending(&self, port: u32) -> impl Iterator<Item = Count> + use<'_, M, F> {
        self.effects.iter().filter_map(move |effect| match effect {
            Effect::Carry { port: of, len, .. } | Effect::Board { port: of, len, .. } => {
                (*of == port).then_some(Count::Frame(*len))
            }
            Effect::Count { port: of, count } => (*of == port).then_some(*count),
            _ => None,
        })
    }
}

impl<M, F> Event<M, F> {
    /// Destination node; `None` for events of observers only, and for events handled ahead.
    fn node(&self) -> Option<NodeId> {
        match self {
            Event::Arrival { to, .. } => Some(to.node),
            Event::Idle { node, .. } | Event::Wake { node } => Some(*node),
            Event::Message { to, .. } => Some(*to),
            Event::Passage { .. } | Event::Ahead { .. } => None,
        }
    }
}

impl<M, F: Frame> Core<M, F> {
    /// Applies the recorded effects of an event that is due now.
    pub(super) fn catch_up_with(&mut self, id: NodeId) {
        let Some(mut lane) = self.attachments[id.0].lane.take() else {
            return;
        };
        if let Some((at, effects)) = lane.handled.pop_front() {
            debug_assert_eq!(at, self.now, "what was handled ahead is due");
            self.ahead -= 1;
            for effect in lane.effects.drain(..effects as usize) {
                self.take_effect(id, effect);
            }
        }
        self.attachments[id.0].lane = Some(lane);
    }

    fn take_effect(&mut self, node: NodeId, effect: Effect<M, F>) {
        match effect {
            Effect::Carry {
                to,
                epoch,
                at,
                frame,
                ..
            }
            | Effect::Again {
                to,
                epoch,
                at,
                frame,
            } => self.agenda.add(at, Event::Arrival { to, epoch, frame }),
            Effect::Board {
                to,
                epoch,
                at,
                place,
                ..
            } => self.board(to, epoch, place, at),
            Effect::Add { at, event } => self.agenda.add(at, event),
            Effect::Own { at } => self.agenda.add(at, Event::Ahead { node }),
            Effect::Count { .. } => {}
            Effect::Notify => self.notify(node),
        }
    }

    /// Marks the events of these nodes in the window as handled.
    fn are_ahead(&mut self, runners: &[NodeId]) {
        let lanes = runners
            .iter()
            .filter_map(|id| self.attachments[id.0].lane.as_ref());
        self.ahead += lanes.map(|lane| lane.handled.len()).sum::<usize>();
    }

    /// Moves the events of a window to the nodes that run ahead, and returns these nodes in order; none if there are fewer than
    /// `least` events.
    fn gather(&mut self, until: u64, least: usize) -> Vec<NodeId> {
        let attachments = &mut self.attachments;
        let runner = |event: &Event<M, F>| {
            let node = event.node()?;
            attachments[node.0].lane.is_some().then_some(node)
        };
        let of_runners = self.agenda.near(until).filter_map(runner);
        if of_runners.take(least).count() < least.max(1) {
            return Vec::new();
        }
        let mut runners = Vec::new();
        self.agenda.visit(until, |at, event| {
            let Some(node) = event.node() else {
                return;
            };
            let Some(lane) = &mut attachments[node.0].lane else {
                return;
            };
            if lane.inbox.is_empty() {
                runners.push(node);
            }
            let event = std::mem::replace(event, Event::Ahead { node });
            lane.inbox.push_back((at, event));
        });
        runners.sort_unstable();
        runners
    }
}

/// Worker threads for nodes that run ahead.
pub(super) struct Crew {
    /// Thread pool, without the thread that calls the engine.
    pool: rayon::ThreadPool,
    threads: Threads,
}

impl Crew {
    pub(super) fn new(threads: Threads) -> Result<Crew, ThreadError> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads.count.saturating_sub(1).max(1))
            .thread_name(|number| format!("ahead-{number}"))
            .build()?;
        Ok(Crew { pool, threads })
    }
}

/// Work of one node in a window.
struct Part<'a, N: Node> {
    id: NodeId,
    node: &'a mut N,
    own: &'a mut Attachment<N::Message, N::Frame>,
}

impl<N: Node> Part<'_, N> {
    fn run(&mut self, until: u64, clock: u64) {
        loop {
            let lane = self.own.lane.as_mut();
            let Some((at, event)) = lane.and_then(|lane| lane.next()) else {
                return;
            };
            let mut ctx = Context::ahead(self.own, self.id, at, until, clock);
            deliver(self.node, event, &mut ctx);
        }
    }
}

impl<N: Node> Engine<N> {
    /// Begins a window if the next event is the first one of a window.
    pub(super) fn run_ahead(&mut self, limit: u64) {
        let Some(crew) = &self.crew else {
            return;
        };
        let Some(at) = self.core.next_event_at() else {
            return;
        };
        // Events at the limit are excluded, because the caller may act on any node then.
        if at < self.core.window_end || at >= limit || !self.core.has_trains() {
            return;
        }
        let until = self.core.window(at, limit);
        let runners = self.core.gather(until, crew.threads.least_events);
        if runners.is_empty() {
            return;
        }
        let clock = self.core.clock_at(at);
        let mut parts = Vec::with_capacity(runners.len());
        let (mut nodes, mut attachments, mut before) =
            (&mut self.nodes[..], &mut self.core.attachments[..], 0);
        for id in runners.iter().copied() {
            let (first, rest) = nodes.split_at_mut(id.0 - before + 1);
            let (own, others) = attachments.split_at_mut(id.0 - before + 1);
            (nodes, attachments) = (rest, others);
            if let (Some(node), Some(own)) = (first.last_mut(), own.last_mut()) {
                parts.push(Part { id, node, own });
            }
            before = id.0 + 1;
        }
        let threads = crew.threads.count.min(parts.len());
        let parts = Mutex::new(parts.into_iter());
        let work = || loop {
            let next = parts.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(mut part) = next else {
                return;
            };
            part.run(until, clock);
        };
        crew.pool.in_place_scope(|scope| {
            for _ in 1..threads {
                scope.spawn(|_| work());
            }
            work();
        });
        self.core.are_ahead(&runners);
    }
}

#[cfg(test)]
mod tests;
