//! Multicast groups for application programs: the bytes of one member's buffer are copied to the same place in all
//! other members' buffers.
//!
//! ```text
//!  leader                              other members
//!    │ ◀───────── Hello ───────────────── │   queue pair and buffer of each, over TCP
//!    │ ────────── Welcome ──────────────▶ │   the whole group
//!    │ ◀───────── Ready ───────────────── │   queue pairs are connected to the group's address
//!    │ ═══ registration in-band (MRP) ═══ │
//!    │ ────────── Go ───────────────────▶ │   multicast, or the fallback
//! ```
//!
//! Calls block. Every member makes the same calls of [`Group::broadcast`] and [`Group::write`] in the same order. At
//! the source, a call returns when every member has the bytes; elsewhere, when this member has them. The source may
//! change with each call; all members then synchronize over TCP.
//!
//! If the fabric does not multicast, or rejects the group, the same calls use a chain of members, or unicast from the
//! source.

mod lent;
mod link;
mod overlay;
mod peers;
mod wait;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use alfirk_roce::application::Application;
use alfirk_roce::collective::RemoteMemory;
use alfirk_roce::rc::{
    Completion, MemoryError, MemoryKey, MemorySlice, ModifyError, Operation, Payload, PostError,
    QpFailure, RecvRequest, Remote, SendOperation, SendRequest,
};
use alfirk_roce::registration::{
    ExpectedGroup, GroupSpec, LeaderEvent, LeaderTiming, RetryTimeout,
};
use alfirk_roce::verbs::Verbs;
use alfirk_roce::wire::mrp::Node;
use alfirk_roce::wire::{mr_info, Psn, QpNum};
use serde::{Deserialize, Serialize};

use crate::device::{random, Device, DeviceConfig, OpenError};
pub use lent::LentMemory;
use link::{Epoch, Link, MemberInfo, Message};

/// Rank of the leader.
const LEADER: u32 = 0;

/// Transport of the bytes in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// The source sends once, and switches replicate the packets.
    Multicast,
    /// Each member forwards the bytes to the next member, 64 KiB at a time.
    Chain,
    /// The source sends to each member.
    Unicast,
}

/// Parameters of a group, which must be the same for all members, except for the device.
#[derive(Debug, Clone)]
pub struct GroupConfig {
    /// Name of the RDMA device, as listed by `ibv_devices`.
    pub device: String,
    /// IPv4 address of the group: in the fabric's range for groups, and used by no other group.
    pub address: Ipv4Addr,
    /// IPv4 address of the leader, which registers the group and has rank 0.
    pub leader: Ipv4Addr,
    /// TCP port of the leader.
    pub port: u16,
    /// Number of members, the leader included; at least 2.
    pub members: u32,
    /// Length of each member's buffer in bytes.
    pub buffer: u64,
    /// Time limit of each call.
    pub timeout: Duration,
    /// Transport to use if the fabric does not multicast: [`Transport::Chain`] or [`Transport::Unicast`]. With
    /// [`Transport::Multicast`] there is no fallback, and joining fails.
    pub fallback: Transport,
}

/// Reason why a call on a group has failed. Except after [`GroupError::Argument`], the group cannot be used any more.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// The RDMA device cannot be used.
    #[error(transparent)]
    Device(#[from] OpenError),
    /// The arguments are not valid; the call had no effect.
    #[error("{0}")]
    Argument(String),
    /// The TCP connection to the leader or to a member has failed.
    #[error("{what}: {error}")]
    Connection {
        /// The peer of the connection, or the action that has failed.
        what: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The time limit was exceeded; holds what the call was waiting for.
    #[error("timeout: {0}")]
    Timeout(&'static str),
    /// The fabric does not multicast, and the configuration has no fallback; holds the reason.
    #[error("the group is not registered: {0}")]
    NotRegistered(String),
    /// The device or the remote end has rejected an operation, or it has failed.
    #[error("{0}")]
    Verbs(String),
    /// This member is no longer in the group; holds the reason.
    #[error("the group has ended: {0}")]
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

/// A member's handle of a group. If it is dropped without [`Group::leave`], the leader removes the member when the TCP
/// connection ends.
pub struct Group {
    device: Device,
    config: GroupConfig,
    rank: u32,
    member_infos: Vec<MemberInfo>,
    alive: BTreeSet<u32>,
    transport: Transport,
    /// TCP connections by rank: at the leader, to all other members; at other members, to the leader only.
    links: BTreeMap<u32, Link>,
    /// Messages received from other members and not handled yet, each with the rank of its sender.
    messages: VecDeque<(u32, Message)>,
    /// The group's registration in band.
    application: Application,
    /// ACK timeout and retries of the group's queue pair.
    retry_timeout: RetryTimeout,
    leader_events: VecDeque<LeaderEvent>,
    memory: MemoryKey,
    qpn: QpNum,
    /// Rank of the current source.
    source: u32,
    /// Whether this member, as the source, has announced the other members' buffers to the switches.
    has_announced_buffers: bool,
    /// In a group without multicast: the queue pair towards each other member, by rank.
    mesh: BTreeMap<u32, QpNum>,
    inbox: VecDeque<Completion>,
    failures: Vec<(QpNum, QpFailure)>,
    /// Number of posted messages for whose completion the caller has not waited yet.
    posted: u32,
    /// Whether other members may be late without limit, so that a lack of progress is not reported to the fabric.
    has_no_deadline: bool,
    started: Instant,
    next_stall: Instant,
}

impl Group {
    /// Joins a group. Returns when all members have joined.
    pub fn join(config: GroupConfig) -> Result<Group> {
        Group::join_by(config, None)
    }

    /// Joins as the leader. `listener`: a TCP socket that listens at the leader's address and `config.port`, so that
    /// the system can choose the port.
    pub fn lead_at(config: GroupConfig, listener: TcpListener) -> Result<Group> {
        Group::join_by(config, Some(listener))
    }

    fn join_by(config: GroupConfig, listener: Option<TcpListener>) -> Result<Group> {
        if config.members < 2 {
            return Err(GroupError::Argument(format!(
                "a group needs at least 2 members, found {}",
                config.members
            )));
        }
        let mut device = Device::open(DeviceConfig::new(&config.device))?;
        let rc = device.default_rc();
        let memory = device.register_memory(config.buffer, true)?;
        let qpn = device.create_qp(rc)?;
        let (va, rkey) = device.locate(memory)?;
        let len = config.buffer;
        let own = MemberInfo {
            ip: device.ip(),
            qpn,
            memory: RemoteMemory { va, rkey, len },
        };
        let now = Instant::now();
        let mut group = Group {
            rank: LEADER,
            member_infos: vec![own],
            alive: (0..config.members).collect(),
            transport: Transport::Multicast,
            links: BTreeMap::new(),
            messages: VecDeque::new(),
            application: Application::default(),
            retry_timeout: RetryTimeout::of_card(&rc),
            leader_events: VecDeque::new(),
            memory,
            qpn,
            source: LEADER,
            has_announced_buffers: false,
            mesh: BTreeMap::new(),
            inbox: VecDeque::new(),
            failures: Vec::new(),
            posted: 0,
            has_no_deadline: false,
            started: now,
            next_stall: now,
            device,
            config,
        };
        let deadline = group.deadline();
        match group.device.ip() == group.config.leader {
            true => group.lead(listener, deadline)?,
            false => group.follow(own, deadline)?,
        }
        Ok(group)
    }

    /// Rank of this member. The leader has rank 0; the others are ordered by their addresses.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Rank of the last source; initially that of the leader.
    pub fn source(&self) -> u32 {
        self.source
    }

    /// Ranks of the members that are still in the group. Members other than the leader are informed of removals only at
    /// the next change of the source.
    pub fn members(&self) -> impl Iterator<Item = u32> + '_ {
        self.alive.iter().copied()
    }

    /// The transport that the group uses.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Contents of this member's buffer.
    pub fn buffer(&self) -> &[u8] {
        self.device
            .memory(self.memory)
            .expect("the buffer is registered as long as the group lives")
    }

    /// Address of this member's buffer, which is a multiple of a power of two that is at least the buffer's length.
    pub fn buffer_address(&self) -> u64 {
        self.member_infos[self.rank as usize].memory.va
    }

    /// Copies bytes into this member's buffer, at `offset`.
    pub fn fill(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        Ok(self.device.write_memory(self.memory, offset, bytes)?)
    }

    /// Sends a part of the source's buffer to the same place in all other buffers, by SEND. Every member must make the
    /// call with the same arguments.
    pub fn broadcast(&mut self, source: u32, offset: u64, len: u64) -> Result<()> {
        self.post(source, self.buffer_slice(offset, len)?, Kind::Send)?;
        self.wait()
    }

    /// Writes a part of the source's buffer to the same place in all other buffers, by WRITE with immediate data. Every
    /// member must make the call with the same arguments.
    ///
    /// The first WRITE of a source takes two additional round trips, in which the other buffers are announced to the
    /// switches.
    pub fn write(&mut self, source: u32, offset: u64, len: u64) -> Result<()> {
        self.post(source, self.buffer_slice(offset, len)?, Kind::Write)?;
        self.wait()
    }

    /// Starts a [`Group::broadcast`], so that several messages can be in flight. The parts of the buffer in use must
    /// not be accessed until [`Group::wait`]. Without multicast, this call blocks.
    pub fn post_broadcast(&mut self, source: u32, offset: u64, len: u64) -> Result<()> {
        self.post(source, self.buffer_slice(offset, len)?, Kind::Send)
    }

    /// Makes the member with rank `source` the source, before it sends. All members synchronize, so every member must
    /// make the call.
    pub fn change_source(&mut self, source: u32) -> Result<()> {
        if !self.alive.contains(&source) {
            let text = format!("rank {source} is not in the group");
            return Err(GroupError::Argument(text));
        }
        if self.transport == Transport::Multicast && source != self.source {
            self.wait()?;
            self.switch_source(source, self.deadline())?;
        }
        Ok(())
    }

    /// Waits until all posted messages have completed.
    pub fn wait(&mut self) -> Result<()> {
        let deadline = self.deadline();
        while self.posted > 0 {
            self.wait_for_next(deadline)?;
        }
        Ok(())
    }

    /// Waits until the oldest posted message has completed.
    fn wait_for_next(&mut self, deadline: Instant) -> Result<()> {
        let done = self.wait_for_completion(self.qpn, deadline, "a message")?;
        // Announcements of buffers were waited for when they were posted.
        debug_assert_ne!(done.wr_id, ANNOUNCEMENT);
        self.posted -= 1;
        Ok(())
    }

    /// Sends an empty message from [`Group::source`] to all other members. Every member must make the call. It may take
    /// as long as the slowest member. At the source it returns when all members have made the call, elsewhere when the
    /// message has arrived. Two calls make a barrier: after the first call, it is certain at the source that all
    /// members have entered; after the second, at all members.
    ///
    /// Calls `is_over` every millisecond, and returns false when that returns true. The group then cannot be used any
    /// more, nor after an error. `is_over` may also do work that other members need before they make the call.
    pub fn signal(&mut self, mut is_over: impl FnMut() -> bool) -> Result<bool> {
        self.wait()?;
        if self.transport != Transport::Multicast {
            self.synchronize(self.deadline())?;
            return Ok(true);
        }
        self.post(self.source, self.buffer_slice(0, 0)?, Kind::Send)?;
        // A member that has not made the call yet must not count as failed.
        self.has_no_deadline = true;
        let mut done = self.take_completion(self.qpn)?;
        while done.is_none() {
            if is_over() {
                return Ok(false);
            }
            self.wait_for_event_within(wait::POLL_INTERVAL, self.deadline(), "a signal")?;
            done = self.take_completion(self.qpn)?;
        }
        self.has_no_deadline = false;
        self.posted -= 1;
        Ok(true)
    }

    /// Handles pending events without waiting. To be called from time to time if no other calls are made, so that the
    /// leader replies to the fabric's queries whether the group is in use.
    pub fn make_progress(&mut self) {
        self.handle_ready();
    }

    /// Leaves the group; the other members continue. The leader waits until all others have left, up to the time limit,
    /// and then ends the group.
    pub fn leave(mut self) -> Result<()> {
        let deadline = self.deadline();
        if self.rank != LEADER {
            self.send_message(LEADER, &Message::Leave)?;
            loop {
                match self.message_from(LEADER, deadline, "leaving the group") {
                    Ok(Message::Bye) => return Ok(()),
                    // The leader has already left.
                    Err(GroupError::Over(_)) => return Ok(()),
                    Err(error) => return Err(error),
                    Ok(_) => {}
                }
            }
        }
        // A source may need other members, and replies of the fabric, to complete its sends.
        while self.alive.len() > 1 && Instant::now() < deadline {
            self.wait_for_event(deadline, "leaving the group")?;
        }
        let deadline = self.deadline();
        if self.transport == Transport::Multicast {
            let now = self.now();
            self.application.deregister(&mut self.device, now);
            self.wait_for_leader_event(deadline, "ending the group", |event| {
                matches!(event, LeaderEvent::Deregistered)
            })?;
        }
        for rank in self.others() {
            // A member that has already left needs no notice.
            let _ = self.send_message(rank, &Message::Bye);
        }
        Ok(())
    }

    // ---- Beginning ----

    /// Joins as the leader: collects the members, registers the group or chooses the fallback, and starts the others.
    fn lead(&mut self, listener: Option<TcpListener>, deadline: Instant) -> Result<()> {
        let own = self.member_infos[0];
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
        let mut joined: BTreeMap<Ipv4Addr, (MemberInfo, Link)> = BTreeMap::new();
        let mut pending_links: Vec<Link> = Vec::new();
        while joined.len() + 1 < self.config.members as usize {
            while let Ok((stream, _)) = listener.accept() {
                let link = stream
                    .set_nonblocking(false)
                    .and_then(|()| Link::new(stream));
                pending_links.extend(link);
            }
            let mut waiting = Vec::new();
            for mut link in pending_links {
                match link.receive() {
                    Ok(Some(Message::Hello { member })) => {
                        joined.insert(member.ip, (member, link));
                    }
                    Ok(None) => waiting.push(link),
                    // A host that sends anything else is not a member.
                    Ok(Some(_)) | Err(_) => {}
                }
            }
            pending_links = waiting;
            self.check_time(deadline, "waiting for the members")?;
            let fds = pending_links.iter().map(std::os::fd::AsFd::as_fd);
            wait::readable(
                fds.chain([std::os::fd::AsFd::as_fd(&listener)]),
                wait::MAX_SLEEP,
                deadline,
            );
        }
        for (member, link) in joined.into_values() {
            self.links.insert(self.member_infos.len() as u32, link);
            self.member_infos.push(member);
        }
        let random = random();
        let epoch = Epoch {
            virtual_qpn: QpNum::ordinary(random as u32),
            initial_psn: Psn::new((random >> 32) as u32),
        };
        for rank in self.others() {
            self.send_message(
                rank,
                &Message::Welcome {
                    rank,
                    members: self.member_infos.clone(),
                    epoch,
                },
            )?;
        }
        let own_error = self.connect(epoch).err().map(|e| e.to_string());
        let error = self.wait_until_ready(deadline, "connecting to the group")?;
        let registered = match own_error.or(error) {
            Some(why) => Err(why),
            None => self.register(epoch, deadline)?,
        };
        if let Err(why) = registered {
            tracing::warn!("no multicast: {why}");
            self.transport = self.config.fallback;
            if self.transport == Transport::Multicast {
                for rank in self.others() {
                    let _ = self.send_message(rank, &Message::Bye);
                }
                return Err(GroupError::NotRegistered(why));
            }
        }
        self.send_go()?;
        if self.transport != Transport::Multicast {
            self.make_mesh(deadline)?;
        }
        Ok(())
    }

    /// Joins as a member other than the leader. `own`: this member's address, queue pair and buffer.
    fn follow(&mut self, own: MemberInfo, deadline: Instant) -> Result<()> {
        let address = SocketAddrV4::new(self.config.leader, self.config.port);
        let stream = loop {
            match TcpStream::connect_timeout(&address.into(), Duration::from_secs(1)) {
                Ok(stream) => break stream,
                // The leader may start later than this member.
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
        self.send_message(LEADER, &Message::Hello { member: own })?;
        let Message::Welcome {
            rank,
            members,
            epoch,
        } = self.message_from(LEADER, deadline, "waiting for the leader")?
        else {
            return Err(over_error(
                "unexpected message from the leader: expected `welcome`",
            ));
        };
        if members.get(rank as usize) != Some(&own) {
            let text = format!("the leader lists another member at rank {rank}");
            return Err(over_error(&text));
        }
        if let Some(other) = members.iter().find(|m| m.memory.len != own.memory.len) {
            return Err(GroupError::Argument(format!(
                "buffer sizes differ: member {} has {} bytes, this member {} bytes",
                other.ip, other.memory.len, own.memory.len
            )));
        }
        (self.rank, self.member_infos) = (rank, members);
        let group = ExpectedGroup {
            mcst_id: self.config.address,
            virtual_qpn: epoch.virtual_qpn,
            leader: self.member_infos[0].ip,
        };
        self.application.expect(&mut self.device, self.qpn, group);
        let error = self.connect(epoch).err().map(|e| e.to_string());
        self.send_message(LEADER, &Message::Ready { error })?;
        self.wait_for_go(deadline)?;
        if self.transport != Transport::Multicast {
            self.make_mesh(deadline)?;
        }
        Ok(())
    }

    /// Connects the queue pair to the group's address and virtual queue pair.
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

    /// Registers the group in band. The inner error is the reason why the fabric has refused the group.
    fn register(
        &mut self,
        epoch: Epoch,
        deadline: Instant,
    ) -> Result<std::result::Result<(), String>> {
        let node = |member: &MemberInfo| Node {
            ip: member.ip,
            qpn: member.qpn,
            flags: 0,
            region: None,
        };
        let nodes: Vec<Node> = self.member_infos[1..].iter().map(node).collect();
        let spec = GroupSpec {
            mcst_id: self.config.address,
            virtual_qpn: epoch.virtual_qpn,
            initial_psn: epoch.initial_psn,
            leader: node(&self.member_infos[0]),
            members: nodes.iter().map(|n| n.ip).collect(),
            retry_timeout: self.retry_timeout,
        };
        let (now, timing) = (self.now(), LeaderTiming::default());
        let led = self
            .application
            .lead(&mut self.device, now, spec, timing, &nodes);
        if let Err(error) = led {
            return Ok(Err(error.to_string()));
        }
        let event = self.wait_for_leader_event(deadline, "registering the group", |_| true)?;
        Ok(match event {
            LeaderEvent::Registered => Ok(()),
            LeaderEvent::Refused { reason } => Err(reason.to_string()),
            LeaderEvent::GaveUp { missing } => {
                let names: Vec<String> = missing.iter().map(Ipv4Addr::to_string).collect();
                Err(format!(
                    "no confirmation from {}; check that these hosts run and are reachable",
                    names.join(", ")
                ))
            }
            other => Err(format!("unexpected event while registering: {other:?}")),
        })
    }

    // ---- Messages ----

    /// Returns the slice of `len` bytes at `offset` of this member's buffer.
    fn buffer_slice(&self, offset: u64, len: u64) -> Result<MemorySlice> {
        let (key, size) = (self.memory, self.config.buffer);
        match offset.checked_add(len) {
            Some(end) if end <= size => Ok(MemorySlice { key, offset, len }),
            _ => Err(GroupError::Argument(format!(
                "{len} bytes at offset {offset} exceed the buffer of {size} bytes"
            ))),
        }
    }

    /// Starts a broadcast of a slice of the buffer, by SEND or WRITE: posts the send at the source, and the receive
    /// elsewhere.
    fn post(&mut self, source: u32, part: MemorySlice, kind: Kind) -> Result<()> {
        if !self.alive.contains(&source) {
            let text = format!("rank {source} is not in the group");
            return Err(GroupError::Argument(text));
        }
        let deadline = self.deadline();
        if self.transport != Transport::Multicast {
            self.synchronize(deadline)?;
            return self.broadcast_overlay(source, part, deadline);
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
            if kind == Kind::Write && !self.has_announced_buffers {
                self.wait()?;
                self.announce_buffers(deadline)?;
            }
            let operation = match kind {
                Kind::Send => SendOperation::Send { immediate: None },
                // In packets of a group, every buffer has address 0 and key 0.
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

    /// Changes the source. At this time every member holds all data, because a call completes at its source only when
    /// all members have the data.
    fn switch_source(&mut self, source: u32, deadline: Instant) -> Result<()> {
        if self.source == self.rank {
            self.device.expect_next_source(self.qpn)?;
        }
        self.synchronize(deadline)?;
        if source == self.rank {
            self.device.take_over_sending(self.qpn)?;
            self.has_announced_buffers = false;
        }
        self.take_events();
        self.check_failures(self.qpn)?;
        self.source = source;
        Ok(())
    }

    /// Announces the buffer of each receiver to the switches, in band.
    fn announce_buffers(&mut self, deadline: Instant) -> Result<()> {
        let mut announced = 0;
        for rank in self.others() {
            let receiver = self.member_infos[rank as usize];
            let to = (receiver.memory.va, receiver.memory.rkey);
            let info = mr_info::Repr::between((0, 0), to)
                .map_err(|error| GroupError::Verbs(error.to_string()))?;
            let mut bytes = [0; mr_info::PAYLOAD_LEN];
            info.emit(&mut bytes);
            let request = SendRequest {
                wr_id: ANNOUNCEMENT,
                operation: SendOperation::Write {
                    remote_va: u32::from(receiver.ip).into(),
                    rkey: mr_info::R_KEY,
                    immediate: None,
                },
                payload: Payload::Bytes(Arc::from(bytes)),
            };
            self.device.post_send(self.qpn, request)?;
            announced += 1;
        }
        for _ in 0..announced {
            self.wait_for_completion(self.qpn, deadline, "announcing buffers to the switches")?;
        }
        self.has_announced_buffers = true;
        Ok(())
    }

    // ---- Helpers ----

    /// Ranks of the other members that are still in the group.
    fn others(&self) -> Vec<u32> {
        let own = self.rank;
        self.alive.iter().copied().filter(|r| *r != own).collect()
    }

    /// Time at which a call that starts now exceeds its time limit.
    fn deadline(&self) -> Instant {
        Instant::now() + self.config.timeout
    }

    /// Nanoseconds since this member began to join, as the time of state machines.
    fn now(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }
}

/// Number (`wr_id`) of all work requests that announce buffers.
const ANNOUNCEMENT: u64 = 1;

/// RDMA operation of a broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Send,
    Write,
}

/// Creates the error of a group that this member is no longer in.
fn over_error(why: &str) -> GroupError {
    GroupError::Over(why.to_owned())
}

/// Returns the operation of a completion and its number of bytes; an error for a failed completion.
fn check_completion(done: Completion) -> Result<(Operation, u64)> {
    match done.outcome {
        Ok(completed) => Ok((done.operation, completed.bytes)),
        Err(error) => Err(GroupError::Verbs(format!(
            "queue pair {}: {error}",
            done.qpn
        ))),
    }
}
