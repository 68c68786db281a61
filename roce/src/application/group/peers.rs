//! The other members as seen over the streams to them: who joins, what they have sent, and who leaves.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;

use super::error::{GroupError, Result};
use super::message::{LinkId, MemberInfo, Message};
use super::{Output, LEADER};

/// Maximum number of messages of one member that are not handled yet. The protocol needs two; a member that sends more
/// is faulty.
const MAX_UNHANDLED: usize = 8;

/// Streams to other members, and the messages on them.
#[derive(Debug, Default)]
pub(super) struct Peers {
    /// At the leader: its own address, and the number of other members of the group. `None` at other members.
    own: Option<(Ipv4Addr, usize)>,
    /// Number of the next stream that the leader accepts.
    next_link: u64,
    /// At the leader: streams whose other end has not requested to join.
    strangers: BTreeSet<LinkId>,
    /// At the leader, while members join: the members that have requested to join.
    joining: BTreeMap<Ipv4Addr, (MemberInfo, LinkId)>,
    /// Streams by rank: at the leader, to all other members; at other members, to the leader only.
    links: BTreeMap<u32, LinkId>,
    /// Messages that are not handled yet, each with the rank of its sender.
    inbox: VecDeque<(u32, Message)>,
    /// At the leader: ranks of the members that leave, in order.
    leavers: VecDeque<u32>,
    outputs: VecDeque<Output>,
}

impl Peers {
    /// The streams of the leader with address `ip` of a group with `others` other members.
    pub(super) fn of_leader(ip: Ipv4Addr, others: usize) -> Peers {
        Peers {
            own: Some((ip, others)),
            ..Peers::default()
        }
    }

    /// The streams of a member other than the leader.
    pub(super) fn of_follower() -> Peers {
        Peers {
            links: BTreeMap::from([(LEADER, LinkId::LEADER)]),
            ..Peers::default()
        }
    }

    // ---- Joining ----

    /// At the leader: adds a stream that a host has opened.
    pub(super) fn accept(&mut self) -> LinkId {
        self.next_link += 1;
        let link = LinkId(self.next_link);
        self.strangers.insert(link);
        link
    }

    /// At the leader: records a request to join. A later request of the same host replaces an earlier one. A request
    /// beyond the number of members is rejected.
    fn handle_hello(&mut self, link: LinkId, member: MemberInfo) {
        let is_full = self.has_all_joining() && !self.joining.contains_key(&member.ip);
        let is_own = self.own.is_some_and(|(ip, _)| ip == member.ip);
        if is_full || is_own {
            return self.close(link);
        }
        self.strangers.remove(&link);
        if let Some((_, earlier)) = self.joining.insert(member.ip, (member, link)) {
            self.outputs.push_back(Output::Close(earlier));
        }
    }

    /// At the leader: whether all other members have requested to join.
    pub(super) fn has_all_joining(&self) -> bool {
        self.own
            .is_some_and(|(_, others)| self.joining.len() == others)
    }

    /// At the leader: ends joining. Returns the members by rank from 1 on, and closes the streams of other hosts.
    pub(super) fn take_joining(&mut self) -> Vec<MemberInfo> {
        let joined = std::mem::take(&mut self.joining).into_values();
        let members = joined.zip(LEADER + 1..).map(|((member, link), rank)| {
            self.links.insert(rank, link);
            member
        });
        let members = members.collect();
        let strangers = std::mem::take(&mut self.strangers).into_iter();
        self.outputs.extend(strangers.map(Output::Close));
        members
    }

    // ---- Messages ----

    /// Handles a message that a driver has received.
    pub(super) fn handle_message(&mut self, link: LinkId, message: Message) {
        if self.strangers.contains(&link) {
            match message {
                Message::Hello { member } => self.handle_hello(link, member),
                // A host that sends anything else is not a member.
                _ => self.close(link),
            }
            return;
        }
        let Some(rank) = self.rank_of(link) else {
            return;
        };
        if message == Message::Leave && self.own.is_some() {
            self.leavers.push_back(rank);
            return;
        }
        let unhandled = self.inbox.iter().filter(|(of, _)| *of == rank);
        match unhandled.count() < MAX_UNHANDLED {
            true => self.inbox.push_back((rank, message)),
            false => {
                self.outputs.push_back(Output::Close(link));
                self.handle_closed(link);
            }
        }
    }

    /// Handles the end of a stream, which counts as a last message of its member.
    pub(super) fn handle_closed(&mut self, link: LinkId) {
        self.strangers.remove(&link);
        self.joining.retain(|_, (_, of)| *of != link);
        let Some(rank) = self.rank_of(link) else {
            return;
        };
        self.links.remove(&rank);
        match rank {
            LEADER => self.inbox.push_back((rank, Message::Bye)),
            _ => self.leavers.push_back(rank),
        }
    }

    fn rank_of(&self, link: LinkId) -> Option<u32> {
        let mut links = self.links.iter();
        links.find(|(_, of)| **of == link).map(|(rank, _)| *rank)
    }

    fn close(&mut self, link: LinkId) {
        self.strangers.remove(&link);
        self.outputs.push_back(Output::Close(link));
    }

    /// Sends a message to a member.
    pub(super) fn send(&mut self, rank: u32, message: Message) -> Result<()> {
        let link = self.links.get(&rank).copied();
        let link = link.ok_or_else(|| has_left(rank))?;
        self.outputs.push_back(Output::Send { link, message });
        Ok(())
    }

    /// Sends [`Message::Bye`] to a member, unless its stream has ended, and ends the stream.
    pub(super) fn dismiss(&mut self, rank: u32) {
        if self.send(rank, Message::Bye).is_ok() {
            self.disconnect(rank);
        }
    }

    /// Ends the stream to a member.
    pub(super) fn disconnect(&mut self, rank: u32) {
        if let Some(link) = self.links.remove(&rank) {
            self.outputs.push_back(Output::Close(link));
        }
    }

    /// Removes and returns the next message of a member; `None` if there is none yet. Fails if the stream to the member
    /// has ended.
    pub(super) fn take_message(&mut self, rank: u32) -> Result<Option<Message>> {
        if let Some(at) = self.inbox.iter().position(|(from, _)| *from == rank) {
            return Ok(self.inbox.remove(at).map(|(_, message)| message));
        }
        match self.links.contains_key(&rank) {
            true => Ok(None),
            false => Err(has_left(rank)),
        }
    }

    /// Removes the next [`Message::Ready`] of each of these members, if every one of them has sent one. Returns the
    /// first error that one of them reports, with its rank; the outer `None` while a message is missing.
    pub(super) fn take_ready(&mut self, ranks: &[u32]) -> Option<Option<String>> {
        let is_ready = |of: u32| {
            move |(rank, message): &(u32, Message)| {
                *rank == of && matches!(message, Message::Ready { .. })
            }
        };
        if !ranks
            .iter()
            .all(|rank| self.inbox.iter().any(is_ready(*rank)))
        {
            return None;
        }
        let mut first = None;
        for rank in ranks {
            let at = self.inbox.iter().position(is_ready(*rank));
            let message = at.and_then(|at| self.inbox.remove(at));
            if let Some((_, Message::Ready { error: Some(why) })) = message {
                first.get_or_insert(format!("member {rank}: {why}"));
            }
        }
        Some(first)
    }

    /// At the leader: removes and returns the rank of the next member that leaves.
    pub(super) fn take_leaver(&mut self) -> Option<u32> {
        self.leavers.pop_front()
    }

    /// Adds a message for the log of the program.
    pub(super) fn warn(&mut self, text: String) {
        self.outputs.push_back(Output::Warning(text));
    }

    pub(super) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}

/// The error of a member whose stream has ended.
fn has_left(rank: u32) -> GroupError {
    GroupError::over(match rank {
        LEADER => "the leader has left",
        _ => "a member has left",
    })
}
