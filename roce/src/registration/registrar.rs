//! The registration state machines of one host: its memberships, and the group that it leads.

use std::net::Ipv4Addr;

use super::{ExpectedGroup, GroupSpec, Leader, LeaderEvent, LeaderTiming, Member};
use crate::host::HostEvent;
use crate::verbs::Verbs;
use crate::wire::mrp::{Node, TooManyNodes};
use crate::wire::QpNum;

/// Registrations of one host: as a member of any number of groups, and as the leader of one group at a time.
#[derive(Debug, Default)]
pub struct Registrar {
    member: Option<Member>,
    leader: Option<Leader>,
}

impl Registrar {
    /// Allows a queue pair to be registered in a group by the group's leader, see [`Member::expect`].
    pub fn expect(&mut self, host: &mut dyn Verbs, qpn: QpNum, group: ExpectedGroup) {
        self.member
            .get_or_insert_with(|| Member::new(host))
            .expect(qpn, group);
    }

    /// Registers a group as its leader. `nodes`: addresses and queue pairs of the other members.
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

    /// The leader state machine of the group that this host leads; `None` if it leads none.
    pub fn leader(&mut self) -> Option<&mut Leader> {
        self.leader.as_mut()
    }

    /// Reports to the fabric that a group to which this host sends makes no progress. The host reports it as the leader if it
    /// leads the group, otherwise as a member.
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

    /// The time of the next [`Registrar::handle_timeout`], in nanoseconds; `None` if no timer runs.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.leader.as_ref().and_then(Leader::poll_timeout)
    }

    /// Resends unconfirmed packets that are due at `now`, or gives up.
    pub fn handle_timeout(&mut self, host: &mut dyn Verbs, now: u64) {
        if let Some(leader) = &mut self.leader {
            leader.handle_timeout(now, host);
        }
    }

    /// Removes and returns the next event of the leader.
    pub fn poll(&mut self) -> Option<LeaderEvent> {
        if let Some(member) = &mut self.member {
            // The user has created the queue pairs of the group itself, so these events are dropped.
            while member.poll().is_some() {}
        }
        self.leader.as_mut().and_then(Leader::poll)
    }
}
