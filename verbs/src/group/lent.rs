//! Messages from and to memory of the caller, without a copy.
//!
//! A registration lives as long as the caller lends the memory, and no longer: none is kept for the next time, because a program may
//! give memory back to the system and get other pages at the same address, of which a kept registration knows nothing.

use alfirk_roce::rc::{MemoryKey, MemorySlice};
use alfirk_roce::verbs::Verbs;

use super::{Group, GroupError, Kind, Result};

/// Memory of the caller that a group's device may use, until [`Group::take_back`] or the group's end.
#[derive(Debug)]
pub struct Lent {
    key: MemoryKey,
    len: u64,
}

impl Group {
    /// Registers memory of the caller. Its cost grows with the number of pages; see [`Group::fill`] for what is small.
    ///
    /// # Errors
    /// If the device or the system does not register it: too much memory is locked already (`ulimit -l`), or the memory is such as no
    /// device can use. The group is as before.
    ///
    /// # Safety
    /// The bytes stay where they are until they are taken back or the group ends, and meanwhile nobody else writes to them; if they are
    /// `writable`, which receivers' must be, nobody holds a reference to them, either.
    pub unsafe fn lend(&mut self, start: *mut u8, len: u64, writable: bool) -> Result<Lent> {
        // SAFETY: the caller vouches for it.
        let key = unsafe { self.device.register_lent(start, len, writable)? };
        Ok(Lent { key, len })
    }

    /// As [`Group::post_broadcast`], with memory that is lent in place of the buffer. Each member decides for itself where its bytes are.
    pub fn post_lent(&mut self, source: u32, lent: &Lent, offset: u64, len: u64) -> Result<()> {
        if offset.checked_add(len).is_none_or(|end| end > lent.len) {
            let text = format!("{len} bytes at {offset} are beyond the {} lent", lent.len);
            return Err(GroupError::Argument(text));
        }
        let key = lent.key;
        self.post(source, MemorySlice { key, offset, len }, Kind::Send)
    }

    /// Waits for the first message of those that are posted and not waited for, each as long as a call may take.
    pub fn wait_for_one(&mut self) -> Result<()> {
        match self.posted {
            0 => Ok(()),
            _ => self.wait_for_next(self.deadline()),
        }
    }

    /// Ends the registration. Messages that are not reported as done must not be left in it.
    pub fn take_back(&mut self, lent: Lent) -> Result<()> {
        Ok(self.device.deregister(lent.key)?)
    }
}
