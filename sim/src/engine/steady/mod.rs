//! Steady states: periods of a simulation that repeat, and are skipped.
//!
//! Long messages bring a simulation into a state that recurs up to a shift: some packets later every queue, every frame
//! on a link and every queue pair is as before, except for packet numbers, times and counters
//! ([`alfirk_roce::steady`]). From then on each period has the same events. In place of simulating them, the engine adds
//! a multiple of the period's changes to the state. The idea is that of Wormhole (NSDI 2026), which skips steady states
//! of flows by their rates. Here nothing is estimated: a period is skipped only if the whole state has recurred, to the
//! packet and the picosecond, so results equal those of the simulation event by event.
//!
//! How it is decided:
//!
//! 1. A node marks the begin of a possible period ([`super::Context::mark_period`]). The marks of one node at which its
//!    link is in the same phase are compared.
//! 2. At a mark, the engine records the state of all nodes that have handled events lately, and all scheduled events
//!    ([`Recording`]).
//! 3. At a later mark, the state is recorded again. The two are compared for the nodes that have handled events in
//!    between. Other nodes had no influence, and will have none. If all values have either moved by the period's shift
//!    or stayed the same, the interval is a [`Period`].
//! 4. Some values that stay the same limit the number of periods: packets left in the message, timers, scheduled events
//!    that are not part of the period, and PSNs which are compared with those that move. The caller's limit does, too.
//! 5. A wake event that only requests the next one does not end a steady state ([`Node::may_pass_wakes`]). Its time after
//!    the skipped periods follows from the requests in the period ([`Wakes`]).
//! 6. Periods are kept. When the state recurs after a disturbance, they are used again.
//!
//! Nothing is skipped with observers, after a link has gone down, on links with random faults, while a node is ahead
//! (`window.rs`), and after any act of the engine's caller on a node within the period. A node whose state is not of a
//! supported kind prevents it, too ([`StateVisitor::unsupported`]).

mod period;
mod recording;

use std::collections::BTreeSet;

use alfirk_roce::steady::{StateVisitor, Stream};

pub(super) use self::period::IgnoredWake;
use self::period::{Period, Recurrence, Wakes};
use self::recording::{EventForm, EventRecording, Mark, NodeRecording, Recording};
use super::state::{Core, NodeState};
use super::{Engine, Event, Frame, Node, NodeId};

/// Maximum number of periods that are kept: one for each phase of the link in a period.
const MAX_PERIODS: usize = 16;

/// Number of values that may be recorded for each event that is simulated. Recording a value takes about a hundredth of
/// the time of an event.
const VALUES_PER_EVENT: u64 = 10;
/// Number of values that may be recorded without regard to the events.
const FREE_VALUES: u64 = 1 << 16;

/// Number of marks in other phases than that of the reference after which it is replaced, times the number of comparisons
/// that it was recorded for.
const MAX_WAIT: u32 = 64;

/// Number of marks without a recurrence after which several threads are used again, until as many marks have passed.
const PATIENCE: u32 = 256;

/// Finds periods.
pub(super) struct Detector {
    is_enabled: bool,
    /// The state with which later ones are compared.
    reference: Option<Recording>,
    /// Number of comparisons with `reference` before it is replaced. It doubles with each replacement, so that periods of
    /// any length are found (Brent's algorithm for cycles).
    power: u32,
    /// Number of comparisons with the reference.
    compared: u32,
    /// Number of marks in other phases than that of the reference, since it was recorded.
    waited: u32,
    /// Periods found, the one used last in front.
    periods: Vec<Period>,
    /// Number of values recorded so far.
    recorded: u64,
    /// Number of marks since a state recurred.
    marks: u32,
    /// Number of events skipped so far.
    skipped: u64,
}

impl Detector {
    pub(super) fn new() -> Detector {
        Detector {
            is_enabled: true,
            reference: None,
            power: 1,
            compared: 0,
            waited: 0,
            periods: Vec::new(),
            recorded: 0,
            marks: 0,
            skipped: 0,
        }
    }

    pub(super) fn enable(&mut self, is_enabled: bool) {
        self.is_enabled = is_enabled;
    }

    /// Number of events skipped so far.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Whether marks are compared now, so that no node may run ahead.
    pub(super) fn is_searching(&self) -> bool {
        self.is_enabled && self.marks > 0 && (self.marks / PATIENCE) % 2 == 0
    }

    /// Whether a state at this mark may be the begin or the end of a period.
    fn expects(&mut self, mark: Mark) -> bool {
        let Some(reference) = &self.reference else {
            return true;
        };
        let is_known = |period: &Period| period.begin.mark == mark;
        if reference.mark == mark || self.periods.iter().any(is_known) {
            return true;
        }
        self.waited += 1;
        self.waited > MAX_WAIT * self.power
    }

    /// Number of events handled before the time since which nodes that have handled events are recorded.
    fn since(&self) -> u64 {
        let periods = self.periods.iter().map(|period| period.begin.handled);
        let all = periods.chain(self.reference.iter().map(|reference| reference.handled));
        all.min().unwrap_or(0)
    }

    /// Records that a comparison has found no recurrence. Returns whether the reference was compared often enough, or there
    /// is none.
    fn needs_reference(&mut self) -> bool {
        let is_used_up = self.compared >= self.power || self.waited > MAX_WAIT * self.power;
        self.reference.is_none() || is_used_up
    }

    /// Sets the state with which later ones are compared.
    fn set_reference(&mut self, now: Recording) {
        if self.reference.is_some() {
            self.power = self.power.saturating_mul(2);
        }
        (self.compared, self.waited) = (0, 0);
        self.reference = Some(now);
    }

    /// Begins to search for a further period.
    fn restart_search(&mut self) {
        self.reference = None;
        self.power = 1;
        (self.compared, self.waited, self.marks) = (0, 0, 1);
    }

    fn may_record(&self, handled: u64) -> bool {
        self.recorded <= FREE_VALUES + VALUES_PER_EVENT * handled
    }
}

impl<M, F: Frame> NodeState<M, F> {
    /// Visits the engine's state of a node.
    fn visit_state(&mut self, visitor: &mut StateVisitor<'_>, frames: &[Option<F>], epoch: u64) {
        visitor.same(u64::from(self.train.is_some()));
        if let Some(train) = &mut self.train {
            train.visit_state(visitor, epoch);
        }
        for ((_, port), frame) in self.ports.iter_mut().zip(frames) {
            port.visit_state(visitor, frame.as_ref());
        }
    }
}

impl<M, F: Frame> Core<M, F> {
    /// Visits the engine's state of a node.
    fn visit_node(&mut self, id: NodeId, visitor: &mut StateVisitor<'_>) {
        let ports = self.node_states[id.0].ports.iter();
        // A port's record of departures concerns the flow that the node at the other end has announced.
        let frames: Vec<_> = ports
            .map(|(_, port)| {
                let to = &self.node_states[port.direction.to().node.0];
                to.train.as_ref()?.head_frame().cloned()
            })
            .collect();
        let epoch = self.epoch;
        self.node_states[id.0].visit_state(visitor, &frames, epoch);
    }
}

impl<N: Node> Engine<N> {
    /// Sets whether steady states are skipped, as they are by default. No result depends on it.
    pub fn skip_steady_states(&mut self, skips: bool) {
        self.core.detector.enable(skips);
    }

    /// Number of events that were skipped, and that [`Engine::events`] includes.
    pub fn skipped_events(&self) -> u64 {
        self.core.detector.skipped()
    }

    /// Handles the mark of a node, which may be the begin of a period. Skips periods that end by `latest`, a time in
    /// nanoseconds.
    pub(super) fn handle_mark(&mut self, node: NodeId, latest: u64) {
        let core = &mut self.core;
        if !core.detector.is_enabled || !core.has_trains() {
            return;
        }
        if self.nodes[node.0].streams().is_empty() {
            return;
        }
        core.detector.marks = core.detector.marks.saturating_add(1);
        if core.is_ahead() || !core.detector.may_record(core.handled) {
            return;
        }
        let port = core.node_states[node.0].ports.iter().next();
        let Some(phase) = port.and_then(|(_, port)| port.direction.phase(core.now)) else {
            return;
        };
        let mark = Mark { node, phase };
        if core.detector.expects(mark) {
            self.compare(mark, latest);
        }
    }

    /// Records the state at a mark, and compares it with the begins of known periods and with the reference.
    fn compare(&mut self, mark: Mark, latest: u64) {
        self.deliver_all_followers();
        let now = self.record(mark);
        let mut periods = std::mem::take(&mut self.core.detector.periods);
        let mut found = periods.iter().enumerate().find_map(|(index, period)| {
            let recurrence = (period.begin.mark == mark).then(|| period.recurs(&now, latest));
            recurrence.flatten().map(|recurrence| (index, recurrence))
        });
        if found.is_none() {
            let detector = &mut self.core.detector;
            let reference = detector
                .reference
                .take_if(|reference| reference.mark == mark);
            if let Some(reference) = reference {
                match Period::between(&reference, &now, &self.core.node_states) {
                    Some(period) => {
                        let recurrence = period.recurs(&now, latest);
                        periods.insert(0, period);
                        periods.truncate(MAX_PERIODS);
                        found = recurrence.map(|recurrence| (0, recurrence));
                        self.core.detector.restart_search();
                    }
                    None => {
                        self.core.detector.reference = Some(reference);
                        self.core.detector.compared += 1;
                    }
                }
            }
        }
        match found {
            Some((index, recurrence)) => {
                periods[..=index].rotate_right(1);
                self.core.detector.restart_search();
                self.skip(&periods[0], &now, &recurrence);
            }
            None if self.core.detector.needs_reference() => {
                // A period from here on depends on the timers that are set in it.
                for own in &mut self.core.node_states {
                    own.ignored_wakes.clear();
                }
                self.core.detector.set_reference(now);
            }
            None => {}
        }
        self.core.detector.periods = periods;
    }

    /// Records the state of the nodes that have handled events lately, and all scheduled events.
    fn record(&mut self, mark: Mark) -> Recording {
        let core = &mut self.core;
        let since = core.detector.since();
        let recent = |(id, own): (usize, &NodeState<_, _>)| (own.touched >= since).then_some(id);
        let ids: Vec<usize> = core
            .node_states
            .iter()
            .enumerate()
            .filter_map(recent)
            .collect();
        let streams: Vec<Stream> = ids
            .iter()
            .flat_map(|id| self.nodes[*id].streams())
            .collect();
        let mut values = Vec::new();
        let mut nodes = Vec::with_capacity(ids.len());
        // Two streams to one destination are not distinguishable.
        let destinations: BTreeSet<_> = streams.iter().map(|stream| stream.to).collect();
        let is_clear = destinations.len() == streams.len() && !streams.is_empty();
        for id in ids {
            let from = values.len();
            let mut visitor = StateVisitor::recorder(&streams, &mut values);
            core.visit_node(NodeId(id), &mut visitor);
            self.nodes[id].visit_state(&mut visitor);
            let is_supported = visitor.is_supported() && is_clear;
            let own = &core.node_states[id];
            nodes.push(NodeRecording {
                id: NodeId(id),
                wake: own.wake,
                may_pass_wakes: self.nodes[id].may_pass_wakes(),
                is_supported,
                values: from..values.len(),
            });
        }
        let mut events = Vec::with_capacity(core.agenda.len());
        for (at, number, event) in core.agenda.all() {
            let from = values.len();
            let mut form = event.form();
            if let Event::Arrival { frame, .. } = event {
                let mut visitor = StateVisitor::recorder(&streams, &mut values);
                frame.clone().visit_state(&mut visitor);
                if !visitor.is_supported() {
                    form = EventForm::Unsupported;
                }
            }
            events.push(EventRecording {
                at,
                number,
                form,
                values: from..values.len(),
            });
        }
        core.detector.recorded += values.len() as u64;
        Recording {
            mark,
            at: core.now,
            handled: core.handled,
            disturbances: core.disturbances,
            streams,
            nodes,
            events,
            values,
        }
    }

    /// Advances the state `now` by the periods of a recurrence.
    fn skip(&mut self, period: &Period, now: &Recording, recurrence: &Recurrence) {
        let core = &mut self.core;
        let times = recurrence.times;
        let later = period.length * times;
        core.handled += period.handled * times;
        core.detector.skipped += period.handled * times;
        let mut passed_wakes = Vec::new();
        for (node, wakes) in period.begin.nodes.iter().zip(&period.wakes) {
            let changes = &period.changes[node.values.clone()];
            let mut visitor = StateVisitor::shifter(&now.streams, changes, times);
            core.visit_node(node.id, &mut visitor);
            self.nodes[node.id.0].visit_state(&mut visitor);
            let own = &mut core.node_states[node.id.0];
            own.touched = core.handled;
            match (wakes, own.wake) {
                (Wakes::Repeat, at) => own.wake = at.map(|at| at + later),
                (Wakes::Wait(ignored), Some(at)) if at <= now.at + later => {
                    let after = period.wake_after(now, at, ignored, times);
                    let (next, passed) = after.expect("the number of periods allows for it");
                    own.wake = Some(next);
                    core.handled += passed;
                    core.detector.skipped += passed;
                    passed_wakes.push((node.id, at, next));
                }
                (Wakes::Wait(_), _) => {}
            }
        }
        let events = core.agenda.drain().into_iter().zip(&recurrence.events);
        let mut events: Vec<_> = events
            .map(|((at, mut event), index)| {
                let Some(index) = index else {
                    let passes = |(id, from, _): &&(NodeId, u64, u64)| {
                        *from == at && matches!(event, Event::Wake { node } if node == *id)
                    };
                    let next = passed_wakes.iter().find(passes);
                    return (next.map_or(at, |(_, _, next)| *next), false, event);
                };
                if let Event::Arrival { frame, .. } = &mut event {
                    let changes = &period.changes[period.begin.events[*index].values.clone()];
                    frame.visit_state(&mut StateVisitor::shifter(&now.streams, changes, times));
                }
                (at + later, true, event)
            })
            .collect();
        // An event that waits was scheduled before those of the last period.
        events.sort_by_key(|(at, is_part, _)| (*at, *is_part));
        core.agenda.advance_to(now.at + later);
        for (at, _, event) in events {
            core.agenda.add(at, event);
        }
        core.advance_to(now.at + later);
    }
}
