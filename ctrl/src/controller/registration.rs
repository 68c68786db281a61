//! Life cycle of a group, and its state.
//!
//! ```text
//!  a client:  [Inviting] ──▶ Creating ──▶ InUse ◀──▶ Changing
//!  a leader:  Growing ─────────────────▶  │
//!                                         ▼
//!                                      Removing ──▶ gone
//! ```
//!
//! A creation that fails is undone, and the group is removed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use alfirk_roce::wire::mrp::{Kind, Refusal};
use alfirk_roce::wire::Psn;

use super::change::Change;
use super::command::Command;
use super::creation::Creation;
use super::error::{GroupError, SwitchError};
use super::event::{ApiReply, RegisterGroup, Tag};
use super::group::{Group, GroupPart};
use super::groups::Groups;
use super::mrp::{transmit, Growth};
use super::network::Network;
use super::procedure::Run;
use super::removal::{Reason, Removal};
use super::status::{self, GroupOnSwitch, GroupStatus};
use crate::topology::SwitchIndex;

/// A group and the state of its life cycle.
#[derive(Debug)]
pub(super) struct Registration {
    group: Group,
    state: GroupState,
    /// Initial PSN of each member that joined after the group was created.
    joined: BTreeMap<Ipv4Addr, Psn>,
    /// Earliest time at which a repeated packet of the leader causes another packet to each member.
    repeats: BTreeMap<Ipv4Addr, u64>,
}

/// State of a group, with the data that only this state needs.
#[derive(Debug)]
enum GroupState {
    /// A leader host has registered the group in band; the agents of the switches create it, switch by switch.
    Growing(Growth),
    /// Members are invited; nothing is written yet.
    Inviting(Tag),
    /// The group is created on a request through the control service.
    Creating(Tag, Run<Creation>),
    InUse,
    /// In use, while members or the tree change.
    Changing {
        change: Box<Run<Change>>,
        /// Request to remove the group after the change; `None` without one.
        removal: Option<Tag>,
    },
    Removing(Run<Removal>),
}

impl Registration {
    /// Creates the registration of a group in use.
    pub(super) fn in_use(group: Group) -> Registration {
        Registration {
            group,
            state: GroupState::InUse,
            joined: BTreeMap::new(),
            repeats: BTreeMap::new(),
        }
    }

    /// Returns those members in `named` to which the registration packet may be sent again: each at most once per
    /// `interval` nanoseconds.
    pub(super) fn may_repeat(
        &mut self,
        now: u64,
        named: impl Iterator<Item = Ipv4Addr>,
        interval: u64,
    ) -> BTreeSet<Ipv4Addr> {
        let members: BTreeSet<Ipv4Addr> = self.group.members.iter().map(|m| m.spec.ip).collect();
        self.repeats.retain(|_, at| *at > now);
        let due = named.filter(|ip| members.contains(ip) && !self.repeats.contains_key(ip));
        let due: BTreeSet<Ipv4Addr> = due.collect();
        self.repeats
            .extend(due.iter().map(|ip| (*ip, now + interval)));
        due
    }

    /// Creates the registration of a group that agents create.
    pub(super) fn growing(group: Group, growth: Growth) -> Registration {
        Registration {
            state: GroupState::Growing(growth),
            ..Registration::in_use(group)
        }
    }

    pub(super) fn group(&self) -> &Group {
        &self.group
    }

    pub(super) fn group_mut(&mut self) -> &mut Group {
        &mut self.group
    }

    /// Whether the group is in use, also while it is being changed.
    pub(super) fn is_ready(&self) -> bool {
        matches!(self.state, GroupState::InUse | GroupState::Changing { .. })
    }

    /// Whether the group is in use and not being changed or removed.
    pub(super) fn is_at_rest(&self) -> bool {
        matches!(self.state, GroupState::InUse)
    }

    pub(super) fn growth(&self) -> Option<&Growth> {
        match &self.state {
            GroupState::Growing(growth) => Some(growth),
            _ => None,
        }
    }

    pub(super) fn growth_mut(&mut self) -> Option<&mut Growth> {
        match &mut self.state {
            GroupState::Growing(growth) => Some(growth),
            _ => None,
        }
    }

    /// Marks the group as in use, once all agents are done.
    pub(super) fn end_growth(&mut self) {
        self.state = GroupState::InUse;
    }

    pub(super) fn creation(&self) -> Option<&Run<Creation>> {
        match &self.state {
            GroupState::Creating(_, run) => Some(run),
            _ => None,
        }
    }

    pub(super) fn creation_mut(&mut self) -> Option<&mut Run<Creation>> {
        match &mut self.state {
            GroupState::Creating(_, run) => Some(run),
            _ => None,
        }
    }

    pub(super) fn change(&self) -> Option<&Run<Change>> {
        match &self.state {
            GroupState::Changing { change, .. } => Some(change),
            _ => None,
        }
    }

    /// The running change, and the group before it; `None` without a change.
    pub(super) fn change_and_group(&mut self) -> Option<(&mut Change, &Group)> {
        match &mut self.state {
            GroupState::Changing { change, .. } => Some((&mut change.procedure, &self.group)),
            _ => None,
        }
    }

    pub(super) fn change_mut(&mut self) -> Option<&mut Run<Change>> {
        match &mut self.state {
            GroupState::Changing { change, .. } => Some(change),
            _ => None,
        }
    }

    pub(super) fn removal(&self) -> Option<&Run<Removal>> {
        match &self.state {
            GroupState::Removing(run) => Some(run),
            _ => None,
        }
    }

    pub(super) fn removal_mut(&mut self) -> Option<&mut Run<Removal>> {
        match &mut self.state {
            GroupState::Removing(run) => Some(run),
            _ => None,
        }
    }

    pub(super) fn begin_change(&mut self, change: Change) {
        self.state = GroupState::Changing {
            change: Box::new(Run::new(change)),
            removal: None,
        };
    }

    /// Ends a change. Returns its procedure, and the request to remove the group if there is one; `None` if there is no
    /// change.
    pub(super) fn end_change(&mut self) -> Option<(Run<Change>, Option<Tag>)> {
        self.change()?;
        match std::mem::replace(&mut self.state, GroupState::InUse) {
            GroupState::Changing { change, removal } => Some((*change, removal)),
            _ => None,
        }
    }

    /// Part on a switch that a running change adds to the group; `None` without one.
    pub(super) fn new_part_on(&self, switch: SwitchIndex) -> Option<&GroupPart> {
        self.change()?.procedure.new_part_on(switch)
    }

    /// Makes the changed group the current one.
    pub(super) fn apply_change(&mut self) {
        if let GroupState::Changing { change, .. } = &self.state {
            self.group.clone_from(&change.procedure.next);
        }
    }

    pub(super) fn note_joined(&mut self, ip: Ipv4Addr, psn: Psn) {
        self.joined.insert(ip, psn);
    }

    /// Initial PSN of a member that joined after the group was created; `None` for other members.
    pub(super) fn initial_psn_of_joined(&self, ip: Ipv4Addr) -> Option<Psn> {
        self.joined.get(&ip).copied()
    }

    /// Cancels running procedures that depend on a switch that has lost all its entries. Returns whether agents are creating a
    /// part there.
    fn switch_failed(&mut self, switch: SwitchIndex, error: &SwitchError) -> bool {
        let is_there = self.group.part_on(switch).is_some();
        match &mut self.state {
            GroupState::Creating(_, run) if is_there => run.switch_failed(switch, error.clone()),
            GroupState::Removing(run) if is_there => run.switch_failed(switch, error.clone()),
            GroupState::Changing { change, .. } if change.procedure.involves(switch) => {
                change.switch_failed(switch, error.clone());
            }
            GroupState::Growing(_) => return is_there,
            _ => {}
        }
        false
    }

    fn public_state(&self, is_whole: bool) -> status::GroupState {
        match self.state {
            GroupState::Growing(_) | GroupState::Inviting(_) | GroupState::Creating(..) => {
                status::GroupState::Registering
            }
            GroupState::InUse | GroupState::Changing { .. } if !is_whole => {
                status::GroupState::Degraded
            }
            GroupState::InUse | GroupState::Changing { .. } => status::GroupState::Ready,
            GroupState::Removing(_) => status::GroupState::Removing,
        }
    }
}

impl Groups {
    /// Status of all groups, in the order of addresses.
    pub(super) fn status(&self, network: &Network) -> Vec<GroupStatus> {
        let status = |registration: &Registration| {
            let group = &registration.group;
            let is_whole = group.parts.iter().all(|on| network.is_ready(on.switch));
            let switches = group.parts.iter().map(|on| GroupOnSwitch {
                switch: network.name(on.switch).to_owned(),
                group_index: on.group_index,
                ports: on.paths.iter().map(|path| path.port).collect(),
            });
            GroupStatus {
                mcst_id: group.mcst_id,
                state: registration.public_state(is_whole),
                members: group.members.iter().map(|m| m.spec.ip).collect(),
                switches: switches.collect(),
            }
        };
        self.iter().map(status).collect()
    }

    /// Registers a group at the request of a client.
    pub(super) fn register(
        &mut self,
        network: &mut Network,
        tag: Tag,
        request: &RegisterGroup,
    ) -> Option<Command> {
        let group = match self.plan(network, request) {
            Err(error) => {
                network.reply(ApiReply::Failed { tag, error });
                return None;
            }
            Ok(group) => group,
        };
        let mcst_id = group.mcst_id;
        self.insert(Registration {
            state: GroupState::Inviting(tag),
            ..Registration::in_use(group)
        });
        match network.config().ask_members {
            true => Some(Command::InviteAll(mcst_id)),
            false => self.agreed(mcst_id),
        }
    }

    /// Creates a group once all its members have agreed.
    pub(super) fn agreed(&mut self, mcst_id: Ipv4Addr) -> Option<Command> {
        let registration = self.get_mut(mcst_id)?;
        let GroupState::Inviting(tag) = registration.state else {
            return None;
        };
        let creation = Creation {
            mcst_id,
            agent: None,
        };
        registration.state = GroupState::Creating(tag, Run::new(creation));
        Some(Command::BeginCreation(creation))
    }

    /// Fails a registration because members have not agreed in time.
    pub(super) fn not_agreed(
        &mut self,
        network: &mut Network,
        mcst_id: Ipv4Addr,
        error: GroupError,
    ) -> Option<Command> {
        let GroupState::Inviting(tag) = self.get(mcst_id)?.state else {
            return None;
        };
        let registration = self.remove_registration(mcst_id)?;
        self.release_plan(network, &registration.group);
        network.reply(ApiReply::Failed { tag, error });
        Some(Command::LeaderChanged(mcst_id))
    }

    /// Ends the creation of a group, which succeeded or was undone.
    pub(super) fn created(&mut self, network: &mut Network, mcst_id: Ipv4Addr) -> Option<Command> {
        let registration = self.get_mut(mcst_id)?;
        match std::mem::replace(&mut registration.state, GroupState::InUse) {
            GroupState::Creating(tag, run) if run.is_done() => {
                let group = registration.group.info();
                self.resources_mut()
                    .record_virtual_qpn(mcst_id, group.remote_qpn);
                network.reply(ApiReply::GroupReady { tag, group });
                Some(Command::RenewLease(mcst_id))
            }
            GroupState::Creating(tag, run) => {
                let (_, outcome) = run.into_outcome();
                self.discard(network, mcst_id, &outcome.possible_leftovers);
                if let Some(error) = outcome.into_group_error() {
                    network.reply(ApiReply::Failed { tag, error });
                }
                Some(Command::GroupDiscarded(mcst_id))
            }
            other => {
                registration.state = other;
                None
            }
        }
    }

    /// Removes a group at the request of a client.
    pub(super) fn deregister(
        &mut self,
        network: &mut Network,
        tag: Tag,
        mcst_id: Ipv4Addr,
    ) -> Option<Command> {
        let error = match self.get_mut(mcst_id).map(|r| &mut r.state) {
            None => GroupError::NoSuchGroup(mcst_id),
            Some(GroupState::InUse) => return self.remove(mcst_id, Reason::Request(tag)),
            // A change started by the controller must not reject a request to remove the group.
            Some(GroupState::Changing {
                removal: removal @ None,
                ..
            }) => {
                *removal = Some(tag);
                return None;
            }
            Some(_) => GroupError::Busy(mcst_id),
        };
        network.reply(ApiReply::Failed { tag, error });
        None
    }

    /// Removes a group in use.
    pub(super) fn remove(&mut self, mcst_id: Ipv4Addr, reason: Reason) -> Option<Command> {
        let registration = self.get_mut(mcst_id).filter(|r| r.is_at_rest())?;
        let removal = Removal { mcst_id, reason };
        registration.state = GroupState::Removing(Run::new(removal));
        Some(Command::BeginRemoval(mcst_id))
    }

    /// Ends the removal of a group, and reports it.
    pub(super) fn removed(&mut self, network: &mut Network, mcst_id: Ipv4Addr) -> Option<Command> {
        let registration = self.get_mut(mcst_id)?;
        let run = match std::mem::replace(&mut registration.state, GroupState::InUse) {
            GroupState::Removing(run) => run,
            other => {
                registration.state = other;
                return None;
            }
        };
        let (removal, outcome) = run.into_outcome();
        let group = self.discard(network, mcst_id, &outcome.possible_leftovers)?;
        let unwind = outcome.errors;
        let reply = match removal.reason {
            Reason::Request(tag) if unwind.is_empty() => ApiReply::GroupRemoved { tag, mcst_id },
            Reason::Request(tag) => ApiReply::Failed {
                tag,
                error: GroupError::Removal { mcst_id, unwind },
            },
            Reason::Dissolved(leader) => {
                if unwind.is_empty() {
                    transmit::reply(network, self, mcst_id, leader, Kind::Confirm, 0);
                }
                ApiReply::GroupDissolved { mcst_id }
            }
            Reason::Expired => {
                // The leader may be alive, so it is notified.
                if let Some(leader) = group.members.first() {
                    let (leader, reason) = (leader.spec.ip, Refusal::NoSuchGroup.bits());
                    transmit::reply(network, self, mcst_id, leader, Kind::Refuse, reason);
                }
                ApiReply::GroupExpired { mcst_id }
            }
        };
        network.reply(reply);
        Some(Command::GroupDiscarded(mcst_id))
    }

    /// Drops a group and frees its allocations, except on switches in `possible_leftovers`, which may still have entries
    /// of it.
    pub(super) fn discard(
        &mut self,
        network: &mut Network,
        mcst_id: Ipv4Addr,
        possible_leftovers: &BTreeSet<SwitchIndex>,
    ) -> Option<Group> {
        let Registration { group, .. } = self.remove_registration(mcst_id)?;
        network.remove_load(&group.tree);
        for on in &group.parts {
            let (switch, index) = (on.switch, on.group_index);
            match possible_leftovers.contains(&switch) {
                true => self.resources_mut().quarantine(switch, index, mcst_id),
                false => self.resources_mut().release(switch, index),
            }
        }
        self.resources_mut().release_address(mcst_id);
        Some(group)
    }

    /// Cancels running procedures that depend on a switch that has lost all its entries.
    pub(super) fn switch_failed(
        &mut self,
        switch: SwitchIndex,
        error: &SwitchError,
    ) -> Vec<Command> {
        let mut grown = Vec::new();
        for registration in self.iter_mut() {
            if registration.switch_failed(switch, error) {
                let mcst_id = registration.group.mcst_id;
                grown.push(Command::GrowthSwitchFailed(mcst_id, switch, error.clone()));
            }
        }
        grown
    }
}
