//! Announcements between the members of a broadcast: of posted receives, and of the size of the data with the first
//! block. The module `announce` describes both.

use super::connection::READY;
use super::connections::Connections;
use super::receives::ReceiveRules;
use super::Transfer;
use crate::collective::error::TransferError;
use crate::collective::spec::TransferSpec;
use crate::rc::{CompletedRequest, MemorySlice, RecvRequest};
use crate::verbs::Verbs;
use crate::wire::QpNum;

impl Connections {
    /// Posts receives on queue pair `qpn` for the receiver's announcements that it is ready for more blocks.
    pub(super) fn post_announcement_receives(
        &mut self,
        host: &mut dyn Verbs,
        spec: &TransferSpec,
        qpn: QpNum,
    ) -> Result<(), TransferError> {
        // One announcement arrives per receive posted later, and one for those posted at the start.
        for _ in 0..spec.ready.map_or(0, |ready| ready + 1) {
            self.post_announcement_receive(host, qpn)?;
        }
        Ok(())
    }

    fn post_announcement_receive(
        &mut self,
        host: &mut dyn Verbs,
        qpn: QpNum,
    ) -> Result<(), TransferError> {
        let key = self.signal_memory(host)?;
        let (offset, len) = (0, 0);
        let buffer = MemorySlice { key, offset, len };
        let wr_id = READY;
        Ok(host.post_recv(qpn, RecvRequest { wr_id, buffer })?)
    }

    /// Announces to the senders, on all edges, how many receives this member has posted, if it has posted more since
    /// the last announcement.
    pub(super) fn announce_receives(
        &mut self,
        host: &mut dyn Verbs,
        rules: &ReceiveRules<'_>,
    ) -> Result<(), TransferError> {
        if rules.spec.ready.is_none() || !rules.has_started {
            return Ok(());
        }
        let mut incoming = self.incoming_mut().iter_mut();
        incoming.try_for_each(|connection| connection.announce_receives(host))
    }
}

impl Transfer {
    /// Records a receiver's announcement of posted receives, and posts the receive for the next announcement.
    pub(super) fn record_announcement(
        &mut self,
        host: &mut dyn Verbs,
        qpn: QpNum,
        completion: CompletedRequest,
    ) -> Result<(), TransferError> {
        if let Some(flow) = self.connections.outgoing_index(qpn) {
            let receives = completion.immediate.unwrap_or(0) as usize;
            self.connections.outgoing_mut()[flow].record_credit(receives);
        }
        match self.leg.has_ended() {
            true => Ok(()),
            false => self.connections.post_announcement_receive(host, qpn),
        }
    }

    /// Handles the first block, which announces the size of the data. Returns the slice number of the block; `None` if
    /// no first block is awaited on queue pair `qpn`.
    pub(super) fn accept_first_block(
        &mut self,
        host: &mut dyn Verbs,
        qpn: QpNum,
        got: CompletedRequest,
    ) -> Result<Option<u32>, TransferError> {
        if self.memory.key().is_none() {
            let size = got.immediate.ok_or(TransferError::UnexpectedFirstBlock)?;
            self.apply_announced_size(host, size.into())?;
        }
        let Some(flow) = self.connections.incoming_index(qpn) else {
            return Ok(None);
        };
        let Some(scratch) = self.connections.incoming_mut()[flow].take_scratch() else {
            return Ok(None);
        };
        let flow = &self.execution.plan().incoming[flow];
        let Some(slice) = flow.slices.first().copied() else {
            // By the plan for the announced size, no first block arrives on this edge.
            return Err(TransferError::UnexpectedFirstBlock);
        };
        let (offset, expected) = self.spec.slice(slice);
        if got.bytes == expected {
            let key = self.memory.key().expect("the size is known");
            let bytes = host.memory(scratch)?[..expected as usize].to_vec();
            host.write_memory(key, offset, &bytes)?;
        }
        host.deregister(scratch)?;
        Ok(Some(slice))
    }

    /// Registers memory for the announced size of the data, and plans which slices each edge carries.
    fn apply_announced_size(
        &mut self,
        host: &mut dyn Verbs,
        size: u64,
    ) -> Result<(), TransferError> {
        self.spec.set_size(size);
        self.memory.register_announced(host, size)?;
        let edges = self.execution.plan().clone();
        self.execution.replace_plan(self.spec.plan_on(edges));
        self.execution
            .reset_held(self.spec.slices, self.spec.final_slices());
        let (connections, rules) = self.receiving();
        connections.follow_schedule(host, &rules)?;
        connections.post_all_allowed_receives(host, &rules)
    }
}
