//! Multicast groups for application programs: the bytes of one member's buffer are copied to the same place in all
//! other members' buffers.
//!
//! A [`Group`] drives the state machine [`GroupMember`] on an RDMA device: it carries the messages between the members
//! over TCP, waits, and limits the time of each call.
//!
//! Calls block. Every member makes the same calls of [`Group::broadcast`] and [`Group::write`] in the same order. At
//! the source, a call returns when every member has the bytes; elsewhere, when this member has them. The source may
//! change with each call; all members then synchronize over TCP.
//!
//! If the fabric does not multicast, or rejects the group, the same calls use a chain of members, or unicast from the
//! source.

mod config;
mod error;
mod lent;
mod link;
mod wait;

use std::net::{SocketAddrV4, TcpListener};
use std::time::{Duration, Instant};

use alfirk_roce::application::group::{GroupMember, GroupOperation};
use alfirk_roce::rc::MemoryKey;
use alfirk_roce::verbs::Verbs;

use crate::device::{random, Device, DeviceConfig};
pub use alfirk_roce::application::group::GroupTransport as Transport;
pub use config::GroupConfig;
pub use error::GroupError;
use error::Result;
pub use lent::LentMemory;
use link::Links;
use wait::MAX_SLEEP;

/// Maximum time between two calls of the function that the caller of [`Group::signal`] supplies.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A member's handle of a group. If it is dropped without [`Group::leave`], the leader removes the member when the TCP
/// connection ends.
pub struct Group {
    device: Device,
    member: GroupMember,
    links: Links,
    memory: MemoryKey,
    /// Time limit of each call.
    timeout: Duration,
    /// Start of the time of state machines.
    started: Instant,
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
        let settings = config.settings();
        settings.check()?;
        let started = Instant::now();
        let mut device = Device::open(DeviceConfig::new(&config.device))?;
        let memory = device.register_memory(config.buffer, true)?;
        let member = GroupMember::join(&mut device, settings, memory, random())?;
        let deadline = started + config.timeout;
        let address = SocketAddrV4::new(config.leader, config.port);
        let links = match member.is_leader() {
            true => Links::listen(listener, address)?,
            false => Links::connect(address, deadline)?,
        };
        let timeout = config.timeout;
        let mut group = Group {
            device,
            member,
            links,
            memory,
            timeout,
            started,
        };
        group.run_until(deadline).map(|()| group)
    }

    /// Rank of this member. The leader has rank 0; the others are ordered by their addresses.
    pub fn rank(&self) -> u32 {
        self.member.rank()
    }

    /// Rank of the last source; initially that of the leader.
    pub fn source(&self) -> u32 {
        self.member.source()
    }

    /// Ranks of the members that are still in the group. Members other than the leader are informed of removals only at
    /// the next change of the source.
    pub fn members(&self) -> impl Iterator<Item = u32> + '_ {
        self.member.members()
    }

    /// The transport that the group uses.
    pub fn transport(&self) -> Transport {
        self.member.transport()
    }

    /// Contents of this member's buffer.
    pub fn buffer(&self) -> &[u8] {
        self.device
            .memory(self.memory)
            .expect("the buffer is registered as long as the group lives")
    }

    /// Address of this member's buffer, which is a multiple of a power of two that is at least the buffer's length.
    pub fn buffer_address(&self) -> u64 {
        self.member.own().memory.va
    }

    /// Copies bytes into this member's buffer, at `offset`.
    pub fn fill(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        Ok(self.device.write_memory(self.memory, offset, bytes)?)
    }

    /// Sends a part of the source's buffer to the same place in all other buffers, by SEND. Every member must make the
    /// call with the same arguments.
    pub fn broadcast(&mut self, source: u32, offset: u64, len: u64) -> Result<()> {
        self.post_broadcast(source, offset, len)?;
        self.wait()
    }

    /// Writes a part of the source's buffer to the same place in all other buffers, by WRITE with immediate data. Every
    /// member must make the call with the same arguments.
    ///
    /// The first WRITE of a source takes two additional round trips, in which the other buffers are announced to the
    /// switches.
    pub fn write(&mut self, source: u32, offset: u64, len: u64) -> Result<()> {
        self.post(source, offset, len, GroupOperation::Write)?;
        self.wait()
    }

    /// Starts a [`Group::broadcast`], so that several messages can be in flight. The parts of the buffer in use must
    /// not be accessed until [`Group::wait`]. Without multicast, this call blocks.
    pub fn post_broadcast(&mut self, source: u32, offset: u64, len: u64) -> Result<()> {
        self.post(source, offset, len, GroupOperation::Send)
    }

    fn post(&mut self, source: u32, offset: u64, len: u64, by: GroupOperation) -> Result<()> {
        let part = self.member.buffer_slice(offset, len)?;
        self.member.post(source, part, by)?;
        self.run()
    }

    /// Makes the member with rank `source` the source, before it sends. All members synchronize, so every member must
    /// make the call.
    pub fn change_source(&mut self, source: u32) -> Result<()> {
        self.member.change_source(source)?;
        self.run()
    }

    /// Waits until all posted messages have completed.
    pub fn wait(&mut self) -> Result<()> {
        self.member.wait();
        self.run()
    }

    /// Sends an empty message from [`Group::source`] to all other members. Every member must make the call. It may take
    /// as long as the slowest member. At the source it returns when all members have made the call, elsewhere when the
    /// message has arrived. Two calls make a barrier: after the first call, it is certain at the source that all
    /// members have entered; after the second, at all members.
    ///
    /// Calls `is_over` every millisecond, and returns false when that returns true. The group then cannot be used any
    /// more, nor after an error. `is_over` may also do work that other members need before they make the call.
    pub fn signal(&mut self, mut is_over: impl FnMut() -> bool) -> Result<bool> {
        self.member.signal()?;
        let deadline = self.deadline();
        while !self.turn()? {
            if !self.member.waits_for_signal() {
                self.sleep_until(deadline)?;
            } else if is_over() {
                return Ok(false);
            } else {
                self.sleep(POLL_INTERVAL);
            }
        }
        Ok(true)
    }

    /// Handles pending events without waiting. To be called from time to time if no other calls are made, so that the
    /// leader replies to the fabric's queries whether the group is in use.
    pub fn make_progress(&mut self) {
        // An error of a message is reported by the call that waits for the message.
        let _ = self.turn();
    }

    /// Leaves the group; the other members continue. The leader waits until all others have left, up to the time limit,
    /// and then ends the group.
    pub fn leave(mut self) -> Result<()> {
        // A source may need other members, and replies of the fabric, to complete its sends.
        let deadline = self.deadline();
        while self.member.is_leader() && Instant::now() < deadline {
            match self.turn().map(|_| self.members().count())? {
                1 => break,
                _ => self.sleep(MAX_SLEEP),
            }
        }
        self.member.leave();
        self.run()
    }
}
