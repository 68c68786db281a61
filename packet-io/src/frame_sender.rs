//! The sending half of a packet socket, which on some interfaces sends by an AF_XDP socket.

use std::{
    io::{self, IoSlice},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        Mutex, PoisonError,
    },
};

use rustix::{
    io::Errno,
    net::{
        sendmmsg, sendmsg, sockopt::socket_send_buffer_size, MMsgHdr, SendAncillaryBuffer,
        SendFlags,
    },
};
use smallvec::SmallVec;
use tracing::{debug, info};

use super::{
    gso::SuperFrame,
    sys::{
        bind, ethtool, has_driver, mtu, set, set_send_buffer, unbound, EthtoolValue, BATCH,
        SOCKET_BUFFER,
    },
    xdp_sender::{XdpOutcome, XdpSender},
};

/// Length of an Ethernet header in bytes, which is also the minimum length of a frame.
const ETHERNET: usize = 14;
/// Minimum number of frames in the first batch for which an AF_XDP socket is opened, since it takes half a MiB of memory.
const MIN_BATCH_FOR_XDP: usize = 8;
/// Maximum number of batches between two attempts to open an AF_XDP socket.
const MAX_XDP_PAUSE: u32 = 1 << 12;

/// Sends frames to one interface; usable from any thread.
#[derive(Debug)]
pub struct FrameSender {
    interface: u32,
    /// Socket for single frames. It is not polled for reading, since the kernel would then search for waiting
    /// readers whenever it frees a sent frame.
    fd: OwnedFd,
    /// Socket for super-frames, each of which has a `virtio_net_hdr` in front.
    gso: OwnedFd,
    /// Whether the kernel segments super-frames in software, checksums included.
    is_segmented_by_kernel: AtomicBool,
    /// Whether frames bypass the queueing discipline.
    bypass: AtomicBool,
    /// Maximum length in bytes of a frame that the AF_XDP socket sends; 0 if there shall be none.
    max_xdp_frame: AtomicUsize,
    xdp: Mutex<Xdp>,
    /// Size of the system's default send buffer in bytes, as `SO_SNDBUF` reports it.
    send_buffer: usize,
}

/// Which sockets send frames that bypass the queueing discipline.
///
/// In any case packet sockets send super-frames, frames longer than the MTU or 4 KiB, and frames that the AF_XDP socket cannot
/// take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum SendSocket {
    /// AF_XDP on veth interfaces, packet sockets on others.
    Auto,
    /// Packet sockets.
    #[default]
    Packet,
    /// AF_XDP, if the kernel allows it.
    Xdp,
}

/// The AF_XDP socket of a [`FrameSender`].
#[derive(Debug)]
enum Xdp {
    /// It is opened after this number of batches, and the number after that if it is busy.
    Closed {
        batches: u32,
        pause: u32,
    },
    Open(XdpSender),
    /// The kernel has refused it.
    Refused,
}

/// The result of [`FrameSender::send`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendOutcome {
    /// Number of frames that the kernel accepted.
    pub taken: usize,
    /// Number of frames, from the first, that the kernel accepted or dropped.
    pub done: usize,
    /// Whether the other frames must wait until the kernel's buffer has space.
    pub is_full: bool,
}

impl FrameSender {
    /// Opens the sockets for an interface. Frames pass its queueing discipline.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_NET_RAW.
    pub fn open(interface: u32) -> io::Result<FrameSender> {
        let fd = unbound()?;
        let frame_sender = FrameSender {
            interface,
            send_buffer: socket_send_buffer_size(&fd)?,
            fd,
            gso: unbound()?,
            is_segmented_by_kernel: AtomicBool::new(false),
            bypass: AtomicBool::new(false),
            max_xdp_frame: AtomicUsize::new(0),
            xdp: Mutex::new(Xdp::CLOSED),
        };
        set(&frame_sender.gso, libc::PACKET_VNET_HDR, &1)?;
        set_send_buffer(&frame_sender.gso, SOCKET_BUFFER)?;
        // Bound to no protocol, the sockets receive nothing.
        bind(&frame_sender.fd, interface, 0)?;
        bind(&frame_sender.gso, interface, 0)?;
        frame_sender.detect_offloads();
        Ok(frame_sender)
    }

    /// Sets whether frames bypass the interface's queueing discipline.
    ///
    /// On an interface without a discipline the bypass saves time, and a full queue of the device is reported as an
    /// error. With a discipline, all frames in its queue count against the socket's buffer, so
    /// [`SendOutcome::is_full`] applies back-pressure.
    pub fn set_bypass(&self, bypass: bool) -> io::Result<()> {
        let option = libc::PACKET_QDISC_BYPASS;
        set(&self.fd, option, &libc::c_int::from(bypass))?;
        set_send_buffer(
            &self.fd,
            match bypass {
                true => SOCKET_BUFFER,
                // The kernel doubles the given size, and reports the doubled one.
                false => self.send_buffer / 2,
            },
        )?;
        self.bypass.store(bypass, Ordering::Relaxed);
        Ok(())
    }

    /// Sets which sockets send frames, and detects the properties of the interface on which this depends; must be called
    /// again when they may have changed. Before the first call, packet sockets send.
    pub fn configure(&self, send_socket: SendSocket) {
        let is_for_xdp = match send_socket {
            SendSocket::Auto => has_driver(&self.fd, self.interface, "veth").unwrap_or(false),
            SendSocket::Packet => false,
            SendSocket::Xdp => true,
        };
        let max = match is_for_xdp {
            true => mtu(&self.fd, self.interface).map_or(0, |mtu| mtu + ETHERNET),
            false => 0,
        };
        self.max_xdp_frame
            .store(max.min(XdpSender::MAX_FRAME), Ordering::Relaxed);
        // A socket that was closed because the interface was down is opened again.
        let mut xdp = self.xdp.lock().unwrap_or_else(PoisonError::into_inner);
        if let Xdp::Closed { .. } = *xdp {
            *xdp = Xdp::CLOSED;
        }
        drop(xdp);
        self.detect_offloads();
    }

    /// Detects the interface's offloads. Only without them does the kernel segment a super-frame into the same
    /// frames that were joined.
    fn detect_offloads(&self) {
        let is_off = |which| matches!(ethtool(&self.fd, self.interface, which), Ok(0));
        let is_segmented_by_kernel =
            is_off(EthtoolValue::Checksums) && is_off(EthtoolValue::Segments);
        self.is_segmented_by_kernel
            .store(is_segmented_by_kernel, Ordering::Relaxed);
    }

    /// The file descriptor that is writable when frames can be sent.
    pub fn writer(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Sends frames until the kernel's buffer is full. A frame that is too long for the interface, or that its queueing discipline
    /// drops, does not affect the others.
    ///
    /// # Errors
    /// Any other error of the first frame.
    pub fn send(&self, frames: &[Vec<u8>]) -> io::Result<SendOutcome> {
        let bypass = self.bypass.load(Ordering::Relaxed);
        // A queueing discipline counts packets, so frames are not joined.
        let joins = bypass && self.is_segmented_by_kernel.load(Ordering::Relaxed);
        let next_super_frame = |from| joins.then(|| SuperFrame::find(frames, from)).flatten();
        let mut sent = SendOutcome::default();
        let mut super_frame = next_super_frame(0);
        while sent.done < frames.len() {
            let mut end = super_frame
                .as_ref()
                .map_or(frames.len(), |t| t.frames.start);
            if let Some(joined) = super_frame.take_if(|t| t.frames.start == sent.done) {
                end = joined.frames.end;
                super_frame = next_super_frame(end);
                if self.send_super_frame(frames, &joined).is_ok() {
                    sent.done = end;
                    sent.taken += joined.frames.len();
                    continue;
                }
                // Falls back to single frames.
            }
            let chunk = &frames[sent.done..end.min(sent.done + BATCH)];
            if bypass {
                let by_xdp = self.send_by_xdp(chunk);
                if by_xdp.done > 0 {
                    sent.done += by_xdp.done;
                    sent.taken += by_xdp.done - by_xdp.dropped;
                    continue;
                }
            }
            match self.send_each(chunk) {
                Ok(0) => break,
                Ok(count) => {
                    sent.done += count;
                    sent.taken += count;
                }
                // The error concerns the first frame of the chunk.
                Err(error) => match error {
                    Errno::MSGSIZE | Errno::INVAL => sent.done += 1,
                    // Without a discipline the device's queue is full, for the other frames as well.
                    Errno::NOBUFS if !bypass => sent.done += 1,
                    Errno::AGAIN => {
                        sent.is_full = true;
                        break;
                    }
                    _ if sent.done > 0 => break,
                    error => return Err(error.into()),
                },
            }
        }
        Ok(sent)
    }

    /// Sends the first frames of a batch by the AF_XDP socket, as far as that is possible.
    fn send_by_xdp(&self, frames: &[Vec<u8>]) -> XdpOutcome {
        let max = self.max_xdp_frame.load(Ordering::Relaxed);
        let suits = |frame: &&Vec<u8>| (ETHERNET..=max).contains(&frame.len());
        let count = frames.iter().take_while(suits).count();
        if count == 0 {
            return XdpOutcome::default();
        }
        let mut xdp = self.xdp.lock().unwrap_or_else(PoisonError::into_inner);
        if let Xdp::Closed { .. } = *xdp {
            xdp.open_when_due(self.interface, count);
        }
        let Xdp::Open(sender) = &mut *xdp else {
            return XdpOutcome::default();
        };
        let sent = sender.send(&frames[..count]);
        if sent.is_stopped {
            debug!(interface = self.interface, "the AF_XDP socket is closed");
            *xdp = Xdp::Closed {
                batches: MAX_XDP_PAUSE,
                pause: MAX_XDP_PAUSE,
            };
        }
        sent
    }

    /// Sends up to [`BATCH`] single frames, and returns the number that the kernel accepted.
    fn send_each(&self, frames: &[Vec<u8>]) -> Result<usize, Errno> {
        let (mut parts, mut controls) =
            (SmallVec::<[_; BATCH]>::new(), SmallVec::<[_; BATCH]>::new());
        for frame in &frames[..frames.len().min(BATCH)] {
            parts.push([IoSlice::new(frame)]);
            controls.push(SendAncillaryBuffer::default());
        }
        let mut messages = SmallVec::<[_; BATCH]>::new();
        for (part, control) in parts.iter().zip(&mut controls) {
            messages.push(MMsgHdr::new(part, control));
        }
        sendmmsg(&self.fd, &mut messages, SendFlags::DONTWAIT)
    }

    /// Sends consecutive frames as one super-frame, which the kernel segments.
    fn send_super_frame(&self, frames: &[Vec<u8>], super_frame: &SuperFrame) -> io::Result<()> {
        let mut parts = [IoSlice::new(&[]); 1 + BATCH];
        parts[0] = IoSlice::new(super_frame.headers());
        let segments = &frames[super_frame.frames.clone()];
        for (part, frame) in parts[1..].iter_mut().zip(segments) {
            *part = IoSlice::new(&frame[super_frame.payload()..]);
        }
        let parts = &parts[..1 + segments.len()];
        let mut control = SendAncillaryBuffer::default();
        sendmsg(&self.gso, parts, &mut control, SendFlags::DONTWAIT)?;
        Ok(())
    }
}

impl Xdp {
    /// A socket that the next large batch opens.
    const CLOSED: Xdp = Xdp::Closed {
        batches: 0,
        pause: 1,
    };

    /// Opens a closed socket, if the batch of `frames` frames is large enough and the pause is over.
    fn open_when_due(&mut self, interface: u32, frames: usize) {
        let Xdp::Closed { batches, pause } = self else {
            return;
        };
        if *batches > 0 || frames < MIN_BATCH_FOR_XDP {
            *batches = batches.saturating_sub(1);
            return;
        }
        *self = match XdpSender::open(interface) {
            Ok(sender) => {
                debug!(interface, "frames are sent by an AF_XDP socket");
                Xdp::Open(sender)
            }
            // The kernel releases a closed socket later, and another program's socket may be closed.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Xdp::Closed {
                batches: *pause,
                pause: (*pause * 2).min(MAX_XDP_PAUSE),
            },
            Err(error) => {
                info!(
                    interface,
                    "frames are sent by packet sockets, since the kernel refuses AF_XDP: {error}"
                );
                Xdp::Refused
            }
        };
    }
}
