//! Joining a group: the members meet at the leader, which registers the group or chooses the fallback.

use std::net::Ipv4Addr;

use super::error::{GroupError, Result};
use super::message::{Epoch, MemberInfo, Message};
use super::step::Step;
use super::{GroupMember, GroupTransport, LEADER};
use crate::rc::Remote;
use crate::registration::{ExpectedGroup, GroupSpec, LeaderEvent, LeaderTiming};
use crate::verbs::Verbs;
use crate::wire::mrp::Node;

impl GroupMember {
    /// At the leader: sends [`Message::Welcome`] when all members have requested to join.
    pub(super) fn gather(&mut self) -> Result<bool> {
        if !self.peers.has_all_joining() {
            return Ok(false);
        }
        self.infos.extend(self.peers.take_joining());
        for rank in self.others() {
            let welcome = Message::Welcome {
                rank,
                members: self.infos.clone(),
                epoch: self.epoch,
            };
            self.peers.send(rank, welcome)?;
        }
        Ok(true)
    }

    /// At other members: applies [`Message::Welcome`].
    pub(super) fn await_welcome(&mut self, host: &mut dyn Verbs) -> Result<bool> {
        let own = *self.own();
        let (rank, members, epoch) = match self.peers.take_message(LEADER)? {
            None => return Ok(false),
            Some(Message::Welcome {
                rank,
                members,
                epoch,
            }) => (rank, members, epoch),
            Some(_) => {
                let why = "unexpected message from the leader: expected `welcome`";
                return Err(GroupError::over(why));
            }
        };
        if members.len() != self.settings.members as usize {
            let (found, expected) = (members.len(), self.settings.members);
            let why = format!("the leader lists {found} members, expected {expected}");
            return Err(GroupError::over(why));
        }
        if rank == LEADER || members.get(rank as usize) != Some(&own) {
            let why = format!("the leader lists another member at rank {rank}");
            return Err(GroupError::over(why));
        }
        let (len, mut others) = (own.memory.len, members.iter());
        if let Some(other) = others.find(|other| other.memory.len != len) {
            return Err(GroupError::Argument(format!(
                "buffer sizes differ: member {} has {} bytes, this member {len} bytes",
                other.ip, other.memory.len
            )));
        }
        (self.rank, self.infos, self.epoch) = (rank, members, epoch);
        let group = ExpectedGroup {
            mcst_id: self.settings.address,
            virtual_qpn: epoch.virtual_qpn,
            leader: self.infos[LEADER as usize].ip,
        };
        self.application.expect(host, self.stream.qpn(), group);
        Ok(true)
    }

    /// Connects the queue pair to the group's address and virtual queue pair. An error is reported to the leader.
    pub(super) fn connect(&mut self, host: &mut dyn Verbs, now: u64) {
        let Epoch {
            virtual_qpn,
            initial_psn,
        } = self.epoch;
        let (qpn, remote) = (
            self.stream.qpn(),
            Remote {
                ip: self.settings.address,
                qpn: virtual_qpn,
            },
        );
        let connected = host
            .set_sq_psn(qpn, initial_psn)
            .and_then(|()| host.connect_qp(now, qpn, remote, initial_psn));
        self.join_error = connected.err().map(|error| error.to_string());
    }

    /// Whether the queue pair is connected, or an error of its connection is recorded.
    pub(super) fn await_connection(&mut self) -> bool {
        if self.join_error.is_some() {
            return true;
        }
        match self.stream.is_connected() {
            Ok(is_connected) => is_connected,
            Err(error) => {
                self.join_error = Some(error.to_string());
                true
            }
        }
    }

    /// At the leader: begins to register the group in band, unless a member has reported an error.
    pub(super) fn register(&mut self, host: &mut dyn Verbs, now: u64) -> Result<()> {
        let node = |member: &MemberInfo| Node {
            ip: member.ip,
            qpn: member.qpn,
            flags: 0,
            region: None,
        };
        let nodes: Vec<Node> = self.infos[1..].iter().map(node).collect();
        let spec = GroupSpec {
            mcst_id: self.settings.address,
            virtual_qpn: self.epoch.virtual_qpn,
            initial_psn: self.epoch.initial_psn,
            leader: node(&self.infos[0]),
            members: nodes.iter().map(|n| n.ip).collect(),
            retry_timeout: self.retry_timeout,
        };
        if self.join_error.is_none() {
            let timing = LeaderTiming::default();
            let led = self.application.lead(host, now, spec, timing, &nodes);
            self.join_error = led.err().map(|error| error.to_string());
        }
        Ok(())
    }

    /// At the leader: records the result of the registration. Without multicast, the fallback is used, or joining fails.
    pub(super) fn await_registration(&mut self) -> Result<bool> {
        let why = match self.join_error.take() {
            Some(why) => why,
            None => match self.leader_events.pop_front() {
                None => return Ok(false),
                Some(LeaderEvent::Registered) => return Ok(true),
                Some(LeaderEvent::Refused { reason }) => reason.to_string(),
                Some(LeaderEvent::GaveUp { missing }) => {
                    let names: Vec<String> = missing.iter().map(Ipv4Addr::to_string).collect();
                    format!(
                        "no confirmation from {}; check that these hosts run and are reachable",
                        names.join(", ")
                    )
                }
                Some(other) => format!("unexpected event while registering: {other:?}"),
            },
        };
        self.peers.warn(format!("no multicast: {why}"));
        self.transport = self.settings.fallback;
        if self.transport == GroupTransport::Multicast {
            for rank in self.others() {
                self.peers.dismiss(rank);
            }
            return Err(GroupError::NotRegistered(why));
        }
        Ok(true)
    }

    // ---- Synchronization ----

    /// At the leader: sends [`Message::Go`] to all other members.
    pub(super) fn send_go(&mut self) -> Result<()> {
        let message = Message::Go {
            transport: self.transport,
            alive: self.alive.iter().copied().collect(),
        };
        // An error of a member has a meaning only while members join.
        self.join_error = None;
        let mut others = self.others().into_iter();
        others.try_for_each(|rank| self.peers.send(rank, message.clone()))
    }

    /// At other members: applies [`Message::Go`].
    pub(super) fn await_go(&mut self) -> Result<bool> {
        match self.peers.take_message(LEADER)? {
            None => Ok(false),
            Some(Message::Go { transport, alive }) => {
                self.transport = transport;
                let members = self.settings.members;
                self.alive = alive.into_iter().filter(|rank| *rank < members).collect();
                Ok(true)
            }
            Some(Message::Bye) => {
                let why = "the leader has ended it, or removed this member";
                Err(GroupError::over(why))
            }
            Some(_) => {
                let why = "unexpected message from the leader: expected `go`";
                Err(GroupError::over(why))
            }
        }
    }

    // ---- Mesh ----

    /// Without multicast: creates the queue pairs towards all other members. Other members report them to the leader.
    pub(super) fn create_mesh(&mut self, host: &mut dyn Verbs) -> Result<()> {
        if self.transport == GroupTransport::Multicast {
            return Ok(());
        }
        let ends = self.mesh.create(host, self.rank, &self.others())?;
        match self.is_leader() {
            true => self.mesh_ends.insert(LEADER, ends).map_or((), drop),
            false => self.peers.send(LEADER, Message::Mesh { ends })?,
        }
        let synchronization = Step::of_synchronization(self.is_leader());
        let steps = [Step::AwaitMesh, Step::AwaitMeshConnections];
        self.steps.extend(steps.into_iter().chain(synchronization));
        Ok(())
    }

    /// Collects the queue pairs of all members at the leader, which sends them to all, and connects this member's.
    pub(super) fn await_mesh(&mut self, host: &mut dyn Verbs, now: u64) -> Result<bool> {
        let sender = |rank| match rank {
            LEADER => "the leader".to_owned(),
            rank => format!("member {rank}"),
        };
        let others = self.others();
        let senders = if self.is_leader() {
            &others[..]
        } else {
            &[LEADER]
        };
        for rank in senders.iter().copied() {
            if self.mesh_ends.contains_key(&rank) {
                continue;
            }
            let ends = match self.peers.take_message(rank)? {
                None => return Ok(false),
                Some(Message::Mesh { ends }) => ends,
                Some(_) => {
                    let from = sender(rank);
                    let why = format!("unexpected message from {from}: expected `mesh`");
                    return Err(GroupError::over(why));
                }
            };
            self.mesh_ends.insert(rank, ends);
        }
        let ends: Vec<_> = std::mem::take(&mut self.mesh_ends)
            .into_values()
            .flatten()
            .collect();
        if self.is_leader() {
            for rank in others {
                let all = Message::Mesh { ends: ends.clone() };
                self.peers.send(rank, all)?;
            }
        }
        let members = (self.rank, &self.infos[..]);
        self.mesh.connect(host, now, members, &ends)?;
        Ok(true)
    }
}
