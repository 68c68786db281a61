//! The discrete-event engine: virtual time, nodes and the links between them.
//!
//! The engine knows neither switches nor hosts. A [`Node`] receives frames, timers and messages through
//! its four handlers and acts through a [`Context`]; everything it causes becomes an event. Events
//! happen in a total order: by time, and among those of one instant by the order in which they were
//! scheduled. Nothing else (no hash order, no address, no clock) decides what comes next.
//!
//! Written rules of determinism:
//!
//! * each direction of each link draws its faults from its own stream of random numbers, derived from
//!   the seed of the run and the names of the direction's two ends ([`alfirk_experiment::stream`]), so adding a link changes
//!   nothing elsewhere;
//! * a fault that is switched off still consumes its draw, so switching on duplication does not move
//!   the losses;
//! * nodes get the time as an argument and read no clock;
//! * several threads ([`Engine::set_threads`]) handle the same events in the same order (`window.rs`).

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

/// A node's number in its engine, given by [`Engine::add_node`] in order from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// What links carry.
pub trait Frame: Clone + Send {
    /// Bytes from the Ethernet header to the last one before the FCS.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// These bytes, for observers.
    fn bytes(&self) -> Cow<'_, [u8]>;

    /// Where it is in its flow, if it has one.
    fn place(&self) -> Option<Place> {
        None
    }

    /// Makes of a frame of a flow the one so many places after it, as far as receivers can distinguish frames.
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

/// One thing attached to links: a switch, a host, a controller.
///
/// Handlers run at [`Context::now`] and take no virtual time themselves; a node models its own delays by
/// messages to itself ([`Context::send`]).
pub trait Node: Send {
    /// What nodes say to each other outside the links (control channels, delayed work of their own).
    type Message: Send;

    /// What it receives and sends.
    type Frame: Frame;

    /// How many nanoseconds after its last bit has arrived a frame comes to [`Node::on_frame`]; constant. A node that does nothing with
    /// frames before then costs one event less for each of them than one that puts them off by messages to itself.
    fn reception_delay(&self) -> u64 {
        0
    }

    /// Whether the engine may run it ahead of other nodes ([`Engine::set_threads`]), and if so, the least number of nanoseconds that a
    /// message of another node takes to it; constant. It expects no followers then.
    fn runs_ahead(&self) -> Option<u64> {
        None
    }

    /// Whether it may ever call [`Context::expect_followers`]; constant. It has one port then.
    fn expects_followers(&self) -> bool {
        false
    }

    /// Frames that the node has announced as such that change nothing have come at these times, after all that came before and before all
    /// that comes later: `first`, and those of its flow that follow it ([`Frame::advance`]).
    fn on_followers(&mut self, _times: impl ExactSizeIterator<Item = u64>, _first: &Self::Frame) {}

    /// The last bit of `frame` has arrived on `port`, [`Node::reception_delay`] ago.
    fn on_frame(
        &mut self,
        port: u32,
        frame: Self::Frame,
        ctx: &mut Context<'_, Self::Message, Self::Frame>,
    );

    /// The transmitter of `port` can take the next frame, and [`Context::await_idle`] has asked for it.
    fn on_idle(&mut self, port: u32, ctx: &mut Context<'_, Self::Message, Self::Frame>);

    /// The time asked for by [`Context::wake_at`] has come.
    fn on_wake(&mut self, ctx: &mut Context<'_, Self::Message, Self::Frame>);

    /// A message sent by [`Context::send`] has arrived.
    fn on_message(
        &mut self,
        from: NodeId,
        message: Self::Message,
        ctx: &mut Context<'_, Self::Message, Self::Frame>,
    );
}

/// What an [`Observer`] is shown.
#[derive(Debug, Clone, Copy)]
pub enum Happening<'a> {
    /// The first bit of a frame leaves `port`.
    Transmit { port: u32, frame: &'a [u8] },
    /// The last bit of a frame has arrived at `port`.
    Receive { port: u32, frame: &'a [u8] },
    /// A frame that was to leave, or had left, through `port` is lost, or one that came in there finds no room. Its bytes are not known when it was
    /// lost before they were put together.
    Drop {
        port: u32,
        len: usize,
        frame: Option<&'a [u8]>,
        reason: DropReason,
    },
    /// A node reports something about itself that no frame shows.
    Note(&'a str),
    /// What a switch keeps of the group of address `mcst_id`, when a packet or the controller may have changed it; nothing, if the group is gone.
    Group {
        mcst_id: Ipv4Addr,
        group: Option<&'a Group>,
    },
}

/// Sees every frame of a run, in order; for captures and traces.
pub trait Observer {
    /// `happening` took place at node `name` at `now` (ns).
    fn observe(&mut self, now: u64, name: &str, happening: Happening<'_>);

    /// Whether [`Happening::Note`]s are of interest; text is made only if so.
    fn wants_notes(&self) -> bool {
        false
    }

    /// Whether [`Happening::Group`] is of interest; switches look at their registers only if so.
    fn wants_groups(&self) -> bool {
        false
    }
}

/// What waits for its time.
enum Event<M, F> {
    /// A node takes in a frame that has come this way.
    Arrival {
        to: End,
        /// How often the link had gone down at departure: a frame does not survive that.
        epoch: u32,
        frame: F,
    },
    /// Observers see that a frame is at the end of its way, before its node takes it in.
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
    /// The node has handled its next event ahead of time; what it did takes place now.
    Ahead {
        node: NodeId,
    },
}

/// Has a node handle an event that comes to it.
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

/// Why a link cannot be added.
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

/// Why an engine cannot use several threads.
#[derive(Debug, thiserror::Error)]
#[error("cannot start threads: {0}")]
pub struct ThreadError(#[from] rayon::ThreadPoolBuildError);

/// What [`Engine::step`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// An event was handled.
    Done,
    /// An event was handled, and a node called [`Context::notify`] meanwhile.
    Notified,
    /// No event is left at or before the limit.
    Idle,
}

/// Nodes, links and the events among them.
pub struct Engine<N: Node> {
    nodes: Vec<N>,
    core: Core<N::Message, N::Frame>,
    /// `None` with one thread.
    crew: Option<Crew>,
}

impl<N: Node> Engine<N> {
    /// An empty engine at time 0. `seed` decides every fault of every link.
    pub fn new(seed: u64) -> Self {
        Engine {
            nodes: Vec::new(),
            core: Core::new(seed),
            crew: None,
        }
    }

    /// Uses several threads from now on, for the nodes that may run ahead ([`Node::runs_ahead`]). No result depends on how many they are.
    /// While anybody observes, and after a link has gone down, one thread does everything.
    ///
    /// With several threads such nodes are up to an epoch ahead while [`Engine::step`] has not come to its limit: then
    /// [`Engine::node`] shows them as they will be, and they must not be acted on, nor links, nor observers added ([`Engine::is_ahead`]).
    ///
    /// # Errors
    /// The system gives no more threads.
    pub fn set_threads(&mut self, threads: Threads) -> Result<(), ThreadError> {
        self.crew = match threads.count {
            0 | 1 => None,
            _ => Some(Crew::new(threads)?),
        };
        Ok(())
    }

    /// Whether any node has handled events of times to come. Not so at the limit of [`Engine::step`] and [`Engine::run_until`].
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

    /// Shows every later frame and note to `observer`.
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

    /// Events handled since the start.
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

    /// Lets the caller act on a node at the current time, with all that a handler may do.
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

    /// Handles the next event if it is due at or before `limit` (ns). After [`Step::Done`] nodes may not yet have been given what
    /// has come to them and changes nothing that others can see ([`Context::expect_followers`]).
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

    /// Gives a node the followers that have come to it by now.
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
        self.core.forget_dispersed();
    }

    fn disperse_all(&mut self) {
        self.catch_up_all();
        for at in 0..self.core.expecting.len() {
            self.core.disperse(self.core.expecting[at]);
        }
        self.core.forget_dispersed();
    }

    /// The nodes that have called [`Context::notify`] since this was asked last, in the order of their numbers.
    pub fn take_telling(&mut self) -> impl Iterator<Item = NodeId> + use<N> {
        std::mem::take(&mut self.core.telling).into_iter()
    }

    /// Handles events until none is left at or before `limit`, then moves the time on to `limit`.
    pub fn run_until(&mut self, limit: u64) {
        while self.handle(limit) != Step::Idle {}
        self.core.go_to(self.core.now.max(limit));
        self.catch_up_all();
    }

    /// Handles events until none is left. A node that always wakes itself again never lets this end.
    pub fn run(&mut self) {
        while self.handle(u64::MAX) != Step::Idle {}
        self.core.go_to(self.core.last_arrival());
        self.catch_up_all();
    }

    /// The time of the next event, if any.
    pub fn next_event_at(&self) -> Option<u64> {
        self.core.next_event_at()
    }

    /// The counters of what `port` of `node` sends into its link; `None` if nothing is connected there.
    pub fn counters(&self, node: NodeId, port: u32) -> Option<LinkCounters> {
        self.core.counters(node, port)
    }

    /// Every link direction in the order the links were added, each link's first end first:
    /// ("s1:2 -> s2:1", counters).
    pub fn directions(&self) -> impl Iterator<Item = (&str, LinkCounters)> {
        self.core.directions()
    }

    /// Takes a link down or up. What is on its way is lost when it goes down; what arrives in that nanosecond is not.
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
