//! Receive buffers in registered memory.

use crate::rc::{MemoryError, MemoryKey, MemorySlice, RecvRequest};
use crate::verbs::Verbs;

/// Receive buffers of equal length in one memory region. A buffer's index is the number of its work request.
#[derive(Clone, Copy)]
pub(super) struct Buffers {
    pub(super) key: MemoryKey,
    pub(super) len: u64,
}

impl Buffers {
    pub(super) fn register(
        host: &mut dyn Verbs,
        count: u64,
        len: u64,
    ) -> Result<Buffers, MemoryError> {
        // Keeps every buffer aligned to 64 bytes.
        let len = len.next_multiple_of(64);
        let key = host.register_memory(count * len, false)?;
        Ok(Buffers { key, len })
    }

    /// Returns the work request that receives into buffer number `wr_id`.
    pub(super) fn request(&self, wr_id: u64) -> RecvRequest {
        let Buffers { key, len } = *self;
        let offset = wr_id * len;
        RecvRequest {
            wr_id,
            buffer: MemorySlice { key, offset, len },
        }
    }

    /// The first `bytes` bytes of buffer number `wr_id`, or the whole buffer if it is shorter.
    pub(super) fn read<'a>(&self, host: &'a dyn Verbs, wr_id: u64, bytes: u64) -> &'a [u8] {
        let start = wr_id.saturating_mul(self.len);
        let place = start as usize..(start + bytes.min(self.len)) as usize;
        let region = host.memory(self.key).unwrap_or_default();
        region.get(place).unwrap_or_default()
    }
}
