//! Execution of the plan of one member by queue pairs: posts receives and sends, and handles their completions.
//!
//! A [`Transfer`] consists of parts with state of their own: [`Execution`] of the plan, [`Connections`], [`DataMemory`],
//! the [`LegState`], the [`Sources`], and [`Reports`] to the orchestrator.
//!
//! Terms: the data is cut into *slices*, each of which is one message. An *edge* is a connection between members, or a group.
//! A *flow* is the slices that cross one edge. The *root* has rank 0 and the data at the start. With several sources, each
//! sends a *part* of the slices.

mod announcements;
mod connection;
mod connections;
mod data_memory;
mod datagram_edge;
mod datagrams;
mod leg;
mod leg_command;
mod leg_state;
mod posts;
mod receives;
mod reports;
mod sources;

use std::net::Ipv4Addr;
use std::sync::Arc;

use self::connection::{Connection, FIRST_BLOCK, MR_INFO, READY};
use self::connections::Connections;
use self::data_memory::DataMemory;
use self::datagram_edge::DatagramEdge;
use self::leg_state::LegState;
use self::posts::Posts;
use self::receives::ReceiveRules;
use self::reports::Reports;
use self::sources::Sources;
use super::depth::{RequestLatencies, RequestTimes};
use super::digest::ExpectedData;
use super::edge::EdgeId;
use super::error::TransferError;
use super::event::{Progress, TransferEvent};
use super::execution::Execution;
use super::spec::{Endpoint, TransferOp, TransferSpec, WriteMode};
use crate::host::HostEvent;
use crate::rc::{Completion, CompletionError, MemoryKey, Operation, QpFailure, QpStats};
use crate::verbs::Verbs;
use crate::wire::{Psn, QpNum};

pub use self::leg::{Leg, Survivors};
pub use self::leg_command::{LegCommand, LegReply};

/// One member's part in one collective operation: the application above the queue pairs of its host.
pub struct Transfer {
    spec: TransferSpec,
    /// The plan of this member, and its progress.
    execution: Execution,
    connections: Connections,
    memory: DataMemory,
    /// This member's endpoint of the edge over which the root multicasts datagrams to all members. `None` if the
    /// algorithm sends no datagrams.
    datagrams: Option<DatagramEdge>,
    leg: LegState,
    sources: Sources,
    reports: Reports,
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
        let sources = Sources::new(&spec);
        // A root that sends all data registers the caller's buffer at the start, without a copy.
        let shares = spec.is_root() && matches!(sources, Sources::Root { .. });
        let mut memory = DataMemory::new(&spec);
        if !shares && spec.has_size() {
            memory.register(host, &spec)?;
        }
        let may_carry_first = match spec.has_size() {
            true => vec![false; plan.incoming.len()],
            false => spec.may_carry_first(),
        };
        let mut transfer = Transfer {
            execution: Execution::new(plan, spec.slices, spec.final_slices()),
            connections: Connections::default(),
            memory,
            datagrams: None,
            leg: LegState::first(),
            sources,
            reports: Reports::default(),
            spec,
        };
        let mut endpoints = Vec::new();
        for (index, is_first) in may_carry_first.into_iter().enumerate() {
            let flow = &transfer.execution.plan().incoming[index];
            let (edge, priority) = (flow.edge, flow.priority);
            let (mut connection, endpoint) = transfer.open(host, (edge, priority), true)?;
            endpoints.extend(endpoint);
            if is_first && !edge.is_datagrams() {
                let len = transfer.spec.block.map_or(0, u64::from);
                connection.post_first_receive(host, len)?;
            }
            // Receives on other edges are posted when the size is known.
            match transfer.spec.has_size() && !edge.is_datagrams() {
                true => transfer.add_incoming(host, connection)?,
                false => transfer.connections.add_incoming(connection),
            }
        }
        for index in 0..transfer.execution.plan().outgoing.len() {
            let flow = &transfer.execution.plan().outgoing[index];
            let (edge, priority) = (flow.edge, flow.priority);
            // With several sources every member also receives.
            let receives = transfer.sources.take_turns();
            let (connection, endpoint) = transfer.open(host, (edge, priority), receives)?;
            endpoints.extend(endpoint);
            match edge.is_datagrams() {
                true => transfer.connections.add_outgoing(connection),
                false => transfer.add_outgoing(host, connection)?,
            }
        }
        let (connections, rules) = transfer.receiving();
        connections.follow_schedule(host, &rules)?;
        Ok((transfer, endpoints))
    }

    /// Sets the data that this member is expected to receive. Received data is then compared with it instead of hashed.
    /// Only for members in the same process, which share that memory.
    pub fn set_expected_data(&mut self, host: &mut dyn Verbs, expected_data: Arc<ExpectedData>) {
        self.memory.set_expected_data(host, expected_data);
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
        let ends = self.connections.find_remote_ends(&self.spec, peers)?;
        let pending = ends.queue_pairs.iter();
        self.leg.connect(pending.map(|(qpn, ..)| *qpn).collect());
        let manager = ends.datagram_root.filter(|_| !self.spec.is_root());
        self.join_datagrams(host, now, manager)?;
        for (qpn, remote, rq_psn) in ends.queue_pairs {
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
        if self.sources.are_all() {
            return self.begin(host, now, &data);
        }
        if !self.spec.is_source() {
            return Err(TransferError::NotRoot(self.spec.rank));
        }
        let part = self.sources.next_part(&self.spec);
        let part = part.ok_or(TransferError::AlreadyStarted)?;
        self.expect_ready()?;
        let got = data.len() as u64;
        let (offset, size) = self.spec.part(part);
        if got != size {
            return Err(TransferError::WrongDataLength { got, size });
        }
        let slices = self.spec.slices_of(part);
        if !self.execution.holds_range(0..slices.start) {
            return Err(TransferError::TooEarly { part });
        }
        match self.memory.key() {
            Some(key) => {
                host.write_memory(key, offset, &data)?;
                if part > 0 {
                    self.take_over_as_source(host, now)?;
                }
            }
            None => self.memory.share(host, data)?,
        }
        self.leg.start();
        self.sources.start_part(part);
        slices.for_each(|slice| self.execution.hold(slice));
        self.advance(host, now)
    }

    /// Starts a collective in which every member contributes data or takes part in a barrier.
    fn begin(&mut self, host: &mut dyn Verbs, now: u64, data: &[u8]) -> Result<(), TransferError> {
        if self.leg.has_started() {
            return Err(TransferError::AlreadyStarted);
        }
        self.expect_ready()?;
        let got = data.len() as u64;
        let (offset, size) = self.spec.own_bytes();
        if got != size {
            return Err(TransferError::WrongDataLength { got, size });
        }
        if let Some(key) = self.memory.key().filter(|_| size > 0) {
            host.write_memory(key, offset, data)?;
        }
        self.leg.start();
        for slice in self.spec.own_slices() {
            self.execution.hold(slice);
        }
        let (connections, rules) = self.receiving();
        if rules.wait_for_start() {
            connections.post_all_allowed_receives(host, &rules)?;
        }
        self.advance(host, now)
    }

    fn expect_ready(&self) -> Result<(), TransferError> {
        if self.is_ready() {
            return Ok(());
        }
        let pending = self.leg.pending_connections();
        let pending = pending.unwrap_or(self.connections.count());
        Err(TransferError::NotReady(pending))
    }

    /// Makes this member the source of its group: its first packet has the PSN after the previous source's last one.
    fn take_over_as_source(&mut self, host: &mut dyn Verbs, now: u64) -> Result<(), TransferError> {
        for connection in self.connections.outgoing() {
            // Every member holds what this member sent when it was the source before.
            host.conclude_sends(now, connection.qpn());
            host.take_over_sending(connection.qpn())?;
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
        let connections = &self.connections;
        if connections.incoming_index(qpn).is_none() && connections.outgoing_index(qpn).is_none() {
            return false;
        }
        let is_late = match event {
            HostEvent::Completion(completion) => completion.outcome.is_err(),
            _ => true,
        };
        if self.reports.has_failed() || (self.leg.has_ended() && is_late) {
            return true;
        }
        let result = match event {
            HostEvent::Connected { .. } => {
                self.leg.record_connection(qpn);
                self.report_if_ready();
                Ok(())
            }
            HostEvent::QpFailed { failure, .. } => Err(failed_connection(host, qpn, *failure)),
            HostEvent::Completion(completion) => self.handle_completion(host, now, completion),
            HostEvent::Datagram(_) | HostEvent::Resolved { .. } | HostEvent::Udp { .. } => Ok(()),
        };
        if let Err(error) = result {
            self.reports.fail(error);
        }
        true
    }

    /// Whether `event` is the arrival of data that this member forwards to other members.
    pub fn relays(&self, event: &HostEvent) -> bool {
        let HostEvent::Completion(completion) = event else {
            return false;
        };
        let incoming = self.connections.incoming_index(completion.qpn);
        !self.connections.outgoing().is_empty() && incoming.is_some()
    }

    /// Removes and returns the next event for the orchestrator.
    pub fn poll(&mut self) -> Option<TransferEvent> {
        self.reports.poll()
    }

    /// Whether every connection of this member is established, so that the transfer can be started.
    pub fn is_ready(&self) -> bool {
        let datagrams = self.datagrams.as_ref();
        self.leg.is_connected() && datagrams.is_none_or(DatagramEdge::is_ready)
    }

    /// Whether this member holds all data, and all that it sent is acknowledged.
    pub fn is_finished(&self) -> bool {
        let datagrams = self.datagrams.as_ref();
        self.reports.is_done()
            && datagrams.is_none_or(DatagramEdge::may_leave)
            && self.execution.is_acknowledged()
    }

    /// Whether the transfer has failed.
    pub fn has_failed(&self) -> bool {
        self.reports.has_failed()
    }

    /// The progress of this member in bytes.
    pub fn progress(&self, host: &dyn Verbs) -> Progress {
        let slice_len = |slice: &u32| self.spec.slice(*slice).1;
        if self.spec.is_root() && !self.sources.take_turns() {
            let flows = 0..self.execution.plan().outgoing.len();
            let acknowledged = flows.flat_map(|flow| self.execution.acknowledged(flow));
            let all = self
                .execution
                .plan()
                .outgoing
                .iter()
                .flat_map(|flow| &flow.slices);
            return Progress {
                bytes: acknowledged.map(slice_len).sum(),
                total: all.map(slice_len).sum(),
            };
        }
        let incoming = self.connections.incoming().iter();
        let received = incoming.filter_map(|c| host.view(c.qpn()));
        let received: u64 = received.map(|qp| qp.stats.request_bytes_received).sum();
        let own = match self.sources.take_turns() {
            true => self.sources.started_bytes(&self.spec),
            false => self.leg.bytes_at_start(),
        };
        // Slices held are the only measure of progress on RDMA devices, which do not count WRITEs.
        let held: u64 = self.execution.held().map(|slice| slice_len(&slice)).sum();
        Progress {
            bytes: (received + own).max(held),
            total: self.spec.size,
        }
    }

    /// Counters of this member's queue pairs, each with its edge; incoming edges first.
    pub fn qp_stats<'a>(
        &'a self,
        host: &'a dyn Verbs,
    ) -> impl Iterator<Item = (EdgeId, QpStats)> + 'a {
        self.connections
            .iter()
            .filter_map(|c| Some((c.edge(), host.view(c.qpn())?.stats)))
            .chain(self.datagram_qp_stats(host))
    }

    /// Latency statistics of the root's messages, with a queue depth ([`TransferSpec::depth`]). `None` without a depth,
    /// or before the first acknowledgement.
    pub fn request_times(&self) -> Option<RequestTimes> {
        self.sources.requests()?.times()
    }

    /// Latencies of the root's messages, with a queue depth ([`TransferSpec::depth`]); otherwise `None`.
    pub fn request_latencies(&self) -> Option<&RequestLatencies> {
        self.sources.requests()
    }

    /// The memory region of the data. `None` until the root has its data, or a receiver the size.
    pub fn memory(&self) -> Option<MemoryKey> {
        self.memory.key()
    }

    /// Contents of the data region; empty if there is none yet. The bytes of slices that have not arrived are undefined.
    pub fn data<'a>(&self, host: &'a dyn Verbs) -> &'a [u8] {
        self.memory.bytes(host)
    }

    /// Ends the transfer: destroys its queue pairs and deregisters its memory.
    pub fn close(mut self, host: &mut dyn Verbs) {
        self.stand_down(host);
        if let Some(edge) = self.datagrams.take() {
            edge.close(host);
        }
        self.connections.destroy(host);
        let keys = self.memory.key().into_iter();
        for key in keys.chain(self.connections.memory_keys()) {
            let _ = host.deregister(key);
        }
    }

    // ---- Setting up ----

    /// Opens this member's end of an edge. Returns it with the endpoint for the other members; `None` if an incoming flow of
    /// the same edge has that endpoint. `receives`: whether this member receives on the edge.
    fn open(
        &mut self,
        host: &mut dyn Verbs,
        (edge, priority): (EdgeId, u8),
        receives: bool,
    ) -> Result<(Connection, Option<Endpoint>), TransferError> {
        if edge.is_datagrams() {
            let (connection, endpoint) = self.open_datagrams(host, edge)?;
            return Ok((connection, Some(endpoint)));
        }
        let connection = self.connections.open(host, &self.spec, edge, priority)?;
        let endpoint = match self.connections.incoming_index(connection.qpn()) {
            Some(_) => None,
            None => Some(self.endpoint(host, &connection, receives)?),
        };
        Ok((connection, endpoint))
    }

    /// Adds an incoming connection to the transfer, and posts as many receives on it as the specification permits.
    fn add_incoming(
        &mut self,
        host: &mut dyn Verbs,
        connection: Connection,
    ) -> Result<(), TransferError> {
        let qpn = connection.qpn();
        self.connections.add_incoming(connection);
        let (connections, rules) = self.receiving();
        connections.post_allowed_receives(host, &rules, qpn)
    }

    /// Adds an outgoing connection to the transfer, and posts receives for the announcements of its receiver.
    fn add_outgoing(
        &mut self,
        host: &mut dyn Verbs,
        connection: Connection,
    ) -> Result<(), TransferError> {
        let qpn = connection.qpn();
        self.connections
            .post_announcement_receives(host, &self.spec, qpn)?;
        self.connections.add_outgoing(connection);
        Ok(())
    }

    /// The connections, and the facts that decide which receives are posted on them.
    fn receiving(&mut self) -> (&mut Connections, ReceiveRules<'_>) {
        let rules = ReceiveRules {
            spec: &self.spec,
            execution: &self.execution,
            memory: self.memory.key(),
            has_started: self.leg.has_started(),
        };
        (&mut self.connections, rules)
    }

    /// This member's end of an edge, for the other members.
    fn endpoint(
        &mut self,
        host: &mut dyn Verbs,
        connection: &Connection,
        receives: bool,
    ) -> Result<Endpoint, TransferError> {
        let written = self.memory.key();
        let written = written.filter(|_| receives && self.spec.op.writes());
        let slice_windows = match (self.spec.group_write(), written) {
            (Some(WriteMode::PerRequest), Some(key)) => {
                self.memory.slice_windows(host, &self.spec, key)?
            }
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
            .map(|key| self.memory.whole_region(host, &self.spec, key))
            .transpose()?;
        let qpn = connection.qpn();
        Ok(Endpoint {
            edge: connection.edge(),
            rank: self.spec.rank,
            ip: host.ip(),
            qpn,
            psn: host.view(qpn).map_or(Psn::new(0), |qp| qp.sq_psn),
            memory: region,
            slice_windows,
        })
    }

    /// Reports [`TransferEvent::Ready`] if all connections of this member are established.
    fn report_if_ready(&mut self) {
        if self.is_ready() {
            self.reports.push(TransferEvent::Ready);
        }
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
                match self.connections.incoming_index(qpn) {
                    Some(flow) => self.execution.receive(flow, slice),
                    None => self.execution.hold(slice),
                }
                if !self.leg.has_ended() {
                    let (connections, rules) = self.receiving();
                    connections.post_after_arrival(host, &rules, qpn)?;
                }
            }
            Operation::Write if completion.wr_id & MR_INFO != 0 => {
                if let Some(flow) = self.connections.outgoing_index(qpn) {
                    self.connections.outgoing_mut()[flow].acknowledge_announcement();
                }
            }
            // The completion of the SEND that follows this WRITE covers both.
            Operation::Write if self.spec.op == TransferOp::Write => return Ok(()),
            Operation::Send | Operation::Write => {
                if let Some(flow) = self.connections.outgoing_index(qpn) {
                    self.execution
                        .acknowledge(flow, |slice| self.spec.slice(slice).1);
                }
            }
        }
        self.advance(host, now)
    }

    /// Posts every send that is possible now. Ends the transfer when no slice is missing and, at a source, all sends are
    /// acknowledged.
    fn advance(&mut self, host: &mut dyn Verbs, now: u64) -> Result<(), TransferError> {
        let Some(key) = self.memory.key() else {
            return Ok(());
        };
        if let Some(requests) = self.sources.requests_mut() {
            let acknowledged = self.execution.acknowledged_counts().min();
            requests.acknowledged(acknowledged.unwrap_or(0), now);
        }
        // A member sends no signals before it has entered the barrier.
        if self.leg.may_post() && (self.leg.has_started() || !self.execution.plan().empty_payloads)
        {
            self.post(host, now, key)?;
        }
        for part in self
            .sources
            .take_complete_parts(&self.spec, &self.execution)
        {
            let at = now;
            self.reports.push(TransferEvent::PartDone { part, at });
        }
        let has_all = match self.sources {
            Sources::All => self.execution.holds_all() && self.leg.has_started(),
            _ => self.execution.holds_all(),
        };
        if has_all && self.has_sent_all() && self.reports.mark_done() {
            self.finish(host, now)?;
        }
        Ok(())
    }

    /// Posts every send that the plan and the connections permit now.
    fn post(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        key: MemoryKey,
    ) -> Result<(), TransferError> {
        let before = self.posted_to_group();
        let mut posts = Posts {
            host,
            now,
            spec: &self.spec,
            key,
            outgoing: self.connections.outgoing_mut(),
            datagrams: self.datagrams.as_mut(),
            limit: self.leg.limit(),
            requests: self.sources.requests_mut(),
        };
        self.execution.advance(&mut posts)?;
        match self.posted_to_group() {
            after @ Some((qpn, ..)) if after != before => Ok(host.expect_next_source(qpn)?),
            _ => Ok(()),
        }
    }

    /// With several sources: the group's queue pair, and the numbers of slices posted and of announcements in flight.
    /// `None` with one source, and at a member that is not a source.
    fn posted_to_group(&self) -> Option<(QpNum, usize, usize)> {
        let connections = self.connections.outgoing();
        let group = connections.first().filter(|_| self.sources.take_turns())?;
        let posted = self.execution.sent(0).len();
        Some((group.qpn(), posted, group.pending_announcements()))
    }

    /// Whether the acknowledgements that this member needs to be done have arrived: those of all sends at a source.
    fn has_sent_all(&self) -> bool {
        if !self.spec.is_source() {
            return true;
        }
        match self.sources {
            // In a barrier over a group, the acknowledgement of the root's first signal proves that all members have
            // entered.
            Sources::All => {
                let flows = self.execution.plan().outgoing.iter();
                let mut flows = flows.zip(self.execution.acknowledged_counts());
                flows.all(|(flow, acknowledged)| acknowledged > 0 || !flow.edge.is_group())
            }
            _ => self.execution.is_acknowledged(),
        }
    }

    /// Verifies the data, and reports [`TransferEvent::Done`]. Fails if the data does not have the expected SHA-256.
    fn finish(&mut self, host: &dyn Verbs, now: u64) -> Result<(), TransferError> {
        let (offset, len) = self.spec.final_bytes();
        let got = self.memory.digest(host, offset..offset + len);
        if let Some(expected) = self.spec.expected_sha256 {
            if got != expected {
                return Err(TransferError::WrongDigest { got, expected });
            }
        }
        self.reports.push(TransferEvent::Done {
            sha256: got,
            bytes: len,
            at: now,
        });
        Ok(())
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
