//! Windows: nodes that run ahead of the others, side by side.
//!
//! Nothing that another node does now reaches a node that runs ahead ([`super::Node::runs_ahead`]) before the *lookahead* L has passed: the least,
//! over all links to such nodes, of delay, time of the shortest frame and reception delay, and over their messages of the least time that these take.
//! So time is divided into epochs of L, and at the first event of one all that can reach these nodes before its end is in the agenda
//! (Chandy and Misra: Distributed simulation, IEEE Trans. Softw. Eng. 5, 1979; with windows as in Nicol: The cost of conservative synchronization
//! in parallel discrete event simulations, J. ACM 40, 1993). Two phases follow:
//!
//! 1. Each node that runs ahead handles its events of the window, several nodes at a time. What it does that others can see is not done
//!    but recorded, event by event ([`Effect`]). It touches nothing but itself and its [`Attachment`].
//! 2. The engine goes on through the agenda as ever. Where it finds an event that has been handled ([`Event::Ahead`]) it does what was recorded.
//!
//! Results are the same as with one thread, not only equivalent, since every node handles the same events in the same order at the same
//! times: those of one node that are in the agenda keep their order, and one that the node makes for itself within the window comes behind those
//! of the same instant, as it would in the agenda. And as effects take place where they would have, events are added in the same order.
//!
//! What a node that runs ahead learns from others without an event it learns at the beginning of an epoch, with one thread, too
//! ([`super::train::Departures`]). Its counters are read as they are at the moment ([`Lane::pending`]).
//!
//! There are no windows when anybody observes, or when a link has ever been down.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::context::Context;
use super::link::{Count, End};
use super::state::{Attachment, Core};
use super::train::Place;
use super::{deliver, Engine, Event, Frame, Node, NodeId, ThreadError};

/// How many threads an engine uses, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threads {
    /// With 1, or 0, one thread does everything.
    pub count: usize,
    /// How many events there must be in a window for nodes that run ahead, so that they are divided among the threads: handing them over
    /// takes time, too.
    pub least_events: usize,
}

/// What the engine keeps for a node that runs ahead.
pub(super) struct Lane<M, F> {
    /// Its events of the window, by time.
    inbox: VecDeque<(u64, Event<M, F>)>,
    /// Those that it has made for itself, by time; of one instant behind those of the inbox.
    own: VecDeque<(u64, Event<M, F>)>,
    /// When the events were that have been handled, and how many effects each of them has.
    handled: VecDeque<(u64, u32)>,
    effects: VecDeque<Effect<M, F>>,
}

/// What a node that runs ahead has done.
pub(super) enum Effect<M, F> {
    /// A frame of `len` bytes has left through `port`, to be taken in at `at`.
    Carry {
        port: u32,
        len: u32,
        to: End,
        epoch: u32,
        at: u64,
        frame: F,
    },
    /// The same frame arrives once more.
    Again {
        to: End,
        epoch: u32,
        at: u64,
        frame: F,
    },
    /// A follower has left.
    Board {
        port: u32,
        len: u32,
        to: End,
        epoch: u32,
        at: u64,
        place: Place,
    },
    /// Something comes to another node, or to this one behind the window.
    Add {
        at: u64,
        event: Event<M, F>,
    },
    /// Something came to this node within the window.
    Own {
        at: u64,
    },
    /// Nothing but what a port counts.
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

    /// The node has done something in the event that it handles.
    #[inline]
    pub(super) fn record(&mut self, effect: Effect<M, F>) {
        self.effects.push_back(effect);
        if let Some((_, effects)) = self.handled.back_mut() {
            *effects += 1;
        }
    }

    /// The node has made an event for itself within the window.
    pub(super) fn add_own(&mut self, at: u64, event: Event<M, F>) {
        let behind = self.own.partition_point(|(other, _)| *other <= at);
        self.own.insert(behind, (at, event));
        self.record(Effect::Own { at });
    }

    /// The node's next event.
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

    /// Whether the node has handled events of times to come.
    pub(super) fn is_ahead(&self) -> bool {
        !self.handled.is_empty()
    }

    /// What a port has counted that has not happened yet.
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
    /// The node that it comes to; none if only observers see it, or if it has been handled.
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
    /// Does what a node has done ahead of time in an event that is due now.
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

    /// These nodes have handled their events of the window.
    fn are_ahead(&mut self, runners: &[NodeId]) {
        let lanes = runners
            .iter()
            .filter_map(|id| self.attachments[id.0].lane.as_ref());
        self.ahead += lanes.map(|lane| lane.handled.len()).sum::<usize>();
    }

    /// Moves the events of a window to the nodes that run ahead: which they are, in order. None if they are not worth it.
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

/// Threads that run nodes ahead.
pub(super) struct Crew {
    /// All but the one that the engine is called on.
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

/// A node's part of a window.
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
    /// Begins a window if the next event is at the beginning of one.
    pub(super) fn run_ahead(&mut self, limit: u64) {
        let Some(crew) = &self.crew else {
            return;
        };
        let Some(at) = self.core.next_event_at() else {
            return;
        };
        // What is due at the limit is left: the caller may act then, on any node.
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
