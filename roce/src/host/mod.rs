//! A host with one network port: ARP, IPv4, UDP, queue pairs and registered memory, without I/O.
//!
//! The driver passes in frames and the time, and polls for frames whenever its port can send one:
//!
//! ```text
//!  handle_frame(now, frame) ──▶ ┌──────┐ ──▶ poll_transmit(now): next frame
//!  handle_timeout(now) ───────▶ │ Host │ ──▶ poll_timeout(): when to call handle_timeout
//!  create_qp, post_send, .. ──▶ └──────┘ ──▶ poll_event(): completions, failures, datagrams
//! ```
//!
//! The user posts work through verbs. The rate of the port is not limited here; the driver polls at the rate of its link.

mod arbiter;
mod config;
mod event;
mod frame;
mod neighbor;
mod packet;
mod queue_pairs;
mod receive;
mod split;
mod stats;
mod ud;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_packet_io::frame::SplitFrame;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use arbiter::{Arbiter, Deadlines};
pub use config::{HostConfig, HostTiming};
pub use event::HostEvent;
pub use frame::Outer;
use frame::{Envelope, PacketForm};
use neighbor::{ArpAction, Neighbors};
pub use packet::{Packet, RcFrame};
use queue_pairs::QueuePairs;
pub use stats::{Drops, HostStats};
use ud::Datagrams;

use crate::rc::{
    BadMtu, MemoryError, MemoryKey, MemorySlice, MemoryTable, ModifyError, PostError, QpFailure,
    QpState, QueuePair, RcConfig, RecvRequest, Remote, SendRequest,
};
use crate::steady::{StateVisitor, Stream};
use crate::ud::MULTICAST_QPN;
use crate::wire::{arp, ipv4, udp, MacAddr, Psn, QpNum};

/// RoCEv2 source ports are in the dynamic range (0xc000 to 0xffff), so that queue pairs spread over ECMP paths.
const FIRST_SOURCE_PORT: u16 = 0xc000;
/// The first queue pair number. 0 and 1 are reserved in InfiniBand, and 1 is also a group's virtual number.
const FIRST_QPN: u32 = 0x11;

/// Largest number of control frames (ARP, UDP) in the queue. Beyond it, ARP requests get no reply.
const MAX_CONTROL_FRAMES: usize = 64;
/// Largest number of UDP datagrams that wait for the MAC address of one next hop. Further ones are dropped.
const MAX_UNRESOLVED_DATAGRAMS: usize = 64;

/// A host with one network port.
pub struct Host {
    config: HostConfig,
    default_rc: RcConfig,
    rng: ChaCha8Rng,
    next_qpn: u32,
    next_identification: u16,
    qps: QueuePairs,
    /// For each next hop: the queue pairs that wait for its MAC address.
    resolving: BTreeMap<Ipv4Addr, BTreeSet<QpNum>>,
    datagrams: Datagrams,
    memory: MemoryTable,
    neighbors: Neighbors,
    /// ARP and UDP frames, which are sent before the frames of queue pairs.
    control: VecDeque<Vec<u8>>,
    /// Datagrams that wait for the link-layer address of their next hop.
    waiting: Vec<(Ipv4Addr, Envelope, Vec<u8>)>,
    udp_ports: BTreeSet<u16>,
    arbiter: Arbiter,
    deadlines: Deadlines,
    events: VecDeque<HostEvent>,
    stats: HostStats,
}

impl Host {
    /// Creates a host. Fails if the link's MTU is too small for RoCEv2.
    pub fn new(config: HostConfig) -> Result<Host, BadMtu> {
        let default_rc = config.rc()?;
        let mut rng = ChaCha8Rng::seed_from_u64(config.seed ^ u64::from(u32::from(config.ip)));
        Ok(Host {
            default_rc,
            next_qpn: FIRST_QPN + rng.next_u32() % 0x40_0000,
            next_identification: (rng.next_u32() as u16).max(1),
            memory: MemoryTable::new(rng.next_u32() & 0xffff),
            rng,
            config,
            qps: QueuePairs::default(),
            datagrams: Datagrams::default(),
            resolving: BTreeMap::new(),
            neighbors: Neighbors::default(),
            control: VecDeque::new(),
            waiting: Vec::new(),
            udp_ports: BTreeSet::new(),
            arbiter: Arbiter::default(),
            deadlines: Deadlines::default(),
            events: VecDeque::new(),
            stats: HostStats::default(),
        })
    }

    /// Settings of the host.
    pub fn config(&self) -> &HostConfig {
        &self.config
    }

    /// Name of the host in messages to the user.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// IPv4 address of the host.
    pub fn ip(&self) -> Ipv4Addr {
        self.config.ip
    }

    /// Default settings of reliable queue pairs on this host's link.
    pub fn default_rc(&self) -> RcConfig {
        self.default_rc
    }

    /// Counters of the host.
    pub fn stats(&self) -> HostStats {
        let mut stats = self.stats;
        for qp in self.qps.iter() {
            stats.violations += qp.stats().violations;
        }
        stats
    }

    // ---- Driver side ----

    /// Handles a received frame.
    pub fn handle_frame(&mut self, now: u64, frame: &[u8]) {
        self.stats.rx_frames += 1;
        self.stats.rx_bytes += frame.len() as u64;
        if let Err(reason) = self.receive(now, frame) {
            self.stats.drops.count(reason);
        }
    }

    /// Handles a received packet, which a simulator passes in its own representation. For a frame as bytes, see
    /// [`Host::handle_frame`].
    pub fn handle_packet(&mut self, now: u64, packet: &Packet) {
        let frame = match packet {
            Packet::Bytes(frame) => return self.handle_split(now, frame),
            Packet::Rc(frame) => frame,
        };
        self.stats.rx_frames += 1;
        self.stats.rx_bytes += frame.frame_len() as u64;
        let received = self.receive_parts(now, &frame.outer, &frame.packet(), || true);
        if let Err(reason) = received {
            self.stats.drops.count(reason);
        }
    }

    /// Number of packets that may follow `frame` in its message without a visible effect, such as a reply or a
    /// completion: [`QueuePair::silent_followers`]. `frame` was just passed to [`Host::handle_packet`].
    pub fn silent_followers(&self, frame: &RcFrame) -> u64 {
        let qp = self.qps.get(frame.headers.bth.dest_qp);
        let of_remote = |qp: &&QueuePair| {
            qp.remote()
                .is_some_and(|remote| remote.ip == frame.outer.ipv4.source)
        };
        qp.filter(of_remote)
            .map_or(0, |qp| qp.silent_followers(&frame.packet()))
    }

    /// Handles `count` packets in one call: `first` and the next packets of its message. The effect is that of
    /// [`Host::handle_packet`] for each.
    ///
    /// # Panics
    ///
    /// May panic if `count` exceeds [`Host::silent_followers`].
    pub fn handle_followers(&mut self, first: &RcFrame, count: u64) {
        self.stats.rx_frames += count;
        self.stats.rx_bytes += count * first.frame_len() as u64;
        let scheduled = self.qps.get_scheduled(first.headers.bth.dest_qp);
        let qp = &mut scheduled.expect("silent_followers found the queue pair").qp;
        qp.handle_followers(&first.packets(count), count, &mut self.memory);
    }

    /// Removes and returns the next frame to send; `None` if there is none now.
    pub fn poll_transmit(&mut self, now: u64) -> Option<Vec<u8>> {
        self.poll(now, PacketForm::Whole).map(Packet::into_bytes)
    }

    /// Removes and returns the next frame to send, without a copy of a long payload of a reliable connection. Such a
    /// frame has two parts: its headers, and the shared payload with its trailer.
    pub fn poll_split(&mut self, now: u64) -> Option<SplitFrame> {
        self.poll(now, PacketForm::Split).map(Packet::into_split)
    }

    /// Removes and returns the next packet to send in the representation for simulators: a packet of a reliable
    /// connection has header fields, and its payload by reference.
    pub fn poll_packet(&mut self, now: u64) -> Option<Packet> {
        self.poll(now, PacketForm::Fields)
    }

    fn poll(&mut self, now: u64, form: PacketForm) -> Option<Packet> {
        let packet = match self.control.pop_front() {
            Some(frame) => frame.into(),
            None => self.poll_queue_pairs(now, form)?,
        };
        self.stats.tx_frames += 1;
        self.stats.tx_bytes += packet.len() as u64;
        Some(packet)
    }

    /// The time of the next [`Host::handle_timeout`], in nanoseconds; `None` if no timer runs.
    pub fn poll_timeout(&self) -> Option<u64> {
        [self.deadlines.next(), self.neighbors.poll_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether there is neither an event for the user nor a frame to send. If this holds after a packet, and
    /// [`Host::qp_deadline`] is unchanged, the packet has no effect that the driver must handle.
    pub fn is_quiet(&self) -> bool {
        self.events.is_empty() && self.control.is_empty() && self.arbiter.is_empty()
    }

    /// Next deadline of all queue pairs, in nanoseconds: the part of [`Host::poll_timeout`] that a packet can change.
    pub fn qp_deadline(&self) -> Option<u64> {
        self.deadlines.next()
    }

    /// Handles every timer that has expired by `now`.
    pub fn handle_timeout(&mut self, now: u64) {
        while let Some(qpn) = self.deadlines.due(now) {
            let qp = self.qps.get_mut(qpn);
            let qp = qp.expect("a removed queue pair has no deadline");
            qp.handle_timeout(now);
            self.settle_queue_pair(qpn);
        }
        for due in self.neighbors.handle_timeout(now, &self.config.timing) {
            match due {
                ArpAction::Request(ip) => self.send_arp_request(ip),
                ArpAction::GiveUp(ip) => self.fail_unresolved(ip),
            }
        }
    }

    /// Removes and returns the next event for the user.
    pub fn poll_event(&mut self) -> Option<HostEvent> {
        self.events.pop_front()
    }

    /// The streams that this host sends at present.
    pub fn streams(&self) -> impl Iterator<Item = Stream> + '_ {
        self.qps.iter().filter_map(|qp| qp.stream(&self.memory))
    }

    /// Visits the state that packets of reliable connections and timers change. The driver must ensure that nothing else
    /// happens to the host in the period that is repeated.
    pub fn visit_state(&mut self, visitor: &mut StateVisitor<'_>) {
        if !self.events.is_empty() || !self.control.is_empty() {
            visitor.unsupported();
        }
        self.next_identification = visitor.identification(self.next_identification);
        self.stats.visit_state(visitor);
        self.arbiter.visit_state(visitor);
        if visitor.shifts() {
            self.deadlines = Deadlines::default();
        }
        for scheduled in self.qps.iter_mut() {
            let (own, memory) = (self.config.ip, &mut self.memory);
            scheduled.qp.visit_state(own, memory, visitor);
            if visitor.shifts() {
                scheduled.restore_deadline(&mut self.deadlines);
            }
        }
        // ARP requests are rare, and end the steady state.
        let pending = self.neighbors.poll_timeout();
        let unchanged = visitor.optional_time(pending);
        debug_assert_eq!(pending, unchanged, "a pending ARP request limits the shift");
    }

    // ---- Verbs ----

    /// Creates a queue pair with a number and an initial PSN that the host chooses.
    pub fn create_qp(&mut self, config: RcConfig) -> QpNum {
        let psn = Psn::new(self.rng.next_u32());
        let qpn = self.free_qpn();
        self.qps.insert(QueuePair::new(qpn, psn, config));
        qpn
    }

    /// Connects a queue pair. [`HostEvent::Connected`] follows when the remote address is resolved, or [`HostEvent::QpFailed`] if all
    /// ARP requests time out.
    pub fn connect_qp(
        &mut self,
        now: u64,
        qpn: QpNum,
        remote: Remote,
        rq_psn: Psn,
    ) -> Result<(), ModifyError> {
        self.qp_mut(qpn)?.connect(remote, rq_psn)?;
        let Some(hop) = self.next_hop(remote.ip) else {
            self.fail_qp(qpn, QpFailure::Unreachable(remote.ip));
            return Ok(());
        };
        if self.neighbors.pin(hop) {
            self.events.push_back(HostEvent::Connected { qpn });
        } else {
            self.resolving.entry(hop).or_default().insert(qpn);
            self.neighbors.resolve(now, hop);
        }
        Ok(())
    }

    /// Posts a message to send.
    pub fn post_send(&mut self, qpn: QpNum, request: SendRequest) -> Result<(), PostError> {
        let qp = self
            .qps
            .get_mut(qpn)
            .ok_or(PostError::NoSuchQueuePair(qpn))?;
        qp.post_send(&self.memory, request)?;
        self.settle_queue_pair(qpn);
        Ok(())
    }

    /// Posts a receive buffer.
    pub fn post_recv(&mut self, qpn: QpNum, request: RecvRequest) -> Result<(), PostError> {
        let qp = self
            .qps
            .get_mut(qpn)
            .ok_or(PostError::NoSuchQueuePair(qpn))?;
        qp.post_recv(&self.memory, request)
    }

    /// The queue pair with this number, for its state and counters; `None` if it does not exist.
    pub fn qp(&self, qpn: QpNum) -> Option<&QueuePair> {
        self.qps.get(qpn)
    }

    /// All queue pairs, ordered by number.
    pub fn qps(&self) -> impl Iterator<Item = &QueuePair> {
        self.qps.iter()
    }

    /// Sets the PSN of a queue pair's next request; the requester must be idle.
    pub fn set_sq_psn(&mut self, qpn: QpNum, psn: Psn) -> Result<(), ModifyError> {
        self.qp_mut(qpn)?.set_sq_psn(psn)
    }

    /// Sets the PSN that a queue pair expects next; no message may be partly received.
    pub fn set_rq_psn(&mut self, qpn: QpNum, psn: Psn) -> Result<(), ModifyError> {
        self.qp_mut(qpn)?.set_rq_psn(psn)
    }

    /// Makes this host the source of the group to which a queue pair belongs: [`QueuePair::take_over_sending`].
    pub fn take_over_sending(&mut self, qpn: QpNum) -> Result<(), ModifyError> {
        self.qp_mut(qpn)?.take_over_sending()
    }

    /// Prepares the present source of a group for the next source: [`QueuePair::expect_next_source`].
    pub fn expect_next_source(&mut self, qpn: QpNum) -> Result<(), ModifyError> {
        self.qp_mut(qpn)?.expect_next_source()
    }

    /// Starts a queue pair at the present PSN and message number of the group that it joins: [`QueuePair::join_at`].
    pub fn join_at(&mut self, qpn: QpNum, psn: Psn, messages: u32) -> Result<(), ModifyError> {
        self.qp_mut(qpn)?.join_at(psn, messages)
    }

    /// Completes all posted sends of a queue pair as acknowledged: [`QueuePair::conclude_sends`].
    pub fn conclude_sends(&mut self, now: u64, qpn: QpNum) {
        if let Some(qp) = self.qps.get_mut(qpn) {
            qp.conclude_sends(now);
        }
        self.settle_queue_pair(qpn);
    }

    /// Puts a queue pair into the error state; its work requests complete as flushed.
    pub fn fail_qp(&mut self, qpn: QpNum, failure: QpFailure) {
        if let Some(qp) = self.qps.get_mut(qpn) {
            qp.fail(failure);
        }
        self.settle_queue_pair(qpn);
    }

    /// Destroys a queue pair. Later packets for it are dropped, and its work requests get no completions.
    pub fn destroy_qp(&mut self, qpn: QpNum) -> Result<(), ModifyError> {
        let gone = self
            .qps
            .remove(qpn, &mut self.deadlines)
            .ok_or(ModifyError::NoSuchQueuePair(qpn))?;
        self.stats.violations += gone.stats().violations;
        for waiting in self.resolving.values_mut() {
            waiting.remove(&qpn);
        }
        Ok(())
    }

    /// Registers a region of `len` zero bytes to receive into; `remote_write` allows remote WRITEs.
    pub fn register_memory(&mut self, len: u64, remote_write: bool) -> MemoryKey {
        self.memory.register(len, remote_write)
    }

    /// Registers a read-only region to send from.
    pub fn register_shared(&mut self, bytes: Arc<[u8]>) -> MemoryKey {
        self.memory.register_shared(bytes)
    }

    /// Opens a part of a region to WRITEs, as a memory window at a random unaligned address. Returns its key and address.
    pub fn bind_window(&mut self, part: MemorySlice) -> Result<(MemoryKey, u64), MemoryError> {
        let va = self.rng.next_u64() >> 16;
        let key = self.memory.bind_window(part, va)?;
        Ok((key, va))
    }

    /// Registered memory regions and windows.
    pub fn memory(&self) -> &MemoryTable {
        &self.memory
    }

    /// Registered memory regions and windows, to write to them or to deregister them.
    pub fn memory_mut(&mut self) -> &mut MemoryTable {
        &mut self.memory
    }

    /// Opens a UDP port. Its datagrams are reported as events.
    pub fn bind_udp(&mut self, port: u16) {
        self.udp_ports.insert(port);
    }

    /// Sends a UDP datagram, after address resolution if needed. It is dropped if the address cannot be resolved.
    pub fn send_udp(
        &mut self,
        now: u64,
        destination: Ipv4Addr,
        source_port: u16,
        destination_port: u16,
        payload: Vec<u8>,
    ) {
        let Some(hop) = self.next_hop(destination) else {
            return;
        };
        let envelope = self.envelope(
            MacAddr::BROADCAST,
            destination,
            source_port,
            destination_port,
        );
        match self.neighbors.lookup(hop) {
            Some(destination_mac) => {
                let envelope = Envelope {
                    destination_mac,
                    ..envelope
                };
                self.control.push_back(envelope.datagram(&payload));
            }
            None => {
                let waiting = self.waiting.iter().filter(|(ip, _, _)| *ip == hop);
                if waiting.count() < MAX_UNRESOLVED_DATAGRAMS {
                    self.waiting.push((hop, envelope, payload));
                }
                self.neighbors.resolve(now, hop);
            }
        }
    }

    // ---- Sending ----

    fn poll_queue_pairs(&mut self, now: u64, form: PacketForm) -> Option<Packet> {
        while let Some(qpn) = self.arbiter.dequeue() {
            if self.datagrams.has(qpn) {
                match self.poll_datagram(qpn) {
                    Some(frame) => return Some(frame.into()),
                    None => continue,
                }
            }
            let Some(qp) = self.qps.get_mut(qpn) else {
                continue;
            };
            let Some(remote) = qp.remote() else { continue };
            let Some(mac) =
                next_hop(&self.config, remote.ip).and_then(|hop| self.neighbors.lookup(hop))
            else {
                continue;
            };
            let Some(outgoing) = qp.poll_transmit(now) else {
                self.settle_queue_pair(qpn);
                continue;
            };
            let envelope = Envelope {
                source_mac: self.config.mac,
                destination_mac: mac,
                source: self.config.ip,
                destination: remote.ip,
                identification: self.next_identification,
                source_port: source_port(qpn),
                destination_port: udp::PORT_ROCE,
                tos: self.config.dscp << ipv4::DSCP_SHIFT
                    | match outgoing.ecn_capable {
                        true => ipv4::ECN_ECT0,
                        false => 0,
                    },
            };
            let Ok(packet) = envelope.packet(&outgoing, &self.memory, form) else {
                if let Some(qp) = self.qps.get_mut(qpn) {
                    qp.fail_local_protection();
                }
                self.settle_queue_pair(qpn);
                continue;
            };
            next_identification(&mut self.next_identification);
            self.settle_queue_pair(qpn);
            return Some(packet);
        }
        None
    }

    fn envelope(
        &mut self,
        destination_mac: MacAddr,
        destination: Ipv4Addr,
        source_port: u16,
        destination_port: u16,
    ) -> Envelope {
        Envelope {
            source_mac: self.config.mac,
            destination_mac,
            source: self.config.ip,
            destination,
            identification: next_identification(&mut self.next_identification),
            source_port,
            destination_port,
            tos: 0,
        }
    }

    // ---- Helpers ----

    /// An unused queue pair number other than [`MULTICAST_QPN`].
    fn free_qpn(&mut self) -> QpNum {
        let is_taken = |host: &Host, qpn| {
            host.qps.contains(qpn) || host.datagrams.has(qpn) || qpn == MULTICAST_QPN
        };
        while self.next_qpn < FIRST_QPN || is_taken(self, QpNum::new(self.next_qpn)) {
            self.next_qpn = (self.next_qpn + 1) & 0x00ff_ffff;
        }
        let qpn = QpNum::new(self.next_qpn);
        self.next_qpn = (self.next_qpn + 1) & 0x00ff_ffff;
        qpn
    }

    /// Reports completions and a failure of a queue pair, and updates its timer and its place in the send queue. To be
    /// called after each change to the queue pair.
    fn settle_queue_pair(&mut self, qpn: QpNum) {
        if let Some(scheduled) = self.qps.get_scheduled(qpn) {
            scheduled.settle(&mut self.events, &mut self.deadlines, &mut self.arbiter);
        }
    }

    fn qp_mut(&mut self, qpn: QpNum) -> Result<&mut QueuePair, ModifyError> {
        self.qps
            .get_mut(qpn)
            .ok_or(ModifyError::NoSuchQueuePair(qpn))
    }

    fn next_hop(&self, ip: Ipv4Addr) -> Option<Ipv4Addr> {
        next_hop(&self.config, ip)
    }

    fn send_arp_request(&mut self, ip: Ipv4Addr) {
        let request = arp::Repr {
            operation: arp::Operation::Request,
            sender_mac: self.config.mac,
            sender_ip: self.config.ip,
            target_mac: MacAddr([0; 6]),
            target_ip: ip,
        };
        self.control
            .push_back(frame::arp(MacAddr::BROADCAST, &request));
    }

    /// Sends the packets and datagrams that waited for the MAC address of a next hop.
    fn send_resolved(&mut self, hop: Ipv4Addr, destination_mac: MacAddr) {
        self.report_resolved(hop, true);
        for qpn in self.resolving.remove(&hop).unwrap_or_default() {
            let ready = self
                .qps
                .get(qpn)
                .is_some_and(|qp| qp.state() == QpState::Ready);
            if ready {
                self.events.push_back(HostEvent::Connected { qpn });
            }
            self.settle_queue_pair(qpn);
        }
        let (go, stay): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|(ip, _, _)| *ip == hop);
        self.waiting = stay;
        for (_, envelope, payload) in go {
            let envelope = Envelope {
                destination_mac,
                ..envelope
            };
            self.control.push_back(envelope.datagram(&payload));
        }
    }

    fn fail_unresolved(&mut self, hop: Ipv4Addr) {
        self.waiting.retain(|(ip, _, _)| *ip != hop);
        self.report_resolved(hop, false);
        for qpn in self.resolving.remove(&hop).unwrap_or_default() {
            self.fail_qp(qpn, QpFailure::Unreachable(hop));
        }
    }
}

/// The next hop for packets to `ip`: the address itself in the subnet, else the gateway. `None` without a gateway.
fn next_hop(config: &HostConfig, ip: Ipv4Addr) -> Option<Ipv4Addr> {
    if config.is_on_link(ip) {
        Some(ip)
    } else {
        config.gateway
    }
}

/// The UDP source port of a queue pair's packets.
fn source_port(qpn: QpNum) -> u16 {
    FIRST_SOURCE_PORT | (qpn.get() as u16 & 0x3fff)
}

/// Returns the IPv4 identification `next`, and advances `next` by one; skips 0.
fn next_identification(next: &mut u16) -> u16 {
    let id = *next;
    *next = next.checked_add(1).unwrap_or(1);
    id
}
