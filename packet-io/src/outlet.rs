//! The sending half of a packet socket.

use std::{
    io, mem,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    ptr,
    sync::atomic::{AtomicBool, Ordering},
};

use super::{
    sys::{bind, check, get, set, set_buffer, unbound, BATCH, EMPTY_PART, SOCKET_BUFFER},
    train::Train,
};

/// Sends the frames of one interface, from whatever thread.
#[derive(Debug)]
pub struct Outlet {
    interface: u32,
    /// What sends. Nobody waits for it: on the socket that is waited for, the kernel would look for
    /// sleepers whenever one of the frames sent is freed.
    fd: OwnedFd,
    /// What sends trains, which takes a header in front of each.
    trains: OwnedFd,
    /// Whether the kernel makes frames of a train itself, checksums included.
    cuts: AtomicBool,
    /// Whether frames go past the queueing discipline, straight to the device.
    bypass: AtomicBool,
    /// What the system gives a socket for frames on their way, as `SO_SNDBUF` has it.
    send_buffer: libc::c_int,
}

/// What became of frames given to [`Outlet::send`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// So many the kernel took.
    pub taken: usize,
    /// So many, from the first, are done with: taken, or lost.
    pub done: usize,
    /// The others may go when the kernel has sent some of those before.
    pub is_full: bool,
}

impl Outlet {
    /// Opens the outlet of an interface, through its queueing discipline.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_NET_RAW.
    pub fn open(interface: u32) -> io::Result<Outlet> {
        let mut outlet = Outlet {
            interface,
            fd: unbound()?,
            trains: unbound()?,
            cuts: AtomicBool::new(false),
            bypass: AtomicBool::new(false),
            send_buffer: 0,
        };
        let (level, option) = (libc::SOL_SOCKET, libc::SO_SNDBUF);
        get(&outlet.fd, level, option, &mut outlet.send_buffer)?;
        set(&outlet.trains, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)?;
        outlet.set_room(&outlet.trains, SOCKET_BUFFER)?;
        // Bound to no protocol, sockets that send receive nothing.
        bind(&outlet.fd, interface, 0)?;
        bind(&outlet.trains, interface, 0)?;
        outlet.look_at_offloads();
        Ok(outlet)
    }

    /// Whether frames go past the interface's queueing discipline from now on. Where there is none, that
    /// saves time, and a full queue of the device shows as an error; where there is one, all that is on
    /// its way counts against the socket's buffer, so that [`Sent::is_full`] says when to wait.
    pub fn set_bypass(&self, bypass: bool) -> io::Result<()> {
        let (level, option) = (libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS);
        set(&self.fd, level, option, &libc::c_int::from(bypass))?;
        self.set_room(
            &self.fd,
            match bypass {
                true => SOCKET_BUFFER,
                // The kernel doubles what it is given, and reports the result.
                false => self.send_buffer / 2,
            },
        )?;
        self.bypass.store(bypass, Ordering::Relaxed);
        Ok(())
    }

    fn set_room(&self, fd: &OwnedFd, bytes: libc::c_int) -> io::Result<()> {
        let (force, plain) = (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF);
        set_buffer(fd, force, plain, bytes)
    }

    /// Finds out what the interface leaves to others. Only where it leaves them nothing, trains come out
    /// as the frames that they are made of.
    pub fn look_at_offloads(&self) {
        const CHECKSUMS: u32 = 0x16;
        const SEGMENTS: u32 = 0x1e;
        let is_off = |which| matches!(self.ethtool(which), Ok(0));
        let cuts = is_off(CHECKSUMS) && is_off(SEGMENTS);
        self.cuts.store(cuts, Ordering::Relaxed);
    }

    /// Reads a number of the interface that an `ETHTOOL_G...` command names.
    fn ethtool(&self, command: u32) -> io::Result<u32> {
        const SIOCETHTOOL: libc::c_ulong = 0x8946;
        let mut value = [command, 0];
        // SAFETY: ifreq is plain data and zero is valid; the first call sets the name that the second
        // one reads, and that one also has a value as large as the commands above write.
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

    /// The descriptor that is writable when frames can be sent.
    pub fn writer(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Sends frames, until the kernel has no room. One that is too long for the interface, or that its
    /// queueing discipline drops, takes no others along.
    ///
    /// # Errors
    /// What the first frame met, if it was neither of these.
    pub fn send(&self, frames: &[Vec<u8>]) -> io::Result<Sent> {
        let bypass = self.bypass.load(Ordering::Relaxed);
        // A discipline counts frames.
        let joins = bypass && self.cuts.load(Ordering::Relaxed);
        let next_train = |from| joins.then(|| Train::find(frames, from)).flatten();
        let mut sent = Sent::default();
        let mut train = next_train(0);
        while sent.done < frames.len() {
            let mut end = train.as_ref().map_or(frames.len(), |t| t.frames.start);
            if let Some(leaving) = train.take_if(|t| t.frames.start == sent.done) {
                end = leaving.frames.end;
                train = next_train(end);
                if self.send_train(frames, &leaving).is_ok() {
                    sent.done = end;
                    sent.taken += leaving.frames.len();
                    continue;
                }
                // Then each for itself.
            }
            let chunk = &frames[sent.done..end.min(sent.done + BATCH)];
            match self.send_each(chunk) {
                Ok(0) => break,
                Ok(count) => {
                    sent.done += count;
                    sent.taken += count;
                }
                // About the first of the chunk.
                Err(error) => match error.raw_os_error() {
                    Some(libc::EMSGSIZE | libc::EINVAL) => sent.done += 1,
                    // Without a discipline it is the device's queue that is full, for the others as well.
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

    /// Sends up to a batch of frames. Gives how many the kernel took.
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

    fn send_train(&self, frames: &[Vec<u8>], train: &Train) -> io::Result<()> {
        let mut parts = [EMPTY_PART; 1 + BATCH];
        parts[0] = part_of(train.headers());
        let cars = &frames[train.frames.clone()];
        for (part, frame) in parts[1..].iter_mut().zip(cars) {
            *part = part_of(&frame[train.payload()..]);
        }
        // SAFETY: msghdr is plain data, and zero is valid.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = parts.as_mut_ptr();
        message.msg_iovlen = 1 + cars.len();
        // SAFETY: the message points to parts of frames, which outlive the call and are only read by it.
        let sent = unsafe { libc::sendmsg(self.trains.as_raw_fd(), &message, libc::MSG_DONTWAIT) };
        match sent {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Bytes that the kernel only reads.
fn part_of(bytes: &[u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}
