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

use std::collections::BTreeSet;
use std::ops::Range;

use alfirk_roce::steady::{Kind, StateVisitor, Stream, Value};

use super::state::{Core, NodeState, MAX_IGNORED_WAKES};
use super::{Engine, Event, Frame, Node, NodeId};

/// Number of PSNs, and half of it, beyond which their order is reversed.
const PSNS: u64 = 1 << 24;
const HALF: u64 = PSNS / 2;

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

/// The begin of a possible period: the node that marked it, and the phase of its link: the time in picoseconds from the
/// mark until the link is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    node: NodeId,
    phase: u64,
}

/// The recorded state of a simulation.
struct Recording {
    mark: Mark,
    at: u64,
    /// Number of events handled before.
    handled: u64,
    disturbances: u64,
    streams: Vec<Stream>,
    /// In the order of node numbers.
    nodes: Vec<NodeRecording>,
    /// In the order of the agenda.
    events: Vec<EventRecording>,
    values: Vec<Value>,
}

/// A node in a recording.
#[derive(Clone)]
struct NodeRecording {
    id: NodeId,
    wake: Option<u64>,
    /// Whether a wake event before any deadline of the node only schedules the next one.
    may_pass_wakes: bool,
    is_supported: bool,
    values: Range<usize>,
}

/// A scheduled event in a recording.
#[derive(Clone)]
struct EventRecording {
    at: u64,
    /// Number by which the agenda identifies the event.
    number: u32,
    form: EventForm,
    values: Range<usize>,
}

/// An event without its time and frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventForm {
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
    fn may_wait(self) -> bool {
        matches!(self, EventForm::Wake { .. } | EventForm::Message)
    }
}

/// An interval that repeats whenever the state equals that at its begin, up to a shift.
struct Period {
    /// The state at the begin: the nodes and events that are part of the period.
    begin: Recording,
    /// Nanoseconds.
    length: u64,
    /// Number of packets sent, for each stream.
    packets: Vec<u64>,
    /// Largest distance of any packet number that moves, from that of the next packet, for each stream.
    span: Vec<u64>,
    /// Number of events handled.
    handled: u64,
    /// Change of each value in `begin`.
    changes: Vec<u64>,
    /// For each node in `begin`: how its wake event changes.
    wakes: Vec<Wakes>,
}

/// Wake event of a node in a period.
enum Wakes {
    /// There is none, or it is part of the period.
    Repeat,
    /// It is later than the period. The node has requested these wake events meanwhile, which were ignored because they are
    /// later still.
    Wait(Vec<IgnoredWake>),
}

/// A request of a later wake event than that which is scheduled. Times are in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct IgnoredWake {
    /// Time of the request.
    pub(super) now: u64,
    /// Requested time.
    pub(super) at: u64,
}

/// A recurrence of a period's begin.
struct Recurrence {
    /// Number of periods to skip.
    times: u64,
    /// For each event in the agenda, in order: its index among the period's events; `None` if it is not one of them.
    events: Vec<Option<usize>>,
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

impl Period {
    /// Returns the period from `begin` to `end`, if the state has recurred up to a shift.
    fn between<M, F>(
        begin: &Recording,
        end: &Recording,
        node_states: &[NodeState<M, F>],
    ) -> Option<Period> {
        let is_same = |(a, b): (&Stream, &Stream)| a.to == b.to && a.mtu == b.mtu && a.psn != b.psn;
        if begin.disturbances != end.disturbances
            || begin.mark != end.mark
            || begin.streams.len() != end.streams.len()
            || !begin.streams.iter().zip(&end.streams).all(is_same)
        {
            return None;
        }
        let mut period = Period {
            begin: Recording {
                nodes: Vec::new(),
                events: Vec::new(),
                values: Vec::new(),
                streams: begin.streams.clone(),
                ..*begin
            },
            length: end.at - begin.at,
            packets: Vec::new(),
            span: vec![0; begin.streams.len()],
            handled: end.handled - begin.handled,
            changes: Vec::new(),
            wakes: Vec::new(),
        };
        let pairs = begin.streams.iter().zip(&end.streams);
        for (a, b) in pairs {
            period.packets.push(b.next.checked_sub(a.next)?);
        }
        for node in &end.nodes {
            let own = &node_states[node.id.0];
            if own.touched <= begin.handled {
                continue;
            }
            let at = begin.nodes.binary_search_by_key(&node.id, |n| n.id).ok()?;
            let before = &begin.nodes[at];
            let values = period.add_changes(
                &begin.values[before.values.clone()],
                &end.values[node.values.clone()],
            )?;
            if !before.is_supported || !node.is_supported {
                return None;
            }
            if own.ignored_wakes.len() >= MAX_IGNORED_WAKES {
                return None;
            }
            let repeats = before.wake.is_none() || before.wake != node.wake;
            period.wakes.push(match repeats {
                true => Wakes::Repeat,
                false => Wakes::Wait(own.ignored_wakes.clone()),
            });
            period.begin.nodes.push(NodeRecording {
                values,
                ..before.clone()
            });
        }
        // Events that wait are scheduled at the begin and at the end.
        let [waiting, still] = [begin, end].map(Recording::events_that_may_wait);
        let is_part = |event: &&EventRecording| {
            let key = (event.number, event.at);
            !(waiting.contains(&key) && still.contains(&key))
        };
        let mut later = end.events.iter().filter(is_part);
        for event in begin.events.iter().filter(is_part) {
            let after = later.next()?;
            let is_possible = !matches!(event.form, EventForm::Message | EventForm::Unsupported);
            if event.form != after.form || !is_possible {
                return None;
            }
            let values = period.add_changes(
                &begin.values[event.values.clone()],
                &end.values[after.values.clone()],
            )?;
            period.begin.events.push(EventRecording {
                values,
                ..event.clone()
            });
        }
        later.next().is_none().then_some(period)
    }

    /// Adds values at the begin of the period, and their changes until its end. Returns their place, or `None` if a value
    /// has changed in another way than by the period's shift.
    fn add_changes(&mut self, begin: &[Value], end: &[Value]) -> Option<Range<usize>> {
        if begin.len() != end.len() {
            return None;
        }
        let from = self.changes.len();
        for (&(kind, a), &(other, b)) in begin.iter().zip(end) {
            if kind != other {
                return None;
            }
            let change = match kind {
                Kind::Psn(_) => b.wrapping_sub(a) % PSNS,
                Kind::Identification => (b + 0xffff - a) % 0xffff,
                Kind::Room(_) => 0,
                _ => b.wrapping_sub(a),
            };
            let shift = self.shift(kind);
            let is_free = matches!(kind, Kind::Count | Kind::Identification | Kind::Saturated);
            if !is_free && change != 0 && change != shift {
                return None;
            }
            if change != 0 {
                let distance = |stream: u16, of: fn(&Stream) -> u64| {
                    let base = of(&self.begin.streams[usize::from(stream)]);
                    base.wrapping_sub(a) as i64
                };
                let moved = match kind {
                    Kind::Psn(stream) => {
                        let distance = distance(stream, |stream| stream.psn.into());
                        Some((stream, (distance << 40 >> 40).unsigned_abs()))
                    }
                    _ => None,
                };
                if let Some((stream, distance)) = moved {
                    let span = &mut self.span[usize::from(stream)];
                    *span = distance.max(*span);
                }
            }
            self.changes.push(change);
        }
        self.begin.values.extend_from_slice(begin);
        Some(from..self.changes.len())
    }

    /// The change in one period of a value of this kind that moves.
    fn shift(&self, kind: Kind) -> u64 {
        let packets = |stream: u16| self.packets[usize::from(stream)];
        match kind {
            Kind::Time => self.length,
            Kind::TimePs => self.length * 1_000,
            Kind::Psn(stream) => packets(stream) % PSNS,
            Kind::Number(stream) => packets(stream),
            Kind::Bytes(stream) => packets(stream) * self.begin.streams[usize::from(stream)].mtu,
            Kind::Same
            | Kind::Constant
            | Kind::Room(_)
            | Kind::Count
            | Kind::Identification
            | Kind::Saturated => 0,
        }
    }

    /// Whether the period begins at the state `now`, up to a shift, and how often it then repeats before `latest`, a time
    /// in nanoseconds.
    fn recurs(&self, now: &Recording, latest: u64) -> Option<Recurrence> {
        let mut comparison = Comparison::new(self, now, latest)?;
        for (node, wakes) in self.begin.nodes.iter().zip(&self.wakes) {
            let at = now.nodes.binary_search_by_key(&node.id, |n| n.id).ok()?;
            let present = &now.nodes[at];
            comparison.compare_wakes(node, present, wakes)?;
            comparison.compare_all(&node.values, &present.values)?;
        }
        let nodes = now.nodes.iter().filter(|node| node.may_pass_wakes);
        let passed = nodes.filter_map(|node| Some((EventForm::Wake { node: node.id }, node.wake?)));
        let passed: Vec<_> = passed.collect();
        let mut events = Vec::with_capacity(now.events.len());
        let mut expected = self.begin.events.iter().enumerate().peekable();
        for event in &now.events {
            let next = expected.peek().filter(|(_, expected)| {
                expected.form == event.form
                    && expected.at - self.begin.at == event.at - now.at
                    && comparison
                        .compare_all(&expected.values, &event.values)
                        .is_some()
            });
            match next {
                Some((index, _)) => {
                    events.push(Some(*index));
                    expected.next();
                }
                None if event.form.may_wait() => {
                    if !passed.contains(&(event.form, event.at)) {
                        comparison.limit_time(event.at);
                    }
                    events.push(None);
                }
                None => return None,
            }
        }
        let times = self.times_with_wakes(now, comparison.times);
        (expected.next().is_none() && times > 0).then_some(Recurrence { times, events })
    }
}

impl Recording {
    /// Numbers and times of the events that may be scheduled apart from a period.
    fn events_that_may_wait(&self) -> BTreeSet<(u32, u64)> {
        let waiting = self.events.iter().filter(|event| event.form.may_wait());
        waiting.map(|event| (event.number, event.at)).collect()
    }
}

impl Period {
    /// Wake event of a node after `times` periods from the state `now`, if the node may pass over wake events, and the
    /// number of wake events before it. `None` if a wake event meets another event of the node in the same nanosecond, so
    /// that their order may matter, or a deadline.
    ///
    /// A wake event that is passed over requests the next one at the time that the node has requested last.
    fn wake_after(
        &self,
        now: &Recording,
        mut wake: u64,
        ignored: &[IgnoredWake],
        times: u64,
    ) -> Option<(u64, u64)> {
        let end = now.at + times * self.length;
        let mut passed = 0;
        while wake <= end {
            let since = wake.checked_sub(now.at)?;
            let (periods, phase) = (since / self.length, since % self.length);
            let last = ignored.partition_point(|i| i.now - self.begin.at <= phase);
            let is_met =
                |ignored: &IgnoredWake| (ignored.now - self.begin.at) % self.length == phase;
            // Before the first request of a period, the last one of the period before counts.
            let (ignored, earlier) = match last.checked_sub(1) {
                Some(last) => (&ignored[last], 0),
                None => (ignored.last()?, self.length),
            };
            if is_met(ignored) {
                return None;
            }
            let next = (ignored.at - self.begin.at + now.at + periods * self.length)
                .checked_sub(earlier)?;
            if next <= wake {
                return None;
            }
            wake = next;
            passed += 1;
        }
        Some((wake, passed))
    }

    /// Nanoseconds from the begin of the period to the last event that is scheduled then.
    fn reach(&self) -> u64 {
        let last = self.begin.events.iter().map(|event| event.at).max();
        last.map_or(0, |at| at - self.begin.at)
    }

    /// Number of periods, at most `times`, after which the wake event of each node is known.
    fn times_with_wakes(&self, now: &Recording, mut times: u64) -> u64 {
        for (node, wakes) in self.begin.nodes.iter().zip(&self.wakes) {
            let at = now.nodes.binary_search_by_key(&node.id, |n| n.id);
            let present = at.ok().map(|at| &now.nodes[at]);
            let wake = present
                .filter(|node| node.may_pass_wakes)
                .and_then(|node| node.wake);
            if let (Wakes::Wait(ignored), Some(wake)) = (wakes, wake) {
                let until_wake = (wake - now.at - 1) / self.length;
                while times > until_wake {
                    let after = self.wake_after(now, wake, ignored, times);
                    // The order of a wake event and another event of the same time would be unknown.
                    let end = now.at + times * self.length;
                    if after.is_some_and(|(next, _)| next > end + self.reach()) {
                        break;
                    }
                    times = match after {
                        Some(_) => times - 1,
                        None => until_wake,
                    };
                }
            }
        }
        times
    }
}

/// Comparison of a state with the begin of a period.
struct Comparison<'a> {
    period: &'a Period,
    now: &'a Recording,
    /// Number of periods after which nothing limits the period so far.
    times: u64,
}

impl<'a> Comparison<'a> {
    fn new(period: &'a Period, now: &'a Recording, latest: u64) -> Option<Comparison<'a>> {
        let is_same = |(a, b): (&Stream, &Stream)| a.to == b.to && a.mtu == b.mtu;
        let streams = &period.begin.streams;
        let all_same =
            streams.len() == now.streams.len() && streams.iter().zip(&now.streams).all(is_same);
        let mut comparison = Comparison {
            period,
            now,
            times: u64::MAX,
        };
        comparison.limit_time(latest.saturating_add(1));
        all_same.then_some(comparison)
    }

    /// Limits the periods to those that end before the time `at` in nanoseconds.
    fn limit_time(&mut self, at: u64) {
        let left = at.saturating_sub(1).saturating_sub(self.now.at);
        self.times = self.times.min(left / self.period.length);
    }

    /// Limits the periods to those in which fewer than `room` packets of a stream are sent.
    fn limit_packets(&mut self, stream: u16, room: u64) {
        let left = room
            .saturating_sub(1)
            .checked_div(self.period.packets[usize::from(stream)]);
        self.times = self.times.min(left.unwrap_or(u64::MAX));
    }

    /// Compares the valid wake events of a node.
    fn compare_wakes(
        &mut self,
        begin: &NodeRecording,
        now: &NodeRecording,
        wakes: &Wakes,
    ) -> Option<()> {
        let offset = |state: &Recording, at: Option<u64>| Some(at?.wrapping_sub(state.at));
        match wakes {
            Wakes::Repeat => {
                let [begin, now] = [(&self.period.begin, begin.wake), (self.now, now.wake)]
                    .map(|(state, at)| offset(state, at));
                (begin == now).then_some(())
            }
            Wakes::Wait(ignored) => {
                let at = now.wake?;
                if !now.may_pass_wakes {
                    self.limit_time(at);
                }
                // A later one would be replaced in the period.
                let earliest = ignored.iter().map(|ignored| ignored.at).min();
                let latest = offset(&self.period.begin, earliest).unwrap_or(u64::MAX);
                (at > self.now.at && at - self.now.at <= latest).then_some(())
            }
        }
    }

    fn compare_all(&mut self, begin: &Range<usize>, now: &Range<usize>) -> Option<()> {
        if begin.len() != now.len() {
            return None;
        }
        let changes = &self.period.changes[begin.clone()];
        let begin = &self.period.begin.values[begin.clone()];
        let now = &self.now.values[now.clone()];
        for ((begin, now), change) in begin.iter().zip(now).zip(changes) {
            self.compare(*begin, *now, *change)?;
        }
        Some(())
    }

    /// Compares a value at the begin of the period with that at present. `change`: its change in the period.
    #[inline]
    fn compare(&mut self, begin: Value, now: Value, change: u64) -> Option<()> {
        let ((kind, a), (other, c)) = (begin, now);
        if kind != other {
            return None;
        }
        let (before, present) = (&self.period.begin, self.now);
        let moves = change != 0;
        let is_equal = match kind {
            Kind::Same => a == c,
            Kind::Constant | Kind::Count | Kind::Identification | Kind::Saturated => true,
            Kind::Time if moves => a.wrapping_sub(before.at) == c.wrapping_sub(present.at),
            Kind::Time if a <= before.at => c <= present.at,
            Kind::Time => {
                self.limit_time(c);
                a == c && c > present.at
            }
            Kind::TimePs if moves => {
                a.wrapping_sub(before.at * 1_000) == c.wrapping_sub(present.at * 1_000)
            }
            Kind::TimePs => a <= before.at * 1_000 && c <= present.at * 1_000,
            Kind::Room(stream) => {
                self.limit_packets(stream, c);
                true
            }
            Kind::Psn(stream) => {
                let index = usize::from(stream);
                let [from, to] = [before, present].map(|state| state.streams[index].psn.into());
                let distance = |base: u64, psn: u64| base.wrapping_sub(psn) % PSNS;
                if moves {
                    distance(from, a) == distance(to, c)
                } else {
                    let room = order_room(distance(to, c), self.period.span[index])?;
                    self.limit_packets(stream, room);
                    a == c
                }
            }
            Kind::Number(stream) => {
                let index = usize::from(stream);
                let [from, to] = [before, present].map(|state| state.streams[index].next);
                if moves {
                    from.wrapping_sub(a) == to.wrapping_sub(c)
                } else {
                    let distance = to.wrapping_sub(c) as i64;
                    let is_idle = self.period.packets[index] == 0;
                    a == c && (is_idle || distance > self.period.span[index] as i64)
                }
            }
            Kind::Bytes(stream) => {
                let index = usize::from(stream);
                let base = |state: &Recording| {
                    let stream = &state.streams[index];
                    stream.next.wrapping_mul(stream.mtu)
                };
                match moves {
                    true => a.wrapping_sub(base(before)) == c.wrapping_sub(base(present)),
                    false => a == c,
                }
            }
        };
        is_equal.then_some(())
    }
}

/// Number of packets that may be sent before the order changes of a PSN that stays and the PSNs that move. `distance`: of
/// the PSN that stays from the next one that is sent. `span`: largest distance of the others from the next one.
fn order_room(distance: u64, span: u64) -> Option<u64> {
    let until = [HALF, PSNS].into_iter().find(|until| distance < *until)?;
    let is_clear = distance % HALF > span + 1;
    let room = until.checked_sub(distance + span + 1)?;
    (is_clear && room > 0).then_some(room)
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

impl<M, F> Event<M, F> {
    fn form(&self) -> EventForm {
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
