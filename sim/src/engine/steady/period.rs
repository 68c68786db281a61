//! Periods: intervals that repeat, and the comparison of a state with the begin of one.

use std::ops::Range;

use alfirk_roce::steady::{Kind, Stream, Value};

use super::recording::{EventForm, EventRecording, NodeRecording, Recording};
use crate::engine::state::{NodeState, MAX_IGNORED_WAKES};

/// Number of PSNs, and half of it, beyond which their order is reversed.
const PSNS: u64 = 1 << 24;
const HALF: u64 = PSNS / 2;

/// An interval that repeats whenever the state equals that at its begin, up to a shift.
pub(super) struct Period {
    /// The state at the begin: the nodes and events that are part of the period.
    pub(super) begin: Recording,
    /// Nanoseconds.
    pub(super) length: u64,
    /// Number of packets sent, for each stream.
    pub(super) packets: Vec<u64>,
    /// Largest distance of any packet number that moves, from that of the next packet, for each stream.
    pub(super) span: Vec<u64>,
    /// Number of events handled.
    pub(super) handled: u64,
    /// Change of each value in `begin`.
    pub(super) changes: Vec<u64>,
    /// For each node in `begin`: how its wake event changes.
    pub(super) wakes: Vec<Wakes>,
}

/// Wake event of a node in a period.
pub(super) enum Wakes {
    /// There is none, or it is part of the period.
    Repeat,
    /// It is later than the period. The node has requested these wake events meanwhile, which were ignored because they are
    /// later still.
    Wait(Vec<IgnoredWake>),
}

/// A request of a later wake event than that which is scheduled. Times are in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine) struct IgnoredWake {
    /// Time of the request.
    pub(in crate::engine) now: u64,
    /// Requested time.
    pub(in crate::engine) at: u64,
}

/// A recurrence of a period's begin.
pub(super) struct Recurrence {
    /// Number of periods to skip.
    pub(super) times: u64,
    /// For each event in the agenda, in order: its index among the period's events; `None` if it is not one of them.
    pub(super) events: Vec<Option<usize>>,
}

impl Period {
    /// Returns the period from `begin` to `end`, if the state has recurred up to a shift.
    pub(super) fn between<M, F>(
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
                Kind::FreePs if self.is_past(a, b) => 0,
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

    /// Whether two times in picoseconds are in the past: `a` at the begin of the period, `b` at its end.
    fn is_past(&self, a: u64, b: u64) -> bool {
        let end = self.begin.at + self.length;
        a <= self.begin.at * 1_000 && b <= end * 1_000
    }

    /// The change in one period of a value of this kind that moves.
    fn shift(&self, kind: Kind) -> u64 {
        let packets = |stream: u16| self.packets[usize::from(stream)];
        match kind {
            Kind::Time => self.length,
            Kind::TimePs | Kind::FreePs => self.length * 1_000,
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
    pub(super) fn recurs(&self, now: &Recording, latest: u64) -> Option<Recurrence> {
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

    /// Wake event of a node after `times` periods from the state `now`, if the node may pass over wake events, and the
    /// number of wake events before it. `None` if a wake event meets another event of the node in the same nanosecond, so
    /// that their order may matter, or a deadline.
    ///
    /// A wake event that is passed over requests the next one at the time that the node has requested last.
    pub(super) fn wake_after(
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
            // A wake event that has passed since has no effect on a period without requests.
            Wakes::Wait(ignored) if ignored.is_empty() && now.wake.is_none() => Some(()),
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
            Kind::TimePs | Kind::FreePs if moves => {
                a.wrapping_sub(before.at * 1_000) == c.wrapping_sub(present.at * 1_000)
            }
            Kind::TimePs | Kind::FreePs => a <= before.at * 1_000 && c <= present.at * 1_000,
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
