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
use super::creation::Creation;
use super::error::{GroupError, SwitchError};
use super::event::{RegisterGroup, Tag};
use super::group::{Group, GroupPart};
use super::mrp::Growth;
use super::procedure::Run;
use super::removal::{Reason, Removal};
use super::status::{self, GroupOnSwitch, GroupStatus};
use super::{ApiReply, Controller};
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

impl Controller {
    pub(super) fn group_status(&self, registration: &Registration) -> GroupStatus {
        let group = &registration.group;
        let is_up = |on: &GroupPart| self.switches[on.switch.0].boot.is_ready();
        let switches = group.parts.iter().map(|on| GroupOnSwitch {
            switch: self.topology.switch(on.switch).name.clone(),
            group_index: on.group_index,
            ports: on.paths.iter().map(|path| path.port).collect(),
        });
        GroupStatus {
            mcst_id: group.mcst_id,
            state: registration.public_state(group.parts.iter().all(is_up)),
            members: group.members.iter().map(|m| m.spec.ip).collect(),
            switches: switches.collect(),
        }
    }

    pub(super) fn register(&mut self, now: u64, tag: Tag, request: RegisterGroup) {
        let group = match self.plan(&request) {
            Err(error) => return self.queue_reply(ApiReply::Failed { tag, error }),
            Ok(group) => group,
        };
        let mcst_id = group.mcst_id;
        let registration = Registration {
            state: GroupState::Inviting(tag),
            ..Registration::in_use(group)
        };
        self.groups.insert(mcst_id, registration);
        match self.config.ask_members {
            true => self.invite_all(now, mcst_id),
            false => self.register_agreed(now, mcst_id),
        }
    }

    /// Creates a group once all its members have agreed.
    pub(super) fn register_agreed(&mut self, now: u64, mcst_id: Ipv4Addr) {
        let Some(registration) = self.groups.get_mut(&mcst_id) else {
            return;
        };
        let GroupState::Inviting(tag) = registration.state else {
            return;
        };
        let creation = Creation {
            mcst_id,
            agent: None,
        };
        registration.state = GroupState::Creating(tag, Run::new(creation));
        self.begin::<Creation>(now, creation);
    }

    /// Fails a registration because members have not agreed in time.
    pub(super) fn register_not_agreed(&mut self, mcst_id: Ipv4Addr, error: GroupError) {
        let registration = self.groups.get(&mcst_id);
        let Some(GroupState::Inviting(tag)) = registration.map(|r| &r.state) else {
            return;
        };
        let tag = *tag;
        if let Some(registration) = self.groups.remove(&mcst_id) {
            self.release_plan(&registration.group);
            self.note_leader(mcst_id);
            self.queue_reply(ApiReply::Failed { tag, error });
        }
    }

    /// Ends the creation of a group, which succeeded or was undone.
    pub(super) fn group_created(&mut self, now: u64, mcst_id: Ipv4Addr) {
        let Some(registration) = self.groups.get_mut(&mcst_id) else {
            return;
        };
        match std::mem::replace(&mut registration.state, GroupState::InUse) {
            GroupState::Creating(tag, run) if run.is_done() => {
                let group = registration.group.info();
                self.virtual_qpns.record(mcst_id, group.remote_qpn);
                self.queue_reply(ApiReply::GroupReady { tag, group });
                self.renew_lease(now, mcst_id);
            }
            GroupState::Creating(tag, run) => {
                let (_, outcome) = run.into_outcome();
                self.discard_group(mcst_id, &outcome.possible_leftovers);
                if let Some(error) = outcome.into_group_error() {
                    self.queue_reply(ApiReply::Failed { tag, error });
                }
            }
            other => registration.state = other,
        }
    }

    pub(super) fn deregister(&mut self, now: u64, tag: Tag, mcst_id: Ipv4Addr) {
        let error = match self.groups.get_mut(&mcst_id).map(|r| &mut r.state) {
            None => GroupError::NoSuchGroup(mcst_id),
            Some(GroupState::InUse) => return self.remove(now, mcst_id, Reason::Request(tag)),
            // A change started by the controller must not reject a request to remove the group.
            Some(GroupState::Changing {
                removal: removal @ None,
                ..
            }) => {
                *removal = Some(tag);
                return;
            }
            Some(_) => GroupError::Busy(mcst_id),
        };
        self.queue_reply(ApiReply::Failed { tag, error });
    }

    /// Removes a group in use.
    pub(super) fn remove(&mut self, now: u64, mcst_id: Ipv4Addr, reason: Reason) {
        let registration = self.groups.get_mut(&mcst_id);
        if let Some(registration) = registration.filter(|r| r.is_at_rest()) {
            let removal = Removal { mcst_id, reason };
            registration.state = GroupState::Removing(Run::new(removal));
            self.begin::<Removal>(now, mcst_id);
        }
    }

    pub(super) fn group_removed(&mut self, mcst_id: Ipv4Addr) {
        let Some(registration) = self.groups.get_mut(&mcst_id) else {
            return;
        };
        let run = match std::mem::replace(&mut registration.state, GroupState::InUse) {
            GroupState::Removing(run) => run,
            other => {
                registration.state = other;
                return;
            }
        };
        let (removal, outcome) = run.into_outcome();
        let Some(group) = self.discard_group(mcst_id, &outcome.possible_leftovers) else {
            return;
        };
        let unwind = outcome.errors;
        let reply = match removal.reason {
            Reason::Request(tag) if unwind.is_empty() => ApiReply::GroupRemoved { tag, mcst_id },
            Reason::Request(tag) => ApiReply::Failed {
                tag,
                error: GroupError::Removal { mcst_id, unwind },
            },
            Reason::Dissolved(leader) => {
                if unwind.is_empty() {
                    self.mrp_reply(mcst_id, leader, Kind::Confirm, 0);
                }
                ApiReply::GroupDissolved { mcst_id }
            }
            Reason::Expired => {
                // The leader may be alive, so it is notified.
                if let Some(leader) = group.members.first() {
                    let reason = Refusal::NoSuchGroup.bits();
                    self.mrp_reply(mcst_id, leader.spec.ip, Kind::Refuse, reason);
                }
                ApiReply::GroupExpired { mcst_id }
            }
        };
        self.queue_reply(reply);
    }

    /// Drops a group and frees its allocations, except on switches in `possible_leftovers`, which may still have entries
    /// of it.
    pub(super) fn discard_group(
        &mut self,
        mcst_id: Ipv4Addr,
        possible_leftovers: &BTreeSet<SwitchIndex>,
    ) -> Option<Group> {
        self.punts.discard_group(mcst_id);
        self.recoveries.discard_group(mcst_id);
        self.leases.discard(mcst_id);
        self.mrp.invitations.discard(mcst_id);
        let Registration { group, .. } = self.groups.remove(&mcst_id)?;
        self.note_leader(mcst_id);
        self.loads.remove(&group.tree);
        for on in &group.parts {
            let control = &mut self.switches[on.switch.0];
            let index = on.group_index;
            if possible_leftovers.contains(&on.switch) {
                control.capacity.quarantine(index);
                control.leftovers.insert((u32::from(index), mcst_id));
            } else {
                control.capacity.release(index);
            }
        }
        self.release_address(mcst_id);
        Some(group)
    }

    /// Cancels running procedures that depend on a switch that has lost all its entries.
    pub(super) fn fail_registrations(
        &mut self,
        now: u64,
        switch: SwitchIndex,
        error: &SwitchError,
    ) {
        let mut grown = Vec::new();
        for (mcst_id, registration) in &mut self.groups {
            if registration.switch_failed(switch, error) {
                grown.push(*mcst_id);
            }
        }
        for mcst_id in grown {
            self.growth_switch_failed(now, mcst_id, switch, error);
        }
    }
}
