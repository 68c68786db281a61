//! Steps of the calls on a group, and their execution.

use super::error::{GroupError, Result};
use super::message::Message;
use super::{GroupMember, GroupOperation, GroupTransport, LEADER};
use crate::rc::MemorySlice;
use crate::registration::LeaderEvent;
use crate::verbs::Verbs;

/// A part of a call. A step whose name begins with `Await` is done when its condition holds; the others take no time.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    // Joining.
    /// At the leader: all other members have requested to join.
    Gather,
    /// At other members: request to join.
    SendHello,
    AwaitWelcome,
    /// Connect the group's queue pair.
    Connect,
    AwaitConnection,
    /// At the leader: register the group, unless a member has reported an error.
    Register,
    AwaitRegistration,
    /// Without multicast: connect every two members.
    CreateMesh,
    AwaitMesh,
    AwaitMeshConnections,

    // Synchronization.
    /// At the leader: [`Message::Ready`] of all other members.
    AwaitReady,
    SendGo,
    SendReady,
    AwaitGo,

    // Messages.
    Post {
        part: MemorySlice,
        operation: GroupOperation,
    },
    /// The oldest message for which the user has not waited.
    AwaitOne,
    /// All posted messages.
    AwaitPosted,
    /// An empty message, before which other members may be late without limit.
    AwaitSignal,
    /// At the present source: prepare for the next one.
    ExpectNextSource,
    TakeOver {
        source: u32,
    },
    /// At the source: announce the buffers of the receivers to the switches, once.
    Announce,
    AwaitAnnouncements,
    StartOverlay {
        source: u32,
        part: MemorySlice,
    },
    AwaitOverlay,

    // Leaving.
    SendLeave,
    AwaitBye,
    /// At the leader: deregister the group.
    Deregister,
    AwaitDeregistration,
    /// At the leader: end the group at all other members.
    Dismiss,
}

impl Step {
    /// The steps by which a member joins.
    pub(super) fn of_join(is_leader: bool) -> Vec<Step> {
        match is_leader {
            true => vec![
                Step::Gather,
                Step::Connect,
                Step::AwaitConnection,
                Step::AwaitReady,
                Step::Register,
                Step::AwaitRegistration,
                Step::SendGo,
                Step::CreateMesh,
            ],
            false => vec![
                Step::SendHello,
                Step::AwaitWelcome,
                Step::Connect,
                Step::AwaitConnection,
                Step::SendReady,
                Step::AwaitGo,
                Step::CreateMesh,
            ],
        }
    }

    /// The steps after which all members have reached the same point.
    pub(super) fn of_synchronization(is_leader: bool) -> [Step; 2] {
        match is_leader {
            true => [Step::AwaitReady, Step::SendGo],
            false => [Step::SendReady, Step::AwaitGo],
        }
    }

    /// What the step waits for, for an error.
    pub(super) fn waits_for(&self) -> &'static str {
        match self {
            Step::Gather => "waiting for the members",
            Step::SendHello | Step::AwaitWelcome => "waiting for the leader",
            Step::Connect | Step::AwaitConnection => "connecting to the group",
            Step::Register | Step::AwaitRegistration => "registering the group",
            Step::CreateMesh | Step::AwaitMesh | Step::AwaitMeshConnections => {
                "connecting the members"
            }
            Step::AwaitReady | Step::SendGo | Step::SendReady | Step::AwaitGo => {
                "waiting for the other members"
            }
            Step::Post { .. } | Step::AwaitOne | Step::AwaitPosted => "a message",
            Step::StartOverlay { .. } | Step::AwaitOverlay => "a message",
            Step::AwaitSignal => "a signal",
            Step::ExpectNextSource | Step::TakeOver { .. } => "changing the source",
            Step::Announce | Step::AwaitAnnouncements => "announcing buffers to the switches",
            Step::SendLeave | Step::AwaitBye => "leaving the group",
            Step::Deregister | Step::AwaitDeregistration | Step::Dismiss => "ending the group",
        }
    }
}

impl GroupMember {
    /// Executes a step. Returns whether it is done; if not, it has had no effect. The steps that it adds at the front are executed next.
    pub(super) fn execute(&mut self, step: &Step, host: &mut dyn Verbs, now: u64) -> Result<bool> {
        match step {
            Step::Gather => return self.gather(),
            Step::SendHello => {
                let member = *self.own();
                self.peers.send(LEADER, Message::Hello { member })?;
            }
            Step::AwaitWelcome => return self.await_welcome(host),
            Step::Connect => self.connect(host, now),
            Step::AwaitConnection => return Ok(self.await_connection()),
            Step::Register => self.register(host, now)?,
            Step::AwaitRegistration => return self.await_registration(),
            Step::CreateMesh => self.create_mesh(host)?,
            Step::AwaitMesh => return self.await_mesh(host, now),
            Step::AwaitMeshConnections => return self.mesh.is_connected(),

            Step::AwaitReady => {
                let Some(error) = self.peers.take_ready(&self.others()) else {
                    return Ok(false);
                };
                if self.join_error.is_none() {
                    self.join_error = error;
                }
            }
            Step::SendGo => self.send_go()?,
            Step::SendReady => {
                let error = self.join_error.take();
                self.peers.send(LEADER, Message::Ready { error })?;
            }
            Step::AwaitGo => return self.await_go(),

            Step::Post { part, operation } => {
                if !self.stream.has_outstanding() {
                    self.next_stall = now + self.retry_timeout.stall_ns();
                }
                match self.source == self.rank {
                    true => self.stream.post_send(host, *part, *operation)?,
                    false => self.stream.post_receive(host, *part, *operation)?,
                }
            }
            Step::AwaitOne => return self.stream.take_completion(),
            Step::AwaitPosted => return self.stream.take_completions(),
            Step::AwaitSignal => {
                self.is_patient = !self.stream.take_completion()?;
                return Ok(!self.is_patient);
            }
            Step::ExpectNextSource if self.source == self.rank => {
                self.stream.expect_next_source(host)?;
            }
            Step::ExpectNextSource => {}
            Step::TakeOver { source } => {
                if *source == self.rank {
                    self.stream.take_over(host)?;
                }
                self.stream.check()?;
                self.source = *source;
            }
            Step::Announce if self.source == self.rank && !self.stream.has_announced() => {
                if !self.stream.take_completions()? {
                    return Ok(false);
                }
                let receivers = self.others().into_iter();
                let receivers = receivers.map(|rank| self.infos[rank as usize]);
                self.stream.announce(host, receivers)?;
            }
            Step::Announce => {}
            Step::AwaitAnnouncements => return self.stream.are_announcements_complete(),
            Step::StartOverlay { source, part } => {
                let algorithm = self.transport.overlay();
                let algorithm =
                    algorithm.expect("a group with multicast broadcasts by its switches");
                // The members as a ring that starts with the source.
                let (before, from): (Vec<u32>, Vec<u32>) =
                    self.alive.iter().partition(|rank| *rank < source);
                let order: Vec<u32> = from.into_iter().chain(before).collect();
                if order.first() != Some(source) {
                    return Err(GroupError::over("the source has left"));
                }
                self.mesh
                    .begin(host, algorithm, *part, (self.rank, &order))?;
            }
            Step::AwaitOverlay => return self.mesh.is_complete(),

            Step::SendLeave => self.peers.send(LEADER, Message::Leave)?,
            Step::AwaitBye => {
                return Ok(match self.peers.take_message(LEADER) {
                    // Without a message, the leader has already left.
                    Ok(Some(Message::Bye)) | Err(_) => true,
                    // Other messages are of no use any more.
                    Ok(Some(_)) => {
                        self.steps.push_front(Step::AwaitBye);
                        true
                    }
                    Ok(None) => false,
                });
            }
            Step::Deregister if self.transport != GroupTransport::Multicast => {}
            Step::Deregister => {
                if self.removal.is_some() {
                    return Ok(false);
                }
                self.application.deregister(host, now);
            }
            Step::AwaitDeregistration => {
                let is_end = |event: &LeaderEvent| *event == LeaderEvent::Deregistered;
                return Ok(self.transport != GroupTransport::Multicast
                    || self.leader_events.iter().any(is_end));
            }
            Step::Dismiss => {
                for rank in self.others() {
                    // A member that has already left needs no notice.
                    self.peers.dismiss(rank);
                }
            }
        }
        Ok(true)
    }
}
