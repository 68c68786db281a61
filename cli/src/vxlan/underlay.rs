//! The path between machines: sends and receives batches of VXLAN datagrams over UDP, and checks the MTU.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;

use alfirk_packet_io::BATCH;
use alfirk_roce::wire::vxlan;
use nix::errno::Errno;
use nix::sys::socket::{recvmmsg, sendmmsg, ControlMessage, MsgFlags, MultiHeaders, SockaddrIn};
use socket2::SockRef;

/// Size in bytes of the socket's send buffer and of its receive buffer; the kernel drops datagrams that do not fit.
const SOCKET_BUFFER: usize = 8 << 20;
/// Maximum payload of a UDP datagram in bytes.
const MAX_UDP_PAYLOAD: usize = 65_507;

/// UDP socket for VXLAN datagrams, shared by both threads.
pub struct Underlay {
    socket: UdpSocket,
}

/// A batch of datagrams to send.
#[derive(Default)]
pub struct Outgoing {
    datagrams: Vec<(Vec<u8>, SockaddrIn)>,
    /// Empty buffers for later datagrams.
    spare: Vec<Vec<u8>>,
}

/// Buffers of one receive call.
pub struct Incoming {
    buffers: Vec<Vec<u8>>,
    headers: MultiHeaders<SockaddrIn>,
}

impl Default for Incoming {
    fn default() -> Incoming {
        Incoming {
            buffers: vec![vec![0; MAX_UDP_PAYLOAD]; BATCH],
            headers: MultiHeaders::preallocate(BATCH, None),
        }
    }
}

impl Outgoing {
    /// Adds a datagram with the VXLAN header `header` and the Ethernet frame `frame` for the machine `remote`.
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
    /// Binds the socket to the address of this machine. Datagrams have no UDP checksum, as RFC 7348 recommends;
    /// `fragments` permits IP fragmentation.
    ///
    /// # Errors
    /// `AddrInUse` if another program uses this VXLAN port.
    pub fn bind(local: Ipv4Addr, port: u16, fragments: bool) -> io::Result<Underlay> {
        let socket = UdpSocket::bind((local, port))?;
        let discover = match fragments {
            true => libc::IP_PMTUDISC_DONT,
            false => libc::IP_PMTUDISC_DO,
        };
        set(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, discover)?;
        set(&socket, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1)?;
        // Only root may exceed the system's limit.
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

    /// Sends the batch, and waits while the socket's buffer is full. Returns the number of datagrams that were lost
    /// because they exceed the MTU of the path.
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
            let fd = self.socket.as_raw_fd();
            let sent = sendmmsg(fd, &mut headers, &parts, &remotes, none, MsgFlags::empty());
            let sent = sent.map(Iterator::count);
            first += match sent {
                Ok(count) => count.max(1),
                Err(Errno::EINTR) => 0,
                // Refers to the first datagram of the call, as do the other errors here.
                Err(Errno::EMSGSIZE) => {
                    too_long += 1;
                    1
                }
                // The other machine or the route is gone, or the device's queue is full: the datagram is lost, as on a cable.
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

    /// Passes each received datagram with the address of its sender to `take`; returns their number.
    pub fn receive(
        &self,
        incoming: &mut Incoming,
        mut take: impl FnMut(Ipv4Addr, &[u8]),
    ) -> io::Result<usize> {
        let Incoming { buffers, headers } = incoming;
        let received: Vec<(usize, Option<SockaddrIn>)> = {
            let parts = buffers.iter_mut().map(|b| [IoSliceMut::new(b)]);
            let mut parts: Vec<[IoSliceMut<'_>; 1]> = parts.collect();
            let fd = self.socket.as_raw_fd();
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

impl AsFd for Underlay {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Error: the MTU of the path to a machine is too small for the links over it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the path to {remote} has an MTU of {path_mtu} bytes, and links with an MTU of {link_mtu} bytes need {} in VXLAN: set the MTU of the \
     interfaces between the machines (ip link set dev NAME mtu {}), give the topology an mtu of {}, or let IP fragment them \
     by --{flag}, which is slower",
    self.needs(), self.needs(), self.fits()
)]
pub struct MtuTooSmall {
    pub remote: Ipv4Addr,
    /// MTU of the path to the machine in bytes.
    pub path_mtu: u32,
    /// MTU of the links over the path in bytes.
    pub link_mtu: u32,
    /// Command-line flag that permits fragmentation.
    pub flag: &'static str,
}

impl MtuTooSmall {
    fn needs(&self) -> u32 {
        self.link_mtu + vxlan::OVERHEAD as u32
    }

    fn fits(&self) -> u32 {
        self.path_mtu.saturating_sub(vxlan::OVERHEAD as u32)
    }
}

/// Checks that frames of links with the MTU `link_mtu` fit on the path to a machine in VXLAN. Only the MTU of the local
/// route is known. `flag`: the flag that permits fragmentation, for the message.
///
/// # Errors
/// There is no route. The inner error: the MTU is too small.
pub fn check_mtu(
    local: Ipv4Addr,
    remote: Ipv4Addr,
    link_mtu: u32,
    flag: &'static str,
) -> io::Result<Result<(), MtuTooSmall>> {
    let path_mtu = route_mtu(local, remote)?;
    let fits = link_mtu + vxlan::OVERHEAD as u32 <= path_mtu;
    Ok(match fits {
        true => Ok(()),
        false => Err(MtuTooSmall {
            remote,
            path_mtu,
            link_mtu,
            flag,
        }),
    })
}

/// MTU of the path to a machine according to the local route.
fn route_mtu(local: Ipv4Addr, remote: Ipv4Addr) -> io::Result<u32> {
    let socket = UdpSocket::bind((local, 0))?;
    let discover = libc::IP_PMTUDISC_DO;
    set(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, discover)?;
    // Any port: nothing is sent.
    socket.connect(SocketAddrV4::new(remote, vxlan::PORT))?;
    let mut mtu: libc::c_int = 0;
    let mut len = mem::size_of_val(&mtu) as libc::socklen_t;
    // SAFETY: the kernel writes at most the given length, which is the size of the integer.
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
    fn batches_arrive_complete_and_in_order() {
        let [a, b] = [1, 2].map(|last| Ipv4Addr::new(127, 0, 0, last));
        // Both sockets use the same port: one that was free a moment before.
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
        // A datagram that exceeds the MTU does not affect the others.
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
    fn too_small_mtu_is_reported_with_remedies() {
        let here = Ipv4Addr::LOCALHOST;
        // The loopback interface carries the longest IP packets.
        assert_eq!(check_mtu(here, here, 4200, "fragments").unwrap(), Ok(()));
        let error = check_mtu(here, here, 65_500, "fragments").unwrap();
        let said = error.unwrap_err().to_string();
        assert!(said.contains("need 65550 in VXLAN"), "{said}");
        assert!(said.contains("an mtu of 65485"), "{said}");
    }
}
