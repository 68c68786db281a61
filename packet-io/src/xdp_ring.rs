//! A ring of an AF_XDP socket, in memory that this process shares with the kernel.
//!
//! One side produces entries, the other one consumes them. Both count from the start of the ring, modulo 2^32.

use std::{
    io,
    marker::PhantomData,
    mem::size_of,
    os::fd::OwnedFd,
    sync::atomic::{AtomicU32, Ordering},
};

use rustix::net::xdp::XdpRingOffset;

use super::mapping::Mapping;

/// A ring of entries of type `T`, which this process either produces or consumes.
#[derive(Debug)]
pub(crate) struct XdpRing<T> {
    memory: Mapping,
    /// Offsets in bytes of the number of produced entries, of the number of consumed entries, and of the entries.
    producer: usize,
    consumer: usize,
    entries: usize,
    /// Number of entries of the ring minus one; the number is a power of two.
    mask: u32,
    /// Number of entries that this process has produced or consumed.
    at: u32,
    of: PhantomData<T>,
}

impl<T: Copy> XdpRing<T> {
    /// Maps the ring of a socket. `len`: number of entries; `page_offset`: offset by which the kernel identifies the ring.
    pub fn map(
        socket: &OwnedFd,
        len: usize,
        page_offset: u64,
        offsets: &XdpRingOffset,
    ) -> io::Result<XdpRing<T>> {
        let entries = offsets.desc as usize;
        Ok(XdpRing {
            memory: Mapping::of_ring(socket, entries + len * size_of::<T>(), page_offset)?,
            producer: offsets.producer as usize,
            consumer: offsets.consumer as usize,
            entries,
            mask: len as u32 - 1,
            at: 0,
            of: PhantomData,
        })
    }

    /// Writes an entry, which the kernel takes after [`XdpRing::publish`]. The ring must have a free entry.
    pub fn push(&mut self, entry: T) {
        // SAFETY: the entry lies within the mapping, and the kernel does not read it before it is published.
        unsafe { self.entry(self.at).write(entry) };
        self.at = self.at.wrapping_add(1);
    }

    /// Makes the written entries visible to the kernel.
    pub fn publish(&self) {
        self.number(self.producer).store(self.at, Ordering::Release);
    }

    /// Number of published entries that the kernel has not consumed.
    pub fn waiting(&self) -> usize {
        let consumed = self.number(self.consumer).load(Ordering::Acquire);
        self.at.wrapping_sub(consumed) as usize
    }

    /// Takes the next entry that the kernel has produced; `None` if there is none.
    pub fn pop(&mut self) -> Option<T> {
        if self.number(self.producer).load(Ordering::Acquire) == self.at {
            return None;
        }
        // SAFETY: the entry lies within the mapping, and the kernel has written it.
        let entry = unsafe { self.entry(self.at).read() };
        self.at = self.at.wrapping_add(1);
        self.number(self.consumer).store(self.at, Ordering::Release);
        Some(entry)
    }

    fn entry(&self, number: u32) -> *mut T {
        let index = (number & self.mask) as usize;
        // SAFETY: all entries lie within the mapping.
        unsafe { self.memory.start().add(self.entries).cast::<T>().add(index) }
    }

    fn number(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: the number lies within the mapping at an offset that the kernel has given, and is aligned. The kernel changes it, too, so
        // it is only accessed as an atomic.
        unsafe { AtomicU32::from_ptr(self.memory.start().add(offset).cast()) }
    }
}
