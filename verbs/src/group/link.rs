//! TCP connections between the leader of a group and the other members. They carry JSON objects, one per line.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use alfirk_json_lines::Lines;
use alfirk_roce::collective::RemoteMemory;
use alfirk_roce::wire::{Psn, QpNum};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use serde::{Deserialize, Serialize};

use super::Transport;

/// Maximum length of a line in bytes, which is enough for the mesh of a group of a thousand members.
const MAX_LINE: usize = 64 << 20;
/// Time limit for sending to a member that does not read.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Address, queue pair and buffer of a member, which all other members need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MemberInfo {
    pub(super) ip: Ipv4Addr,
    /// Number of the member's queue pair in the group.
    pub(super) qpn: QpNum,
    /// Address, key and length of the member's buffer, for WRITEs.
    pub(super) memory: RemoteMemory,
}

/// One end of a connection between two members of a group without multicast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MeshEnd {
    pub(super) from: u32,
    pub(super) to: u32,
    /// Number of the queue pair that member `from` uses towards member `to`.
    pub(super) qpn: QpNum,
    pub(super) psn: Psn,
}

/// Random numbers by which a group differs from earlier groups with the same address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Epoch {
    /// Virtual queue pair number of the group.
    pub(super) virtual_qpn: QpNum,
    /// Initial PSN of every member.
    pub(super) initial_psn: Psn,
}

/// A message between the leader of a group and another member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case")]
pub(super) enum Message {
    /// To the leader: request to join.
    Hello {
        #[serde(rename = "card")]
        member: MemberInfo,
    },
    /// To a member: its rank, all members, and the group's random numbers.
    Welcome {
        rank: u32,
        members: Vec<MemberInfo>,
        epoch: Epoch,
    },
    /// To the leader: the sender has reached a synchronization point. `error`: reason why it cannot continue as
    /// planned.
    Ready { error: Option<String> },
    /// To a member: all members have reached the synchronization point. `alive`: ranks of the members that are still in
    /// the group; `transport`: the transport to use from now on.
    Go {
        #[serde(rename = "way")]
        transport: Transport,
        alive: Vec<u32>,
    },
    /// To the leader: the sender's queue pairs for connections to each other member. From the leader: those of all
    /// members.
    Mesh { ends: Vec<MeshEnd> },
    /// To the leader: the sender leaves the group.
    Leave,
    /// To a member: it was removed from the group, or the group has ended.
    Bye,
}

/// A TCP connection to another member.
#[derive(Debug)]
pub(super) struct Link {
    stream: TcpStream,
    input: Lines,
}

impl Link {
    pub(super) fn new(stream: TcpStream) -> io::Result<Link> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(SEND_TIMEOUT))?;
        let input = Lines::new(MAX_LINE);
        Ok(Link { stream, input })
    }

    pub(super) fn send(&mut self, message: &Message) -> io::Result<()> {
        let line = alfirk_json_lines::to_line(message)?;
        self.stream.write_all(&line)
    }

    /// Removes and returns the next message, without waiting; `None` if none is complete.
    pub(super) fn receive(&mut self) -> io::Result<Option<Message>> {
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
    fn messages_arrive_complete_and_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut near = Link::new(to).unwrap();
        let mut far = Link::new(listener.accept().unwrap().0).unwrap();
        assert!(far.receive().unwrap().is_none());
        let go = Message::Go {
            transport: Transport::Chain,
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
