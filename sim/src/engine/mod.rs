//! Discrete-event simulation engine: virtual time, nodes and the links between them.
//!
//! The engine is independent of switches and hosts. A [`Node`] receives frames, timers and messages through
//! its four handlers, and acts through a [`Context`], which schedules events. Events are processed in a total
//! order: by time, and at equal times in the order in which they were scheduled. Nothing else (hash order,
//! memory addresses, real time) influences the order.
//!
//! Rules of determinism:
//!
//! * each direction of each link draws its faults from its own random number stream, derived from the seed of
//!   the run and the names of the direction's two ends ([`alfirk_experiment::stream`]), so that an additional
//!   link does not change the faults of others;
//! * a disabled fault still consumes its random number, so that enabling duplication does not change which
//!   frames are lost;
//! * nodes get the time as an argument and read no clock;
//! * several threads ([`Engine::set_threads`]) process the same events in the same order (`window.rs`).

mod agenda;
mod context;
mod link;
mod port_map;
mod queue;
mod rate;
mod state;
mod train;
mod window;

#[cfg(test)]
mod tests;

pub use context::Context;
pub(crate) use link::ETHERNET_HEADER;
pub use link::{DropCounters, DropReason, FaultProbabilities, LinkConfig, LinkCounters};
pub(crate) use port_map::PortMap;
pub use queue::{Dequeued, EgressQueues, QueueFull};
pub use rate::{wire_bytes, ETHERNET_FCS, ETHERNET_MIN_FRAME, ETHERNET_PREAMBLE_AND_GAP};
pub use train::Place;
pub use window::Threads;

use std::borrow::Cow;
use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_aggregation::Group;
use alfirk_roce::host::Packet;

use link::End;
use state::Core;
use window::Crew;

/// Number of a node in its engine, assigned by [`Engine::add_node`] in order from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// A frame on a link.
pub trait Frame: Clone + Send {
    /// Length in bytes, from the Ethernet header up to the FCS, which is excluded.
    fn len(&self) -> usize;

    /// Whether the length is 0.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Content, for observers.
    fn bytes(&self) -> Cow<'_, [u8]>;

    /// Position in the frame's flow; `None` for a frame without a flow.
    fn place(&self) -> Option<Place> {
        None
    }

    /// Turns a frame of a flow into the frame `by` positions later, in all that receivers can distinguish.
    fn advance(&mut self, _by: u32) {}
}

impl Frame for Vec<u8> {
    fn len(&self) -> usize {
        self.as_slice().len()
    }

    fn bytes(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self)
    }
}

impl Frame for Packet {
    fn len(&self) -> usize {
        Packet::len(self)
    }

    fn bytes(&self) -> Cow<'_, [u8]> {
        Packet::bytes(self)
    }

    fn place(&self) -> Option<Place> {
        let Packet::Rc(frame) = self else {
            return None;
        };
        let (flow, number) = frame.place?;
        let asks = frame.headers.bth.ack_req;
        Some(Place { flow, number, asks })
    }

    fn advance(&mut self, by: u32) {
        if let Packet::Rc(frame) = self {
            Arc::make_mut(frame).advance(by);
        }
    }
}

/// A device attached to links: a switch, a host or a controller.
///
/// Handlers run at [`Context::now`] and consume no virtual time. A node models its own delays by messages to
/// itself ([`Context::send`]).
pub trait Node: Send {
    /// Message between nodes outside the links: control channels, and delayed work of a node itself.
    type Message: Send;

    /// Frame type.
    type Frame: Frame;

    /// Delay in nanoseconds from the arrival of a frame's last bit to [`Node::on_frame`]; constant. It costs one event
    /// less per frame than a message of the node to itself.
    fn reception_delay(&self) -> u64 {
        0
    }

    /// Minimum delay in nanoseconds of messages from other nodes to this node, if the engine may run it ahead of other
    /// nodes ([`Engine::set_threads`]); else `None`. Constant. Such a node gets no followers.
    fn runs_ahead(&self) -> Option<u64> {
        None
    }

    /// Whether the node may call [`Context::expect_followers`]; constant. Such a node has one port.
    fn expects_followers(&self) -> bool {
        false
    }

    /// Delivers followers ([`Context::expect_followers`]): `first` and the next frames of its flow ([`Frame::advance`]), one
    /// for each of `times`. Their order relative to all other events of the node is kept.
    fn on_followers(&mut self, _times: impl ExactSizeIterator<Item = u64>, _first: &Self::Frame) {}

    /// Delivers a frame whose last bit has arrived on `port`, [`Node::reception_delay`] ago.
    fn on_frame(
        &mut self,
        port: u32,
        frame: Self::Frame,
        ctx: &mut Context<'_, Self::Message, Self::Frame>,
    );

    /// Called when the transmitter of `port` is idle, after [`Context::await_idle`].
    fn on_idle(&mut self, port: u32, ctx: &mut Context<'_, Self::Message, Self::Frame>);

    /// Called at the time set by [`Context::wake_at`].
    fn on_wake(&mut self, ctx: &mut Context<'_, Self::Message, Self::Frame>);

    /// Delivers a message sent by [`Context::send`].
    fn on_message(
        &mut self,
        from: NodeId,
        message: Self::Message,
        ctx: &mut Context<'_, Self::Message, Self::Frame>,
    );
}

/// An occurrence that is passed to an [`Observer`].
#[derive(Debug, Clone, Copy)]
pub enum Happening<'a> {
    /// The first bit of a frame leaves `port`.
    Transmit { port: u32, frame: &'a [u8] },
    /// The last bit of a frame has arrived at `port`.
    Receive { port: u32, frame: &'a [u8] },
    /// A frame that was to leave or had left through `port` is lost, or one received there is dropped because the buffer is
    /// full. Its bytes are missing if it was lost before they were assembled.
    Drop {
        port: u32,
        len: usize,
        frame: Option<&'a [u8]>,
        reason: DropReason,
    },
    /// A note of a node, for the trace.
    Note(&'a str),
    /// State of group `mcst_id` on a switch, after a possible change by a packet or the controller; `None` if the group was removed.
    Group {
        mcst_id: Ipv4Addr,
        group: Option<&'a Group>,
    },
}

/// Observer of every frame of a run, in order; for captures and traces.
pub trait Observer {
    /// Called when `happening` takes place at node `name` at time `now` in nanoseconds.
    fn observe(&mut self, now: u64, name: &str, happening: Happening<'_>);

    /// Whether the observer uses [`Happening::Note`]; otherwise the text is not built.
    fn wants_notes(&self) -> bool {
        false
    }

    /// Whether the observer uses [`Happening::Group`]; otherwise switches do not read their registers for it.
    fn wants_groups(&self) -> bool {
        false
    }
}

/// A scheduled event.
enum Event<M, F> {
    /// A frame is delivered to a node.
    Arrival {
        to: End,
        /// Number of outages of the link at departure: a frame is lost if the link goes down meanwhile.
        epoch: u32,
        frame: F,
    },
    /// Observers see a frame at the end of its link, before it is delivered to its node.
    Passage {
        to: End,
        epoch: u32,
        frame: F,
    },
    Idle {
        node: NodeId,
        port: u32,
    },
    Wake {
        node: NodeId,
    },
    Message {
        from: NodeId,
        to: NodeId,
        message: M,
    },
    /// The node has handled its next event ahead of time; its recorded effects are applied now.
    Ahead {
        node: NodeId,
    },
}

/// Calls the handler of a node for an event.
fn deliver<N: Node>(
    node: &mut N,
    event: Event<N::Message, N::Frame>,
    ctx: &mut Context<'_, N::Message, N::Frame>,
) {
    let now = ctx.now();
    match event {
        Event::Arrival { to, frame, .. } => node.on_frame(to.port, frame, ctx),
        Event::Idle { port, .. } => {
            if ctx.own_mut().becomes_idle(port, now) {
                node.on_idle(port, ctx);
            }
        }
        Event::Wake { .. } => {
            let own = ctx.own_mut();
            if own.wakes(now) {
                own.wake = None;
                node.on_wake(ctx);
            }
        }
        Event::Message { from, message, .. } => node.on_message(from, message, ctx),
        Event::Passage { .. } | Event::Ahead { .. } => {}
    }
}

/// Error of [`Engine::connect`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    #[error("link {link}: port {port} of node {node} is already connected")]
    PortTaken {
        link: String,
        node: String,
        port: u32,
    },
    #[error("link {link}: its rate must be at least 1 bit/s")]
    NoRate { link: String },
    #[error("link {link}: {what} is {value}, not a probability between 0 and 1")]
    NotAProbability {
        link: String,
        what: &'static str,
        value: String,
    },
}

/// Error of [`Engine::set_threads`].
#[derive(Debug, thiserror::Error)]
#[error("cannot start threads: {0}")]
pub struct ThreadError(#[from] rayon::ThreadPoolBuildError);

/// Result of [`Engine::step`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// An event was handled.
    Done,
    /// An event was handled, and a node called [`Context::notify`].
    Notified,
    /// There is no event at or before the limit.
    Idle,
}

/// Simulation engine: nodes, links and scheduled events.
pub struct Engine<N: Node> {
    nodes: Vec<N>,
    core: Core<N::Message, N::Frame>,
    /// Worker threads; `None` with one thread.
    crew: Option<Crew>,
}

impl<N: Node> Engine<N> {
    /// Creates an empty engine at time 0. `seed` determines all faults of all links.
    pub fn new(seed: u64) -> Self {
        Engine {
            nodes: Vec::new(),
            core: Core::new(seed),
            crew: None,
        }
    }

    /// Sets the number of threads for the nodes that may run ahead ([`Node::runs_ahead`]). No result depends on it. While
    /// there are observers, and after a link has gone down, a single thread is used.
    ///
    /// With several threads such nodes are up to an epoch ahead until [`Engine::step`] reaches its limit. Meanwhile
    /// [`Engine::node`] returns their future state, and neither they nor links may be changed, nor observers added
    /// ([`Engine::is_ahead`]).
    ///
    /// # Errors
    /// The system cannot create the threads.
    pub fn set_threads(&mut self, threads: Threads) -> Result<(), ThreadError> {
        self.crew = match threads.count {
            0 | 1 => None,
            _ => Some(Crew::new(threads)?),
        };
        Ok(())
    }

    /// Whether any node has handled future events. False at the limit of [`Engine::step`] and [`Engine::run_until`].
    pub fn is_ahead(&self) -> bool {
        self.core.is_ahead()
    }

    /// # Panics
    /// If any node is ahead.
    fn expect_together(&self, what: &str) {
        assert!(
            !self.is_ahead(),
            "{what} while nodes are ahead: run to a limit first, or use one thread"
        );
    }

    /// Adds a node. Names appear in traces and should be unique.
    pub fn add_node(&mut self, name: &str, node: N) -> NodeId {
        let (delay, expects) = (node.reception_delay(), node.expects_followers());
        let id = self.core.add_node(name, delay, expects, node.runs_ahead());
        self.nodes.push(node);
        id
    }

    /// Connects port `a.1` of node `a.0` with port `b.1` of node `b.0`, both ways with the same
    /// configuration. Returns the link's number, for [`Engine::counters`] and [`Engine::set_link_up`].
    pub fn connect(
        &mut self,
        a: (NodeId, u32),
        b: (NodeId, u32),
        config: LinkConfig,
    ) -> Result<usize, LinkError> {
        self.core.connect(a, b, config)
    }

    /// Adds an observer of all later frames and notes.
    ///
    /// # Panics
    ///
    /// If [`Engine::is_ahead`].
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.expect_together("an observer is added");
        self.disperse_all();
        self.core.observers.push(observer);
    }

    /// The current virtual time in nanoseconds.
    pub fn now(&self) -> u64 {
        self.core.now
    }

    /// Number of events handled since the start.
    pub fn events(&self) -> u64 {
        self.core.handled
    }

    pub fn node(&self, id: NodeId) -> &N {
        &self.nodes[id.0]
    }

    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &N)> {
        self.nodes.iter().enumerate().map(|(i, n)| (NodeId(i), n))
    }

    pub fn name(&self, id: NodeId) -> &str {
        self.core.name(id)
    }

    /// Calls a function on a node at the current time, with the context of a handler.
    ///
    /// # Panics
    ///
    /// If the node may run ahead, and [`Engine::is_ahead`].
    pub fn with_node<R>(
        &mut self,
        id: NodeId,
        act: impl FnOnce(&mut N, &mut Context<'_, N::Message, N::Frame>) -> R,
    ) -> R {
        if self.core.runs_ahead(id) {
            self.expect_together("a node that runs ahead is acted on");
        }
        self.catch_up(id);
        self.core.disperse(id);
        let mut ctx = self.core.context(id);
        act(&mut self.nodes[id.0], &mut ctx)
    }

    /// Handles the next event if it is due at or before `limit` (ns). After [`Step::Done`], followers may not yet have been
    /// delivered to their nodes ([`Context::expect_followers`]).
    pub fn step(&mut self, limit: u64) -> Step {
        let step = self.handle(limit);
        if step != Step::Done {
            self.catch_up_all();
        }
        step
    }

    fn handle(&mut self, limit: u64) -> Step {
        self.run_ahead(limit);
        let Some(event) = self.core.next(limit) else {
            return Step::Idle;
        };
        let node = match &event {
            Event::Arrival { to, epoch, frame } => {
                self.catch_up(to.node);
                self.core.interrupt(to.node, frame.place());
                self.core.arrives(*to, *epoch, frame).then_some(to.node)
            }
            Event::Wake { node } if !self.core.wakes(*node) => None,
            Event::Wake { node } | Event::Message { to: node, .. } => {
                self.catch_up(*node);
                self.core.disperse(*node);
                Some(*node)
            }
            Event::Idle { node, .. } => Some(*node),
            Event::Passage { to, epoch, frame } => {
                self.core.passes(*to, *epoch, frame);
                None
            }
            Event::Ahead { node } => {
                self.core.catch_up_with(*node);
                None
            }
        };
        if let Some(node) = node {
            assert!(
                !self.core.has_passed(node),
                "something comes to {} sooner than it says",
                self.name(node)
            );
            let mut ctx = self.core.context(node);
            deliver(&mut self.nodes[node.0], event, &mut ctx);
        }
        if std::mem::take(&mut self.core.notified) {
            Step::Notified
        } else {
            Step::Done
        }
    }

    /// Delivers the followers of a node that have arrived by now.
    #[inline]
    fn catch_up(&mut self, id: NodeId) {
        let now = self.core.now;
        if let Some(train) = self.core.train_mut(id).filter(|train| train.is_due(now)) {
            let node = &mut self.nodes[id.0];
            let count = train.hand_over(now, |times, first| node.on_followers(times, first));
            self.core.handled += count;
        }
    }

    fn catch_up_all(&mut self) {
        for at in 0..self.core.expecting.len() {
            self.catch_up(self.core.expecting[at]);
        }
        self.core.drop_dispersed();
    }

    fn disperse_all(&mut self) {
        self.catch_up_all();
        for at in 0..self.core.expecting.len() {
            self.core.disperse(self.core.expecting[at]);
        }
        self.core.drop_dispersed();
    }

    /// Returns the nodes that have called [`Context::notify`] since the last call, in the order of their numbers.
    pub fn take_notifying(&mut self) -> impl Iterator<Item = NodeId> + use<N> {
        std::mem::take(&mut self.core.notifying).into_iter()
    }

    /// Handles all events at or before `limit`, then advances the time to `limit`.
    pub fn run_until(&mut self, limit: u64) {
        while self.handle(limit) != Step::Idle {}
        self.core.go_to(self.core.now.max(limit));
        self.catch_up_all();
    }

    /// Handles events until none is left. Does not return if a node always schedules another event.
    pub fn run(&mut self) {
        while self.handle(u64::MAX) != Step::Idle {}
        self.core.go_to(self.core.last_arrival());
        self.catch_up_all();
    }

    /// The time of the next event, if any.
    pub fn next_event_at(&self) -> Option<u64> {
        self.core.next_event_at()
    }

    /// Counters of the frames that `port` of `node` sends; `None` if the port is not connected.
    pub fn counters(&self, node: NodeId, port: u32) -> Option<LinkCounters> {
        self.core.counters(node, port)
    }

    /// Every link direction in the order the links were added, each link's first end first:
    /// ("s1:2 -> s2:1", counters).
    pub fn directions(&self) -> impl Iterator<Item = (&str, LinkCounters)> {
        self.core.directions()
    }

    /// Sets a link down or up. Frames on the link are lost when it goes down, except those that arrive in the same nanosecond.
    ///
    /// # Panics
    ///
    /// If [`Engine::is_ahead`].
    pub fn set_link_up(&mut self, link: usize, up: bool) {
        self.expect_together("a link is taken down or up");
        self.disperse_all();
        self.core.set_link_up(link, up);
    }

    /// Changes the fault probabilities of a link from now on, in both directions.
    ///
    /// # Panics
    ///
    /// If [`Engine::is_ahead`].
    pub fn set_link_faults(
        &mut self,
        link: usize,
        faults: FaultProbabilities,
    ) -> Result<(), LinkError> {
        self.expect_together("a link's faults are changed");
        self.core.set_link_faults(link, faults)
    }
}
