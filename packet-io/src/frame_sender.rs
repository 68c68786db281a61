//! The sending half of a packet socket.

use std::{
    io, mem,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    ptr,
    sync::atomic::{AtomicBool, Ordering},
};

use super::{
    gso::SuperFrame,
    sys::{bind, check, get, set, set_buffer, unbound, BATCH, EMPTY_PART, SOCKET_BUFFER},
};

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
    /// Size of the system's default send buffer in bytes, as `SO_SNDBUF` reports it.
    send_buffer: libc::c_int,
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
        let mut frame_sender = FrameSender {
            interface,
            fd: unbound()?,
            gso: unbound()?,
            is_segmented_by_kernel: AtomicBool::new(false),
            bypass: AtomicBool::new(false),
            send_buffer: 0,
        };
        let (level, option) = (libc::SOL_SOCKET, libc::SO_SNDBUF);
        get(
            &frame_sender.fd,
            level,
            option,
            &mut frame_sender.send_buffer,
        )?;
        set(
            &frame_sender.gso,
            libc::SOL_PACKET,
            libc::PACKET_VNET_HDR,
            &1,
        )?;
        frame_sender.set_send_buffer(&frame_sender.gso, SOCKET_BUFFER)?;
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
        let (level, option) = (libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS);
        set(&self.fd, level, option, &libc::c_int::from(bypass))?;
        self.set_send_buffer(
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

    fn set_send_buffer(&self, fd: &OwnedFd, bytes: libc::c_int) -> io::Result<()> {
        let (force, plain) = (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF);
        set_buffer(fd, force, plain, bytes)
    }

    /// Detects the interface's offloads. Only without them does the kernel segment a super-frame into the same
    /// frames that were joined.
    pub fn detect_offloads(&self) {
        const CHECKSUMS: u32 = 0x16;
        const SEGMENTS: u32 = 0x1e;
        let is_off = |which| matches!(self.ethtool(which), Ok(0));
        let is_segmented_by_kernel = is_off(CHECKSUMS) && is_off(SEGMENTS);
        self.is_segmented_by_kernel
            .store(is_segmented_by_kernel, Ordering::Relaxed);
    }

    /// Reads a property of the interface by an `ETHTOOL_G...` command.
    fn ethtool(&self, command: u32) -> io::Result<u32> {
        const SIOCETHTOOL: libc::c_ulong = 0x8946;
        let mut value = [command, 0];
        // SAFETY: ifreq is plain data and zero is valid; the first call sets the name that the second one reads, and that one also has
        // a value as large as the commands above write.
        unsafe {
            let mut request: libc::ifreq = mem::zeroed();
            request.ifr_ifru.ifru_ifindex = self.interface as i32;
            let fd = self.fd.as_raw_fd();
            check(libc::ioctl(fd, libc::SIOCGIFNAME, &mut request))?;
            request.ifr_ifru.ifru_data = ptr::from_mut(&mut value).cast();
            check(libc::ioctl(fd, SIOCETHTOOL as _, &mut request))?;
        }
        Ok(value[1])
    }

    /// The file descriptor that is writable when frames can be sent.
    pub fn writer(&self) -> RawFd {
        self.fd.as_raw_fd()
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
            match self.send_each(chunk) {
                Ok(0) => break,
                Ok(count) => {
                    sent.done += count;
                    sent.taken += count;
                }
                // The error concerns the first frame of the chunk.
                Err(error) => match error.raw_os_error() {
                    Some(libc::EMSGSIZE | libc::EINVAL) => sent.done += 1,
                    // Without a discipline the device's queue is full, for the other frames as well.
                    Some(libc::ENOBUFS) if !bypass => sent.done += 1,
                    Some(libc::EAGAIN) => {
                        sent.is_full = true;
                        break;
                    }
                    _ if sent.done > 0 => break,
                    _ => return Err(error),
                },
            }
        }
        Ok(sent)
    }

    /// Sends up to [`BATCH`] single frames, and returns the number that the kernel accepted.
    fn send_each(&self, frames: &[Vec<u8>]) -> io::Result<usize> {
        let mut parts = [EMPTY_PART; BATCH];
        // SAFETY: mmsghdr is plain data, and zero is valid.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        for ((frame, part), message) in frames.iter().zip(&mut parts).zip(&mut messages) {
            *part = part_of(frame);
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: every message points to a frame, which outlives the call and is only read by it.
        let count = check(unsafe {
            libc::sendmmsg(
                self.fd.as_raw_fd(),
                messages.as_mut_ptr(),
                frames.len().min(BATCH) as u32,
                libc::MSG_DONTWAIT,
            )
        })?;
        Ok(count as usize)
    }

    /// Sends consecutive frames as one super-frame, which the kernel segments.
    fn send_super_frame(&self, frames: &[Vec<u8>], super_frame: &SuperFrame) -> io::Result<()> {
        let mut parts = [EMPTY_PART; 1 + BATCH];
        parts[0] = part_of(super_frame.headers());
        let segments = &frames[super_frame.frames.clone()];
        for (part, frame) in parts[1..].iter_mut().zip(segments) {
            *part = part_of(&frame[super_frame.payload()..]);
        }
        // SAFETY: msghdr is plain data, and zero is valid.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = parts.as_mut_ptr();
        message.msg_iovlen = 1 + segments.len();
        // SAFETY: the message points to parts of frames, which outlive the call and are only read by it.
        let sent = unsafe { libc::sendmsg(self.gso.as_raw_fd(), &message, libc::MSG_DONTWAIT) };
        match sent {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Creates an I/O vector for bytes that the kernel only reads.
fn part_of(bytes: &[u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}
