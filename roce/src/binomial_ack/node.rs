//! A member of a group: multicasts, acknowledges, repairs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::membership::Membership;
use super::tree::AckTree;
use super::wire::{Body, MessageId, Packet, HEADER_LEN};
use crate::rc::PathMtu;
use crate::wire::{Header, WireError};

/// How many lists of members are kept for messages that were sent by older ones.
const KEPT_VERSIONS: usize = 64;
/// How many windows of messages of one root a node keeps that are whole, but not known to be over.
const KEPT_WINDOWS: usize = 4;
/// A wait doubles this often and no more.
const MOST_DOUBLINGS: u32 = 6;

/// Settings, the same at all members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The longest datagram.
    pub mtu: PathMtu,
    /// The longest message in bytes; longer ones are not taken in.
    pub max_message: u64,
    /// Nanoseconds that one level of the tree has for its acknowledgement.  Less repairs sooner what is lost, and repairs in vain
    /// what is only late.
    pub cycle_timeout: u64,
    /// Nanoseconds more for each segment of the message.
    pub segment_time: u64,
    /// Repairs of one child after which it is reported as silent.
    pub attempts: u32,
    /// How many messages a root may have under way that not everybody is known to have, at least 1.  Receivers hold so many of each
    /// root in the making, and no more.
    pub window: u32,
}

impl Config {
    /// Bytes of a message in one datagram.
    pub fn segment_bytes(&self) -> usize {
        self.mtu.bytes() - HEADER_LEN
    }

    /// Datagrams of a message.
    pub fn segments(&self, len: u64) -> u64 {
        // A message without bytes is a segment without bytes.
        len.div_ceil(self.segment_bytes() as u64).max(1)
    }
}

/// What a node has received and repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Acknowledgements that came.
    pub acks: u64,
    /// Packets of the path MTU that messages took which were sent to one node because it lacked them.
    pub repair_packets: u64,
}

/// Something to do or to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Send a datagram to the group.
    Multicast(Vec<u8>),
    /// Send a packet to this member over a reliable connection.
    Send { to: u32, packet: Vec<u8> },
    /// A message of another member is here, once.
    Delivered { id: MessageId, data: Arc<[u8]> },
    /// All members have this node's message: a broadcast may return.
    Completed { message: u32 },
    /// A member does not acknowledge though it was sent the message several times, or does not repair what is missing; if it is dead, the
    /// manager should take it out.
    Silent { member: u32 },
}

/// Why a message was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MulticastError {
    #[error("this node is in no list of members; join first")]
    NotMember,
    #[error(
        "a message of {len} bytes is longer than the group's limit of {limit}; send it in parts"
    )]
    TooLong { len: u64, limit: u64 },
    #[error("{0} messages are under way already; wait until one is complete")]
    Full(u32),
}

/// The state machine of one member.
pub struct Node {
    number: u32,
    config: Config,
    lists: BTreeMap<u32, Membership>,
    messages: BTreeMap<MessageId, Message>,
    /// What is over, by root.
    finished: BTreeMap<u32, Finished>,
    next_message: u32,
    effects: VecDeque<Effect>,
    counts: Counts,
}

/// A message that not everybody is known to have.
struct Message {
    version: u32,
    len: u64,
    content: Content,
    is_delivered: bool,
    /// Who has acknowledged it to us.
    acked: BTreeSet<u32>,
    /// The node that we have acknowledged it to, and when to do so again if we do not receive that all have it: what should have said so
    /// may have gone to a member that is no more.
    told: Option<(u32, Wait)>,
    /// Children that are to acknowledge; only while the message is whole.
    waits: BTreeMap<u32, Wait>,
    /// A child was asked for the message.
    request: Option<Wait>,
    /// When the parent should have repaired what is missing, if nobody else can be asked for it.
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

/// Numbers of messages, most of them in one run.
#[derive(Default)]
struct Finished {
    first: u32,
    next: u32,
    others: BTreeSet<u32>,
}

impl Node {
    /// A node with the number that the manager gave it.
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

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When to call [`Node::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<u64> {
        let of = |message: &Message| {
            let told = message.told.as_ref().map(|(_, wait)| wait);
            let asked = message.request.iter().chain(&message.overdue);
            let waits = message.waits.values().chain(asked).chain(told);
            waits.map(|wait| wait.at).min()
        };
        self.messages.values().filter_map(of).min()
    }

    /// Whether nobody may need this node any more: it may leave the group.
    pub fn is_idle(&self) -> bool {
        self.messages.is_empty()
    }

    /// Takes a list of members from the manager.
    pub fn handle_membership(&mut self, now: u64, list: Membership) {
        self.lists.insert(list.version, list);
        while self.lists.len() > KEPT_VERSIONS {
            self.lists.pop_first();
        }
        for id in self.messages.keys().copied().collect::<Vec<_>>() {
            self.refresh(now, id);
        }
    }

    /// Sends a message to all members of the newest list; [`Effect::Completed`] follows when they have it.
    ///
    /// Who waits for that before the next message, as `MPI_Bcast` does, has its messages delivered in order.
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

    /// How many messages not everybody is known to have, as far as this node knows of them.
    pub fn under_way(&self) -> usize {
        self.messages.len()
    }

    /// Whether so many of this node's own messages are under way that the next one must wait.
    pub fn is_full(&self) -> bool {
        let own = self.messages_of(self.number);
        own.count() >= self.config.window.max(1) as usize
    }

    fn messages_of(&self, root: u32) -> impl Iterator<Item = &Message> {
        let id = |message| MessageId { root, message };
        let own = self.messages.range(id(0)..=id(u32::MAX));
        own.map(|(_, message)| message)
    }

    /// Takes a datagram of the group, which the member with this number has sent.
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

    /// Takes a packet that came over the connection from a member.
    pub fn handle_packet(&mut self, now: u64, from: u32, bytes: &[u8]) -> Result<(), WireError> {
        let packet = Packet::parse(bytes)?;
        self.counts.acks += u64::from(packet.body == Body::Ack);
        if packet.body == Body::Ack && self.is_over(packet.id) {
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

    /// Does what is due: sends children the message that have not acknowledged, and asks again for what was asked for.
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
                wait.again(now, base);
                if wait.tries % self.config.attempts.max(1) == 0 {
                    self.effects.push_back(Effect::Silent { member: child });
                }
                self.send_content(id, child);
            }
            let patience = self.patience(id);
            if let Some((parent, wait)) = self.messages.get_mut(&id).and_then(|m| m.told.as_mut()) {
                if wait.at <= now {
                    wait.again(now, patience);
                    let parent = *parent;
                    self.send(id, parent, Body::Ack);
                }
            }
            self.complain(now, id);
            let is_due = |wait: &Wait| wait.at <= now;
            let message = self.messages.get(&id);
            if message.is_some_and(|m| m.request.as_ref().is_some_and(is_due)) {
                self.request(now, id);
            }
        }
    }

    /// What it has received and repaired by now.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The numbers of the members by the newest list.
    pub fn newest_members(&self) -> BTreeSet<u32> {
        let members = self.newest().into_iter().flat_map(|list| &list.members);
        members.map(|member| member.number).collect()
    }

    /// The numbers of those that have this node as a neighbour in the tree of a root, by the newest list: its parent and its children.
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

    /// The version of the newest list.
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

    fn is_over(&self, id: MessageId) -> bool {
        let of_root = self.finished.get(&id.root);
        of_root.is_some_and(|finished| finished.holds(id.message))
    }

    /// Whether a packet is about a message that is not over, and no stranger's.
    fn is_wanted(&self, packet: &Packet<'_>) -> bool {
        packet.len <= self.config.max_message
            && !self.is_over(packet.id)
            && (self.messages.contains_key(&packet.id) || self.has_room(packet.id.root))
    }

    /// Whether another message of a root may begin here.
    ///
    /// What is not whole here its root cannot know to be complete, so an honest one never has more of these under way than a window.
    /// Whole ones wait for word that everybody has them, which may be late.  What there is no room for is repaired like what was lost.
    fn has_room(&self, root: u32) -> bool {
        // Of its own messages a node knows all that are not over.
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

    /// The state of a message, begun if there is none; refused if a packet contradicts it.
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

    /// Does everything that follows from what is known of a message.
    fn refresh(&mut self, now: u64, id: MessageId) {
        let Some(message) = self.messages.get(&id) else {
            return;
        };
        // Whoever sent it knew a list that has not come here yet.
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
            let at = now + self.patience(id);
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
        let patience = self.patience(id);
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
            Some(parent) if message.told.is_some_and(|(told, _)| told == parent) => {}
            Some(parent) => {
                let at = now + patience;
                message.told = Some((parent, Wait { at, tries: 0 }));
                self.send(id, parent, Body::Ack);
            }
            None => {
                let message = id.message;
                self.effects.push_back(Effect::Completed { message });
                self.release(id);
            }
        }
    }

    /// The parent and the children by the message's own list.  Where one is no longer in the newest list, those below it are
    /// adopted by the one above it.
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

    /// How long a child has until it is thought to lack the message: a time for each level below it, and its own.
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

    /// How long after our acknowledgement all should have the message.
    fn patience(&self, id: MessageId) -> u64 {
        4 * self.base_wait(id, id.root)
    }

    /// Complains about the parent that has not repaired what is missing for long.
    fn complain(&mut self, now: u64, id: MessageId) {
        let patience = self.patience(id);
        let overdue = self.messages.get_mut(&id).and_then(|m| m.overdue.as_mut());
        let Some(wait) = overdue.filter(|wait| wait.at <= now) else {
            return;
        };
        wait.again(now, patience);
        let (parent, _) = self.neighbours(id);
        let silent = parent.map(|member| Effect::Silent { member });
        self.effects.extend(silent);
    }

    /// Asks a child that has the message for it; another one each time.
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
            wait.again(now, self.base_wait(id, child));
        }
        if let Some(message) = self.messages.get_mut(&id) {
            // If all that could be asked have left, the next one that acknowledges is asked.
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

    /// All have the message: those below get a notice, and it is forgotten.
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
            told: None,
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
    fn again(&mut self, now: u64, base: u64) {
        self.tries += 1;
        self.at = now + (base << self.tries.min(MOST_DOUBLINGS));
    }
}

impl Finished {
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
