//! A member of a group of application programs: the bytes of one member's buffer are copied to the same place in all
//! other members' buffers.
//!
//! ```text
//!  leader                              other members
//!    │ ◀───────── Hello ───────────────── │   queue pair and buffer of each, over a reliable stream
//!    │ ────────── Welcome ──────────────▶ │   the whole group
//!    │ ◀───────── Ready ───────────────── │   queue pairs are connected to the group's address
//!    │ ═══ registration in-band (MRP) ═══ │
//!    │ ────────── Go ───────────────────▶ │   multicast, or the fallback
//! ```
//!
//! [`GroupMember`] is a state machine without I/O over [`Verbs`]. Each call of the user adds [`Step`]s, which
//! [`GroupMember::advance`] executes in order. The driver carries the messages between the members, and calls
//! `advance` when a message, an event of the host or the time of [`GroupMember::poll_timeout`] has arrived, until it
//! reports that no step is left.
//!
//! Every member makes the same calls in the same order. The source may change with each call; all members then
//! synchronize. If the fabric does not multicast, or rejects the group, the same calls execute the plan of an
//! algorithm among connected members.

mod error;
mod join;
mod leave;
mod mesh;
mod message;
mod peers;
mod step;
mod stream;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;

pub use self::error::GroupError;
use self::error::Result;
use self::mesh::Mesh;
pub use self::message::{Epoch, GroupTransport, LinkId, MemberInfo, MeshEnd, Message};
use self::peers::Peers;
use self::step::Step;
use self::stream::Stream;
use super::{Application, MemberEvent};
use crate::collective::RemoteMemory;
use crate::host::HostEvent;
use crate::rc::{MemoryKey, MemorySlice};
use crate::registration::{LeaderEvent, RetryTimeout};
use crate::verbs::Verbs;

/// Rank of the leader.
pub const LEADER: u32 = 0;

/// Parameters of a group, which must be the same for all members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupSettings {
    /// IPv4 address of the group: in the fabric's range for groups, and used by no other group.
    pub address: Ipv4Addr,
    /// IPv4 address of the leader, which registers the group and has rank 0.
    pub leader: Ipv4Addr,
    /// Number of members, the leader included; at least 2.
    pub members: u32,
    /// Transport to use if the fabric does not multicast. With [`GroupTransport::Multicast`] there is no fallback, and
    /// joining fails.
    pub fallback: GroupTransport,
}

impl GroupSettings {
    /// Checks the number of members.
    pub fn check(&self) -> std::result::Result<(), GroupError> {
        match self.members {
            0 | 1 => Err(GroupError::Argument(format!(
                "a group needs at least 2 members, found {}",
                self.members
            ))),
            _ => Ok(()),
        }
    }
}

/// RDMA operation of a broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupOperation {
    /// SEND into posted receive buffers.
    Send,
    /// WRITE with immediate data, to the same offset of each buffer.
    Write,
}

/// A request to the driver.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Send a message.
    Send {
        /// The stream.
        link: LinkId,
        /// The message.
        message: Message,
    },
    /// End a stream, after the messages that were to be sent before.
    Close(LinkId),
    /// Write a warning to the log of the program.
    Warning(String),
}

/// One member of a group. All times are in nanoseconds of the driver's clock.
pub struct GroupMember {
    settings: GroupSettings,
    rank: u32,
    /// All members, by rank; before the ranks are known, only this one.
    infos: Vec<MemberInfo>,
    alive: BTreeSet<u32>,
    transport: GroupTransport,
    memory: MemoryKey,
    /// ACK timeout and retries of the group's queue pair.
    retry_timeout: RetryTimeout,
    epoch: Epoch,
    /// Error of this member, and at the leader of any member, while members join; `None` without an error.
    join_error: Option<String>,
    /// The ends of connections of a group without multicast, by the rank of the member that has sent them.
    mesh_ends: BTreeMap<u32, Vec<MeshEnd>>,
    peers: Peers,
    /// The group's registration in band.
    application: Application,
    /// Events of the registration that are not handled yet.
    leader_events: VecDeque<LeaderEvent>,
    stream: Stream,
    /// Connections of a group without multicast.
    mesh: Mesh,
    /// Rank of the present source.
    source: u32,
    /// The member whose removal from the fabric is in progress.
    removal: Option<u32>,
    /// Steps of the calls in progress, in order.
    steps: VecDeque<Step>,
    /// Whether other members may be late without limit, so that a lack of progress is not reported to the fabric.
    is_patient: bool,
    /// Time at which a lack of progress is reported to the fabric, if messages are then outstanding.
    next_stall: u64,
}

impl GroupMember {
    /// Creates a queue pair and begins to join. `memory`: the member's buffer, open to remote WRITEs. `random`: random
    /// bits, from which the leader takes queue pair number and PSN of the group.
    ///
    /// The host whose address is that of the leader joins as the leader: [`GroupMember::accept`] adds the streams of the
    /// others. Another member has one stream, [`LinkId::LEADER`].
    pub fn join(
        host: &mut dyn Verbs,
        settings: GroupSettings,
        memory: MemoryKey,
        random: u64,
    ) -> std::result::Result<GroupMember, GroupError> {
        settings.check()?;
        let rc = host.default_rc();
        let qpn = host.create_qp(rc)?;
        let (va, rkey) = host.locate(memory)?;
        let len = host.memory(memory)?.len() as u64;
        let own = MemberInfo {
            ip: host.ip(),
            qpn,
            memory: RemoteMemory { va, rkey, len },
        };
        let is_leader = own.ip == settings.leader;
        Ok(GroupMember {
            // A member that is not the leader gets its rank later. Until then, any other number than the leader's does.
            rank: if is_leader { LEADER } else { u32::MAX },
            infos: vec![own],
            alive: (0..settings.members).collect(),
            transport: GroupTransport::Multicast,
            memory,
            retry_timeout: RetryTimeout::of_card(&rc),
            epoch: Epoch::from_random(random),
            join_error: None,
            mesh_ends: BTreeMap::new(),
            peers: match is_leader {
                true => Peers::of_leader(own.ip, settings.members as usize - 1),
                false => Peers::of_follower(),
            },
            application: Application::default(),
            leader_events: VecDeque::new(),
            stream: Stream::new(qpn),
            mesh: Mesh::default(),
            source: LEADER,
            removal: None,
            steps: Step::of_join(is_leader).into(),
            is_patient: false,
            next_stall: 0,
            settings,
        })
    }

    // ---- State ----

    /// Rank of this member, once it has joined. The leader has rank 0; the others are ordered by their addresses.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Whether this member is the leader.
    pub fn is_leader(&self) -> bool {
        self.rank == LEADER
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
    pub fn transport(&self) -> GroupTransport {
        self.transport
    }

    /// This member's address, queue pair and buffer.
    pub fn own(&self) -> &MemberInfo {
        match self.infos.get(self.rank as usize) {
            Some(own) => own,
            None => &self.infos[0],
        }
    }

    /// Number of posted messages for whose completion the user has not waited.
    pub fn posted(&self) -> u32 {
        self.stream.posted()
    }

    /// Whether the steps in progress wait for a signal, for which the user sets no time limit.
    pub fn waits_for_signal(&self) -> bool {
        matches!(self.steps.front(), Some(Step::AwaitSignal))
    }

    /// Whether the leader still accepts streams of hosts that join.
    pub fn accepts_members(&self) -> bool {
        matches!(self.steps.front(), Some(Step::Gather))
    }

    /// What the steps in progress wait for, for an error.
    pub fn waits_for(&self) -> &'static str {
        self.steps.front().map_or("nothing", Step::waits_for)
    }

    /// Returns the slice of `len` bytes at `offset` of this member's buffer.
    pub fn buffer_slice(
        &self,
        offset: u64,
        len: u64,
    ) -> std::result::Result<MemorySlice, GroupError> {
        let (key, size) = (self.memory, self.own().memory.len);
        match offset.checked_add(len) {
            Some(end) if end <= size => Ok(MemorySlice { key, offset, len }),
            _ => Err(GroupError::Argument(format!(
                "{len} bytes at offset {offset} exceed the buffer of {size} bytes"
            ))),
        }
    }

    /// Ranks of the other members that are still in the group.
    fn others(&self) -> Vec<u32> {
        let own = self.rank;
        self.alive.iter().copied().filter(|r| *r != own).collect()
    }

    // ---- Calls of the user ----

    /// Starts a broadcast of `part` from the source. The message is posted when the steps are done; without multicast,
    /// it is then complete. Each member passes a slice of the same length, of any of its registered memory for a SEND.
    pub fn post(
        &mut self,
        source: u32,
        part: MemorySlice,
        operation: GroupOperation,
    ) -> std::result::Result<(), GroupError> {
        self.check_source(source)?;
        if self.transport != GroupTransport::Multicast {
            self.synchronize();
            self.steps.push_back(Step::StartOverlay { source, part });
            self.steps.push_back(Step::AwaitOverlay);
            return Ok(());
        }
        self.change_stream_source(source);
        if operation == GroupOperation::Write {
            self.steps.push_back(Step::Announce);
            self.steps.push_back(Step::AwaitAnnouncements);
        }
        self.steps.push_back(Step::Post { part, operation });
        Ok(())
    }

    /// Makes the member with rank `source` the source, before it sends. All members synchronize.
    pub fn change_source(&mut self, source: u32) -> std::result::Result<(), GroupError> {
        self.check_source(source)?;
        if self.transport == GroupTransport::Multicast {
            self.change_stream_source(source);
        }
        Ok(())
    }

    /// Waits until the oldest posted message has completed.
    pub fn wait_for_one(&mut self) {
        if self.posted() > 0 {
            self.steps.push_back(Step::AwaitOne);
        }
    }

    /// Waits until all posted messages have completed.
    pub fn wait(&mut self) {
        self.steps.push_back(Step::AwaitPosted);
    }

    /// Waits for all posted messages, then sends an empty message from the source to all other members. Other members
    /// may make the call as late as they like. Without multicast, all members synchronize.
    pub fn signal(&mut self) -> std::result::Result<(), GroupError> {
        if self.transport != GroupTransport::Multicast {
            self.synchronize();
            return Ok(());
        }
        let part = self.buffer_slice(0, 0)?;
        self.wait();
        self.post(self.source, part, GroupOperation::Send)?;
        self.steps.push_back(Step::AwaitSignal);
        Ok(())
    }

    /// Leaves the group; the other members continue. At the leader, the group ends: all others should have left
    /// ([`GroupMember::members`]).
    pub fn leave(&mut self) {
        let steps = match self.is_leader() {
            true => &[Step::Deregister, Step::AwaitDeregistration, Step::Dismiss][..],
            false => &[Step::SendLeave, Step::AwaitBye],
        };
        self.steps.extend(steps.iter().cloned());
    }

    fn check_source(&self, source: u32) -> Result<()> {
        match self.alive.contains(&source) {
            true => Ok(()),
            false => {
                let text = format!("rank {source} is not in the group");
                Err(GroupError::Argument(text))
            }
        }
    }

    /// Adds the steps that change the source of the group's queue pair. After them, every member holds all earlier data,
    /// because a message completes at its source only when all members have the data.
    fn change_stream_source(&mut self, source: u32) {
        if source != self.source {
            self.steps.push_back(Step::AwaitPosted);
            self.steps.push_back(Step::ExpectNextSource);
            self.synchronize();
            self.steps.push_back(Step::TakeOver { source });
        }
    }

    /// Adds the steps after which all members have called this function.
    fn synchronize(&mut self) {
        self.steps
            .extend(Step::of_synchronization(self.is_leader()));
    }

    // ---- Inputs of the driver ----

    /// At the leader: adds a stream that a host has opened.
    pub fn accept(&mut self) -> LinkId {
        self.peers.accept()
    }

    /// Handles a message that has arrived. [`GroupMember::advance`] must follow.
    pub fn handle_message(&mut self, link: LinkId, message: Message) {
        self.peers.handle_message(link, message);
    }

    /// Handles the end of a stream. [`GroupMember::advance`] must follow.
    pub fn handle_closed(&mut self, link: LinkId) {
        self.peers.handle_closed(link);
    }

    /// Time of the next [`GroupMember::advance`] if nothing else happens; `None` if no timer runs.
    pub fn poll_timeout(&self) -> Option<u64> {
        let stall = self.watches_progress().then_some(self.next_stall);
        self.application
            .poll_timeout()
            .into_iter()
            .chain(stall)
            .min()
    }

    /// Removes and returns the next request to the driver.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.peers.poll_output()
    }

    /// Handles the events of the host and expired timers, and executes the steps that are possible now. Returns whether
    /// no step is left. After an error the group cannot be used any more.
    pub fn advance(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
    ) -> std::result::Result<bool, GroupError> {
        self.handle_events(host, now);
        while let Some(step) = self.steps.pop_front() {
            match self.execute(&step, host, now) {
                Ok(true) => self.handle_events(host, now),
                Ok(false) => {
                    self.steps.push_front(step);
                    return Ok(false);
                }
                Err(error) => {
                    self.steps.clear();
                    return Err(error);
                }
            }
        }
        Ok(true)
    }

    fn handle_events(&mut self, host: &mut dyn Verbs, now: u64) {
        while let Some(event) = host.poll_event() {
            self.handle_host_event(host, now, &event);
        }
        if self.application.poll_timeout().is_some_and(|at| at <= now) {
            self.application.handle_timeout(host, now);
        }
        while let Some((_, event)) = self.application.poll() {
            // A group takes part in no transfer.
            if let MemberEvent::Group(event) = event {
                self.handle_leader_event(event);
            }
        }
        self.remove_leavers(host, now);
        if self.watches_progress() && self.next_stall <= now {
            self.next_stall = now + self.retry_timeout.stall_ns();
            let address = self.settings.address;
            self.application.report_stall(host, now, address);
        }
    }

    /// Handles an event that the host has reported. Completions and failures that belong to no registration are those of
    /// the group's own messages.
    fn handle_host_event(&mut self, host: &mut dyn Verbs, now: u64, event: &HostEvent) {
        if self.application.handle_event(host, now, now, event) {
            return;
        }
        let stream = self.stream.qpn();
        match event {
            HostEvent::Completion(done) if done.qpn == stream => {
                self.next_stall = now + self.retry_timeout.stall_ns();
                self.stream.handle_completion(done);
            }
            HostEvent::Completion(done) => self.mesh.handle_completion(host, done),
            HostEvent::QpFailed { qpn, failure } if *qpn == stream => {
                self.stream.handle_failure(*failure);
            }
            HostEvent::QpFailed { qpn, failure } => self.mesh.handle_failure(*qpn, *failure),
            HostEvent::Connected { qpn } if *qpn == stream => self.stream.handle_connected(),
            HostEvent::Connected { qpn } => self.mesh.handle_connected(*qpn),
            HostEvent::Datagram(_) | HostEvent::Resolved { .. } | HostEvent::Udp { .. } => {}
        }
    }

    /// Whether a lack of progress is to be reported to the fabric, which then checks the members.
    fn watches_progress(&self) -> bool {
        self.is_leader() && !self.is_patient && self.stream.has_outstanding()
    }
}
