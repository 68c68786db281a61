//! Invitations: a host must agree before it becomes a member of a group.
//!
//! ```text
//!  fabric ── Invite (the host's node, the group's, the leader's) ──▶ host
//!  fabric ◀── Agree, to the McstID ────────────────────────────── host, if it expects that queue pair to be registered so
//! ```
//!
//! Otherwise a host that registers a group could have data sent to any other host, or reserve addresses for hosts that do not
//! take part. A registration in band begins as a claim (`claim.rs`): the leader's leaf invites all members, and nothing is
//! written to any switch before all have agreed. The leader agrees by registering. Clients of the control service are
//! trusted to act for the hosts, which are invited only if [`ask_members`](crate::ControllerConfig::ask_members) is set.
//!
//! Invitation and agreement contain queue pair, group (address and virtual queue pair number) and leader; an agreement is valid
//! for these only. An invitation is repeated when the leader repeats its packets, once per
//! [`crate::ControllerConfig::mrp_repeat_ns`], or by a timer if there is no leader.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use alfirk_roce::wire::mrp::{Kind, Node, Refusal, Repr};
use alfirk_roce::wire::Psn;

use super::claim::{is_same_endpoint, Claim, ClaimKey};
use super::frame::{self, Received};
use super::{transmit, Mrp};
use crate::controller::change::{change_failed, Origin};
use crate::controller::command::Command;
use crate::controller::error::GroupError;
use crate::controller::event::MemberSpec;
use crate::controller::groups::Groups;
use crate::controller::network::Network;
use crate::controller::timers::Timers;

/// Pending invitations to groups of the control service, and to join existing groups. Those of a registration in band are
/// stored with its claim (`claim.rs`).
#[derive(Debug, Default)]
pub(super) struct Invitations {
    open: BTreeMap<Ipv4Addr, Invitation>,
    timers: Timers<Ipv4Addr>,
}

#[derive(Debug)]
struct Invitation {
    /// Leader of the group.
    leader: Ipv4Addr,
    /// Members that have not agreed yet.
    missing: BTreeMap<Ipv4Addr, Node>,
    action: OnAgreement,
    /// Time at which the invitation expires.
    deadline: u64,
}

/// Action of the controller once all invited hosts have agreed.
#[derive(Clone, Copy, Debug)]
enum OnAgreement {
    /// Create the group.
    Register,
    /// Add the invited host to the group.
    Join(Origin, MemberSpec),
}

impl Invitations {
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        self.timers.first()
    }

    pub(super) fn discard(&mut self, mcst_id: Ipv4Addr) {
        self.open.remove(&mcst_id);
        self.timers.clear(mcst_id);
    }
}

impl Mrp {
    /// Invites the members of a group that is registered through the control service.
    pub(in crate::controller) fn invite_all(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &Groups,
        mcst_id: Ipv4Addr,
    ) {
        let group = groups.group(mcst_id);
        let members = group.into_iter().flat_map(|group| &group.members);
        let missing = members.map(|member| (member.spec.ip, member.spec.node()));
        let missing = missing.collect();
        self.open_invitation(
            now,
            network,
            groups,
            mcst_id,
            missing,
            OnAgreement::Register,
        );
    }

    /// Invites a host to join; it joins once it has agreed.
    pub(in crate::controller) fn invite_to_join(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &Groups,
        origin: Origin,
        mcst_id: Ipv4Addr,
        spec: MemberSpec,
    ) -> Option<Command> {
        if let Some(open) = self.invitations.open.get(&mcst_id) {
            match (open.action, origin) {
                (OnAgreement::Join(Origin::Leader(_), asked), Origin::Leader(_))
                    if asked == spec =>
                {
                    // The timer repeats the invitation.
                    return None;
                }
                // The leader has changed its request.
                (OnAgreement::Join(Origin::Leader(_), _), Origin::Leader(_)) => {}
                _ => {
                    let error = GroupError::Busy(mcst_id);
                    return change_failed(network, mcst_id, origin, error);
                }
            }
        }
        let missing = BTreeMap::from([(spec.ip, spec.node())]);
        self.open_invitation(
            now,
            network,
            groups,
            mcst_id,
            missing,
            OnAgreement::Join(origin, spec),
        );
        None
    }

    fn open_invitation(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &Groups,
        mcst_id: Ipv4Addr,
        missing: BTreeMap<Ipv4Addr, Node>,
        action: OnAgreement,
    ) {
        let Some(leader) = groups.leader_of(mcst_id) else {
            return;
        };
        let deadline = now + network.config().agree_timeout_ns;
        let invitation = Invitation {
            leader,
            missing,
            action,
            deadline,
        };
        self.invitations.open.insert(mcst_id, invitation);
        let next = deadline.min(now + network.config().mrp_repeat_ns);
        self.invitations.timers.set(mcst_id, next);
        self.send_invitations(network, groups, mcst_id);
    }

    fn send_invitations(&mut self, network: &mut Network, groups: &Groups, mcst_id: Ipv4Addr) {
        let Some(open) = self.invitations.open.get(&mcst_id) else {
            return;
        };
        let missing: Vec<Node> = open.missing.values().copied().collect();
        self.send_invites(network, groups, mcst_id, open.leader, &missing);
    }

    /// Invites hosts on behalf of a leader, within its rate limit.
    pub(super) fn invite(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &Groups,
        mcst_id: Ipv4Addr,
        leader: Ipv4Addr,
        nodes: &[Node],
    ) {
        let rate = network.config().mrp_rate;
        let allocation = self
            .limits
            .grant_invitations(now, leader, nodes.len(), rate);
        self.send_invites(network, groups, mcst_id, leader, &nodes[..allocation]);
    }

    fn send_invites(
        &mut self,
        network: &mut Network,
        groups: &Groups,
        mcst_id: Ipv4Addr,
        leader: Ipv4Addr,
        nodes: &[Node],
    ) {
        let claim = self.claims.get(&(mcst_id, leader));
        let claimed = claim.and_then(|claim| claim.agent.group_node().copied());
        let group = claimed.unwrap_or_else(|| transmit::group_node(groups, mcst_id));
        for node in nodes {
            let Some(host) = network.topology().host_with_ip(node.ip) else {
                continue;
            };
            let packet = Repr {
                kind: Kind::Invite,
                seq: 0,
                total: 1,
                initial_psn: Psn::new(0),
                flags: 0,
                nodes: vec![*node, group, Node::leader(leader)],
            };
            // Hosts may check the sender: it is the fabric, with the group's address.
            let mac = network.topology().host(host).mac;
            let frame = frame::build(mac, mcst_id, node.ip, &packet);
            let (switch, port) = network.topology().attachment(host);
            network.send_frame(switch, port, frame);
        }
    }

    /// Invites the members of a claim (a registration in band that not all members have agreed to), once all its packets
    /// are received.
    pub(super) fn claim_members(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &mut Groups,
        key: ClaimKey,
    ) {
        let (mcst_id, leader) = key;
        let Some(mut claim) = self.claims.remove(&key) else {
            return;
        };
        let checked = Mrp::check(network, groups, claim.switch, mcst_id, &claim.agent);
        let others = claim.agent.members().filter(|node| node.ip != leader);
        let others: BTreeMap<Ipv4Addr, Node> = others.map(|node| (node.ip, *node)).collect();
        let asked: Vec<Node> = others.values().copied().collect();
        claim.missing = Some(others);
        claim
            .agent
            .note_processed(now, network.config().mrp_repeat_ns);
        self.claims.insert(key, claim);
        match checked {
            Ok(()) => {
                let discard_registration = now + network.config().agree_timeout_ns;
                self.claim_deadlines.set(key, discard_registration);
                self.invite(now, network, groups, mcst_id, leader, &asked);
            }
            Err(refusal) => {
                self.drop_claim(key);
                self.refuse(network, groups, mcst_id, leader, refusal);
            }
        }
    }

    /// Creates the group of a claim, once all its members have agreed.
    fn claim_agreed(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &mut Groups,
        key: ClaimKey,
    ) -> Option<Command> {
        let (mcst_id, leader) = key;
        let Claim { switch, agent, .. } = self.drop_claim(key)?;
        if groups.contains(mcst_id) {
            self.refuse(network, groups, mcst_id, leader, Refusal::Taken);
            return None;
        }
        self.limits.lead(leader, mcst_id);
        let deadline = now + network.config().mrp_timeout_ns;
        self.deadlines.set(mcst_id, deadline);
        self.agents.insert((mcst_id, switch), agent);
        Some(self.build(network, groups, switch, mcst_id))
    }

    /// Drops claims with missing packets or agreements after their deadline.
    pub(in crate::controller) fn claim_timeout(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &Groups,
    ) {
        while let Some(key) = self.claim_deadlines.pop_due(now) {
            let (mcst_id, leader) = key;
            let missing = self.drop_claim(key).and_then(|claim| claim.missing);
            match missing {
                Some(missing) => {
                    self.stats.refused += 1;
                    let silent: Vec<Ipv4Addr> = missing.into_keys().collect();
                    let reason = Refusal::NotAgreed.bits();
                    transmit::report_members(
                        network,
                        groups,
                        mcst_id,
                        leader,
                        Kind::Refuse,
                        reason,
                        &silent,
                    );
                }
                None => self.refuse(network, groups, mcst_id, leader, Refusal::Busy),
            }
        }
    }

    /// Processes a host's agreement to become a member. Continues the registration or the join once no agreement is
    /// missing.
    pub(super) fn agree(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &mut Groups,
        received: &Received,
    ) -> Vec<Command> {
        let (host, mcst_id) = (received.source, received.destination);
        let packet = &received.packet;
        let node = packet.members().find(|node| node.ip == host);
        let group = packet.group().filter(|group| group.ip == mcst_id);
        let (Some(node), Some(group), Some(leader)) = (node, group, packet.leader()) else {
            self.stats.wrong += 1;
            return Vec::new();
        };
        self.stats.accepted += 1;
        let mut commands = Vec::new();
        let key = (mcst_id, leader.ip);
        let claim = self.claims.get_mut(&key);
        if claim.is_some_and(|claim| claim.record_agreement(node, group)) {
            commands.extend(self.claim_agreed(now, network, groups, key));
        }
        let own = transmit::group_node(groups, mcst_id);
        let Some(open) = self.invitations.open.get_mut(&mcst_id) else {
            return commands;
        };
        let asked = open.missing.get(&host);
        let is_right = leader.ip == open.leader && (group.ip, group.qpn) == (own.ip, own.qpn);
        if !is_right || asked.is_none_or(|asked| !is_same_endpoint(asked, node)) {
            return commands;
        }
        open.missing.remove(&host);
        if !open.missing.is_empty() {
            return commands;
        }
        let action = open.action;
        self.invitations.discard(mcst_id);
        commands.push(match action {
            OnAgreement::Register => Command::Agreed(mcst_id),
            OnAgreement::Join(origin, spec) => Command::Join(origin, mcst_id, spec),
        });
        commands
    }

    /// Repeats invitations that are due. Returns the command that fails the first one whose deadline has passed; `None` if no
    /// further invitation is due.
    pub(in crate::controller) fn invitation_timeout(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &Groups,
    ) -> Option<Command> {
        while let Some(mcst_id) = self.invitations.timers.pop_due(now) {
            let Some(open) = self.invitations.open.get(&mcst_id) else {
                continue;
            };
            if now < open.deadline {
                let next = open.deadline.min(now + network.config().mrp_repeat_ns);
                self.invitations.timers.set(mcst_id, next);
                self.send_invitations(network, groups, mcst_id);
                continue;
            }
            let members = open.missing.keys().copied().collect();
            let action = open.action;
            self.invitations.discard(mcst_id);
            let error = GroupError::NotAgreed { mcst_id, members };
            return Some(match action {
                OnAgreement::Register => Command::NotAgreed(mcst_id, error),
                OnAgreement::Join(origin, _) => Command::ChangeFailed(mcst_id, origin, error),
            });
        }
        None
    }
}
