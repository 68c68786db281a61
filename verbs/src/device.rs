//! An RDMA device as a host: a network interface card (NIC), or Linux's software device rxe.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

use alfirk_roce::host::{HostEvent, HostStats};
use alfirk_roce::rc::{
    AckTimeout, BadMtu, MemoryError, MemoryKey, MemorySlice, ModifyError, PathMtu, PostError,
    QpFailure, RcConfig, RecvRequest, Remote, SendRequest,
};
use alfirk_roce::ud::{UdConfig, UdPostError, UdSendRequest};
use alfirk_roce::verbs::{DeviceError, QpView, Verbs};
use alfirk_roce::wire::{NakCode, Psn, QpNum};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};

use crate::counters::Counters;
use crate::datagrams::{AddressHandles, UdQueuePair};
use crate::memory::Memory;
use crate::queue_pair::QueuePair;
use crate::sys::{Ah, Context, Info};
use crate::udp_ports::Subscription;

/// Selection of a device, and the default timeout of its queue pairs.
#[derive(Debug, Clone)]
pub struct DeviceConfig {
    /// Name of the device, as listed by `ibv_devices`.
    pub name: String,
    /// Number of the device's port, from 1.
    pub port: u8,
    /// Default local ACK timeout of the device's queue pairs; a queue pair's own settings may replace it.
    pub ack_timeout: AckTimeout,
}

impl DeviceConfig {
    /// Creates the configuration for port 1, with an ACK timeout of 134 ms, which also suits software switches.
    pub fn new(name: impl Into<String>) -> DeviceConfig {
        DeviceConfig {
            name: name.into(),
            port: 1,
            ack_timeout: AckTimeout::new(15),
        }
    }
}

/// Reason why a device cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no device with that name, or its port has no GID for RoCEv2 over IPv4.
    #[error("RDMA device {name}: {error}")]
    Device {
        /// Name of the device.
        name: String,
        /// Error of libibverbs.
        error: DeviceError,
    },
    /// The port of the device is not active.
    #[error(
        "RDMA device {name}: port {port} is not active; check that its network interface is up"
    )]
    Down {
        /// Name of the device.
        name: String,
        /// Number of the port.
        port: u8,
    },
    /// The MTU of the link is too small for RoCEv2.
    #[error("RDMA device {name}: {error}")]
    Mtu {
        /// Name of the device.
        name: String,
        /// The MTU of the link, and what RoCEv2 needs.
        error: BadMtu,
    },
    /// The operating system cannot watch the file descriptors of the device (epoll).
    #[error("epoll: {0}")]
    Epoll(io::Error),
}

/// An RDMA device as a host: queue pairs and memory by libibverbs, UDP datagrams by sockets of the operating system.
///
/// Wait until its file descriptor ([`AsFd`]) is readable, call [`Device::handle_ready`], and take events from
/// [`Verbs::poll_event`]. It has no timers.
///
/// Not supported: choice of memory keys ([`Verbs::register_at`]), congestion control per queue pair, and packet
/// counters per queue pair ([`QpView::stats`] counts messages, without retransmissions).
pub struct Device {
    // Fields are dropped in this order: queue pairs before the memory that they use.
    qps: BTreeMap<QpNum, QueuePair>,
    ud_qps: BTreeMap<QpNum, UdQueuePair>,
    /// Address handles (destinations of datagrams) of hosts and multicast groups.
    address_handles: AddressHandles,
    /// Sockets by which the operating system joins the multicast groups of datagram queue pairs, by queue pair and
    /// group.
    memberships: BTreeMap<(QpNum, Ipv4Addr), UdpSocket>,
    /// Queue pairs by the cookies of their completion queues. A cookie is the number that a completion event contains.
    cookies: BTreeMap<u64, QpNum>,
    memory: Memory,
    ports: BTreeMap<u16, Subscription>,
    events: VecDeque<HostEvent>,
    next_cookie: u64,
    config: DeviceConfig,
    rc: RcConfig,
    info: Info,
    counters: Counters,
    epoll: Epoll,
    context: Context,
}

impl Device {
    /// Opens a device. Its port must be active and have an IPv4 address.
    pub fn open(config: DeviceConfig) -> Result<Device, OpenError> {
        let name = config.name.clone();
        let (context, info) =
            Context::open(&name, config.port).map_err(|error| OpenError::Device {
                name: name.clone(),
                error,
            })?;
        if !info.active {
            let port = config.port;
            return Err(OpenError::Down { name, port });
        }
        let mtu = PathMtu::try_from(info.mtu).map_err(|error| OpenError::Mtu {
            name: name.clone(),
            error,
        })?;
        let epoll =
            Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|e| OpenError::Epoll(e.into()))?;
        let device = Device {
            qps: BTreeMap::new(),
            ud_qps: BTreeMap::new(),
            address_handles: AddressHandles::new(),
            memberships: BTreeMap::new(),
            cookies: BTreeMap::new(),
            memory: Memory::default(),
            ports: BTreeMap::new(),
            events: VecDeque::new(),
            next_cookie: 1,
            rc: RcConfig {
                ack_timeout: config.ack_timeout,
                ..RcConfig::new(mtu)
            },
            counters: Counters::new(&name, config.port, info.gid_index),
            config,
            info,
            epoll,
            context,
        };
        device
            .watch(device.context.completion_fd())
            .and_then(|()| device.watch(device.context.async_fd()))
            .map_err(OpenError::Epoll)?;
        Ok(device)
    }

    /// The name of the device.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// The network interface of the port.
    pub fn interface(&self) -> io::Result<String> {
        self.counters.interface()
    }

    /// Registers memory of the caller. Messages are sent from this memory without a copy, and also received into it if
    /// it is writable.
    ///
    /// # Safety
    ///
    /// The bytes must stay valid until [`Verbs::deregister`] or the end of the device, and must not be written to
    /// meanwhile. If they are writable, no reference to them may exist, either.
    pub unsafe fn register_lent(
        &mut self,
        start: *mut u8,
        len: u64,
        is_writable: bool,
    ) -> Result<MemoryKey, MemoryError> {
        self.check_length(len)?;
        // SAFETY: guaranteed by the caller.
        unsafe {
            self.memory
                .register_lent(&self.context, start, len, is_writable)
        }
    }

    fn check_length(&self, len: u64) -> Result<(), MemoryError> {
        match len > self.info.max_mr_size {
            true => Err(DeviceError::Unsupported("a memory region of that length").into()),
            false => Ok(()),
        }
    }

    fn watch(&self, fd: RawFd) -> io::Result<()> {
        // SAFETY: the watched descriptors belong to the context and the sockets of this device, and are open.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        Ok(self
            .epoll
            .add(fd, EpollEvent::new(EpollFlags::EPOLLIN, 0))?)
    }

    /// Handles pending completions, failures and datagrams. Does not wait.
    pub fn handle_ready(&mut self) {
        while let Some(cookie) = self.context.next_completion_event() {
            // The event may belong to a destroyed queue pair.
            if let Some(qpn) = self.cookies.get(&cookie).copied() {
                self.drain(qpn);
            }
        }
        while let Some((event, qpn)) = self.context.next_async_event() {
            self.handle_async_event(event, QpNum::new(qpn));
        }
        for port in self.ports.values() {
            port.receive(&mut self.events);
        }
    }

    /// Handles the completions of one queue pair, and posts its queued work requests. Arms the completion queue first, so
    /// that each later completion causes an event.
    fn drain(&mut self, qpn: QpNum) {
        if let Some(qp) = self.qps.get_mut(&qpn) {
            qp.drain(&self.context, &mut self.memory, &mut self.events);
        }
        if let Some(qp) = self.ud_qps.get_mut(&qpn) {
            qp.drain(&mut self.memory, &self.address_handles, &mut self.events);
        }
    }

    /// Handles an asynchronous event: `event` is a value of `enum ibv_event_type`.
    fn handle_async_event(&mut self, event: u32, qpn: QpNum) {
        let failure = match event {
            1 => QpFailure::Responder(NakCode::RemoteOperationalError),
            2 => QpFailure::Responder(NakCode::InvalidRequest),
            3 => QpFailure::Responder(NakCode::RemoteAccessError),
            _ => return,
        };
        // Earlier completions are reported first.
        self.drain(qpn);
        if let Some(qp) = self.qps.get_mut(&qpn) {
            qp.fail(failure, &mut self.memory, &mut self.events);
        }
    }

    /// Maximum number of work requests in each queue of a queue pair.
    fn depth(&self) -> u32 {
        self.info.max_qp_wr.min(self.info.max_cqe / 2).max(1)
    }

    /// Creates the address handle for datagrams to a host or group, unless it exists.
    fn address_handle(&mut self, ip: Ipv4Addr) -> Result<(), DeviceError> {
        if !self.address_handles.contains_key(&ip) {
            let handle = Ah::create(&self.context, ip)?;
            self.address_handles.insert(ip, handle);
        }
        Ok(())
    }

    fn qp_mut(&mut self, qpn: QpNum) -> Result<&mut QueuePair, ModifyError> {
        self.qps
            .get_mut(&qpn)
            .ok_or(ModifyError::NoSuchQueuePair(qpn))
    }

    /// Returns the socket of a UDP port, and creates it at the first use.
    fn socket(&mut self, port: u16) -> io::Result<&UdpSocket> {
        if !self.ports.contains_key(&port) {
            let listening = Subscription::new(self.info.ip, port)?;
            for fd in listening.fds() {
                self.watch(fd.as_raw_fd())?;
            }
            self.ports.insert(port, listening);
        }
        Ok(self.ports[&port].socket())
    }
}

impl AsFd for Device {
    /// Readable when [`Device::handle_ready`] has work.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}

/// Whether an error of a connection means that the remote host is not reachable, so that the device is not at fault.
fn is_unreachable(error: ModifyError) -> bool {
    let ModifyError::Device(DeviceError::System { errno, .. }) = error else {
        return false;
    };
    [libc::ETIMEDOUT, libc::EHOSTUNREACH, libc::ENETUNREACH].contains(&errno)
}

/// Returns a random number from the operating system.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl Verbs for Device {
    fn ip(&self) -> Ipv4Addr {
        self.info.ip
    }

    fn default_rc(&self) -> RcConfig {
        self.rc
    }

    fn stats(&self) -> HostStats {
        self.counters.read()
    }

    fn poll_event(&mut self) -> Option<HostEvent> {
        self.events.pop_front()
    }

    fn create_qp(&mut self, config: RcConfig) -> Result<QpNum, ModifyError> {
        if config.congestion.is_some() {
            let what = "congestion control is a setting of the device, not of a queue pair";
            return Err(DeviceError::Unsupported(what).into());
        }
        if config.mtu > self.rc.mtu {
            let what = "the path MTU is larger than its link allows";
            return Err(DeviceError::Unsupported(what).into());
        }
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        let psn = Psn::new(random() as u32);
        let depth = self.depth();
        let qp = QueuePair::create(&self.context, depth, cookie, psn, config)?;
        let qpn = qp.qpn();
        self.cookies.insert(cookie, qpn);
        self.qps.insert(qpn, qp);
        Ok(qpn)
    }

    fn set_sq_psn(&mut self, qpn: QpNum, psn: Psn) -> Result<(), ModifyError> {
        self.qp_mut(qpn)?.set_sq_psn(psn)
    }

    /// Blocks until the MAC address is resolved; with rxe at most a second.
    fn connect_qp(
        &mut self,
        _now: u64,
        qpn: QpNum,
        remote: Remote,
        rq_psn: Psn,
    ) -> Result<(), ModifyError> {
        match self.qp_mut(qpn)?.connect(remote, rq_psn) {
            Ok(()) => self.events.push_back(HostEvent::Connected { qpn }),
            Err(error) if is_unreachable(error) => {
                let failure = QpFailure::Unreachable(remote.ip);
                if let Some(qp) = self.qps.get_mut(&qpn) {
                    qp.fail(failure, &mut self.memory, &mut self.events);
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn take_over_sending(&mut self, qpn: QpNum) -> Result<(), ModifyError> {
        self.drain(qpn);
        let qp = self
            .qps
            .get_mut(&qpn)
            .ok_or(ModifyError::NoSuchQueuePair(qpn))?;
        qp.take_over_sending(&self.memory)
    }

    fn expect_next_source(&mut self, qpn: QpNum) -> Result<(), ModifyError> {
        let qp = self
            .qps
            .get_mut(&qpn)
            .ok_or(ModifyError::NoSuchQueuePair(qpn))?;
        qp.expect_next_source(&self.memory)
    }

    fn conclude_sends(&mut self, _now: u64, qpn: QpNum) {
        self.drain(qpn);
        let Some(qp) = self.qps.get_mut(&qpn) else {
            return;
        };
        if let Err(error) = qp.conclude(&mut self.memory, &mut self.events) {
            tracing::warn!("queue pair {qpn}: {error}");
            qp.fail(QpFailure::Closed, &mut self.memory, &mut self.events);
        }
    }

    /// The device counts messages itself: its MSN starts at 0, whatever `_messages` is.
    fn join_at(&mut self, qpn: QpNum, psn: Psn, _messages: u32) -> Result<(), ModifyError> {
        self.drain(qpn);
        let qp = self
            .qps
            .get_mut(&qpn)
            .ok_or(ModifyError::NoSuchQueuePair(qpn))?;
        qp.join_at(&self.memory, psn)
    }

    fn destroy_qp(&mut self, qpn: QpNum) -> Result<(), ModifyError> {
        self.qps
            .remove(&qpn)
            .ok_or(ModifyError::NoSuchQueuePair(qpn))?;
        self.cookies.retain(|_, known| *known != qpn);
        Ok(())
    }

    fn post_send(&mut self, qpn: QpNum, request: SendRequest) -> Result<(), PostError> {
        let qp = self
            .qps
            .get_mut(&qpn)
            .ok_or(PostError::NoSuchQueuePair(qpn))?;
        qp.post_send(&self.context, &mut self.memory, request)
    }

    fn post_recv(&mut self, qpn: QpNum, request: RecvRequest) -> Result<(), PostError> {
        let qp = self
            .qps
            .get_mut(&qpn)
            .ok_or(PostError::NoSuchQueuePair(qpn))?;
        qp.post_recv(&self.memory, request)
    }

    fn view(&self, qpn: QpNum) -> Option<QpView> {
        self.qps.get(&qpn).map(|qp| QpView {
            sq_psn: qp.sq_psn(),
            remote: qp.remote(),
            failure: qp.state().failure(),
            stats: qp.stats(),
        })
    }

    fn create_ud_qp(&mut self, config: UdConfig) -> Result<QpNum, ModifyError> {
        if config.mtu > self.rc.mtu {
            let what = "the path MTU is larger than its link allows";
            return Err(DeviceError::Unsupported(what).into());
        }
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        let depth = self.depth();
        let psn = Psn::new(random() as u32).get();
        let (context, memory) = (&self.context, &mut self.memory);
        let qp = UdQueuePair::create(context, memory, depth, cookie, psn, config)?;
        let qpn = qp.qpn();
        self.cookies.insert(cookie, qpn);
        self.ud_qps.insert(qpn, qp);
        Ok(qpn)
    }

    fn destroy_ud_qp(&mut self, qpn: QpNum) -> Result<(), ModifyError> {
        let qp = self.ud_qps.remove(&qpn);
        let qp = qp.ok_or(ModifyError::NoSuchQueuePair(qpn))?;
        qp.destroy(&mut self.memory);
        self.cookies.retain(|_, known| *known != qpn);
        self.memberships.retain(|(of, _), _| *of != qpn);
        Ok(())
    }

    /// Attaches the queue pair to the group, and makes the operating system join the group, because it otherwise drops
    /// the group's packets for rxe. An operating system in the group also receives its own datagrams.
    fn attach_multicast(&mut self, qpn: QpNum, group: Ipv4Addr) -> Result<(), UdPostError> {
        if !group.is_multicast() {
            return Err(UdPostError::WrongQueuePair(group));
        }
        let qp = self.ud_qps.get_mut(&qpn);
        let qp = qp.ok_or(UdPostError::NoSuchQueuePair(qpn))?;
        let joined = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
            socket.join_multicast_v4(&group, &self.info.ip)?;
            Ok(socket)
        });
        let socket = joined.map_err(|error| DeviceError::System {
            call: "IP_ADD_MEMBERSHIP",
            errno: error.raw_os_error().unwrap_or(libc::EIO),
        })?;
        qp.attach_multicast(group)?;
        self.memberships.insert((qpn, group), socket);
        Ok(())
    }

    /// Blocks until the MAC address is resolved, at most a few seconds.
    fn resolve(&mut self, _now: u64, ip: Ipv4Addr) {
        let is_known = match self.address_handle(ip) {
            Ok(()) => true,
            Err(error) => {
                tracing::debug!("address handle for {ip}: {error}");
                false
            }
        };
        self.events.push_back(HostEvent::Resolved { ip, is_known });
    }

    fn post_ud_send(&mut self, qpn: QpNum, request: UdSendRequest) -> Result<(), UdPostError> {
        if request.to.ip.is_multicast() {
            self.address_handle(request.to.ip)?;
        }
        let qp = self.ud_qps.get_mut(&qpn);
        let qp = qp.ok_or(UdPostError::NoSuchQueuePair(qpn))?;
        qp.post_send(&mut self.memory, &self.address_handles, request)
    }

    fn post_ud_recv(&mut self, qpn: QpNum, request: RecvRequest) -> Result<(), UdPostError> {
        let qp = self.ud_qps.get_mut(&qpn);
        let qp = qp.ok_or(UdPostError::NoSuchQueuePair(qpn))?;
        qp.post_recv(&self.memory, request)
    }

    fn register_memory(&mut self, len: u64, remote_write: bool) -> Result<MemoryKey, MemoryError> {
        self.check_length(len)?;
        self.memory.register(&self.context, len, remote_write)
    }

    fn register_shared(&mut self, bytes: Arc<[u8]>) -> Result<MemoryKey, MemoryError> {
        self.memory.register_shared(&self.context, bytes)
    }

    fn register_at(&mut self, _key: MemoryKey, _va: u64, _len: u64) -> Result<(), MemoryError> {
        let what =
            "it chooses the keys of its memory itself, so a group's members cannot share one";
        Err(DeviceError::Unsupported(what).into())
    }

    fn bind_window(&mut self, part: MemorySlice) -> Result<(u64, u32), MemoryError> {
        self.memory.bind_window(&self.context, part)
    }

    fn deregister(&mut self, key: MemoryKey) -> Result<(), MemoryError> {
        self.memory.remove(key)
    }

    fn locate(&self, key: MemoryKey) -> Result<(u64, u32), MemoryError> {
        self.memory.locate(key)
    }

    fn memory(&self, key: MemoryKey) -> Result<&[u8], MemoryError> {
        self.memory.bytes(key)
    }

    fn write_memory(
        &mut self,
        key: MemoryKey,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), MemoryError> {
        self.memory.write(key, offset, bytes)
    }

    fn bind_udp(&mut self, port: u16) {
        if let Err(error) = self.socket(port) {
            tracing::warn!("UDP port {port}: {error}");
        }
    }

    fn send_udp(
        &mut self,
        _now: u64,
        destination: Ipv4Addr,
        source_port: u16,
        destination_port: u16,
        payload: Vec<u8>,
    ) {
        let to = SocketAddrV4::new(destination, destination_port);
        let sent = self
            .socket(source_port)
            .and_then(|socket| socket.send_to(&payload, to));
        if let Err(error) = sent {
            // The datagram counts as lost; protocols that need a reply repeat it.
            tracing::debug!("UDP to {to}: {error}");
        }
    }
}
