//! A switch that a test runs on: packets go through its ports, and P4Runtime requests to its server.

use std::time::Duration;

use alfirk_p4runtime::p4::v1::{Entity, ReadRequest, WriteRequest};
use alfirk_p4runtime::Status;

use crate::packets::Packets;

/// The switch's number, as it is started.
pub const DEVICE: u64 = 0;

/// What a test needs of its switch.
#[allow(async_fn_in_trait)] // One thread drives one test, so nobody needs to know whether the futures can be sent.
pub trait Target {
    /// Why nothing can be received any more.
    type Error;

    /// Has a packet come in at a port. What comes out goes to `packets` now, or at the next [`Target::settle`].
    ///
    /// # Errors
    /// Why it cannot.
    fn send(&mut self, port: u32, data: &[u8], packets: &mut Packets) -> Result<(), String>;

    /// Waits until the packets under way have come out.
    ///
    /// # Errors
    /// When nothing can be received any more.
    async fn settle(&mut self, packets: &mut Packets) -> Result<(), Self::Error>;

    /// Lets time pass.
    async fn pass(&mut self, time: Duration);

    /// As P4Runtime's Write.
    ///
    /// # Errors
    /// The server's refusal.
    async fn write(&mut self, request: WriteRequest) -> Result<(), Status>;

    /// As P4Runtime's Read.
    ///
    /// # Errors
    /// The server's refusal.
    async fn read(&mut self, request: ReadRequest) -> Result<Vec<Entity>, Status>;

    /// Sets clone session 0, which BMv2's Thrift service has and P4Runtime has not: the port and the replication id of each copy; none
    /// removes the session.
    ///
    /// # Errors
    /// When the switch cannot do so.
    fn clone_session_0(&mut self, copies: Option<&[(u32, u16)]>) -> Result<(), String>;

    /// Lets packets of this level 1 exclusion id get no copies from the node of a group with this replication id (Tofino).
    ///
    /// # Errors
    /// When the switch cannot do so.
    fn exclude(&mut self, group: u32, rid: u32, xid: u16) -> Result<(), String>;

    /// Lets packets of this level 2 exclusion id get no copies at these ports (Tofino).
    ///
    /// # Errors
    /// When the switch cannot do so.
    fn prune(&mut self, yid: u16, ports: &[u32]) -> Result<(), String>;
}
