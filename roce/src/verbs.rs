//! The interface between collectives or registrations and a host: queue pairs, registered memory and datagrams.
//!
//! [`Host`] implements it in this crate. A host with an RDMA stack (a network card, Linux rxe) implements it by the
//! verbs of its driver, within their limits: see [`DeviceError::Unsupported`].
//!
//! No call waits for the network. Results are reported by [`Verbs::poll_event`].

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

/// Error that an RDMA stack (library, driver or device) has reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum DeviceError {
    /// A system call or library function of the RDMA stack has failed.
    #[error("{call}: {}", io::Error::from_raw_os_error(*errno))]
    System {
        /// Name of the system call or library function.
        call: &'static str,
        /// Error number (`errno`) of the failed call.
        errno: i32,
    },
    /// The RDMA stack does not support the named feature.
    #[error("not supported by this RDMA device: {0}")]
    Unsupported(&'static str),
}

/// Snapshot of a queue pair: PSN, remote end, failure and counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpView {
    /// PSN of the queue pair's next request.
    pub sq_psn: Psn,
    /// Remote end; `None` before the connection.
    pub remote: Option<Remote>,
    /// Reason of the failure; `None` if the queue pair has not failed.
    pub failure: Option<QpFailure>,
    /// Counters of the queue pair.
    pub stats: QpStats,
}

/// A host with reliable connections and datagrams. Times are in nanoseconds of the driver's clock; RDMA stacks with a
/// clock of their own ignore them.
pub trait Verbs {
    /// IPv4 address of the host.
    fn ip(&self) -> Ipv4Addr;

    /// Default settings of queue pairs on the host's link.
    fn default_rc(&self) -> RcConfig;

    /// Counters of the whole host. Counters that the RDMA stack does not have stay 0.
    fn stats(&self) -> HostStats;

    /// Removes and returns the next event for the user.
    fn poll_event(&mut self) -> Option<HostEvent>;

    // ---- Queue pairs ----

    /// Creates a reliable queue pair. Receive buffers may be posted to it at once.
    fn create_qp(&mut self, config: RcConfig) -> Result<QpNum, ModifyError>;

    /// Sets the PSN of the first request of a queue pair, before the queue pair is connected.
    fn set_sq_psn(&mut self, qpn: QpNum, psn: Psn) -> Result<(), ModifyError>;

    /// Connects a queue pair to `remote`, whose requests begin with `rq_psn`. [`HostEvent::Connected`] or [`HostEvent::QpFailed`] follows.
    fn connect_qp(
        &mut self,
        now: u64,
        qpn: QpNum,
        remote: Remote,
        rq_psn: Psn,
    ) -> Result<(), ModifyError>;

    /// Makes this host the source of a group (the member that sends): [`Host::take_over_sending`].
    fn take_over_sending(&mut self, qpn: QpNum) -> Result<(), ModifyError>;

    /// Prepares the present source of a group for the next source: [`Host::expect_next_source`]. An RDMA stack that
    /// cannot do so while messages are in flight does it when those are acknowledged.
    fn expect_next_source(&mut self, qpn: QpNum) -> Result<(), ModifyError>;

    /// Completes all posted sends of a queue pair as acknowledged: [`Host::conclude_sends`].
    fn conclude_sends(&mut self, now: u64, qpn: QpNum);

    /// Starts a queue pair at the present PSN and message number of the group that it joins: [`Host::join_at`].
    fn join_at(&mut self, qpn: QpNum, psn: Psn, messages: u32) -> Result<(), ModifyError>;

    /// Destroys a queue pair; its work requests get no completions.
    fn destroy_qp(&mut self, qpn: QpNum) -> Result<(), ModifyError>;

    /// Posts a message to send.
    fn post_send(&mut self, qpn: QpNum, request: SendRequest) -> Result<(), PostError>;

    /// Posts a receive buffer.
    fn post_recv(&mut self, qpn: QpNum, request: RecvRequest) -> Result<(), PostError>;

    /// State and counters of a queue pair; `None` if there is no such queue pair.
    fn view(&self, qpn: QpNum) -> Option<QpView>;

    // ---- Unreliable datagrams ----

    /// Creates a datagram queue pair: [`Host::create_ud_qp`].
    fn create_ud_qp(&mut self, config: UdConfig) -> Result<QpNum, ModifyError>;

    /// Destroys a datagram queue pair and detaches it from its groups; its work requests get no completions.
    fn destroy_ud_qp(&mut self, qpn: QpNum) -> Result<(), ModifyError>;

    /// Attaches a queue pair to a multicast group: [`Host::attach_multicast`]. On some RDMA stacks a host's own
    /// datagrams to its groups are looped back.
    fn attach_multicast(&mut self, qpn: QpNum, group: Ipv4Addr) -> Result<(), UdPostError>;

    /// Resolves the MAC address of host `ip`, to which datagrams are to be sent. [`HostEvent::Resolved`] reports the
    /// result.
    fn resolve(&mut self, now: u64, ip: Ipv4Addr);

    /// Posts a datagram to send.
    fn post_ud_send(&mut self, qpn: QpNum, request: UdSendRequest) -> Result<(), UdPostError>;

    /// Posts a receive buffer. Its first [`crate::ud::GRH_LEN`] bytes are reserved; the payload follows them.
    fn post_ud_recv(&mut self, qpn: QpNum, request: RecvRequest) -> Result<(), UdPostError>;

    // ---- Memory ----

    /// Registers a region of `len` zero bytes to receive data. Its address is a multiple of a power of two that is at
    /// least `len`. `remote_write` allows remote WRITEs.
    fn register_memory(&mut self, len: u64, remote_write: bool) -> Result<MemoryKey, MemoryError>;

    /// Registers a region with these bytes, to send from.
    fn register_shared(&mut self, bytes: Arc<[u8]>) -> Result<MemoryKey, MemoryError>;

    /// Registers a region of `len` zero bytes with this key and address, open to remote WRITEs.
    fn register_at(&mut self, key: MemoryKey, va: u64, len: u64) -> Result<(), MemoryError>;

    /// Sets the expected content of a region. Where sender and receiver are in one process, a region with this content
    /// takes no memory of its own ([`crate::rc::MemoryTable::expect`]). Elsewhere it has no effect.
    fn expect_bytes(&mut self, key: MemoryKey, bytes: &Arc<[u8]>) {
        let _ = (key, bytes);
    }

    /// Opens a part of a region to remote WRITEs, as a memory window. Returns its virtual address and R_Key.
    fn bind_window(&mut self, part: MemorySlice) -> Result<(u64, u32), MemoryError>;

    /// Deregisters a region and its windows.
    fn deregister(&mut self, key: MemoryKey) -> Result<(), MemoryError>;

    /// Virtual address and R_Key of a region.
    fn locate(&self, key: MemoryKey) -> Result<(u64, u32), MemoryError>;

    /// Contents of a region.
    fn memory(&self, key: MemoryKey) -> Result<&[u8], MemoryError>;

    /// Writes `bytes` to a region at `offset`.
    fn write_memory(
        &mut self,
        key: MemoryKey,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), MemoryError>;

    // ---- UDP ----

    /// Opens a UDP port. Its datagrams are reported as events.
    fn bind_udp(&mut self, port: u16);

    /// Sends a UDP datagram. It is dropped if the address cannot be resolved.
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
        // An unknown region has no expected content.
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
