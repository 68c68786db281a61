//! What an engine has beside its nodes.

use std::collections::BTreeSet;

use super::agenda::Agenda;
use super::context::Context;
use super::link::{Direction, End};
use super::port_map::PortMap;
use super::train::{Departures, Place, Said, Train};
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
    pub(super) agenda: Agenda<Event<M, F>>,
    pub(super) attachments: Vec<Attachment<F>>,
    /// Nodes that have said what they expect, some of them perhaps no longer.
    pub(super) expecting: Vec<NodeId>,
    /// Both ends of each.
    links: Vec<[End; 2]>,
    /// Whether any link has ever been taken down.
    has_outages: bool,
}

/// What the engine keeps for a node.
pub(super) struct Attachment<F> {
    name: String,
    pub(super) ports: PortMap<Port, 1>,
    /// What goes to it, if it is one that expects followers.
    pub(super) train: Option<Box<Train<F>>>,
    /// See [`super::Node::expects_followers`].
    expects_followers: bool,
    /// See [`super::Node::reception_delay`].
    reception_delay: u64,
    /// The earliest wake event to come that still counts.
    pub(super) wake: Option<u64>,
}

/// One end of a link. What leaves there touches nothing of other nodes.
pub(super) struct Port {
    pub(super) way: Direction,
    /// The reception delay of the node at the other end, and whether it expects followers.
    delay: u64,
    is_expected: bool,
    /// What has left for it if so; nothing yet if `None`.
    departures: Option<Box<Departures>>,
}

impl Port {
    /// When a frame that is at the end of its way at `at` is taken in.
    pub(super) fn taken_in(&self, at: u64) -> u64 {
        at.saturating_add(self.delay)
    }

    /// A frame of a flow leaves that is in no train.
    pub(super) fn departs(&mut self, place: Place) {
        if self.is_expected {
            let new = || Box::new(Departures::new(place));
            self.departures.get_or_insert_with(new).passes(place);
        }
    }

    /// Whether the node at the other end expects a frame that leaves now, and where it is to be written down then.
    #[inline]
    pub(super) fn follower(&mut self, place: Place) -> Option<(&mut Direction, &mut Departures)> {
        let departures = self.departures.as_deref_mut();
        let departures = departures.filter(|departures| departures.takes(place))?;
        let keeps_order = self.way.keeps_order();
        keeps_order.then_some((&mut self.way, departures))
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
            let port = Port {
                way,
                delay: to.reception_delay,
                is_expected: to.expects_followers,
                departures: None,
            };
            self.attachments[end.node.0].ports.add(end.port, port);
        }
        self.links.push(both);
        Ok(self.links.len() - 1)
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

    /// What leads away from a port.
    pub(super) fn direction(&self, node: NodeId, port: u32) -> Option<&Direction> {
        Some(&self.port(End { node, port })?.way)
    }

    /// Both directions of every link, the first end's first.
    pub(super) fn directions(&self) -> impl Iterator<Item = &Direction> {
        let ends = self.links.iter().flatten();
        ends.filter_map(|end| Some(&self.port(*end)?.way))
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
        self.now = at;
        self.handled += 1;
        Some(event)
    }

    /// Puts a frame on its way: it is at the other end of its link at `at`, and taken in at `taken_in`.
    pub(super) fn carry(&mut self, to: End, epoch: u32, at: u64, taken_in: u64, frame: F) {
        if taken_in > at && self.is_observed() {
            let frame = frame.clone();
            self.agenda.add(at, Event::Passage { to, epoch, frame });
        }
        self.agenda
            .add(taken_in, Event::Arrival { to, epoch, frame });
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

    /// A node says of the frames that follow `frame` that so many change nothing.
    pub(super) fn expect(&mut self, node: NodeId, frame: &F, place: Place, room: u32) {
        if self.departures_to(node).is_none() {
            return;
        }
        if room == 0 {
            return self.disperse(node);
        }
        let train = &mut self.attachments[node.0].train;
        let train = train.get_or_insert_with(|| Box::new(Train::new()));
        let said = train.expect(frame, place, room);
        if !std::mem::replace(&mut train.is_listed, true) {
            self.expecting.push(node);
        }
        self.say(node, Some(said));
    }

    /// Ends the train to a node: what is on its way arrives as frames do. All that has arrived must have been handed over.
    pub(super) fn disperse(&mut self, node: NodeId) {
        let Some(train) = self.train_mut(node).filter(|train| train.has_head()) else {
            return;
        };
        let ahead = train.disperse();
        self.say(node, None);
        let Some((port, plug)) = self.attachments[node.0].ports.iter().next() else {
            return;
        };
        let (to, epoch) = (End { node, port }, plug.way.epoch());
        for (at, frame) in ahead {
            self.agenda.add(at, Event::Arrival { to, epoch, frame });
        }
    }

    /// Where what leaves for a node that has one port is written down, if anything has left.
    fn departures_to(&mut self, node: NodeId) -> Option<&mut Departures> {
        let (_, port) = self.attachments[node.0].ports.iter().next()?;
        let from = port.way.to();
        self.port_mut(from)?.departures.as_deref_mut()
    }

    /// Tells the other end of its link what a node says.
    fn say(&mut self, node: NodeId, said: Option<Said>) {
        if let Some(departures) = self.departures_to(node) {
            departures.hear(said);
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
    pub(super) fn has_trains(&self) -> bool {
        !self.has_outages && !self.is_observed()
    }

    /// A frame is at the end of its link, where its node takes it in later.
    pub(super) fn passes(&mut self, to: End, epoch: u32, frame: &F) {
        self.show_arrival(to, self.now, epoch, frame);
    }

    /// A node takes a frame in; false if the link went down meanwhile.
    pub(super) fn arrives(&mut self, to: End, epoch: u32, frame: &F) -> bool {
        // What it touches of other nodes and of links decides what a frame costs when there are many of them.
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
            port.way.count_drop(DropReason::LinkDown);
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

    /// Shows the loss of a frame that was to leave, or had left, through `port`.
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

    /// Whether the node is to be called now, because the transmitter of a port can take the next frame. Not if it was given one at the last
    /// moment.
    pub(super) fn becomes_idle(&mut self, node: NodeId, port: u32) -> bool {
        let now = self.now;
        let port = self.port_mut(End { node, port });
        port.is_some_and(|port| port.way.take_waiting(now))
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
