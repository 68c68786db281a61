//! All queue pairs of a member: those of the present leg, and the one for a group that the next leg may use.
//!
//! Terms: the data is cut into *slices*, each of which is one message. An *edge* is a connection between members, or a group.
//! A *flow* is the slices that cross one edge. The *root* has rank 0 and the data at the start.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::connection::Connection;
use super::receives::ReceiveSchedule;
use crate::collective::edge::EdgeId;
use crate::collective::error::TransferError;
use crate::collective::spec::{Endpoint, GroupSpec, RemoteMemory, TransferSpec, WriteMode};
use crate::rc::{LossReports, MemoryKey, Remote};
use crate::verbs::Verbs;
use crate::wire::{Psn, QpNum};

/// The connections of a member. An incoming or outgoing connection has the index of its flow in the plan.
#[derive(Default)]
pub(super) struct Connections {
    incoming: Vec<Connection>,
    outgoing: Vec<Connection>,
    /// The queue pair for a group that the next leg may use; `None` if no group is in preparation.
    standby: Option<(GroupSpec, Connection)>,
    /// A memory region of 0 bytes, for the receives of empty messages; `None` until it is needed.
    signal_memory: Option<MemoryKey>,
    /// The order in which receives are posted over all edges, with [`TransferSpec::ready`] and a block schedule.
    receive_schedule: ReceiveSchedule,
}

/// The remote ends of a member's edges.
pub(super) struct RemoteEnds {
    /// For each queue pair to connect: its number, its remote end, and the PSN of the first request that it receives.
    pub queue_pairs: Vec<(QpNum, Remote, Psn)>,
    /// The root's end of the datagram edge; `None` without datagrams.
    pub datagram_root: Option<Remote>,
}

impl Connections {
    // ---- Queue pairs ----

    /// Creates the queue pair of an edge, or finds the one that an incoming flow of the same edge has.
    pub(super) fn open(
        &self,
        host: &mut dyn Verbs,
        spec: &TransferSpec,
        edge: EdgeId,
        priority: u8,
    ) -> Result<Connection, TransferError> {
        let config = spec.rc_of(edge);
        let mut config = config.unwrap_or(host.default_rc());
        config.priority = priority;
        if let EdgeId::Group { .. } = edge {
            config.loss_reports = LossReports::Merged;
        }
        let shared = self.incoming.iter().find(|c| c.edge() == edge);
        let qpn = match shared {
            Some(connection) => connection.qpn(),
            None => host.create_qp(config)?,
        };
        if let (EdgeId::Group { .. }, Some(group)) = (edge, spec.group) {
            host.set_sq_psn(qpn, group.initial_psn)?;
        }
        Ok(Connection::new(edge, qpn))
    }

    /// Opens the queue pair of an edge of a later leg. It is the one in preparation, if that is for the leg's group.
    pub(super) fn open_for_leg(
        &mut self,
        host: &mut dyn Verbs,
        spec: &TransferSpec,
        edge: EdgeId,
        priority: u8,
    ) -> Result<Connection, TransferError> {
        match self.standby.take() {
            Some((group, connection)) if spec.group == Some(group) => {
                Ok(connection.with_edge(edge))
            }
            other => {
                self.standby = other;
                self.open(host, spec, edge, priority)
            }
        }
    }

    /// Sets the queue pair for a group that the next leg may use.
    pub(super) fn set_standby(&mut self, group: GroupSpec, connection: Connection) {
        self.standby = Some((group, connection));
    }

    /// Destroys the queue pair for a group that the next leg may use, if there is one.
    pub(super) fn destroy_standby(&mut self, host: &mut dyn Verbs) {
        if let Some((_, connection)) = self.standby.take() {
            // An error means that the queue pair no longer exists.
            let _ = host.destroy_qp(connection.qpn());
        }
    }

    /// Adds the connection of the next incoming flow.
    pub(super) fn add_incoming(&mut self, connection: Connection) {
        self.incoming.push(connection);
    }

    /// Adds the connection of the next outgoing flow.
    pub(super) fn add_outgoing(&mut self, connection: Connection) {
        self.outgoing.push(connection);
    }

    /// Destroys the queue pairs of the present leg.
    pub(super) fn destroy(&self, host: &mut dyn Verbs) {
        for connection in self.iter() {
            // An error means that the queue pair no longer exists.
            let _ = host.destroy_qp(connection.qpn());
        }
    }

    /// Removes the connections of the present leg, whose queue pairs are destroyed.
    pub(super) fn clear(&mut self, host: &mut dyn Verbs) {
        for connection in &mut self.incoming {
            if let Some(key) = connection.take_scratch() {
                // The queue pair is destroyed, so no data can arrive in this buffer any more.
                let _ = host.deregister(key);
            }
        }
        self.incoming.clear();
        self.outgoing.clear();
    }

    /// All connections. A queue pair that both sends and receives is listed once.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Connection> {
        let is_new = |c: &&Connection| self.incoming.iter().all(|other| other.qpn() != c.qpn());
        self.incoming
            .iter()
            .chain(self.outgoing.iter().filter(is_new))
    }

    /// The connections of the incoming flows.
    pub(super) fn incoming(&self) -> &[Connection] {
        &self.incoming
    }

    /// The connections of the incoming flows, to post receives on them.
    pub(super) fn incoming_mut(&mut self) -> &mut [Connection] {
        &mut self.incoming
    }

    /// The connections of the outgoing flows.
    pub(super) fn outgoing(&self) -> &[Connection] {
        &self.outgoing
    }

    /// The connections of the outgoing flows, to post sends on them.
    pub(super) fn outgoing_mut(&mut self) -> &mut [Connection] {
        &mut self.outgoing
    }

    /// Index of the incoming flow that uses a queue pair; `None` if none does.
    pub(super) fn incoming_index(&self, qpn: QpNum) -> Option<usize> {
        self.incoming.iter().position(|c| c.qpn() == qpn)
    }

    /// Index of the outgoing flow that uses a queue pair; `None` if none does.
    pub(super) fn outgoing_index(&self, qpn: QpNum) -> Option<usize> {
        self.outgoing.iter().position(|c| c.qpn() == qpn)
    }

    /// Number of connections of incoming and outgoing flows.
    pub(super) fn count(&self) -> usize {
        self.incoming.len() + self.outgoing.len()
    }

    /// Memory regions of signals and first blocks.
    pub(super) fn memory_keys(&self) -> impl Iterator<Item = MemoryKey> + '_ {
        let scratch = self.incoming.iter().filter_map(Connection::scratch);
        self.signal_memory.into_iter().chain(scratch)
    }

    // ---- Connecting ----

    /// Finds the remote end of each connection among the endpoints of all members, and sets the targets of WRITEs.
    pub(super) fn find_remote_ends(
        &mut self,
        spec: &TransferSpec,
        peers: &[Endpoint],
    ) -> Result<RemoteEnds, TransferError> {
        let mut queue_pairs: Vec<(QpNum, Remote, Psn)> = Vec::new();
        let mut datagram_root = None;
        for connection in self.incoming.iter_mut().chain(&mut self.outgoing) {
            let edge = connection.edge();
            let (remote, rq_psn) = match (edge, spec.group) {
                (EdgeId::Group { .. }, Some(group)) => {
                    connection.set_remote_memory(Some(RemoteMemory {
                        va: group.va,
                        rkey: group.rkey,
                        len: spec.size,
                    }));
                    let remote = Remote {
                        ip: group.mcst_id,
                        qpn: group.virtual_qpn,
                    };
                    (remote, group.initial_psn)
                }
                _ => {
                    let is_other = |p: &&Endpoint| match edge {
                        EdgeId::Datagrams { root } => p.rank == root,
                        _ => p.rank != spec.rank,
                    };
                    let peer = peers
                        .iter()
                        .filter(|p| p.edge == edge)
                        .find(is_other)
                        .ok_or(TransferError::MissingPeer(edge))?;
                    connection.set_remote_memory(peer.memory);
                    let remote = Remote {
                        ip: peer.ip,
                        qpn: peer.qpn,
                    };
                    (remote, peer.psn)
                }
            };
            if edge.is_datagrams() {
                datagram_root = Some(remote);
                continue;
            }
            let qpn = connection.qpn();
            if queue_pairs.iter().all(|(known, _, _)| *known != qpn) {
                queue_pairs.push((qpn, remote, rq_psn));
            }
        }
        if spec.group_write() == Some(WriteMode::PerRequest) {
            for connection in &mut self.outgoing {
                connection.set_receivers(receivers(spec, connection.edge(), peers)?);
            }
        }
        if spec.op.writes() {
            if let Some(blind) = self.outgoing.iter().find(|c| !c.has_remote_memory()) {
                return Err(TransferError::NoRemoteMemory(blind.edge()));
            }
        }
        Ok(RemoteEnds {
            queue_pairs,
            datagram_root,
        })
    }

    // ---- Receives ----

    /// The memory region of 0 bytes for receives of empty messages; registered on first use.
    pub(super) fn signal_memory(
        &mut self,
        host: &mut dyn Verbs,
    ) -> Result<MemoryKey, TransferError> {
        match self.signal_memory {
            Some(key) => Ok(key),
            None => Ok(*self.signal_memory.insert(host.register_memory(0, false)?)),
        }
    }

    /// Sets the order in which receives are posted over all edges.
    pub(super) fn set_receive_schedule(&mut self, schedule: ReceiveSchedule) {
        self.receive_schedule = schedule;
    }

    /// Index of the incoming connection that needs the next receive in the order of the schedule; `None` if `limit`
    /// blocks have a posted receive. `arrived`: number of blocks that have arrived.
    pub(super) fn next_scheduled_receive(&mut self, arrived: usize, limit: usize) -> Option<usize> {
        let posted = |connection: usize| self.incoming[connection].receives();
        self.receive_schedule.next(arrived, limit, posted)
    }
}

/// For each other member of a group: its address, and the memory region that it has announced for each slice (message).
fn receivers(
    spec: &TransferSpec,
    edge: EdgeId,
    peers: &[Endpoint],
) -> Result<Vec<(Ipv4Addr, Vec<RemoteMemory>)>, TransferError> {
    let ranks = (0..spec.members.len() as u32).filter(|rank| *rank != spec.rank);
    let ends = peers.iter().filter(|p| p.edge == edge);
    let ends: BTreeMap<u32, &Endpoint> = ends.map(|p| (p.rank, p)).collect();
    let regions = ranks.map(|rank| {
        let peer = *ends.get(&rank).ok_or(TransferError::MissingPeer(edge))?;
        let got = peer.slice_windows.len();
        if got != spec.slices as usize {
            let slices = spec.slices;
            return Err(TransferError::MissingRegions { rank, got, slices });
        }
        Ok((peer.ip, peer.slice_windows.clone()))
    });
    regions.collect()
}
