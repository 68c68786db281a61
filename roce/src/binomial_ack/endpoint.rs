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

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;

use super::membership::{Manager, Membership};
use super::node::{Config, Effect, MulticastError, Node};
use super::suspects::{Due, Suspects};
use super::wire::{Manage, MessageId, HEADER_LEN};
use crate::host::{HostEvent, HostTiming};
use crate::rc::{
    Completion, MemoryError, MemoryKey, MemorySlice, ModifyError, Operation, Payload, RcConfig,
    RecvRequest, Remote, SendOperation, SendRequest,
};
use crate::ud::{
    UdCompleted, UdCompletion, UdConfig, UdDestination, UdPostError, UdSendRequest, GRH_LEN,
    MULTICAST_QPN,
};
use crate::verbs::Verbs;
use crate::wire::{Psn, QpNum, RnrTimer};

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

/// What this host is to the group.
enum Role {
    Stranger,
    Manager(Office),
    /// In the group as soon as a list says so; to be asked for again at that time.
    Joining(u64),
    Member,
    /// Out of the group as soon as a list says so.
    Leaving(u64),
}

/// What the manager has to do.
#[derive(Default)]
struct Office {
    manager: Manager,
    /// When the next list is to go out.
    due: Option<u64>,
    /// Who is to learn from it that it is no longer in.
    leaving: BTreeSet<u32>,
}

/// A connection to a member.
struct Outgoing {
    qpn: QpNum,
    psn: Psn,
    state: State,
    /// What is to be sent.
    queue: VecDeque<Vec<u8>>,
    /// Sent, but not acknowledged.
    under_way: usize,
}

enum State {
    /// Asked for; to be asked for again at that time.
    Asked(u64),
    Connecting,
    Connected,
}

/// A connection from a member.
struct Incoming {
    from: u32,
    remote_qpn: QpNum,
    psn: Psn,
    buffers: Option<Buffers>,
}

/// Places of one length in one registered region, by work request.
#[derive(Clone, Copy)]
struct Buffers {
    key: MemoryKey,
    len: u64,
}

impl Buffers {
    fn register(host: &mut dyn Verbs, count: u64, len: u64) -> Result<Buffers, MemoryError> {
        // Of an odd length the next ones would lie badly.
        let len = len.next_multiple_of(64);
        let key = host.register_memory(count * len, false)?;
        Ok(Buffers { key, len })
    }

    /// The receive request of a place.
    fn request(&self, wr_id: u64) -> RecvRequest {
        let Buffers { key, len } = *self;
        let offset = wr_id * len;
        RecvRequest {
            wr_id,
            buffer: MemorySlice { key, offset, len },
        }
    }

    /// The first bytes of a place.
    fn read<'a>(&self, host: &'a dyn Verbs, wr_id: u64, bytes: u64) -> &'a [u8] {
        let start = wr_id.saturating_mul(self.len);
        let place = start as usize..(start + bytes.min(self.len)) as usize;
        let region = host.memory(self.key).unwrap_or_default();
        region.get(place).unwrap_or_default()
    }
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

    // ---- Membership ----

    fn know(&mut self, number: u32, address: (Ipv4Addr, QpNum)) {
        self.addresses.insert(number, address);
        self.numbers.insert(address, number);
    }

    fn ask_manager(&mut self, host: &mut dyn Verbs, now: u64) {
        let again = now + self.config.connect_interval;
        let manage = match &mut self.role {
            Role::Joining(at) => {
                *at = again;
                Manage::Join
            }
            Role::Leaving(at) => {
                *at = again;
                Manage::Leave
            }
            Role::Stranger | Role::Manager(_) | Role::Member => return,
        };
        self.send_datagram(host, now, MANAGER, manage.emit());
    }

    /// Takes a list of members.
    fn take_list(&mut self, host: &mut dyn Verbs, now: u64, list: Membership) {
        for member in &list.members {
            self.know(member.number, (member.ip, member.qpn));
        }
        let (ip, qpn) = (host.ip(), self.ud_qpn);
        let own = list
            .members
            .iter()
            .find(|m| (m.ip, m.qpn) == (ip, qpn))
            .map(|m| m.number);
        let is_older = self.node.as_ref().and_then(Node::version) > Some(list.version);
        match (&self.role, own) {
            _ if is_older => {}
            (Role::Joining(_), Some(number)) => {
                self.node = Some(Node::new(number, self.config.node));
                self.role = Role::Member;
            }
            (Role::Leaving(_) | Role::Member, None) => self.role = Role::Stranger,
            _ => {}
        }
        if !is_older {
            self.forget_the_gone(host, &list);
        }
        if let Some(node) = &mut self.node {
            node.handle_membership(now, list);
        }
    }

    /// Gives up what is for members that a list does not name. The manager keeps those that leave until they know.
    fn forget_the_gone(&mut self, host: &mut dyn Verbs, list: &Membership) {
        let is_there = |number: u32| list.place(number).is_some();
        let numbers: Vec<u32> = self.addresses.keys().copied().collect();
        for number in numbers.into_iter().filter(|number| !is_there(*number)) {
            self.suspects.clear(number);
            if !matches!(self.role, Role::Manager(_)) && number != MANAGER {
                self.drop_outgoing(host, number);
                self.drop_incoming(host, number, |_| true);
            }
        }
    }

    /// Nothing is received from a member.
    fn suspect(&mut self, now: u64, member: u32) {
        self.events.push_back(EndpointEvent::Silent { member });
        let knows_list = self.is_member();
        if knows_list && self.members().contains(&member) {
            self.suspects.add(now, member);
        }
    }

    /// Asks for a sign of life: the manager the suspect, others the manager.
    fn inquire(&mut self, host: &mut dyn Verbs, now: u64, due: Due) {
        let is_manager = matches!(self.role, Role::Manager(_));
        match (due, is_manager) {
            (Due::Ask(number), true) => self.send_datagram(host, now, number, Manage::Probe.emit()),
            (Due::Ask(number), false) => {
                let suspicion = Manage::Suspect { number };
                self.send_datagram(host, now, MANAGER, suspicion.emit());
            }
            (Due::GiveUp(number), true) => self.expel(host, now, number),
            (Due::GiveUp(_), false) => {
                self.suspects.clear_all();
                self.events.push_back(EndpointEvent::Abandoned);
            }
        }
    }

    /// At the manager: somebody wants to be in the next list.
    fn let_in(&mut self, host: &mut dyn Verbs, now: u64, address: (Ipv4Addr, QpNum)) {
        let Role::Manager(office) = &mut self.role else {
            return;
        };
        let list = office.manager.membership();
        let known = self.numbers.get(&address).copied();
        if let Some(number) = known.filter(|number| list.place(*number).is_some()) {
            // It has not received that yet, or not been sent the list: its connection may have failed.
            if office.due.is_none() && !self.outgoing.contains_key(&number) {
                self.send(host, now, number, list.emit());
            }
            return;
        }
        if list.members.len() >= self.config.max_members as usize {
            return;
        }
        // Another queue pair of a host that is in is that host started anew.
        let before = list.members.iter().find(|member| member.ip == address.0);
        if let Some(before) = before {
            // It is in the list.
            let _ = office.manager.leave(before.number);
        }
        let Ok((number, _)) = office.manager.join(address.0, address.1) else {
            return;
        };
        let due = now + self.config.connect_interval;
        office.due.get_or_insert(due);
        self.know(number, address);
    }

    /// At the manager: somebody is to be in no list any more.
    fn let_go(&mut self, now: u64, number: u32) {
        let Role::Manager(office) = &mut self.role else {
            return;
        };
        if number == MANAGER || !self.addresses.contains_key(&number) {
            return;
        }
        // Who is out already has not received that.
        let _ = office.manager.leave(number);
        office.leaving.insert(number);
        office.due = Some(now);
    }

    /// Sends the list as it is to everybody.
    fn publish(&mut self, host: &mut dyn Verbs, now: u64) {
        let Role::Manager(office) = &mut self.role else {
            return;
        };
        office.due = None;
        let leaving = std::mem::take(&mut office.leaving);
        let list = office.manager.membership();
        let packet = list.emit();
        let members = list.members.iter().map(|member| member.number);
        let others: BTreeSet<u32> = members.chain(leaving).filter(|n| *n != MANAGER).collect();
        self.take_list(host, now, list);
        for number in others {
            self.send(host, now, number, packet.clone());
        }
    }

    // ---- Datagrams ----

    fn datagram(&mut self, host: &mut dyn Verbs, now: u64, completion: &UdCompletion) {
        let Ok(UdCompleted::Received { bytes, source, .. }) = completion.outcome else {
            return;
        };
        let Some(buffers) = self.buffers else {
            return;
        };
        let packet = buffers.read(host, completion.wr_id, bytes);
        let packet = packet.get(GRH_LEN as usize..).unwrap_or_default().to_vec();
        // It was posted before, and a queue pair that has died since gets no more.
        let _ = host.post_ud_recv(self.ud_qpn, buffers.request(completion.wr_id));
        let address = (source.ip, source.qpn);
        let from = self.numbers.get(&address).copied();
        match (Manage::parse(&packet), from) {
            (Some(Manage::Join), _) => self.let_in(host, now, address),
            (Some(manage), Some(from)) => self.manage(host, now, from, source, manage),
            (None, Some(from)) => {
                if let Some(node) = &mut self.node {
                    // What is no packet of the protocol is lost like one that never came.
                    let _ = node.handle_datagram(now, from, &packet);
                }
            }
            // A stranger's.
            (_, None) => {}
        }
    }

    fn manage(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        from: u32,
        source: Remote,
        manage: Manage,
    ) {
        match manage {
            Manage::Request { qpn, psn } => self.accept(host, now, from, qpn, psn),
            Manage::Reply { of, qpn, psn } => {
                let Some(outgoing) = self.outgoing.get_mut(&from) else {
                    return;
                };
                if outgoing.qpn != of || !matches!(outgoing.state, State::Asked(_)) {
                    return;
                }
                let remote = Remote { ip: source.ip, qpn };
                outgoing.state = State::Connecting;
                let own = outgoing.qpn;
                let is_made = host.set_sq_psn(own, outgoing.psn).is_ok()
                    && host.connect_qp(now, own, remote, psn).is_ok();
                if !is_made {
                    self.drop_outgoing(host, from);
                }
            }
            Manage::Disconnect { qpn } => self.drop_incoming(host, from, |i| i.remote_qpn == qpn),
            Manage::Leave => self.let_go(now, from),
            Manage::Suspect { number } => {
                let is_manager = matches!(self.role, Role::Manager(_));
                self.send_datagram(host, now, from, Manage::Alive.emit());
                if is_manager && number != MANAGER && self.members().contains(&number) {
                    self.suspects.add(now, number);
                }
            }
            Manage::Probe => self.send_datagram(host, now, from, Manage::Alive.emit()),
            Manage::Alive if from == MANAGER => self.suspects.clear_all(),
            Manage::Alive => self.suspects.clear(from),
            Manage::Join => {}
        }
    }

    fn send_datagram(&self, host: &mut dyn Verbs, now: u64, member: u32, packet: Vec<u8>) {
        let Some((ip, qpn)) = self.addresses.get(&member).copied() else {
            return;
        };
        let request = UdSendRequest {
            wr_id: 0,
            to: UdDestination {
                ip,
                qpn,
                qkey: self.config.qkey,
            },
            immediate: None,
            payload: Payload::Bytes(packet.into()),
            is_signaled: false,
        };
        // It is sent again when it is not answered; the address may be known by then.
        if host.post_ud_send(self.ud_qpn, request) == Err(UdPostError::Unresolved(ip)) {
            host.resolve(now, ip);
        }
    }

    /// What was asked for in vain is asked for again.
    fn resolved(&mut self, host: &mut dyn Verbs, now: u64, ip: Ipv4Addr) {
        let is_there = |member: &u32| self.addresses.get(member).is_some_and(|(of, _)| *of == ip);
        let waiting = self.outgoing.iter().filter(|(member, outgoing)| {
            matches!(outgoing.state, State::Asked(_)) && is_there(member)
        });
        let waiting: Vec<u32> = waiting.map(|(member, _)| *member).collect();
        let is_manager = is_there(&MANAGER);
        for member in waiting {
            self.ask(host, now, member);
        }
        if is_manager {
            self.ask_manager(host, now);
        }
    }

    // ---- Connections ----

    fn send(&mut self, host: &mut dyn Verbs, now: u64, to: u32, packet: Vec<u8>) {
        if let Some(outgoing) = self.connection(host, now, to) {
            outgoing.queue.push_back(packet);
            outgoing.flush(host);
        }
    }

    /// The connection to a member, asked for if there is none. None can be made where the host has no queue pair left: then what was to
    /// be sent is lost, and repaired when it is missed.
    fn connection(&mut self, host: &mut dyn Verbs, now: u64, to: u32) -> Option<&mut Outgoing> {
        if !self.outgoing.contains_key(&to) {
            let qpn = host.create_qp(self.config.rc).ok()?;
            let psn = host.view(qpn).map_or(Psn::new(0), |qp| qp.sq_psn);
            let outgoing = Outgoing {
                qpn,
                psn,
                state: State::Asked(now),
                queue: VecDeque::new(),
                under_way: 0,
            };
            self.outgoing.insert(to, outgoing);
            self.ask(host, now, to);
        }
        self.outgoing.get_mut(&to)
    }

    fn ask(&mut self, host: &mut dyn Verbs, now: u64, member: u32) {
        if let Some(outgoing) = self.outgoing.get_mut(&member) {
            outgoing.state = State::Asked(now + self.config.connect_interval);
            let request = Manage::Request {
                qpn: outgoing.qpn,
                psn: outgoing.psn,
            };
            self.send_datagram(host, now, member, request.emit());
        }
    }

    fn accept(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        from: u32,
        remote_qpn: QpNum,
        rq_psn: Psn,
    ) {
        let known = self
            .incoming
            .iter()
            .find(|(_, i)| i.from == from && i.remote_qpn == remote_qpn);
        let answer = known.map(|(qpn, incoming)| (*qpn, incoming.psn));
        let answer = match answer {
            Some(answer) => answer,
            None => {
                // A member has one connection to us; what it had before is over.
                self.drop_incoming(host, from, |_| true);
                let Some(answer) = self.make_incoming(host, now, from, remote_qpn, rq_psn) else {
                    return;
                };
                answer
            }
        };
        let (qpn, psn) = answer;
        let reply = Manage::Reply {
            of: remote_qpn,
            qpn,
            psn,
        };
        self.send_datagram(host, now, from, reply.emit());
    }

    fn make_incoming(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        from: u32,
        remote_qpn: QpNum,
        rq_psn: Psn,
    ) -> Option<(QpNum, Psn)> {
        let (ip, _) = *self.addresses.get(&from)?;
        let qpn = host.create_qp(self.config.rc).ok()?;
        let psn = host.view(qpn)?.sq_psn;
        let incoming = Incoming {
            from,
            remote_qpn,
            psn,
            buffers: None,
        };
        self.incoming.insert(qpn, incoming);
        let remote = Remote {
            ip,
            qpn: remote_qpn,
        };
        let made = self.post_buffers(host, qpn);
        if made.is_none() || host.connect_qp(now, qpn, remote, rq_psn).is_err() {
            // It will be asked for again.
            self.drop_incoming(host, from, |_| true);
            return None;
        }
        Some((qpn, psn))
    }

    fn post_buffers(&mut self, host: &mut dyn Verbs, qpn: QpNum) -> Option<()> {
        let (count, len) = (self.config.connection_buffers(), self.packet_len());
        let buffers = Buffers::register(host, count, len).ok()?;
        self.incoming.get_mut(&qpn)?.buffers = Some(buffers);
        for wr_id in 0..count {
            host.post_recv(qpn, buffers.request(wr_id)).ok()?;
        }
        Some(())
    }

    /// The longest packet of a connection.
    fn packet_len(&self) -> u64 {
        let message = HEADER_LEN as u64 + self.config.node.max_message;
        message.max(Membership::wire_len(self.config.max_members))
    }

    fn connected(&mut self, qpn: QpNum) -> bool {
        let found = self.outgoing.values_mut().find(|o| o.qpn == qpn);
        if let Some(outgoing) = found {
            outgoing.state = State::Connected;
            return true;
        }
        self.incoming.contains_key(&qpn)
    }

    fn completed(&mut self, host: &mut dyn Verbs, now: u64, completion: &Completion) -> bool {
        let qpn = completion.qpn;
        if let Some(incoming) = self.incoming.get(&qpn) {
            let (Ok(done), Some(buffers)) = (completion.outcome, incoming.buffers) else {
                return true;
            };
            if completion.operation != Operation::Receive {
                return true;
            }
            let from = incoming.from;
            let packet = buffers.read(host, completion.wr_id, done.bytes).to_vec();
            // A queue pair that has failed since gets no more.
            let _ = host.post_recv(qpn, buffers.request(completion.wr_id));
            match (Membership::parse(&packet), &mut self.node) {
                (Some(list), _) if from == MANAGER => self.take_list(host, now, list),
                // What is no packet of the protocol changes nothing.
                (None, Some(node)) => drop(node.handle_packet(now, from, &packet)),
                _ => {}
            }
            return true;
        }
        let found = self.outgoing.iter_mut().find(|(_, o)| o.qpn == qpn);
        let Some((member, outgoing)) = found else {
            return false;
        };
        let member = *member;
        outgoing.under_way = outgoing.under_way.saturating_sub(1);
        let is_done =
            completion.outcome.is_ok() && outgoing.under_way == 0 && outgoing.queue.is_empty();
        if is_done && self.config.connections == Connections::PerPacket {
            self.drop_outgoing(host, member);
            let disconnect = Manage::Disconnect { qpn };
            self.send_datagram(host, now, member, disconnect.emit());
        }
        true
    }

    fn failed(&mut self, host: &mut dyn Verbs, now: u64, qpn: QpNum) -> bool {
        let found = self.outgoing.iter().find(|(_, o)| o.qpn == qpn);
        if let Some((member, _)) = found {
            let member = *member;
            self.drop_outgoing(host, member);
            self.suspect(now, member);
            return true;
        }
        let Some(from) = self.incoming.get(&qpn).map(|incoming| incoming.from) else {
            return false;
        };
        self.drop_incoming(host, from, |_| true);
        true
    }

    fn drop_outgoing(&mut self, host: &mut dyn Verbs, member: u32) {
        if let Some(outgoing) = self.outgoing.remove(&member) {
            // It was ours.
            let _ = host.destroy_qp(outgoing.qpn);
        }
    }

    fn drop_incoming(
        &mut self,
        host: &mut dyn Verbs,
        from: u32,
        which: impl Fn(&Incoming) -> bool,
    ) {
        let found = self
            .incoming
            .iter()
            .filter(|(_, i)| i.from == from && which(i));
        for qpn in found.map(|(qpn, _)| *qpn).collect::<Vec<_>>() {
            if let Some(incoming) = self.incoming.remove(&qpn) {
                // Both were ours.
                let _ = host.destroy_qp(qpn);
                if let Some(buffers) = incoming.buffers {
                    let _ = host.deregister(buffers.key);
                }
            }
        }
    }

    // ---- The protocol ----

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

impl Outgoing {
    /// Posts what waits, once there is a connection.
    fn flush(&mut self, host: &mut dyn Verbs) {
        if !matches!(self.state, State::Connected) {
            return;
        }
        while let Some(packet) = self.queue.pop_front() {
            let request = SendRequest {
                wr_id: 0,
                operation: SendOperation::Send { immediate: None },
                payload: Payload::Bytes(packet.into()),
            };
            // A queue pair that has just failed says so in an event of its own.
            if host.post_send(self.qpn, request).is_ok() {
                self.under_way += 1;
            }
        }
    }
}
