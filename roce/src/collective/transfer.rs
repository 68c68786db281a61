//! The machine that executes a plan.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::plan::Flow;
use super::spec::{
    EdgeId, Endpoint, GroupSpec, RemoteMemory, SpecError, TransferOp, TransferSpec, WriteMode,
};
use crate::host::{Host, HostEvent};
use crate::icrc::neutral::Unsolvable;
use crate::rc::{
    Completion, CompletionError, MemoryError, MemoryKey, MemorySlice, ModifyError, Operation,
    Payload, PostError, QpFailure, QpStats, RecvRequest, Remote, SendOperation, SendRequest,
};
use crate::wire::{mr_info, Psn, QpNum};

/// Why a transfer cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Modify(#[from] ModifyError),
    #[error(transparent)]
    Post(#[from] PostError),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error(transparent)]
    Neutral(#[from] Unsolvable),
    #[error("rank {rank} has told regions for {got} of {slices} slices to write")]
    MissingRegions { rank: u32, got: usize, slices: u32 },
    #[error("no endpoint was given for the other end of {0:?}")]
    MissingPeer(EdgeId),
    #[error("the endpoint of {0:?} has no memory to write to")]
    NoRemoteMemory(EdgeId),
    #[error("{got} bytes of data for a transfer of {size}")]
    WrongSize { got: u64, size: u64 },
    #[error("only the root (rank 0) has data to start with, and this is rank {0}")]
    NotRoot(u32),
    #[error("the transfer is not ready: {0} connections are missing")]
    NotReady(usize),
    #[error("the transfer has been started already")]
    Started,
    #[error("queue pair {qpn} towards {remote}: {error}")]
    Connection {
        qpn: QpNum,
        remote: Ipv4Addr,
        error: QpFailure,
    },
    #[error("queue pair {qpn}: {error}")]
    Message { qpn: QpNum, error: CompletionError },
    #[error("slice {slice} has {got} bytes instead of {expected}")]
    WrongSlice { slice: u32, got: u64, expected: u64 },
    #[error("the data arrived with SHA-256 {got} instead of {expected}")]
    WrongDigest { got: Digest, expected: Digest },
}

/// What a transfer tells its orchestrator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferEvent {
    /// Every connection of this member is up.
    Ready,
    /// At a receiver: all data is there. At the root: everything it sent is acknowledged.
    Done {
        sha256: Digest,
        bytes: u64,
        /// Nanoseconds on the driver's clock.
        at: u64,
    },
    /// The transfer has ended without success.
    Failed(TransferError),
}

/// How far a transfer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// At a receiver: bytes received. At the root: bytes of completed messages, over all edges.
    pub bytes: u64,
    /// What `bytes` will be at the end.
    pub total: u64,
}

/// One end of an edge at this member.
struct Connection {
    flow: Flow,
    qpn: QpNum,
    /// Where WRITEs go; known after `connect`.
    remote_memory: Option<RemoteMemory>,
    /// Where each slice's WRITE goes at each receiver, with [`WriteMode::PerRequest`]; known after `connect`.
    receivers: Vec<(Ipv4Addr, Vec<RemoteMemory>)>,
    /// How many slices of the flow have been handed to the queue pair.
    posted: usize,
    /// How many have completed.
    completed: usize,
}

/// The application of one host in one collective.
pub struct Transfer {
    spec: TransferSpec,
    /// The data, or the room for it.
    memory: Option<MemoryKey>,
    incoming: Vec<Connection>,
    outgoing: Vec<Connection>,
    /// Which slices are here.
    held: Vec<bool>,
    missing: u32,
    /// Queue pairs whose address is not resolved yet, and what they are to reach.
    connecting: BTreeMap<QpNum, Ipv4Addr>,
    connected: bool,
    started: bool,
    done: bool,
    failed: bool,
    events: VecDeque<TransferEvent>,
}

impl Transfer {
    /// Makes the queue pairs of this member's edges and posts its receive buffers. The endpoints are for the other
    /// members.
    pub fn prepare(
        host: &mut Host,
        spec: TransferSpec,
    ) -> Result<(Transfer, Vec<Endpoint>), TransferError> {
        spec.check(host.ip())?;
        let plan = spec
            .algorithm
            .plan(spec.members.len() as u32, spec.slices, spec.rank);
        let memory = match spec.is_root() {
            true => None,
            false => Some(register(host, &spec)?),
        };
        let mut transfer = Transfer {
            memory,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            held: vec![false; spec.slices as usize],
            missing: spec.slices,
            connecting: BTreeMap::new(),
            connected: false,
            started: false,
            done: false,
            failed: false,
            events: VecDeque::new(),
            spec,
        };
        let mut endpoints = Vec::new();
        for flow in plan.incoming {
            let connection = transfer.open(host, flow)?;
            transfer.post_receives(host, &connection)?;
            endpoints.push(transfer.endpoint(host, &connection, true)?);
            transfer.incoming.push(connection);
        }
        for flow in plan.outgoing {
            let connection = transfer.open(host, flow)?;
            endpoints.push(transfer.endpoint(host, &connection, false)?);
            transfer.outgoing.push(connection);
        }
        Ok((transfer, endpoints))
    }

    pub fn spec(&self) -> &TransferSpec {
        &self.spec
    }

    /// Connects this member's queue pairs. `peers` holds at least the other ends of its edges; more does no harm, so the
    /// orchestrator can hand the list of all endpoints to everybody. A group's members need no peers, except those that send
    /// with [`WriteMode::PerRequest`].
    pub fn connect(
        &mut self,
        host: &mut Host,
        now: u64,
        peers: &[Endpoint],
    ) -> Result<(), TransferError> {
        let mut remotes = Vec::new();
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
                    let peer = peers
                        .iter()
                        .find(|p| p.edge == edge && p.rank != self.spec.rank)
                        .ok_or(TransferError::MissingPeer(edge))?;
                    connection.remote_memory = peer.memory;
                    let remote = Remote {
                        ip: peer.ip,
                        qpn: peer.qpn,
                    };
                    (remote, peer.psn)
                }
            };
            remotes.push((connection.qpn, remote, rq_psn));
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
        self.connecting = remotes.iter().map(|(qpn, r, _)| (*qpn, r.ip)).collect();
        for (qpn, remote, rq_psn) in remotes {
            host.connect_qp(now, qpn, remote, rq_psn)?;
        }
        Ok(())
    }

    /// Hands the data to the root, which begins to send. Other members begin by themselves as data arrives.
    pub fn start(
        &mut self,
        host: &mut Host,
        now: u64,
        data: Arc<[u8]>,
    ) -> Result<(), TransferError> {
        if !self.spec.is_root() {
            return Err(TransferError::NotRoot(self.spec.rank));
        }
        if self.started {
            return Err(TransferError::Started);
        }
        if !self.is_ready() {
            let open = self.incoming.len() + self.outgoing.len();
            let missing = if self.connected {
                self.connecting.len()
            } else {
                open
            };
            return Err(TransferError::NotReady(missing));
        }
        let got = data.len() as u64;
        if got != self.spec.size {
            return Err(TransferError::WrongSize {
                got,
                size: self.spec.size,
            });
        }
        self.started = true;
        self.memory = Some(host.register_shared(data));
        self.held.fill(true);
        self.missing = 0;
        self.advance(host, now)
    }

    /// Takes an event of the host, and says whether it belonged to this transfer.
    pub fn handle_event(&mut self, host: &mut Host, now: u64, event: &HostEvent) -> bool {
        let qpn = match event {
            HostEvent::Connected { qpn } | HostEvent::QpFailed { qpn, .. } => *qpn,
            HostEvent::Completion(completion) => completion.qpn,
            HostEvent::Udp { .. } => return false,
        };
        if !self.connections().any(|c| c.qpn == qpn) {
            return false;
        }
        if self.failed {
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
            HostEvent::QpFailed { failure, .. } => Err(TransferError::Connection {
                qpn,
                remote: host
                    .qp(qpn)
                    .and_then(|qp| qp.remote())
                    .map_or(Ipv4Addr::UNSPECIFIED, |r| r.ip),
                error: *failure,
            }),
            HostEvent::Completion(completion) => self.handle_completion(host, now, completion),
            HostEvent::Udp { .. } => Ok(()),
        };
        if let Err(error) = result {
            self.fail(error);
        }
        true
    }

    /// The next thing the orchestrator should know.
    pub fn poll(&mut self) -> Option<TransferEvent> {
        self.events.pop_front()
    }

    /// Whether every connection is up.
    pub fn is_ready(&self) -> bool {
        self.connected && self.connecting.is_empty()
    }

    /// Whether this member has all data and everything it passed on is acknowledged.
    pub fn is_finished(&self) -> bool {
        self.done
            && self
                .outgoing
                .iter()
                .all(|c| c.completed == c.flow.slices.len())
    }

    /// Whether the transfer has ended without success.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// How far this member is.
    pub fn progress(&self, host: &Host) -> Progress {
        if self.spec.is_root() {
            let bytes = self
                .outgoing
                .iter()
                .flat_map(|c| &c.flow.slices[..c.completed])
                .map(|slice| self.spec.slice(*slice).1)
                .sum();
            return Progress {
                bytes,
                total: self.spec.size * self.outgoing.len() as u64,
            };
        }
        Progress {
            bytes: self
                .incoming
                .iter()
                .filter_map(|c| host.qp(c.qpn))
                .map(|qp| qp.stats().request_bytes_received)
                .sum(),
            total: self.spec.size,
        }
    }

    /// The counters of this member's queue pairs, receiving ones first.
    pub fn qp_stats<'a>(&'a self, host: &'a Host) -> impl Iterator<Item = (EdgeId, QpStats)> + 'a {
        self.connections()
            .filter_map(|c| Some((c.flow.edge, host.qp(c.qpn)?.stats())))
    }

    /// The data, as far as it is here.
    pub fn data<'a>(&self, host: &'a Host) -> &'a [u8] {
        self.memory
            .and_then(|key| host.memory().region(key).ok())
            .map_or(&[], |region| region.bytes())
    }

    /// Ends the transfer: its queue pairs and its memory are given up.
    pub fn close(self, host: &mut Host) {
        for connection in self.connections() {
            // An absent queue pair is as good as a destroyed one.
            let _ = host.destroy_qp(connection.qpn);
        }
        if let Some(key) = self.memory {
            let _ = host.memory_mut().deregister(key);
        }
    }

    // ---- Setting up ----

    fn open(&self, host: &mut Host, flow: Flow) -> Result<Connection, TransferError> {
        let mut config = self.spec.rc.unwrap_or(host.default_rc());
        config.priority = flow.priority;
        let qpn = host.create_qp(config);
        if let (EdgeId::Group { .. }, Some(group)) = (flow.edge, self.spec.group) {
            host.set_sq_psn(qpn, group.initial_psn)?;
        }
        Ok(Connection {
            flow,
            qpn,
            remote_memory: None,
            receivers: Vec::new(),
            posted: 0,
            completed: 0,
        })
    }

    /// One receive per slice: into its place for a SEND, and an empty one for the notice of a WRITE.
    fn post_receives(&self, host: &mut Host, connection: &Connection) -> Result<(), TransferError> {
        let key = self.memory.expect("a member that receives has memory");
        for slice in &connection.flow.slices {
            let (offset, len) = match self.spec.op {
                TransferOp::Send => self.spec.slice(*slice),
                TransferOp::Write | TransferOp::WriteImm => (0, 0),
            };
            let buffer = MemorySlice { key, offset, len };
            let wr_id = u64::from(*slice);
            host.post_recv(connection.qpn, RecvRequest { wr_id, buffer })?;
        }
        Ok(())
    }

    fn endpoint(
        &self,
        host: &mut Host,
        connection: &Connection,
        receives: bool,
    ) -> Result<Endpoint, TransferError> {
        let written = self.memory.filter(|_| receives && self.spec.op.writes());
        let requests = match (self.spec.group_write(), written) {
            (Some(WriteMode::PerRequest), Some(key)) => self.bind_windows(host, key)?,
            _ => Vec::new(),
        };
        let region = written
            .filter(|_| matches!(self.spec.group_write(), None | Some(WriteMode::Aligned)))
            .and_then(|key| host.memory().region(key).ok());
        Ok(Endpoint {
            edge: connection.flow.edge,
            rank: self.spec.rank,
            ip: host.ip(),
            qpn: connection.qpn,
            psn: host
                .qp(connection.qpn)
                .map_or(Psn::new(0), |qp| qp.sq_psn()),
            memory: region.map(|region| RemoteMemory {
                va: region.virtual_address(),
                rkey: region.key().0,
                len: self.spec.size,
            }),
            requests,
        })
    }

    /// A window for each slice, none of which is where another member has its own.
    fn bind_windows(
        &self,
        host: &mut Host,
        key: MemoryKey,
    ) -> Result<Vec<RemoteMemory>, TransferError> {
        let windows = (0..self.spec.slices).map(|slice| {
            let (offset, len) = self.spec.slice(slice);
            let (window, va) = host.bind_window(MemorySlice { key, offset, len })?;
            let rkey = window.0;
            Ok(RemoteMemory { va, rkey, len })
        });
        windows.collect()
    }

    fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.incoming.iter().chain(&self.outgoing)
    }

    // ---- Running ----

    fn handle_completion(
        &mut self,
        host: &mut Host,
        now: u64,
        completion: &Completion,
    ) -> Result<(), TransferError> {
        let qpn = completion.qpn;
        let done = match completion.outcome {
            Ok(done) => done,
            Err(error) => return Err(TransferError::Message { qpn, error }),
        };
        match completion.operation {
            Operation::Receive | Operation::ReceiveWrite => {
                let slice = completion.wr_id as u32;
                let expected = match completion.operation {
                    // The notice of a WRITE is empty.
                    Operation::Receive if self.spec.op.writes() => 0,
                    _ => self.spec.slice(slice).1,
                };
                if done.bytes != expected {
                    let got = done.bytes;
                    return Err(TransferError::WrongSlice {
                        slice,
                        got,
                        expected,
                    });
                }
                if let Some(connection) = self.incoming.iter_mut().find(|c| c.qpn == qpn) {
                    connection.completed += 1;
                }
                if !std::mem::replace(&mut self.held[slice as usize], true) {
                    self.missing -= 1;
                }
            }
            // The switches have got what they need for the WRITE behind it.
            Operation::Write if completion.wr_id & MR_INFO != 0 => return Ok(()),
            // The WRITE itself says nothing that its notice does not.
            Operation::Write if self.spec.op == TransferOp::Write => return Ok(()),
            Operation::Send | Operation::Write => {
                if let Some(connection) = self.outgoing.iter_mut().find(|c| c.qpn == qpn) {
                    connection.completed += 1;
                }
            }
        }
        self.advance(host, now)
    }

    /// Sends what can be sent, and notes whether the work is done.
    fn advance(&mut self, host: &mut Host, now: u64) -> Result<(), TransferError> {
        let Some(key) = self.memory else {
            return Ok(());
        };
        for connection in &mut self.outgoing {
            while let Some(slice) = connection.flow.slices.get(connection.posted).copied() {
                let fenced = self.spec.group_write() == Some(WriteMode::PerRequest)
                    && connection.completed < connection.posted;
                if !self.held[slice as usize] || fenced {
                    break;
                }
                connection.posted += 1;
                post_slice(host, &self.spec, connection, key, slice)?;
            }
        }
        let all_here = self.missing == 0;
        let all_sent = self
            .outgoing
            .iter()
            .all(|c| c.completed == c.flow.slices.len());
        if !self.done && all_here && (all_sent || !self.spec.is_root()) {
            self.done = true;
            self.finish(host, now)?;
        }
        Ok(())
    }

    /// Verifies the data and reports it.
    fn finish(&mut self, host: &Host, now: u64) -> Result<(), TransferError> {
        let got = Digest::of(self.data(host));
        if let Some(expected) = self.spec.expected_sha256 {
            if got != expected {
                return Err(TransferError::WrongDigest { got, expected });
            }
        }
        self.events.push_back(TransferEvent::Done {
            sha256: got,
            bytes: self.spec.size,
            at: now,
        });
        Ok(())
    }

    fn fail(&mut self, error: TransferError) {
        self.failed = true;
        self.events.push_back(TransferEvent::Failed(error));
    }
}

/// Marks the work requests that carry memory region information; the rest of the number is the slice's.
const MR_INFO: u64 = 1 << 63;

/// The room for the data.
fn register(host: &mut Host, spec: &TransferSpec) -> Result<MemoryKey, TransferError> {
    match (spec.group_write(), spec.group) {
        (Some(WriteMode::Uniform), Some(GroupSpec { va, rkey, .. })) => {
            let key = MemoryKey(rkey);
            host.memory_mut().register_at(key, va, spec.size)?;
            Ok(key)
        }
        // Only windows are open.
        (Some(WriteMode::PerRequest), _) => Ok(host.register_memory(spec.size, false)),
        _ => Ok(host.register_memory(spec.size, spec.op.writes())),
    }
}

/// What the other members of a group have told of their memory.
fn receivers(
    spec: &TransferSpec,
    edge: EdgeId,
    peers: &[Endpoint],
) -> Result<Vec<(Ipv4Addr, Vec<RemoteMemory>)>, TransferError> {
    let ranks = (0..spec.members.len() as u32).filter(|rank| *rank != spec.rank);
    let regions = ranks.map(|rank| {
        let peer = peers
            .iter()
            .find(|p| p.edge == edge && p.rank == rank)
            .ok_or(TransferError::MissingPeer(edge))?;
        let got = peer.requests.len();
        if got != spec.slices as usize {
            let slices = spec.slices;
            return Err(TransferError::MissingRegions { rank, got, slices });
        }
        Ok((peer.ip, peer.requests.clone()))
    });
    regions.collect()
}

fn post_slice(
    host: &mut Host,
    spec: &TransferSpec,
    connection: &Connection,
    key: MemoryKey,
    slice: u32,
) -> Result<(), TransferError> {
    let (offset, len) = spec.slice(slice);
    let data = Payload::Memory(MemorySlice { key, offset, len });
    let wr_id = u64::from(slice);
    let write = |immediate| {
        let memory = connection
            .remote_memory
            .ok_or(TransferError::NoRemoteMemory(connection.flow.edge))?;
        Ok::<_, TransferError>(SendOperation::Write {
            remote_va: memory.va.wrapping_add(offset),
            rkey: memory.rkey,
            immediate,
        })
    };
    if len > 0 {
        // A WRITE of nothing needs no memory.
        for (receiver, regions) in &connection.receivers {
            let sent = connection
                .remote_memory
                .ok_or(TransferError::NoRemoteMemory(connection.flow.edge))?;
            let region = regions[slice as usize];
            let info = mr_info::Repr::between(
                (sent.va.wrapping_add(offset), sent.rkey),
                (region.va, region.rkey),
            )?;
            let mut bytes = [0; mr_info::PAYLOAD_LEN];
            info.emit(&mut bytes);
            let request = SendRequest {
                wr_id: MR_INFO | wr_id,
                operation: SendOperation::Write {
                    remote_va: u32::from(*receiver).into(),
                    rkey: mr_info::R_KEY,
                    immediate: None,
                },
                payload: Payload::Bytes(Arc::from(bytes)),
            };
            host.post_send(connection.qpn, request)?;
        }
    }
    let mut post = |operation, payload| {
        let request = SendRequest {
            wr_id,
            operation,
            payload,
        };
        host.post_send(connection.qpn, request)
    };
    let immediate = Some(slice);
    match spec.op {
        TransferOp::Send => post(SendOperation::Send { immediate: None }, data)?,
        TransferOp::WriteImm => post(write(immediate)?, data)?,
        TransferOp::Write => {
            post(write(None)?, data)?;
            let nothing = Payload::Bytes(Arc::from(&[][..]));
            post(SendOperation::Send { immediate }, nothing)?;
        }
    }
    Ok(())
}
