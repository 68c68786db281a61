//! Interface through which a node's handlers use the engine.
//!
//! Terms: a node *runs ahead* if it handles events before the engine reaches their time (`window.rs`). An *epoch* is an
//! interval of virtual time within which no node affects a node that runs ahead. A *window* is the part of an epoch for
//! which nodes run ahead. A *follower* is a frame without visible effect, delivered without an event of its own. A
//! *train* is the followers on their way to a node (`train.rs`).

use std::net::Ipv4Addr;

use alfirk_aggregation::Group;

use super::link::{Count, TransmitResult};
use super::state::{Core, NodeState, Port};
use super::train::FlowPosition;
use super::window::Effect;
use super::{DropReason, Event, Frame, NodeId, Observation, Observer};

/// Interface through which a node's handlers use the engine: time, ports, timers and messages.
pub struct Context<'a, M, F = Vec<u8>> {
    node: NodeId,
    now: u64,
    /// Number of the current epoch (see [`super::window`]).
    epoch: u64,
    access: Access<'a, M, F>,
}

/// The part of the engine that a handler may access.
enum Access<'a, M, F> {
    /// The whole engine. Effects of the handler are applied at once.
    Engine(&'a mut Core<M, F>),
    /// Only the node's own state. The node runs ahead in a window that ends at the given time in nanoseconds, and its
    /// effects are recorded.
    NodeOnly(&'a mut NodeState<M, F>, u64),
}

impl<'a, M, F: Frame> Context<'a, M, F> {
    pub(super) fn new(core: &'a mut Core<M, F>, node: NodeId) -> Self {
        Context {
            node,
            now: core.now,
            epoch: core.epoch,
            access: Access::Engine(core),
        }
    }

    /// Creates the context of a node that handles an event at `now`, ahead of the engine's time.
    pub(super) fn ahead(
        own: &'a mut NodeState<M, F>,
        node: NodeId,
        now: u64,
        until: u64,
        epoch: u64,
    ) -> Self {
        Context {
            node,
            now,
            epoch,
            access: Access::NodeOnly(own, until),
        }
    }

    fn own_state(&self) -> &NodeState<M, F> {
        match &self.access {
            Access::Engine(core) => &core.node_states[self.node.0],
            Access::NodeOnly(own, _) => own,
        }
    }

    pub(super) fn own_state_mut(&mut self) -> &mut NodeState<M, F> {
        match &mut self.access {
            Access::Engine(core) => &mut core.node_states[self.node.0],
            Access::NodeOnly(own, _) => own,
        }
    }

    fn port(&self, port: u32) -> Option<&Port> {
        self.own_state().ports.get(port)
    }

    fn port_mut(&mut self, port: u32) -> Option<&mut Port> {
        self.own_state_mut().ports.get_mut(port)
    }

    /// Returns the state of the engine, for reports to observers; `None` if there are no observers.
    fn observed(&mut self) -> Option<&mut Core<M, F>> {
        match &mut self.access {
            Access::Engine(core) if core.is_observed() => Some(core),
            _ => None,
        }
    }

    fn has_trains(&self) -> bool {
        match &self.access {
            Access::Engine(core) => core.has_trains(),
            Access::NodeOnly(..) => true,
        }
    }

    /// Records an effect of a node that runs ahead; does nothing for other nodes.
    fn record(&mut self, effect: impl FnOnce() -> Effect<M, F>) {
        if let Access::NodeOnly(own, _) = &mut self.access {
            if let Some(ahead_log) = &mut own.ahead_log {
                ahead_log.record(effect());
            }
        }
    }

    /// Schedules an event for this node at time `at`.
    fn add_own(&mut self, at: u64, event: Event<M, F>) {
        match &mut self.access {
            Access::Engine(core) => core.agenda.add(at, event),
            Access::NodeOnly(own, until) => {
                if let Some(ahead_log) = &mut own.ahead_log {
                    match at < *until {
                        true => ahead_log.add_own(at, event),
                        false => ahead_log.record(Effect::Add { at, event }),
                    }
                }
            }
        }
    }

    fn count(&mut self, port: u32, count: Count) {
        if let Some(port_state) = self.port_mut(port) {
            port_state.direction.count(count);
            self.record(|| Effect::Count { port, count });
        }
    }

    /// Current virtual time in nanoseconds.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Number of the node whose handler runs.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Whether `port` is connected and its transmitter is idle. A transmitter becomes idle in the nanosecond in which
    /// the last bit of a frame leaves.
    pub fn can_transmit(&self, port: u32) -> bool {
        let port = self.port(port);
        port.is_some_and(|port| port.direction.idle_at() <= self.now)
    }

    /// Requests a call of [`super::Node::on_idle`] when the transmitter of `port` is idle. A node that transmits
    /// another frame before that call must request it again.
    pub fn await_idle(&mut self, port: u32) {
        let (node, now) = (self.node, self.now);
        let port_state = self.port_mut(port);
        if let Some(at) = port_state.and_then(|port_state| port_state.direction.wait(now)) {
            self.add_own(at, Event::Idle { node, port });
        }
    }

    /// Whether `port` is connected.
    pub fn is_connected(&self, port: u32) -> bool {
        self.port(port).is_some()
    }

    /// Transmits `frame` on the link of `port`.
    ///
    /// # Panics
    ///
    /// If [`Context::can_transmit`] is false for `port`: the node must queue the frame, and call [`Context::await_idle`].
    pub fn transmit(&mut self, port: u32, frame: F) {
        let place = frame.place().filter(|_| self.has_trains());
        if place.is_some_and(|place| self.transmit_follower(port, frame.len(), place)) {
            return;
        }
        let (node, now) = (self.node, self.now);
        if let Some(core) = self.observed() {
            let frame = &frame.bytes();
            core.observed(node, Observation::Transmit { port, frame });
        }
        let len = frame.len();
        let port_state = self.port_mut(port).expect("transmit on a connected port");
        assert!(
            port_state.direction.idle_at() <= now,
            "transmit on an idle port"
        );
        let (at, copy_at, is_reordered) = match port_state.direction.transmit(len, now) {
            TransmitResult::Arrives {
                at,
                copy_at,
                is_reordered,
            } => (at, copy_at, is_reordered),
            TransmitResult::Dropped(reason) => return self.report_loss(port, &frame, reason),
        };
        if let Some(place) = place.filter(|_| port_state.direction.keeps_order()) {
            port_state.departs(place);
        }
        let (to, outages) = (port_state.direction.to(), port_state.direction.outages());
        let delivered_at = port_state.delivered_at(at);
        let copy = copy_at.map(|at| (at, port_state.delivered_at(at), frame.clone()));
        match &mut self.access {
            Access::Engine(core) => {
                core.schedule_delivery(to, outages, at, delivered_at, frame);
                if let Some((at, delivered_at, frame)) = copy {
                    core.schedule_delivery(to, outages, at, delivered_at, frame);
                }
            }
            Access::NodeOnly(..) => {
                let (at, len) = (delivered_at, len as u32);
                self.record(|| Effect::Frame {
                    port,
                    len,
                    to,
                    outages,
                    at,
                    frame,
                });
                if is_reordered {
                    let count = Count::Reordered;
                    self.record(|| Effect::Count { port, count });
                }
                if let Some((_, at, frame)) = copy {
                    let count = Count::Duplicated;
                    self.record(|| Effect::Count { port, count });
                    self.record(|| Effect::Duplicate {
                        to,
                        outages,
                        at,
                        frame,
                    });
                }
            }
        }
    }

    /// Reports to observers that a frame which was to leave through `port` is lost. The loss is counted already.
    fn report_loss(&mut self, port: u32, frame: &F, reason: DropReason) {
        let node = self.node;
        match &mut self.access {
            Access::Engine(core) => core.lost(node, port, frame, reason),
            Access::NodeOnly(..) => self.record_loss(port, frame.len(), reason),
        }
    }

    /// Counts a frame of `len` bytes that was lost at `port`.
    fn record_loss(&mut self, port: u32, len: usize, reason: DropReason) {
        for count in [Count::Frame(len as u32), Count::Drop(reason)] {
            self.record(|| Effect::Count { port, count });
        }
    }

    /// Transmits a follower of `len` bytes on `port`, without the frame itself. Returns false if the node at the other
    /// end has not announced it as a follower, or if the transmitter is busy. The caller must then use
    /// [`Context::transmit`].
    pub fn transmit_follower(&mut self, port: u32, len: usize, place: FlowPosition) -> bool {
        if place.requests_reply || !self.has_trains() {
            return false;
        }
        let (now, epoch) = (self.now, self.epoch);
        let Some(port_state) = self.port_mut(port) else {
            return false;
        };
        let Some((direction, departures)) = port_state.follower_departure(place, epoch) else {
            return false;
        };
        if direction.idle_at() > now {
            return false;
        }
        let at = match direction.transmit(len, now) {
            TransmitResult::Arrives { at, .. } => at,
            // The loss leaves a gap in the flow, so the next frame is not a follower.
            TransmitResult::Dropped(reason) => {
                self.record_loss(port, len, reason);
                return true;
            }
        };
        departures.record_follower(place);
        let (to, outages, at) = (
            port_state.direction.to(),
            port_state.direction.outages(),
            port_state.delivered_at(at),
        );
        match &mut self.access {
            Access::Engine(core) => core.add_follower(to, outages, place, at),
            Access::NodeOnly(..) => self.record(|| Effect::Follower {
                port,
                len: len as u32,
                to,
                outages,
                at,
                place,
            }),
        }
        true
    }

    /// Announces that the next `count` frames of the flow after `frame`, which was just delivered, are followers: they
    /// cause no visible effect. The engine may deliver them later, by [`super::Node::on_followers`], but before any
    /// other event of the node.
    pub fn expect_followers(&mut self, frame: &F, count: u32) {
        // A node that runs ahead gets every frame as an event of its own.
        if let (Access::Engine(core), Some(place)) = (&mut self.access, frame.place()) {
            core.record_announcement(self.node, frame, place, count);
        }
    }

    /// Counts a frame of `len` bytes that the node has dropped before transmission on `port`.
    pub fn count_drop(&mut self, port: u32, len: usize, reason: DropReason) {
        self.count(port, Count::Drop(reason));
        let node = self.node;
        if let Some(core) = self.observed() {
            let frame = None;
            let drop = Observation::Drop {
                port,
                len,
                frame,
                reason,
            };
            core.observed(node, drop);
        }
    }

    /// Counts a PAUSE frame that stops the other end, transmitted on `port`.
    pub fn count_pause(&mut self, port: u32) {
        self.count(port, Count::Pause);
    }

    /// Adds `ns` nanoseconds to the pause time of `port`: the other end had paused the port for so long.
    pub fn count_paused(&mut self, port: u32, ns: u64) {
        if ns > 0 {
            self.count(port, Count::Paused(ns));
        }
    }

    /// Sets the timer for [`super::Node::on_wake`] to `at` in nanoseconds, or to the current time if that has passed. A
    /// node has one timer. An earlier time replaces a later one; a later time is ignored.
    pub fn wake_at(&mut self, at: u64) {
        let at = at.max(self.now);
        let wake = &mut self.own_state_mut().wake;
        if wake.is_none_or(|set| at < set) {
            *wake = Some(at);
            let node = self.node;
            self.add_own(at, Event::Wake { node });
        } else {
            let now = self.now;
            self.own_state_mut().ignore_wake(now, at);
        }
    }

    /// Sends `message` to node `to`, which may be this node. The message arrives after `delay` nanoseconds.
    pub fn send(&mut self, to: NodeId, message: M, delay: u64) {
        let at = self.now.saturating_add(delay);
        let from = self.node;
        let event = Event::Message { from, to, message };
        if to == from {
            return self.add_own(at, event);
        }
        match &mut self.access {
            Access::Engine(core) => core.agenda.add(at, event),
            Access::NodeOnly(..) => self.record(|| Effect::Add { at, event }),
        }
    }

    /// Marks the begin of a possible period of a steady state. A node that sends at regular intervals should do so at each
    /// of them; the marks have no influence on results ([`super::steady`]).
    pub fn mark_period(&mut self) {
        if let Access::Engine(core) = &mut self.access {
            core.marked = Some(self.node);
        }
    }

    /// Makes the running [`super::Engine::step`] return [`super::Step::Notified`], so that its caller collects results
    /// from this node ([`super::Engine::take_notifying`]).
    pub fn notify(&mut self) {
        match &mut self.access {
            Access::Engine(core) => core.notify(self.node),
            Access::NodeOnly(..) => self.record(|| Effect::Notify),
        }
    }

    /// Adds a note of this node to the trace. Calls `text` only if an observer uses notes.
    pub fn note(&mut self, text: impl FnOnce() -> String) {
        let node = self.node;
        if self.wants_notes() {
            if let Some(core) = self.observed() {
                core.observed(node, Observation::Note(&text()));
            }
        }
    }

    /// Whether an observer uses notes.
    pub fn wants_notes(&self) -> bool {
        self.any_observer(|observer| observer.wants_notes())
    }

    /// Whether an observer uses the state of groups.
    pub fn wants_groups(&self) -> bool {
        self.any_observer(|observer| observer.wants_groups())
    }

    fn any_observer(&self, wants: impl Fn(&dyn Observer) -> bool) -> bool {
        match &self.access {
            Access::Engine(core) => core.observers.iter().any(|observer| wants(&**observer)),
            Access::NodeOnly(..) => false,
        }
    }

    /// Reports to observers the state of a group on this switch; `None` if the group was removed.
    pub fn show_group(&mut self, mcst_id: Ipv4Addr, group: Option<&Group>) {
        let node = self.node;
        if let Some(core) = self.observed() {
            core.observed(node, Observation::Group { mcst_id, group });
        }
    }
}
