//! Interface of a node's handlers to the engine.

use std::net::Ipv4Addr;

use alfirk_aggregation::Group;

use super::link::{Count, Fate};
use super::state::{Attachment, Core, Port};
use super::train::Place;
use super::window::Effect;
use super::{DropReason, Event, Frame, Happening, NodeId, Observer};

/// Interface of a node's handlers to the engine: time, ports, timers and messages.
pub struct Context<'a, M, F = Vec<u8>> {
    node: NodeId,
    now: u64,
    /// Number of the current epoch (see [`super::window`]).
    clock: u64,
    reach: Reach<'a, M, F>,
}

enum Reach<'a, M, F> {
    /// Effects are applied at once.
    All(&'a mut Core<M, F>),
    /// The node runs ahead, in a window that ends at this time, and its effects are recorded.
    Own(&'a mut Attachment<M, F>, u64),
}

impl<'a, M, F: Frame> Context<'a, M, F> {
    pub(super) fn new(core: &'a mut Core<M, F>, node: NodeId) -> Self {
        Context {
            node,
            now: core.now,
            clock: core.clock,
            reach: Reach::All(core),
        }
    }

    /// Creates the context of a node that runs ahead, at time `now`.
    pub(super) fn ahead(
        own: &'a mut Attachment<M, F>,
        node: NodeId,
        now: u64,
        until: u64,
        clock: u64,
    ) -> Self {
        Context {
            node,
            now,
            clock,
            reach: Reach::Own(own, until),
        }
    }

    fn own(&self) -> &Attachment<M, F> {
        match &self.reach {
            Reach::All(core) => &core.attachments[self.node.0],
            Reach::Own(own, _) => own,
        }
    }

    pub(super) fn own_mut(&mut self) -> &mut Attachment<M, F> {
        match &mut self.reach {
            Reach::All(core) => &mut core.attachments[self.node.0],
            Reach::Own(own, _) => own,
        }
    }

    fn port(&self, port: u32) -> Option<&Port> {
        self.own().ports.get(port)
    }

    fn port_mut(&mut self, port: u32) -> Option<&mut Port> {
        self.own_mut().ports.get_mut(port)
    }

    /// Engine state, if there are observers.
    fn observed(&mut self) -> Option<&mut Core<M, F>> {
        match &mut self.reach {
            Reach::All(core) if core.is_observed() => Some(core),
            _ => None,
        }
    }

    fn has_trains(&self) -> bool {
        match &self.reach {
            Reach::All(core) => core.has_trains(),
            Reach::Own(..) => true,
        }
    }

    fn record(&mut self, effect: impl FnOnce() -> Effect<M, F>) {
        if let Reach::Own(own, _) = &mut self.reach {
            if let Some(lane) = &mut own.lane {
                lane.record(effect());
            }
        }
    }

    /// Schedules an event of this node.
    fn add_own(&mut self, at: u64, event: Event<M, F>) {
        match &mut self.reach {
            Reach::All(core) => core.agenda.add(at, event),
            Reach::Own(own, until) => {
                if let Some(lane) = &mut own.lane {
                    match at < *until {
                        true => lane.add_own(at, event),
                        false => lane.record(Effect::Add { at, event }),
                    }
                }
            }
        }
    }

    fn count(&mut self, port: u32, count: Count) {
        if let Some(plug) = self.port_mut(port) {
            plug.way.count(count);
            self.record(|| Effect::Count { port, count });
        }
    }

    /// The current virtual time in nanoseconds.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The node whose handler runs.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Whether `port` is connected and its transmitter is idle. It becomes idle in the nanosecond in which the last bit of a
    /// frame leaves.
    pub fn can_transmit(&self, port: u32) -> bool {
        let port = self.port(port);
        port.is_some_and(|port| port.way.idle_at() <= self.now)
    }

    /// Requests a call of [`super::Node::on_idle`] when the transmitter of `port` is idle. A node that transmits another frame
    /// before that must request it again.
    pub fn await_idle(&mut self, port: u32) {
        let (node, now) = (self.node, self.now);
        let plug = self.port_mut(port);
        if let Some(at) = plug.and_then(|plug| plug.way.wait(now)) {
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
            core.observed(node, Happening::Transmit { port, frame });
        }
        let len = frame.len();
        let plug = self.port_mut(port).expect("transmit on a connected port");
        assert!(plug.way.idle_at() <= now, "transmit on an idle port");
        let (at, copy_at, is_held) = match plug.way.transmit(len, now) {
            Fate::Arrives {
                at,
                copy_at,
                is_held,
            } => (at, copy_at, is_held),
            Fate::Dropped(reason) => return self.lose(port, &frame, reason),
        };
        if let Some(place) = place.filter(|_| plug.way.keeps_order()) {
            plug.departs(place);
        }
        let (to, epoch) = (plug.way.to(), plug.way.epoch());
        let taken_in = plug.taken_in(at);
        let copy = copy_at.map(|at| (at, plug.taken_in(at), frame.clone()));
        match &mut self.reach {
            Reach::All(core) => {
                core.carry(to, epoch, at, taken_in, frame);
                if let Some((at, taken_in, frame)) = copy {
                    core.carry(to, epoch, at, taken_in, frame);
                }
            }
            Reach::Own(..) => {
                let (at, len) = (taken_in, len as u32);
                self.record(|| Effect::Carry {
                    port,
                    len,
                    to,
                    epoch,
                    at,
                    frame,
                });
                if is_held {
                    let count = Count::Reordered;
                    self.record(|| Effect::Count { port, count });
                }
                if let Some((_, at, frame)) = copy {
                    let count = Count::Duplicated;
                    self.record(|| Effect::Count { port, count });
                    self.record(|| Effect::Again {
                        to,
                        epoch,
                        at,
                        frame,
                    });
                }
            }
        }
    }

    /// Shows observers the loss of a frame that was to leave through `port`, and was counted.
    fn lose(&mut self, port: u32, frame: &F, reason: DropReason) {
        let node = self.node;
        match &mut self.reach {
            Reach::All(core) => core.lost(node, port, frame, reason),
            Reach::Own(..) => self.record_loss(port, frame.len(), reason),
        }
    }

    fn record_loss(&mut self, port: u32, len: usize, reason: DropReason) {
        for count in [Count::Frame(len as u32), Count::Drop(reason)] {
            self.record(|| Effect::Count { port, count });
        }
    }

    /// Transmits a follower of `len` bytes on the link of `port`, given only its position in the flow. False if the node at the
    /// other end does not expect it or the transmitter is busy: then the frame must be transmitted normally.
    pub fn transmit_follower(&mut self, port: u32, len: usize, place: Place) -> bool {
        if place.asks || !self.has_trains() {
            return false;
        }
        let (now, clock) = (self.now, self.clock);
        let Some(plug) = self.port_mut(port) else {
            return false;
        };
        let Some((way, departures)) = plug.follower(place, clock) else {
            return false;
        };
        if way.idle_at() > now {
            return false;
        }
        let at = match way.transmit(len, now) {
            Fate::Arrives { at, .. } => at,
            // The loss leaves a gap, so the next frame of the flow is not a follower.
            Fate::Dropped(reason) => {
                self.record_loss(port, len, reason);
                return true;
            }
        };
        departures.takes_along(place);
        let (to, epoch, at) = (plug.way.to(), plug.way.epoch(), plug.taken_in(at));
        match &mut self.reach {
            Reach::All(core) => core.board(to, epoch, place, at),
            Reach::Own(..) => self.record(|| Effect::Board {
                port,
                len: len as u32,
                to,
                epoch,
                at,
                place,
            }),
        }
        true
    }

    /// Announces that the next `count` frames after `frame`, which was just delivered, are followers: they cause no visible
    /// change. The engine may deliver them later, by [`super::Node::on_followers`], but before any other event of the node.
    pub fn expect_followers(&mut self, frame: &F, count: u32) {
        // A node that runs ahead gets every frame as an event.
        if let (Reach::All(core), Some(place)) = (&mut self.reach, frame.place()) {
            core.expect(self.node, frame, place, count);
        }
    }

    /// Counts a frame of `len` bytes that the node itself dropped before transmission on `port`.
    pub fn count_drop(&mut self, port: u32, len: usize, reason: DropReason) {
        self.count(port, Count::Drop(reason));
        let node = self.node;
        if let Some(core) = self.observed() {
            let frame = None;
            let drop = Happening::Drop {
                port,
                len,
                frame,
                reason,
            };
            core.observed(node, drop);
        }
    }

    /// Counts a PAUSE frame transmitted on `port`.
    pub fn count_pause(&mut self, port: u32) {
        self.count(port, Count::Pause);
    }

    /// Counts nanoseconds during which `port` was paused by the other end.
    pub fn count_paused(&mut self, port: u32, ns: u64) {
        if ns > 0 {
            self.count(port, Count::Paused(ns));
        }
    }

    /// Sets the timer for [`super::Node::on_wake`] to `at` (ns), or to the current time if that has passed. A node has
    /// one timer: an earlier time replaces a later one, a later time is ignored.
    pub fn wake_at(&mut self, at: u64) {
        let at = at.max(self.now);
        let wake = &mut self.own_mut().wake;
        if wake.is_none_or(|set| at < set) {
            *wake = Some(at);
            let node = self.node;
            self.add_own(at, Event::Wake { node });
        }
    }

    /// Sends `message` to node `to`, which may be this node, to arrive after `delay` nanoseconds.
    pub fn send(&mut self, to: NodeId, message: M, delay: u64) {
        let at = self.now.saturating_add(delay);
        let from = self.node;
        let event = Event::Message { from, to, message };
        if to == from {
            return self.add_own(at, event);
        }
        match &mut self.reach {
            Reach::All(core) => core.agenda.add(at, event),
            Reach::Own(..) => self.record(|| Effect::Add { at, event }),
        }
    }

    /// Makes the running [`super::Engine::step`] return [`super::Step::Notified`], so that its caller collects results
    /// from this node ([`super::Engine::take_notifying`]).
    pub fn notify(&mut self) {
        match &mut self.reach {
            Reach::All(core) => core.notify(self.node),
            Reach::Own(..) => self.record(|| Effect::Notify),
        }
    }

    /// Adds a line to the trace; `text` is called only if an observer uses notes.
    pub fn note(&mut self, text: impl FnOnce() -> String) {
        let node = self.node;
        if self.wants_notes() {
            if let Some(core) = self.observed() {
                core.observed(node, Happening::Note(&text()));
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
        match &self.reach {
            Reach::All(core) => core.observers.iter().any(|observer| wants(&**observer)),
            Reach::Own(..) => false,
        }
    }

    /// Shows observers the state of a group on this switch; `None` if the group was removed.
    pub fn show_group(&mut self, mcst_id: Ipv4Addr, group: Option<&Group>) {
        let node = self.node;
        if let Some(core) = self.observed() {
            core.observed(node, Happening::Group { mcst_id, group });
        }
    }
}
