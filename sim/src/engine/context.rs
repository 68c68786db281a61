//! What a node may do, and the state behind it.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use alfirk_aggregation::Group;

use super::agenda::Agenda;
use super::link::{Direction, End, Fate, Link};
use super::port_map::PortMap;
use super::train::{Place, Train};
use super::{
    DropReason, Event, FaultProbabilities, Frame, Happening, LinkConfig, LinkError, NodeId,
    Observer,
};

/// Everything of an engine but the nodes themselves.
pub(super) struct Core<M, F> {
    pub(super) now: u64,
    pub(super) handled: u64,
    pub(super) notified: bool,
    /// Nodes that have something for the caller, until it fetches it.
    pub(super) telling: BTreeSet<NodeId>,
    pub(super) observers: Vec<Box<dyn Observer>>,
    seed: u64,
    agenda: Agenda<Event<M, F>>,
    attachments: Vec<Attachment<F>>,
    /// Nodes that have said what they expect, some of them perhaps no longer.
    pub(super) expecting: Vec<NodeId>,
    links: Vec<Link>,
    /// Whether any link has ever been taken down.
    has_outages: bool,
}

/// What the engine keeps for a node.
struct Attachment<F> {
    name: String,
    ports: PortMap<Plug, 8>,
    /// What goes to it, if it is one that expects followers.
    train: Option<Box<Train<F>>>,
    /// See [`super::Node::expects_followers`].
    expects_followers: bool,
    /// See [`super::Node::reception_delay`].
    reception_delay: u64,
    /// The earliest wake event to come that still counts.
    wake: Option<u64>,
}

/// Which end of which link a port is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plug {
    link: u32,
    /// 0 or 1; also of the direction that leads away from the port.
    side: u8,
}

impl Plug {
    fn link(self) -> usize {
        self.link as usize
    }

    fn side(self) -> usize {
        usize::from(self.side)
    }
}

impl<M, F: Frame> Core<M, F> {
    pub(super) fn new(seed: u64) -> Self {
        Core {
            now: 0,
            handled: 0,
            notified: false,
            telling: BTreeSet::new(),
            observers: Vec::new(),
            seed,
            agenda: Agenda::new(),
            attachments: Vec::new(),
            expecting: Vec::new(),
            links: Vec::new(),
            has_outages: false,
        }
    }

    pub(super) fn add_node(
        &mut self,
        name: &str,
        reception_delay: u64,
        expects_followers: bool,
    ) -> NodeId {
        self.attachments.push(Attachment {
            name: name.to_string(),
            ports: PortMap::new(),
            train: None,
            expects_followers,
            reception_delay,
            wake: None,
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
            let taken = self.plug(end.node, end.port).is_some();
            if taken || (index == 1 && a == b) {
                return Err(LinkError::PortTaken {
                    link: link_name,
                    node: self.name(end.node).to_string(),
                    port: end.port,
                });
            }
        }
        let number = self.links.len();
        self.links.push(Link::new(self.seed, ends, config)?);
        let link = u32::try_from(number).expect("memory ends before");
        for (side, (node, port)) in [(0, a), (1, b)] {
            let plug = Plug { link, side };
            self.attachments[node.0].ports.add(port, plug);
        }
        Ok(number)
    }

    fn plug(&self, node: NodeId, port: u32) -> Option<Plug> {
        self.attachments[node.0].ports.get(port).copied()
    }

    pub(super) fn name(&self, id: NodeId) -> &str {
        &self.attachments[id.0].name
    }

    pub(super) fn links(&self) -> &[Link] {
        &self.links
    }

    pub(super) fn direction(&self, node: NodeId, port: u32) -> Option<&Direction> {
        let plug = self.plug(node, port)?;
        Some(self.links[plug.link()].direction(plug.side()))
    }

    fn direction_mut(&mut self, node: NodeId, port: u32) -> Option<&mut Direction> {
        let plug = self.plug(node, port)?;
        Some(self.links[plug.link()].direction_mut(plug.side()))
    }

    pub(super) fn set_link_up(&mut self, link: usize, up: bool) {
        self.has_outages = true;
        self.links[link].set_up(up, self.now);
    }

    pub(super) fn set_link_faults(
        &mut self,
        link: usize,
        faults: FaultProbabilities,
    ) -> Result<(), LinkError> {
        self.links[link].set_faults(faults)
    }

    pub(super) fn context(&mut self, node: NodeId) -> Context<'_, M, F> {
        Context { core: self, node }
    }

    pub(super) fn next_event_at(&self) -> Option<u64> {
        self.agenda.next_at()
    }

    pub(super) fn next(&mut self, limit: u64) -> Option<Event<M, F>> {
        let (at, event) = self.agenda.take(limit)?;
        debug_assert!(at >= self.now, "time runs backwards");
        self.now = at;
        self.handled += 1;
        Some(event)
    }

    /// Puts a frame on its way: it is at the other end of its link at `at`.
    fn carry(&mut self, way: Plug, at: u64, frame: F) {
        let link = &self.links[way.link()];
        let epoch = link.epoch();
        let to = link.direction(way.side()).to();
        let delay = self.attachments[to.node.0].reception_delay;
        if delay > 0 && self.is_observed() {
            let frame = frame.clone();
            self.agenda.add(at, Event::Passage { way, epoch, frame });
        }
        let taken_in = at.saturating_add(delay);
        let arrival = Event::Arrival {
            to,
            way,
            epoch,
            frame,
        };
        self.agenda.add(taken_in, arrival);
    }

    /// A frame of a flow leaves that is in no train.
    fn departs(&mut self, way: Plug, place: Place) {
        let to = self.links[way.link()].direction(way.side()).to();
        let to = &mut self.attachments[to.node.0];
        if !to.expects_followers {
            return;
        }
        let train = to
            .train
            .get_or_insert_with(|| Box::new(Train::new(way, place)));
        if train.way == way {
            train.passes(place);
        }
    }

    /// What is on its way to a node in a train.
    #[inline]
    pub(super) fn train_mut(&mut self, node: NodeId) -> Option<&mut Train<F>> {
        self.attachments[node.0].train.as_deref_mut()
    }

    /// A frame comes to a node: one of another flow than it expects ends the train.
    #[inline]
    pub(super) fn interrupt(&mut self, node: NodeId, place: Option<Place>) {
        if self
            .train_mut(node)
            .is_some_and(|train| !train.is_of(place))
        {
            self.disperse(node);
        }
    }

    /// Ends the train to a node: what is on its way arrives as frames do. All that has arrived must have been handed over.
    pub(super) fn disperse(&mut self, node: NodeId) {
        let Some(train) = self.train_mut(node).filter(|train| train.has_head()) else {
            return;
        };
        let way = train.way;
        for (at, frame) in train.disperse() {
            let link = &self.links[way.link()];
            let arrival = Event::Arrival {
                to: link.direction(way.side()).to(),
                way,
                epoch: link.epoch(),
                frame,
            };
            self.agenda.add(at, arrival);
        }
    }

    /// Leaves out of [`Core::expecting`] whose trains have ended.
    pub(super) fn forget_dispersed(&mut self) {
        let attachments = &mut self.attachments;
        self.expecting.retain(|id| {
            let train = attachments[id.0].train.as_mut();
            train.is_some_and(|train| {
                train.is_listed = train.has_head();
                train.is_listed
            })
        });
    }

    /// When the last of all that is on its way in trains arrives; not before now.
    pub(super) fn last_arrival(&self) -> u64 {
        let trains = self.attachments.iter().filter_map(|a| a.train.as_ref());
        trains
            .filter_map(|train| train.last_arrival())
            .fold(self.now, u64::max)
    }

    /// Whether a frame that leaves now may be in a train.
    fn has_trains(&self) -> bool {
        !self.has_outages && !self.is_observed()
    }

    /// A frame is at the end of its link, where its node takes it in later.
    pub(super) fn passes(&mut self, way: Plug, epoch: u32, frame: &F) {
        self.show_arrival(way, self.now, epoch, frame);
    }

    /// A node takes a frame in; false if the link went down meanwhile.
    pub(super) fn arrives(&mut self, node: NodeId, way: Plug, epoch: u32, frame: &F) -> bool {
        // What it touches of other nodes and of links decides what a frame costs when there are many of them.
        if !self.has_outages && !self.is_observed() {
            return true;
        }
        let delay = self.attachments[node.0].reception_delay;
        let at = self.now - delay;
        if delay == 0 && self.is_observed() {
            self.show_arrival(way, at, epoch, frame);
        }
        let link = &mut self.links[way.link()];
        let is_there = link.carried(epoch, at);
        if !is_there {
            let direction = link.direction_mut(way.side());
            direction.count_drop(DropReason::LinkDown);
        }
        is_there
    }

    fn show_arrival(&mut self, way: Plug, at: u64, epoch: u32, frame: &F) {
        let link = &self.links[way.link()];
        let to = link.direction(way.side()).to();
        if link.carried(epoch, at) {
            let (port, frame) = (to.port, &frame.bytes());
            self.observed(to.node, Happening::Receive { port, frame });
        } else {
            let from = link.direction(1 - way.side()).to();
            self.lost(from.node, from.port, frame, DropReason::LinkDown);
        }
    }

    /// Shows the loss of a frame that was to leave, or had left, through `port`.
    fn lost(&mut self, node: NodeId, port: u32, frame: &F, reason: DropReason) {
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

    fn is_observed(&self) -> bool {
        !self.observers.is_empty()
    }

    /// Whether the node is to be called now, because the transmitter at this end of a link can take the next frame. Not if it was
    /// given one at the last moment.
    pub(super) fn becomes_idle(&mut self, plug: Plug) -> bool {
        let now = self.now;
        let direction = self.links[plug.link()].direction_mut(plug.side());
        direction.take_waiting(now)
    }

    /// Whether the wake event of this instant still counts; an earlier one may have overtaken it.
    pub(super) fn wakes(&mut self, node: NodeId) -> bool {
        let now = self.now;
        let wake = &mut self.attachments[node.0].wake;
        let counts = *wake == Some(now);
        if counts {
            *wake = None;
        }
        counts
    }

    fn observed(&mut self, node: NodeId, happening: Happening<'_>) {
        if self.observers.is_empty() {
            return;
        }
        let name = &self.attachments[node.0].name;
        for observer in &mut self.observers {
            observer.observe(self.now, name, happening);
        }
    }
}

/// What a node's handler sees of the world and may do to it.
pub struct Context<'a, M, F = Vec<u8>> {
    core: &'a mut Core<M, F>,
    node: NodeId,
}

impl<M, F: Frame> Context<'_, M, F> {
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
        self.core
            .direction(self.node, port)
            .is_some_and(|d| d.idle_at() <= self.core.now)
    }

    /// Asks for [`super::Node::on_idle`] when the transmitter of `port` can take the next frame. A node with nothing to send does not
    /// ask, and one that sends another frame before then asks again.
    pub fn await_idle(&mut self, port: u32) {
        let node = self.node;
        let Some(plug) = self.core.plug(node, port) else {
            return;
        };
        let direction = self.core.links[plug.link()].direction_mut(plug.side());
        if let Some(at) = direction.wait(self.core.now) {
            self.core.agenda.add(at, Event::Idle { node, port, plug });
        }
    }

    /// Whether anything is connected to `port`.
    pub fn is_connected(&self, port: u32) -> bool {
        self.core.direction(self.node, port).is_some()
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
        let way = self.core.plug(self.node, port);
        let way = way.expect("transmit on a connected port");
        let now = self.core.now;
        if self.core.is_observed() {
            let frame = &frame.bytes();
            let node = self.node;
            self.core
                .observed(node, Happening::Transmit { port, frame });
        }
        let link = &mut self.core.links[way.link()];
        assert!(
            link.direction(way.side()).idle_at() <= now,
            "transmit on an idle port"
        );
        match link.transmit(way.side(), frame.len(), now) {
            Fate::Dropped(reason) => {
                let node = self.node;
                self.core.lost(node, port, &frame, reason);
            }
            Fate::Arrives { at, copy_at } => {
                if let Some(place) = place.filter(|_| link.keeps_order()) {
                    self.core.departs(way, place);
                }
                let copy = copy_at.map(|copy_at| (copy_at, frame.clone()));
                self.core.carry(way, at, frame);
                if let Some((at, frame)) = copy {
                    self.core.carry(way, at, frame);
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
        let Some(way) = self.core.plug(self.node, port) else {
            return false;
        };
        let now = self.core.now;
        let link = &mut self.core.links[way.link()];
        let to = &mut self.core.attachments[link.direction(way.side()).to().node.0];
        let train = to.train.as_deref_mut().filter(|train| train.way == way);
        let Some(train) = train.filter(|train| train.takes(place) && link.keeps_order()) else {
            return false;
        };
        // One that is lost leaves a gap, after which the next does not fit.
        if link.direction(way.side()).idle_at() > now {
            return false;
        }
        if let Fate::Arrives { at, .. } = link.transmit(way.side(), len, now) {
            train.push(place, at.saturating_add(to.reception_delay));
        }
        true
    }

    /// Says of the frames that follow `frame`, which the node has been given just now, that so many of them change nothing that anybody
    /// can see: they may be given to it later, by [`super::Node::on_followers`], though not later than anything else.
    pub fn expect_followers(&mut self, frame: &F, room: u32) {
        let Some(place) = frame.place() else {
            return;
        };
        let node = self.node;
        let Some(train) = self.core.train_mut(node) else {
            return;
        };
        if room == 0 {
            self.core.disperse(node);
        } else {
            train.expect(frame, place, room);
            if !std::mem::replace(&mut train.is_listed, true) {
                self.core.expecting.push(node);
            }
        }
    }

    /// Counts a frame of `len` bytes that the node itself could not put on the link of `port`.
    pub fn count_drop(&mut self, port: u32, len: usize, reason: DropReason) {
        if let Some(direction) = self.core.direction_mut(self.node, port) {
            direction.count_drop(reason);
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
        if let Some(direction) = self.core.direction_mut(self.node, port) {
            direction.counters_mut().pauses += 1;
        }
    }

    /// Counts nanoseconds in which the other end of its link had stopped `port`.
    pub fn count_paused(&mut self, port: u32, ns: u64) {
        if let Some(direction) = self.core.direction_mut(self.node, port) {
            direction.counters_mut().paused_ns += ns;
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
