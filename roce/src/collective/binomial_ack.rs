//! The root multicasts datagrams; receivers acknowledge up a binomial tree and repair each other ([`crate::binomial_ack`]).
//!
//! All of that is one edge, from the root to all others. A slice is a message on it, with the number of the slice; slices that
//! are repaired come late, so they come in no order. The root's end of the edge is the manager of the members, and those join by
//! its address. The edge is ready when everybody is in the list and has connections to its neighbours in the tree.

use std::net::Ipv4Addr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::plan::{Flow, Plan, Shape};
use super::spec::{EdgeId, Endpoint, SpecError, TransferOp, TransferSpec};
use super::transfer::{Connection, Transfer, TransferError};
use crate::binomial_ack::{self, EndpointConfig, EndpointEvent, MessageId};
use crate::host::HostEvent;
use crate::rc::{QpStats, Remote};
use crate::verbs::Verbs;

/// The number that the manager, which is the root, has among the members.
const ROOT: u32 = 0;

/// The longest slice in bytes: each end of a connection has buffers for whole ones.
pub(super) const LONGEST_SLICE: u64 = 1 << 20;

/// The multicast group of datagrams that members send to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DatagramSpec {
    /// Of 224.0.0.0/4. The fabric must know which hosts are in it.
    pub group: Ipv4Addr,
    /// The Q_Key of the members' queue pairs, less than 2^31.
    pub qkey: u32,
}

/// The plan of one member.
pub(super) fn plan(shape: Shape<'_>, rank: u32) -> Plan {
    Plan::of_edge(EdgeId::Datagrams { root: 0 }, shape, rank)
}

impl TransferSpec {
    /// Refuses what datagrams cannot do.
    pub(super) fn check_datagrams(&self) -> Result<(), SpecError> {
        let algorithm = self.algorithm;
        if !algorithm.needs_datagrams() {
            return Ok(());
        }
        let refused = [
            (self.op != TransferOp::Send, "WRITE"),
            (self.receives.is_some(), "number of receives"),
            (
                self.ready.is_some(),
                "receivers that say when they are ready",
            ),
            (self.announce, "first message that says how much there is"),
        ];
        if let Some((_, what)) = refused.into_iter().find(|(asked, _)| *asked) {
            return Err(SpecError::NotByDatagrams { algorithm, what });
        }
        let bad = |spec: &DatagramSpec| !spec.group.is_multicast() || spec.qkey >> 31 != 0;
        if self.datagrams.as_ref().is_none_or(bad) {
            return Err(SpecError::NoDatagrams(algorithm));
        }
        let longest = (0..self.slices.min(1))
            .map(|slice| self.slice(slice).1)
            .max();
        match longest {
            Some(len) if len > LONGEST_SLICE => Err(SpecError::LongDatagramSlice {
                algorithm,
                len,
                least: algorithm.least_slices(self.size),
            }),
            _ => Ok(()),
        }
    }
}

/// A member's end of the edge.
pub(super) struct DatagramEdge {
    member: binomial_ack::Endpoint,
    members: usize,
    is_ready: bool,
    /// Bytes of messages that this member has multicast.
    sent: u64,
}

impl DatagramEdge {
    fn open(host: &mut dyn Verbs, spec: &TransferSpec) -> Result<DatagramEdge, TransferError> {
        let datagrams = spec
            .datagrams
            .ok_or(SpecError::NoDatagrams(spec.algorithm))?;
        let rc = spec.rc.unwrap_or(host.default_rc());
        let (_, longest) = spec.slice(0);
        let members = spec.members.len();
        let config =
            EndpointConfig::new(datagrams.group, datagrams.qkey, rc, longest, members as u32);
        Ok(DatagramEdge {
            member: binomial_ack::Endpoint::open(host, config)?,
            members,
            is_ready: false,
            sent: 0,
        })
    }

    /// Whether everybody is in the group, and this member connected to its neighbours in the root's tree.
    pub(super) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Whether there is nothing that others may still need of this member.
    pub(super) fn is_idle(&self) -> bool {
        self.member.is_idle()
    }

    pub(super) fn close(self, host: &mut dyn Verbs) {
        self.member.close(host);
    }

    /// Sees whether the edge is ready by now; says so once.
    fn becomes_ready(&mut self, host: &mut dyn Verbs, now: u64) -> bool {
        if self.is_ready || self.member.members().len() < self.members {
            return false;
        }
        self.member.connect_tree(host, now, ROOT);
        self.is_ready = self.member.is_tree_connected(ROOT);
        self.is_ready
    }
}

impl Transfer {
    /// Makes this member's end of an edge of datagrams; its endpoint is for the others.
    pub(super) fn open_datagrams(
        &mut self,
        host: &mut dyn Verbs,
        flow: Flow,
    ) -> Result<(Connection, Endpoint), TransferError> {
        let edge = DatagramEdge::open(host, &self.spec)?;
        let connection = Connection::new(flow, edge.member.qpn());
        self.datagrams = Some(edge);
        let endpoint = self.endpoint(host, &connection, false)?;
        Ok((connection, endpoint))
    }

    /// Takes this member into the group whose manager has the root's endpoint.
    pub(super) fn join_datagrams(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        root: Option<Remote>,
    ) -> Result<(), TransferError> {
        let Some(edge) = &mut self.datagrams else {
            return Ok(());
        };
        match root {
            None => edge.member.found(host, now),
            Some(manager) => edge.member.join(host, now, manager),
        }
        self.hear_datagrams(host, now)
    }

    /// Takes an event of the host, and says whether it belonged to the edge alone.
    pub(super) fn handle_datagrams(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        event: &HostEvent,
    ) -> bool {
        let Some(edge) = &mut self.datagrams else {
            return false;
        };
        let is_own = edge.member.handle_event(host, now, event);
        if let Err(error) = self.hear_datagrams(host, now) {
            self.fail(error);
        }
        is_own
    }

    /// When to call [`Transfer::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<u64> {
        let edge = self.datagrams.as_ref().filter(|_| !self.failed)?;
        edge.member.poll_timeout()
    }

    /// Does what is due. Connections have their timeouts in the host; only datagrams have some here.
    pub fn handle_timeout(&mut self, host: &mut dyn Verbs, now: u64) {
        if let Some(edge) = self.datagrams.as_mut().filter(|_| !self.failed) {
            edge.member.handle_timeout(host, now);
            if let Err(error) = self.hear_datagrams(host, now) {
                self.fail(error);
            }
        }
    }

    /// Multicasts a slice, if the group can take one more.
    pub(super) fn post_datagrams(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        slice: u32,
    ) -> Result<bool, TransferError> {
        let (offset, len) = self.spec.slice(slice);
        let Some(edge) = &mut self.datagrams else {
            return Ok(false);
        };
        if edge.member.node().is_none_or(|node| node.is_full()) {
            return Ok(false);
        }
        let bytes = match self.memory {
            Some(key) => host
                .memory(key)?
                .get(offset as usize..(offset + len) as usize),
            None => None,
        };
        let data = Arc::from(bytes.unwrap_or_default());
        edge.member.multicast(host, now, data)?;
        edge.sent += len;
        Ok(true)
    }

    /// Takes what the edge has to tell.
    fn hear_datagrams(&mut self, host: &mut dyn Verbs, now: u64) -> Result<(), TransferError> {
        while let Some(event) = self.datagrams.as_mut().and_then(|edge| edge.member.poll()) {
            match event {
                EndpointEvent::Delivered { id, data } => self.deliver(host, now, id, &data)?,
                EndpointEvent::Completed { .. } => {
                    let mut outgoing = self.outgoing.iter_mut();
                    if let Some(connection) = outgoing.find(|c| c.flow.edge.is_datagrams()) {
                        connection.completed += 1;
                    }
                    self.advance(host, now)?;
                }
                // The orchestrator knows who is dead, or runs into its limit of time.
                EndpointEvent::Silent { .. } => {}
            }
        }
        let edge = self.datagrams.as_mut();
        if edge.is_some_and(|edge| edge.becomes_ready(host, now)) {
            self.tell_if_ready();
        }
        Ok(())
    }

    fn deliver(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        id: MessageId,
        data: &[u8],
    ) -> Result<(), TransferError> {
        let slice = id.message;
        // Only the root sends.
        if id.root != ROOT || slice >= self.spec.slices {
            return Ok(());
        }
        let (offset, expected) = self.spec.slice(slice);
        let got = data.len() as u64;
        if got != expected {
            return Err(TransferError::WrongSlice {
                slice,
                got,
                expected,
            });
        }
        if let Some(key) = self.memory.filter(|_| got > 0) {
            host.write_memory(key, offset, data)?;
        }
        let mut incoming = self.incoming.iter_mut();
        if let Some(connection) = incoming.find(|c| c.flow.edge.is_datagrams()) {
            connection.completed += 1;
        }
        self.take_slice(slice);
        self.advance(host, now)
    }

    /// What this member's datagrams and the protocol on them have sent and heard, if there are any; connections count by themselves.
    pub fn datagram_stats(&self) -> Option<QpStats> {
        let edge = self.datagrams.as_ref()?;
        let counts = edge.member.node().map(|node| node.counts())?;
        Some(QpStats {
            request_bytes_sent: edge.sent,
            acks_received: counts.acks,
            retransmissions: counts.repair_packets,
            ..QpStats::default()
        })
    }

    /// The counters of queue pairs that belong to the edge of datagrams.
    pub(super) fn datagram_qp_stats<'a>(
        &'a self,
        host: &'a dyn Verbs,
    ) -> impl Iterator<Item = (EdgeId, QpStats)> + 'a {
        let members = self.datagrams.iter().map(|edge| &edge.member);
        let connections = members.flat_map(binomial_ack::Endpoint::connections);
        let connections = connections.filter_map(|qpn| Some(host.view(qpn)?.stats));
        let all = self.datagram_stats().into_iter().chain(connections);
        all.map(|stats| (EdgeId::Datagrams { root: 0 }, stats))
    }
}

impl EdgeId {
    pub(super) const fn is_datagrams(self) -> bool {
        matches!(self, EdgeId::Datagrams { .. })
    }
}

impl From<binomial_ack::OpenError> for TransferError {
    fn from(error: binomial_ack::OpenError) -> TransferError {
        match error {
            binomial_ack::OpenError::Modify(error) => error.into(),
            binomial_ack::OpenError::Datagrams(error) => error.into(),
            binomial_ack::OpenError::Memory(error) => error.into(),
        }
    }
}
