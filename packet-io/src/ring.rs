//! A ring that the kernel fills with received frames (`packet_mmap`, TPACKET_V2).
//!
//! The frames are read where the kernel put them, without a system call for each. Version 2 gives
//! every frame a slot and hands it over at once; version 3 saves memory, but hands over whole
//! blocks after a millisecond, which is a long time for a ping. A frame that is larger than its
//! slot (a super-frame, mostly) is marked, and the socket's queue has all of it.

use std::{
    io, mem,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    ptr::{self, NonNull},
    slice,
    sync::atomic::{fence, AtomicU32, Ordering},
};

use super::offload::VNET_HEADER;

/// Slots lie in blocks of this size.
const BLOCK: usize = 64 << 10;
/// What the kernel puts in front of a frame, at most: its header, the address, the virtio header.
const OVERHEAD: usize = 128;
/// Slots begin at multiples of this.
const ALIGNMENT: usize = 16;
/// The largest slot. Longer frames are few: mostly super-frames, whatever the MTU.
const LARGEST_SLOT: usize = 16 << 10;

/// The mapped ring of one socket.
#[derive(Debug)]
pub struct Ring {
    memory: NonNull<u8>,
    len: usize,
    slot: usize,
    /// Where the slot is that is filled next: bytes from the start.
    next: usize,
}

// SAFETY: the mapping is this value's own and is not bound to a thread.
unsafe impl Send for Ring {}

/// A received frame within the ring.
pub struct Slot<'a> {
    /// As far as it fits.
    pub bytes: &'a mut [u8],
    /// The `virtio_net_hdr` in front of it.
    pub header: [u8; VNET_HEADER],
    /// The whole frame is in the socket's queue.
    pub is_queued: bool,
    /// The frame is longer than `bytes`, and the rest is lost.
    pub is_cut: bool,
    /// A VLAN tag that the kernel took off: protocol and contents.
    pub vlan: Option<(u16, u16)>,
}

impl Ring {
    /// Lets the kernel fill a ring of about `size` bytes with the socket's frames, for an interface
    /// of this MTU. Must come before the socket is bound.
    pub fn map(socket: &OwnedFd, size: usize, mtu: usize) -> io::Result<Ring> {
        let fd = socket.as_raw_fd();
        set(
            fd,
            libc::PACKET_VERSION,
            &(libc::tpacket_versions::TPACKET_V2 as libc::c_int),
        )?;
        // Any value but zero: frames too large for their slot are queued as well.
        set(fd, libc::PACKET_COPY_THRESH, &1i32)?;
        let slot = (mtu + OVERHEAD).next_multiple_of(ALIGNMENT);
        let slot = slot.min(LARGEST_SLOT);
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
        // SAFETY: a fresh mapping of the socket's ring, which is that long; nothing else is changed.
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
        // SAFETY: the status is the slot's first field, aligned as slots are, and the kernel changes
        // it, too, so it is only ever accessed as an atomic.
        unsafe { AtomicU32::from_ptr(self.start().cast()) }
    }

    /// The oldest frame that was not released yet.
    pub fn front(&mut self) -> Option<Slot<'_>> {
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the status gives the slot to this process until it is released; the header is
        // plain data at its start.
        let header = unsafe { ptr::read(self.start().cast::<libc::tpacket2_hdr>()) };
        let start = usize::from(header.tp_mac);
        let room = self.slot.saturating_sub(start);
        let len = (header.tp_snaplen as usize).min(room);
        // SAFETY: as above; the range ends within the slot, and nobody else has it.
        let bytes =
            unsafe { slice::from_raw_parts_mut(self.start().add(start.min(self.slot)), len) };
        let mut vnet = [0; VNET_HEADER];
        if start >= mem::size_of::<libc::tpacket2_hdr>() + VNET_HEADER && start <= self.slot {
            // SAFETY: the bytes before the frame lie in the slot, behind its header.
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
            is_cut: len < header.tp_len as usize,
            bytes,
            header: vnet,
            vlan,
        })
    }

    /// Gives the oldest frame's slot back to the kernel.
    pub fn release(&mut self) {
        fence(Ordering::Release);
        self.status()
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next += self.slot;
        // No slot lies in two blocks.
        if self.next % BLOCK + self.slot > BLOCK {
            self.next = self.next.next_multiple_of(BLOCK) % self.len;
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no slot of it is borrowed any more.
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
