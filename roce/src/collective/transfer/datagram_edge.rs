//! A member's endpoint of the datagram edge, over which the root multicasts to all other members
//! (the module `binomial_ack`).

use std::sync::Arc;

use crate::binomial_ack::{self, EndpointConfig, EndpointEvent};
use crate::collective::error::TransferError;
use crate::collective::spec::{SpecError, TransferSpec};
use crate::host::HostEvent;
use crate::rc::{MemoryKey, QpStats, Remote};
use crate::verbs::Verbs;
use crate::wire::QpNum;

/// Member number of the root in the datagram group. The root is the group's manager.
pub(super) const ROOT: u32 = 0;

/// This member's endpoint of the edge over which the root multicasts datagrams to all other members.
pub(super) struct DatagramEdge {
    member: binomial_ack::Endpoint,
    members: usize,
    is_ready: bool,
    /// Bytes of data that this member has multicast.
    sent: u64,
}

impl DatagramEdge {
    pub(super) fn open(
        host: &mut dyn Verbs,
        spec: &TransferSpec,
    ) -> Result<DatagramEdge, TransferError> {
        let datagrams = spec
            .datagrams
            .ok_or(SpecError::MissingDatagramGroup(spec.algorithm))?;
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

    /// Number of this member's datagram queue pair.
    pub(super) fn qpn(&self) -> QpNum {
        self.member.qpn()
    }

    /// Joins the datagram group. `root`: the endpoint of the root, which is the group's manager; `None` at the root
    /// itself, which creates the group.
    pub(super) fn join(&mut self, host: &mut dyn Verbs, now: u64, root: Option<Remote>) {
        match root {
            None => self.member.create_group(host, now),
            Some(manager) => self.member.join(host, now, manager),
        }
    }

    /// Handles an event of the host. Returns whether it concerns this edge only, not a connection of the plan.
    pub(super) fn handle_event(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        event: &HostEvent,
    ) -> bool {
        self.member.handle_event(host, now, event)
    }

    /// Time of the next [`DatagramEdge::handle_timeout`] in nanoseconds; `None` if no timer runs.
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        self.member.poll_timeout()
    }

    /// Handles expired timers.
    pub(super) fn handle_timeout(&mut self, host: &mut dyn Verbs, now: u64) {
        self.member.handle_timeout(host, now);
    }

    /// Removes and returns the next event of the datagram group.
    pub(super) fn poll(&mut self) -> Option<EndpointEvent> {
        self.member.poll()
    }

    /// Multicasts the `len` bytes of a region at `offset`, if the group's send window has space. Returns whether they
    /// were sent.
    pub(super) fn post(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        key: MemoryKey,
        (offset, len): (u64, u64),
    ) -> Result<bool, TransferError> {
        if self.member.node().is_none_or(|node| node.is_full()) {
            return Ok(false);
        }
        let bytes = host.memory(key)?;
        let bytes = bytes.get(offset as usize..(offset + len) as usize);
        let data = Arc::from(bytes.unwrap_or_default());
        self.member.multicast(host, now, data)?;
        self.sent += len;
        Ok(true)
    }

    /// Counters of datagrams and their protocol messages; connections have counters of their own. `None` before this
    /// member has joined the group.
    pub(super) fn stats(&self) -> Option<QpStats> {
        let counts = self.member.node().map(|node| node.counts())?;
        Some(QpStats {
            request_bytes_sent: self.sent,
            acks_received: counts.acks,
            retransmissions: counts.repair_packets,
            ..QpStats::default()
        })
    }

    /// Counters of the connections that carry acknowledgements and repairs.
    pub(super) fn connection_stats<'a>(
        &'a self,
        host: &'a dyn Verbs,
    ) -> impl Iterator<Item = QpStats> + 'a {
        let connections = self.member.connections();
        connections.filter_map(|qpn| Some(host.view(qpn)?.stats))
    }

    /// Whether all members have joined, and this member is connected to its neighbours in the tree.
    pub(super) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Whether this endpoint may be closed: no other member can need a repair from it.
    pub(super) fn may_leave(&self) -> bool {
        self.member.may_leave()
    }

    pub(super) fn close(self, host: &mut dyn Verbs) {
        self.member.close(host);
    }

    /// Once all members have joined, connects to the neighbours in the acknowledgement tree. Returns true only in the
    /// call in which the edge becomes ready.
    pub(super) fn becomes_ready(&mut self, host: &mut dyn Verbs, now: u64) -> bool {
        if self.is_ready || self.member.members().len() < self.members {
            return false;
        }
        self.member.connect_tree(host, now, ROOT);
        self.is_ready = self.member.is_tree_connected(ROOT);
        self.is_ready
    }
}
