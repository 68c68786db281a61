//! Windows: conservative parallel simulation, in which some nodes run ahead of the engine's time.
//!
//! A node that may run ahead ([`super::Node::runs_ahead`]) is affected by an action of another node only after the
//! *lookahead* L. L is a minimum over all links to such nodes: propagation delay plus transmission time of the shortest
//! frame plus reception delay. It is also at most the shortest delay of messages to them. Time is divided into epochs
//! of length L. At the first event of an epoch, the agenda contains all events that reach these nodes before its end
//! (Chandy and Misra: Distributed simulation, IEEE Trans. Softw. Eng. 5, 1979; with windows as in Nicol: The cost of
//! conservative synchronization in parallel discrete event simulations, J. ACM 40, 1993). Two phases follow:
//!
//! 1. Nodes that may run ahead handle their events of the window in parallel. Effects on others are not applied but
//!    recorded, event by event ([`Effect`]). A node accesses only itself and its [`NodeState`].
//! 2. The engine processes the agenda sequentially. For an event handled ahead ([`Event::Ahead`]) it applies the
//!    recorded effects.
//!
//! Results are identical to those with one thread, because every node handles the same events in the same order at the
//! same times. Events of one node keep their order in the agenda. An event that a node schedules for itself within the
//! window follows the other events of the same time, as it would in the agenda. Effects are applied at the same point
//! as with one thread, so events are scheduled in the same order.
//!
//! Information from other nodes that needs no event takes effect at the beginning of an epoch, also with one thread
//! ([`super::train::Departures`]). Counters are read as of the engine's time ([`AheadLog::pending`]).
//!
//! With observers, or after any link has gone down, there are no windows.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::context::Context;
use super::link::{Count, End};
use super::state::{Core, NodeState};
use super::train::FlowPosition;
use super::{deliver, Engine, Event, Frame, Node, NodeId, ThreadError};

/// Number of threads of an engine, and the minimum work for which several threads are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threads {
    /// Number of threads; 0 and 1 both mean one.
    pub count: usize,
    /// Minimum number of events in a window (the interval for which nodes run ahead) for which several threads are
    /// used. With fewer events, one thread is faster. Only events of nodes that may run ahead count.
    pub least_events: usize,
}

/// Events and recorded effects of a node that may run ahead.
pub(super) struct AheadLog<M, F> {
    /// Events of the current window, moved here from the agenda, by time.
    inbox: VecDeque<(u64, Event<M, F>)>,
    /// Events that the node has scheduled for itself within the window, by time. They follow the inbox's events of the
    /// same time.
    own: VecDeque<(u64, Event<M, F>)>,
    /// For each event that the node has handled ahead: its time, and the number of its effects.
    handled: VecDeque<(u64, u32)>,
    effects: VecDeque<Effect<M, F>>,
}

/// An effect on the rest of the simulation that a node has caused, and recorded, while it ran ahead of the engine's
/// time.
pub(super) enum Effect<M, F> {
    /// The node transmitted a frame of `len` bytes on `port`; the frame is delivered at `at`.
    Frame {
        port: u32,
        len: u32,
        to: End,
        outages: u32,
        at: u64,
        frame: F,
    },
    /// The link duplicated the frame; the copy is delivered at `at`.
    Duplicate {
        to: End,
        outages: u32,
        at: u64,
        frame: F,
    },
    /// The node transmitted a follower.
    Follower {
        port: u32,
        len: u32,
        to: End,
        outages: u32,
        at: u64,
        place: FlowPosition,
    },
    /// The node scheduled an event for another node, or for itself after the window.
    Add {
        at: u64,
        event: Event<M, F>,
    },
    /// The node scheduled an event for itself within the window, at `at`.
    Own {
        at: u64,
    },
    /// The node updated a counter of a port.
    Count {
        port: u32,
        count: Count,
    },
    Notify,
}

impl<M, F> AheadLog<M, F> {
    pub(super) fn new() -> AheadLog<M, F> {
        AheadLog {
            inbox: VecDeque::new(),
            own: VecDeque::new(),
            handled: VecDeque::new(),
            effects: VecDeque::new(),
        }
    }

    /// Records an effect of the event that the node is handling.
    #[inline]
    pub(super) fn record(&mut self, effect: Effect<M, F>) {
        self.effects.push_back(effect);
        if let Some((_, effects)) = self.handled.back_mut() {
            *effects += 1;
        }
    }

    /// Schedules an event that the node has caused for itself within the window.
    pub(super) fn add_own(&mut self, at: u64, event: Event<M, F>) {
        let behind = self.own.partition_point(|(other, _)| *other <= at);
        self.own.insert(behind, (at, event));
        self.record(Effect::Own { at });
    }

    /// Removes and returns the node's next event in the window; `None` if none is left.
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

    /// Whether the node has handled events that are in the future of the engine.
    pub(super) fn is_ahead(&self) -> bool {
        !self.handled.is_empty()
    }

    /// Updates of a port's counters by events that are in the future of the engine.
    pub(super) fn pending(&self, port: u32) -> impl Iterator<Item = Count> + use<'_, M, F> {
        self.effects.iter().filter_map(move |effect| match effect {
            Effect::Frame { port: of, len, .. } | Effect::Follower { port: of, len, .. } => {
                (*of == port).then_some(Count::Frame(*len))
            }
            Effect::Count { port: of, count } => (*of == port).then_some(*count),
            _ => None,
        })
    }
}

impl<M, F> Event<M, F> {
    /// Node that handles the event; `None` for reports to observers, and for events handled ahead.
    fn node(&self) -> Option<NodeId> {
        match self {
            Event::Arrival { to, .. } => Some(to.node),
            Event::Idle { node, .. } | Event::Wake { node } => Some(*node),
            Event::Message { to, .. } => Some(*to),
            Event::LinkEnd { .. } | Event::Ahead { .. } => None,
        }
    }
}

impl<M, F: Frame> Core<M, F> {
    /// Applies the effects that a node has recorded for its event that is due now.
    pub(super) fn apply_effects(&mut self, id: NodeId) {
        let Some(mut ahead_log) = self.node_states[id.0].ahead_log.take() else {
            return;
        };
        if let Some((at, effects)) = ahead_log.handled.pop_front() {
            debug_assert_eq!(
                at, self.now,
                "effects are applied at the time of their event"
            );
            self.ahead -= 1;
            for effect in ahead_log.effects.drain(..effects as usize) {
                self.take_effect(id, effect);
            }
        }
        self.node_states[id.0].ahead_log = Some(ahead_log);
    }

    /// Applies one recorded effect of a node.
    fn take_effect(&mut self, node: NodeId, effect: Effect<M, F>) {
        match effect {
            Effect::Frame {
                to,
                outages,
                at,
                frame,
                ..
            }
            | Effect::Duplicate {
                to,
                outages,
                at,
                frame,
            } => self.agenda.add(at, Event::Arrival { to, outages, frame }),
            Effect::Follower {
                to,
                outages,
                at,
                place,
                ..
            } => self.add_follower(to, outages, place, at),
            Effect::Add { at, event } => self.agenda.add(at, event),
            Effect::Own { at } => self.agenda.add(at, Event::Ahead { node }),
            Effect::Count { .. } => {}
            Effect::Notify => self.notify(node),
        }
    }

    /// Counts the events that the nodes `runners` have handled ahead.
    fn mark_ahead(&mut self, runners: &[NodeId]) {
        let ahead_logs = runners
            .iter()
            .filter_map(|id| self.node_states[id.0].ahead_log.as_ref());
        self.ahead += ahead_logs
            .map(|ahead_log| ahead_log.handled.len())
            .sum::<usize>();
    }

    /// Moves the events before `until` from the agenda to the nodes that may run ahead, and returns these nodes in
    /// ascending order. Moves and returns none if there are fewer than `min_events` events.
    fn gather_events(&mut self, until: u64, min_events: usize) -> Vec<NodeId> {
        let node_states = &mut self.node_states;
        let runner = |event: &Event<M, F>| {
            let node = event.node()?;
            node_states[node.0].ahead_log.is_some().then_some(node)
        };
        let of_runners = self.agenda.near(until).filter_map(runner);
        if of_runners.take(min_events).count() < min_events.max(1) {
            return Vec::new();
        }
        let handled = self.handled;
        let mut runners = Vec::new();
        self.agenda.visit(until, |at, event| {
            let Some(node) = event.node() else {
                return;
            };
            let own = &mut node_states[node.0];
            let Some(ahead_log) = &mut own.ahead_log else {
                return;
            };
            own.touched = handled;
            if ahead_log.inbox.is_empty() {
                runners.push(node);
            }
            let event = std::mem::replace(event, Event::Ahead { node });
            ahead_log.inbox.push_back((at, event));
        });
        runners.sort_unstable();
        runners
    }
}

/// Worker threads that handle the events of nodes that run ahead.
pub(super) struct WorkerPool {
    /// Threads in addition to the thread that calls the engine.
    pool: rayon::ThreadPool,
    threads: Threads,
}

impl WorkerPool {
    pub(super) fn new(threads: Threads) -> Result<WorkerPool, ThreadError> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads.count.saturating_sub(1).max(1))
            .thread_name(|number| format!("ahead-{number}"))
            .build()?;
        Ok(WorkerPool { pool, threads })
    }
}

/// A node that runs ahead, with its state, as passed to a worker thread for one window.
struct Runner<'a, N: Node> {
    id: NodeId,
    node: &'a mut N,
    own: &'a mut NodeState<N::Message, N::Frame>,
}

impl<N: Node> Runner<'_, N> {
    /// Handles all events of the node that are before `until`.
    fn run(&mut self, until: u64, epoch: u64) {
        loop {
            let ahead_log = self.own.ahead_log.as_mut();
            let Some((at, event)) = ahead_log.and_then(|ahead_log| ahead_log.next()) else {
                return;
            };
            let mut ctx = Context::ahead(self.own, self.id, at, until, epoch);
            deliver(self.node, event, &mut ctx);
        }
    }
}

impl<N: Node> Engine<N> {
    /// If the next event is after the previous window, begins a window and lets nodes handle their events of that
    /// window in parallel.
    pub(super) fn run_ahead(&mut self, limit: u64) {
        let Some(workers) = &self.workers else {
            return;
        };
        let Some(at) = self.core.next_event_at() else {
            return;
        };
        // Events at the limit are not handled ahead, because the caller may act on any node then.
        let is_apart = self.core.has_trains() && !self.core.detector.is_searching();
        if at < self.core.window_end || at >= limit || !is_apart {
            return;
        }
        let until = self.core.window(at, limit);
        let runners = self.core.gather_events(until, workers.threads.least_events);
        if runners.is_empty() {
            return;
        }
        let epoch = self.core.epoch_at(at);
        let mut parts = Vec::with_capacity(runners.len());
        let (mut nodes, mut node_states, mut before) =
            (&mut self.nodes[..], &mut self.core.node_states[..], 0);
        for id in runners.iter().copied() {
            let (first, rest) = nodes.split_at_mut(id.0 - before + 1);
            let (own, others) = node_states.split_at_mut(id.0 - before + 1);
            (nodes, node_states) = (rest, others);
            if let (Some(node), Some(own)) = (first.last_mut(), own.last_mut()) {
                parts.push(Runner { id, node, own });
            }
            before = id.0 + 1;
        }
        let threads = workers.threads.count.min(parts.len());
        let parts = Mutex::new(parts.into_iter());
        let work = || loop {
            let next = parts.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(mut part) = next else {
                return;
            };
            part.run(until, epoch);
        };
        workers.pool.in_place_scope(|scope| {
            for _ in 1..threads {
                scope.spawn(|_| work());
            }
            work();
        });
        self.core.mark_ahead(&runners);
    }
}

#[cfg(test)]
mod tests;
