//! TCP connections between the leader of a group and the other members. They carry JSON objects, one per line.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use alfirk_json_lines::{Lines, MAX_LINE};
use alfirk_roce::application::group::{GroupMember, LinkId, Message, Output};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use super::{GroupError, Result};

/// Time limit for sending to a member that does not read.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit of one attempt to connect to the leader.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two attempts to connect to the leader.
const CONNECT_INTERVAL: Duration = Duration::from_millis(50);

/// The connections of one member.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// At the leader, until all members have joined: the socket at which it listens.
    listener: Option<TcpListener>,
    links: BTreeMap<LinkId, Link>,
}

impl Links {
    /// Listens as the leader.
    pub(super) fn listen(listener: Option<TcpListener>, address: SocketAddrV4) -> Result<Links> {
        let listen = || {
            let listener = listener.map_or_else(|| TcpListener::bind(address), Ok)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        match listen() {
            Ok(listener) => Ok(Links {
                listener: Some(listener),
                links: BTreeMap::new(),
            }),
            Err(error) => Err(GroupError::Connection {
                what: format!("listening at {address}"),
                error,
            }),
        }
    }

    /// Connects to the leader, which may start later than this member.
    pub(super) fn connect(address: SocketAddrV4, deadline: Instant) -> Result<Links> {
        loop {
            let stream = TcpStream::connect_timeout(&address.into(), CONNECT_TIMEOUT);
            match stream.and_then(Link::new) {
                Ok(link) => {
                    return Ok(Links {
                        listener: None,
                        links: BTreeMap::from([(LinkId::LEADER, link)]),
                    })
                }
                Err(error) if Instant::now() > deadline => {
                    let what = format!("connecting to the leader at {address}");
                    return Err(GroupError::Connection { what, error });
                }
                Err(_) => std::thread::sleep(CONNECT_INTERVAL),
            }
        }
    }

    /// Passes new connections and messages to the member, without waiting.
    pub(super) fn receive(&mut self, member: &mut GroupMember) {
        self.listener.take_if(|_| !member.accepts_members());
        while let Some(Ok((stream, _))) = self.listener.as_ref().map(TcpListener::accept) {
            let opened = stream
                .set_nonblocking(false)
                .and_then(|()| Link::new(stream));
            if let Ok(link) = opened {
                self.links.insert(member.accept(), link);
            }
        }
        self.links.retain(|id, link| loop {
            match link.receive() {
                Ok(Some(message)) => member.handle_message(*id, message),
                Ok(None) => break true,
                Err(_) => {
                    member.handle_closed(*id);
                    break false;
                }
            }
        });
    }

    /// Executes the requests of the member. Returns the first error.
    pub(super) fn execute(&mut self, member: &mut GroupMember) -> Result<()> {
        let mut result = Ok(());
        while let Some(output) = member.poll_output() {
            match output {
                Output::Send { link, message } => {
                    let Some(stream) = self.links.get_mut(&link) else {
                        continue;
                    };
                    let sent = stream.send(&message);
                    if let (Err(error), false, Ok(())) = (sent, message.is_optional(), &result) {
                        let what = stream.name();
                        result = Err(GroupError::Connection { what, error });
                    }
                }
                Output::Close(link) => {
                    self.links.remove(&link);
                }
                Output::Warning(text) => tracing::warn!("{text}"),
            }
        }
        result
    }

    /// Sleeps until [`Links::receive`] has work, `device` is readable, or `longest` has passed.
    pub(super) fn sleep(&self, device: BorrowedFd<'_>, longest: Duration) {
        let links = self.links.values().map(|link| link.stream.as_fd());
        let listener = self.listener.as_ref().map(AsFd::as_fd);
        let fds = links.chain(listener).chain([device]);
        let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // Rounded up, so that a wait of less than a millisecond does not become a busy loop.
        let timeout = PollTimeout::from(longest.as_micros().div_ceil(1000) as u16);
        // An error or a signal shows at the next read.
        let _ = poll(&mut fds, timeout);
    }
}

/// A TCP connection to another member.
#[derive(Debug)]
struct Link {
    stream: TcpStream,
    input: Lines,
}

impl Link {
    fn new(stream: TcpStream) -> io::Result<Link> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(SEND_TIMEOUT))?;
        let input = Lines::new(MAX_LINE);
        Ok(Link { stream, input })
    }

    /// The address of the other end, for errors.
    fn name(&self) -> String {
        let address = self.stream.peer_addr();
        address.map_or_else(|_| "a member".to_owned(), |at| format!("member at {at}"))
    }

    fn send(&mut self, message: &Message) -> io::Result<()> {
        let line = alfirk_json_lines::to_line(message)?;
        self.stream.write_all(&line)
    }

    /// Removes and returns the next message, without waiting; `None` if none is complete.
    fn receive(&mut self) -> io::Result<Option<Message>> {
        loop {
            if let Some(line) = self.input.next_line()? {
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            if !is_readable(&self.stream) {
                return Ok(None);
            }
            let mut chunk = [0; 16384];
            let count = self.stream.read(&mut chunk)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.input.push(&chunk[..count]);
        }
    }
}

fn is_readable(fd: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alfirk_roce::application::group::GroupTransport;

    #[test]
    fn messages_arrive_complete_and_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut near = Link::new(to).unwrap();
        let mut far = Link::new(listener.accept().unwrap().0).unwrap();
        assert!(far.receive().unwrap().is_none());
        let go = Message::Go {
            transport: GroupTransport::Chain,
            alive: (0..5000).collect(),
        };
        near.send(&go).unwrap();
        near.send(&Message::Leave).unwrap();
        let mut next = || loop {
            if let Some(message) = far.receive().unwrap() {
                return message;
            }
        };
        assert_eq!(next(), go);
        assert_eq!(next(), Message::Leave);
        drop(near);
        assert!((0..1000).any(|_| far.receive().is_err() || {
            std::thread::yield_now();
            false
        }));
    }
}
