//! A host must have agreed before it is put into a group.
//!
//! ```text
//!  fabric ── Invite (the host's node, the group's) ──▶ host
//!  fabric ◀── Agree, to the McstID ─────────────────── host, if it expects that queue pair to be registered
//! ```
//!
//! Else whoever registers a group could have its data sent to any host. A leaf switch is given nothing of a group that
//! is registered in band before the members next to it have agreed; the leader has by asking. What is asked for through the
//! control service comes from somebody who may speak for the hosts, as the operator says, and they are only asked when
//! [`ask_members`](crate::ControllerConfig::ask_members) says so.
//!
//! Invitations are sent again when the leader sends its packets again, or by the clock where there is no leader.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use alfirk_roce::wire::mrp::{Kind, Node, Refusal};
use alfirk_roce::wire::Psn;

use super::agent::Stage;
use super::frame::Received;
use crate::controller::change::Origin;
use crate::controller::error::GroupError;
use crate::controller::event::MemberSpec;
use crate::controller::timers::Timers;
use crate::controller::{ApiReply, Controller};
use crate::topology::SwitchIndex;

/// Nanoseconds between two invitations of a host, where no leader asks again.
const INVITE_INTERVAL: u64 = 100_000_000;

/// Hosts that have been asked by no agent of a switch.
#[derive(Debug, Default)]
pub(in crate::controller) struct Invitations {
    open: BTreeMap<Ipv4Addr, Invitation>,
    timers: Timers<Ipv4Addr>,
}

#[derive(Debug)]
struct Invitation {
    /// Who has not agreed yet.
    missing: BTreeMap<Ipv4Addr, Node>,
    then: Then,
    /// When to give up.
    deadline: u64,
}

/// What to do when all have agreed.
#[derive(Clone, Copy, Debug)]
enum Then {
    Register,
    Join(Origin, MemberSpec),
}

impl Invitations {
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        self.timers.first()
    }

    pub(in crate::controller) fn forget(&mut self, mcst_id: Ipv4Addr) {
        self.open.remove(&mcst_id);
        self.timers.clear(mcst_id);
    }
}

impl Controller {
    /// Asks the members of a group that is to be registered through the control service.
    pub(in crate::controller) fn invite_all(&mut self, now: u64, mcst_id: Ipv4Addr) {
        let group = self.groups.get(&mcst_id).map(|r| r.group());
        let members = group.into_iter().flat_map(|group| &group.members);
        let missing = members.map(|member| (member.spec.ip, member.spec.node()));
        let missing = missing.collect();
        self.open_invitation(now, mcst_id, missing, Then::Register);
    }

    /// Asks a host that is to join; once it has agreed, it does.
    pub(in crate::controller) fn invite_to_join(
        &mut self,
        now: u64,
        origin: Origin,
        mcst_id: Ipv4Addr,
        spec: MemberSpec,
    ) {
        if let Some(open) = self.mrp.invitations.open.get(&mcst_id) {
            match (open.then, origin) {
                (Then::Join(Origin::Leader(_), asked), Origin::Leader(_)) if asked == spec => {
                    return self.send_invitations(mcst_id);
                }
                // The leader has changed its mind.
                (Then::Join(Origin::Leader(_), _), Origin::Leader(_)) => {}
                _ => {
                    let error = GroupError::Busy(mcst_id);
                    return self.change_failed(mcst_id, origin, error);
                }
            }
        }
        let missing = BTreeMap::from([(spec.ip, spec.node())]);
        self.open_invitation(now, mcst_id, missing, Then::Join(origin, spec));
    }

    fn open_invitation(
        &mut self,
        now: u64,
        mcst_id: Ipv4Addr,
        missing: BTreeMap<Ipv4Addr, Node>,
        then: Then,
    ) {
        let deadline = now + self.config.agree_timeout_ns;
        let invitation = Invitation {
            missing,
            then,
            deadline,
        };
        self.mrp.invitations.open.insert(mcst_id, invitation);
        let next = deadline.min(now + INVITE_INTERVAL);
        self.mrp.invitations.timers.set(mcst_id, next);
        self.send_invitations(mcst_id);
    }

    fn send_invitations(&mut self, mcst_id: Ipv4Addr) {
        let open = self.mrp.invitations.open.get(&mcst_id);
        let missing: Vec<Node> =
            open.map_or_else(Vec::new, |open| open.missing.values().copied().collect());
        self.invite(mcst_id, &missing);
    }

    fn invite(&mut self, mcst_id: Ipv4Addr, nodes: &[Node]) {
        for node in nodes {
            let Some(host) = self.topology.host_with_ip(node.ip) else {
                continue;
            };
            // Hosts may look at who asks: it is the fabric, in the group's name.
            let frame = self.mrp_member_frame(Kind::Invite, mcst_id, mcst_id, Psn::new(0), node);
            let (switch, port) = self.topology.attachment(host);
            self.send_frame(switch, port, frame);
        }
    }

    /// Asks the members that hang from an agent's switch, as far as they have not agreed and matter; says whether there
    /// are any that have not.
    pub(super) fn invite_locals(
        &mut self,
        switch: SwitchIndex,
        mcst_id: Ipv4Addr,
        matters: impl Fn(&Node) -> bool,
    ) -> bool {
        let Some(agent) = self.mrp.agents.get(&(mcst_id, switch)) else {
            return false;
        };
        let locals = agent
            .nodes()
            .filter(|node| agent.undecided.contains(&node.ip));
        let locals: Vec<Node> = locals.copied().collect();
        let wanted: Vec<Node> = locals
            .iter()
            .filter(|node| matters(node))
            .copied()
            .collect();
        self.invite(mcst_id, &wanted);
        !locals.is_empty()
    }

    /// A host agrees to be put into a group.
    pub(super) fn mrp_agree(&mut self, now: u64, switch: SwitchIndex, received: &Received) {
        let (host, mcst_id) = (received.source, received.destination);
        let Some(node) = received.packet.members().find(|node| node.ip == host) else {
            self.mrp.stats.wrong += 1;
            return;
        };
        self.mrp.stats.accepted += 1;
        let key = (mcst_id, switch);
        if let Some(agent) = self.mrp.agents.get_mut(&key) {
            let is_asked = agent.nodes().any(|asked| is_same_place(asked, node));
            if matches!(agent.stage, Stage::Inviting) && is_asked && agent.undecided.remove(&host) {
                let all = agent.undecided.is_empty();
                let deadline = now + self.config.mrp_timeout_ns;
                self.mrp.deadlines.set(mcst_id, deadline);
                if all {
                    self.mrp.undecided.clear(key);
                    self.make_part(now, switch, mcst_id);
                }
            }
        }
        let Some(open) = self.mrp.invitations.open.get_mut(&mcst_id) else {
            return;
        };
        let asked = open.missing.get(&host);
        if asked.is_none_or(|asked| !is_same_place(asked, node)) {
            return;
        }
        open.missing.remove(&host);
        if !open.missing.is_empty() {
            return;
        }
        let then = open.then;
        self.mrp.invitations.forget(mcst_id);
        match then {
            Then::Register => self.register_agreed(now, mcst_id),
            Then::Join(origin, spec) => self.join(now, origin, mcst_id, spec),
        }
    }

    /// Asks again, or gives up.
    pub(super) fn invitation_timeout(&mut self, now: u64) {
        while let Some(mcst_id) = self.mrp.invitations.timers.pop_due(now) {
            let Some(open) = self.mrp.invitations.open.get(&mcst_id) else {
                continue;
            };
            if now < open.deadline {
                let next = open.deadline.min(now + INVITE_INTERVAL);
                self.mrp.invitations.timers.set(mcst_id, next);
                self.send_invitations(mcst_id);
                continue;
            }
            let members = open.missing.keys().copied().collect();
            let then = open.then;
            self.mrp.invitations.forget(mcst_id);
            let error = GroupError::NotAgreed { mcst_id, members };
            match then {
                Then::Register => self.register_not_agreed(mcst_id, error),
                Then::Join(Origin::Api(tag), _) => self.say(ApiReply::Failed { tag, error }),
                Then::Join(origin, _) => self.change_failed(mcst_id, origin, error),
            }
        }
        while let Some((mcst_id, switch)) = self.mrp.undecided.pop_due(now) {
            let agent = self.mrp.agents.get(&(mcst_id, switch));
            let silent = agent.filter(|agent| matches!(agent.stage, Stage::Inviting));
            if let Some((leader, silent)) = silent.map(|a| (a.leader, a.undecided.clone())) {
                let silent: Vec<Ipv4Addr> = silent.into_iter().collect();
                self.mrp_name(
                    mcst_id,
                    leader,
                    Kind::Refuse,
                    Refusal::NotAgreed.bits(),
                    &silent,
                );
                self.mrp_fail(now, mcst_id, Refusal::NotAgreed);
            }
        }
    }
}

/// Whether both name the same queue pair and memory.
fn is_same_place(a: &Node, b: &Node) -> bool {
    (a.ip, a.qpn, a.region) == (b.ip, b.qpn, b.region)
}
