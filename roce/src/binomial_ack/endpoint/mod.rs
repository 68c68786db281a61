//! A member of a group on a host: datagrams on a UD queue pair, everything else on RC queue pairs between two members.
//!
//! To send to a member, a member creates a queue pair and requests one at the other side, as a communication manager does
//! (IBTA vol. 1, chapter 12), by datagrams that are repeated until a reply arrives:
//!
//! ```text
//!  A: queue pair a ── REQ a, its first PSN ──> B: queue pair b, connected to a
//!  A: a connected to b <── REP a, b, its first PSN ── B
//!  A ── SEND, SEND, ... ──> B
//!  A: a destroyed ── DREQ a ──> B: b destroyed            (unless connections are retained)
//! ```
//!
//! A connection carries packets in one direction; the other direction has its own.
//!
//! Lists of members use the same connections. A host that wants to join repeats its request to the manager by datagrams until a list
//! names it. The manager collects requests that arrive at about the same time, and sends the next list to all members:
//! ```text
//!  B: attached to the group ── JOIN ──> manager: gives B a number
//!  B <── REQ ── manager, B ── REP ──> manager, B <── list ── manager: B has its number and the list of members
//! ```

mod buffers;
mod connections;
mod datagrams;
mod group;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;

use super::node::{Config, Effect, MulticastError, Node};
use super::suspects::Suspects;
use super::wire::MessageId;
use crate::host::{HostEvent, HostTiming};
use crate::rc::{MemoryError, ModifyError, Payload, RcConfig, Remote};
use crate::ud::{UdConfig, UdDestination, UdPostError, UdSendRequest, GRH_LEN, MULTICAST_QPN};
use crate::verbs::Verbs;
use crate::wire::{QpNum, RnrTimer};
use buffers::Buffers;
use connections::{IncomingConnection, OutgoingConnection, State};
use group::{ManagerState, Role};

/// Member number of the manager, which is the first member of a group.
const MANAGER: u32 = 0;
/// Largest number of datagrams that one root (sender of messages) has in flight, unless a single message is longer.
const WINDOW_SEGMENTS: u64 = 192;
/// Number of receive buffers for management datagrams, in addition to those for the messages of one root.
const MANAGEMENT_BUFFERS: u64 = 64;
/// Number of times that a message is resent to one child in the tree before the child is reported as silent.
const ATTEMPTS: u32 = 8;
/// Number of receive buffers per connection, in addition to two for every message in flight. When none is left, RNR NAKs
/// delay further packets.
const CONNECTION_BUFFERS: u64 = 4;
/// RNR delay of 10 us, the time of a few datagrams. A receiver that posts its buffers late is usually late by about that
/// time.
const RNR_TIMER: RnrTimer = RnrTimer::new(1);

/// How long a connection between two members is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionLifetime {
    /// The connection is kept for the next packet.
    Retained,
    /// The connection is destroyed, and created again for the next packet, as in the paper's first implementation.
    PerPacket,
}

/// Settings of an endpoint, the same at all members.
#[derive(Debug, Clone, Copy)]
pub struct EndpointConfig {
    /// Settings of the protocol.
    pub node: Config,
    /// The multicast group, an address in 224.0.0.0/4.
    pub group: Ipv4Addr,
    /// Q_Key of the members' datagram queue pairs, below 2^31.
    pub qkey: u32,
    /// Settings of the queue pairs between members.
    pub rc: RcConfig,
    /// Whether connections between members are kept after a packet, or destroyed.
    pub connections: ConnectionLifetime,
    /// Nanoseconds after which a connection or join request is repeated. The manager also collects requests for this time
    /// before it creates a list.
    pub connect_interval: u64,
    /// Largest number of members in a list. Further join requests get no reply.
    pub max_members: u32,
}

impl EndpointConfig {
    /// Creates settings that fit queue pairs with the settings `rc`; connections are retained. An acknowledgement has
    /// the time of one ACK timeout for each level of the tree. A root has at most a few hundred datagrams in flight, or
    /// one message if that is longer.
    pub fn new(
        group: Ipv4Addr,
        qkey: u32,
        rc: RcConfig,
        max_message: u64,
        max_members: u32,
    ) -> EndpointConfig {
        let timeout = rc.ack_timeout.ns();
        let timeout = timeout.or(HostTiming::SOFTWARE.ack_timeout.ns());
        let timeout = timeout.expect("a default exists if the configured timeout is off");
        let mut node = Config {
            mtu: rc.mtu,
            max_message,
            cycle_timeout: timeout,
            segment_time: timeout / WINDOW_SEGMENTS,
            attempts: ATTEMPTS,
            window: 1,
        };
        node.window = (WINDOW_SEGMENTS / node.segments(max_message)).max(1) as u32;
        EndpointConfig {
            node,
            group,
            qkey,
            rc: RcConfig {
                rnr_timer: RNR_TIMER,
                ..rc
            },
            connections: ConnectionLifetime::Retained,
            connect_interval: timeout,
            max_members,
        }
    }

    fn connection_buffers(&self) -> u64 {
        2 * u64::from(self.node.window) + CONNECTION_BUFFERS
    }

    /// Number of receive buffers for datagrams: the largest number that one root has in flight, because UD has no flow
    /// control.
    fn datagram_buffers(&self) -> u64 {
        let segments = self.node.segments(self.node.max_message);
        segments * u64::from(self.node.window.max(1)) + MANAGEMENT_BUFFERS
    }
}

/// Reason why a member's endpoint cannot be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The host cannot create the datagram queue pair.
    #[error(transparent)]
    Modify(#[from] ModifyError),
    /// The host rejects a receive buffer, or does not attach the queue pair to the multicast group.
    #[error(transparent)]
    Datagrams(#[from] UdPostError),
    /// The host cannot register memory for the receive buffers.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Event that an endpoint reports to the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndpointEvent {
    /// A message of another member has arrived completely ([`Effect::Delivered`]).
    Delivered {
        /// Root and number of the message.
        id: MessageId,
        /// Bytes of the message.
        data: Arc<[u8]>,
    },
    /// All members have a message that this member has sent ([`Effect::Completed`]).
    Completed {
        /// Number of the message, from 0.
        message: u32,
    },
    /// A member does not respond ([`Effect::Silent`]), or the connection to it has failed. The manager will probe the
    /// member.
    Silent {
        /// Number of the member.
        member: u32,
    },
    /// The manager has failed. Membership cannot change any more, and messages that failed members would forward are
    /// lost.
    ManagerFailed,
}

/// One member of a group: the protocol on the queue pairs of a host.
pub struct Endpoint {
    config: EndpointConfig,
    role: Role,
    /// The protocol's state machine; `None` until a list of members contains this host.
    node: Option<Node>,
    ud_qpn: QpNum,
    /// Receive buffers for datagrams; `None` only while the endpoint is being created.
    buffers: Option<Buffers>,
    /// Address and datagram queue pair of every member that has been in a list of members, by member number.
    addresses: BTreeMap<u32, (Ipv4Addr, QpNum)>,
    /// Member number by address and datagram queue pair.
    numbers: BTreeMap<(Ipv4Addr, QpNum), u32>,
    outgoing: BTreeMap<u32, OutgoingConnection>,
    incoming: BTreeMap<QpNum, IncomingConnection>,
    /// The members that do not respond to this member; at the manager, also those that another member has reported.
    suspects: Suspects,
    events: VecDeque<EndpointEvent>,
}

impl Endpoint {
    /// Creates a datagram queue pair that is attached to the multicast group. The host becomes a member only by
    /// [`Endpoint::create_group`] or [`Endpoint::join`].
    pub fn open(host: &mut dyn Verbs, config: EndpointConfig) -> Result<Endpoint, OpenError> {
        let ud_qpn = host.create_ud_qp(UdConfig {
            mtu: config.node.mtu,
            qkey: config.qkey,
            priority: 0,
        })?;
        let mut endpoint = Endpoint {
            config,
            role: Role::NonMember,
            node: None,
            ud_qpn,
            buffers: None,
            addresses: BTreeMap::new(),
            numbers: BTreeMap::new(),
            outgoing: BTreeMap::new(),
            incoming: BTreeMap::new(),
            suspects: Suspects::new(config.connect_interval),
            events: VecDeque::new(),
        };
        match endpoint.listen(host) {
            Ok(()) => Ok(endpoint),
            Err(error) => {
                endpoint.close(host);
                Err(error)
            }
        }
    }

    fn listen(&mut self, host: &mut dyn Verbs) -> Result<(), OpenError> {
        let (count, len) = (self.config.datagram_buffers(), self.datagram_len());
        let buffers = Buffers::register(host, count, len)?;
        self.buffers = Some(buffers);
        for wr_id in 0..count {
            host.post_ud_recv(self.ud_qpn, buffers.request(wr_id))?;
        }
        host.attach_multicast(self.ud_qpn, self.config.group)?;
        Ok(())
    }

    fn datagram_len(&self) -> u64 {
        GRH_LEN + self.config.node.mtu.bytes() as u64
    }

    /// Number of the datagram queue pair. Other members identify this member by its IP address and this number.
    pub fn qpn(&self) -> QpNum {
        self.ud_qpn
    }

    /// Makes this host the manager and first member of a new group.
    pub fn create_group(&mut self, host: &mut dyn Verbs, now: u64) {
        let mut manager_state = ManagerState::default();
        let joined = manager_state.manager.join(host.ip(), self.ud_qpn);
        let (number, list) = joined.expect("the first number of an empty list is free");
        self.role = Role::Manager(manager_state);
        self.node = Some(Node::new(number, self.config.node));
        self.handle_list(host, now, list);
    }

    /// Requests membership from the manager, whose datagram queue pair is `manager`. The request is repeated until it
    /// is granted.
    pub fn join(&mut self, host: &mut dyn Verbs, now: u64, manager: Remote) {
        self.record_address(MANAGER, (manager.ip, manager.qpn));
        self.role = Role::Joining(now);
        self.request_from_manager(host, now);
    }

    /// Requests to leave the group. [`Endpoint::is_member`] turns false when the manager has removed this member. A
    /// member should leave only when no other member needs its messages: [`Endpoint::may_leave`]. The manager cannot
    /// leave.
    pub fn leave(&mut self, host: &mut dyn Verbs, now: u64) {
        if let Role::Joining(_) | Role::Member = self.role {
            self.role = Role::Leaving(now);
            self.request_from_manager(host, now);
        }
    }

    /// At the manager: removes a failed member, which gets no notice.
    pub fn expel(&mut self, host: &mut dyn Verbs, now: u64, number: u32) {
        let Role::Manager(manager_state) = &mut self.role else {
            return;
        };
        if number == MANAGER || manager_state.manager.leave(number).is_err() {
            return;
        }
        manager_state.due = Some(now);
        self.drop_outgoing(host, number);
        self.drop_incoming(host, number, |_| true);
        self.apply_effects(host, now);
    }

    /// Destroys the queue pairs and deregisters their memory, without notice to others.
    pub fn close(mut self, host: &mut dyn Verbs) {
        for member in self.outgoing.keys().copied().collect::<Vec<_>>() {
            self.drop_outgoing(host, member);
        }
        for from in self.addresses.keys().copied().collect::<Vec<_>>() {
            self.drop_incoming(host, from, |_| true);
        }
        // Queue pair and memory were created here, so they exist.
        let _ = host.destroy_ud_qp(self.ud_qpn);
        if let Some(buffers) = self.buffers {
            let _ = host.deregister(buffers.key);
        }
    }

    /// State machine of the protocol; `None` until a list of members contains this host.
    pub fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }

    /// Whether this member may leave: no other member can still need its messages, and all packets that it sent over
    /// connections are acknowledged.
    pub fn may_leave(&self) -> bool {
        let is_sent =
            |outgoing: &OutgoingConnection| outgoing.queue.is_empty() && outgoing.in_flight == 0;
        self.node.as_ref().is_none_or(Node::may_leave) && self.outgoing.values().all(is_sent)
    }

    /// Whether the newest list of members contains this host.
    pub fn is_member(&self) -> bool {
        matches!(
            self.role,
            Role::Manager(_) | Role::Member | Role::Leaving(_)
        )
    }

    /// Numbers of the queue pairs of all connections.
    pub fn connections(&self) -> impl Iterator<Item = QpNum> + '_ {
        let outgoing = self.outgoing.values().map(|outgoing| outgoing.qpn);
        outgoing.chain(self.incoming.keys().copied())
    }

    /// Numbers of the members in the newest list.
    pub fn members(&self) -> BTreeSet<u32> {
        self.node
            .as_ref()
            .map_or_else(BTreeSet::new, Node::newest_members)
    }

    /// Removes and returns the next event for the application.
    pub fn poll(&mut self) -> Option<EndpointEvent> {
        self.events.pop_front()
    }

    /// Creates the connections to the parent and the children in the acknowledgement tree of `root` in advance, if
    /// connections are retained.
    pub fn connect_tree(&mut self, host: &mut dyn Verbs, now: u64, root: u32) {
        if self.config.connections == ConnectionLifetime::Retained {
            for member in self.tree_neighbours(root) {
                self.connection(host, now, member);
            }
        }
    }

    /// Whether the connections to the parent and the children in the acknowledgement tree of `root` are established.
    pub fn is_tree_connected(&self, root: u32) -> bool {
        let is_connected = |member: &u32| {
            let outgoing = self.outgoing.get(member);
            outgoing.is_some_and(|o| matches!(o.state, State::Connected))
        };
        self.config.connections == ConnectionLifetime::PerPacket
            || self.tree_neighbours(root).iter().all(is_connected)
    }

    fn tree_neighbours(&self, root: u32) -> Vec<u32> {
        let node = self.node.as_ref();
        node.map_or_else(Vec::new, |node| node.tree_neighbours(root))
    }

    /// Multicasts a message to all members.
    pub fn multicast(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        data: Arc<[u8]>,
    ) -> Result<u32, MulticastError> {
        let node = self.node.as_mut().ok_or(MulticastError::NotMember)?;
        let message = node.multicast(now, data)?;
        self.apply_effects(host, now);
        Ok(message)
    }

    /// The time of the next [`Endpoint::handle_timeout`], in nanoseconds; `None` if no timer runs.
    pub fn poll_timeout(&self) -> Option<u64> {
        let requests = self.outgoing.values().filter_map(|o| match o.state {
            State::Requested(at) => Some(at),
            _ => None,
        });
        let of_role = match &self.role {
            Role::Joining(at) | Role::Leaving(at) => Some(*at),
            Role::Manager(manager_state) => manager_state.due,
            Role::NonMember | Role::Member => None,
        };
        let of_node = self.node.as_ref().and_then(Node::poll_timeout);
        let of_suspects = self.suspects.poll_timeout();
        let all = of_node.into_iter().chain(of_role).chain(of_suspects);
        all.chain(requests).min()
    }

    /// Handles every timer that has expired by `now`.
    pub fn handle_timeout(&mut self, host: &mut dyn Verbs, now: u64) {
        if let Some(node) = &mut self.node {
            node.handle_timeout(now);
        }
        let is_due = |outgoing: &OutgoingConnection| matches!(outgoing.state, State::Requested(at) if at <= now);
        let due = self.outgoing.iter().filter(|(_, o)| is_due(o));
        for member in due.map(|(member, _)| *member).collect::<Vec<_>>() {
            self.request_connection(host, now, member);
        }
        while let Some(due) = self.suspects.take_due(now) {
            self.send_inquiry(host, now, due);
        }
        match &self.role {
            Role::Joining(at) | Role::Leaving(at) if *at <= now => {
                self.request_from_manager(host, now)
            }
            Role::Manager(manager_state) if manager_state.due.is_some_and(|at| at <= now) => {
                self.publish(host, now);
            }
            _ => {}
        }
        self.apply_effects(host, now);
    }

    /// Handles an event of the host. Returns true if the event concerns only this member, so that no other component
    /// needs it.
    pub fn handle_event(&mut self, host: &mut dyn Verbs, now: u64, event: &HostEvent) -> bool {
        let is_ours = match event {
            HostEvent::Datagram(completion) if completion.qpn == self.ud_qpn => {
                self.handle_datagram(host, now, completion);
                true
            }
            HostEvent::Resolved { ip, is_known: true } => {
                self.resolved(host, now, *ip);
                false
            }
            HostEvent::Connected { qpn } => self.connected(*qpn),
            HostEvent::Completion(completion) => self.completed(host, now, completion),
            HostEvent::QpFailed { qpn, .. } => self.failed(host, now, *qpn),
            _ => false,
        };
        if is_ours {
            self.apply_effects(host, now);
        }
        is_ours
    }

    /// Executes the effects of the node: sends its packets, and reports events to the application.
    fn apply_effects(&mut self, host: &mut dyn Verbs, now: u64) {
        while let Some(effect) = self.node.as_mut().and_then(Node::poll) {
            match effect {
                Effect::Multicast(packet) => {
                    let request = UdSendRequest {
                        wr_id: 0,
                        to: UdDestination {
                            ip: self.config.group,
                            qpn: MULTICAST_QPN,
                            qkey: self.config.qkey,
                        },
                        immediate: None,
                        payload: Payload::Bytes(packet.into()),
                        is_signaled: false,
                    };
                    // If the queue pair has failed, the datagram counts as lost.
                    let _ = host.post_ud_send(self.ud_qpn, request);
                }
                Effect::Send { to, packet } => self.send(host, now, to, packet),
                Effect::Delivered { id, data } => {
                    self.events.push_back(EndpointEvent::Delivered { id, data });
                }
                Effect::Completed { message } => {
                    self.events.push_back(EndpointEvent::Completed { message });
                }
                Effect::Silent { member } => self.suspect(now, member),
            }
        }
        for outgoing in self.outgoing.values_mut() {
            outgoing.flush(host);
        }
    }
}
