//! State of an engine other than its nodes.
//!
//! Terms: a node *runs ahead* if it handles events before the engine reaches their time (`window.rs`). An *epoch* is an
//! interval of virtual time within which no node affects a node that runs ahead. A *window* is the part of an epoch for
//! which nodes run ahead. A *follower* is a frame without visible effect, delivered without an event of its own. A
//! *train* is the followers on their way to a node (`train.rs`).

use std::collections::BTreeSet;

use alfirk_roce::steady::StateVisitor;

use super::agenda::Agenda;
use super::context::Context;
use super::link::{Count, Direction, End};
use super::port_map::PortMap;
use super::steady::{Detector, IgnoredWake};
use super::train::{Departures, FlowPosition, FollowerRange, Train};
use super::window::AheadLog;
use super::{
    DropReason, Event, FaultProbabilities, Frame, LinkConfig, LinkCounters, LinkError, NodeId,
    Observation, Observer,
};

/// Maximum number of requests of wake events that are recorded for each node. Longer periods are not used.
pub(super) const MAX_IGNORED_WAKES: usize = 1 << 14;

/// State of an engine other than its nodes: time, events, links and observers.
pub(super) struct Core<M, F> {
    /// Current time in nanoseconds; only [`Core::advance_to`] changes it.
    pub(super) now: u64,
    pub(super) handled: u64,
    pub(super) notified: bool,
    /// Nodes that have called [`super::Context::notify`] since the last call of [`super::Engine::take_notifying`].
    pub(super) notifying: BTreeSet<NodeId>,
    pub(super) observers: Vec<Box<dyn Observer>>,
    seed: u64,
    pub(super) agenda: Agenda<Event<M, F>>,
    pub(super) node_states: Vec<NodeState<M, F>>,
    /// Nodes that have announced followers. Some of their trains may have ended since.
    pub(super) expecting: Vec<NodeId>,
    /// Both ends of each link, by link number.
    links: Vec<[End; 2]>,
    /// Whether any link has gone down since the start.
    has_outages: bool,
    /// Length of an epoch in nanoseconds: the time for which no node affects a node that runs ahead (see
    /// [`super::window`]).
    lookahead: u64,
    /// Number of the current epoch.
    pub(super) epoch: u64,
    /// End of the current epoch, in nanoseconds.
    epoch_end: u64,
    /// End of the current window in nanoseconds, or of the last interval that needed no window.
    pub(super) window_end: u64,
    /// Number of events that nodes have handled ahead of time and whose recorded effects are not applied yet.
    pub(super) ahead: usize,
    /// Finds steady states.
    pub(super) detector: Detector,
    /// Node that has marked the begin of a possible period while it handled the present event.
    pub(super) marked: Option<NodeId>,
    /// Number of acts on nodes and links by the engine's caller, and of messages delivered.
    pub(super) disturbances: u64,
}

/// State that the engine keeps for one node.
pub(super) struct NodeState<M, F> {
    name: String,
    pub(super) ports: PortMap<Port, 1>,
    /// The announced followers that are on their way to the node; `None` for a node that has announced none.
    pub(super) train: Option<Box<Train<F>>>,
    /// Whether the node may announce followers, as [`super::Node::expects_followers`] returns.
    expects_followers: bool,
    /// Delay in nanoseconds from the arrival of a frame to its delivery, as [`super::Node::reception_delay`] returns.
    reception_delay: u64,
    /// Time in nanoseconds of the node's valid wake event; `None` without one. Wake events at other times are still in
    /// the agenda, and are ignored.
    pub(super) wake: Option<u64>,
    /// Requests of wake events that [`super::Context::wake_at`] has ignored since the begin of a possible period
    /// ([`super::steady`]).
    pub(super) ignored_wakes: Vec<IgnoredWake>,
    /// Number of events that the engine had handled when the node last handled one.
    pub(super) touched: u64,
    /// Log of the events and effects of a node that may run ahead; `None` for other nodes.
    pub(super) ahead_log: Option<Box<AheadLog<M, F>>>,
}

/// A port with a link: the sending direction of the link. Transmission of a frame accesses no state of other nodes.
pub(super) struct Port {
    pub(super) direction: Direction,
    /// Reception delay of the node at the other end, in nanoseconds.
    delay: u64,
    /// Whether the node at the other end may announce followers.
    receiver_expects_followers: bool,
    /// Whether the node at this end may run ahead.
    sender_runs_ahead: bool,
    /// Record of the frames that departed to a node which may announce followers; `None` before the first frame.
    departures: Option<Box<Departures>>,
}

impl<M, F> NodeState<M, F> {
    /// Whether [`super::Node::on_idle`] must be called now for `port`. False if the node has transmitted another frame
    /// at this time. Clears the node's request.
    pub(super) fn becomes_idle(&mut self, port: u32, now: u64) -> bool {
        let port = self.ports.get_mut(port);
        port.is_some_and(|port| port.direction.take_waiting(now))
    }

    /// Records that the node's request at `now` of a wake event at `at` was ignored. Times are in nanoseconds.
    #[inline]
    pub(super) fn ignore_wake(&mut self, now: u64, at: u64) {
        let is_full = self.ignored_wakes.len() >= MAX_IGNORED_WAKES;
        match self.ignored_wakes.last_mut() {
            Some(last) if last.now == now => last.at = at,
            _ if is_full => {}
            _ => self.ignored_wakes.push(IgnoredWake { now, at }),
        }
    }

    /// Whether the wake event at the current time is valid; a later request may have replaced it by an earlier event.
    pub(super) fn wakes(&self, now: u64) -> bool {
        self.wake == Some(now)
    }

    /// Counters of a port at the engine's time, even if its node has handled later events; `None` for a port without a
    /// link.
    pub(super) fn counters(&self, port: u32) -> Option<LinkCounters> {
        let mut counters = self.ports.get(port)?.direction.counters().clone();
        let pending = self
            .ahead_log
            .iter()
            .flat_map(|ahead_log| ahead_log.pending(port));
        pending.for_each(|count| counters.revert_count(count));
        Some(counters)
    }
}

impl Port {
    /// Visits the state of the port. `frame`: a frame of the flow that departs to a node which announces followers.
    pub(super) fn visit_state<F: Frame>(
        &mut self,
        visitor: &mut StateVisitor<'_>,
        frame: Option<&F>,
    ) {
        self.direction.visit_state(visitor);
        visitor.same(self.departures.is_some().into());
        if let Some(departures) = &mut self.departures {
            match frame {
                Some(frame) => frame.enter_stream(visitor),
                None => visitor.enter([]),
            }
            departures.visit_state(visitor);
        }
    }

    /// Time at which the node at the other end receives a frame that arrives at the end of its link at time `at`.
    pub(super) fn delivered_at(&self, at: u64) -> u64 {
        at.saturating_add(self.delay)
    }

    /// Records the departure of a frame that is not a follower.
    pub(super) fn departs(&mut self, place: FlowPosition) {
        if self.receiver_expects_followers {
            let sender_runs_ahead = self.sender_runs_ahead;
            let new = || Box::new(Departures::new(place, sender_runs_ahead));
            self.departures.get_or_insert_with(new).record_other(place);
        }
    }

    /// If the frame that departs now is a follower, returns the sending direction and its record of departures; else
    /// `None`.
    #[inline]
    pub(super) fn follower_departure(
        &mut self,
        place: FlowPosition,
        epoch: u64,
    ) -> Option<(&mut Direction, &mut Departures)> {
        let departures = self.departures.as_deref_mut()?;
        let is_follower = departures.is_follower(place, epoch) && self.direction.keeps_order();
        is_follower.then_some((&mut self.direction, departures))
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
            node_states: Vec::new(),
            expecting: Vec::new(),
            links: Vec::new(),
            has_outages: false,
            lookahead: u64::MAX,
            epoch: 0,
            epoch_end: 0,
            window_end: 0,
            ahead: 0,
            detector: Detector::new(),
            marked: None,
            disturbances: 0,
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
            "{name}: a node that runs ahead cannot have followers"
        );
        self.limit_lookahead(runs_ahead.unwrap_or(u64::MAX));
        self.node_states.push(NodeState {
            name: name.to_string(),
            ports: PortMap::new(),
            train: None,
            expects_followers,
            reception_delay,
            wake: None,
            ignored_wakes: Vec::new(),
            touched: 0,
            ahead_log: runs_ahead.map(|_| Box::new(AheadLog::new())),
        });
        NodeId(self.node_states.len() - 1)
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
        for (end, direction) in both.into_iter().zip([from_a, from_b]) {
            let to = &self.node_states[direction.to().node.0];
            let latency = direction.least_latency().saturating_add(to.reception_delay);
            let limits = to.ahead_log.is_some();
            let port = Port {
                direction,
                delay: to.reception_delay,
                receiver_expects_followers: to.expects_followers,
                sender_runs_ahead: self.node_states[end.node.0].ahead_log.is_some(),
                departures: None,
            };
            if limits {
                self.limit_lookahead(latency);
            }
            self.node_states[end.node.0].ports.add(end.port, port);
        }
        self.links.push(both);
        Ok(self.links.len() - 1)
    }

    /// Reduces the length of an epoch to at most `at_most` nanoseconds, the latency of a path to a node that may run
    /// ahead.
    fn limit_lookahead(&mut self, at_most: u64) {
        self.lookahead = self.lookahead.min(at_most);
        self.epoch_end = 0;
        self.advance_to(self.now);
    }

    /// Advances the time to `now`, and the epoch if `now` is after the end of the current epoch.
    #[inline]
    pub(super) fn advance_to(&mut self, now: u64) {
        self.now = now;
        if now >= self.epoch_end {
            self.epoch = self.epoch_at(now);
            self.epoch_end = self.epoch_end(now);
        }
    }

    /// Number of the epoch that contains the time `at`.
    pub(super) fn epoch_at(&self, at: u64) -> u64 {
        at / self.lookahead.max(1)
    }

    /// End in nanoseconds of the epoch that contains the time `at`.
    fn epoch_end(&self, at: u64) -> u64 {
        let next = self.epoch_at(at).saturating_add(1);
        next.saturating_mul(self.lookahead.max(1))
    }

    /// Begins a window at `at`, the time of the next event, for an engine that runs until `limit`. Returns the end of
    /// the window in nanoseconds.
    pub(super) fn window(&mut self, at: u64, limit: u64) -> u64 {
        let end = self.epoch_end(at).min(limit).min(self.agenda.near_end());
        // Without lookahead no node can run ahead.
        self.window_end = if self.lookahead == 0 { at } else { end };
        self.window_end
    }

    pub(super) fn name(&self, id: NodeId) -> &str {
        &self.node_states[id.0].name
    }

    fn port(&self, end: End) -> Option<&Port> {
        self.node_states[end.node.0].ports.get(end.port)
    }

    fn port_mut(&mut self, end: End) -> Option<&mut Port> {
        self.node_states[end.node.0].ports.get_mut(end.port)
    }

    /// Counters of the frames that a node has sent through a port; `None` if the port has no link.
    pub(super) fn counters(&self, node: NodeId, port: u32) -> Option<LinkCounters> {
        self.node_states[node.0].counters(port)
    }

    /// Names and counters of both directions of every link, the direction from the first end first.
    pub(super) fn directions(&self) -> impl Iterator<Item = (&str, LinkCounters)> {
        let ends = self.links.iter().flatten();
        ends.filter_map(|end| {
            let name = self.port(*end)?.direction.name();
            Some((name, self.counters(end.node, end.port)?))
        })
    }

    pub(super) fn set_link_up(&mut self, link: usize, up: bool) {
        self.has_outages = true;
        let now = self.now;
        for end in self.links[link] {
            if let Some(port) = self.port_mut(end) {
                port.direction.set_up(up, now);
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
                port.direction.set_faults(faults)?;
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
        debug_assert!(at >= self.now, "an event is in the past");
        self.advance_to(at);
        self.handled += 1;
        Some(event)
    }

    /// Schedules the delivery of a frame that arrives at the end of its link at `at`. The node at `to` receives it at
    /// `delivered_at`, which is later by the node's reception delay.
    pub(super) fn schedule_delivery(
        &mut self,
        to: End,
        outages: u32,
        at: u64,
        delivered_at: u64,
        frame: F,
    ) {
        if delivered_at > at && self.is_observed() {
            let frame = frame.clone();
            self.agenda.add(at, Event::LinkEnd { to, outages, frame });
        }
        self.agenda
            .add(delivered_at, Event::Arrival { to, outages, frame });
    }

    /// Train of a node: the followers on their way to it; `None` for a node that has announced none.
    #[inline]
    pub(super) fn train_mut(&mut self, node: NodeId) -> Option<&mut Train<F>> {
        self.node_states[node.0].train.as_deref_mut()
    }

    /// Ends the train to a node (the announced followers on their way to it), if a frame of another flow arrives.
    /// `place`: position of the arriving frame in its flow; `None` if it is not part of a flow.
    #[inline]
    pub(super) fn interrupt(&mut self, node: NodeId, place: Option<FlowPosition>) {
        if self
            .train_mut(node)
            .is_some_and(|train| !train.is_for_flow_of(place))
        {
            self.end_train(node);
        }
    }

    /// Records a node's announcement that the `count` frames after `frame` in its flow are followers.
    pub(super) fn record_announcement(
        &mut self,
        node: NodeId,
        frame: &F,
        place: FlowPosition,
        count: u32,
    ) {
        if self.departures_to(node).is_none() {
            return;
        }
        if count == 0 {
            return self.end_train(node);
        }
        let train = &mut self.node_states[node.0].train;
        let train = train.get_or_insert_with(|| Box::new(Train::new()));
        let announced = train.record_announcement(frame, place, count);
        if !std::mem::replace(&mut train.is_listed, true) {
            self.expecting.push(node);
        }
        self.announce(node, Some(announced));
    }

    /// Ends the train to a node: followers on their way become events. Those that have arrived must have been
    /// delivered.
    pub(super) fn end_train(&mut self, node: NodeId) {
        let epoch = self.epoch;
        let Some(train) = self.train_mut(node).filter(|train| train.has_head()) else {
            return;
        };
        let ahead = train.end_train(epoch);
        self.announce(node, None);
        let Some((port, port_state)) = self.node_states[node.0].ports.iter().next() else {
            return;
        };
        let (to, outages) = (End { node, port }, port_state.direction.outages());
        for (at, frame) in ahead {
            self.agenda.add(at, Event::Arrival { to, outages, frame });
        }
    }

    /// Adds a departed follower to the train of the node at `to`, for delivery at time `at`. The follower becomes an
    /// event if its announcement has ended.
    pub(super) fn add_follower(&mut self, to: End, outages: u32, place: FlowPosition, at: u64) {
        let train = self.train_mut(to.node);
        let train = train.expect("a node that has announced followers has a train");
        if let Some(frame) = train.push(place, at) {
            self.agenda.add(at, Event::Arrival { to, outages, frame });
        }
    }

    /// Returns the record of frames that departed to a node which has one port; `None` before the first departure.
    fn departures_to(&mut self, node: NodeId) -> Option<&mut Departures> {
        let (_, port) = self.node_states[node.0].ports.iter().next()?;
        let from = port.direction.to();
        self.port_mut(from)?.departures.as_deref_mut()
    }

    /// Passes to the sender at the other end of a node's link which frames the node has announced as followers; `None`
    /// if the announcement has ended.
    fn announce(&mut self, node: NodeId, announced: Option<FollowerRange>) {
        let epoch = self.epoch;
        if let Some(departures) = self.departures_to(node) {
            departures.record_announcement(announced, epoch);
        }
    }

    /// Removes the nodes whose trains have ended from [`Core::expecting`].
    pub(super) fn remove_ended_trains(&mut self) {
        let node_states = &mut self.node_states;
        self.expecting.retain(|id| {
            let train = node_states[id.0].train.as_mut();
            train.is_some_and(|train| {
                train.is_listed = train.has_head();
                train.is_listed
            })
        });
    }

    /// Arrival time of the last follower in any train, or the current time if that is later.
    pub(super) fn last_arrival(&self) -> u64 {
        let trains = self.node_states.iter().filter_map(|a| a.train.as_ref());
        trains
            .filter_map(|train| train.last_arrival())
            .fold(self.now, u64::max)
    }

    /// Whether frames that follow one another on a link may be stored as a train: one event for the first frame, with
    /// the arrival times of the others. This requires that there are no observers, and that no link has gone down since
    /// the start of the simulation.
    pub(super) fn has_trains(&self) -> bool {
        !self.has_outages && !self.is_observed()
    }

    /// Reports to observers that a frame has arrived at the end of its link, before its delivery to the node.
    pub(super) fn show_arrival_at_link_end(&mut self, to: End, outages: u32, frame: &F) {
        self.show_arrival(to, self.now, outages, frame);
    }

    /// Whether an arriving frame reaches its node, because the link has not gone down since its departure. Reports the
    /// arrival to observers, and counts a frame that is lost.
    pub(super) fn arrives(&mut self, to: End, outages: u32, frame: &F) -> bool {
        // With many nodes, memory accesses to other nodes and links would dominate the cost of a frame.
        if !self.has_outages && !self.is_observed() {
            return true;
        }
        let delay = self.node_states[to.node.0].reception_delay;
        let at = self.now - delay;
        if delay == 0 && self.is_observed() {
            self.show_arrival(to, at, outages, frame);
        }
        let Some(port) = self.port(to) else {
            return false;
        };
        let (from, is_there) = (
            port.direction.to(),
            port.direction.survives_outages(outages, at),
        );
        if let Some(port) = self.port_mut(from).filter(|_| !is_there) {
            port.direction.count(Count::Drop(DropReason::LinkDown));
        }
        is_there
    }

    fn show_arrival(&mut self, to: End, at: u64, outages: u32, frame: &F) {
        let Some(port) = self.port(to) else {
            return;
        };
        let from = port.direction.to();
        if port.direction.survives_outages(outages, at) {
            let (port, frame) = (to.port, &frame.bytes());
            self.observed(to.node, Observation::Receive { port, frame });
        } else {
            self.lost(from.node, from.port, frame, DropReason::LinkDown);
        }
    }

    /// Reports to observers the loss of a frame that was to leave, or has left, through `port`.
    pub(super) fn lost(&mut self, node: NodeId, port: u32, frame: &F, reason: DropReason) {
        if self.is_observed() {
            let bytes = frame.bytes();
            let drop = Observation::Drop {
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

    /// Whether the wake event of a node at the current time is valid.
    pub(super) fn wakes(&self, node: NodeId) -> bool {
        self.node_states[node.0].wakes(self.now)
    }

    /// Whether a node may run ahead of the engine's time.
    pub(super) fn runs_ahead(&self, node: NodeId) -> bool {
        self.node_states[node.0].ahead_log.is_some()
    }

    /// Whether any node has handled events that are in the future of the engine.
    pub(super) fn is_ahead(&self) -> bool {
        self.ahead > 0
    }

    /// Whether this node has handled events that are in the future of the engine.
    pub(super) fn has_passed(&self, node: NodeId) -> bool {
        self.is_ahead()
            && self.node_states[node.0]
                .ahead_log
                .as_ref()
                .is_some_and(|ahead_log| ahead_log.is_ahead())
    }

    /// Records that a node has called [`super::Context::notify`].
    pub(super) fn notify(&mut self, node: NodeId) {
        self.notified = true;
        self.notifying.insert(node);
    }

    pub(super) fn observed(&mut self, node: NodeId, observation: Observation<'_>) {
        if self.observers.is_empty() {
            return;
        }
        let name = &self.node_states[node.0].name;
        for observer in &mut self.observers {
            observer.observe(self.now, name, observation);
        }
    }
}
