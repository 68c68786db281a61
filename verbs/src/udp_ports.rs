//! UDP ports that all devices of a process share: the system gives a datagram to one socket, but each group of the process may be who
//! it is for. Who looks first takes what has come, for all.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use alfirk_roce::host::HostEvent;
use nix::sys::eventfd::{EfdFlags, EventFd};

type Key = (Ipv4Addr, u16);

static PORTS: Mutex<BTreeMap<Key, Weak<Port>>> = Mutex::new(BTreeMap::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A port that somebody of this process listens at.
struct Port {
    key: Key,
    socket: UdpSocket,
    readers: Mutex<Vec<Weak<Reader>>>,
}

/// What has come for one reader.
struct Reader {
    queue: Mutex<VecDeque<HostEvent>>,
    /// Readable when there is something.
    signal: EventFd,
}

/// One reader of a port. It gets every datagram that comes as long as it lives.
pub(crate) struct Subscription {
    port: Arc<Port>,
    reader: Arc<Reader>,
}

impl Subscription {
    /// Listens at a port of an address of this host.
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
                let socket = UdpSocket::bind(key)?;
                socket.set_nonblocking(true)?;
                let readers = Mutex::default();
                let port = Arc::new(Port {
                    key,
                    socket,
                    readers,
                });
                ports.insert(key, Arc::downgrade(&port));
                port
            }
        };
        lock(&port.readers).push(Arc::downgrade(&reader));
        Ok(Subscription { port, reader })
    }

    /// To send by.
    pub(crate) fn socket(&self) -> &UdpSocket {
        &self.port.socket
    }

    /// What is readable when [`Subscription::receive`] has something to do.
    pub(crate) fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.port.socket.as_fd(), self.reader.signal.as_fd()]
    }

    /// Takes what has come.
    pub(crate) fn receive(&self, events: &mut VecDeque<HostEvent>) {
        self.port.deal_out();
        // Before the queue is read, so that what comes meanwhile signals again. That there is nothing is no error.
        let _ = self.reader.signal.read();
        events.append(&mut lock(&self.reader.queue));
    }
}

impl Port {
    /// Gives every reader what has come.
    fn deal_out(&self) {
        let mut buffer = [0; 65536];
        let mut readers = lock(&self.readers);
        readers.retain(|reader| reader.strong_count() > 0);
        loop {
            match self.socket.recv_from(&mut buffer) {
                Ok((len, SocketAddr::V4(from))) => {
                    let event = HostEvent::Udp {
                        source: *from.ip(),
                        source_port: from.port(),
                        destination_port: self.key.1,
                        payload: buffer[..len].to_vec(),
                    };
                    for reader in readers.iter().filter_map(Weak::upgrade) {
                        lock(&reader.queue).push_back(event.clone());
                        // A counter that is full signals as well.
                        let _ = reader.signal.write(1);
                    }
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Among others, that a peer of earlier does not listen.
                Err(error) => {
                    tracing::debug!("UDP port {}: {error}", self.key.1);
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reader_of_a_port_gets_every_datagram_once() {
        let ip = Ipv4Addr::LOCALHOST;
        let free = UdpSocket::bind((ip, 0))
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
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
        // Nobody listens any more.
        assert!(UdpSocket::bind((ip, free)).is_ok());
    }
}
