//! The memory of a transfer's data at this member, and the ways in which other members may write to it.

use std::ops::Range;
use std::sync::Arc;

use crate::collective::digest::{Digest, ExpectedData};
use crate::collective::error::TransferError;
use crate::collective::spec::{GroupSpec, RemoteMemory, TransferSpec, WriteMode};
use crate::rc::{MemoryKey, MemorySlice};
use crate::verbs::Verbs;

/// Memory region of the data, its memory windows, and the data that is expected in it.
pub(super) struct DataMemory {
    /// The memory region; at a receiver, the buffer for the data. `None` until the root has its data, or a receiver the
    /// size.
    key: Option<MemoryKey>,
    /// Data that this member is expected to receive; `None` if not set. Comparing with it is faster than hashing.
    expected_data: Option<Arc<ExpectedData>>,
    /// The memory window of each slice (message), for remote WRITEs; empty before the windows are bound.
    windows: Vec<RemoteMemory>,
    /// The memory window over all data, for remote WRITEs; `None` before it is bound.
    whole_window: Option<RemoteMemory>,
    /// Whether remote WRITEs can reach the data only through memory windows.
    windows_only: bool,
}

impl DataMemory {
    /// Creates the record of a transfer's memory, without a memory region.
    pub(super) fn new(spec: &TransferSpec) -> DataMemory {
        DataMemory {
            key: None,
            expected_data: None,
            windows: Vec::new(),
            whole_window: None,
            windows_only: spec.group_write() == Some(WriteMode::PerRequest),
        }
    }

    /// The memory region; `None` until the root has its data, or a receiver the size.
    pub(super) fn key(&self) -> Option<MemoryKey> {
        self.key
    }

    // ---- Registration ----

    /// Registers the memory region of the data.
    pub(super) fn register(
        &mut self,
        host: &mut dyn Verbs,
        spec: &TransferSpec,
    ) -> Result<(), TransferError> {
        let key = match (spec.group_write(), spec.group) {
            (Some(WriteMode::Uniform), Some(GroupSpec { va, rkey, .. })) => {
                let key = MemoryKey(rkey);
                host.register_at(key, va, spec.size)?;
                key
            }
            // Remote WRITEs reach this memory only through memory windows.
            (Some(WriteMode::PerRequest), _) => host.register_memory(spec.size, false)?,
            _ => host.register_memory(spec.size, spec.op.writes())?,
        };
        self.key = Some(key);
        Ok(())
    }

    /// Registers a memory region of an announced size, which receives SENDs only.
    pub(super) fn register_announced(
        &mut self,
        host: &mut dyn Verbs,
        size: u64,
    ) -> Result<(), TransferError> {
        self.key = Some(host.register_memory(size, false)?);
        self.expect(host);
        Ok(())
    }

    /// Registers the root's data, without a copy.
    pub(super) fn share(
        &mut self,
        host: &mut dyn Verbs,
        data: Arc<[u8]>,
    ) -> Result<(), TransferError> {
        self.key = Some(host.register_shared(data)?);
        Ok(())
    }

    // ---- Contents ----

    /// Contents of the region; empty if there is none yet.
    pub(super) fn bytes<'a>(&self, host: &'a dyn Verbs) -> &'a [u8] {
        let bytes = self.key.and_then(|key| host.memory(key).ok());
        bytes.unwrap_or(&[])
    }

    /// Sets the data that this member is expected to receive.
    pub(super) fn set_expected_data(
        &mut self,
        host: &mut dyn Verbs,
        expected_data: Arc<ExpectedData>,
    ) {
        self.expected_data = Some(expected_data);
        self.expect(host);
    }

    /// Passes the expected data to the host, so that received data which equals it takes no memory. Has no effect
    /// before the memory region exists and the expected data is set.
    fn expect(&self, host: &mut dyn Verbs) {
        if let (Some(key), Some(expected_data)) = (self.key, &self.expected_data) {
            host.expect_bytes(key, expected_data.bytes());
        }
    }

    /// SHA-256 of a range of bytes of the data.
    pub(super) fn digest(&self, host: &dyn Verbs, range: Range<u64>) -> Digest {
        let data = self.bytes(host);
        let data = data.get(range.start as usize..range.end as usize);
        let data = data.unwrap_or_default();
        match &self.expected_data {
            Some(expected_data) => expected_data.digest_of(data),
            None => Digest::of(data),
        }
    }

    // ---- Remote WRITEs ----

    /// Binds a memory window for each slice (message), with [`WriteMode::PerRequest`]. Addresses and keys of the
    /// windows differ between members.
    pub(super) fn slice_windows(
        &mut self,
        host: &mut dyn Verbs,
        spec: &TransferSpec,
        key: MemoryKey,
    ) -> Result<Vec<RemoteMemory>, TransferError> {
        if self.windows.is_empty() {
            let windows = (0..spec.slices).map(|slice| {
                let (offset, len) = spec.slice(slice);
                bind(host, MemorySlice { key, offset, len })
            });
            self.windows = windows.collect::<Result<_, _>>()?;
        }
        Ok(self.windows.clone())
    }

    /// The remote memory that contains all data, for the WRITEs of a neighbour in an overlay. It is a memory window if
    /// WRITEs can reach the data only through windows, else the memory region.
    pub(super) fn whole_region(
        &mut self,
        host: &mut dyn Verbs,
        spec: &TransferSpec,
        key: MemoryKey,
    ) -> Result<RemoteMemory, TransferError> {
        let len = spec.size;
        if !self.windows_only {
            let (va, rkey) = host.locate(key)?;
            return Ok(RemoteMemory { va, rkey, len });
        }
        match self.whole_window {
            Some(whole) => Ok(whole),
            None => {
                let offset = 0;
                let whole = bind(host, MemorySlice { key, offset, len })?;
                self.whole_window = Some(whole);
                Ok(whole)
            }
        }
    }
}

fn bind(host: &mut dyn Verbs, part: MemorySlice) -> Result<RemoteMemory, TransferError> {
    let (va, rkey) = host.bind_window(part)?;
    let len = part.len;
    Ok(RemoteMemory { va, rkey, len })
}
