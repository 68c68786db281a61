//! Memory regions that a device can access.

use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error, Layout};
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use alfirk_roce::rc::{MemoryError, MemoryKey, MemorySlice};
use alfirk_roce::verbs::DeviceError;

use crate::sys::{Context, Mr};

const PAGE: u64 = 4096;

/// Zeroed bytes, aligned to a power of two that is at least their length, so that a switch can rewrite addresses by
/// XOR.
#[derive(Debug)]
struct Aligned {
    start: NonNull<u8>,
    layout: Layout,
}

impl Aligned {
    fn new(len: u64) -> Result<Aligned, DeviceError> {
        let no_memory = DeviceError::System {
            call: "aligned allocation",
            errno: libc::ENOMEM,
        };
        let align = len.max(PAGE).checked_next_power_of_two().ok_or(no_memory)?;
        let layout =
            Layout::from_size_align(len.max(1) as usize, align as usize).map_err(|_| no_memory)?;
        // SAFETY: the layout's size is not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })
            .unwrap_or_else(|| handle_alloc_error(layout));
        Ok(Aligned { start, layout })
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// Owner of the bytes of a memory region.
#[derive(Debug)]
enum Storage {
    Owned(Aligned),
    Shared(Arc<[u8]>),
    /// The caller owns the memory, which begins at this address and stays valid until the registration ends.
    Lent {
        start: *mut u8,
        is_writable: bool,
    },
}

impl Storage {
    fn is_read_only(&self) -> bool {
        match self {
            Storage::Owned(_) => false,
            Storage::Shared(_) => true,
            Storage::Lent { is_writable, .. } => !is_writable,
        }
    }
}

/// A registered memory region and its memory windows.
#[derive(Debug)]
struct Region {
    windows: Vec<Mr>,
    mr: Mr,
    len: u64,
    storage: ManuallyDrop<Storage>,
}

impl Drop for Region {
    fn drop(&mut self) {
        let mut ended = self.mr.deregister();
        for window in &mut self.windows {
            ended &= window.deregister();
        }
        // Memory that the device may still access is leaked.
        if ended {
            // SAFETY: this is the end of the region, so the storage is not used again.
            unsafe { ManuallyDrop::drop(&mut self.storage) };
        }
    }
}

// SAFETY: the region owns its memory and borrows it out as a `Vec` would; lent memory is valid by the caller's guarantee.
unsafe impl Send for Region {}

impl Region {
    fn start(&self) -> *mut u8 {
        match &*self.storage {
            Storage::Owned(memory) => memory.start.as_ptr(),
            Storage::Shared(bytes) => bytes.as_ptr().cast_mut(),
            Storage::Lent { start, .. } => *start,
        }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the memory is valid and initialised. The device may still write a message into it; bytes that no completion has
        // reported are arbitrary, as in any RDMA library. The compiler treats every call that lets the device write (posting) as a
        // possible write to this memory, because its address has been passed out.
        unsafe { std::slice::from_raw_parts(self.start(), self.len as usize) }
    }

    fn check(&self, key: MemoryKey, offset: u64, len: u64) -> Result<(), MemoryError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(MemoryError::OutOfBounds {
                key,
                address: offset,
                len,
            }),
        }
    }
}

/// All memory regions of a device, by local key.
#[derive(Debug, Default)]
pub(crate) struct Memory(BTreeMap<MemoryKey, Region>);

impl Memory {
    /// Registers a region of `len` zero bytes.
    pub(crate) fn register(
        &mut self,
        context: &Context,
        len: u64,
        remote_write: bool,
    ) -> Result<MemoryKey, MemoryError> {
        let memory = Aligned::new(len)?;
        // SAFETY: the region frees the memory after the registration's end; for references see `bytes`.
        let mr = unsafe {
            Mr::register(
                context,
                memory.start.as_ptr(),
                len.max(1),
                true,
                remote_write,
            )?
        };
        Ok(self.insert(mr, len, Storage::Owned(memory)))
    }

    /// Registers shared bytes as a region to send from, without a copy.
    pub(crate) fn register_shared(
        &mut self,
        context: &Context,
        bytes: Arc<[u8]>,
    ) -> Result<MemoryKey, MemoryError> {
        if bytes.is_empty() {
            return self.register(context, 0, false);
        }
        let (start, len) = (bytes.as_ptr().cast_mut(), bytes.len() as u64);
        // SAFETY: the region keeps the bytes until after the registration's end, and the device may only read them.
        let mr = unsafe { Mr::register(context, start, len, false, false)? };
        Ok(self.insert(mr, len, Storage::Shared(bytes)))
    }

    /// Registers memory of the caller.
    ///
    /// # Safety
    /// The bytes must stay valid until the registration ends, and must not be written to meanwhile. If they are writable, no
    /// reference to them may exist, either.
    pub(crate) unsafe fn register_lent(
        &mut self,
        context: &Context,
        start: *mut u8,
        len: u64,
        is_writable: bool,
    ) -> Result<MemoryKey, MemoryError> {
        // SAFETY: guaranteed by the caller.
        let mr = unsafe { Mr::register(context, start, len, is_writable, false)? };
        Ok(self.insert(mr, len, Storage::Lent { start, is_writable }))
    }

    fn insert(&mut self, mr: Mr, len: u64, storage: Storage) -> MemoryKey {
        let key = MemoryKey(mr.lkey());
        let region = Region {
            windows: Vec::new(),
            mr,
            len,
            storage: ManuallyDrop::new(storage),
        };
        self.0.insert(key, region);
        key
    }

    /// Opens a part of a region to remote WRITEs, under a key of its own. Returns the part's virtual address and R_Key.
    pub(crate) fn bind_window(
        &mut self,
        context: &Context,
        part: MemorySlice,
    ) -> Result<(u64, u32), MemoryError> {
        let region = self
            .0
            .get_mut(&part.key)
            .ok_or(MemoryError::NoSuchKey(part.key))?;
        region.check(part.key, part.offset, part.len)?;
        if region.storage.is_read_only() {
            return Err(MemoryError::ReadOnly(part.key));
        }
        let start = region.start().wrapping_add(part.offset as usize);
        if part.len == 0 {
            return Ok((start as u64, region.mr.rkey()));
        }
        // SAFETY: the part is inside the region, which outlives its windows.
        let window = unsafe { Mr::register(context, start, part.len, true, true)? };
        let rkey = window.rkey();
        region.windows.push(window);
        Ok((start as u64, rkey))
    }

    /// Deregisters a region. Work requests that still use the region fail.
    pub(crate) fn remove(&mut self, key: MemoryKey) -> Result<(), MemoryError> {
        self.0
            .remove(&key)
            .map(drop)
            .ok_or(MemoryError::NoSuchKey(key))
    }

    fn region(&self, key: MemoryKey) -> Result<&Region, MemoryError> {
        self.0.get(&key).ok_or(MemoryError::NoSuchKey(key))
    }

    pub(crate) fn locate(&self, key: MemoryKey) -> Result<(u64, u32), MemoryError> {
        let region = self.region(key)?;
        Ok((region.start() as u64, region.mr.rkey()))
    }

    pub(crate) fn bytes(&self, key: MemoryKey) -> Result<&[u8], MemoryError> {
        Ok(self.region(key)?.bytes())
    }

    /// Address and local key of a slice, for work requests.
    pub(crate) fn address_and_key(
        &self,
        slice: MemorySlice,
    ) -> Result<(*mut u8, u32), MemoryError> {
        let region = self.region(slice.key)?;
        region.check(slice.key, slice.offset, slice.len)?;
        let address = region.start().wrapping_add(slice.offset as usize);
        Ok((address, region.mr.lkey()))
    }

    pub(crate) fn write(
        &mut self,
        key: MemoryKey,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), MemoryError> {
        let region = self.region(key)?;
        region.check(key, offset, bytes.len() as u64)?;
        if region.storage.is_read_only() {
            return Err(MemoryError::ReadOnly(key));
        }
        let to = region.start().wrapping_add(offset as usize);
        // SAFETY: the range is inside the region's memory, and `bytes` cannot overlap it, since `self` is borrowed mutably.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_aligned_to_their_size() {
        for len in [0, 1, 4096, 4097, 1 << 20, (1 << 20) + 1] {
            let memory = Aligned::new(len).unwrap();
            let align = len.max(PAGE).next_power_of_two();
            assert_eq!(memory.start.as_ptr() as u64 % align, 0, "{len} bytes");
        }
        assert!(Aligned::new(u64::MAX).is_err());
    }
}
