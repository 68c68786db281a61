//! Groups for programs: join one, and bytes of one member's buffer come to the same place of all others' buffers.
//!
//! ```text
//!  leader                              other members
//!    │ ◀───────── Hello ───────────────── │   queue pair and buffer of each, over TCP
//!    │ ────────── Welcome ──────────────▶ │   the whole group
//!    │ ◀───────── Ready ───────────────── │   queue pairs are connected to the group's address
//!    │ ═══ registration in band (MRP) ═══ │
//!    │ ────────── Go ───────────────────▶ │   multicast, or the way in its place
//! ```
//!
//! Calls wait: [`Group::broadcast`] and [`Group::write`] are made by every member alike, in the same order, and each returns
//! when this member's part is done: at the source, when every member has the bytes; elsewhere, when this member has them.
//! The source may be another with each call. Between two sources all members wait for each other, over TCP.
//!
//! Without a fabric that multicasts (or when it refuses), the same calls go along a chain of members or from the source to each.

mod lent;
mod link;
mod overlay;
mod wait;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use alfirk_roce::collective::RemoteMemory;
use alfirk_roce::rc::{
    Completion, MemoryError, MemoryKey, MemorySlice, ModifyError, Operation, Payload, PostError,
    QpFailure, RecvRequest, Remote, SendOperation, SendRequest,
};
use alfirk_roce::registration::{
    ExpectedGroup, GroupSpec, LeaderEvent, LeaderTiming, Patience, Registrar,
};
use alfirk_roce::verbs::Verbs;
use alfirk_roce::wire::mrp::Node;
use alfirk_roce::wire::{mr_info, Psn, QpNum};
use serde::{Deserialize, Serialize};

use crate::device::{random, Device, DeviceConfig, OpenError};
pub use lent::Lent;
use link::{Card, Epoch, Link, Message};

/// The leader's rank.
const LEADER: u32 = 0;

/// How the bytes reach the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// The source sends once, and switches replicate.
    Multicast,
    /// Each member passes 64 KiB at a time on to the next.
    Chain,
    /// The source sends to each member.
    Unicast,
}

/// A group to join. All members must agree in everything but the device.
#[derive(Debug, Clone)]
pub struct GroupConfig {
    /// The RDMA device, as `ibv_devices` lists it.
    pub device: String,
    /// The address that stands for the group: one of the fabric's range for groups that no other group has.
    pub address: Ipv4Addr,
    /// The address of the member that leads: it registers the group, and is rank 0.
    pub leader: Ipv4Addr,
    /// The leader's TCP port.
    pub port: u16,
    /// How many members there are, the leader included; at least 2.
    pub members: u32,
    /// Bytes of each member's buffer.
    pub buffer: u64,
    /// How long any call may take.
    pub timeout: Duration,
    /// What to do without multicast: [`Way::Chain`], [`Way::Unicast`], or to fail ([`Way::Multicast`]).
    pub fallback: Way,
}

/// Why a call has failed. The group is of no more use, except after [`GroupError::Argument`].
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    #[error(transparent)]
    Device(#[from] OpenError),
    /// The caller's mistake; nothing was done.
    #[error("{0}")]
    Argument(String),
    /// The connection to the leader or a member.
    #[error("{what}: {error}")]
    Connection { what: String, error: io::Error },
    #[error("{0} took too long")]
    Timeout(&'static str),
    /// The fabric does not multicast, and there is to be no other way.
    #[error("the group is not registered: {0}")]
    NotRegistered(String),
    /// The device or the other side has refused.
    #[error("{0}")]
    Verbs(String),
    /// This member is not in the group any more.
    #[error("the group is over: {0}")]
    Over(String),
}

impl From<ModifyError> for GroupError {
    fn from(error: ModifyError) -> GroupError {
        GroupError::Verbs(error.to_string())
    }
}

impl From<PostError> for GroupError {
    fn from(error: PostError) -> GroupError {
        GroupError::Verbs(error.to_string())
    }
}

impl From<MemoryError> for GroupError {
    fn from(error: MemoryError) -> GroupError {
        GroupError::Verbs(error.to_string())
    }
}

impl From<QpFailure> for GroupError {
    fn from(failure: QpFailure) -> GroupError {
        GroupError::Verbs(failure.to_string())
    }
}

type Result<T> = std::result::Result<T, GroupError>;

/// A member of a group. Dropped without [`Group::leave`], it is taken out of the group when the leader notices.
pub struct Group {
    device: Device,
    config: GroupConfig,
    rank: u32,
    cards: Vec<Card>,
    alive: BTreeSet<u32>,
    way: Way,
    /// To the leader; at the leader, to each other member by rank.
    links: BTreeMap<u32, Link>,
    /// Messages of members that the leader has not dealt with yet.
    mail: VecDeque<(u32, Message)>,
    registrar: Registrar,
    /// When the queue pair gives up.
    patience: Patience,
    news: VecDeque<LeaderEvent>,
    memory: MemoryKey,
    qpn: QpNum,
    /// Who sends at present.
    source: u32,
    /// Whether, as the source, this member has announced the others' buffers to the switches.
    told: bool,
    /// Connections to single members, without multicast.
    mesh: BTreeMap<u32, QpNum>,
    inbox: VecDeque<Completion>,
    failures: Vec<(QpNum, QpFailure)>,
    /// What was posted and not waited for.
    posted: u32,
    /// Whether members may be away for as long as they like.
    patient: bool,
    started: Instant,
    next_stall: Instant,
}

impl Group {
    /// Joins a group, which begins when all its members have.
    pub fn join(config: GroupConfig) -> Result<Group> {
        Group::join_by(config, None)
    }

    /// The same for the leader, with a TCP socket that listens at `config.port` of its address already: so a port can be one that the
    /// system has chosen.
    pub fn lead_at(config: GroupConfig, listener: TcpListener) -> Result<Group> {
        Group::join_by(config, Some(listener))
    }

    fn join_by(config: GroupConfig, listener: Option<TcpListener>) -> Result<Group> {
        if config.members < 2 {
            return Err(GroupError::Argument(
                "a group has at least 2 members".to_owned(),
            ));
        }
        let mut device = Device::open(DeviceConfig::new(&config.device))?;
        let rc = device.default_rc();
        let memory = device.register_memory(config.buffer, true)?;
        let qpn = device.create_qp(rc)?;
        let (va, rkey) = device.locate(memory)?;
        let len = config.buffer;
        let card = Card {
            ip: device.ip(),
            qpn,
            memory: RemoteMemory { va, rkey, len },
        };
        let now = Instant::now();
        let mut group = Group {
            rank: LEADER,
            cards: vec![card],
            alive: (0..config.members).collect(),
            way: Way::Multicast,
            links: BTreeMap::new(),
            mail: VecDeque::new(),
            registrar: Registrar::default(),
            patience: Patience::of_card(&rc),
            news: VecDeque::new(),
            memory,
            qpn,
            source: LEADER,
            told: false,
            mesh: BTreeMap::new(),
            inbox: VecDeque::new(),
            failures: Vec::new(),
            posted: 0,
            patient: false,
            started: now,
            next_stall: now,
            device,
            config,
        };
        let deadline = group.deadline();
        match group.device.ip() == group.config.leader {
            true => group.lead(listener, deadline)?,
            false => group.follow(card, deadline)?,
        }
        Ok(group)
    }

    /// This member's rank; the leader has 0, and the others go by their addresses.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Who has sent last; the leader at first.
    pub fn source(&self) -> u32 {
        self.source
    }

    /// The ranks that are in the group, as far as this member knows: of others that left it learns when the source changes.
    pub fn members(&self) -> impl Iterator<Item = u32> + '_ {
        self.alive.iter().copied()
    }

    /// How the bytes reach the members.
    pub fn way(&self) -> Way {
        self.way
    }

    /// The buffer.
    pub fn buffer(&self) -> &[u8] {
        self.device
            .memory(self.memory)
            .expect("the buffer is registered as long as the group lives")
    }

    /// Where the buffer is; a multiple of a power of two that is at least its length.
    pub fn buffer_address(&self) -> u64 {
        self.cards[self.rank as usize].memory.va
    }

    /// Puts bytes into the buffer.
    pub fn fill(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        Ok(self.device.write_memory(self.memory, offset, bytes)?)
    }

    /// SENDs a part of the source's buffer to the same place of all others'. To be called by every member with the same arguments.
    pub fn broadcast(&mut self, source: u32, offset: u64, len: u64) -> Result<()> {
        self.post(source, self.in_buffer(offset, len)?, Kind::Send)?;
        self.wait()
    }

    /// WRITEs a part of the source's buffer to the same place of all others', with an immediate that notifies them. To be called by
    /// every member with the same arguments.
    ///
    /// The first WRITE of a source takes two round trips more, in which each buffer is announced to the switches.
    pub fn write(&mut self, source: u32, offset: u64, len: u64) -> Result<()> {
        self.post(source, self.in_buffer(offset, len)?, Kind::Write)?;
        self.wait()
    }

    /// Begins a [`Group::broadcast`] without waiting for its end, so that many messages can be under way. Parts of the buffer that are
    /// under way must be left alone until [`Group::wait`]. Without multicast this waits.
    pub fn post_broadcast(&mut self, source: u32, offset: u64, len: u64) -> Result<()> {
        self.post(source, self.in_buffer(offset, len)?, Kind::Send)
    }

    /// Makes another member the source, before it sends: all members wait for each other. To be called by every member.
    pub fn change_source(&mut self, source: u32) -> Result<()> {
        if !self.alive.contains(&source) {
            let text = format!("rank {source} is not in the group");
            return Err(GroupError::Argument(text));
        }
        if self.way == Way::Multicast && source != self.source {
            self.wait()?;
            self.switch_source(source, self.deadline())?;
        }
        Ok(())
    }

    /// Waits until everything posted is done.
    pub fn wait(&mut self) -> Result<()> {
        let deadline = self.deadline();
        while self.posted > 0 {
            self.wait_for_next(deadline)?;
        }
        Ok(())
    }

    fn wait_for_next(&mut self, deadline: Instant) -> Result<()> {
        let done = self.completion(self.qpn, deadline, "a message")?;
        // What announces buffers to the switches was waited for when it was posted.
        debug_assert_ne!(done.wr_id, TELL);
        self.posted -= 1;
        Ok(())
    }

    /// A sign, a message without bytes, from [`Group::source`] to all others, to be called by every member. It may take as long as the
    /// slowest member takes to call it: at the source it returns when all have, elsewhere when the sign is here. So two signs are a
    /// barrier: of the first one the source learns that all have begun, of the second one the others do.
    ///
    /// False if `is_over`, asked every millisecond, has said that there is no use in waiting any more; the group is of no more use then,
    /// nor after an error. What else the caller must do while it waits, for others to come, has its place in `is_over`, too.
    pub fn sign(&mut self, mut is_over: impl FnMut() -> bool) -> Result<bool> {
        self.wait()?;
        if self.way != Way::Multicast {
            self.meet(self.deadline())?;
            return Ok(true);
        }
        self.post(self.source, self.in_buffer(0, 0)?, Kind::Send)?;
        // Who has not called it is not dead.
        self.patient = true;
        let mut done = self.completed(self.qpn)?;
        while done.is_none() {
            if is_over() {
                return Ok(false);
            }
            self.pump_for(wait::MOMENT, self.deadline(), "a sign")?;
            done = self.completed(self.qpn)?;
        }
        self.patient = false;
        self.posted -= 1;
        Ok(true)
    }

    /// Does what is due, and waits for nothing: to be called at times by who makes no other calls for long, so that the leader can answer
    /// a fabric that asks whether the group is in use.
    pub fn tend(&mut self) {
        self.handle_ready();
    }

    /// Leaves the group. The others go on. The leader waits until all others have left, as long as a call may take, and then ends
    /// the group.
    pub fn leave(mut self) -> Result<()> {
        let deadline = self.deadline();
        if self.rank != LEADER {
            self.tell(LEADER, &Message::Leave)?;
            loop {
                match self.mail_from(LEADER, deadline, "leaving the group") {
                    Ok(Message::Bye) => return Ok(()),
                    // The leader has gone already.
                    Err(GroupError::Over(_)) => return Ok(()),
                    Err(error) => return Err(error),
                    Ok(_) => {}
                }
            }
        }
        // Who is a source may still need others, and answers of the fabric, to come to its end.
        while self.alive.len() > 1 && Instant::now() < deadline {
            self.pump(deadline, "leaving the group")?;
        }
        let deadline = self.deadline();
        if self.way == Way::Multicast {
            let now = self.now();
            if let Some(leader) = self.registrar.leader() {
                leader.deregister(&mut self.device, now);
            }
            self.until_news(deadline, "ending the group", |news| {
                matches!(news, LeaderEvent::Deregistered)
            })?;
        }
        for rank in self.others() {
            // Who has gone needs no farewell.
            let _ = self.tell(rank, &Message::Bye);
        }
        Ok(())
    }

    // ---- Beginning ----

    fn lead(&mut self, listener: Option<TcpListener>, deadline: Instant) -> Result<()> {
        let own = self.cards[0];
        let address = SocketAddrV4::new(own.ip, self.config.port);
        let failed = |error| GroupError::Connection {
            what: format!("listening at {address}"),
            error,
        };
        let listener = match listener {
            Some(listener) => listener,
            None => TcpListener::bind(address).map_err(failed)?,
        };
        listener.set_nonblocking(true).map_err(failed)?;
        let mut joined: BTreeMap<Ipv4Addr, (Card, Link)> = BTreeMap::new();
        let mut strangers: Vec<Link> = Vec::new();
        while joined.len() + 1 < self.config.members as usize {
            while let Ok((stream, _)) = listener.accept() {
                let link = stream
                    .set_nonblocking(false)
                    .and_then(|()| Link::new(stream));
                strangers.extend(link);
            }
            let mut waiting = Vec::new();
            for mut link in strangers {
                match link.receive() {
                    Ok(Some(Message::Hello { card })) => {
                        joined.insert(card.ip, (card, link));
                    }
                    Ok(None) => waiting.push(link),
                    // Who says anything else is no member.
                    Ok(Some(_)) | Err(_) => {}
                }
            }
            strangers = waiting;
            self.check_time(deadline, "waiting for the members")?;
            let fds = strangers.iter().map(std::os::fd::AsFd::as_fd);
            wait::readable(
                fds.chain([std::os::fd::AsFd::as_fd(&listener)]),
                wait::NAP,
                deadline,
            );
        }
        for (card, link) in joined.into_values() {
            self.links.insert(self.cards.len() as u32, link);
            self.cards.push(card);
        }
        let random = random();
        let epoch = Epoch {
            virtual_qpn: QpNum::ordinary(random as u32),
            initial_psn: Psn::new((random >> 32) as u32),
        };
        for rank in self.others() {
            self.tell(
                rank,
                &Message::Welcome {
                    rank,
                    members: self.cards.clone(),
                    epoch,
                },
            )?;
        }
        let own_error = self.connect(epoch).err().map(|e| e.to_string());
        let error = self.gather(deadline, "connecting to the group")?;
        let registered = match own_error.or(error) {
            Some(why) => Err(why),
            None => self.register(epoch, deadline)?,
        };
        if let Err(why) = registered {
            tracing::warn!("no multicast: {why}");
            self.way = self.config.fallback;
            if self.way == Way::Multicast {
                for rank in self.others() {
                    let _ = self.tell(rank, &Message::Bye);
                }
                return Err(GroupError::NotRegistered(why));
            }
        }
        self.go()?;
        if self.way != Way::Multicast {
            self.make_mesh(deadline)?;
        }
        Ok(())
    }

    fn follow(&mut self, card: Card, deadline: Instant) -> Result<()> {
        let address = SocketAddrV4::new(self.config.leader, self.config.port);
        let stream = loop {
            match TcpStream::connect_timeout(&address.into(), Duration::from_secs(1)) {
                Ok(stream) => break stream,
                // It may come later than we do.
                Err(error) if Instant::now() > deadline => {
                    let what = format!("connecting to the leader at {address}");
                    return Err(GroupError::Connection { what, error });
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        };
        let link = Link::new(stream).map_err(|error| GroupError::Connection {
            what: "the leader".to_owned(),
            error,
        })?;
        self.links.insert(LEADER, link);
        self.tell(LEADER, &Message::Hello { card })?;
        let Message::Welcome {
            rank,
            members,
            epoch,
        } = self.mail_from(LEADER, deadline, "waiting for the leader")?
        else {
            return Err(over("the leader does not speak our language"));
        };
        if members.get(rank as usize) != Some(&card) {
            return Err(over("the leader takes us for somebody else"));
        }
        if let Some(other) = members.iter().find(|m| m.memory.len != card.memory.len) {
            return Err(GroupError::Argument(format!(
                "member {} has a buffer of {} bytes, and we one of {}",
                other.ip, other.memory.len, card.memory.len
            )));
        }
        (self.rank, self.cards) = (rank, members);
        let group = ExpectedGroup {
            mcst_id: self.config.address,
            virtual_qpn: epoch.virtual_qpn,
            leader: self.cards[0].ip,
        };
        self.registrar.expect(&mut self.device, self.qpn, group);
        let error = self.connect(epoch).err().map(|e| e.to_string());
        self.tell(LEADER, &Message::Ready { error })?;
        self.until_go(deadline)?;
        if self.way != Way::Multicast {
            self.make_mesh(deadline)?;
        }
        Ok(())
    }

    /// Connects the queue pair to the group's address.
    fn connect(&mut self, epoch: Epoch) -> Result<()> {
        self.device.set_sq_psn(self.qpn, epoch.initial_psn)?;
        let remote = Remote {
            ip: self.config.address,
            qpn: epoch.virtual_qpn,
        };
        let now = self.now();
        self.device
            .connect_qp(now, self.qpn, remote, epoch.initial_psn)?;
        self.take_events();
        self.check_failures(self.qpn)
    }

    /// Registers the group in band; the inner error says why the fabric would not.
    fn register(
        &mut self,
        epoch: Epoch,
        deadline: Instant,
    ) -> Result<std::result::Result<(), String>> {
        let node = |card: &Card| Node {
            ip: card.ip,
            qpn: card.qpn,
            flags: 0,
            region: None,
        };
        let nodes: Vec<Node> = self.cards[1..].iter().map(node).collect();
        let spec = GroupSpec {
            mcst_id: self.config.address,
            virtual_qpn: epoch.virtual_qpn,
            initial_psn: epoch.initial_psn,
            leader: node(&self.cards[0]),
            members: nodes.iter().map(|n| n.ip).collect(),
            patience: self.patience,
        };
        let (now, timing) = (self.now(), LeaderTiming::default());
        let led = self
            .registrar
            .lead(&mut self.device, now, spec, timing, &nodes);
        if let Err(error) = led {
            return Ok(Err(error.to_string()));
        }
        let news = self.until_news(deadline, "registering the group", |_| true)?;
        Ok(match news {
            LeaderEvent::Registered => Ok(()),
            LeaderEvent::Refused { reason } => Err(reason.to_string()),
            LeaderEvent::GaveUp { missing } => {
                let names: Vec<String> = missing.iter().map(Ipv4Addr::to_string).collect();
                Err(format!("no confirmation from {}", names.join(", ")))
            }
            other => Err(format!("unexpected answer {other:?}")),
        })
    }

    // ---- Messages ----

    /// A part of the buffer.
    fn in_buffer(&self, offset: u64, len: u64) -> Result<MemorySlice> {
        let (key, size) = (self.memory, self.config.buffer);
        match offset.checked_add(len) {
            Some(end) if end <= size => Ok(MemorySlice { key, offset, len }),
            _ => Err(GroupError::Argument(format!(
                "{len} bytes at {offset} are beyond the buffer of {size}"
            ))),
        }
    }

    fn post(&mut self, source: u32, part: MemorySlice, kind: Kind) -> Result<()> {
        if !self.alive.contains(&source) {
            let text = format!("rank {source} is not in the group");
            return Err(GroupError::Argument(text));
        }
        let deadline = self.deadline();
        if self.way != Way::Multicast {
            self.meet(deadline)?;
            return self.pass_on(source, part, deadline);
        }
        if source != self.source {
            self.wait()?;
            self.switch_source(source, deadline)?;
        }
        if source != self.rank {
            let nothing = MemorySlice { len: 0, ..part };
            let buffer = if kind == Kind::Send { part } else { nothing };
            self.device
                .post_recv(self.qpn, RecvRequest { wr_id: 0, buffer })?;
        } else {
            if kind == Kind::Write && !self.told {
                self.wait()?;
                self.tell_buffers(deadline)?;
            }
            let operation = match kind {
                Kind::Send => SendOperation::Send { immediate: None },
                // Inside the group every buffer begins at 0 and has the key 0.
                Kind::Write => SendOperation::Write {
                    remote_va: part.offset,
                    rkey: 0,
                    immediate: Some(part.len as u32),
                },
            };
            let payload = Payload::Memory(part);
            let wr_id = 0;
            self.device.post_send(
                self.qpn,
                SendRequest {
                    wr_id,
                    operation,
                    payload,
                },
            )?;
        }
        self.posted += 1;
        Ok(())
    }

    /// Every member has everything, since each call waits for that at its source.
    fn switch_source(&mut self, source: u32, deadline: Instant) -> Result<()> {
        if self.source == self.rank {
            self.device.expect_next_source(self.qpn)?;
        }
        self.meet(deadline)?;
        if source == self.rank {
            self.device.take_over_sending(self.qpn)?;
            self.told = false;
        }
        self.take_events();
        self.check_failures(self.qpn)?;
        self.source = source;
        Ok(())
    }

    /// Tells the switches, in the stream of the group, where each receiver's buffer is.
    fn tell_buffers(&mut self, deadline: Instant) -> Result<()> {
        let mut told = 0;
        for rank in self.others() {
            let card = self.cards[rank as usize];
            let to = (card.memory.va, card.memory.rkey);
            let info = mr_info::Repr::between((0, 0), to)
                .map_err(|error| GroupError::Verbs(error.to_string()))?;
            let mut bytes = [0; mr_info::PAYLOAD_LEN];
            info.emit(&mut bytes);
            let request = SendRequest {
                wr_id: TELL,
                operation: SendOperation::Write {
                    remote_va: u32::from(card.ip).into(),
                    rkey: mr_info::R_KEY,
                    immediate: None,
                },
                payload: Payload::Bytes(Arc::from(bytes)),
            };
            self.device.post_send(self.qpn, request)?;
            told += 1;
        }
        for _ in 0..told {
            self.completion(self.qpn, deadline, "telling the switches of buffers")?;
        }
        self.told = true;
        Ok(())
    }

    // ---- Helpers ----

    fn others(&self) -> Vec<u32> {
        let own = self.rank;
        self.alive.iter().copied().filter(|r| *r != own).collect()
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.config.timeout
    }

    /// Nanoseconds of the clock that the state machines get.
    fn now(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }
}

/// The number of work requests that announce buffers.
const TELL: u64 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Send,
    Write,
}

fn over(why: &str) -> GroupError {
    GroupError::Over(why.to_owned())
}

/// The bytes of a completion that must have gone well.
fn succeeded(done: Completion) -> Result<(Operation, u64)> {
    match done.outcome {
        Ok(completed) => Ok((done.operation, completed.bytes)),
        Err(error) => Err(GroupError::Verbs(format!(
            "queue pair {}: {error}",
            done.qpn
        ))),
    }
}
