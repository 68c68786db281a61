//! Sends frames by an AF_XDP socket.
//!
//! `sendmmsg` copies and checks a message header for each frame. An AF_XDP socket takes the addresses of frames from a
//! ring in shared memory, which saves a third of the time of the system call. This socket only sends: it has no XDP
//! program, so the interface receives frames as before, with all offloads. It is in copy mode, which all drivers
//! support: the kernel copies each frame into a buffer of its own (`sk_buff`), and sends it before the call returns.

use std::{
    io,
    mem::size_of,
    os::fd::{AsRawFd, OwnedFd},
    ptr,
};

use rustix::{
    io::Errno,
    net::{
        bind, send, socket_with,
        sockopt::{
            set_xdp_tx_ring_size, set_xdp_umem_completion_ring_size, set_xdp_umem_fill_ring_size,
            set_xdp_umem_reg, xdp_mmap_offsets,
        },
        xdp::{
            SocketAddrXdp, SocketAddrXdpFlags, XdpDesc, XdpDescOptions, XdpUmemReg,
            XdpUmemRegFlags, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING,
        },
        AddressFamily, SendFlags, SocketType,
    },
};

use super::{
    mapping::Mapping,
    sys::{check, set_send_buffer, BATCH, SOCKET_BUFFER, SOCKET_FLAGS},
    xdp_ring::XdpRing,
};

/// Length of a chunk in bytes; each chunk holds one frame. The kernel allows at most a page, and a power of two.
const CHUNK: usize = 4096;
/// Number of chunks. The kernel returns a chunk when the receiver has taken the frame over.
const CHUNKS: usize = 2 * BATCH;
/// The transmit queue that the socket uses; every interface has it.
const QUEUE: u32 = 0;
/// Socket option of Linux 6.17: maximum number of frames sent by a system call. Older kernels send 32.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// An AF_XDP socket that sends frames to an interface.
#[derive(Debug)]
pub(crate) struct XdpSender {
    fd: OwnedFd,
    /// Ring of frames to send.
    frames: XdpRing<XdpDesc>,
    /// Ring by which the kernel returns chunks.
    completions: XdpRing<u64>,
    /// Memory of the chunks (UMEM).
    chunks: Mapping,
    /// Offsets of the chunks that the kernel does not use.
    free: Vec<u64>,
}

/// The result of [`XdpSender::send`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct XdpOutcome {
    /// Number of frames, from the first, that the kernel sent or dropped.
    pub done: usize,
    /// Number of frames that the kernel dropped.
    pub dropped: usize,
    /// Whether the socket cannot send any more, as the interface is down or removed.
    pub is_stopped: bool,
}

impl XdpSender {
    /// Maximum length of a frame in bytes.
    pub const MAX_FRAME: usize = CHUNK;

    /// Opens a socket for an interface.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_NET_RAW; `ResourceBusy` while another AF_XDP socket uses the interface, or has been
    /// closed a moment ago; others if the kernel has no AF_XDP or no memory.
    pub fn open(interface: u32) -> io::Result<XdpSender> {
        let fd = socket_with(AddressFamily::XDP, SocketType::RAW, SOCKET_FLAGS, None)?;
        let chunks = Mapping::anonymous(CHUNKS * CHUNK)?;
        set_xdp_umem_reg(
            &fd,
            XdpUmemReg {
                addr: chunks.start() as u64,
                len: chunks.len() as u64,
                chunk_size: CHUNK as u32,
                headroom: 0,
                flags: XdpUmemRegFlags::empty(),
                tx_metadata_len: 0,
            },
        )?;
        // The kernel requires a fill ring, which only receiving uses.
        set_xdp_umem_fill_ring_size(&fd, 1)?;
        set_xdp_umem_completion_ring_size(&fd, CHUNKS as u32)?;
        set_xdp_tx_ring_size(&fd, CHUNKS as u32)?;
        set_send_buffer(&fd, SOCKET_BUFFER)?;
        let offsets = xdp_mmap_offsets(&fd)?;
        let frames = XdpRing::map(&fd, CHUNKS, XDP_PGOFF_TX_RING, &offsets.tx)?;
        let returned = XDP_UMEM_PGOFF_COMPLETION_RING;
        let completions = XdpRing::map(&fd, CHUNKS, returned, &offsets.cr)?;
        let address = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_COPY, interface, QUEUE);
        bind(&fd, &address)?;
        let budget = BATCH as u32;
        // SAFETY: the value is an integer of the given size. Older kernels refuse the option, and need more calls.
        let _ = check(unsafe {
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::SOL_XDP,
                XDP_MAX_TX_SKB_BUDGET,
                ptr::from_ref(&budget).cast(),
                size_of::<u32>() as u32,
            )
        });
        Ok(XdpSender {
            fd,
            frames,
            completions,
            chunks,
            free: (0..CHUNKS).map(|index| (index * CHUNK) as u64).collect(),
        })
    }

    /// Sends frames of at most [`XdpSender::MAX_FRAME`] bytes. Fewer are sent if chunks are missing, because
    /// receivers have not yet taken over earlier frames.
    pub fn send(&mut self, frames: &[Vec<u8>]) -> XdpOutcome {
        let mut all = XdpOutcome::default();
        while all.done < frames.len() && !all.is_stopped {
            while let Some(chunk) = self.completions.pop() {
                self.free.push(chunk);
            }
            let queued = self.queue(&frames[all.done..]);
            if queued == 0 {
                break;
            }
            let sent = self.transmit(queued);
            all.done += sent.done;
            all.dropped += sent.dropped;
            all.is_stopped = sent.is_stopped;
        }
        all
    }

    /// Copies frames into free chunks, and puts them into the ring. Returns their number.
    fn queue(&mut self, frames: &[Vec<u8>]) -> usize {
        let mut queued = 0;
        for frame in frames.iter().take_while(|frame| frame.len() <= CHUNK) {
            let Some(chunk) = self.free.pop() else {
                break;
            };
            // SAFETY: chunks lie within the mapping, this one has the length of the frame, and the kernel does not use it.
            unsafe {
                let to = self.chunks.start().add(chunk as usize);
                ptr::copy_nonoverlapping(frame.as_ptr(), to, frame.len());
            }
            self.frames.push(XdpDesc {
                addr: chunk,
                len: frame.len() as u32,
                options: XdpDescOptions::empty(),
            });
            queued += 1;
        }
        self.frames.publish();
        queued
    }

    /// Makes the kernel send the frames of the ring, which are `queued`.
    fn transmit(&self, queued: usize) -> XdpOutcome {
        let mut sent = XdpOutcome::default();
        let mut waiting = queued;
        while waiting > 0 {
            let result = send(&self.fd, &[], SendFlags::DONTWAIT);
            let before = waiting;
            waiting = self.frames.waiting();
            // The kernel has dropped the last frame that it took. It may report later that it has taken the frame.
            let is_drop = result == Err(Errno::BUSY);
            sent.dropped += usize::from(is_drop);
            if waiting == before && !is_drop || sent.dropped > queued {
                sent.is_stopped = true;
                break;
            }
        }
        sent.done = queued - waiting;
        sent.dropped = sent.dropped.min(sent.done);
        sent
    }
}
