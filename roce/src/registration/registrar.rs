//! Leader and member of one host.

use std::net::Ipv4Addr;

use super::{ExpectedGroup, GroupSpec, Leader, LeaderEvent, LeaderTiming, Member};
use crate::host::HostEvent;
use crate::verbs::Verbs;
use crate::wire::mrp::{Node, TooManyNodes};
use crate::wire::QpNum;

/// The registrations of one host: as a member of any number of groups, and as the leader of one group at a time.
#[derive(Debug, Default)]
pub struct Registrar {
    member: Option<Member>,
    leader: Option<Leader>,
}

impl Registrar {
    /// Allows a queue pair to be registered by the leader of a group, see [`Member::expect`].
    pub fn expect(&mut self, host: &mut dyn Verbs, qpn: QpNum, group: ExpectedGroup) {
        self.member
            .get_or_insert_with(|| Member::new(host))
            .expect(qpn, group);
    }

    /// Removes a queue pair from the expected ones, see [`Member::remove`].
    pub fn remove(&mut self, qpn: QpNum) {
        if let Some(member) = &mut self.member {
            member.remove(qpn);
        }
    }

    /// Registers a group; `nodes` are the other members.
    pub fn lead(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        spec: GroupSpec,
        timing: LeaderTiming,
        nodes: &[Node],
    ) -> Result<(), TooManyNodes> {
        let mut leader = Leader::new(host, spec, timing);
        for node in nodes {
            leader.gather(host, now, *node)?;
        }
        self.leader = Some(leader);
        Ok(())
    }

    /// The leader of this host's group, if there is one.
    pub fn leader(&mut self) -> Option<&mut Leader> {
        self.leader.as_mut()
    }

    /// Reports that a group to which this host sends makes no progress, as its leader or as a member.
    pub fn stalled(&mut self, host: &mut dyn Verbs, now: u64, mcst_id: Ipv4Addr) {
        match (&mut self.leader, &self.member) {
            (Some(leader), _) if leader.mcst_id() == mcst_id => leader.stalled(host, now),
            (_, Some(member)) => member.stalled(host, now, mcst_id),
            _ => {}
        }
    }

    /// Handles an event of the host. Returns whether it belongs to a registration.
    pub fn handle_event(&mut self, host: &mut dyn Verbs, now: u64, event: &HostEvent) -> bool {
        let leader = self.leader.as_mut();
        let led = leader.is_some_and(|leader| leader.handle_event(now, host, event));
        led || self
            .member
            .as_mut()
            .is_some_and(|member| member.handle_event(now, host, event))
    }

    /// The time of the next [`Registrar::handle_timeout`], in nanoseconds.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.leader.as_ref().and_then(Leader::poll_timeout)
    }

    /// Resends packets that are due at `now`, or gives up.
    pub fn handle_timeout(&mut self, host: &mut dyn Verbs, now: u64) {
        if let Some(leader) = &mut self.leader {
            leader.handle_timeout(now, host);
        }
    }

    /// Takes the next event of the leader.
    pub fn poll(&mut self) -> Option<LeaderEvent> {
        if let Some(member) = &mut self.member {
            // The user created the queue pairs for the group, so these events are not news to it.
            while member.poll().is_some() {}
        }
        self.leader.as_mut().and_then(Leader::poll)
    }
}
