//! State of an engine without its nodes.

use std::collections::BTreeSet;

use super::agenda::Agenda;
use super::context::Context;
use super::link::{Count, Direction, End};
use super::port_map::PortMap;
use super::train::{Departures, Place, QuietRange, Train};
use super::window::Lane;
use super::{
    DropReason, Event, FaultProbabilities, Frame, Happening, LinkConfig, LinkCounters, LinkError,
    NodeId, Observer,
};

/// State of an engine without its nodes: time, events, links and observers.
pub(super) struct Core<M, F> {
    /// Current time in nanoseconds; changed by [`Core::go_to`].
    pub(super) now: u64,
    pub(super) handled: u64,
    pub(super) notified: bool,
    /// Nodes that have called [`super::Context::notify`] since the last [`super::Engine::take_notifying`].
    pub(super) notifying: BTreeSet<NodeId>,
    pub(super) observers: Vec<Box<dyn Observer>>,
    seed: u64,
    pub(super) agenda: Agenda<Event<M, F>>,
    pub(super) attachments: Vec<Attachment<M, F>>,
    /// Nodes that have announced followers; their trains may have ended since.
    pub(super) expecting: Vec<NodeId>,
    /// Both ends of each link.
    links: Vec<[End; 2]>,
    /// Whether any link has ever been taken down.
    has_outages: bool,
    /// Length of an epoch (see [`super::window`]) in nanoseconds.
    lookahead: u64,
    /// Number of the current epoch.
    pub(super) clock: u64,
    /// End of the current epoch.
    epoch_end: u64,
    /// End of the current window, or of the interval that was found to need none.
    pub(super) window_end: u64,
    /// Number of events in the agenda that were handled ahead of time.
    pub(super) ahead: usize,
}

/// State of the engine for one node.
pub(super) struct Attachment<M, F> {
    name: String,
    pub(super) ports: PortMap<Port, 1>,
    /// Followers on their way to the node, if it expects any.
    pub(super) train: Option<Box<Train<F>>>,
    /// See [`super::Node::expects_followers`].
    expects_followers: bool,
    /// See [`super::Node::reception_delay`].
    reception_delay: u64,
    /// Time of the next valid wake event.
    pub(super) wake: Option<u64>,
    /// Pending events and recorded effects of a node that runs ahead.
    pub(super) lane: Option<Box<Lane<M, F>>>,
}

/// Sending end of a link. Sending a frame accesses no state of other nodes.
pub(super) struct Port {
    pub(super) way: Direction,
    /// Reception delay of the node at the other end.
    delay: u64,
    /// The node at the other end expects followers.
    is_expected: bool,
    /// The node at this end runs ahead.
    lags: bool,
    /// Record of frames sent to a node that expects followers; `None` before the first one.
    departures: Option<Box<Departures>>,
}

impl<M, F> Attachment<M, F> {
    /// Whether [`super::Node::on_idle`] must be called now. False if the node has transmitted another frame at this instant.
    pub(super) fn becomes_idle(&mut self, port: u32, now: u64) -> bool {
        let port = self.ports.get_mut(port);
        port.is_some_and(|port| port.way.take_waiting(now))
    }

    /// Whether the wake event of this instant is valid; an earlier one may have replaced it.
    pub(super) fn wakes(&self, now: u64) -> bool {
        self.wake == Some(now)
    }

    /// Counters of a port at the current time, even if its node is ahead.
    pub(super) fn counters(&self, port: u32) -> Option<LinkCounters> {
        let mut counters = self.ports.get(port)?.way.counters().clone();
        let pending = self.lane.iter().flat_map(|lane| lane.pending(port));
        pending.for_each(|count| counters.discount(count));
        Some(counters)
    }
}

impl Port {
    /// Delivery time of a frame that arrives at the end of the link at `at`.
    pub(super) fn taken_in(&self, at: u64) -> u64 {
        at.saturating_add(self.delay)
    }

    /// Records the departure of a frame that is not in a train.
    pub(super) fn departs(&mut self, place: Place) {
        if self.is_expected {
            let lags = self.lags;
            let new = || Box::new(Departures::new(place, lags));
            self.departures.get_or_insert_with(new).passes(place);
        }
    }

    /// Returns the record of departures, if the node at the other end expects a frame that leaves now.
    #[inline]
    pub(super) fn follower(
        &mut self,
        place: Place,
        clock: u64,
    ) -> Option<(&mut Direction, &mut Departures)> {
        let departures = self.departures.as_deref_mut()?;
        let is_expected = departures.takes(place, clock) && self.way.keeps_order();
        is_expected.then_some((&mut self.way, departures))
    }
}

impl<M, F: Frame> Core<M, F> {
    pub(super) fn new(seed: u64) -> Self {
        Core {
            now: 0,
            handled: 0,
            notified: false,
            notifying: BTreeSet::new(),
            observers: Vec::new(),
            seed,
            agenda: Agenda::new(),
            attachments: Vec::new(),
            expecting: Vec::new(),
            links: Vec::new(),
            has_outages: false,
            lookahead: u64::MAX,
            clock: 0,
            epoch_end: 0,
            window_end: 0,
            ahead: 0,
        }
    }

    pub(super) fn add_node(
        &mut self,
        name: &str,
        reception_delay: u64,
        expects_followers: bool,
        runs_ahead: Option<u64>,
    ) -> NodeId {
        assert!(
            runs_ahead.is_none() || !expects_followers,
            "{name} cannot run ahead and be given frames late"
        );
        self.look_ahead(runs_ahead.unwrap_or(u64::MAX));
        self.attachments.push(Attachment {
            name: name.to_string(),
            ports: PortMap::new(),
            train: None,
            expects_followers,
            reception_delay,
            wake: None,
            lane: runs_ahead.map(|_| Box::new(Lane::new())),
        });
        NodeId(self.attachments.len() - 1)
    }

    pub(super) fn connect(
        &mut self,
        a: (NodeId, u32),
        b: (NodeId, u32),
        config: LinkConfig,
    ) -> Result<usize, LinkError> {
        let ends = [a, b].map(|(node, port)| {
            let name = format!("{}:{port}", self.name(node));
            (End { node, port }, name)
        });
        let link_name = format!("{} - {}", ends[0].1, ends[1].1);
        for (index, (end, _)) in ends.iter().enumerate() {
            let taken = self.port(*end).is_some();
            if taken || (index == 1 && a == b) {
                return Err(LinkError::PortTaken {
                    link: link_name,
                    node: self.name(end.node).to_string(),
                    port: end.port,
                });
            }
        }
        let both = ends.each_ref().map(|(end, _)| *end);
        let [from_a, from_b] = Direction::of_link(self.seed, ends, &config)?;
        for (end, way) in both.into_iter().zip([from_a, from_b]) {
            let to = &self.attachments[way.to().node.0];
            let latency = way.least_latency().saturating_add(to.reception_delay);
            let limits = to.lane.is_some();
            let port = Port {
                way,
                delay: to.reception_delay,
                is_expected: to.expects_followers,
                lags: self.attachments[end.node.0].lane.is_some(),
                departures: None,
            };
            if limits {
                self.look_ahead(latency);
            }
            self.attachments[end.node.0].ports.add(end.port, port);
        }
        self.links.push(both);
        Ok(self.links.len() - 1)
    }

    /// Reduces the lookahead to the minimum latency of a path to a node that runs ahead, in nanoseconds.
    fn look_ahead(&mut self, at_most: u64) {
        self.lookahead = self.lookahead.min(at_most);
        self.epoch_end = 0;
        self.go_to(self.now);
    }

    /// Advances the time.
    #[inline]
    pub(super) fn go_to(&mut self, now: u64) {
        self.now = now;
        if now >= self.epoch_end {
            self.clock = self.clock_at(now);
            self.epoch_end = self.epoch_end(now);
        }
    }

    /// Number of the epoch at a time.
    pub(super) fn clock_at(&self, at: u64) -> u64 {
        at / self.lookahead.max(1)
    }

    fn epoch_end(&self, at: u64) -> u64 {
        let next = self.clock_at(at).saturating_add(1);
        next.saturating_mul(self.lookahead.max(1))
    }

    /// Begins a window at the time of the next event, and returns its end.
    pub(super) fn window(&mut self, at: u64, limit: u64) -> u64 {
        let end = self.epoch_end(at).min(limit).min(self.agenda.near_end());
        // Without lookahead no node can run ahead.
        self.window_end = if self.lookahead == 0 { at } else { end };
        self.window_end
    }

    pub(super) fn name(&self, id: NodeId) -> &str {
        &self.attachments[id.0].name
    }

    fn port(&self, end: End) -> Option<&Port> {
        self.attachments[end.node.0].ports.get(end.port)
    }

    fn port_mut(&mut self, end: End) -> Option<&mut Port> {
        self.attachments[end.node.0].ports.get_mut(end.port)
    }

    /// Counters of frames sent by a port.
    pub(super) fn counters(&self, node: NodeId, port: u32) -> Option<LinkCounters> {
        self.attachments[node.0].counters(port)
    }

    /// Names and counters of both directions of every link; the first is that of the first end.
    pub(super) fn directions(&self) -> impl Iterator<Item = (&str, LinkCounters)> {
        let ends = self.links.iter().flatten();
        ends.filter_map(|end| {
            let name = self.port(*end)?.way.name();
            Some((name, self.counters(end.node, end.port)?))
        })
    }

    pub(super) fn set_link_up(&mut self, link: usize, up: bool) {
        self.has_outages = true;
        let now = self.now;
        for end in self.links[link] {
            if let Some(port) = self.port_mut(end) {
                port.way.set_up(up, now);
            }
        }
    }

    pub(super) fn set_link_faults(
        &mut self,
        link: usize,
        faults: FaultProbabilities,
    ) -> Result<(), LinkError> {
        for end in self.links[link] {
            if let Some(port) = self.port_mut(end) {
                port.way.set_faults(faults)?;
            }
        }
        Ok(())
    }

    pub(super) fn context(&mut self, node: NodeId) -> Context<'_, M, F> {
        Context::new(self, node)
    }

    pub(super) fn next_event_at(&self) -> Option<u64> {
        self.agenda.next_at()
    }

    pub(super) fn next(&mut self, limit: u64) -> Option<Event<M, F>> {
        let (at, event) = self.agenda.take(limit)?;
        debug_assert!(at >= self.now, "time runs backwards");
        self.go_to(at);
        self.handled += 1;
        Some(event)
    }

    /// Schedules the delivery of a frame: it arrives at the other end of its link at `at`, and is delivered at `taken_in`.
    pub(super) fn carry(&mut self, to: End, epoch: u32, at: u64, taken_in: u64, frame: F) {
        if taken_in > at && self.is_observed() {
            let frame = frame.clone();
            self.agenda.add(at, Event::Passage { to, epoch, frame });
        }
        self.agenda
            .add(taken_in, Event::Arrival { to, epoch, frame });
    }

    /// Train of a node.
    #[inline]
    pub(super) fn train_mut(&mut self, node: NodeId) -> Option<&mut Train<F>> {
        self.attachments[node.0].train.as_deref_mut()
    }

    /// Ends the train of a node if a frame of another flow arrives.
    #[inline]
    pub(super) fn interrupt(&mut self, node: NodeId, place: Option<Place>) {
        if self
            .train_mut(node)
            .is_some_and(|train| !train.is_of(place))
        {
            self.disperse(node);
        }
    }

    /// Records a node's announcement that the `count` frames after `frame` are followers.
    pub(super) fn expect(&mut self, node: NodeId, frame: &F, place: Place, count: u32) {
        if self.departures_to(node).is_none() {
            return;
        }
        if count == 0 {
            return self.disperse(node);
        }
        let train = &mut self.attachments[node.0].train;
        let train = train.get_or_insert_with(|| Box::new(Train::new()));
        let quiet = train.expect(frame, place, count);
        if !std::mem::replace(&mut train.is_listed, true) {
            self.expecting.push(node);
        }
        self.announce(node, Some(quiet));
    }

    /// Ends the train to a node: followers on their way become events. Those that have arrived must have been delivered.
    pub(super) fn disperse(&mut self, node: NodeId) {
        let clock = self.clock;
        let Some(train) = self.train_mut(node).filter(|train| train.has_head()) else {
            return;
        };
        let ahead = train.disperse(clock);
        self.announce(node, None);
        let Some((port, plug)) = self.attachments[node.0].ports.iter().next() else {
            return;
        };
        let (to, epoch) = (End { node, port }, plug.way.epoch());
        for (at, frame) in ahead {
            self.agenda.add(at, Event::Arrival { to, epoch, frame });
        }
    }

    /// Adds a follower that has departed to the train, with delivery time `at`.
    pub(super) fn board(&mut self, to: End, epoch: u32, place: Place, at: u64) {
        let train = self.train_mut(to.node);
        let train = train.expect("a node that has announced followers has a train");
        if let Some(frame) = train.push(place, at) {
            self.agenda.add(at, Event::Arrival { to, epoch, frame });
        }
    }

    /// Record of departures to a node with one port; `None` before the first departure.
    fn departures_to(&mut self, node: NodeId) -> Option<&mut Departures> {
        let (_, port) = self.attachments[node.0].ports.iter().next()?;
        let from = port.way.to();
        self.port_mut(from)?.departures.as_deref_mut()
    }

    /// Passes an announcement of a node, or its end, to the other end of its link.
    fn announce(&mut self, node: NodeId, quiet: Option<QuietRange>) {
        let clock = self.clock;
        if let Some(departures) = self.departures_to(node) {
            departures.record(quiet, clock);
        }
    }

    /// Removes nodes whose trains have ended from [`Core::expecting`].
    pub(super) fn drop_dispersed(&mut self) {
        let attachments = &mut self.attachments;
        self.expecting.retain(|id| {
            let train = attachments[id.0].train.as_mut();
            train.is_some_and(|train| {
                train.is_listed = train.has_head();
                train.is_listed
            })
        });
    }

    /// Arrival time of the last follower in all trains, at least the current time.
    pub(super) fn last_arrival(&self) -> u64 {
        let trains = self.attachments.iter().filter_map(|a| a.train.as_ref());
        trains
            .filter_map(|train| train.last_arrival())
            .fold(self.now, u64::max)
    }

    /// Whether a departing frame may be a follower.
    pub(super) fn has_trains(&self) -> bool {
        !self.has_outages && !self.is_observed()
    }

    /// Shows observers a frame at the end of its link, before its delivery.
    pub(super) fn passes(&mut self, to: End, epoch: u32, frame: &F) {
        self.show_arrival(to, self.now, epoch, frame);
    }

    /// Completes the arrival of a frame; false if the link went down meanwhile.
    pub(super) fn arrives(&mut self, to: End, epoch: u32, frame: &F) -> bool {
        // With many nodes, accesses to the memory of other nodes and links dominate the cost of a frame.
        if !self.has_outages && !self.is_observed() {
            return true;
        }
        let delay = self.attachments[to.node.0].reception_delay;
        let at = self.now - delay;
        if delay == 0 && self.is_observed() {
            self.show_arrival(to, at, epoch, frame);
        }
        let Some(port) = self.port(to) else {
            return false;
        };
        let (from, is_there) = (port.way.to(), port.way.carried(epoch, at));
        if let Some(port) = self.port_mut(from).filter(|_| !is_there) {
            port.way.count(Count::Drop(DropReason::LinkDown));
        }
        is_there
    }

    fn show_arrival(&mut self, to: End, at: u64, epoch: u32, frame: &F) {
        let Some(port) = self.port(to) else {
            return;
        };
        let from = port.way.to();
        if port.way.carried(epoch, at) {
            let (port, frame) = (to.port, &frame.bytes());
            self.observed(to.node, Happening::Receive { port, frame });
        } else {
            self.lost(from.node, from.port, frame, DropReason::LinkDown);
        }
    }

    /// Shows observers the loss of a frame that was to leave, or had left, through `port`.
    pub(super) fn lost(&mut self, node: NodeId, port: u32, frame: &F, reason: DropReason) {
        if self.is_observed() {
            let bytes = frame.bytes();
            let drop = Happening::Drop {
                port,
                len: bytes.len(),
                frame: Some(&bytes),
                reason,
            };
            self.observed(node, drop);
        }
    }

    pub(super) fn is_observed(&self) -> bool {
        !self.observers.is_empty()
    }

    /// Whether a wake event of a node at the current time is valid.
    pub(super) fn wakes(&self, node: NodeId) -> bool {
        self.attachments[node.0].wakes(self.now)
    }

    /// Whether a node may run ahead.
    pub(super) fn runs_ahead(&self, node: NodeId) -> bool {
        self.attachments[node.0].lane.is_some()
    }

    /// Whether any node has handled future events.
    pub(super) fn is_ahead(&self) -> bool {
        self.ahead > 0
    }

    /// Whether a node has handled future events.
    pub(super) fn has_passed(&self, node: NodeId) -> bool {
        self.is_ahead()
            && self.attachments[node.0]
                .lane
                .as_ref()
                .is_some_and(|lane| lane.is_ahead())
    }

    /// Records a call of [`super::Context::notify`].
    pub(super) fn notify(&mut self, node: NodeId) {
        self.notified = true;
        self.notifying.insert(node);
    }

    pub(super) fn observed(&mut self, node: NodeId, happening: Happening<'_>) {
        if self.observers.is_empty() {
            return;
        }
        let name = &self.attachments[node.0].name;
        for observer in &mut self.observers {
            observer.observe(self.now, name, happening);
        }
    }
}
