//! The way between machines: a UDP socket whose datagrams are VXLAN's, in batches, and how long they may be.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;

use alfirk_packet_io::BATCH;
use alfirk_roce::wire::vxlan;
use nix::errno::Errno;
use nix::sys::socket::{recvmmsg, sendmmsg, ControlMessage, MsgFlags, MultiHeaders, SockaddrIn};
use socket2::SockRef;

/// Bytes that wait in the socket, each way; what comes beyond is dropped by the kernel.
const SOCKET_BUFFER: usize = 8 << 20;
/// The largest payload of a datagram.
const LARGEST: usize = 65_507;

/// The socket, which threads share.
pub struct Underlay {
    socket: UdpSocket,
}

/// Datagrams that are about to be sent.
#[derive(Default)]
pub struct Outgoing {
    datagrams: Vec<(Vec<u8>, SockaddrIn)>,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
}

/// Memory for what one call receives.
pub struct Incoming {
    buffers: Vec<Vec<u8>>,
    headers: MultiHeaders<SockaddrIn>,
}

impl Default for Incoming {
    fn default() -> Incoming {
        Incoming {
            buffers: vec![vec![0; LARGEST]; BATCH],
            headers: MultiHeaders::preallocate(BATCH, None),
        }
    }
}

impl Outgoing {
    /// Adds a frame of a segment, for a machine.
    pub fn push(&mut self, header: &[u8], frame: &[u8], remote: SockaddrIn) {
        let mut datagram = self.spare.pop().unwrap_or_default();
        datagram.extend_from_slice(header);
        datagram.extend_from_slice(frame);
        self.datagrams.push((datagram, remote));
    }

    fn clear(&mut self) {
        for (mut datagram, _) in self.datagrams.drain(..) {
            datagram.clear();
            self.spare.push(datagram);
        }
    }
}

impl Underlay {
    /// Binds to this machine's address. Datagrams have no UDP checksum, as RFC 7348 recommends, and may be fragmented if it says so.
    ///
    /// # Errors
    /// `AddrInUse` where another program ends VXLAN at this port.
    pub fn bind(local: Ipv4Addr, port: u16, fragments: bool) -> io::Result<Underlay> {
        let socket = UdpSocket::bind((local, port))?;
        let discover = match fragments {
            true => libc::IP_PMTUDISC_DONT,
            false => libc::IP_PMTUDISC_DO,
        };
        set(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, discover)?;
        set(&socket, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1)?;
        // More than the system's limit only root gets.
        let bytes = SOCKET_BUFFER as libc::c_int;
        for (force, plain) in [
            (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
            (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
        ] {
            set(&socket, libc::SOL_SOCKET, force, bytes)
                .or_else(|_| set(&socket, libc::SOL_SOCKET, plain, bytes))?;
        }
        Ok(Underlay { socket })
    }

    /// Sends all that is there, and waits where the way is full. Gives how many were too long for the way.
    pub fn send(&self, outgoing: &mut Outgoing) -> io::Result<u64> {
        let mut too_long = 0;
        let mut headers = MultiHeaders::preallocate(BATCH, None);
        let mut first = 0;
        while first < outgoing.datagrams.len() {
            let rest = &outgoing.datagrams[first..];
            let chunk = &rest[..rest.len().min(BATCH)];
            let parts: Vec<[IoSlice<'_>; 1]> =
                chunk.iter().map(|(d, _)| [IoSlice::new(d)]).collect();
            let remotes: Vec<Option<SockaddrIn>> = chunk.iter().map(|(_, to)| Some(*to)).collect();
            let none: [ControlMessage<'_>; 0] = [];
            let fd = self.as_raw_fd();
            let sent = sendmmsg(fd, &mut headers, &parts, &remotes, none, MsgFlags::empty());
            let sent = sent.map(Iterator::count);
            first += match sent {
                Ok(count) => count.max(1),
                Err(Errno::EINTR) => 0,
                // About the first one, as are the others here.
                Err(Errno::EMSGSIZE) => {
                    too_long += 1;
                    1
                }
                // The machine or the way there is gone, or the device's queue is full: lost, as on a cable.
                Err(
                    Errno::ENOBUFS
                    | Errno::EPERM
                    | Errno::ENETUNREACH
                    | Errno::EHOSTUNREACH
                    | Errno::ENETDOWN
                    | Errno::ECONNREFUSED,
                ) => 1,
                Err(error) => return Err(error.into()),
            };
        }
        outgoing.clear();
        Ok(too_long)
    }

    /// Passes on the datagrams that wait, with their senders; gives how many there were.
    pub fn receive(
        &self,
        incoming: &mut Incoming,
        mut take: impl FnMut(Ipv4Addr, &[u8]),
    ) -> io::Result<usize> {
        let Incoming { buffers, headers } = incoming;
        let received: Vec<(usize, Option<SockaddrIn>)> = {
            let parts = buffers.iter_mut().map(|b| [IoSliceMut::new(b)]);
            let mut parts: Vec<[IoSliceMut<'_>; 1]> = parts.collect();
            let fd = self.as_raw_fd();
            match recvmmsg(fd, headers, &mut parts, MsgFlags::MSG_DONTWAIT, None) {
                Ok(messages) => messages.map(|m| (m.bytes, m.address)).collect(),
                Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNREFUSED) => Vec::new(),
                Err(error) => return Err(error.into()),
            }
        };
        for (buffer, (len, from)) in buffers.iter().zip(&received) {
            if let Some(from) = from {
                take(from.ip(), &buffer[..*len]);
            }
        }
        Ok(received.len())
    }
}

impl AsRawFd for Underlay {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// A way that carries too little.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "IP packets to {remote} may have {carries} bytes on the way, and links of {link_mtu} bytes need {} in VXLAN: set the MTU of the \
     interfaces between the machines (ip link set dev NAME mtu {}), give the topology an mtu of {}, or have IP cut them \
     by --{flag}, which is slower",
    self.needs(), self.needs(), self.fits()
)]
pub struct TooSmall {
    pub remote: Ipv4Addr,
    /// The MTU of the way.
    pub carries: u32,
    /// The MTU of the links.
    pub link_mtu: u32,
    /// The flag that lets datagrams be cut.
    pub flag: &'static str,
}

impl TooSmall {
    fn needs(&self) -> u32 {
        self.link_mtu + vxlan::OVERHEAD as u32
    }

    fn fits(&self) -> u32 {
        self.carries.saturating_sub(vxlan::OVERHEAD as u32)
    }
}

/// Finds out whether links of this MTU fit on the way to a machine, as far as this one knows.
///
/// # Errors
/// There is no way there. The inner one: it carries too little.
pub fn check_mtu(
    local: Ipv4Addr,
    remote: Ipv4Addr,
    link_mtu: u32,
    flag: &'static str,
) -> io::Result<Result<(), TooSmall>> {
    let carries = mtu(local, remote)?;
    let fits = link_mtu + vxlan::OVERHEAD as u32 <= carries;
    Ok(match fits {
        true => Ok(()),
        false => Err(TooSmall {
            remote,
            carries,
            link_mtu,
            flag,
        }),
    })
}

/// The longest IP packet to a machine, as far as this one knows the way.
fn mtu(local: Ipv4Addr, remote: Ipv4Addr) -> io::Result<u32> {
    let socket = UdpSocket::bind((local, 0))?;
    let discover = libc::IP_PMTUDISC_DO;
    set(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, discover)?;
    // Any port: nothing is sent.
    socket.connect(SocketAddrV4::new(remote, vxlan::PORT))?;
    let mut mtu: libc::c_int = 0;
    let mut len = mem::size_of_val(&mtu) as libc::socklen_t;
    // SAFETY: the kernel writes at most so many bytes to an integer.
    let result = unsafe {
        let value = ptr::from_mut(&mut mtu).cast();
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_MTU,
            value,
            &mut len,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u32::try_from(mtu).unwrap_or(0))
}

fn set(
    socket: &UdpSocket,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let fd = SockRef::from(socket).as_raw_fd();
    let len = mem::size_of_val(&value) as libc::socklen_t;
    // SAFETY: the value is an integer of the given size.
    let result = unsafe { libc::setsockopt(fd, level, option, ptr::from_ref(&value).cast(), len) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_arrive_whole_and_in_order() {
        let [a, b] = [1, 2].map(|last| Ipv4Addr::new(127, 0, 0, last));
        // Both have the same port: one that is free, as a socket has found that is closed again.
        let free = || UdpSocket::bind((a, 0))?.local_addr();
        let port = free().unwrap().port();
        let (left, right) = (
            Underlay::bind(a, port, false).unwrap(),
            Underlay::bind(b, port, false).unwrap(),
        );
        let mut outgoing = Outgoing::default();
        let to = SockaddrIn::from(SocketAddrV4::new(b, port));
        for number in 0..2 * BATCH + 3 {
            let frame = vec![number as u8; 100 + number];
            outgoing.push(&[7, 7], &frame, to);
        }
        // One that the way does not carry takes no others along.
        outgoing.push(&[7], &vec![0; 65_508], to);
        outgoing.push(&[7], b"last", to);
        assert_eq!(left.send(&mut outgoing).unwrap(), 1);
        let mut incoming = Incoming::default();
        let mut seen = Vec::new();
        while right
            .receive(&mut incoming, |from, datagram| {
                assert_eq!(from, a);
                seen.push(datagram.to_vec());
            })
            .unwrap()
            > 0
        {}
        assert_eq!(seen.len(), 2 * BATCH + 4);
        for (number, datagram) in seen[..2 * BATCH + 3].iter().enumerate() {
            assert_eq!(datagram.len(), 102 + number);
            assert!(datagram[2..].iter().all(|byte| *byte == number as u8));
        }
        assert_eq!(seen.last().unwrap(), b"\x07last");
    }

    #[test]
    fn a_way_that_is_too_narrow_is_named_with_what_helps() {
        let here = Ipv4Addr::LOCALHOST;
        // The loopback interface carries the longest IP packets there are.
        assert_eq!(check_mtu(here, here, 4200, "fragments").unwrap(), Ok(()));
        let error = check_mtu(here, here, 65_500, "fragments").unwrap();
        let said = error.unwrap_err().to_string();
        assert!(said.contains("need 65550 in VXLAN"), "{said}");
        assert!(said.contains("an mtu of 65485"), "{said}");
    }
}
