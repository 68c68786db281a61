//! Messages between the members of a group, over TCP.

use std::time::Instant;

use super::link::Message;
use super::{over_error, Group, GroupError, Result, LEADER};

impl Group {
    /// Receives the messages that have arrived, without waiting. A closed connection counts as a last message.
    pub(super) fn take_messages(&mut self) {
        let mut gone = Vec::new();
        for (rank, link) in &mut self.links {
            loop {
                match link.receive() {
                    Ok(Some(message)) => self.messages.push_back((*rank, message)),
                    Ok(None) => break,
                    Err(_) => {
                        gone.push(*rank);
                        break;
                    }
                }
            }
        }
        for rank in gone {
            self.links.remove(&rank);
            // A closed connection counts as a request to leave.
            let last = match self.rank {
                LEADER => Message::Leave,
                _ => Message::Bye,
            };
            self.messages.push_back((rank, last));
        }
    }

    pub(super) fn send_message(&mut self, rank: u32, message: &Message) -> Result<()> {
        let Some(link) = self.links.get_mut(&rank) else {
            return Err(has_left(rank));
        };
        link.send(message).map_err(|error| GroupError::Connection {
            what: format!("member {rank}"),
            error,
        })
    }

    /// Waits for the next message of a member.
    pub(super) fn message_from(
        &mut self,
        rank: u32,
        deadline: Instant,
        what: &'static str,
    ) -> Result<Message> {
        loop {
            if let Some(at) = self.messages.iter().position(|(from, _)| *from == rank) {
                let (_, message) = self.messages.remove(at).expect("the index was just found");
                return Ok(message);
            }
            if !self.links.contains_key(&rank) {
                return Err(has_left(rank));
            }
            self.wait_for_event(deadline, what)?;
        }
    }

    /// At the leader: waits until every other member has sent [`Message::Ready`]. Returns the first error that one of
    /// them reports.
    pub(super) fn wait_until_ready(
        &mut self,
        deadline: Instant,
        what: &'static str,
    ) -> Result<Option<String>> {
        let mut first = None;
        for rank in self.others() {
            // The member may leave or fail meanwhile.
            while self.alive.contains(&rank) {
                let at = |(from, m): &(u32, Message)| {
                    *from == rank && matches!(m, Message::Ready { .. })
                };
                if let Some(at) = self.messages.iter().position(at) {
                    if let Some((_, Message::Ready { error: Some(why) })) = self.messages.remove(at)
                    {
                        first.get_or_insert(format!("member {rank}: {why}"));
                    }
                    break;
                }
                self.wait_for_event(deadline, what)?;
            }
        }
        Ok(first)
    }

    /// At the leader: sends [`Message::Go`] to all other members.
    pub(super) fn send_go(&mut self) -> Result<()> {
        let message = Message::Go {
            transport: self.transport,
            alive: self.alive.iter().copied().collect(),
        };
        for rank in self.others() {
            self.send_message(rank, &message)?;
        }
        Ok(())
    }

    /// At members other than the leader: waits for [`Message::Go`], and applies its contents.
    pub(super) fn wait_for_go(&mut self, deadline: Instant) -> Result<()> {
        match self.message_from(LEADER, deadline, "waiting for the other members")? {
            Message::Go { transport, alive } => {
                self.transport = transport;
                self.alive = alive.into_iter().collect();
                Ok(())
            }
            Message::Bye => Err(over_error(
                "the leader has ended it, or removed this member",
            )),
            _ => Err(over_error(
                "unexpected message from the leader: expected `go`",
            )),
        }
    }

    /// Waits until all members have called this function.
    pub(super) fn synchronize(&mut self, deadline: Instant) -> Result<()> {
        if self.rank == LEADER {
            self.wait_until_ready(deadline, "waiting for the other members")?;
            return self.send_go();
        }
        self.send_message(LEADER, &Message::Ready { error: None })?;
        self.wait_for_go(deadline)
    }
}

/// The error of a member whose connection has ended.
fn has_left(rank: u32) -> GroupError {
    over_error(match rank {
        LEADER => "the leader has left",
        _ => "a member has left",
    })
}
