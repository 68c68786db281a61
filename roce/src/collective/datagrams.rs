//! Transfers by multicast datagrams ([`super::binomial_ack`]). They have one edge, the *datagram edge*, which leads from the
//! root to all other members. A *slice* is the part of the data in one message.

use std::sync::Arc;

use super::binomial_ack::{DatagramSpec, LONGEST_SLICE};
use super::connection::Connection;
use super::datagram_edge::{DatagramEdge, ROOT};
use super::edge::EdgeId;
use super::error::TransferError;
use super::plan::Flow;
use super::spec::{Endpoint, SpecError, TransferOp, TransferSpec};
use super::transfer::Transfer;
use crate::binomial_ack::{self, EndpointEvent, MessageId};
use crate::host::HostEvent;
use crate::rc::{QpStats, Remote};
use crate::verbs::Verbs;

impl TransferSpec {
    /// Rejects specifications with settings that transfers by multicast datagrams do not support.
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
                "receivers that announce when they are ready",
            ),
            (self.announce, "first block that announces the size"),
        ];
        if let Some((_, setting)) = refused.into_iter().find(|(is_set, _)| *is_set) {
            return Err(SpecError::UnsupportedByDatagrams { algorithm, setting });
        }
        let bad = |spec: &DatagramSpec| !spec.group.is_multicast() || spec.qkey >> 31 != 0;
        if self.datagrams.as_ref().is_none_or(bad) {
            return Err(SpecError::MissingDatagramGroup(algorithm));
        }
        let longest = (0..self.slices.min(1))
            .map(|slice| self.slice(slice).1)
            .max();
        match longest {
            Some(len) if len > LONGEST_SLICE => Err(SpecError::LongDatagramSlice {
                algorithm,
                len,
                min_slices: algorithm.min_slices(self.size),
            }),
            _ => Ok(()),
        }
    }
}

impl Transfer {
    /// Opens this member's endpoint of the edge over which the root multicasts datagrams. Returns its connection
    /// record, and its address and queue pair number for the other members.
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

    /// Joins the datagram group. `root`: the endpoint of the root, which is the group's manager; `None` at the root
    /// itself, which creates the group.
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
            None => edge.member.create_group(host, now),
            Some(manager) => edge.member.join(host, now, manager),
        }
        self.handle_datagram_events(host, now)
    }

    /// Handles an event of the host. Returns true if the event concerns only the multicast datagrams, not a connection
    /// of the plan.
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
        if let Err(error) = self.handle_datagram_events(host, now) {
            self.fail(error);
        }
        is_own
    }

    /// Time of the next [`Transfer::handle_timeout`], in nanoseconds; `None` if no timer runs, as without datagrams.
    pub fn poll_timeout(&self) -> Option<u64> {
        let edge = self.datagrams.as_ref().filter(|_| !self.failed)?;
        edge.member.poll_timeout()
    }

    /// Handles the expired timers of the multicast datagrams. The host handles the timers of connections.
    pub fn handle_timeout(&mut self, host: &mut dyn Verbs, now: u64) {
        if let Some(edge) = self.datagrams.as_mut().filter(|_| !self.failed) {
            edge.member.handle_timeout(host, now);
            if let Err(error) = self.handle_datagram_events(host, now) {
                self.fail(error);
            }
        }
    }

    /// Multicasts a slice (message) as datagrams if the group's send window has space. Returns whether it was sent.
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

    /// Processes messages, completions and failures of the multicast datagrams. Reports when all members have joined
    /// and are connected.
    fn handle_datagram_events(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
    ) -> Result<(), TransferError> {
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
                // The manager, which is the root, removes the failed member.
                EndpointEvent::Silent { .. } => {}
                EndpointEvent::ManagerFailed if self.holds_all() => {}
                EndpointEvent::ManagerFailed => return Err(TransferError::RootFailed),
            }
        }
        let edge = self.datagrams.as_mut();
        if edge.is_some_and(|edge| edge.becomes_ready(host, now)) {
            self.report_if_ready();
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
        // Only slices from the root are expected.
        if id.root != ROOT || slice >= self.spec.slices {
            return Ok(());
        }
        let (offset, expected) = self.spec.slice(slice);
        let got = data.len() as u64;
        if got != expected {
            return Err(TransferError::WrongSliceLength {
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
        self.mark_held(slice);
        self.advance(host, now)
    }

    /// Counters of datagrams and their protocol messages; connections have counters of their own. `None` without
    /// datagrams.
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

    /// Counters of the queue pairs that carry datagrams, acknowledgements and repairs.
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
