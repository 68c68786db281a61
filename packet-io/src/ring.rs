//! A ring that the kernel fills with received frames (`packet_mmap`, TPACKET_V2).
//!
//! Frames are read where the kernel wrote them, without a system call for each. Version 2 delivers each frame
//! immediately, in a slot of its own. Version 3 saves memory, but delivers whole blocks after a millisecond, which
//! is long compared with a ping. A frame larger than its slot (usually a super-frame) is marked, and is complete in
//! the socket's queue.

use std::{
    io, mem,
    os::fd::OwnedFd,
    ptr, slice,
    sync::atomic::{fence, AtomicU32, Ordering},
};

use super::{mapping::Mapping, offload::VNET_HEADER, sys::set};

/// Size in bytes of the blocks in which the kernel allocates slots.
const BLOCK: usize = 64 << 10;
/// Maximum number of bytes that the kernel puts in front of a frame in its slot: `tpacket2_hdr`, address and virtio
/// header.
const OVERHEAD: usize = 128;
/// Length of the header at the start of a slot in bytes.
const HEADER: usize = mem::size_of::<libc::tpacket2_hdr>();
/// Alignment of slots in bytes.
const ALIGNMENT: usize = 16;
/// Maximum length of a slot in bytes. Frames that do not fit are rare, mostly super-frames.
const MAX_SLOT: usize = 16 << 10;

/// The receive ring of one socket, mapped into memory.
#[derive(Debug)]
pub struct Ring {
    memory: Mapping,
    slot: usize,
    /// Offset in bytes of the slot that holds the oldest frame, or that the kernel fills next.
    next: usize,
}

/// A received frame in the ring.
pub struct Slot<'a> {
    /// The bytes of the frame that fit into the slot.
    pub bytes: &'a mut [u8],
    /// The `virtio_net_hdr` of the frame.
    pub header: [u8; VNET_HEADER],
    /// Whether the frame did not fit, and the whole frame is in the socket's queue.
    pub is_queued: bool,
    /// Whether the frame is longer than `bytes`. Unless `is_queued`, the rest is lost.
    pub is_truncated: bool,
    /// Protocol and contents of the VLAN tag that the kernel has removed from the frame; `None` without a tag.
    pub vlan: Option<(u16, u16)>,
}

impl Ring {
    /// Maps a ring of about `size` bytes for the frames of an interface with this MTU. Must be called before the
    /// socket is bound.
    pub fn map(socket: &OwnedFd, size: usize, mtu: usize) -> io::Result<Ring> {
        let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        set(socket, libc::PACKET_VERSION, &version)?;
        // With any value but zero, frames too large for their slot are also queued.
        set(socket, libc::PACKET_COPY_THRESH, &1)?;
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
        set(socket, libc::PACKET_RX_RING, &request)?;
        let memory = Mapping::of_ring(socket, blocks * BLOCK, 0)?;
        Ok(Ring {
            memory,
            slot,
            next: 0,
        })
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: a slot begins at `next`, and all slots lie within the mapping. The status is the slot's first field, aligned as slots
        // are. The kernel changes it, too, so it is only accessed as an atomic.
        unsafe { AtomicU32::from_ptr(self.memory.start().add(self.next).cast()) }
    }

    /// Whether the ring holds a frame that has not been released.
    pub fn has_frame(&self) -> bool {
        self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Returns the oldest frame that has not been released; `None` if the ring is empty.
    pub fn front(&mut self) -> Option<Slot<'_>> {
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: by the status this process owns the slot, which lies within the mapping, until it is released. The header is plain
        // data at its start, and the other bytes have no other reference.
        let (header, bytes) = unsafe {
            let start = self.memory.start().add(self.next);
            let rest = slice::from_raw_parts_mut(start.add(HEADER), self.slot - HEADER);
            (ptr::read(start.cast::<libc::tpacket2_hdr>()), rest)
        };
        // The virtio header is in front of the frame. The kernel puts both after its own header.
        let start = usize::from(header.tp_mac).clamp(HEADER, self.slot);
        let (before, bytes) = bytes.split_at_mut(start - HEADER);
        let vnet = before.last_chunk().copied().unwrap_or_default();
        let len = (header.tp_snaplen as usize).min(bytes.len());
        let has = |flag: u32| status & flag != 0;
        let vlan = has(libc::TP_STATUS_VLAN_VALID).then(|| {
            let known = has(libc::TP_STATUS_VLAN_TPID_VALID);
            let protocol = if known { header.tp_vlan_tpid } else { 0x8100 };
            (protocol, header.tp_vlan_tci)
        });
        Some(Slot {
            is_queued: has(libc::TP_STATUS_COPY),
            is_truncated: len < header.tp_len as usize,
            bytes: &mut bytes[..len],
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
            self.next = self.next.next_multiple_of(BLOCK) % self.memory.len();
        }
    }
}
