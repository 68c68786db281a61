//! Both sides on one host.

use std::net::Ipv4Addr;

use super::{ExpectedGroup, GroupSpec, Leader, LeaderEvent, LeaderTiming, Member};
use crate::host::HostEvent;
use crate::verbs::Verbs;
use crate::wire::mrp::{Node, TooManyNodes};
use crate::wire::QpNum;

/// The registrations of one host: as a member of any number of groups, and as the leader of one at a time.
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

    /// Has nothing more to do with a queue pair, see [`Member::forget`].
    pub fn forget(&mut self, qpn: QpNum) {
        if let Some(member) = &mut self.member {
            member.forget(qpn);
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

    /// The leader of this host's group, if it has one.
    pub fn leader(&mut self) -> Option<&mut Leader> {
        self.leader.as_mut()
    }

    /// Says that a group which this host sends to makes no progress, whether it leads the group or not.
    pub fn stalled(&mut self, host: &mut dyn Verbs, now: u64, mcst_id: Ipv4Addr) {
        match (&mut self.leader, &self.member) {
            (Some(leader), _) if leader.mcst_id() == mcst_id => leader.stalled(host, now),
            (_, Some(member)) => member.stalled(host, now, mcst_id),
            _ => {}
        }
    }

    /// Takes an event; says whether it was a registration's.
    pub fn handle_event(&mut self, host: &mut dyn Verbs, now: u64, event: &HostEvent) -> bool {
        let leader = self.leader.as_mut();
        let led = leader.is_some_and(|leader| leader.handle_event(now, host, event));
        led || self
            .member
            .as_mut()
            .is_some_and(|member| member.handle_event(now, host, event))
    }

    /// When to call [`Registrar::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<u64> {
        self.leader.as_ref().and_then(Leader::poll_timeout)
    }

    /// Sends again what is due at `now`, or gives up.
    pub fn handle_timeout(&mut self, host: &mut dyn Verbs, now: u64) {
        if let Some(leader) = &mut self.leader {
            leader.handle_timeout(now, host);
        }
    }

    /// What the leader has to send.
    pub fn poll(&mut self) -> Option<LeaderEvent> {
        if let Some(member) = &mut self.member {
            // Whoever made the queue pairs knows the group already.
            while member.poll().is_some() {}
        }
        self.leader.as_mut().and_then(Leader::poll)
    }
}
