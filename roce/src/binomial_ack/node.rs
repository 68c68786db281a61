//! The protocol of one member: multicast, acknowledgement and repair.
//!
//! Terms: the *root* of a message is the member that multicasts it. A *repair* sends a whole message to one member. A
//! *release* is the notice that all members have a message, so that they remove it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::membership::Membership;
use super::tree::AckTree;
use super::wire::{Body, MessageId, Packet, HEADER_LEN};
use crate::rc::PathMtu;
use crate::wire::{Header, WireError};

/// Largest number of lists of members that a node keeps, for messages that refer to older ones.
const KEPT_VERSIONS: usize = 64;
/// Largest number of one root's messages that a node holds until their release, as a multiple of [`Config::window`].
const KEPT_WINDOWS: usize = 4;
/// Largest number of times that the waiting time before a repetition is doubled.
const MAX_DOUBLINGS: u32 = 6;

/// Settings of a node, the same at all members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Path MTU of the group: the longest payload of a datagram.
    pub mtu: PathMtu,
    /// Longest message in bytes. Longer ones are ignored by receivers.
    pub max_message: u64,
    /// Nanoseconds that an acknowledgement may take per level of the tree. A shorter time repairs losses sooner, but
    /// also repairs messages that are only late.
    pub cycle_timeout: u64,
    /// Nanoseconds that are added to a waiting time for each segment (datagram) of the message.
    pub segment_time: u64,
    /// Number of times that a message is resent to one child before the child is reported as silent.
    pub attempts: u32,
    /// Largest number of messages that a root has in flight, at least 1. Receivers assemble at most this number of
    /// messages of each root.
    pub window: u32,
}

impl Config {
    /// Number of bytes of a message that one datagram carries.
    pub fn segment_bytes(&self) -> usize {
        self.mtu.bytes() - HEADER_LEN
    }

    /// Number of datagrams of a message of `len` bytes.
    pub fn segments(&self, len: u64) -> u64 {
        // An empty message is one empty segment.
        len.div_ceil(self.segment_bytes() as u64).max(1)
    }
}

/// Counters of one member ([`Node`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Number of acknowledgements received.
    pub acks: u64,
    /// Number of packets of path MTU in which whole messages were resent to single members.
    pub repair_packets: u64,
}

/// Output of a [`Node`]: an action for its driver, or a report to the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Send a datagram to the group.
    Multicast(Vec<u8>),
    /// Send a packet to a member over a reliable connection.
    Send {
        /// Number of the member.
        to: u32,
        /// Bytes of the packet.
        packet: Vec<u8>,
    },
    /// A message of another member has arrived completely. Reported once per message.
    Delivered {
        /// Root and number of the message.
        id: MessageId,
        /// Bytes of the message.
        data: Arc<[u8]>,
    },
    /// All members have a message of this node, so a broadcast may return.
    Completed {
        /// Number of the message, from 0.
        message: u32,
    },
    /// A member did not acknowledge a message that was resent to it several times, or did not resend one. If the member
    /// has failed, the manager should remove it.
    Silent {
        /// Number of the member.
        member: u32,
    },
}

/// Reason why a message is not multicast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MulticastError {
    /// This node is not in the newest list of members.
    #[error("this node is not in a list of members; join first")]
    NotMember,
    /// The message is longer than receivers accept.
    #[error(
        "a message of {len} bytes is longer than the group's limit of {limit} bytes; send it in parts"
    )]
    TooLong {
        /// Length of the message in bytes.
        len: u64,
        /// Longest message in bytes: [`Config::max_message`].
        limit: u64,
    },
    /// This node's own messages in flight fill its window; holds the size of the window.
    #[error("{0} messages are in flight, which is the limit; wait until one completes")]
    Full(u32),
}

/// State machine of one member of a multicast group: sends, acknowledges and repairs messages.
pub struct Node {
    number: u32,
    config: Config,
    lists: BTreeMap<u32, Membership>,
    messages: BTreeMap<MessageId, Message>,
    /// For each root: the messages that all members have.
    finished: BTreeMap<u32, FinishedMessages>,
    next_message: u32,
    effects: VecDeque<Effect>,
    counts: Counts,
}

/// A message that may not be complete at all members yet.
struct Message {
    version: u32,
    len: u64,
    content: Content,
    is_delivered: bool,
    /// The members that have acknowledged the message to this node.
    acked: BTreeSet<u32>,
    /// The node to which this node has acknowledged the message, and when to repeat that if the release does not
    /// arrive. The release may have been sent to a member that was removed. `None` before the acknowledgement.
    acked_to: Option<(u32, Wait)>,
    /// Children whose acknowledgement is awaited, with the time at which the message is resent to each. Used only while
    /// this node has the whole message.
    waits: BTreeMap<u32, Wait>,
    /// The pending request to a child to send the message; `None` if no request is pending.
    request: Option<Wait>,
    /// Time by which the parent should have sent the whole message; `None` once this node has it.
    overdue: Option<Wait>,
}

enum Content {
    Parts {
        bytes: Vec<u8>,
        missing: BTreeSet<u32>,
    },
    Whole(Arc<[u8]>),
}

#[derive(Clone, Copy)]
struct Wait {
    at: u64,
    tries: u32,
}

/// A set of message numbers, stored as one range and the numbers outside it.
#[derive(Default)]
struct FinishedMessages {
    first: u32,
    next: u32,
    others: BTreeSet<u32>,
}

impl Node {
    /// Creates a node with the number that the manager assigned.
    pub fn new(number: u32, config: Config) -> Node {
        Node {
            number,
            config,
            lists: BTreeMap::new(),
            messages: BTreeMap::new(),
            finished: BTreeMap::new(),
            next_message: 0,
            effects: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// Removes and returns the next effect: an action for the driver, or a report to the application.
    pub fn poll(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// The time of the next [`Node::handle_timeout`], in nanoseconds; `None` if no timer runs.
    pub fn poll_timeout(&self) -> Option<u64> {
        let of = |message: &Message| {
            let acked_to = message.acked_to.as_ref().map(|(_, wait)| wait);
            let requests = message.request.iter().chain(&message.overdue);
            let waits = message.waits.values().chain(requests).chain(acked_to);
            waits.map(|wait| wait.at).min()
        };
        self.messages.values().filter_map(of).min()
    }

    /// Whether this member may leave the group, because it holds no message that another member may still need.
    pub fn may_leave(&self) -> bool {
        self.messages.is_empty()
    }

    /// Handles a new list of members from the manager.
    pub fn handle_membership(&mut self, now: u64, list: Membership) {
        self.lists.insert(list.version, list);
        while self.lists.len() > KEPT_VERSIONS {
            self.lists.pop_first();
        }
        for id in self.messages.keys().copied().collect::<Vec<_>>() {
            self.refresh(now, id);
        }
    }

    /// Multicasts a message to all members of the newest list. [`Effect::Completed`] follows when they have it.
    ///
    /// A caller that waits for that effect before the next message, as `MPI_Bcast` does, gets its messages delivered in
    /// order.
    pub fn multicast(&mut self, now: u64, data: Arc<[u8]>) -> Result<u32, MulticastError> {
        let (len, limit) = (data.len() as u64, self.config.max_message);
        if len > limit {
            return Err(MulticastError::TooLong { len, limit });
        }
        let newest = self
            .newest()
            .filter(|list| list.place(self.number).is_some());
        let version = newest.ok_or(MulticastError::NotMember)?.version;
        if self.is_full() {
            return Err(MulticastError::Full(self.config.window));
        }
        let message = self.next_message;
        self.next_message += 1;
        let id = MessageId {
            root: self.number,
            message,
        };
        let mut rest = &data[..];
        for place in 0..self.config.segments(len) {
            let (bytes, behind) = rest.split_at(rest.len().min(self.config.segment_bytes()));
            rest = behind;
            let body = Body::Segment {
                place: place as u32,
                bytes,
            };
            let packet = Packet {
                id,
                version,
                len,
                body,
            };
            self.effects.push_back(Effect::Multicast(packet.emit()));
        }
        let state = Message::new(version, len, Content::Whole(data));
        self.messages.insert(id, state);
        self.refresh(now, id);
        Ok(message)
    }

    /// Number of messages that this node holds and that may not be complete at all members.
    pub fn in_flight(&self) -> usize {
        self.messages.len()
    }

    /// Whether this node's own messages in flight fill its window, so that the next one must wait.
    pub fn is_full(&self) -> bool {
        let own = self.messages_of(self.number);
        own.count() >= self.config.window.max(1) as usize
    }

    fn messages_of(&self, root: u32) -> impl Iterator<Item = &Message> {
        let id = |message| MessageId { root, message };
        let own = self.messages.range(id(0)..=id(u32::MAX));
        own.map(|(_, message)| message)
    }

    /// Handles a datagram of the group, sent by the member with number `from`.
    pub fn handle_datagram(&mut self, now: u64, from: u32, bytes: &[u8]) -> Result<(), WireError> {
        let packet = Packet::parse(bytes)?;
        if packet.id.root != from {
            return Err(WireError::bad_field(
                Header::BinomialAck,
                "root",
                packet.id.root,
            ));
        }
        let Body::Segment { place, bytes } = packet.body else {
            return Err(WireError::bad_field(
                Header::BinomialAck,
                "kind of a datagram",
                1,
            ));
        };
        if !self.is_wanted(&packet) {
            return Ok(());
        }
        let at = u64::from(place) * self.config.segment_bytes() as u64;
        let expected = packet
            .len
            .saturating_sub(at)
            .min(self.config.segment_bytes() as u64);
        if u64::from(place) >= self.config.segments(packet.len) || bytes.len() as u64 != expected {
            return Err(WireError::bad_field(Header::BinomialAck, "place", place));
        }
        let message = self.message(&packet)?;
        if let Content::Parts {
            bytes: all,
            missing,
        } = &mut message.content
        {
            if missing.remove(&place) {
                let at = at as usize;
                all[at..at + bytes.len()].copy_from_slice(bytes);
            }
            if missing.is_empty() {
                message.content = Content::Whole(std::mem::take(all).into());
            }
        }
        self.refresh(now, packet.id);
        Ok(())
    }

    /// Handles a packet from the connection of a member.
    pub fn handle_packet(&mut self, now: u64, from: u32, bytes: &[u8]) -> Result<(), WireError> {
        let packet = Packet::parse(bytes)?;
        self.counts.acks += u64::from(packet.body == Body::Ack);
        if packet.body == Body::Ack && self.is_finished(packet.id) {
            let release = Packet {
                body: Body::Release,
                ..packet
            };
            let packet = release.emit();
            self.effects.push_back(Effect::Send { to: from, packet });
            return Ok(());
        }
        if !self.is_wanted(&packet) {
            return Ok(());
        }
        match packet.body {
            Body::Segment { .. } => {
                return Err(WireError::bad_field(
                    Header::BinomialAck,
                    "kind on a connection",
                    0,
                ));
            }
            Body::Content { bytes } => {
                let message = self.message(&packet)?;
                if !message.is_whole() {
                    message.content = Content::Whole(bytes.into());
                }
            }
            Body::Ack => {
                self.message(&packet)?.acked.insert(from);
            }
            Body::Request => self.send_content(packet.id, from),
            Body::Release => {
                if self.messages.get(&packet.id).is_some_and(Message::is_whole) {
                    self.release(packet.id);
                }
                return Ok(());
            }
        }
        self.refresh(now, packet.id);
        Ok(())
    }

    /// Handles expired timers: repairs messages at children that have not acknowledged them, and repeats requests.
    pub fn handle_timeout(&mut self, now: u64) {
        for id in self.messages.keys().copied().collect::<Vec<_>>() {
            let Some(message) = self.messages.get_mut(&id) else {
                continue;
            };
            let due = message.waits.iter().filter(|(_, wait)| wait.at <= now);
            let due: Vec<u32> = due.map(|(child, _)| *child).collect();
            for child in due {
                let base = self.base_wait(id, child);
                let Some(wait) = self
                    .messages
                    .get_mut(&id)
                    .and_then(|m| m.waits.get_mut(&child))
                else {
                    continue;
                };
                wait.restart(now, base);
                if wait.tries % self.config.attempts.max(1) == 0 {
                    self.effects.push_back(Effect::Silent { member: child });
                }
                self.send_content(id, child);
            }
            let completion_time = self.completion_time(id);
            if let Some((parent, wait)) =
                self.messages.get_mut(&id).and_then(|m| m.acked_to.as_mut())
            {
                if wait.at <= now {
                    wait.restart(now, completion_time);
                    let parent = *parent;
                    self.send(id, parent, Body::Ack);
                }
            }
            self.report_parent(now, id);
            let is_due = |wait: &Wait| wait.at <= now;
            let message = self.messages.get(&id);
            if message.is_some_and(|m| m.request.as_ref().is_some_and(is_due)) {
                self.request(now, id);
            }
        }
    }

    /// Counters of acknowledgements and repairs at this node.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Numbers of the members in the newest list of members.
    pub fn newest_members(&self) -> BTreeSet<u32> {
        let members = self.newest().into_iter().flat_map(|list| &list.members);
        members.map(|member| member.number).collect()
    }

    /// Numbers of the parent and the children of this node in the acknowledgement tree of `root`, by the newest list of
    /// members.
    pub fn tree_neighbours(&self, root: u32) -> Vec<u32> {
        let places = self
            .newest()
            .and_then(|list| Some((list, list.place(self.number)?, list.place(root)?)));
        let Some((list, own, root)) = places else {
            return Vec::new();
        };
        let tree = AckTree::new(list.members.len() as u32, root);
        let places = tree.parent(own).into_iter().chain(tree.children(own));
        places.map(|place| list.number(place)).collect()
    }

    /// Version of the newest list of members; `None` before the first list.
    pub fn version(&self) -> Option<u32> {
        self.newest().map(|list| list.version)
    }

    fn newest(&self) -> Option<&Membership> {
        self.lists.last_key_value().map(|(_, list)| list)
    }

    fn is_alive(&self, number: u32) -> bool {
        self.newest()
            .is_some_and(|list| list.place(number).is_some())
    }

    fn is_finished(&self, id: MessageId) -> bool {
        let of_root = self.finished.get(&id.root);
        of_root.is_some_and(|finished| finished.holds(id.message))
    }

    /// Whether a packet is about a message that this node accepts: it is not too long, may not be complete at all
    /// members, and has buffer space.
    fn is_wanted(&self, packet: &Packet<'_>) -> bool {
        packet.len <= self.config.max_message
            && !self.is_finished(packet.id)
            && (self.messages.contains_key(&packet.id) || self.has_space(packet.id.root))
    }

    /// Whether the buffers have space for another message of member `root`.
    ///
    /// A root has at most a window of messages that are incomplete here. Messages that are complete here wait for their
    /// release, which may be late. A message without space is repaired later, like a lost one.
    fn has_space(&self, root: u32) -> bool {
        // A node has all its own messages that are in flight.
        if root == self.number {
            return false;
        }
        let window = self.config.window.max(1) as usize;
        let (mut all, mut parts) = (0, 0);
        for message in self.messages_of(root) {
            all += 1;
            parts += usize::from(!message.is_whole());
        }
        parts < window && all < KEPT_WINDOWS * window
    }

    /// State of a message, created if there is none. Fails if the packet contradicts an earlier one.
    fn message(&mut self, packet: &Packet<'_>) -> Result<&mut Message, WireError> {
        let (version, len) = (packet.version, packet.len);
        let segments = self.config.segments(len);
        let message = self.messages.entry(packet.id).or_insert_with(|| {
            let parts = Content::Parts {
                bytes: vec![0; len as usize],
                missing: (0..segments as u32).collect(),
            };
            Message::new(version, len, parts)
        });
        match message.version == version && message.len == len {
            true => Ok(message),
            false => Err(WireError::bad_field(
                Header::BinomialAck,
                "version",
                version,
            )),
        }
    }

    /// Advances a message: delivers, acknowledges, requests or releases it, as its state requires.
    fn refresh(&mut self, now: u64, id: MessageId) {
        let Some(message) = self.messages.get(&id) else {
            return;
        };
        // The sender used a list of members that has not arrived here yet.
        let Some(list) = self.lists.get(&message.version) else {
            return;
        };
        let is_addressed = list.place(self.number).is_some() && list.place(id.root).is_some();
        if !is_addressed || !self.is_alive(id.root) || !self.is_alive(self.number) {
            return self.finish(id);
        }
        if !message.is_whole() {
            if message.request.is_none() && !message.acked.is_empty() {
                self.request(now, id);
            }
            let at = now + self.completion_time(id);
            if let Some(message) = self.messages.get_mut(&id) {
                message.overdue.get_or_insert(Wait { at, tries: 0 });
            }
            return;
        }
        let (parent, children) = self.neighbours(id);
        let waits: Vec<(u32, u64)> = children
            .iter()
            .map(|child| (*child, self.base_wait(id, *child)))
            .collect();
        let completion_time = self.completion_time(id);
        let Some(message) = self.messages.get_mut(&id) else {
            return;
        };
        (message.request, message.overdue) = (None, None);
        if let (Content::Whole(data), false) = (&message.content, message.is_delivered) {
            message.is_delivered = true;
            if id.root != self.number {
                let data = Arc::clone(data);
                self.effects.push_back(Effect::Delivered { id, data });
            }
        }
        let acked = &message.acked;
        message
            .waits
            .retain(|child, _| children.contains(child) && !acked.contains(child));
        for (child, base) in waits {
            if !acked.contains(&child) {
                let fresh = Wait {
                    at: now + base,
                    tries: 0,
                };
                message.waits.entry(child).or_insert(fresh);
            }
        }
        if !message.waits.is_empty() {
            return;
        }
        match parent {
            Some(parent)
                if message
                    .acked_to
                    .is_some_and(|(acked_to, _)| acked_to == parent) => {}
            Some(parent) => {
                let at = now + completion_time;
                message.acked_to = Some((parent, Wait { at, tries: 0 }));
                self.send(id, parent, Body::Ack);
            }
            None => {
                let message = id.message;
                self.effects.push_back(Effect::Completed { message });
                self.release(id);
            }
        }
    }

    /// Parent and children of this node in the message's tree, by the list of the message's version; no parent at the
    /// root. A member that is not in the newest list is skipped: its parent adopts its children.
    fn neighbours(&self, id: MessageId) -> (Option<u32>, Vec<u32>) {
        let found = self.messages.get(&id).and_then(|message| {
            let list = self.lists.get(&message.version)?;
            Some((list, list.place(self.number)?, list.place(id.root)?))
        });
        let Some((list, own, root)) = found else {
            return (None, Vec::new());
        };
        let tree = AckTree::new(list.members.len() as u32, root);
        let mut parent = tree.parent(own);
        while let Some(place) = parent.filter(|place| !self.is_alive(list.number(*place))) {
            parent = tree.parent(place);
        }
        let mut children = Vec::new();
        let mut todo: Vec<u32> = tree.children(own).collect();
        while let Some(place) = todo.pop() {
            match self.is_alive(list.number(place)) {
                true => children.push(list.number(place)),
                false => todo.extend(tree.children(place)),
            }
        }
        (parent.map(|place| list.number(place)), children)
    }

    /// Time in nanoseconds to wait for the acknowledgement of a child: one cycle for the child and for each level below
    /// it, and the time of the message's segments.
    fn base_wait(&self, id: MessageId, child: u32) -> u64 {
        let Some(message) = self.messages.get(&id) else {
            return self.config.cycle_timeout;
        };
        let cycle = self.lists.get(&message.version).and_then(|list| {
            let tree = AckTree::new(list.members.len() as u32, list.place(id.root)?);
            Some(tree.cycle(list.place(child)?))
        });
        u64::from(cycle.unwrap_or(1)) * self.config.cycle_timeout
            + self.config.segments(message.len) * self.config.segment_time
    }

    /// Time in nanoseconds in which all members should get the message: four times the waiting time for the whole tree.
    fn completion_time(&self, id: MessageId) -> u64 {
        4 * self.base_wait(id, id.root)
    }

    /// Reports the parent in a message's tree as silent, if it should have repaired the message by now.
    fn report_parent(&mut self, now: u64, id: MessageId) {
        let completion_time = self.completion_time(id);
        let overdue = self.messages.get_mut(&id).and_then(|m| m.overdue.as_mut());
        let Some(wait) = overdue.filter(|wait| wait.at <= now) else {
            return;
        };
        wait.restart(now, completion_time);
        let (parent, _) = self.neighbours(id);
        let silent = parent.map(|member| Effect::Silent { member });
        self.effects.extend(silent);
    }

    /// Requests the message from a child that has acknowledged it. Each call uses the next of these children.
    fn request(&mut self, now: u64, id: MessageId) {
        let Some(message) = self.messages.get(&id) else {
            return;
        };
        let mut wait = message.request.unwrap_or(Wait { at: now, tries: 0 });
        let alive: Vec<u32> = message
            .acked
            .iter()
            .copied()
            .filter(|n| self.is_alive(*n))
            .collect();
        let child = alive.get(wait.tries as usize % alive.len().max(1)).copied();
        if let Some(child) = child {
            wait.restart(now, self.base_wait(id, child));
        }
        if let Some(message) = self.messages.get_mut(&id) {
            // If all children that had the message have left, the next child that acknowledges it gets the request.
            message.request = child.map(|_| wait);
        }
        if let Some(child) = child {
            self.send(id, child, Body::Request);
        }
    }

    fn send_content(&mut self, id: MessageId, to: u32) {
        if let Some(Content::Whole(data)) = self.messages.get(&id).map(|m| &m.content) {
            let data = Arc::clone(data);
            let bytes = HEADER_LEN + data.len();
            self.counts.repair_packets += bytes.div_ceil(self.config.mtu.bytes()) as u64;
            self.send(id, to, Body::Content { bytes: &data });
        }
    }

    /// Releases a message that all members have: sends the notice to the children and removes the message.
    fn release(&mut self, id: MessageId) {
        let (_, children) = self.neighbours(id);
        for child in children {
            self.send(id, child, Body::Release);
        }
        self.finish(id);
    }

    fn finish(&mut self, id: MessageId) {
        self.messages.remove(&id);
        self.finished.entry(id.root).or_default().add(id.message);
    }

    fn send(&mut self, id: MessageId, to: u32, body: Body<'_>) {
        if let Some(message) = self.messages.get(&id) {
            let packet = Packet {
                id,
                version: message.version,
                len: message.len,
                body,
            };
            let packet = packet.emit();
            self.effects.push_back(Effect::Send { to, packet });
        }
    }
}

impl Message {
    fn new(version: u32, len: u64, content: Content) -> Message {
        Message {
            version,
            len,
            content,
            is_delivered: false,
            acked: BTreeSet::new(),
            acked_to: None,
            waits: BTreeMap::new(),
            request: None,
            overdue: None,
        }
    }

    fn is_whole(&self) -> bool {
        matches!(self.content, Content::Whole(_))
    }
}

impl Wait {
    fn restart(&mut self, now: u64, base: u64) {
        self.tries += 1;
        self.at = now + (base << self.tries.min(MAX_DOUBLINGS));
    }
}

impl FinishedMessages {
    fn holds(&self, message: u32) -> bool {
        (self.first..self.next).contains(&message) || self.others.contains(&message)
    }

    fn add(&mut self, message: u32) {
        if self.first == self.next {
            (self.first, self.next) = (message, message);
        }
        self.others.insert(message);
        while self.others.remove(&self.next) {
            self.next += 1;
        }
        while self.first > 0 && self.others.remove(&(self.first - 1)) {
            self.first -= 1;
        }
    }
}
