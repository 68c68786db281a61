//! UDP ports that all devices of a host share. The operating system delivers a datagram to a single socket, but the
//! datagram may be for any group of the host. So the first reader takes all pending datagrams, and distributes them to
//! all readers.
//!
//! Between processes, each process has a Unix socket whose name contains the UDP port. The operating system delivers a
//! datagram to the process that has bound the port last. That process forwards it to the Unix sockets of all others.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use alfirk_roce::host::HostEvent;
use nix::sys::eventfd::{EfdFlags, EventFd};
use socket2::{Domain, Socket, Type};

type Key = (Ipv4Addr, u16);

static PORTS: Mutex<BTreeMap<Key, Weak<Port>>> = Mutex::new(BTreeMap::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A UDP port that this process has opened, with the readers of its datagrams.
struct Port {
    key: Key,
    socket: UdpSocket,
    /// Unix socket on which other processes forward datagrams.
    forward_socket: UnixDatagram,
    readers: Mutex<Vec<Weak<Reader>>>,
}

/// Queue of the datagrams received for one reader.
struct Reader {
    queue: Mutex<VecDeque<HostEvent>>,
    /// Event descriptor that is readable while the reader has a datagram.
    signal: EventFd,
}

/// A reader of a port, which gets every datagram that arrives while it exists.
pub(crate) struct Subscription {
    port: Arc<Port>,
    reader: Arc<Reader>,
}

impl Subscription {
    /// Opens a port at an IPv4 address of this host.
    pub(crate) fn new(ip: Ipv4Addr, port: u16) -> io::Result<Subscription> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let reader = Arc::new(Reader {
            queue: Mutex::default(),
            signal: EventFd::from_value_and_flags(0, flags)?,
        });
        let key = (ip, port);
        let mut ports = lock(&PORTS);
        ports.retain(|_, port| port.strong_count() > 0);
        let port = match ports.get(&key).and_then(Weak::upgrade) {
            Some(port) => port,
            None => {
                let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
                socket.set_reuse_address(true)?;
                socket.bind(&SocketAddr::from(key).into())?;
                socket.set_nonblocking(true)?;
                let own = format!("{}{}", socket_name_prefix(key), std::process::id());
                let forward_socket = UnixDatagram::bind_addr(&UnixAddr::from_abstract_name(own)?)?;
                forward_socket.set_nonblocking(true)?;
                let port = Arc::new(Port {
                    key,
                    socket: socket.into(),
                    forward_socket,
                    readers: Mutex::default(),
                });
                ports.insert(key, Arc::downgrade(&port));
                port
            }
        };
        lock(&port.readers).push(Arc::downgrade(&reader));
        Ok(Subscription { port, reader })
    }

    /// The socket from which datagrams are sent.
    pub(crate) fn socket(&self) -> &UdpSocket {
        &self.port.socket
    }

    /// File descriptors that are readable when [`Subscription::receive`] has work.
    pub(crate) fn fds(&self) -> [BorrowedFd<'_>; 3] {
        let Subscription { port, reader } = self;
        [
            port.socket.as_fd(),
            port.forward_socket.as_fd(),
            reader.signal.as_fd(),
        ]
    }

    /// Moves the datagrams that were received for this reader to `events`.
    pub(crate) fn receive(&self, events: &mut VecDeque<HostEvent>) {
        self.port.distribute();
        // Cleared before the queue is read, so that a later datagram signals again. It may be clear already.
        let _ = self.reader.signal.read();
        events.append(&mut lock(&self.reader.queue));
    }
}

/// Prefix of the names of a UDP port's Unix sockets. The process number follows it.
fn socket_name_prefix((ip, port): Key) -> String {
    format!("alfirk-udp/{ip}/{port}/")
}

/// Unix sockets of other processes for the same UDP port. `list`: contents of `/proc/net/unix`; `own`: number of this
/// process.
fn other_process_sockets(list: &str, key: Key, own: u32) -> Vec<UnixAddr> {
    let begin = format!("@{}", socket_name_prefix(key));
    let names = list
        .lines()
        .filter_map(|line| line.split_whitespace().last());
    let pids = names.filter_map(|name| name.strip_prefix(&*begin)?.parse::<u32>().ok());
    let names = pids
        .filter(|pid| *pid != own)
        .map(|pid| format!("{}{pid}", socket_name_prefix(key)));
    names
        .filter_map(|name| UnixAddr::from_abstract_name(name).ok())
        .collect()
}

impl Port {
    /// Takes all pending datagrams, and distributes them to the readers of this process and to other processes.
    fn distribute(&self) {
        // The sender's address and port precede the payload.
        let mut buffer = [0; 6 + 65536];
        let readers = {
            let mut readers = lock(&self.readers);
            readers.retain(|reader| reader.strong_count() > 0);
            readers.clone()
        };
        loop {
            match self.socket.recv_from(&mut buffer[6..]) {
                Ok((len, SocketAddr::V4(from))) => {
                    buffer[..4].copy_from_slice(&from.ip().octets());
                    buffer[4..6].copy_from_slice(&from.port().to_be_bytes());
                    let datagram = &buffer[..6 + len];
                    self.deliver(&readers, datagram);
                    let list = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
                    for other in other_process_sockets(&list, self.key, std::process::id()) {
                        // For a process that has closed the port or is too slow, the datagram counts as lost.
                        let _ = self.forward_socket.send_to_addr(datagram, &other);
                    }
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // For example, an earlier peer has closed its port.
                Err(error) => {
                    tracing::debug!("UDP port {}: {error}", self.key.1);
                    break;
                }
            }
        }
        while let Ok((len, _)) = self.forward_socket.recv_from(&mut buffer) {
            self.deliver(&readers, &buffer[..len]);
        }
    }

    /// Adds a datagram to the queue of every reader.
    fn deliver(&self, readers: &[Weak<Reader>], datagram: &[u8]) {
        let [a, b, c, d, high, low, payload @ ..] = datagram else {
            return;
        };
        let event = HostEvent::Udp {
            source: Ipv4Addr::new(*a, *b, *c, *d),
            source_port: u16::from_be_bytes([*high, *low]),
            destination_port: self.key.1,
            payload: payload.to_vec(),
        };
        for reader in readers.iter().filter_map(Weak::upgrade) {
            lock(&reader.queue).push_back(event.clone());
            // A counter at its maximum also signals.
            let _ = reader.signal.write(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free_port(ip: Ipv4Addr) -> u16 {
        let socket = UdpSocket::bind((ip, 0)).unwrap();
        socket.local_addr().unwrap().port()
    }

    #[test]
    fn every_reader_of_a_port_gets_every_datagram_once() {
        let ip = Ipv4Addr::LOCALHOST;
        let free = free_port(ip);
        let (first, second) = (Subscription::new(ip, free), Subscription::new(ip, free));
        let (first, second) = (first.unwrap(), second.unwrap());
        let sender = UdpSocket::bind((ip, 0)).unwrap();
        for word in ["one", "two"] {
            sender.send_to(word.as_bytes(), (ip, free)).unwrap();
        }
        for reader in [&first, &second, &first] {
            let mut events = VecDeque::new();
            reader.receive(&mut events);
            let words: Vec<&[u8]> = events
                .iter()
                .map(|event| match event {
                    HostEvent::Udp { payload, .. } => &payload[..],
                    other => panic!("{other:?}"),
                })
                .collect();
            let again = std::ptr::eq(reader, &first) && words.is_empty();
            assert!(again || words == [b"one", b"two"], "{words:?}");
        }
        drop((first, second));
        // All readers have closed the port.
        assert!(UdpSocket::bind((ip, free)).is_ok());
    }

    #[test]
    fn a_datagram_of_another_process_is_forwarded() {
        let ip = Ipv4Addr::LOCALHOST;
        let free = free_port(ip);
        let ours = Subscription::new(ip, free).unwrap();
        // Another process, which has opened the port later.
        let theirs = format!("{}{}", socket_name_prefix((ip, free)), u32::MAX);
        let theirs = UnixDatagram::bind_addr(&UnixAddr::from_abstract_name(theirs).unwrap());
        let theirs = theirs.unwrap();
        let sender = UdpSocket::bind((ip, 0)).unwrap();
        sender.send_to(b"one", (ip, free)).unwrap();
        let mut events = VecDeque::new();
        ours.receive(&mut events);
        let mut passed = [0; 100];
        let len = theirs.recv(&mut passed).unwrap();
        assert_eq!(&passed[6..len], b"one");
        let address = ours.port.forward_socket.local_addr().unwrap();
        theirs.send_to_addr(&passed[..len], &address).unwrap();
        ours.receive(&mut events);
        assert_eq!(events.len(), 2);
        assert_eq!(events[0], events[1]);
    }
}
