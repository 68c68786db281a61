//! Planning of a change of a group in use: its new members and tree, and the parts on switches that differ.

use std::net::Ipv4Addr;

use super::{slots_on, Change, Kind, Origin};
use crate::controller::bridge::{BridgeParameters, Bridges, GroupMember};
use crate::controller::error::GroupError;
use crate::controller::event::MemberSpec;
use crate::controller::group::Group;
use crate::controller::groups::Groups;
use crate::controller::network::Network;
use crate::controller::plan::resolve_members;
use crate::topology::SwitchIndex;
use crate::tree::Tree;

impl Groups {
    pub(super) fn plan_join(
        &self,
        network: &Network,
        mcst_id: Ipv4Addr,
        spec: MemberSpec,
    ) -> Result<(Kind, (Group, Tree)), GroupError> {
        let group = self.group_at_rest(mcst_id)?;
        let mut specs: Vec<_> = group.members.iter().map(|member| member.spec).collect();
        specs.push(spec);
        let members = resolve_members(network.topology(), &specs)?;
        let member = members[members.len() - 1];
        let mut tree = group.tree.clone();
        let (root, _) = network.topology().attachment(members[0].host);
        if !network.paths().reaches(root, member.host) {
            return Err(GroupError::Unreachable(spec.ip));
        }
        tree.extend(
            network.planner(),
            &network.view(),
            members[0].host,
            member.host,
        );
        let next = Group {
            members,
            ..group.clone()
        };
        Ok((Kind::Join(member), (next, tree)))
    }

    pub(super) fn plan_leave(
        &self,
        network: &Network,
        mcst_id: Ipv4Addr,
        leaving: &[Ipv4Addr],
        least: usize,
    ) -> Result<(Group, Tree), GroupError> {
        let group = self.group_at_rest(mcst_id)?;
        let is_member = |ip: &Ipv4Addr| group.members.iter().any(|m| m.spec.ip == *ip);
        if let Some(stranger) = leaving.iter().find(|ip| !is_member(ip)) {
            return Err(GroupError::NotMember {
                mcst_id,
                ip: *stranger,
            });
        }
        let (gone, members): (Vec<_>, Vec<_>) = group
            .members
            .iter()
            .copied()
            .partition(|member| leaving.contains(&member.spec.ip));
        if members.len() < least {
            return Err(GroupError::TooFewMembers(members.len()));
        }
        let gone: Vec<_> = gone.iter().map(|member| member.host).collect();
        let tree = group.tree.without(network.topology(), &gone);
        let next = Group {
            members,
            ..group.clone()
        };
        Ok((next, tree))
    }

    pub(super) fn plan_reroute(
        &self,
        network: &Network,
        mcst_id: Ipv4Addr,
    ) -> Result<(Kind, (Group, Tree)), GroupError> {
        let group = self.group_at_rest(mcst_id)?;
        let (members, cut_off) = largest_part(network, &group.members);
        if members.len() < 2 {
            let nowhere = cut_off.first().or(members.first());
            let ip = nowhere.map_or(mcst_id, |member| member.spec.ip);
            return Err(GroupError::Unreachable(ip));
        }
        let hosts: Vec<_> = members.iter().map(|member| member.host).collect();
        let tree = network.grow_tree(&hosts);
        let lost = cut_off.iter().map(|member| member.spec.ip).collect();
        let next = Group {
            members,
            ..group.clone()
        };
        Ok((Kind::Reroute(lost), (next, tree)))
    }

    fn group_at_rest(&self, mcst_id: Ipv4Addr) -> Result<&Group, GroupError> {
        match self.get(mcst_id) {
            None => Err(GroupError::NoSuchGroup(mcst_id)),
            Some(registration) if registration.is_at_rest() => Ok(registration.group()),
            Some(_) => Err(GroupError::Busy(mcst_id)),
        }
    }

    /// Prepares a change to the group `next` with the tree `tree`: allocates resources for the parts that differ from the
    /// current ones, and checks their entries.
    pub(super) fn prepare_change(
        &mut self,
        network: &Network,
        kind: Kind,
        origin: Origin,
        mut next: Group,
        tree: Tree,
    ) -> Result<Change, GroupError> {
        // A port may lead to other members after rerouting, so its acknowledged PSN is not valid any more.
        let is_reroute = matches!(kind, Kind::Reroute(_));
        let old = std::mem::take(&mut next.parts);
        let old_tree = std::mem::replace(&mut next.tree, tree);
        let is_same = |switch: SwitchIndex| {
            !is_reroute && old_tree.ports_on(switch).eq(next.tree.ports_on(switch))
        };
        let changed: Vec<SwitchIndex> = next
            .tree
            .switches()
            .map(|(switch, _)| switch)
            .filter(|switch| !is_same(*switch))
            .collect();
        let part = Tree::from_ports(
            changed
                .iter()
                .map(|switch| (*switch, next.tree.ports_on(*switch).collect()))
                .collect(),
        );
        let kept = |switch| slots_on(&old, switch);
        self.check_switches(network, &part, kept)?;
        let (kept, old_parts): (Vec<_>, Vec<_>) =
            old.into_iter().partition(|on| is_same(on.switch));
        let away = old_parts.iter().find(|on| !network.is_ready(on.switch));
        if let (Some(away), false) = (away, is_reroute) {
            return Err(GroupError::SwitchNotReady {
                switch: network.topology().switch(away.switch).name.clone(),
                why: "the group cannot be changed without it".to_owned(),
            });
        }
        let parameters = BridgeParameters::new(next.mcst_id, next.virtual_qpn, next.strategies);
        let bridges = Bridges::solve(&parameters, &next.members)?;
        let mut new_parts = Vec::new();
        for switch in changed {
            let at = (switch, next.tree.ports_on(switch));
            let kept = slots_on(&old_parts, switch);
            let part = self.allocate_part(network.topology(), at, kept, &bridges);
            new_parts.push(part.expect("capacity was checked before"));
        }
        next.parts = kept.into_iter().chain(new_parts.iter().cloned()).collect();
        next.parts.sort_by_key(|on| on.switch);
        if let Err(error) = next.check_constraints(network.program()) {
            for on in &new_parts {
                self.resources_mut().release(on.switch, on.group_index);
            }
            return Err(error);
        }
        Ok(Change::new(kind, origin, next, old_parts, new_parts))
    }
}

/// Splits members into those that the leader can reach, and the others. If the leader reaches none, the largest set of
/// members that reach each other is kept.
fn largest_part(
    network: &Network,
    members: &[GroupMember],
) -> (Vec<GroupMember>, Vec<GroupMember>) {
    let reachable_from = |root: &GroupMember| {
        let (switch, _) = network.topology().attachment(root.host);
        let is_here = |m: &&GroupMember| network.paths().reaches(switch, m.host);
        members.iter().filter(is_here).count()
    };
    let leader = members.first().filter(|m| reachable_from(m) > 1);
    // Of sets of equal size, the one with the first member.
    let most = || members.iter().rev().max_by_key(|m| reachable_from(m));
    let best = leader.or_else(most);
    let Some((switch, _)) = best.map(|root| network.topology().attachment(root.host)) else {
        return (Vec::new(), Vec::new());
    };
    members
        .iter()
        .partition(|m| network.paths().reaches(switch, m.host))
}
