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

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;

use super::membership::Membership;
use super::node::{Config, Effect, MulticastError, Node};
use super::wire::{Manage, MessageId, HEADER_LEN};
use crate::host::{Host, HostEvent};
use crate::rc::{
    Completion, MemoryKey, MemorySlice, Operation, Payload, RcConfig, RecvRequest, Remote,
    SendOperation, SendRequest,
};
use crate::ud::{
    UdCompleted, UdCompletion, UdConfig, UdDestination, UdPostError, UdSendRequest, GRH_LEN,
    MULTICAST_QPN,
};
use crate::wire::{Psn, QpNum};

/// Datagrams that may come while the application is away.
const DATAGRAM_BUFFERS: u64 = 256;
/// Packets that may come on one connection in that time; RNR NAKs hold back what is more.
const CONNECTION_BUFFERS: u64 = 4;

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
    /// Nanoseconds after which a request for a connection is sent again.
    pub connect_interval: u64,
}

/// What the application should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndpointEvent {
    /// As [`Effect::Delivered`].
    Delivered { id: MessageId, data: Arc<[u8]> },
    /// As [`Effect::Completed`].
    Completed { message: u32 },
    /// As [`Effect::Silent`], or the connection to it has failed.
    Silent { member: u32 },
}

/// One member on a host.
pub struct Endpoint {
    node: Node,
    config: EndpointConfig,
    ud_qpn: QpNum,
    /// A buffer for each datagram that may come, by work request.
    buffers: Vec<MemoryKey>,
    /// Of all members that have been in a list.
    addresses: BTreeMap<u32, (Ipv4Addr, QpNum)>,
    number: u32,
    outgoing: BTreeMap<u32, Outgoing>,
    incoming: BTreeMap<QpNum, Incoming>,
    events: VecDeque<EndpointEvent>,
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
    buffers: Vec<MemoryKey>,
}

impl Endpoint {
    /// Makes a member's datagram queue pair, attached to the group, before the member has a number.
    pub fn open(host: &mut Host, config: &EndpointConfig) -> Result<QpNum, UdPostError> {
        let qpn = host.create_ud_qp(UdConfig {
            mtu: config.node.mtu,
            qkey: config.qkey,
            priority: 0,
        });
        host.attach_multicast(qpn, config.group)?;
        Ok(qpn)
    }

    /// A member with the number that the manager has given it, and the queue pair of [`Endpoint::open`].
    pub fn new(
        host: &mut Host,
        config: EndpointConfig,
        number: u32,
        ud_qpn: QpNum,
    ) -> Result<Endpoint, UdPostError> {
        let len = GRH_LEN + config.node.mtu.bytes() as u64;
        let mut buffers = Vec::new();
        for wr_id in 0..DATAGRAM_BUFFERS {
            let key = host.register_memory(len, false);
            let buffer = whole(key, len);
            host.post_ud_recv(ud_qpn, RecvRequest { wr_id, buffer })?;
            buffers.push(key);
        }
        Ok(Endpoint {
            node: Node::new(number, config.node),
            config,
            ud_qpn,
            buffers,
            addresses: BTreeMap::new(),
            number,
            outgoing: BTreeMap::new(),
            incoming: BTreeMap::new(),
            events: VecDeque::new(),
        })
    }

    /// The protocol's state.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The next thing that the application should know.
    pub fn poll(&mut self) -> Option<EndpointEvent> {
        self.events.pop_front()
    }

    /// Takes a list of members from the manager.
    pub fn handle_membership(&mut self, host: &mut Host, now: u64, list: Membership) {
        for member in &list.members {
            self.addresses
                .insert(member.number, (member.ip, member.qpn));
        }
        self.node.handle_membership(now, list);
        self.act(host, now);
    }

    /// Sends a message to all members.
    pub fn multicast(
        &mut self,
        host: &mut Host,
        now: u64,
        data: Arc<[u8]>,
    ) -> Result<u32, MulticastError> {
        let message = self.node.multicast(now, data)?;
        self.act(host, now);
        Ok(message)
    }

    /// When to call [`Endpoint::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<u64> {
        let asked = self.outgoing.values().filter_map(|o| match o.state {
            State::Asked(at) => Some(at),
            _ => None,
        });
        self.node.poll_timeout().into_iter().chain(asked).min()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, host: &mut Host, now: u64) {
        self.node.handle_timeout(now);
        let is_due = |outgoing: &Outgoing| matches!(outgoing.state, State::Asked(at) if at <= now);
        let due = self.outgoing.iter().filter(|(_, o)| is_due(o));
        for member in due.map(|(member, _)| *member).collect::<Vec<_>>() {
            self.ask(host, now, member);
        }
        self.act(host, now);
    }

    /// Takes an event of the host; says whether it was this member's.
    pub fn handle_event(&mut self, host: &mut Host, now: u64, event: &HostEvent) -> bool {
        let is_ours = match event {
            HostEvent::Datagram(completion) if completion.qpn == self.ud_qpn => {
                self.datagram(host, now, completion);
                true
            }
            // Whoever waits for it asks again in time.
            HostEvent::Resolved { ip, .. } => self.addresses.values().any(|(of, _)| of == ip),
            HostEvent::Connected { qpn } => self.connected(*qpn),
            HostEvent::Completion(completion) => self.completed(host, now, completion),
            HostEvent::QpFailed { qpn, .. } => self.failed(host, *qpn),
            _ => false,
        };
        if is_ours {
            self.act(host, now);
        }
        is_ours
    }

    // ---- Datagrams ----

    fn datagram(&mut self, host: &mut Host, now: u64, completion: &UdCompletion) {
        let Ok(UdCompleted::Received { bytes, source, .. }) = completion.outcome else {
            return;
        };
        let Some(key) = self.buffers.get(completion.wr_id as usize).copied() else {
            return;
        };
        let read = host.memory().read(MemorySlice {
            key,
            offset: GRH_LEN,
            len: bytes - GRH_LEN,
        });
        let packet = read.map(<[u8]>::to_vec).unwrap_or_default();
        let buffer = whole(key, GRH_LEN + self.config.node.mtu.bytes() as u64);
        let wr_id = completion.wr_id;
        // It was posted before, and a queue pair that has died since gets no more.
        let _ = host.post_ud_recv(self.ud_qpn, RecvRequest { wr_id, buffer });
        match Manage::parse(&packet) {
            Some(manage) => self.manage(host, now, source, manage),
            // What is no packet of the protocol is lost like one that never came.
            None => drop(self.node.handle_datagram(now, &packet)),
        }
    }

    fn manage(&mut self, host: &mut Host, now: u64, source: Remote, manage: Manage) {
        let is_member = |(ip, qpn): &(Ipv4Addr, QpNum)| (*ip, *qpn) == (source.ip, source.qpn);
        let from = self
            .addresses
            .iter()
            .find(|(_, address)| is_member(address));
        let Some(from) = from.map(|(number, _)| *number) else {
            return;
        };
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
        }
    }

    fn send_datagram(&self, host: &mut Host, now: u64, member: u32, packet: Vec<u8>) {
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

    // ---- Connections ----

    fn send(&mut self, host: &mut Host, now: u64, to: u32, packet: Vec<u8>) {
        let is_new = !self.outgoing.contains_key(&to);
        if is_new {
            let qpn = host.create_qp(self.config.rc);
            let psn = host.qp(qpn).map_or(Psn::new(0), |qp| qp.sq_psn());
            let outgoing = Outgoing {
                qpn,
                psn,
                state: State::Asked(now),
                queue: VecDeque::new(),
                under_way: 0,
            };
            self.outgoing.insert(to, outgoing);
        }
        if let Some(outgoing) = self.outgoing.get_mut(&to) {
            outgoing.queue.push_back(packet);
            outgoing.flush(host);
        }
        if is_new {
            self.ask(host, now, to);
        }
    }

    fn ask(&mut self, host: &mut Host, now: u64, member: u32) {
        if let Some(outgoing) = self.outgoing.get_mut(&member) {
            outgoing.state = State::Asked(now + self.config.connect_interval);
            let request = Manage::Request {
                qpn: outgoing.qpn,
                psn: outgoing.psn,
            };
            self.send_datagram(host, now, member, request.emit());
        }
    }

    fn accept(&mut self, host: &mut Host, now: u64, from: u32, remote_qpn: QpNum, rq_psn: Psn) {
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
        host: &mut Host,
        now: u64,
        from: u32,
        remote_qpn: QpNum,
        rq_psn: Psn,
    ) -> Option<(QpNum, Psn)> {
        let (ip, _) = *self.addresses.get(&from)?;
        let qpn = host.create_qp(self.config.rc);
        let psn = host.qp(qpn)?.sq_psn();
        let mut buffers = Vec::new();
        for wr_id in 0..CONNECTION_BUFFERS {
            let len = self.packet_len();
            let key = host.register_memory(len, false);
            let buffer = whole(key, len);
            host.post_recv(qpn, RecvRequest { wr_id, buffer }).ok()?;
            buffers.push(key);
        }
        let remote = Remote {
            ip,
            qpn: remote_qpn,
        };
        host.connect_qp(now, qpn, remote, rq_psn).ok()?;
        let incoming = Incoming {
            from,
            remote_qpn,
            psn,
            buffers,
        };
        self.incoming.insert(qpn, incoming);
        Some((qpn, psn))
    }

    /// The longest packet of a connection.
    fn packet_len(&self) -> u64 {
        HEADER_LEN as u64 + self.config.node.max_message
    }

    fn connected(&mut self, qpn: QpNum) -> bool {
        let found = self.outgoing.values_mut().find(|o| o.qpn == qpn);
        if let Some(outgoing) = found {
            outgoing.state = State::Connected;
            return true;
        }
        self.incoming.contains_key(&qpn)
    }

    fn completed(&mut self, host: &mut Host, now: u64, completion: &Completion) -> bool {
        let qpn = completion.qpn;
        if let Some(incoming) = self.incoming.get(&qpn) {
            let key = incoming.buffers.get(completion.wr_id as usize).copied();
            let (Ok(done), Some(key)) = (completion.outcome, key) else {
                return true;
            };
            if completion.operation != Operation::Receive {
                return true;
            }
            let from = incoming.from;
            let read = host.memory().read(whole(key, done.bytes));
            let packet = read.map(<[u8]>::to_vec).unwrap_or_default();
            let wr_id = completion.wr_id;
            let buffer = whole(key, self.packet_len());
            // A queue pair that has failed since gets no more.
            let _ = host.post_recv(qpn, RecvRequest { wr_id, buffer });
            // What is no packet of the protocol changes nothing.
            let _ = self.node.handle_packet(now, from, &packet);
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

    fn failed(&mut self, host: &mut Host, qpn: QpNum) -> bool {
        let found = self.outgoing.iter().find(|(_, o)| o.qpn == qpn);
        if let Some((member, _)) = found {
            let member = *member;
            self.drop_outgoing(host, member);
            self.events.push_back(EndpointEvent::Silent { member });
            return true;
        }
        let Some(from) = self.incoming.get(&qpn).map(|incoming| incoming.from) else {
            return false;
        };
        self.drop_incoming(host, from, |_| true);
        true
    }

    fn drop_outgoing(&mut self, host: &mut Host, member: u32) {
        if let Some(outgoing) = self.outgoing.remove(&member) {
            // It was ours.
            let _ = host.destroy_qp(outgoing.qpn);
        }
    }

    fn drop_incoming(&mut self, host: &mut Host, from: u32, which: impl Fn(&Incoming) -> bool) {
        let found = self
            .incoming
            .iter()
            .filter(|(_, i)| i.from == from && which(i));
        for qpn in found.map(|(qpn, _)| *qpn).collect::<Vec<_>>() {
            if let Some(incoming) = self.incoming.remove(&qpn) {
                // Both were ours.
                let _ = host.destroy_qp(qpn);
                for key in incoming.buffers {
                    let _ = host.memory_mut().deregister(key);
                }
            }
        }
    }

    // ---- The protocol ----

    /// Does what the node says.
    fn act(&mut self, host: &mut Host, now: u64) {
        while let Some(effect) = self.node.poll() {
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
                Effect::Send { to, packet } if to != self.number => {
                    self.send(host, now, to, packet);
                }
                Effect::Send { .. } => {}
                Effect::Delivered { id, data } => {
                    self.events.push_back(EndpointEvent::Delivered { id, data });
                }
                Effect::Completed { message } => {
                    self.events.push_back(EndpointEvent::Completed { message });
                }
                Effect::Silent { member } => {
                    self.events.push_back(EndpointEvent::Silent { member });
                }
            }
        }
        for outgoing in self.outgoing.values_mut() {
            outgoing.flush(host);
        }
    }
}

impl Outgoing {
    /// Posts what waits, once there is a connection.
    fn flush(&mut self, host: &mut Host) {
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

fn whole(key: MemoryKey, len: u64) -> MemorySlice {
    MemorySlice {
        key,
        offset: 0,
        len,
    }
}
