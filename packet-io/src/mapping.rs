//! Memory that this process shares with the kernel.

use std::{
    io,
    os::fd::AsFd,
    ptr::{self, NonNull},
};

use rustix::mm::{mmap, mmap_anonymous, munmap, MapFlags, ProtFlags};

/// A readable and writable mapping, which is removed when the value is dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is owned by this value and not bound to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `len` bytes of a socket's ring; `offset` selects the ring.
    pub fn of_ring(socket: impl AsFd, len: usize, offset: u64) -> io::Result<Mapping> {
        // SAFETY: a new mapping at an address that the kernel chooses; nothing else is changed.
        let start = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            mmap(
                ptr::null_mut(),
                len,
                access,
                MapFlags::SHARED,
                socket,
                offset,
            )?
        };
        Mapping::new(start.cast(), len)
    }

    /// Maps `len` bytes of new memory, which are zero and start at a page.
    pub fn anonymous(len: usize) -> io::Result<Mapping> {
        // SAFETY: a new mapping at an address that the kernel chooses; nothing else is changed.
        let start = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            mmap_anonymous(ptr::null_mut(), len, access, MapFlags::PRIVATE)?
        };
        Mapping::new(start.cast(), len)
    }

    fn new(start: *mut u8, len: usize) -> io::Result<Mapping> {
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { start, len })
    }

    /// Address of the first byte.
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is owned by this value, and borrows of its bytes do not outlive it.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}
