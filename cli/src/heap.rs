//! Huge pages for the heap of the simulator.
//!
//! A large fabric takes hundreds of megabytes in small blocks, which each packet accesses at random. With pages of 4 KiB,
//! page faults are a large part of its start, and misses of the TLB slow down each access.

use std::sync::Once;

/// Requests transparent huge pages for the heap from which the main thread allocates from now on, once per process.
/// Without effect where Linux and glibc do not provide them, or where they are switched off.
pub fn use_huge_pages() {
    static DONE: Once = Once::new();
    DONE.call_once(reserve);
}

/// Reserves address space at the end of the heap, and requests huge pages for it. Only memory that is written to is used.
#[cfg(all(target_env = "gnu", target_pointer_width = "64"))]
fn reserve() {
    /// Size of the reserved address space in bytes. A heap that grows beyond it has pages of 4 KiB there.
    const RESERVED: usize = 1 << 30;
    /// Size in bytes of the block whose allocation extends the heap: larger than any free block of the heap at start.
    const BLOCK: usize = 16 << 20;
    /// Bytes by which glibc extends the heap beyond what is needed, unless `M_TOP_PAD` is set.
    const DEFAULT_PAD: libc::c_int = 128 << 10;
    /// Size in bytes from which blocks have mappings of their own: the largest to which glibc raises it by itself.
    const MAPPED: libc::c_int = 32 << 20;
    // SAFETY: `mallopt` affects only where later blocks are allocated. `block` is a result of `malloc`; its content is not
    // accessed, and it is freed once. `madvise` gets whole pages of the heap, and changes no content.
    unsafe {
        // If one option is set, glibc does not adapt the others.
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED);
        libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
        libc::mallopt(libc::M_TOP_PAD, RESERVED as libc::c_int);
        let block = libc::malloc(BLOCK);
        libc::mallopt(libc::M_TOP_PAD, DEFAULT_PAD);
        if block.is_null() {
            return;
        }
        let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
        let start = block.add(block.align_offset(page));
        // Where address space is limited, the block is not in the heap, but has a mapping of its own.
        let end = libc::sbrk(0).addr();
        if end.saturating_sub(start.addr()) >= RESERVED {
            libc::madvise(start, RESERVED, libc::MADV_HUGEPAGE);
        }
        libc::free(block);
    }
}

/// Does nothing: other C libraries have no such options.
#[cfg(not(all(target_env = "gnu", target_pointer_width = "64")))]
fn reserve() {}
