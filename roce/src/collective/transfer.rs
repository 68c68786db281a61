//! Execution of the plan of one member: posts receives and sends, and handles their completions.
//!
//! Terms: the data is cut into *slices*, each of which is one message. An *edge* is a connection between members, or a group.
//! A *flow* is the slices that cross one edge. The *root* has rank 0 and the data at the start. With several sources, each
//! sends a *part* of the slices.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;

use super::connection::Connection;
use super::datagram_edge::DatagramEdge;
use super::depth::{RequestLatencies, RequestTimes};
use super::digest::{Digest, ExpectedData};
use super::edge::EdgeId;
use super::error::TransferError;
use super::event::{Progress, TransferEvent};
use super::legs::Legs;
use super::plan::Flow;
use super::post::{receivers, register, FIRST_BLOCK, MR_INFO, READY};
use super::schedules::{ReceiveSchedule, SendSchedule};
use super::spec::{Endpoint, RemoteMemory, TransferOp, TransferSpec, WriteMode};
use crate::host::HostEvent;
use crate::rc::{
    Completion, CompletionError, LossReports, MemoryKey, Operation, QpFailure, QpStats, Remote,
};
use crate::verbs::Verbs;
use crate::wire::{Psn, QpNum};

/// One member's part in one collective operation: the application above the queue pairs of its host.
pub struct Transfer {
    pub(super) spec: TransferSpec,
    /// Memory region of the data; at a receiver, the buffer for it. `None` until the root has its data, or a receiver
    /// the size.
    pub(super) memory: Option<MemoryKey>,
    pub(super) incoming: Vec<Connection>,
    pub(super) outgoing: Vec<Connection>,
    /// For each slice (message): whether this member holds it.
    pub(super) held: Vec<bool>,
    missing: u32,
    /// This member's endpoint of the edge over which the root multicasts datagrams to all members. `None` if the
    /// algorithm sends no datagrams.
    pub(super) datagrams: Option<DatagramEdge>,
    /// Send schedules, one per priority.
    schedules: Vec<SendSchedule>,
    /// The order in which receives are posted over all edges, with [`TransferSpec::ready`] and a block schedule.
    pub(super) receive_schedule: ReceiveSchedule,
    /// Whether this member holds all data before it sends any (store-and-forward).
    pub(super) store_and_forward: bool,
    /// Whether messages are signals without payload: [`Plan::empty_payloads`](super::Plan::empty_payloads).
    empty_payloads: bool,
    /// Whether this member has started: it may announce that it is ready to receive, and has entered a barrier.
    pub(super) has_started: bool,
    /// A memory region of 0 bytes, for the receives of empty messages; `None` until it is needed.
    pub(super) signal_memory: Option<MemoryKey>,
    /// Queue pairs whose connection is not established yet, with the IPv4 address of the remote host or group.
    pub(super) connecting: BTreeMap<QpNum, Ipv4Addr>,
    pub(super) connected: bool,
    /// Number of the first part of the data that this member is to send and has not started.
    next_part: u32,
    /// With several sources: for each part of the data, whether its completion has been reported.
    reported_parts: Vec<bool>,
    done: bool,
    pub(super) failed: bool,
    /// Data that this member is expected to receive; `None` if not set. Comparing with it is faster than hashing.
    expected_data: Option<Arc<ExpectedData>>,
    pub(super) events: VecDeque<TransferEvent>,
    pub(super) legs: Legs,
    /// Latencies of the root's messages, with a queue depth ([`TransferSpec::depth`]); otherwise `None`.
    pub(super) request_latencies: Option<RequestLatencies>,
}

impl Transfer {
    /// Creates the queue pairs of this member's edges and posts its receives. Returns the endpoints that the other
    /// members need to connect.
    pub fn prepare(
        host: &mut dyn Verbs,
        spec: TransferSpec,
    ) -> Result<(Transfer, Vec<Endpoint>), TransferError> {
        spec.check(host.ip())?;
        let plan = spec.edges();
        // A root that sends all data registers the caller's buffer at the start, without a copy.
        let shares =
            spec.is_root() && !spec.has_several_sources() && !spec.collective.begins_everywhere();
        let memory = match shares || !spec.has_size() {
            true => None,
            false => Some(register(host, &spec)?),
        };
        let may_carry_first = match spec.has_size() {
            true => vec![false; plan.incoming.len()],
            false => spec.may_carry_first(),
        };
        let mut transfer = Transfer {
            memory,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            held: vec![false; spec.slices as usize],
            missing: 0,
            datagrams: None,
            schedules: Vec::new(),
            receive_schedule: ReceiveSchedule::default(),
            store_and_forward: plan.store_and_forward,
            empty_payloads: plan.empty_payloads,
            has_started: false,
            signal_memory: None,
            connecting: BTreeMap::new(),
            connected: false,
            next_part: 0,
            reported_parts: vec![false; spec.parts() as usize],
            done: false,
            failed: false,
            expected_data: None,
            events: VecDeque::new(),
            legs: Legs::new(spec.group_write() == Some(WriteMode::PerRequest)),
            request_latencies: spec
                .depth
                .filter(|_| spec.is_root())
                .map(RequestLatencies::new),
            spec,
        };
        transfer.reset_held();
        let mut endpoints = Vec::new();
        for (flow, first) in plan.incoming.into_iter().zip(may_carry_first) {
            if flow.edge.is_datagrams() {
                let (connection, endpoint) = transfer.open_datagrams(host, flow)?;
                endpoints.push(endpoint);
                transfer.incoming.push(connection);
                continue;
            }
            let connection = transfer.open(host, flow)?;
            endpoints.push(transfer.endpoint(host, &connection, true)?);
            match transfer.spec.has_size() {
                true => transfer.add_incoming(host, connection)?,
                false => transfer.post_first_receive(host, connection, first)?,
            }
        }
        for flow in plan.outgoing {
            if flow.edge.is_datagrams() {
                let (connection, endpoint) = transfer.open_datagrams(host, flow)?;
                endpoints.push(endpoint);
                transfer.outgoing.push(connection);
                continue;
            }
            let connection = transfer.open(host, flow)?;
            if !transfer.incoming.iter().any(|c| c.qpn == connection.qpn) {
                // With several sources every member also receives.
                let receives = transfer.spec.has_several_sources();
                endpoints.push(transfer.endpoint(host, &connection, receives)?);
            }
            transfer.post_announcement_receives(host, connection.qpn)?;
            transfer.outgoing.push(connection);
        }
        transfer.follow_schedules(host)?;
        transfer.count_missing();
        Ok((transfer, endpoints))
    }

    /// Sets the data that this member is expected to receive. Received data is then compared with it instead of hashed.
    /// Only for members in the same process, which share that memory.
    pub fn set_expected_data(&mut self, host: &mut dyn Verbs, expected_data: Arc<ExpectedData>) {
        self.expected_data = Some(expected_data);
        self.expect_data(host);
    }

    /// Passes the expected data to the host, so that received data which equals it takes no memory. Has no effect
    /// before the memory region exists and the expected data is set.
    pub(super) fn expect_data(&self, host: &mut dyn Verbs) {
        if let (Some(key), Some(expected_data)) = (self.memory, &self.expected_data) {
            host.expect_bytes(key, expected_data.bytes());
        }
    }

    /// Specification of this transfer. With an announced size, its `size` and `slices` are set when the first block
    /// arrives.
    pub fn spec(&self) -> &TransferSpec {
        &self.spec
    }

    /// Connects this member's queue pairs. `peers` must contain the remote ends of its edges. Other endpoints are
    /// ignored, so that the orchestrator can pass the whole list to every member. Members of a group need no peers,
    /// except with [`WriteMode::PerRequest`].
    pub fn connect(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        peers: &[Endpoint],
    ) -> Result<(), TransferError> {
        let mut remotes = Vec::new();
        let mut manager = None;
        for connection in self.incoming.iter_mut().chain(&mut self.outgoing) {
            let edge = connection.flow.edge;
            let (remote, rq_psn) = match (edge, self.spec.group) {
                (EdgeId::Group { .. }, Some(group)) => {
                    connection.remote_memory = Some(RemoteMemory {
                        va: group.va,
                        rkey: group.rkey,
                        len: self.spec.size,
                    });
                    let remote = Remote {
                        ip: group.mcst_id,
                        qpn: group.virtual_qpn,
                    };
                    (remote, group.initial_psn)
                }
                _ => {
                    let is_other = |p: &&Endpoint| match edge {
                        EdgeId::Datagrams { root } => p.rank == root,
                        _ => p.rank != self.spec.rank,
                    };
                    let peer = peers
                        .iter()
                        .filter(|p| p.edge == edge)
                        .find(is_other)
                        .ok_or(TransferError::MissingPeer(edge))?;
                    connection.remote_memory = peer.memory;
                    let remote = Remote {
                        ip: peer.ip,
                        qpn: peer.qpn,
                    };
                    (remote, peer.psn)
                }
            };
            if edge.is_datagrams() {
                manager = Some(remote);
                continue;
            }
            if remotes.iter().all(|(qpn, _, _)| *qpn != connection.qpn) {
                remotes.push((connection.qpn, remote, rq_psn));
            }
        }
        if self.spec.group_write() == Some(WriteMode::PerRequest) {
            for connection in &mut self.outgoing {
                connection.receivers = receivers(&self.spec, connection.flow.edge, peers)?;
            }
        }
        if self.spec.op.writes() {
            if let Some(blind) = self.outgoing.iter().find(|c| c.remote_memory.is_none()) {
                return Err(TransferError::NoRemoteMemory(blind.flow.edge));
            }
        }
        self.connected = true;
        self.join_datagrams(host, now, manager.filter(|_| !self.spec.is_root()))?;
        self.connecting = remotes.iter().map(|(qpn, r, _)| (*qpn, r.ip)).collect();
        for (qpn, remote, rq_psn) in remotes {
            host.connect_qp(now, qpn, remote, rq_psn)?;
        }
        self.report_if_ready();
        Ok(())
    }

    /// Passes the data to the root, which then sends. Other members forward data as it arrives.
    ///
    /// With several sources: passes a source the data of its next part. This member must hold all earlier parts.
    pub fn start(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        data: Arc<[u8]>,
    ) -> Result<(), TransferError> {
        if self.spec.collective.begins_everywhere() && !self.spec.has_several_sources() {
            return self.begin(host, now, &data);
        }
        if !self.spec.is_source() {
            return Err(TransferError::NotRoot(self.spec.rank));
        }
        let mut parts = self.next_part..self.spec.parts();
        let part = parts
            .find(|part| self.spec.source_of(*part) == self.spec.rank)
            .ok_or(TransferError::AlreadyStarted)?;
        self.expect_ready()?;
        let got = data.len() as u64;
        let (offset, size) = self.spec.part(part);
        if got != size {
            return Err(TransferError::WrongDataLength { got, size });
        }
        let slices = self.spec.slices_of(part);
        if self.held[..slices.start as usize].contains(&false) {
            return Err(TransferError::TooEarly { part });
        }
        match self.memory {
            Some(key) => {
                host.write_memory(key, offset, &data)?;
                if part > 0 {
                    self.take_over_as_source(host, now)?;
                }
            }
            None => self.memory = Some(host.register_shared(data)?),
        }
        self.legs.begin();
        self.next_part = part + 1;
        self.missing = self.missing.saturating_sub(slices.len() as u32);
        self.held[slices.start as usize..slices.end as usize].fill(true);
        self.advance(host, now)
    }

    /// Starts a collective in which every member contributes data or takes part in a barrier.
    fn begin(&mut self, host: &mut dyn Verbs, now: u64, data: &[u8]) -> Result<(), TransferError> {
        if self.has_started {
            return Err(TransferError::AlreadyStarted);
        }
        self.expect_ready()?;
        let got = data.len() as u64;
        let (offset, size) = self.spec.own_bytes();
        if got != size {
            return Err(TransferError::WrongDataLength { got, size });
        }
        if let Some(key) = self.memory.filter(|_| size > 0) {
            host.write_memory(key, offset, data)?;
        }
        self.legs.begin();
        self.has_started = true;
        for slice in self.spec.own_slices() {
            self.mark_held(slice);
        }
        if self.waits_to_receive() {
            let qpns: Vec<QpNum> = self.incoming.iter().map(|c| c.qpn).collect();
            for qpn in qpns {
                self.post_allowed_receives(host, qpn)?;
            }
        }
        self.advance(host, now)
    }

    /// Whether this member must not post receives before it has started, which is so in a barrier over a group. There,
    /// switches acknowledge the root's signal when all members have received it. So a receive must mean that the member
    /// has entered the barrier.
    pub(super) fn waits_to_receive(&self) -> bool {
        self.empty_payloads && self.spec.algorithm.needs_group()
    }

    fn expect_ready(&self) -> Result<(), TransferError> {
        if self.is_ready() {
            return Ok(());
        }
        let open = self.incoming.len() + self.outgoing.len();
        Err(TransferError::NotReady(match self.connected {
            true => self.connecting.len(),
            false => open,
        }))
    }

    /// Makes this member the source of its group: its first packet has the PSN after the previous source's last one.
    fn take_over_as_source(&mut self, host: &mut dyn Verbs, now: u64) -> Result<(), TransferError> {
        for connection in &self.outgoing {
            // Every member holds what this member sent when it was the source before.
            host.conclude_sends(now, connection.qpn);
            host.take_over_sending(connection.qpn)?;
        }
        Ok(())
    }

    /// Handles an event of the host. Returns whether the event belongs to this transfer.
    pub fn handle_event(&mut self, host: &mut dyn Verbs, now: u64, event: &HostEvent) -> bool {
        if self.handle_datagrams(host, now, event) {
            return true;
        }
        let qpn = match event {
            HostEvent::Connected { qpn } | HostEvent::QpFailed { qpn, .. } => *qpn,
            HostEvent::Completion(completion) => completion.qpn,
            HostEvent::Datagram(_) | HostEvent::Resolved { .. } | HostEvent::Udp { .. } => {
                return false
            }
        };
        let mut all = self.incoming.iter().chain(&self.outgoing);
        if all.all(|connection| connection.qpn != qpn) {
            return false;
        }
        let is_late = match event {
            HostEvent::Completion(completion) => completion.outcome.is_err(),
            _ => true,
        };
        if self.failed || (self.legs.has_ended() && is_late) {
            return true;
        }
        let result = match event {
            HostEvent::Connected { .. } => {
                self.connecting.remove(&qpn);
                if self.is_ready() {
                    self.events.push_back(TransferEvent::Ready);
                }
                Ok(())
            }
            HostEvent::QpFailed { failure, .. } => Err(failed_connection(host, qpn, *failure)),
            HostEvent::Completion(completion) => self.handle_completion(host, now, completion),
            HostEvent::Datagram(_) | HostEvent::Resolved { .. } | HostEvent::Udp { .. } => Ok(()),
        };
        if let Err(error) = result {
            self.fail(error);
        }
        true
    }

    /// Whether `event` is the arrival of data that this member forwards to other members.
    pub fn relays(&self, event: &HostEvent) -> bool {
        let HostEvent::Completion(completion) = event else {
            return false;
        };
        let mut incoming = self.incoming.iter();
        !self.outgoing.is_empty() && incoming.any(|connection| connection.qpn == completion.qpn)
    }

    /// Removes and returns the next event for the orchestrator.
    pub fn poll(&mut self) -> Option<TransferEvent> {
        self.events.pop_front()
    }

    /// Whether every connection of this member is established, so that the transfer can be started.
    pub fn is_ready(&self) -> bool {
        let is_ready = |edge: &DatagramEdge| edge.is_ready();
        self.connected && self.connecting.is_empty() && self.datagrams.as_ref().is_none_or(is_ready)
    }

    /// Whether this member holds all data, and all that it sent is acknowledged.
    pub fn is_finished(&self) -> bool {
        self.done
            && self.datagrams.as_ref().is_none_or(DatagramEdge::may_leave)
            && self
                .outgoing
                .iter()
                .all(|c| c.completed == c.flow.slices.len())
    }

    /// Whether the transfer has failed.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// The progress of this member in bytes.
    pub fn progress(&self, host: &dyn Verbs) -> Progress {
        if self.spec.has_several_sources() {
            let received = self.incoming.iter().filter_map(|c| host.view(c.qpn));
            let received: u64 = received.map(|qp| qp.stats.request_bytes_received).sum();
            let own = (0..self.next_part).filter(|p| self.spec.source_of(*p) == self.spec.rank);
            let own: u64 = own.map(|part| self.spec.part(part).1).sum();
            return Progress {
                bytes: (received + own).max(self.held_bytes()),
                total: self.spec.size,
            };
        }
        if self.spec.is_root() {
            let bytes = self
                .outgoing
                .iter()
                .flat_map(|c| &c.flow.slices[..c.completed])
                .map(|slice| self.spec.slice(*slice).1)
                .sum();
            let all = self.outgoing.iter().flat_map(|c| &c.flow.slices);
            return Progress {
                bytes,
                total: all.map(|slice| self.spec.slice(*slice).1).sum(),
            };
        }
        let received = self.incoming.iter().filter_map(|c| host.view(c.qpn));
        let received: u64 = received.map(|qp| qp.stats.request_bytes_received).sum();
        Progress {
            bytes: (self.legs.bytes_at_start + received).max(self.held_bytes()),
            total: self.spec.size,
        }
    }

    /// Number of bytes of the slices (messages) that this member holds. It is the only measure of progress on RDMA
    /// devices, which do not count WRITEs.
    fn held_bytes(&self) -> u64 {
        let held = (0..self.spec.slices).filter(|slice| self.held[*slice as usize]);
        held.map(|slice| self.spec.slice(slice).1).sum()
    }

    /// Counters of this member's queue pairs, each with its edge; incoming edges first.
    pub fn qp_stats<'a>(
        &'a self,
        host: &'a dyn Verbs,
    ) -> impl Iterator<Item = (EdgeId, QpStats)> + 'a {
        self.connections()
            .filter_map(|c| Some((c.flow.edge, host.view(c.qpn)?.stats)))
            .chain(self.datagram_qp_stats(host))
    }

    /// Latency statistics of the root's messages, with a queue depth ([`TransferSpec::depth`]). `None` without a depth,
    /// or before the first acknowledgement.
    pub fn request_times(&self) -> Option<RequestTimes> {
        self.request_latencies.as_ref()?.times()
    }

    /// Latencies of the root's messages, with a queue depth ([`TransferSpec::depth`]); otherwise `None`.
    pub fn request_latencies(&self) -> Option<&RequestLatencies> {
        self.request_latencies.as_ref()
    }

    /// The memory region of the data. `None` until the root has its data, or a receiver the size.
    pub fn memory(&self) -> Option<MemoryKey> {
        self.memory
    }

    /// Contents of the data region; empty if there is none yet. The bytes of slices that have not arrived are undefined.
    pub fn data<'a>(&self, host: &'a dyn Verbs) -> &'a [u8] {
        self.memory
            .and_then(|key| host.memory(key).ok())
            .unwrap_or(&[])
    }

    /// Ends the transfer: destroys its queue pairs and deregisters its memory.
    pub fn close(mut self, host: &mut dyn Verbs) {
        self.stand_down(host);
        if let Some(edge) = self.datagrams.take() {
            edge.close(host);
        }
        for connection in self.connections() {
            // An error means that the queue pair no longer exists.
            let _ = host.destroy_qp(connection.qpn);
        }
        let scratch: Vec<MemoryKey> = self.scratch().collect();
        for key in self
            .memory
            .into_iter()
            .chain(self.signal_memory)
            .chain(scratch)
        {
            let _ = host.deregister(key);
        }
    }

    // ---- Setting up ----

    pub(super) fn open(
        &self,
        host: &mut dyn Verbs,
        flow: Flow,
    ) -> Result<Connection, TransferError> {
        let config = self.spec.rc_of(flow.edge);
        let mut config = config.unwrap_or(host.default_rc());
        config.priority = flow.priority;
        if let EdgeId::Group { .. } = flow.edge {
            config.loss_reports = LossReports::Merged;
        }
        let shared = self.incoming.iter().find(|c| c.flow.edge == flow.edge);
        let qpn = match shared {
            Some(connection) => connection.qpn,
            None => host.create_qp(config)?,
        };
        if let (EdgeId::Group { .. }, Some(group)) = (flow.edge, self.spec.group) {
            host.set_sq_psn(qpn, group.initial_psn)?;
        }
        Ok(Connection::new(flow, qpn))
    }

    /// Marks every slice (message) as missing at this member.
    pub(super) fn reset_held(&mut self) {
        self.held = vec![false; self.spec.slices as usize];
        self.count_missing();
    }

    /// Counts the slices (messages) that this member must still receive. In a barrier these are the incoming signals.
    fn count_missing(&mut self) {
        self.missing = match self.empty_payloads {
            true => self
                .incoming
                .iter()
                .map(|c| c.flow.slices.len() as u32)
                .sum(),
            false => self.spec.final_slices().len() as u32,
        };
    }

    /// Whether this member holds all slices (messages) that it should hold at the end.
    pub(super) fn holds_all(&self) -> bool {
        self.missing == 0
    }

    /// Records that this member holds a slice (message).
    pub(super) fn mark_held(&mut self, slice: u32) {
        let is_new = !std::mem::replace(&mut self.held[slice as usize], true);
        if is_new && (self.empty_payloads || self.spec.final_slices().contains(&slice)) {
            self.missing -= 1;
        }
    }

    /// Creates the schedules of sends and receives, if the plan has steps, and posts the first scheduled receives.
    pub(super) fn follow_schedules(&mut self, host: &mut dyn Verbs) -> Result<(), TransferError> {
        self.schedules = SendSchedule::of(&mut self.outgoing);
        self.receive_schedule = ReceiveSchedule::of(&self.incoming);
        self.post_next_arrivals(host)
    }

    pub(super) fn endpoint(
        &mut self,
        host: &mut dyn Verbs,
        connection: &Connection,
        receives: bool,
    ) -> Result<Endpoint, TransferError> {
        let written = self.memory.filter(|_| receives && self.spec.op.writes());
        let slice_windows = match (self.spec.group_write(), written) {
            (Some(WriteMode::PerRequest), Some(key)) => self.slice_windows(host, key)?,
            _ => Vec::new(),
        };
        // Receivers of a group list their memory regions only if switches rewrite addresses.
        let named = match self.spec.group_write() {
            None => true,
            Some(WriteMode::Aligned) => self.spec.size > 0,
            Some(WriteMode::Uniform | WriteMode::PerRequest) => false,
        };
        let region = written
            .filter(|_| named)
            .map(|key| self.whole_region(host, key))
            .transpose()?;
        Ok(Endpoint {
            edge: connection.flow.edge,
            rank: self.spec.rank,
            ip: host.ip(),
            qpn: connection.qpn,
            psn: host
                .view(connection.qpn)
                .map_or(Psn::new(0), |qp| qp.sq_psn),
            memory: region,
            slice_windows,
        })
    }

    /// All connections of this member. A queue pair that both sends and receives is listed once.
    pub(super) fn connections(&self) -> impl Iterator<Item = &Connection> {
        let is_new = |c: &&Connection| self.incoming.iter().all(|other| other.qpn != c.qpn);
        self.incoming
            .iter()
            .chain(self.outgoing.iter().filter(is_new))
    }

    // ---- Running ----

    fn handle_completion(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        completion: &Completion,
    ) -> Result<(), TransferError> {
        let qpn = completion.qpn;
        let done = match completion.outcome {
            Ok(done) => done,
            Err(error) => return Err(failed_message(host, qpn, error)),
        };
        match completion.operation {
            Operation::Receive if completion.wr_id == READY => {
                self.record_announcement(host, qpn, done)?
            }
            Operation::Send if completion.wr_id == READY => return Ok(()),
            Operation::Receive | Operation::ReceiveWrite => {
                let slice = match completion.wr_id {
                    FIRST_BLOCK => match self.accept_first_block(host, qpn, done)? {
                        Some(slice) => slice,
                        None => return Ok(()),
                    },
                    wr_id => wr_id as u32,
                };
                let expected = match completion.operation {
                    // The SEND that notifies of a WRITE is empty.
                    Operation::Receive if self.spec.op.writes() => 0,
                    _ => self.spec.slice(slice).1,
                };
                if done.bytes != expected {
                    let got = done.bytes;
                    return Err(TransferError::WrongSliceLength {
                        slice,
                        got,
                        expected,
                    });
                }
                if let Some(connection) = self.incoming.iter_mut().find(|c| c.qpn == qpn) {
                    connection.completed += 1;
                }
                self.mark_held(slice);
                self.post_after_arrival(host, qpn)?;
            }
            // The leaf switch of one receiver has acknowledged the memory region for the next WRITE.
            Operation::Write if completion.wr_id & MR_INFO != 0 => {
                if let Some(connection) = self.outgoing.iter_mut().find(|c| c.qpn == qpn) {
                    connection.pending_announcements -= 1;
                }
            }
            // The completion of the SEND that follows this WRITE covers both.
            Operation::Write if self.spec.op == TransferOp::Write => return Ok(()),
            Operation::Send | Operation::Write => {
                if let Some(connection) = self.outgoing.iter_mut().find(|c| c.qpn == qpn) {
                    let slice = connection.flow.slices.get(connection.completed).copied();
                    connection.completed += 1;
                    if let Some(schedule) = connection.schedule {
                        let bytes = slice.map_or(0, |slice| self.spec.slice(slice).1);
                        self.schedules[schedule].acknowledged(bytes);
                    }
                }
            }
        }
        self.advance(host, now)
    }

    /// Posts every send that is possible now. Ends the transfer when no slice is missing and, at a source, all sends are
    /// acknowledged.
    pub(super) fn advance(&mut self, host: &mut dyn Verbs, now: u64) -> Result<(), TransferError> {
        let Some(key) = self.memory else {
            return Ok(());
        };
        if let Some(latencies) = &mut self.request_latencies {
            let completed = self.outgoing.iter().map(|c| c.completed).min();
            latencies.acknowledged(completed.unwrap_or(0), now);
        }
        if !self.legs.is_halted() && (self.missing == 0 || !self.store_and_forward) {
            for index in 0..self.outgoing.len() {
                let connection = &self.outgoing[index];
                if connection.schedule.is_some() {
                    continue;
                }
                let posted = (connection.posted, connection.pending_announcements);
                while self.post_next(host, now, key, index)? {}
                let connection = &self.outgoing[index];
                if self.spec.has_several_sources()
                    && (connection.posted, connection.pending_announcements) != posted
                {
                    host.expect_next_source(connection.qpn)?;
                }
            }
            for schedule in 0..self.schedules.len() {
                while let Some(index) = self.schedules[schedule].next_connection() {
                    let connection = &self.outgoing[index];
                    let slice = connection.flow.slices.get(connection.posted).copied();
                    if !self.post_next(host, now, key, index)? {
                        break;
                    }
                    let bytes = slice.map_or(0, |slice| self.spec.slice(slice).1);
                    self.schedules[schedule].posted(bytes);
                }
            }
        }
        self.report_parts(now);
        let has_several_sources = self.spec.has_several_sources();
        let begins = self.spec.collective.begins_everywhere() && !has_several_sources;
        let all_here = self.missing == 0 && (self.has_started || !begins);
        let mut outgoing = self.outgoing.iter();
        let all_sent = match begins {
            // In a barrier over a group, the acknowledgement of the root's first signal proves that all members have
            // entered.
            true => outgoing.all(|c| c.completed > 0 || !c.is_group()),
            false => outgoing.all(|c| c.completed == c.flow.slices.len()),
        };
        if !self.done && all_here && (all_sent || !self.spec.is_source()) {
            self.done = true;
            self.finish(host, now)?;
        }
        Ok(())
    }

    /// Posts the next slice of an outgoing flow, if this member holds it and may send it. Returns whether it did.
    fn post_next(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        key: MemoryKey,
        index: usize,
    ) -> Result<bool, TransferError> {
        let connection = &mut self.outgoing[index];
        let Some(slice) = connection.flow.slices.get(connection.posted).copied() else {
            return Ok(false);
        };
        let is_expected = self.spec.ready.is_none() || connection.posted < connection.credit;
        let is_due = match self.empty_payloads {
            true => {
                let step = connection.flow.steps.get(connection.posted);
                let earlier = self.incoming.iter().flat_map(|c| {
                    let comes = c.flow.slices.iter().zip(&c.flow.steps);
                    comes.filter(|(_, at)| step.is_some_and(|step| *at < step))
                });
                let mut earlier = earlier.map(|(slice, _)| self.held[*slice as usize]);
                // A group's second signal waits for the acknowledgement of the first.
                self.has_started
                    && earlier.all(|here| here)
                    && connection.completed == connection.posted
            }
            false => self.held[slice as usize],
        };
        let is_too_deep = self
            .request_latencies
            .as_ref()
            .is_some_and(|r| !r.may_post(slice));
        if self.legs.is_beyond_limit(slice)
            || is_too_deep
            || !is_due
            || !is_expected
            || !connection.announce_if_needed(host, &self.spec, slice)?
        {
            return Ok(false);
        }
        connection.posted += 1;
        if let Some(latencies) = &mut self.request_latencies {
            latencies.posted(slice, now);
        }
        if !connection.flow.edge.is_datagrams() {
            connection.post_slice(host, &self.spec, key, slice)?;
            return Ok(true);
        }
        let is_posted = self.post_datagrams(host, now, slice)?;
        if !is_posted {
            self.outgoing[index].posted -= 1;
        }
        Ok(is_posted)
    }

    /// Reports each part of the data that has become complete since the last call, with several sources.
    fn report_parts(&mut self, at: u64) {
        if !self.spec.has_several_sources() {
            return;
        }
        let acknowledged: usize = self.outgoing.iter().map(|c| c.completed).sum();
        let mut sent = 0;
        for part in 0..self.spec.parts() {
            let slices = self.spec.slices_of(part);
            let is_own = self.spec.source_of(part) == self.spec.rank;
            if is_own {
                sent += slices.len();
            }
            let here = !self.held[slices.start as usize..slices.end as usize].contains(&false);
            let done = here && (!is_own || acknowledged >= sent);
            if done && !std::mem::replace(&mut self.reported_parts[part as usize], true) {
                self.events.push_back(TransferEvent::PartDone { part, at });
            }
        }
    }

    /// Verifies the data, and reports [`TransferEvent::Done`]. Fails if the data does not have the expected SHA-256.
    fn finish(&mut self, host: &dyn Verbs, now: u64) -> Result<(), TransferError> {
        let (offset, len) = self.spec.final_bytes();
        let data = self.data(host);
        let data = data.get(offset as usize..(offset + len) as usize);
        let data = data.unwrap_or_default();
        let got = match &self.expected_data {
            Some(expected_data) => expected_data.digest_of(data),
            None => Digest::of(data),
        };
        if let Some(expected) = self.spec.expected_sha256 {
            if got != expected {
                return Err(TransferError::WrongDigest { got, expected });
            }
        }
        self.events.push_back(TransferEvent::Done {
            sha256: got,
            bytes: len,
            at: now,
        });
        Ok(())
    }

    pub(super) fn fail(&mut self, error: TransferError) {
        self.failed = true;
        self.events.push_back(TransferEvent::Failed(error));
    }
}

/// Converts the error of a completion. If its queue pair has failed, the error names that failure, because all other
/// requests of the queue pair are only flushed.
fn failed_message(host: &dyn Verbs, qpn: QpNum, error: CompletionError) -> TransferError {
    let failure = host.view(qpn).and_then(|qp| qp.failure);
    match (error, failure) {
        (CompletionError::Flushed, Some(failure)) => failed_connection(host, qpn, failure),
        _ => TransferError::Message { qpn, error },
    }
}

fn failed_connection(host: &dyn Verbs, qpn: QpNum, error: QpFailure) -> TransferError {
    let remote = host.view(qpn).and_then(|qp| qp.remote);
    TransferError::Connection {
        qpn,
        remote: remote.map_or(Ipv4Addr::UNSPECIFIED, |r| r.ip),
        error,
    }
}
