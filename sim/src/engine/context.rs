//! What a node may do.

use std::net::Ipv4Addr;

use alfirk_aggregation::Group;

use super::link::Fate;
use super::state::{Core, Port};
use super::train::Place;
use super::{DropReason, Event, Frame, Happening, NodeId};

/// What a node's handler sees of the world and may do to it.
pub struct Context<'a, M, F = Vec<u8>> {
    core: &'a mut Core<M, F>,
    node: NodeId,
}

impl<'a, M, F: Frame> Context<'a, M, F> {
    pub(super) fn new(core: &'a mut Core<M, F>, node: NodeId) -> Self {
        Context { core, node }
    }

    fn port(&self, port: u32) -> Option<&Port> {
        self.core.attachments[self.node.0].ports.get(port)
    }

    fn port_mut(&mut self, port: u32) -> Option<&mut Port> {
        self.core.attachments[self.node.0].ports.get_mut(port)
    }

    /// The current virtual time in nanoseconds.
    pub fn now(&self) -> u64 {
        self.core.now
    }

    /// The node whose handler runs.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Whether `port` is connected and its transmitter is idle. It is so again in the nanosecond in which the last bit of a frame leaves.
    pub fn can_transmit(&self, port: u32) -> bool {
        let port = self.port(port);
        port.is_some_and(|port| port.way.idle_at() <= self.core.now)
    }

    /// Asks for [`super::Node::on_idle`] when the transmitter of `port` can take the next frame. A node with nothing to send does not
    /// ask, and one that sends another frame before then asks again.
    pub fn await_idle(&mut self, port: u32) {
        let (node, now) = (self.node, self.core.now);
        let plug = self.port_mut(port);
        if let Some(at) = plug.and_then(|plug| plug.way.wait(now)) {
            self.core.agenda.add(at, Event::Idle { node, port });
        }
    }

    /// Whether anything is connected to `port`.
    pub fn is_connected(&self, port: u32) -> bool {
        self.port(port).is_some()
    }

    /// Puts `frame` on the link of `port`.
    ///
    /// # Panics
    ///
    /// If [`Context::can_transmit`] is false for `port`: the node must queue, and [`Context::await_idle`].
    pub fn transmit(&mut self, port: u32, frame: F) {
        let place = frame.place().filter(|_| self.core.has_trains());
        if place.is_some_and(|place| self.transmit_follower(port, frame.len(), place)) {
            return;
        }
        let (node, now) = (self.node, self.core.now);
        if self.core.is_observed() {
            let frame = &frame.bytes();
            self.core
                .observed(node, Happening::Transmit { port, frame });
        }
        let plug = self.port_mut(port).expect("transmit on a connected port");
        assert!(plug.way.idle_at() <= now, "transmit on an idle port");
        match plug.way.transmit(frame.len(), now) {
            Fate::Dropped(reason) => self.core.lost(node, port, &frame, reason),
            Fate::Arrives { at, copy_at } => {
                if let Some(place) = place.filter(|_| plug.way.keeps_order()) {
                    plug.departs(place);
                }
                let (to, epoch) = (plug.way.to(), plug.way.epoch());
                let taken_in = plug.taken_in(at);
                let copy = copy_at.map(|at| (at, plug.taken_in(at), frame.clone()));
                self.core.carry(to, epoch, at, taken_in, frame);
                if let Some((at, taken_in, frame)) = copy {
                    self.core.carry(to, epoch, at, taken_in, frame);
                }
            }
        }
    }

    /// Puts a frame of `len` bytes on the link of `port`, of which nothing but its place matters, if the node at the other end expects
    /// it and the transmitter is idle; false if not: then it must be transmitted.
    pub fn transmit_follower(&mut self, port: u32, len: usize, place: Place) -> bool {
        if place.asks || !self.core.has_trains() {
            return false;
        }
        let now = self.core.now;
        let Some(plug) = self.port_mut(port) else {
            return false;
        };
        let Some((way, departures)) = plug.follower(place) else {
            return false;
        };
        if way.idle_at() > now {
            return false;
        }
        // One that is lost leaves a gap, after which the next does not fit.
        if let Fate::Arrives { at, .. } = way.transmit(len, now) {
            departures.takes_along(place);
            let (to, taken_in) = (plug.way.to(), plug.taken_in(at));
            if let Some(train) = self.core.train_mut(to.node) {
                train.push(place, taken_in);
            }
        }
        true
    }

    /// Says of the frames that follow `frame`, which the node has been given just now, that so many of them change nothing that anybody
    /// can see: they may be given to it later, by [`super::Node::on_followers`], though not later than anything else.
    pub fn expect_followers(&mut self, frame: &F, room: u32) {
        if let Some(place) = frame.place() {
            self.core.expect(self.node, frame, place, room);
        }
    }

    /// Counts a frame of `len` bytes that the node itself could not put on the link of `port`.
    pub fn count_drop(&mut self, port: u32, len: usize, reason: DropReason) {
        if let Some(port) = self.port_mut(port) {
            port.way.count_drop(reason);
        }
        self.core.observed(
            self.node,
            Happening::Drop {
                port,
                len,
                frame: None,
                reason,
            },
        );
    }

    /// Counts a PAUSE that the node has put on the link of `port`.
    pub fn count_pause(&mut self, port: u32) {
        if let Some(port) = self.port_mut(port) {
            port.way.counters_mut().pauses += 1;
        }
    }

    /// Counts nanoseconds in which the other end of its link had stopped `port`.
    pub fn count_paused(&mut self, port: u32, ns: u64) {
        if let Some(port) = self.port_mut(port) {
            port.way.counters_mut().paused_ns += ns;
        }
    }

    /// Asks for [`super::Node::on_wake`] at `at` (ns), or at once if that has passed. A node has one alarm:
    /// an earlier time replaces a later one, a later one is ignored while an earlier is set.
    pub fn wake_at(&mut self, at: u64) {
        let at = at.max(self.core.now);
        let wake = &mut self.core.attachments[self.node.0].wake;
        if wake.is_none_or(|set| at < set) {
            *wake = Some(at);
            let node = self.node;
            self.core.agenda.add(at, Event::Wake { node });
        }
    }

    /// Sends `message` to `to` (which may be this node), to arrive `delay` ns from now.
    pub fn send(&mut self, to: NodeId, message: M, delay: u64) {
        let at = self.core.now.saturating_add(delay);
        let from = self.node;
        self.core
            .agenda
            .add(at, Event::Message { from, to, message });
    }

    /// Makes the running [`super::Engine::step`] return [`super::Step::Notified`]: there is something for the
    /// caller to collect from this node, which [`super::Engine::take_telling`] names.
    pub fn notify(&mut self) {
        self.core.notified = true;
        self.core.telling.insert(self.node);
    }

    /// Adds a line to the trace; `text` is called only if an observer takes notes.
    pub fn note(&mut self, text: impl FnOnce() -> String) {
        if self.wants_notes() {
            let text = text();
            self.core.observed(self.node, Happening::Note(&text));
        }
    }

    /// Whether an observer takes notes.
    pub fn wants_notes(&self) -> bool {
        self.core.observers.iter().any(|o| o.wants_notes())
    }

    /// Whether an observer takes what switches keep of groups.
    pub fn wants_groups(&self) -> bool {
        self.core.observers.iter().any(|o| o.wants_groups())
    }

    /// Shows what this switch keeps of a group, or that it is gone.
    pub fn show_group(&mut self, mcst_id: Ipv4Addr, group: Option<&Group>) {
        let happening = Happening::Group { mcst_id, group };
        self.core.observed(self.node, happening);
    }
}
