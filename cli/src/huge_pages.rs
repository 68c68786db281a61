//! The allocator: the system's, which may be told to back large memory by huge pages.
//!
//! A run in virtual time holds the message at every receiver, hundreds of megabytes that are written once. In
//! pages of 4 KiB, more than a tenth of its time went to page faults. A switch keeps tables and registers that
//! are touched here and there, where huge pages would only make more memory resident; so it is for each command
//! to ask.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes from which on an allocation is large.
const LARGE: usize = 4 << 20;
const PAGE: usize = 4096;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator {
    huge: AtomicBool::new(false),
};

struct Allocator {
    huge: AtomicBool,
}

/// From now on, large allocations are backed by huge pages where the system has them to give (`madvise` or
/// `always` in `/sys/kernel/mm/transparent_hugepage/enabled`).
pub fn prefer() {
    ALLOCATOR.huge.store(true, Ordering::Relaxed);
    // Fresh pages are zero. What malloc keeps to use it again must be cleared first, and it keeps more and more.
    #[cfg(target_env = "gnu")]
    // SAFETY: a plain call, which changes where later allocations come from.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE as libc::c_int)
    };
}

impl Allocator {
    /// Passes on what was allocated, with a word to the kernel about it.
    fn advise(&self, memory: *mut u8, len: usize) -> *mut u8 {
        if len >= LARGE && !memory.is_null() && self.huge.load(Ordering::Relaxed) {
            let skipped = memory.align_offset(PAGE);
            let whole = len.saturating_sub(skipped) / PAGE * PAGE;
            // SAFETY: the range lies within an allocation that was just made, and no byte of it changes. Advice
            // that is not taken does no harm.
            unsafe { libc::madvise(memory.add(skipped).cast(), whole, libc::MADV_HUGEPAGE) };
        }
        memory
    }
}

// SAFETY: all memory is the system allocator's, asked for and given back as the caller says.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as for the caller, here and below.
        self.advise(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: see above.
        self.advise(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: see above.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        // SAFETY: see above.
        self.advise(unsafe { System.realloc(memory, layout, len) }, len)
    }
}
