//! The receives that a member keeps posted.
//!
//! Without a limit, one receive is posted for each expected slice. With
//! [`TransferSpec::receives`](super::TransferSpec::receives), each queue pair keeps that number of receives posted. A
//! message that finds none gets an RNR NAK.
//!
//! With `ready`, a sender posts nothing before its receiver has announced a receive. With a block schedule, a member
//! announces receives only for the next few blocks of its schedule: RDMC's "node is waiting for exactly one node to
//! send a block" (section 4.3 of its paper). Members do not run in lockstep. If each connection had receives of its
//! own, two blocks of different steps would share the link of one member. Both would take twice as long, and delay all
//! sends that depend on them.
//!
//! Terms: the data is cut into *slices*, each of which is one message. An *edge* is a connection between members, or a group.
//! A *flow* is the slices that cross one edge. The *root* has rank 0 and the data at the start.

use super::connection::Connection;
use super::error::TransferError;
use super::spec::TransferOp;
use super::transfer::Transfer;
use crate::rc::{MemorySlice, RecvRequest};
use crate::verbs::Verbs;
use crate::wire::QpNum;

impl Transfer {
    /// Adds an incoming connection to the transfer, and posts as many receives on it as the specification permits.
    pub(super) fn add_incoming(
        &mut self,
        host: &mut dyn Verbs,
        connection: Connection,
    ) -> Result<(), TransferError> {
        let qpn = connection.qpn;
        self.incoming.push(connection);
        self.post_allowed_receives(host, qpn)
    }

    /// Posts as many receives on a queue pair as the specification permits. Receives of a schedule are posted once the
    /// whole schedule is known.
    pub(super) fn post_allowed_receives(
        &mut self,
        host: &mut dyn Verbs,
        qpn: QpNum,
    ) -> Result<(), TransferError> {
        if self.waits_to_receive() && !self.has_started {
            return Ok(());
        }
        let on_qp = || self.incoming.iter().filter(|c| c.qpn == qpn);
        if on_qp().any(|connection| self.is_scheduled(connection)) {
            return Ok(());
        }
        let posted: usize = on_qp().map(|c| c.receives).sum();
        let limit = self.spec.receives_kept().map_or(usize::MAX, |n| n as usize);
        self.post_receives(host, qpn, limit.saturating_sub(posted))
    }

    /// Posts the next receive after a slice (message) has arrived and has consumed one.
    pub(super) fn post_after_arrival(
        &mut self,
        host: &mut dyn Verbs,
        qpn: QpNum,
    ) -> Result<(), TransferError> {
        if self.legs.has_ended() || self.spec.receives_kept().is_none() {
            return Ok(());
        }
        let mut on_qp = self.incoming.iter().filter(|c| c.qpn == qpn);
        match on_qp.any(|connection| self.is_scheduled(connection)) {
            true => self.post_next_arrivals(host),
            false => self.post_receives(host, qpn, 1),
        }
    }

    /// Posts the next receives in the order of the schedule, up to the number that this member announces to senders.
    pub(super) fn post_next_arrivals(&mut self, host: &mut dyn Verbs) -> Result<(), TransferError> {
        let Some(most) = self.spec.ready else {
            return Ok(());
        };
        while let Some(connection) = self.receive_schedule.next(&self.incoming, most as usize) {
            self.post_receives(host, self.incoming[connection].qpn, 1)?;
        }
        Ok(())
    }

    /// Whether the receives of a connection are posted in the order of a schedule.
    fn is_scheduled(&self, connection: &Connection) -> bool {
        self.spec.ready.is_some() && !connection.flow.steps.is_empty()
    }

    /// Posts the next `count` receives of a queue pair, one per slice (message). The buffer of a SEND is the slice's
    /// place in the data; the notification of a WRITE consumes an empty receive.
    fn post_receives(
        &mut self,
        host: &mut dyn Verbs,
        qpn: QpNum,
        count: usize,
    ) -> Result<(), TransferError> {
        let key = self.memory.expect("a member that receives has memory");
        let mut left = count;
        for connection in self.incoming.iter_mut().filter(|c| c.qpn == qpn) {
            let next = connection.flow.slices.get(connection.receives..);
            let next = next.unwrap_or_default().iter();
            for slice in next.take(left) {
                let (offset, len) = match self.spec.op {
                    TransferOp::Send => self.spec.slice(*slice),
                    TransferOp::Write | TransferOp::WriteImm => (0, 0),
                };
                let buffer = MemorySlice { key, offset, len };
                let wr_id = u64::from(*slice);
                host.post_recv(qpn, RecvRequest { wr_id, buffer })?;
                connection.receives += 1;
                left -= 1;
            }
        }
        self.announce_receives(host)
    }
}
