//! A ring that the kernel fills with received frames (`packet_mmap`, TPACKET_V2).
//!
//! Frames are read where the kernel wrote them, without a system call for each. Version 2 delivers each frame
//! immediately, in a slot of its own. Version 3 saves memory, but delivers whole blocks after a millisecond, which
//! is long compared with a ping. A frame larger than its slot (usually a super-frame) is marked, and is complete in
//! the socket's queue.

use std::{
    io, mem,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    ptr::{self, NonNull},
    slice,
    sync::atomic::{fence, AtomicU32, Ordering},
};

use super::offload::VNET_HEADER;

/// Slots are allocated in blocks of this size.
const BLOCK: usize = 64 << 10;
/// Maximum number of bytes that the kernel puts in front of a frame: `tpacket2_hdr`, address and virtio header.
const OVERHEAD: usize = 128;
/// Alignment of slots in bytes.
const ALIGNMENT: usize = 16;
/// Maximum length of a slot in bytes. Longer frames are rare, mostly super-frames.
const MAX_SLOT: usize = 16 << 10;

/// The mapped ring of one socket.
#[derive(Debug)]
pub struct Ring {
    memory: NonNull<u8>,
    len: usize,
    slot: usize,
    /// Offset of the next slot to be filled, in bytes.
    next: usize,
}

// SAFETY: the mapping is owned by this value and not bound to a thread.
unsafe impl Send for Ring {}

/// A received frame within the ring.
pub struct Slot<'a> {
    /// The bytes of the frame that fit into the slot.
    pub bytes: &'a mut [u8],
    /// The `virtio_net_hdr` of the frame.
    pub header: [u8; VNET_HEADER],
    /// Whether the complete frame is in the socket's queue.
    pub is_queued: bool,
    /// Whether the frame is longer than `bytes` and the rest is lost.
    pub is_truncated: bool,
    /// VLAN tag that the kernel removed, if any: protocol and contents.
    pub vlan: Option<(u16, u16)>,
}

impl Ring {
    /// Maps a ring of about `size` bytes for the frames of an interface with this MTU. Must be called before the
    /// socket is bound.
    pub fn map(socket: &OwnedFd, size: usize, mtu: usize) -> io::Result<Ring> {
        let fd = socket.as_raw_fd();
        set(
            fd,
            libc::PACKET_VERSION,
            &(libc::tpacket_versions::TPACKET_V2 as libc::c_int),
        )?;
        // With any value but zero, frames too large for their slot are also queued.
        set(fd, libc::PACKET_COPY_THRESH, &1i32)?;
        let slot = (mtu + OVERHEAD).next_multiple_of(ALIGNMENT);
        let slot = slot.min(MAX_SLOT);
        let blocks = (size / BLOCK).max(1);
        let slots = blocks * (BLOCK / slot);
        let request = libc::tpacket_req {
            tp_block_size: BLOCK as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: slot as u32,
            tp_frame_nr: slots as u32,
        };
        set(fd, libc::PACKET_RX_RING, &request)?;
        let len = blocks * BLOCK;
        // SAFETY: a new mapping of the socket's ring, which has that length; nothing else is changed.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Ring {
            memory,
            len,
            slot,
            next: 0,
        })
    }

    fn start(&self) -> *mut u8 {
        // SAFETY: a slot begins at `next`, and all slots lie within the mapping.
        unsafe { self.memory.as_ptr().add(self.next) }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: the status is the slot's first field, aligned as slots are. The kernel changes it, too, so it is only accessed as an
        // atomic.
        unsafe { AtomicU32::from_ptr(self.start().cast()) }
    }

    /// Returns the oldest frame that has not been released; `None` if the ring is empty.
    pub fn front(&mut self) -> Option<Slot<'_>> {
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: by the status this process owns the slot until it is released; the header is plain data at its start.
        let header = unsafe { ptr::read(self.start().cast::<libc::tpacket2_hdr>()) };
        let start = usize::from(header.tp_mac);
        let room = self.slot.saturating_sub(start);
        let len = (header.tp_snaplen as usize).min(room);
        // SAFETY: as above; the range ends within the slot, which has no other owner.
        let bytes =
            unsafe { slice::from_raw_parts_mut(self.start().add(start.min(self.slot)), len) };
        let mut vnet = [0; VNET_HEADER];
        if start >= mem::size_of::<libc::tpacket2_hdr>() + VNET_HEADER && start <= self.slot {
            // SAFETY: the bytes before the frame lie in the slot, after its header.
            unsafe {
                let at = self.start().add(start - VNET_HEADER);
                ptr::copy_nonoverlapping(at, vnet.as_mut_ptr(), VNET_HEADER);
            }
        }
        let has = |flag: u32| status & flag != 0;
        let vlan = has(libc::TP_STATUS_VLAN_VALID).then(|| {
            let known = has(libc::TP_STATUS_VLAN_TPID_VALID);
            let protocol = if known { header.tp_vlan_tpid } else { 0x8100 };
            (protocol, header.tp_vlan_tci)
        });
        Some(Slot {
            is_queued: has(libc::TP_STATUS_COPY),
            is_truncated: len < header.tp_len as usize,
            bytes,
            header: vnet,
            vlan,
        })
    }

    /// Returns the slot of the oldest frame to the kernel.
    pub fn release(&mut self) {
        fence(Ordering::Release);
        self.status()
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next += self.slot;
        // Slots do not cross blocks.
        if self.next % BLOCK + self.slot > BLOCK {
            self.next = self.next.next_multiple_of(BLOCK) % self.len;
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is owned by this value, and none of its slots is borrowed.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.len) };
    }
}

fn set<T>(fd: RawFd, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the value is a T of the given size.
    let result = unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_PACKET,
            option,
            ptr::from_ref(value).cast(),
            mem::size_of::<T>() as u32,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
