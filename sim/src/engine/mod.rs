//! Discrete-event simulation engine: virtual time, nodes and the links between them.
//!
//! A [`Node`] receives frames, timers and messages through its handlers, and acts through a [`Context`], which
//! schedules events. The engine does not depend on the kinds of its nodes; observers can show the state of multicast
//! groups ([`Observation::Group`]). Events are handled in a total order: by time, and at equal times in the order in
//! which they were scheduled. The order does not depend on hashes, memory addresses or real time.
//!
//! Rules of determinism:
//!
//! - Each direction of each link draws its faults from its own stream of random numbers
//!   ([`alfirk_experiment::stream`]). The stream is derived from the seed of the run and the names of the direction's
//!   ends. So an additional link does not change the faults of others.
//! - A disabled fault still consumes its random number. So enabling duplication does not change which frames are lost.
//! - Nodes get the time as an argument and read no clock.
//! - With several threads ([`Engine::set_threads`]) the same events are handled in the same order (`window.rs`).

mod agenda;
mod context;
mod link;
mod port_map;
mod queue;
mod rate;
mod state;
mod steady;
mod train;
mod window;

#[cfg(test)]
mod tests;

pub use context::Context;
pub(crate) use link::ETHERNET_HEADER;
pub use link::{DropCounters, DropReason, FaultProbabilities, LinkConfig, LinkCounters};
pub(crate) use port_map::PortMap;
pub use queue::{DequeuedPacket, EgressQueues, QueueFull};
pub use rate::{wire_bytes, ETHERNET_FCS, ETHERNET_MIN_FRAME, ETHERNET_PREAMBLE_AND_GAP};
pub use train::FlowPosition;
pub use window::Threads;

use std::borrow::Cow;
use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_aggregation::Group;
use alfirk_roce::host::Packet;
use alfirk_roce::steady::{StateVisitor, Stream};

use link::End;
use state::Core;
use window::WorkerPool;

/// Number of a node in its engine, assigned by [`Engine::add_node`] in order from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// A frame that links carry.
pub trait Frame: Clone + Send {
    /// Length in bytes, from the Ethernet header to the last byte before the FCS.
    fn len(&self) -> usize;

    /// Whether the length is 0.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the frame, for observers.
    fn bytes(&self) -> Cow<'_, [u8]>;

    /// Position of the frame in its flow; `None` for a frame that is not part of a flow.
    fn place(&self) -> Option<FlowPosition> {
        None
    }

    /// Turns the frame into the frame that is `by` positions later in its flow. Everything changes that receivers can
    /// distinguish.
    fn advance(&mut self, _by: u32) {}

    /// Visits the state of the frame in transit. By default it is not supported.
    fn visit_state(&mut self, visitor: &mut StateVisitor<'_>) {
        visitor.unsupported();
    }

    /// Sets the visitor's stream to that of the frame.
    fn enter_stream(&self, visitor: &mut StateVisitor<'_>) {
        visitor.enter([]);
    }
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

    fn place(&self) -> Option<FlowPosition> {
        let Packet::Rc(frame) = self else {
            return None;
        };
        let (flow, number) = frame.place?;
        let requests_reply = frame.headers.bth.ack_req;
        Some(FlowPosition {
            flow,
            number,
            requests_reply,
        })
    }

    fn advance(&mut self, by: u32) {
        if let Packet::Rc(frame) = self {
            Arc::make_mut(frame).advance(by);
        }
    }

    fn visit_state(&mut self, visitor: &mut StateVisitor<'_>) {
        Packet::visit_state(self, visitor);
    }

    fn enter_stream(&self, visitor: &mut StateVisitor<'_>) {
        Packet::enter_stream(self, visitor);
    }
}

/// A device at links: a switch, a host or a controller.
///
/// Handlers run at [`Context::now`] and take no virtual time. A node models its own delays by messages to itself
/// ([`Context::send`]).
pub trait Node: Send {
    /// Message between nodes that does not use links: control channels, and delayed work of a node itself.
    type Message: Send;

    /// Type of the frames that links carry.
    type Frame: Frame;

    /// Delay in nanoseconds from the arrival of a frame's last bit to [`Node::on_frame`]; constant. It saves the event
    /// of a message that the node would send to itself for each frame.
    fn reception_delay(&self) -> u64 {
        0
    }

    /// Shortest delay in nanoseconds of messages from other nodes to this node; constant. `None` if the node may not
    /// run ahead, that is, handle events before the engine reaches their time ([`Engine::set_threads`]). A node that
    /// runs ahead gets no followers.
    fn runs_ahead(&self) -> Option<u64> {
        None
    }

    /// Whether the node may announce followers: frames without visible effect, delivered without an event for each
    /// ([`Context::expect_followers`]). Constant. Such a node has one port.
    fn expects_followers(&self) -> bool {
        false
    }

    /// Delivers followers ([`Context::expect_followers`]) at once: `first` and the next frames of its flow
    /// ([`Frame::advance`]), one for each arrival time in `times`. They precede all later events of the node.
    fn on_followers(&mut self, _times: impl ExactSizeIterator<Item = u64>, _first: &Self::Frame) {}

    /// Whether a wake event before any deadline of the node changes nothing, and only requests the next wake event at the
    /// deadline; constant.
    fn may_pass_wakes(&self) -> bool {
        false
    }

    /// The streams that the node sends at present.
    fn streams(&self) -> Vec<Stream> {
        Vec::new()
    }

    /// Visits the state that frames and timers change, to skip steady states ([`steady`]). By default the node is not
    /// supported.
    fn visit_state(&mut self, visitor: &mut StateVisitor<'_>) {
        visitor.unsupported();
    }

    /// Delivers a frame. Its last bit arrived on `port` [`Node::reception_delay`] nanoseconds ago.
    fn on_frame(
        &mut self,
        port: u32,
        frame: Self::Frame,
        ctx: &mut Context<'_, Self::Message, Self::Frame>,
    );

    /// Reports that the transmitter of `port` is idle, as requested by [`Context::await_idle`].
    fn on_idle(&mut self, port: u32, ctx: &mut Context<'_, Self::Message, Self::Frame>);

    /// Reports that the time set by [`Context::wake_at`] has come.
    fn on_wake(&mut self, ctx: &mut Context<'_, Self::Message, Self::Frame>);

    /// Delivers a message sent by [`Context::send`].
    fn on_message(
        &mut self,
        from: NodeId,
        message: Self::Message,
        ctx: &mut Context<'_, Self::Message, Self::Frame>,
    );
}

/// What an [`Observer`] sees: an event on a link, or a report of a node.
#[derive(Debug, Clone, Copy)]
pub enum Observation<'a> {
    /// The first bit of a frame leaves a port.
    Transmit {
        /// Number of the node's port.
        port: u32,
        /// Bytes of the frame.
        frame: &'a [u8],
    },
    /// The last bit of a frame has arrived at a port.
    Receive {
        /// Number of the node's port.
        port: u32,
        /// Bytes of the frame.
        frame: &'a [u8],
    },
    /// A frame is lost before or after it leaves through `port`. Or a frame received at `port` is dropped because the
    /// buffer is full.
    Drop {
        /// Number of the node's port.
        port: u32,
        /// Length of the frame in bytes.
        len: usize,
        /// Bytes of the frame; `None` if it was lost before they were assembled.
        frame: Option<&'a [u8]>,
        /// Reason of the loss.
        reason: DropReason,
    },
    /// A note of a node, for the trace.
    Note(&'a str),
    /// State of a group on a switch, after a packet or the controller may have changed it.
    Group {
        /// IPv4 address of the group.
        mcst_id: Ipv4Addr,
        /// State of the group; `None` if the group was removed.
        group: Option<&'a Group>,
    },
}

/// Observer of all frames of a run, in the order of events; for captures and traces.
pub trait Observer {
    /// Handles an observation at node `name` at time `now` in nanoseconds.
    fn observe(&mut self, now: u64, name: &str, observation: Observation<'_>);

    /// Whether the observer uses [`Observation::Note`]. Nodes create the text of notes only for such observers.
    fn wants_notes(&self) -> bool {
        false
    }

    /// Whether the observer uses [`Observation::Group`]. Switches read their registers for it only if an observer does.
    fn wants_groups(&self) -> bool {
        false
    }
}

/// An event in the agenda.
enum Event<M, F> {
    /// Delivery of a frame to a node.
    Arrival {
        to: End,
        /// Number of the link's outages when the frame departed. If the link has gone down since, the frame is lost.
        outages: u32,
        frame: F,
    },
    /// Report of a frame to observers when it arrives at the end of its link, before its delivery to the node.
    LinkEnd {
        to: End,
        outages: u32,
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
    /// Placeholder of an event that its node has handled ahead of time. The effects that the node recorded are applied
    /// now.
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
            if ctx.own_state_mut().becomes_idle(port, now) {
                node.on_idle(port, ctx);
            }
        }
        Event::Wake { .. } => {
            let own = ctx.own_state_mut();
            if own.wakes(now) {
                own.wake = None;
                node.on_wake(ctx);
            }
        }
        Event::Message { from, message, .. } => node.on_message(from, message, ctx),
        Event::LinkEnd { .. } | Event::Ahead { .. } => {}
    }
}

/// Error of [`Engine::connect`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// A port already has a link.
    #[error("link {link}: port {port} of node {node} is already connected")]
    PortTaken {
        /// Both ends of the link, such as `s1:2 - s2:1`.
        link: String,
        /// Name of the node.
        node: String,
        /// Number of the port.
        port: u32,
    },
    /// The rate of the link is 0.
    #[error("link {link}: its rate must be at least 1 bit/s")]
    NoRate {
        /// Both ends of the link.
        link: String,
    },
    /// A fault probability is not a number from 0 to 1.
    #[error("link {link}: {what} is {value}, not a probability between 0 and 1")]
    NotAProbability {
        /// Both ends of the link.
        link: String,
        /// Name of the fault.
        what: &'static str,
        /// The value, as text.
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
    /// An event was handled, and no node called [`Context::notify`].
    Done,
    /// An event was handled, and a node called [`Context::notify`].
    Notified,
    /// There was no event at or before the limit.
    Idle,
}

/// Simulation engine: nodes, links and scheduled events.
pub struct Engine<N: Node> {
    nodes: Vec<N>,
    core: Core<N::Message, N::Frame>,
    /// Worker threads; `None` with one thread.
    workers: Option<WorkerPool>,
}

impl<N: Node> Engine<N> {
    /// Creates an empty engine at time 0. `seed` determines the random faults of all links.
    pub fn new(seed: u64) -> Self {
        Engine {
            nodes: Vec::new(),
            core: Core::new(seed),
            workers: None,
        }
    }

    /// Sets the number of threads for nodes that may run ahead ([`Node::runs_ahead`]). Results do not depend on it.
    /// With observers, and after a link has gone down, a single thread is used.
    ///
    /// With several threads, such nodes may be ahead of the engine's time until [`Engine::step`] reaches its limit.
    /// They are ahead by at most an epoch, which is the shortest delay with which other nodes can affect them.
    /// Meanwhile [`Engine::node`] returns their future state. These nodes and links may not be changed then, and
    /// observers may not be added ([`Engine::is_ahead`]).
    ///
    /// # Errors
    ///
    /// The system cannot create the threads.
    pub fn set_threads(&mut self, threads: Threads) -> Result<(), ThreadError> {
        self.workers = match threads.count {
            0 | 1 => None,
            _ => Some(WorkerPool::new(threads)?),
        };
        Ok(())
    }

    /// Whether any node has handled events that are in the future of the engine. False at the limit of [`Engine::step`]
    /// and [`Engine::run_until`].
    pub fn is_ahead(&self) -> bool {
        self.core.is_ahead()
    }

    /// Asserts that no node is ahead of the engine's time.
    ///
    /// # Panics
    ///
    /// If any node is ahead.
    fn expect_together(&self, what: &str) {
        assert!(
            !self.is_ahead(),
            "{what} while nodes are ahead: run to a limit first, or use one thread"
        );
    }

    /// Adds a node. Its name appears in traces, and should be unique.
    pub fn add_node(&mut self, name: &str, node: N) -> NodeId {
        let (delay, expects) = (node.reception_delay(), node.expects_followers());
        let id = self.core.add_node(name, delay, expects, node.runs_ahead());
        self.nodes.push(node);
        id
    }

    /// Connects port `a.1` of node `a.0` with port `b.1` of node `b.0`, in both directions with the same parameters.
    /// Returns the number of the link, for [`Engine::set_link_up`] and [`Engine::set_link_faults`].
    pub fn connect(
        &mut self,
        a: (NodeId, u32),
        b: (NodeId, u32),
        config: LinkConfig,
    ) -> Result<usize, LinkError> {
        self.core.connect(a, b, config)
    }

    /// Adds an observer, which sees all frames and notes from now on.
    ///
    /// # Panics
    ///
    /// If [`Engine::is_ahead`].
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.expect_together("an observer is added");
        self.end_all_trains();
        self.core.observers.push(observer);
    }

    /// The current virtual time in nanoseconds.
    pub fn now(&self) -> u64 {
        self.core.now
    }

    /// Number of events handled so far.
    pub fn events(&self) -> u64 {
        self.core.handled
    }

    /// Returns the node with this number.
    pub fn node(&self, id: NodeId) -> &N {
        &self.nodes[id.0]
    }

    /// All nodes with their numbers, in the order of numbers.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &N)> {
        self.nodes.iter().enumerate().map(|(i, n)| (NodeId(i), n))
    }

    /// Name of the node with this number.
    pub fn name(&self, id: NodeId) -> &str {
        self.core.name(id)
    }

    /// Calls a function on a node at the current time, with the context that a handler has.
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
            self.expect_together("a node that runs ahead is changed");
        }
        self.core.disturbances += 1;
        self.deliver_followers(id);
        self.core.end_train(id);
        let mut ctx = self.core.context(id);
        act(&mut self.nodes[id.0], &mut ctx)
    }

    /// Handles the next event if it is due at or before `limit` in nanoseconds. After [`Step::Done`], followers may
    /// have arrived that are not yet delivered to their nodes ([`Context::expect_followers`]).
    pub fn step(&mut self, limit: u64) -> Step {
        self.step_or_skip(limit, limit)
    }

    /// Handles the next event as [`Engine::step`] does. Skips the periods of a steady state that end by `latest`, in
    /// nanoseconds, even if they end after `limit`.
    pub fn step_or_skip(&mut self, limit: u64, latest: u64) -> Step {
        let step = self.handle(limit, latest);
        if step != Step::Done {
            self.deliver_all_followers();
        }
        step
    }

    fn handle(&mut self, limit: u64, latest: u64) -> Step {
        self.run_ahead(limit);
        self.core.marked = None;
        let Some(event) = self.core.next(limit) else {
            return Step::Idle;
        };
        let node = match &event {
            Event::Arrival { to, outages, frame } => {
                self.deliver_followers(to.node);
                self.core.interrupt(to.node, frame.place());
                self.core.arrives(*to, *outages, frame).then_some(to.node)
            }
            Event::Wake { node } if !self.core.wakes(*node) => None,
            Event::Wake { node } | Event::Message { to: node, .. } => {
                self.deliver_followers(*node);
                self.core.end_train(*node);
                Some(*node)
            }
            Event::Idle { node, .. } => Some(*node),
            Event::LinkEnd { to, outages, frame } => {
                self.core.show_arrival_at_link_end(*to, *outages, frame);
                None
            }
            Event::Ahead { node } => {
                self.core.apply_effects(*node);
                None
            }
        };
        if let Some(node) = node {
            assert!(
                !self.core.has_passed(node),
                "an event reaches {} earlier than the delay that the node declares",
                self.name(node)
            );
            self.core.disturbances += u64::from(matches!(event, Event::Message { .. }));
            self.core.node_states[node.0].touched = self.core.handled;
            let mut ctx = self.core.context(node);
            deliver(&mut self.nodes[node.0], event, &mut ctx);
        }
        if std::mem::take(&mut self.core.notified) {
            return Step::Notified;
        }
        if let Some(node) = self.core.marked.take() {
            self.handle_mark(node, latest);
        }
        Step::Done
    }

    /// Delivers to a node the followers that have arrived by now.
    #[inline]
    fn deliver_followers(&mut self, id: NodeId) {
        let now = self.core.now;
        if let Some(train) = self.core.train_mut(id).filter(|train| train.is_due(now)) {
            let node = &mut self.nodes[id.0];
            let count = train.deliver_arrived(now, |times, first| node.on_followers(times, first));
            self.core.handled += count;
            self.core.node_states[id.0].touched = self.core.handled;
        }
    }

    fn deliver_all_followers(&mut self) {
        for at in 0..self.core.expecting.len() {
            self.deliver_followers(self.core.expecting[at]);
        }
        self.core.remove_ended_trains();
    }

    fn end_all_trains(&mut self) {
        self.deliver_all_followers();
        for at in 0..self.core.expecting.len() {
            self.core.end_train(self.core.expecting[at]);
        }
        self.core.remove_ended_trains();
    }

    /// Returns the nodes that have called [`Context::notify`] since the last call, in the order of their numbers.
    pub fn take_notifying(&mut self) -> impl Iterator<Item = NodeId> + use<N> {
        std::mem::take(&mut self.core.notifying).into_iter()
    }

    /// Handles all events at or before `limit`, then advances the time to `limit`.
    pub fn run_until(&mut self, limit: u64) {
        while self.handle(limit, limit) != Step::Idle {}
        self.core.advance_to(self.core.now.max(limit));
        self.deliver_all_followers();
    }

    /// Handles events until none is left. Does not return if a node always schedules a further event.
    pub fn run(&mut self) {
        while self.handle(u64::MAX, u64::MAX) != Step::Idle {}
        self.core.advance_to(self.core.last_arrival());
        self.deliver_all_followers();
    }

    /// Time of the next event in nanoseconds; `None` if no event is scheduled.
    pub fn next_event_at(&self) -> Option<u64> {
        self.core.next_event_at()
    }

    /// Counters of the frames that `port` of `node` sends; `None` if the port is not connected.
    pub fn counters(&self, node: NodeId, port: u32) -> Option<LinkCounters> {
        self.core.counters(node, port)
    }

    /// Names and counters of all link directions, in the order in which links were added; the direction from a link's
    /// first end comes first. A name is such as `s1:2 -> s2:1`.
    pub fn directions(&self) -> impl Iterator<Item = (&str, LinkCounters)> {
        self.core.directions()
    }

    /// Takes a link down, or up again. Frames on the link are lost when it goes down, except those that arrive in the
    /// same nanosecond.
    ///
    /// # Panics
    ///
    /// If [`Engine::is_ahead`].
    pub fn set_link_up(&mut self, link: usize, up: bool) {
        self.expect_together("a link is taken down or up");
        self.core.disturbances += 1;
        self.end_all_trains();
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
        self.core.disturbances += 1;
        self.core.set_link_faults(link, faults)
    }
}
