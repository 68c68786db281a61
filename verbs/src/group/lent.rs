//! Broadcasts from and into memory of the caller, without a copy.
//!
//! The memory is registered until the caller takes it back. Registrations are not cached: a program may return memory
//! to the system and get other pages at the same address, which a cached registration would not notice.

use alfirk_roce::application::group::GroupOperation;
use alfirk_roce::rc::{MemoryKey, MemorySlice};
use alfirk_roce::verbs::Verbs;

use super::{Group, GroupError, Result};

/// Registered memory of the caller that the device of a group may access until [`Group::take_back`], or until the group
/// ends.
#[derive(Debug)]
pub struct LentMemory {
    key: MemoryKey,
    len: u64,
}

impl Group {
    /// Registers memory of the caller. The cost grows with the number of pages. For short messages, a copy by
    /// [`Group::fill`] is faster.
    ///
    /// # Errors
    ///
    /// The device or the system cannot register the memory: too much memory is locked (`ulimit -l`), or it is of a kind
    /// that devices cannot access. The group is unchanged.
    ///
    /// # Safety
    ///
    /// The bytes must stay valid until they are taken back or the group ends, and must not be written to meanwhile. If
    /// they are `writable`, as they must be at receivers, no reference to them may exist, either.
    pub unsafe fn lend(&mut self, start: *mut u8, len: u64, writable: bool) -> Result<LentMemory> {
        // SAFETY: guaranteed by the caller.
        let key = unsafe { self.device.register_lent(start, len, writable)? };
        Ok(LentMemory { key, len })
    }

    /// Starts a broadcast as [`Group::post_broadcast`] does, but from or into lent memory instead of the group's
    /// buffer. Each member may choose either.
    pub fn post_lent(
        &mut self,
        source: u32,
        lent: &LentMemory,
        offset: u64,
        len: u64,
    ) -> Result<()> {
        if offset.checked_add(len).is_none_or(|end| end > lent.len) {
            let text = format!(
                "{len} bytes at offset {offset} exceed the {} lent bytes",
                lent.len
            );
            return Err(GroupError::Argument(text));
        }
        let key = lent.key;
        let part = MemorySlice { key, offset, len };
        self.member.post(source, part, GroupOperation::Send)?;
        self.run()
    }

    /// Waits until the oldest posted message for which the caller has not waited has completed, up to the time limit of
    /// a call.
    pub fn wait_for_one(&mut self) -> Result<()> {
        self.member.wait_for_one();
        self.run()
    }

    /// Ends the registration of lent memory. All messages that use the memory must have completed.
    pub fn take_back(&mut self, lent: LentMemory) -> Result<()> {
        Ok(self.device.deregister(lent.key)?)
    }
}
