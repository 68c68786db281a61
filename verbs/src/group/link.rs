//! The lines between the leader and the other members: JSON objects, one per line, over TCP.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use alfirk_roce::collective::RemoteMemory;
use alfirk_roce::wire::{Psn, QpNum};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use serde::{Deserialize, Serialize};

use super::Way;

/// The longest line. A mesh of a thousand members fits.
const LONGEST: usize = 64 << 20;
/// How long a peer may take nothing of what it is sent.
const PATIENCE: Duration = Duration::from_secs(10);

/// One member as all others know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Card {
    pub(super) ip: Ipv4Addr,
    /// Of its queue pair in the group.
    pub(super) qpn: QpNum,
    /// Its buffer.
    pub(super) memory: RemoteMemory,
}

/// One end of a connection between two members, for groups without multicast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct End {
    pub(super) from: u32,
    pub(super) to: u32,
    /// The queue pair of `from`, and the PSN that it starts with.
    pub(super) qpn: QpNum,
    pub(super) psn: Psn,
}

/// What no earlier group at the same address had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Epoch {
    /// What every member's queue pair addresses.
    pub(super) virtual_qpn: QpNum,
    /// The first PSN of every member.
    pub(super) initial_psn: Psn,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case")]
pub(super) enum Message {
    /// To the leader: who joins.
    Hello { card: Card },
    /// To a member: the whole group.
    Welcome {
        rank: u32,
        members: Vec<Card>,
        epoch: Epoch,
    },
    /// To the leader: at the point where all wait for each other. `error` says why it cannot go on as planned.
    Ready { error: Option<String> },
    /// To a member: all have come to that point. The members that are left, and how they are reached.
    Go { way: Way, alive: Vec<u32> },
    /// Both ways: queue pairs of connections between two members.
    Mesh { ends: Vec<End> },
    /// To the leader: take me out.
    Leave,
    /// To a member: it is out, or there is no group any more.
    Bye,
}

/// One line.
#[derive(Debug)]
pub(super) struct Link {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Link {
    pub(super) fn new(stream: TcpStream) -> io::Result<Link> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let input = Vec::new();
        Ok(Link { stream, input })
    }

    pub(super) fn send(&mut self, message: &Message) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.stream.write_all(&line)
    }

    /// The next message, if one is there. Does not wait.
    pub(super) fn receive(&mut self) -> io::Result<Option<Message>> {
        loop {
            if let Some(end) = self.input.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.input.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            if !is_readable(&self.stream) {
                return Ok(None);
            }
            let mut chunk = [0; 16384];
            let count = self.stream.read(&mut chunk)?;
            if count == 0 || self.input.len() > LONGEST {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.input.extend_from_slice(&chunk[..count]);
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn is_readable(fd: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn messages_come_whole_and_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut near = Link::new(to).unwrap();
        let mut far = Link::new(listener.accept().unwrap().0).unwrap();
        assert!(far.receive().unwrap().is_none());
        let go = Message::Go {
            way: Way::Chain,
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
