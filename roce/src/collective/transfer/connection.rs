//! A member's queue pair on an edge, and the memory and receives that belong to it.
//!
//! Terms: the data is cut into *slices*, each of which is one message. An *edge* is a connection between members, or a group.

use std::net::Ipv4Addr;
use std::sync::Arc;

use crate::collective::edge::EdgeId;
use crate::collective::error::TransferError;
use crate::collective::region_announcement::announce_region;
use crate::collective::spec::{RemoteMemory, TransferOp, TransferSpec, WriteMode};
use crate::rc::{MemoryKey, MemorySlice, Payload, RecvRequest, SendOperation, SendRequest};
use crate::verbs::Verbs;
use crate::wire::QpNum;

/// Flag in `wr_id` of the WRITE that announces a memory region; the other bits hold the slice number.
pub(super) const MR_INFO: u64 = 1 << 63;

/// Flag in `wr_id` of the SENDs and receives of ready announcements.
pub(super) const READY: u64 = 1 << 62;

/// Flag in `wr_id` of the receive of a first block.
pub(super) const FIRST_BLOCK: u64 = 1 << 61;

/// This member's queue pair on an edge (connection, or group).
pub(super) struct Connection {
    edge: EdgeId,
    qpn: QpNum,
    /// Remote memory that WRITEs go to; `None` before the connection, or if the remote end has announced none.
    remote_memory: Option<RemoteMemory>,
    /// For each receiver: its address, and the target of each slice's WRITE, with [`WriteMode::PerRequest`].
    receivers: Vec<(Ipv4Addr, Vec<RemoteMemory>)>,
    /// The slice (message) whose memory regions were announced to the switches last; `None` before the first
    /// announcement.
    announced_slice: Option<u32>,
    /// Number of announcements of memory regions that the switches have not acknowledged yet; one is sent per receiver
    /// of the next WRITE.
    pending_announcements: usize,
    /// Number of receives posted so far for an incoming flow.
    receives: usize,
    /// Number of receives that the receiving end has announced so far. The receiving end is this member on an incoming
    /// edge, the remote end on an outgoing one.
    credit: usize,
    /// Scratch buffer for the first block, used while the size of the data is not known; `None` if no first block is
    /// expected.
    scratch: Option<MemoryKey>,
}

impl Connection {
    /// Creates the record of queue pair `qpn`, on which nothing is posted yet.
    pub(super) fn new(edge: EdgeId, qpn: QpNum) -> Connection {
        Connection {
            edge,
            qpn,
            remote_memory: None,
            receivers: Vec::new(),
            announced_slice: None,
            pending_announcements: 0,
            receives: 0,
            credit: 0,
            scratch: None,
        }
    }

    /// The same queue pair on another edge.
    pub(super) fn with_edge(self, edge: EdgeId) -> Connection {
        Connection { edge, ..self }
    }

    pub(super) fn edge(&self) -> EdgeId {
        self.edge
    }

    pub(super) fn qpn(&self) -> QpNum {
        self.qpn
    }

    // ---- Receives ----

    /// Number of receives posted so far for an incoming flow.
    pub(super) fn receives(&self) -> usize {
        self.receives
    }

    /// Posts the receive of a slice (message).
    pub(super) fn post_receive(
        &mut self,
        host: &mut dyn Verbs,
        slice: u32,
        buffer: MemorySlice,
    ) -> Result<(), TransferError> {
        let wr_id = u64::from(slice);
        host.post_recv(self.qpn, RecvRequest { wr_id, buffer })?;
        self.receives += 1;
        Ok(())
    }

    /// Posts a receive for the first block, into a scratch buffer of `len` bytes.
    pub(super) fn post_first_receive(
        &mut self,
        host: &mut dyn Verbs,
        len: u64,
    ) -> Result<(), TransferError> {
        let key = host.register_memory(len, false)?;
        let (wr_id, offset) = (FIRST_BLOCK, 0);
        let buffer = MemorySlice { key, offset, len };
        host.post_recv(self.qpn, RecvRequest { wr_id, buffer })?;
        self.scratch = Some(key);
        self.receives = 1;
        Ok(())
    }

    /// Scratch buffer of the first block; `None` if no first block is expected.
    pub(super) fn scratch(&self) -> Option<MemoryKey> {
        self.scratch
    }

    /// Removes and returns the scratch buffer of the first block, which the caller deregisters.
    pub(super) fn take_scratch(&mut self) -> Option<MemoryKey> {
        self.scratch.take()
    }

    // ---- Announcements of receives ----

    /// Number of receives that the receiving end has announced so far.
    pub(super) fn credit(&self) -> usize {
        self.credit
    }

    /// Records the remote end's announcement that it has posted `receives` receives so far.
    pub(super) fn record_credit(&mut self, receives: usize) {
        self.credit = self.credit.max(receives);
    }

    /// Announces to the sender how many receives this member has posted, if it has posted more since the last
    /// announcement.
    pub(super) fn announce_receives(&mut self, host: &mut dyn Verbs) -> Result<(), TransferError> {
        if self.receives <= self.credit {
            return Ok(());
        }
        self.credit = self.receives;
        let request = SendRequest {
            wr_id: READY,
            operation: SendOperation::Send {
                immediate: Some(self.credit as u32),
            },
            payload: Payload::Bytes(Arc::from(&[][..])),
        };
        Ok(host.post_send(self.qpn, request)?)
    }

    // ---- Targets of WRITEs ----

    /// Sets the remote memory that WRITEs go to.
    pub(super) fn set_remote_memory(&mut self, memory: Option<RemoteMemory>) {
        self.remote_memory = memory;
    }

    /// Whether WRITEs have a target.
    pub(super) fn has_remote_memory(&self) -> bool {
        self.remote_memory.is_some()
    }

    /// Sets, for each receiver, its address and the target of each slice's WRITE.
    pub(super) fn set_receivers(&mut self, receivers: Vec<(Ipv4Addr, Vec<RemoteMemory>)>) {
        self.receivers = receivers;
    }

    /// Number of announcements of memory regions that the switches have not acknowledged yet.
    pub(super) fn pending_announcements(&self) -> usize {
        self.pending_announcements
    }

    /// Records that the leaf switch of one receiver has acknowledged the memory region for the next WRITE.
    pub(super) fn acknowledge_announcement(&mut self) {
        self.pending_announcements -= 1;
    }

    /// Announces the memory regions of a slice to the switches, unless that is done already. Returns whether the
    /// slice's WRITE may be posted; always true except with [`WriteMode::PerRequest`]. `unacknowledged`: number of
    /// WRITEs in flight.
    ///
    /// A leaf switch holds one region per receiver. So the regions of a slice are announced only when all receivers
    /// have acknowledged the previous WRITE. Otherwise go-back-N could resend that WRITE to the new regions. The
    /// slice's WRITE follows only when the announcements are acknowledged. Otherwise it could overtake them and be
    /// rewritten to the old regions.
    pub(super) fn announce_if_needed(
        &mut self,
        host: &mut dyn Verbs,
        spec: &TransferSpec,
        slice: u32,
        unacknowledged: usize,
    ) -> Result<bool, TransferError> {
        if spec.group_write() != Some(WriteMode::PerRequest) {
            return Ok(true);
        }
        if unacknowledged > 0 {
            return Ok(false);
        }
        // A WRITE of 0 bytes needs no memory region.
        if self.announced_slice != Some(slice) && spec.slice(slice).1 > 0 {
            self.announced_slice = Some(slice);
            self.announce_regions(host, spec, slice)?;
        }
        Ok(self.pending_announcements == 0)
    }

    fn announce_regions(
        &mut self,
        host: &mut dyn Verbs,
        spec: &TransferSpec,
        slice: u32,
    ) -> Result<(), TransferError> {
        let sent = self.write_target(spec, slice)?;
        for (receiver, regions) in &self.receivers {
            let region = regions[slice as usize];
            let wr_id = MR_INFO | u64::from(slice);
            let request = announce_region(wr_id, *receiver, sent, (region.va, region.rkey))?;
            host.post_send(self.qpn, request)?;
            self.pending_announcements += 1;
        }
        Ok(())
    }

    /// Virtual address and R_Key in the WRITE that sends a slice (message).
    fn write_target(&self, spec: &TransferSpec, slice: u32) -> Result<(u64, u32), TransferError> {
        let memory = self
            .remote_memory
            .ok_or(TransferError::NoRemoteMemory(self.edge))?;
        let (offset, _) = spec.slice(slice);
        Ok((memory.va.wrapping_add(offset), memory.rkey))
    }

    /// Posts the work requests that send a slice (message). This member must hold the slice.
    pub(super) fn post_slice(
        &self,
        host: &mut dyn Verbs,
        spec: &TransferSpec,
        key: MemoryKey,
        slice: u32,
    ) -> Result<(), TransferError> {
        let (offset, len) = spec.slice(slice);
        let data = Payload::Memory(MemorySlice { key, offset, len });
        let mut post = |operation, payload| {
            let request = SendRequest {
                wr_id: slice.into(),
                operation,
                payload,
            };
            host.post_send(self.qpn, request)
        };
        let write = |immediate| {
            let (remote_va, rkey) = self.write_target(spec, slice)?;
            Ok::<_, TransferError>(SendOperation::Write {
                remote_va,
                rkey,
                immediate,
            })
        };
        let immediate = Some(slice);
        match spec.op {
            TransferOp::Send => {
                // Every block announces the size.
                let immediate = spec.announce.then_some(spec.size as u32);
                post(SendOperation::Send { immediate }, data)?
            }
            TransferOp::WriteImm => post(write(immediate)?, data)?,
            TransferOp::Write => {
                post(write(None)?, data)?;
                let nothing = Payload::Bytes(Arc::from(&[][..]));
                post(SendOperation::Send { immediate }, nothing)?;
            }
        }
        Ok(())
    }
}
