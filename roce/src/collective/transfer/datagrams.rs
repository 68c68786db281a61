//! Transfers by multicast datagrams: the events of the datagram edge.
//!
//! A *slice* is the part of the data in one message.

use super::connection::Connection;
use super::datagram_edge::{DatagramEdge, ROOT};
use super::Transfer;
use crate::binomial_ack::{EndpointEvent, MessageId};
use crate::collective::edge::EdgeId;
use crate::collective::error::TransferError;
use crate::collective::spec::Endpoint;
use crate::host::HostEvent;
use crate::rc::{QpStats, Remote};
use crate::verbs::Verbs;

impl Transfer {
    /// Opens this member's endpoint of the edge over which the root multicasts datagrams. Returns its connection
    /// record, and its address and queue pair number for the other members.
    pub(super) fn open_datagrams(
        &mut self,
        host: &mut dyn Verbs,
        edge: EdgeId,
    ) -> Result<(Connection, Endpoint), TransferError> {
        let datagrams = DatagramEdge::open(host, &self.spec)?;
        let connection = Connection::new(edge, datagrams.qpn());
        self.datagrams = Some(datagrams);
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
        edge.join(host, now, root);
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
        let is_own = edge.handle_event(host, now, event);
        if let Err(error) = self.handle_datagram_events(host, now) {
            self.reports.fail(error);
        }
        is_own
    }

    /// Time of the next [`Transfer::handle_timeout`], in nanoseconds; `None` if no timer runs, as without datagrams.
    pub fn poll_timeout(&self) -> Option<u64> {
        let edge = self
            .datagrams
            .as_ref()
            .filter(|_| !self.reports.has_failed())?;
        edge.poll_timeout()
    }

    /// Handles the expired timers of the multicast datagrams. The host handles the timers of connections.
    pub fn handle_timeout(&mut self, host: &mut dyn Verbs, now: u64) {
        if let Some(edge) = self
            .datagrams
            .as_mut()
            .filter(|_| !self.reports.has_failed())
        {
            edge.handle_timeout(host, now);
            if let Err(error) = self.handle_datagram_events(host, now) {
                self.reports.fail(error);
            }
        }
    }

    /// Processes messages, completions and failures of the multicast datagrams. Reports when all members have joined
    /// and are connected.
    fn handle_datagram_events(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
    ) -> Result<(), TransferError> {
        while let Some(event) = self.datagrams.as_mut().and_then(|edge| edge.poll()) {
            match event {
                EndpointEvent::Delivered { id, data } => self.deliver(host, now, id, &data)?,
                EndpointEvent::Completed { .. } => {
                    let mut outgoing = self.execution.plan().outgoing.iter();
                    let flow = outgoing.position(|flow| flow.edge.is_datagrams());
                    if let Some(flow) = flow {
                        self.execution
                            .acknowledge(flow, |slice| self.spec.slice(slice).1);
                    }
                    self.advance(host, now)?;
                }
                // The manager, which is the root, removes the failed member.
                EndpointEvent::Silent { .. } => {}
                EndpointEvent::ManagerFailed if self.execution.holds_all() => {}
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
        if let Some(key) = self.memory.key().filter(|_| got > 0) {
            host.write_memory(key, offset, data)?;
        }
        let mut incoming = self.execution.plan().incoming.iter();
        match incoming.position(|flow| flow.edge.is_datagrams()) {
            Some(flow) => self.execution.receive(flow, slice),
            None => self.execution.hold(slice),
        }
        self.advance(host, now)
    }

    /// Counters of datagrams and their protocol messages; connections have counters of their own. `None` without
    /// datagrams.
    pub fn datagram_stats(&self) -> Option<QpStats> {
        self.datagrams.as_ref()?.stats()
    }

    /// Counters of the queue pairs that carry datagrams, acknowledgements and repairs.
    pub(super) fn datagram_qp_stats<'a>(
        &'a self,
        host: &'a dyn Verbs,
    ) -> impl Iterator<Item = (EdgeId, QpStats)> + 'a {
        let edges = self.datagrams.iter();
        let connections = edges.flat_map(move |edge| edge.connection_stats(host));
        let all = self.datagram_stats().into_iter().chain(connections);
        all.map(|stats| (EdgeId::Datagrams { root: 0 }, stats))
    }
}
