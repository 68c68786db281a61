//! A member on a host: datagrams by a UD queue pair, everything else by RC queue pairs between pairs of members.
//!
//! Who has something for a member makes a queue pair and asks for one at the other side, as a communication manager does
//! (IBTA vol. 1, chapter 12), by datagrams that are repeated until they are answered:
//!
//! ```text
//!  A: queue pair a ── REQ a, its first PSN ──> B: queue pair b, connected to a
//!  A: a connected to b <── REP a, b, its first PSN ── B
//!  A ── SEND, SEND, ... ──> B
//!  A: a destroyed ── DREQ a ──> B: b destroyed            (unless connections are retained)
//! ```
//!
//! A connection carries packets one way; what goes the other way has another one.
//!
//! Lists of members take the same ways. Who wants to be in the group asks the manager by datagrams, until a list has come that names it;
//! the manager gathers what is asked for at about the same time, and sends the next list to everybody over connections:
//!
//! ```text
//!  B: attached to the group ── JOIN ──> manager: gives B a number
//!  B <── REQ ── manager, B ── REP ──> manager, B <── list ── manager: B knows its number and the others
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
use connections::{Incoming, Outgoing, State};
use group::{Office, Role};

/// The manager is the first member, so this is its number.
const MANAGER: u32 = 0;
/// Datagrams of messages that a root may have under way where messages are not longer than that together.
const WINDOW_SEGMENTS: u64 = 192;
/// Datagrams about connections and membership that may come while the application is away, beside those of one root's messages.
const MANAGEMENT_BUFFERS: u64 = 64;
/// Repairs of one child until it is called silent.
const ATTEMPTS: u32 = 8;
/// Packets that may come on one connection in that time, beside one each way for every message under way; RNR NAKs hold back what is more.
const CONNECTION_BUFFERS: u64 = 4;
/// An application that is late is so by some datagrams' time: 10 us.
const RNR_TIMER: RnrTimer = RnrTimer::new(1);

/// What becomes of a connection when what it was made for is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connections {
    /// It is kept for the next time.
    Retained,
    /// It is ended, and made anew the next time, as the paper's first implementation does.
    PerPacket,
}

/// Settings, the same at all members.
#[derive(Debug, Clone, Copy)]
pub struct EndpointConfig {
    /// Of the protocol.
    pub node: Config,
    /// The multicast group, of 224.0.0.0/4.
    pub group: Ipv4Addr,
    pub qkey: u32,
    /// Of the queue pairs between members.
    pub rc: RcConfig,
    pub connections: Connections,
    /// Nanoseconds after which a request for a connection, or to join, is sent again; and how long the manager waits for more of them
    /// before it makes a list.
    pub connect_interval: u64,
    /// How many members a list may have; who asks to join beyond is not answered.
    pub max_members: u32,
}

impl EndpointConfig {
    /// Times and numbers that suit connections with these settings, which are retained: each level of the tree has the time of an ACK
    /// timeout, and a root has a few hundred datagrams under way, or one message if that is longer.
    pub fn new(
        group: Ipv4Addr,
        qkey: u32,
        rc: RcConfig,
        max_message: u64,
        max_members: u32,
    ) -> EndpointConfig {
        let timeout = rc.ack_timeout.ns();
        let timeout = timeout.or(HostTiming::SOFTWARE.ack_timeout.ns());
        let timeout = timeout.expect("one that is set");
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
            connections: Connections::Retained,
            connect_interval: timeout,
            max_members,
        }
    }

    fn connection_buffers(&self) -> u64 {
        2 * u64::from(self.node.window) + CONNECTION_BUFFERS
    }

    /// As many as can come before a root waits, since nothing holds datagrams back where no buffer is posted.
    fn datagram_buffers(&self) -> u64 {
        let segments = self.node.segments(self.node.max_message);
        segments * u64::from(self.node.window.max(1)) + MANAGEMENT_BUFFERS
    }
}

/// Why a member could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Modify(#[from] ModifyError),
    #[error(transparent)]
    Datagrams(#[from] UdPostError),
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// What the application should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndpointEvent {
    /// As [`Effect::Delivered`].
    Delivered { id: MessageId, data: Arc<[u8]> },
    /// As [`Effect::Completed`].
    Completed { message: u32 },
    /// As [`Effect::Silent`], or the connection to it has failed. The manager looks after it.
    Silent { member: u32 },
    /// The manager is dead: nobody is let in or out any more, and what the dead were to pass on does not come.
    Abandoned,
}

/// One member on a host.
pub struct Endpoint {
    config: EndpointConfig,
    role: Role,
    /// Known when a list has named this member.
    node: Option<Node>,
    ud_qpn: QpNum,
    /// For the datagrams that may come.
    buffers: Option<Buffers>,
    /// Of all members that have been in a list.
    addresses: BTreeMap<u32, (Ipv4Addr, QpNum)>,
    /// The other way.
    numbers: BTreeMap<(Ipv4Addr, QpNum), u32>,
    outgoing: BTreeMap<u32, Outgoing>,
    incoming: BTreeMap<QpNum, Incoming>,
    /// The members from which this one does not receive; at the manager, from which anybody does not.
    suspects: Suspects,
    events: VecDeque<EndpointEvent>,
}

impl Endpoint {
    /// Makes a datagram queue pair that is attached to the group. It belongs to nobody before [`Endpoint::found`] or [`Endpoint::join`].
    pub fn open(host: &mut dyn Verbs, config: EndpointConfig) -> Result<Endpoint, OpenError> {
        let ud_qpn = host.create_ud_qp(UdConfig {
            mtu: config.node.mtu,
            qkey: config.qkey,
            priority: 0,
        })?;
        let mut endpoint = Endpoint {
            config,
            role: Role::Stranger,
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

    /// The datagram queue pair, by which members know each other.
    pub fn qpn(&self) -> QpNum {
        self.ud_qpn
    }

    /// Makes this host the manager of a new group, and its first member.
    pub fn found(&mut self, host: &mut dyn Verbs, now: u64) {
        let mut office = Office::default();
        let joined = office.manager.join(host.ip(), self.ud_qpn);
        let (number, list) = joined.expect("the first number of an empty list is free");
        self.role = Role::Manager(office);
        self.node = Some(Node::new(number, self.config.node));
        self.take_list(host, now, list);
    }

    /// Asks the manager, whose datagram queue pair is given, to be let in; again and again until it is.
    pub fn join(&mut self, host: &mut dyn Verbs, now: u64, manager: Remote) {
        self.know(MANAGER, (manager.ip, manager.qpn));
        self.role = Role::Joining(now);
        self.ask_manager(host, now);
    }

    /// Asks the manager to be let go; [`Endpoint::is_member`] says when that is done. It should hold nothing that others may need:
    /// [`Endpoint::is_idle`]. The manager itself stays.
    pub fn leave(&mut self, host: &mut dyn Verbs, now: u64) {
        if let Role::Joining(_) | Role::Member = self.role {
            self.role = Role::Leaving(now);
            self.ask_manager(host, now);
        }
    }

    /// At the manager: takes a member out that is dead. It gets no notice.
    pub fn expel(&mut self, host: &mut dyn Verbs, now: u64, number: u32) {
        let Role::Manager(office) = &mut self.role else {
            return;
        };
        if number == MANAGER || office.manager.leave(number).is_err() {
            return;
        }
        office.due = Some(now);
        self.drop_outgoing(host, number);
        self.drop_incoming(host, number, |_| true);
        self.act(host, now);
    }

    /// Ends the queue pairs and gives their memory up. Nobody gets a notice.
    pub fn close(mut self, host: &mut dyn Verbs) {
        for member in self.outgoing.keys().copied().collect::<Vec<_>>() {
            self.drop_outgoing(host, member);
        }
        for from in self.addresses.keys().copied().collect::<Vec<_>>() {
            self.drop_incoming(host, from, |_| true);
        }
        // All of it was ours.
        let _ = host.destroy_ud_qp(self.ud_qpn);
        if let Some(buffers) = self.buffers {
            let _ = host.deregister(buffers.key);
        }
    }

    /// The protocol's state, once a list has named this member.
    pub fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }

    /// Whether nobody may need this member any more, and everything that it sent over connections is acknowledged.
    pub fn is_idle(&self) -> bool {
        let is_sent = |outgoing: &Outgoing| outgoing.queue.is_empty() && outgoing.under_way == 0;
        self.node.as_ref().is_none_or(Node::is_idle) && self.outgoing.values().all(is_sent)
    }

    /// Whether the newest list names this member.
    pub fn is_member(&self) -> bool {
        matches!(
            self.role,
            Role::Manager(_) | Role::Member | Role::Leaving(_)
        )
    }

    /// The queue pairs of the connections there are.
    pub fn connections(&self) -> impl Iterator<Item = QpNum> + '_ {
        let outgoing = self.outgoing.values().map(|outgoing| outgoing.qpn);
        outgoing.chain(self.incoming.keys().copied())
    }

    /// The numbers of the members by the newest list.
    pub fn members(&self) -> BTreeSet<u32> {
        self.node
            .as_ref()
            .map_or_else(BTreeSet::new, Node::newest_members)
    }

    /// The next thing that the application should know.
    pub fn poll(&mut self) -> Option<EndpointEvent> {
        self.events.pop_front()
    }

    /// Makes the connections beforehand that acknowledgements to a root will need, if they are retained.
    pub fn connect_tree(&mut self, host: &mut dyn Verbs, now: u64, root: u32) {
        if self.config.connections == Connections::Retained {
            for member in self.tree_neighbours(root) {
                self.connection(host, now, member);
            }
        }
    }

    /// Whether these connections are there.
    pub fn is_tree_connected(&self, root: u32) -> bool {
        let is_connected = |member: &u32| {
            let outgoing = self.outgoing.get(member);
            outgoing.is_some_and(|o| matches!(o.state, State::Connected))
        };
        self.config.connections == Connections::PerPacket
            || self.tree_neighbours(root).iter().all(is_connected)
    }

    fn tree_neighbours(&self, root: u32) -> Vec<u32> {
        let node = self.node.as_ref();
        node.map_or_else(Vec::new, |node| node.tree_neighbours(root))
    }

    /// Sends a message to all members.
    pub fn multicast(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        data: Arc<[u8]>,
    ) -> Result<u32, MulticastError> {
        let node = self.node.as_mut().ok_or(MulticastError::NotMember)?;
        let message = node.multicast(now, data)?;
        self.act(host, now);
        Ok(message)
    }

    /// When to call [`Endpoint::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<u64> {
        let asked = self.outgoing.values().filter_map(|o| match o.state {
            State::Asked(at) => Some(at),
            _ => None,
        });
        let of_role = match &self.role {
            Role::Joining(at) | Role::Leaving(at) => Some(*at),
            Role::Manager(office) => office.due,
            Role::Stranger | Role::Member => None,
        };
        let of_node = self.node.as_ref().and_then(Node::poll_timeout);
        let of_suspects = self.suspects.poll_timeout();
        let all = of_node.into_iter().chain(of_role).chain(of_suspects);
        all.chain(asked).min()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, host: &mut dyn Verbs, now: u64) {
        if let Some(node) = &mut self.node {
            node.handle_timeout(now);
        }
        let is_due = |outgoing: &Outgoing| matches!(outgoing.state, State::Asked(at) if at <= now);
        let due = self.outgoing.iter().filter(|(_, o)| is_due(o));
        for member in due.map(|(member, _)| *member).collect::<Vec<_>>() {
            self.ask(host, now, member);
        }
        while let Some(due) = self.suspects.take_due(now) {
            self.inquire(host, now, due);
        }
        match &self.role {
            Role::Joining(at) | Role::Leaving(at) if *at <= now => self.ask_manager(host, now),
            Role::Manager(office) if office.due.is_some_and(|at| at <= now) => {
                self.publish(host, now);
            }
            _ => {}
        }
        self.act(host, now);
    }

    /// Takes an event of the host; says whether it was this member's alone.
    pub fn handle_event(&mut self, host: &mut dyn Verbs, now: u64, event: &HostEvent) -> bool {
        let is_ours = match event {
            HostEvent::Datagram(completion) if completion.qpn == self.ud_qpn => {
                self.datagram(host, now, completion);
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
            self.act(host, now);
        }
        is_ours
    }

    /// Does what the node says.
    fn act(&mut self, host: &mut dyn Verbs, now: u64) {
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
                    // Lost like one that the fabric has lost, if the queue pair has died.
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
