//! Packet sockets: whole Ethernet frames of one interface, in batches.

use std::{
    io, mem,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    ptr,
    sync::Arc,
};

use rustix::{
    io::Errno,
    net::{
        netdevice::name_to_index,
        socket_with,
        sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force, socket_error},
        AddressFamily, SocketType,
    },
};
use tracing::debug;

use super::{
    frame_sender::{FrameSender, SendOutcome},
    offload::{self, Offload, VNET_HEADER},
    ring::Ring,
    sys::{bind, check, mtu, set, statistics, unbound, BATCH, SOCKET_BUFFER, SOCKET_FLAGS},
};

/// Size of the largest super-frame with its header and a VLAN tag.
const MAX_FRAME: usize = 65_536 + 256;

/// A packet socket bound to one interface.
#[derive(Debug)]
pub struct PacketSocket {
    // Unmapped before the socket is closed.
    ring: Option<Ring>,
    /// Whether a frame was taken since the ring was found empty.
    has_taken: bool,
    fd: OwnedFd,
    frame_sender: Arc<FrameSender>,
}

/// The result of [`PacketSocket::take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOutcome {
    /// A frame was passed to the callback.
    Whole,
    /// A frame was malformed and dropped.
    Malformed,
    /// No frame is available now.
    Nothing,
    /// The interface is down or removed.
    Down,
}

impl TakeOutcome {
    fn of(whole: bool) -> TakeOutcome {
        match whole {
            true => TakeOutcome::Whole,
            false => TakeOutcome::Malformed,
        }
    }

    /// Whether there was a frame, so that there may be another one.
    pub fn is_frame(self) -> bool {
        matches!(self, TakeOutcome::Whole | TakeOutcome::Malformed)
    }
}

/// The result of one receive call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Received {
    /// Number of frames; fewer than requested means that the queue is empty.
    Frames(usize),
    Down,
}

/// Buffers for one batch of received frames. Sockets that are polled one after the other may share them.
pub struct ReceiveBatch {
    frames: Vec<Vec<u8>>,
    headers: Vec<[u8; VNET_HEADER]>,
    controls: Vec<Control>,
    lengths: Vec<usize>,
    /// Number of frames received in this batch.
    count: usize,
    /// Index of the next frame to be taken.
    next: usize,
    /// Whether the socket's queue was empty after this batch.
    is_last: bool,
}

/// Buffer for the control messages of a frame: one `PACKET_AUXDATA`, as no other kind is enabled.
#[repr(C)]
#[derive(Clone, Copy)]
struct Control {
    header: libc::cmsghdr,
    aux: libc::tpacket_auxdata,
}

/// An I/O vector without bytes.
const EMPTY_PART: libc::iovec = libc::iovec {
    iov_base: ptr::null_mut(),
    iov_len: 0,
};

/// The index of an interface.
///
/// # Errors
/// `NotFound` if this network namespace has no interface of that name.
pub fn interface_index(name: &str) -> io::Result<u32> {
    if name.contains('\0') {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let any = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SOCKET_FLAGS, None)?;
    name_to_index(any, name).map_err(|_| io::Error::from(io::ErrorKind::NotFound))
}

impl PacketSocket {
    /// Opens a socket on an interface, in promiscuous mode. Sent frames bypass the queueing discipline.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_NET_RAW.
    pub fn open(interface: u32) -> io::Result<PacketSocket> {
        let socket = PacketSocket::with_ring(interface, 0)?;
        socket.frame_sender.set_bypass(true)?;
        Ok(socket)
    }

    /// Opens a socket with a ring of about `ring` bytes for [`PacketSocket::take`]; without one if `ring` is 0 or
    /// the kernel has no memory for it. Sent frames pass the interface's queueing discipline.
    ///
    /// # Errors
    /// As [`PacketSocket::open`].
    pub fn with_ring(interface: u32, ring: usize) -> io::Result<PacketSocket> {
        PacketSocket::new(interface, ring, false)
    }

    /// Opens a socket that also receives the frames that this machine sends through the interface, as captures have them.
    ///
    /// # Errors
    /// As [`PacketSocket::open`].
    pub fn with_outgoing(interface: u32) -> io::Result<PacketSocket> {
        PacketSocket::new(interface, 0, true)
    }

    fn new(interface: u32, ring: usize, with_outgoing: bool) -> io::Result<PacketSocket> {
        // With protocol 0 nothing is received before `bind` sets the interface.
        let mut socket = PacketSocket {
            ring: None,
            has_taken: false,
            fd: unbound()?,
            frame_sender: Arc::new(FrameSender::open(interface)?),
        };
        set(&socket.fd, libc::PACKET_AUXDATA, &1)?;
        set(&socket.fd, libc::PACKET_VNET_HDR, &1)?;
        // A switch must not receive the frames that it sends.
        if !with_outgoing {
            set(&socket.fd, libc::PACKET_IGNORE_OUTGOING, &1)?;
        }
        // A size above the system's limit needs CAP_NET_ADMIN; without it, the limit applies.
        set_socket_recv_buffer_size_force(&socket.fd, SOCKET_BUFFER)
            .or_else(|_| set_socket_recv_buffer_size(&socket.fd, SOCKET_BUFFER))?;

        if ring > 0 {
            let mtu = mtu(&socket.fd, interface)?;
            match Ring::map(&socket.fd, ring, mtu) {
                Ok(mapped) => socket.ring = Some(mapped),
                Err(error) => debug!("no ring: {error}"),
            }
        }

        bind(&socket.fd, interface, (libc::ETH_P_ALL as u16).to_be())?;
        let promiscuous = libc::packet_mreq {
            mr_ifindex: interface as i32,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        set(&socket.fd, libc::PACKET_ADD_MEMBERSHIP, &promiscuous)?;
        Ok(socket)
    }

    /// The sending half of the socket.
    pub fn frame_sender(&self) -> &Arc<FrameSender> {
        &self.frame_sender
    }

    /// Sends frames by [`FrameSender::send`].
    ///
    /// # Errors
    /// See [`FrameSender::send`].
    pub fn send(&self, frames: &[Vec<u8>]) -> io::Result<SendOutcome> {
        self.frame_sender.send(frames)
    }

    /// Whether the ring holds a frame, without a system call; false without a ring.
    pub fn has_frame(&self) -> bool {
        self.ring.as_ref().is_some_and(Ring::has_frame)
    }

    /// Passes the next frame to a callback as it would be on a wire: completed, and for a super-frame segmented
    /// into several frames.
    ///
    /// Frames come from the ring. Without a ring they come from the batch, which is refilled from the socket's
    /// queue when it is empty.
    ///
    /// # Errors
    /// An error of the socket, except that its interface is down.
    pub fn take(
        &mut self,
        batch: &mut ReceiveBatch,
        take: impl FnMut(&[u8]),
    ) -> io::Result<TakeOutcome> {
        match self.ring.is_some() {
            true => self.take_from_ring(batch, take),
            false => self.take_from_queue(batch, take),
        }
    }

    fn take_from_queue(
        &self,
        batch: &mut ReceiveBatch,
        take: impl FnMut(&[u8]),
    ) -> io::Result<TakeOutcome> {
        if batch.next == batch.count {
            // The last batch was not full, so the queue is empty.
            if mem::take(&mut batch.is_last) {
                return Ok(TakeOutcome::Nothing);
            }
            match self.receive_up_to(batch, BATCH)? {
                Received::Frames(0) => return Ok(TakeOutcome::Nothing),
                Received::Frames(count) => {
                    (batch.next, batch.count) = (0, count);
                    batch.is_last = count < BATCH;
                }
                Received::Down => return Ok(TakeOutcome::Down),
            }
        }
        batch.next += 1;
        Ok(TakeOutcome::of(batch.frames(batch.next - 1, take)))
    }

    /// Takes a frame from the ring. The batch's buffers hold frames that do not fit into a slot.
    fn take_from_ring(
        &mut self,
        batch: &mut ReceiveBatch,
        mut take: impl FnMut(&[u8]),
    ) -> io::Result<TakeOutcome> {
        let Some(slot) = self.ring.as_mut().and_then(Ring::front) else {
            // The socket became readable because of a frame. An error makes it readable again.
            if mem::take(&mut self.has_taken) {
                return Ok(TakeOutcome::Nothing);
            }
            return self.take_error();
        };
        self.has_taken = true;
        let whole = if slot.is_queued {
            self.receive_up_to(batch, 1)? == Received::Frames(1) && batch.frames(0, take)
        } else if slot.is_truncated {
            false
        } else if let Some((protocol, contents)) = slot.vlan {
            let len = slot.bytes.len();
            batch.frames[0][..len].copy_from_slice(slot.bytes);
            batch.headers[0] = slot.header;
            batch.lengths[0] = len;
            batch.put_tag(0, protocol, contents);
            batch.frames(0, take)
        } else {
            let offload = Offload::parse(&slot.header);
            if offload.is_finished() {
                take(slot.bytes);
                true
            } else {
                offload::finish(slot.bytes, offload, take)
            }
        };
        if let Some(ring) = &mut self.ring {
            ring.release();
        }
        Ok(TakeOutcome::of(whole))
    }

    /// Returns the pending error of the socket, which makes it readable while the ring is empty.
    fn take_error(&self) -> io::Result<TakeOutcome> {
        match socket_error(&self.fd)? {
            Ok(()) => Ok(TakeOutcome::Nothing),
            Err(Errno::NETDOWN | Errno::NXIO | Errno::NODEV) => Ok(TakeOutcome::Down),
            Err(error) => Err(error.into()),
        }
    }

    /// Receives at most `max` frames from the socket's queue.
    fn receive_up_to(&self, batch: &mut ReceiveBatch, max: usize) -> io::Result<Received> {
        let mut parts = [[EMPTY_PART; 2]; BATCH];
        // SAFETY: mmsghdr is plain data, and zero is valid.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        for (i, message) in messages[..max].iter_mut().enumerate() {
            parts[i] = [part(&mut batch.headers[i]), part(&mut batch.frames[i])];
            message.msg_hdr.msg_iov = parts[i].as_mut_ptr();
            message.msg_hdr.msg_iovlen = 2;
            message.msg_hdr.msg_control = ptr::from_mut(&mut batch.controls[i]).cast();
            message.msg_hdr.msg_controllen = mem::size_of::<Control>() as _;
        }
        // SAFETY: every message points to buffers of the batch, which outlive the call.
        let count = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                messages.as_mut_ptr(),
                max as u32,
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
            )
        };
        let count = match check(count) {
            Ok(count) => count as usize,
            Err(error) => {
                return match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::EINTR) => Ok(Received::Frames(0)),
                    Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => Ok(Received::Down),
                    _ => Err(error),
                }
            }
        };
        for (i, message) in messages[..count].iter().enumerate() {
            batch.lengths[i] = (message.msg_len as usize).saturating_sub(VNET_HEADER);
            if message.msg_hdr.msg_controllen > 0 {
                batch.restore_vlan(i);
            }
        }
        Ok(Received::Frames(count))
    }

    /// Number of frames that the kernel dropped for lack of space since the last call.
    pub fn not_received(&self) -> u32 {
        statistics(&self.fd).map_or(0, |statistics| statistics.tp_drops)
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Default for ReceiveBatch {
    fn default() -> ReceiveBatch {
        ReceiveBatch {
            frames: vec![vec![0; MAX_FRAME]; BATCH],
            headers: vec![[0; VNET_HEADER]; BATCH],
            // SAFETY: both parts are plain data, and zero is valid.
            controls: vec![unsafe { mem::zeroed() }; BATCH],
            lengths: vec![0; BATCH],
            count: 0,
            next: 0,
            is_last: false,
        }
    }
}

impl ReceiveBatch {
    /// Discards frames that were not taken, before another socket uses the batch.
    pub fn clear(&mut self) {
        (self.count, self.next, self.is_last) = (0, 0, false);
    }

    /// Passes the frames of received message `index` to a callback as on a wire. Returns false if the message was
    /// malformed and dropped.
    fn frames(&mut self, index: usize, mut take: impl FnMut(&[u8])) -> bool {
        let offload = Offload::parse(&self.headers[index]);
        let frame = &mut self.frames[index][..self.lengths[index]];
        if offload.is_finished() {
            take(frame);
            return true;
        }
        offload::finish(frame, offload, take)
    }

    /// Inserts the VLAN tag that the kernel removed from a frame, according to the control message of the frame.
    fn restore_vlan(&mut self, index: usize) {
        let Control { header, aux } = self.controls[index];
        let kind = (header.cmsg_level, header.cmsg_type);
        if kind != (libc::SOL_PACKET, libc::PACKET_AUXDATA)
            || aux.tp_status & libc::TP_STATUS_VLAN_VALID == 0
        {
            return;
        }
        let protocol = if aux.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0 {
            aux.tp_vlan_tpid
        } else {
            0x8100
        };
        self.put_tag(index, protocol, aux.tp_vlan_tci);
    }

    /// Inserts a VLAN tag into a frame.
    fn put_tag(&mut self, index: usize, protocol: u16, contents: u16) {
        const TAG: usize = 4;
        let len = self.lengths[index];
        let frame = &mut self.frames[index];
        if len < 12 || len + TAG > frame.len() {
            return;
        }
        frame.copy_within(12..len, 12 + TAG);
        frame[12..14].copy_from_slice(&protocol.to_be_bytes());
        frame[14..16].copy_from_slice(&contents.to_be_bytes());
        self.lengths[index] = len + TAG;
        let header = &mut self.headers[index];
        // The offset of the checksum is relative to the start of the frame.
        let start = u16::from_ne_bytes([header[6], header[7]]).saturating_add(TAG as u16);
        header[6..8].copy_from_slice(&start.to_ne_bytes());
    }
}

fn part(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    }
}
