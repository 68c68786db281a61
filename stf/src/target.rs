//! The interface of a switch under test: packets at its ports, and P4Runtime requests.

use std::time::Duration;

use alfirk_p4runtime::p4::v1::{Entity, ReadRequest, WriteRequest};
use alfirk_p4runtime::Status;

use crate::packets::Packets;

/// P4Runtime device id of the switch under test.
pub const DEVICE_ID: u64 = 0;

/// Operations of a switch under test.
#[allow(async_fn_in_trait)] // One thread drives one test, so the futures need not be Send.
pub trait Target {
    /// Error of a lost connection to the switch, after which nothing can be received.
    type Error;

    /// Sends a packet into a port, after all that were sent before. Packets that leave are added to `packets` now, or by
    /// the next [`Target::settle`].
    ///
    /// # Errors
    /// The reason why the packet cannot be sent.
    async fn send(&mut self, port: u32, data: &[u8], packets: &mut Packets) -> Result<(), String>;

    /// Waits until all packets in the switch have left it, and adds them to `packets`.
    ///
    /// # Errors
    /// When nothing can be received any more.
    async fn settle(&mut self, packets: &mut Packets) -> Result<(), Self::Error>;

    /// Waits for `time`. A switch in this process advances its virtual time instead.
    async fn pass(&mut self, time: Duration);

    /// Executes a P4Runtime Write request.
    ///
    /// # Errors
    /// The server's status.
    async fn write(&mut self, request: WriteRequest) -> Result<(), Status>;

    /// Executes a P4Runtime Read request.
    ///
    /// # Errors
    /// The server's status.
    async fn read(&mut self, request: ReadRequest) -> Result<Vec<Entity>, Status>;

    /// Sets the copies of clone session 0, as ports and replication ids. This session exists in BMv2's Thrift service,
    /// but not in P4Runtime. `None` removes the session.
    ///
    /// # Errors
    /// When the switch does not support this.
    fn clone_session_0(&mut self, copies: Option<&[(u32, u16)]>) -> Result<(), String>;

    /// Excludes packets with this level 1 exclusion id from the copies that a multicast group's node with this
    /// replication id makes (Tofino).
    ///
    /// # Errors
    /// When the switch does not support this.
    fn exclude(&mut self, group: u32, rid: u32, xid: u16) -> Result<(), String>;

    /// Excludes packets with this level 2 exclusion id from multicast copies to these ports (Tofino).
    ///
    /// # Errors
    /// When the switch does not support this.
    fn prune(&mut self, yid: u16, ports: &[u32]) -> Result<(), String>;
}
