//! What collectives and registrations need of a host: queue pairs, registered memory and datagrams.
//!
//! [`Host`] gives it with everything of its own. A host with an RDMA stack beneath it (a network card, Linux rxe) gives the same through
//! the verbs of its driver, with the limits that those have: see [`DeviceError::Unsupported`].
//!
//! Nothing here blocks for an answer of the network. What comes of a call is reported by [`Verbs::poll_event`].

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use crate::host::{Host, HostEvent, HostStats};
use crate::rc::{
    MemoryError, MemoryKey, MemorySlice, ModifyError, PostError, QpFailure, QpStats, RcConfig,
    RecvRequest, Remote, SendRequest,
};
use crate::ud::{UdConfig, UdPostError, UdSendRequest};
use crate::wire::{Psn, QpNum};

/// What an RDMA stack has refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum DeviceError {
    /// A call of the system failed.
    #[error("{call}: {}", io::Error::from_raw_os_error(*errno))]
    System { call: &'static str, errno: i32 },
    /// It has no such thing.
    #[error("this RDMA device cannot do it: {0}")]
    Unsupported(&'static str),
}

/// A queue pair, as far as others need to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpView {
    /// The PSN of its next request.
    pub sq_psn: Psn,
    /// The other end, when it is connected.
    pub remote: Option<Remote>,
    /// What it died of, if it did.
    pub failure: Option<QpFailure>,
    pub stats: QpStats,
}

/// A host that can do reliable connections. Times are nanoseconds of the driver's clock; stacks with a clock of their own ignore them.
pub trait Verbs {
    fn ip(&self) -> Ipv4Addr;

    /// The settings that queue pairs get by default on this link.
    fn default_rc(&self) -> RcConfig;

    /// Counters of the whole host, as far as it has them.
    fn stats(&self) -> HostStats;

    /// The next thing the user should know.
    fn poll_event(&mut self) -> Option<HostEvent>;

    // ---- Queue pairs ----

    /// Makes a queue pair. Receive buffers may be posted to it at once.
    fn create_qp(&mut self, config: RcConfig) -> Result<QpNum, ModifyError>;

    /// Sets the PSN of a queue pair's first request, before it is connected.
    fn set_sq_psn(&mut self, qpn: QpNum, psn: Psn) -> Result<(), ModifyError>;

    /// Connects a queue pair to `remote`, whose requests begin with `rq_psn`. [`HostEvent::Connected`] or [`HostEvent::QpFailed`] follows.
    fn connect_qp(
        &mut self,
        now: u64,
        qpn: QpNum,
        remote: Remote,
        rq_psn: Psn,
    ) -> Result<(), ModifyError>;

    /// Makes this host the one that sends in a group: [`Host::take_over_sending`].
    fn take_over_sending(&mut self, qpn: QpNum) -> Result<(), ModifyError>;

    /// Prepares the host that sends in a group for the next source: [`Host::expect_next_source`]. Hosts that cannot do so while messages
    /// are under way do it as soon as those are acknowledged.
    fn expect_next_source(&mut self, qpn: QpNum) -> Result<(), ModifyError>;

    /// Completes what a queue pair has posted as acknowledged: [`Host::conclude_sends`].
    fn conclude_sends(&mut self, now: u64, qpn: QpNum);

    /// Has a queue pair start where the group is that it joins: [`Host::join_at`].
    fn join_at(&mut self, qpn: QpNum, psn: Psn, messages: u32) -> Result<(), ModifyError>;

    /// Ends a queue pair; its work requests have no completions any more.
    fn destroy_qp(&mut self, qpn: QpNum) -> Result<(), ModifyError>;

    /// Queues a message.
    fn post_send(&mut self, qpn: QpNum, request: SendRequest) -> Result<(), PostError>;

    /// Queues a buffer for a message to come.
    fn post_recv(&mut self, qpn: QpNum, request: RecvRequest) -> Result<(), PostError>;

    /// A queue pair's state and counters.
    fn view(&self, qpn: QpNum) -> Option<QpView>;

    // ---- Unreliable datagrams ----

    /// Makes a datagram queue pair: [`Host::create_ud_qp`].
    fn create_ud_qp(&mut self, config: UdConfig) -> Result<QpNum, ModifyError>;

    /// Ends a datagram queue pair; it leaves its groups, and its work requests have no completions any more.
    fn destroy_ud_qp(&mut self, qpn: QpNum) -> Result<(), ModifyError>;

    /// Has a queue pair get what is sent to a multicast group: [`Host::attach_multicast`]. On some stacks a host's own datagrams to its
    /// groups come back.
    fn attach_multicast(&mut self, qpn: QpNum, group: Ipv4Addr) -> Result<(), UdPostError>;

    /// Finds the link-layer address for datagrams to a host; [`HostEvent::Resolved`] follows.
    fn resolve(&mut self, now: u64, ip: Ipv4Addr);

    /// Queues a datagram.
    fn post_ud_send(&mut self, qpn: QpNum, request: UdSendRequest) -> Result<(), UdPostError>;

    /// Queues a buffer for a datagram to come, with room for [`crate::ud::GRH_LEN`] bytes before it.
    fn post_ud_recv(&mut self, qpn: QpNum, request: RecvRequest) -> Result<(), UdPostError>;

    // ---- Memory ----

    /// Registers `len` zero bytes to receive into, at a multiple of a power of two that is at least `len`; `remote_write` opens
    /// them to WRITEs.
    fn register_memory(&mut self, len: u64, remote_write: bool) -> Result<MemoryKey, MemoryError>;

    /// Registers bytes to send from.
    fn register_shared(&mut self, bytes: Arc<[u8]>) -> Result<MemoryKey, MemoryError>;

    /// Registers `len` zero bytes, open to WRITEs, under this key and address.
    fn register_at(&mut self, key: MemoryKey, va: u64, len: u64) -> Result<(), MemoryError>;

    /// Says what registered memory will probably hold. Where sender and receiver share a process, memory of which that comes true takes no
    /// room of its own ([`crate::rc::MemoryTable::expect`]); elsewhere it has no effect.
    fn expect_bytes(&mut self, key: MemoryKey, bytes: &Arc<[u8]>) {
        let _ = (key, bytes);
    }

    /// Opens a part of registered memory to WRITEs; gives the address and the R_Key that it has by itself.
    fn bind_window(&mut self, part: MemorySlice) -> Result<(u64, u32), MemoryError>;

    /// Gives up registered memory and its windows.
    fn deregister(&mut self, key: MemoryKey) -> Result<(), MemoryError>;

    /// Virtual address and R_Key of registered memory.
    fn locate(&self, key: MemoryKey) -> Result<(u64, u32), MemoryError>;

    /// The bytes of registered memory.
    fn memory(&self, key: MemoryKey) -> Result<&[u8], MemoryError>;

    /// Writes `bytes` to registered memory, `offset` bytes after its start.
    fn write_memory(
        &mut self,
        key: MemoryKey,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), MemoryError>;

    // ---- UDP ----

    /// Hands UDP datagrams for `port` to the user as events.
    fn bind_udp(&mut self, port: u16);

    /// Sends a UDP datagram. It is lost where nobody answers for the address.
    fn send_udp(
        &mut self,
        now: u64,
        destination: Ipv4Addr,
        source_port: u16,
        destination_port: u16,
        payload: Vec<u8>,
    );
}

impl Verbs for Host {
    fn ip(&self) -> Ipv4Addr {
        self.ip()
    }

    fn default_rc(&self) -> RcConfig {
        self.default_rc()
    }

    fn stats(&self) -> HostStats {
        self.stats()
    }

    fn poll_event(&mut self) -> Option<HostEvent> {
        self.poll_event()
    }

    fn create_qp(&mut self, config: RcConfig) -> Result<QpNum, ModifyError> {
        Ok(self.create_qp(config))
    }

    fn set_sq_psn(&mut self, qpn: QpNum, psn: Psn) -> Result<(), ModifyError> {
        self.set_sq_psn(qpn, psn)
    }

    fn connect_qp(
        &mut self,
        now: u64,
        qpn: QpNum,
        remote: Remote,
        rq_psn: Psn,
    ) -> Result<(), ModifyError> {
        self.connect_qp(now, qpn, remote, rq_psn)
    }

    fn take_over_sending(&mut self, qpn: QpNum) -> Result<(), ModifyError> {
        self.take_over_sending(qpn)
    }

    fn expect_next_source(&mut self, qpn: QpNum) -> Result<(), ModifyError> {
        self.expect_next_source(qpn)
    }

    fn conclude_sends(&mut self, now: u64, qpn: QpNum) {
        self.conclude_sends(now, qpn);
    }

    fn join_at(&mut self, qpn: QpNum, psn: Psn, messages: u32) -> Result<(), ModifyError> {
        self.join_at(qpn, psn, messages)
    }

    fn destroy_qp(&mut self, qpn: QpNum) -> Result<(), ModifyError> {
        self.destroy_qp(qpn)
    }

    fn post_send(&mut self, qpn: QpNum, request: SendRequest) -> Result<(), PostError> {
        self.post_send(qpn, request)
    }

    fn post_recv(&mut self, qpn: QpNum, request: RecvRequest) -> Result<(), PostError> {
        self.post_recv(qpn, request)
    }

    fn view(&self, qpn: QpNum) -> Option<QpView> {
        self.qp(qpn).map(|qp| QpView {
            sq_psn: qp.sq_psn(),
            remote: qp.remote(),
            failure: qp.state().failure(),
            stats: qp.stats(),
        })
    }

    fn create_ud_qp(&mut self, config: UdConfig) -> Result<QpNum, ModifyError> {
        Ok(self.create_ud_qp(config))
    }

    fn destroy_ud_qp(&mut self, qpn: QpNum) -> Result<(), ModifyError> {
        self.destroy_ud_qp(qpn)
    }

    fn attach_multicast(&mut self, qpn: QpNum, group: Ipv4Addr) -> Result<(), UdPostError> {
        self.attach_multicast(qpn, group)
    }

    fn resolve(&mut self, now: u64, ip: Ipv4Addr) {
        self.resolve(now, ip);
    }

    fn post_ud_send(&mut self, qpn: QpNum, request: UdSendRequest) -> Result<(), UdPostError> {
        self.post_ud_send(qpn, request)
    }

    fn post_ud_recv(&mut self, qpn: QpNum, request: RecvRequest) -> Result<(), UdPostError> {
        self.post_ud_recv(qpn, request)
    }

    fn register_memory(&mut self, len: u64, remote_write: bool) -> Result<MemoryKey, MemoryError> {
        Ok(self.register_memory(len, remote_write))
    }

    fn register_shared(&mut self, bytes: Arc<[u8]>) -> Result<MemoryKey, MemoryError> {
        Ok(self.register_shared(bytes))
    }

    fn register_at(&mut self, key: MemoryKey, va: u64, len: u64) -> Result<(), MemoryError> {
        self.memory_mut().register_at(key, va, len)
    }

    fn expect_bytes(&mut self, key: MemoryKey, bytes: &Arc<[u8]>) {
        // Of memory that is not there nothing is expected.
        let _ = self.memory_mut().expect(key, bytes);
    }

    fn bind_window(&mut self, part: MemorySlice) -> Result<(u64, u32), MemoryError> {
        let (key, va) = self.bind_window(part)?;
        Ok((va, key.0))
    }

    fn deregister(&mut self, key: MemoryKey) -> Result<(), MemoryError> {
        self.memory_mut().deregister(key)
    }

    fn locate(&self, key: MemoryKey) -> Result<(u64, u32), MemoryError> {
        let region = self.memory().region(key)?;
        Ok((region.virtual_address(), region.key().0))
    }

    fn memory(&self, key: MemoryKey) -> Result<&[u8], MemoryError> {
        Ok(Host::memory(self).region(key)?.bytes())
    }

    fn write_memory(
        &mut self,
        key: MemoryKey,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), MemoryError> {
        self.memory_mut().write(key, offset, bytes)
    }

    fn bind_udp(&mut self, port: u16) {
        self.bind_udp(port);
    }

    fn send_udp(
        &mut self,
        now: u64,
        destination: Ipv4Addr,
        source_port: u16,
        destination_port: u16,
        payload: Vec<u8>,
    ) {
        self.send_udp(now, destination, source_port, destination_port, payload);
    }
}
