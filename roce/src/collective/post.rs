//! Work requests for slices: the operation that sends a slice on an edge, and its target in the receivers' memory.
//!
//! Terms: the data is cut into *slices*, each of which is one message. An *edge* is a connection between members, or a group.
//! A *flow* is the slices that cross one edge. The *root* has rank 0 and the data at the start.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use super::connection::Connection;
use super::edge::EdgeId;
use super::error::TransferError;
use super::spec::{Endpoint, GroupSpec, RemoteMemory, TransferOp, TransferSpec, WriteMode};
use crate::rc::{MemoryKey, MemorySlice, Payload, SendOperation, SendRequest};
use crate::verbs::Verbs;
use crate::wire::mr_info;

/// Flag in `wr_id` of the WRITE that announces a memory region; the other bits hold the slice number.
pub(super) const MR_INFO: u64 = 1 << 63;

/// Flag in `wr_id` of the SENDs and receives of ready announcements.
pub(super) const READY: u64 = 1 << 62;

/// Flag in `wr_id` of the receive of a first block.
pub(super) const FIRST_BLOCK: u64 = 1 << 61;

/// Registers the memory region of the data.
pub(super) fn register(
    host: &mut dyn Verbs,
    spec: &TransferSpec,
) -> Result<MemoryKey, TransferError> {
    match (spec.group_write(), spec.group) {
        (Some(WriteMode::Uniform), Some(GroupSpec { va, rkey, .. })) => {
            let key = MemoryKey(rkey);
            host.register_at(key, va, spec.size)?;
            Ok(key)
        }
        // Remote WRITEs reach this memory only through memory windows.
        (Some(WriteMode::PerRequest), _) => Ok(host.register_memory(spec.size, false)?),
        _ => Ok(host.register_memory(spec.size, spec.op.writes())?),
    }
}

/// For each other member of a group: its address, and the memory region that it has announced for each slice (message).
pub(super) fn receivers(
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

impl Connection {
    /// Announces the memory regions of a slice to the switches, unless that is done already. Returns whether the
    /// slice's WRITE may be posted; always true except with [`WriteMode::PerRequest`].
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
    ) -> Result<bool, TransferError> {
        if spec.group_write() != Some(WriteMode::PerRequest) {
            return Ok(true);
        }
        if self.completed < self.posted {
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
            let info = mr_info::Repr::between(sent, (region.va, region.rkey))?;
            let mut bytes = [0; mr_info::PAYLOAD_LEN];
            info.emit(&mut bytes);
            let request = SendRequest {
                wr_id: MR_INFO | u64::from(slice),
                operation: SendOperation::Write {
                    remote_va: u32::from(*receiver).into(),
                    rkey: mr_info::R_KEY,
                    immediate: None,
                },
                payload: Payload::Bytes(Arc::from(bytes)),
            };
            host.post_send(self.qpn, request)?;
            self.pending_announcements += 1;
        }
        Ok(())
    }

    /// Virtual address and R_Key in the WRITE that sends a slice (message).
    fn write_target(&self, spec: &TransferSpec, slice: u32) -> Result<(u64, u32), TransferError> {
        let memory = self
            .remote_memory
            .ok_or(TransferError::NoRemoteMemory(self.flow.edge))?;
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
