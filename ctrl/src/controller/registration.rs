//! Making and removing groups: one step after the other, on all switches of the tree at once.
//!
//! Registers come first, then egress, replication and ingress entries, and last, when all of these stand on every
//! switch, the entries that make the group visible.  So no packet meets half a group.  Removal goes the other way round,
//! and so does undoing after a failure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use alfirk_roce::wire::mrp::{Kind, Refusal};
use alfirk_roce::wire::Psn;

use super::change::Change;
use super::error::{GroupError, SwitchError};
use super::event::{MemberSpec, MemoryRegion, RegisterGroup, Tag};
use super::group::{wanted, Group, GroupMember, MembersByHost, OnSwitch};
use super::mrp::Growth;
use super::position::Position;
use super::session::{Task, TaskId};
use super::status::{GroupOnSwitch, GroupState, GroupStatus};
use super::{ApiReply, Controller, Owner};
use crate::constants::{RECOMPUTE_MASK, RECOMPUTE_NETWORK};
use crate::strategy::{IcrcMode, Strategies};
use crate::topology::{SwitchIndex, Topology};
use crate::tree::Tree;

/// A group and how far it is.
#[derive(Debug)]
pub(super) struct Registration {
    group: Group,
    step: Step,
    pending: BTreeSet<TaskId>,
    /// First error of each switch in the present direction.
    errors: BTreeMap<SwitchIndex, SwitchError>,
    /// Switches that may hold something of the group, or may still come to, whatever is removed.
    suspects: BTreeSet<SwitchIndex>,
    goal: Goal,
    /// While agents make it.
    growth: Option<Growth>,
    /// While members come or go, or the tree is led elsewhere.
    change: Option<Change>,
    /// Who wants the group gone as soon as the change is over.
    removal: Option<Tag>,
    /// Members that came later, and the PSN with which each started.
    joined: BTreeMap<Ipv4Addr, Psn>,
}

/// Each step starts when every task of the one before is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Agents make it, switch by switch.
    Growing,
    /// Its members are asked whether they agree; nothing is written yet.
    Inviting,
    Registers,
    Entries,
    Publication,
    Ready,
    /// In use, and being changed.
    Changing,
    Withdrawal,
    Removal,
}

/// What the steps lead to.
#[derive(Debug)]
enum Goal {
    /// The group in use.
    Make(Tag),
    /// The group gone, because a user asked for it.
    Remove(Tag),
    /// The group gone, because its leader asked for it in band.
    Dissolve(Ipv4Addr),
    /// The group gone, because nothing is heard of it any more.
    Expire,
    /// The group gone, because a switch failed.
    Undo(Tag, SwitchError),
    /// Nothing; nobody waits.
    None,
}

impl Registration {
    /// Whether the group is in use.
    pub(super) fn is_ready(&self) -> bool {
        matches!(self.step, Step::Ready | Step::Changing)
    }

    /// Whether it is in use and nothing is being done to it.
    pub(super) fn is_at_rest(&self) -> bool {
        self.step == Step::Ready
    }

    pub(super) fn begin_change(&mut self, change: Change) {
        self.step = Step::Changing;
        self.change = Some(change);
    }

    /// The change under way, and the group that it is about.
    pub(super) fn change_mut(&mut self) -> Option<(&mut Group, &mut Change)> {
        Some((&mut self.group, self.change.as_mut()?))
    }

    /// The part on a switch that a change under way is about to put in place of another.
    pub(super) fn coming_on(&self, switch: SwitchIndex) -> Option<&OnSwitch> {
        self.change.as_ref()?.fresh_on(switch)
    }

    pub(super) fn end_change(&mut self) -> Option<Change> {
        self.step = Step::Ready;
        self.change.take()
    }

    pub(super) fn forget_task(&mut self, task: TaskId) {
        self.pending.remove(&task);
    }

    pub(super) fn note_joined(&mut self, ip: Ipv4Addr, psn: Psn) {
        self.joined.insert(ip, psn);
    }

    /// The PSN with which a member started that is not of the first hour.
    pub(super) fn joined_at(&self, ip: Ipv4Addr) -> Option<Psn> {
        self.joined.get(&ip).copied()
    }

    pub(super) fn group(&self) -> &Group {
        &self.group
    }

    fn failed_on(&mut self, switch: SwitchIndex, error: SwitchError) {
        let is_removal = matches!(self.step, Step::Withdrawal | Step::Removal);
        if is_removal || !error.is_definite() {
            self.suspects.insert(switch);
        }
        self.errors.entry(switch).or_insert(error);
    }

    /// A group that is in use already.
    pub(super) fn adopted(group: Group) -> Registration {
        Registration {
            group,
            step: Step::Ready,
            pending: BTreeSet::new(),
            errors: BTreeMap::new(),
            suspects: BTreeSet::new(),
            goal: Goal::None,
            growth: None,
            change: None,
            removal: None,
            joined: BTreeMap::new(),
        }
    }

    /// A group that agents make.
    pub(super) fn growing(group: Group, growth: Growth) -> Registration {
        Registration {
            step: Step::Growing,
            growth: Some(growth),
            ..Registration::adopted(group)
        }
    }

    pub(super) fn growth(&self) -> Option<&Growth> {
        self.growth.as_ref()
    }

    pub(super) fn growth_mut(&mut self) -> Option<&mut Growth> {
        self.growth.as_mut()
    }

    /// The agents are done.
    pub(super) fn has_grown(&mut self) {
        self.growth = None;
        self.step = Step::Ready;
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    pub(super) fn wait_for(&mut self, task: TaskId) {
        self.pending.insert(task);
    }

    pub(super) fn stop_waiting(
        &mut self,
        switch: SwitchIndex,
        task: TaskId,
        result: &Result<u64, SwitchError>,
    ) {
        self.pending.remove(&task);
        if let Err(error) = result {
            self.failed_on(switch, error.clone());
        }
    }

    pub(super) fn group_mut(&mut self) -> &mut Group {
        &mut self.group
    }

    fn status(&self, topology: &Topology, is_whole: bool) -> GroupStatus {
        let switches = self.group.switches.iter().map(|on| GroupOnSwitch {
            switch: topology.switch(on.switch).name.clone(),
            group_index: on.group_index,
            ports: on.paths.iter().map(|path| path.port).collect(),
        });
        GroupStatus {
            mcst_id: self.group.mcst_id,
            state: match self.step {
                Step::Growing
                | Step::Inviting
                | Step::Registers
                | Step::Entries
                | Step::Publication => GroupState::Registering,
                Step::Ready | Step::Changing if !is_whole => GroupState::Degraded,
                Step::Ready | Step::Changing => GroupState::Ready,
                Step::Withdrawal | Step::Removal => GroupState::Removing,
            },
            members: self.group.members.iter().map(|m| m.spec.ip).collect(),
            switches: switches.collect(),
        }
    }
}

impl Controller {
    pub(super) fn group_status(&self, registration: &Registration) -> GroupStatus {
        let is_up = |on: &OnSwitch| self.switches[on.switch.0].boot.is_ready();
        let is_whole = registration.group.switches.iter().all(is_up);
        registration.status(&self.topology, is_whole)
    }

    pub(super) fn register(&mut self, now: u64, tag: Tag, request: RegisterGroup) {
        match self.plan(&request) {
            Err(error) => self.say(ApiReply::Failed { tag, error }),
            Ok(group) => {
                let mcst_id = group.mcst_id;
                let registration = Registration {
                    step: Step::Registers,
                    goal: Goal::Make(tag),
                    ..Registration::adopted(group)
                };
                self.groups.insert(mcst_id, registration);
                match self.config.ask_members {
                    true => self.group_step(now, mcst_id, Step::Inviting),
                    false => self.group_step(now, mcst_id, Step::Registers),
                }
            }
        }
    }

    /// All members have agreed to be in a group.
    pub(super) fn register_agreed(&mut self, now: u64, mcst_id: Ipv4Addr) {
        let registration = self.groups.get(&mcst_id);
        if registration.is_some_and(|r| r.step == Step::Inviting) {
            self.group_step(now, mcst_id, Step::Registers);
        }
    }

    /// Some have not, in time.
    pub(super) fn register_not_agreed(&mut self, mcst_id: Ipv4Addr, error: GroupError) {
        let registration = self.groups.get(&mcst_id);
        if !registration.is_some_and(|r| r.step == Step::Inviting) {
            return;
        }
        if let Some(Registration { group, goal, .. }) = self.groups.remove(&mcst_id) {
            self.give_back(&group);
            self.note_leader(mcst_id);
            if let Goal::Make(tag) = goal {
                self.say(ApiReply::Failed { tag, error });
            }
        }
    }

    pub(super) fn deregister(&mut self, now: u64, tag: Tag, mcst_id: Ipv4Addr) {
        let error = match self.groups.get_mut(&mcst_id) {
            None => GroupError::NoSuchGroup(mcst_id),
            Some(registration) if registration.is_at_rest() => {
                registration.goal = Goal::Remove(tag);
                return self.group_step(now, mcst_id, Step::Withdrawal);
            }
            // A change that nobody asked for must not be in the way of those who are done with the group.
            Some(registration)
                if registration.change.is_some() && registration.removal.is_none() =>
            {
                registration.removal = Some(tag);
                return;
            }
            Some(_) => GroupError::Busy(mcst_id),
        };
        self.say(ApiReply::Failed { tag, error });
    }

    /// Goes on with what has waited for the end of a change; returns whether the group is being removed.
    pub(super) fn remove_after_change(&mut self, now: u64, mcst_id: Ipv4Addr) -> bool {
        let registration = self.groups.get_mut(&mcst_id);
        let tag = registration.and_then(|registration| registration.removal.take());
        if let Some(tag) = tag {
            self.deregister(now, tag, mcst_id);
        }
        tag.is_some()
    }

    pub(super) fn group_done(
        &mut self,
        now: u64,
        mcst_id: Ipv4Addr,
        switch: SwitchIndex,
        task: TaskId,
        result: Result<u64, SwitchError>,
    ) {
        let Some(registration) = self.groups.get_mut(&mcst_id) else {
            return;
        };
        registration.pending.remove(&task);
        if let Err(error) = result {
            registration.failed_on(switch, error);
        }
        if !registration.pending.is_empty() {
            return;
        }
        let (step, failed) = (registration.step, !registration.errors.is_empty());
        match step {
            Step::Registers | Step::Entries if failed => self.undo(now, mcst_id, Step::Removal),
            Step::Publication if failed => self.undo(now, mcst_id, Step::Withdrawal),
            Step::Registers => self.group_step(now, mcst_id, Step::Entries),
            Step::Entries => self.group_step(now, mcst_id, Step::Publication),
            Step::Publication => self.group_made(now, mcst_id),
            Step::Withdrawal => self.group_step(now, mcst_id, Step::Removal),
            Step::Removal => self.group_gone(mcst_id),
            Step::Ready | Step::Changing | Step::Growing | Step::Inviting => {}
        }
    }

    /// Removes a group in use because its leader asked for it in band.
    pub(super) fn remove_for_leader(&mut self, now: u64, mcst_id: Ipv4Addr, leader: Ipv4Addr) {
        if let Some(registration) = self.groups.get_mut(&mcst_id) {
            registration.goal = Goal::Dissolve(leader);
            self.group_step(now, mcst_id, Step::Withdrawal);
        }
    }

    /// Removes a group in use of which nothing is heard any more.
    pub(super) fn remove_expired(&mut self, now: u64, mcst_id: Ipv4Addr) {
        if let Some(registration) = self.groups.get_mut(&mcst_id) {
            registration.goal = Goal::Expire;
            self.group_step(now, mcst_id, Step::Withdrawal);
        }
    }

    /// Removes what agents have made so far.
    pub(super) fn undo_growth(&mut self, now: u64, mcst_id: Ipv4Addr) {
        if let Some(registration) = self.groups.get_mut(&mcst_id) {
            registration.growth = None;
            registration.errors.clear();
            if registration.group.switches.is_empty() {
                return self.group_gone(mcst_id);
            }
            self.group_step(now, mcst_id, Step::Withdrawal);
        }
    }

    /// A switch has lost all its entries: groups that are being made must not go on as if it still had them.
    pub(super) fn fail_registrations(
        &mut self,
        now: u64,
        switch: SwitchIndex,
        error: &SwitchError,
    ) {
        let mut grown = Vec::new();
        for registration in self.groups.values_mut() {
            let is_there = registration
                .group
                .switches
                .iter()
                .any(|on| on.switch == switch);
            let is_making = !matches!(registration.step, Step::Ready | Step::Changing);
            if is_there && is_making && !registration.pending.is_empty() {
                registration.failed_on(switch, error.clone());
            }
            if let Some(change) = registration.change.as_mut().filter(|c| c.concerns(switch)) {
                change.fail(error.clone());
            }
            if is_there && registration.step == Step::Growing {
                registration.suspects.insert(switch);
                grown.push(registration.group.mcst_id);
            }
        }
        for mcst_id in grown {
            self.mrp_fail(now, mcst_id, Refusal::SwitchFailed);
        }
    }

    fn group_step(&mut self, now: u64, mcst_id: Ipv4Addr, step: Step) {
        let Some(registration) = self.groups.get_mut(&mcst_id) else {
            return;
        };
        registration.step = step;
        if step == Step::Inviting {
            return self.invite_all(now, mcst_id);
        }
        let group = &registration.group;
        let tasks = group.switches.iter().flat_map(|on| {
            let updates = match step {
                Step::Registers => {
                    let tasks = group.registers(&self.topology, on, &BTreeMap::new());
                    return tasks.into_iter().map(|task| (on.switch, task)).collect();
                }
                // The constants were solved when the group was planned.
                Step::Entries => group.entries(&self.program, on).unwrap_or_default(),
                Step::Publication => vec![group.publication(&self.program, on)],
                Step::Withdrawal => vec![group.withdrawal(&self.program)],
                Step::Removal => group.removal(&self.program, on),
                Step::Ready | Step::Changing | Step::Growing | Step::Inviting => Vec::new(),
            };
            vec![(on.switch, Task::Write(updates))]
        });
        let tasks: Vec<_> = tasks.collect();
        for (switch, task) in tasks {
            let id = self.submit(now, switch, Owner::Group(mcst_id, switch), task);
            if let Some(registration) = self.groups.get_mut(&mcst_id) {
                registration.pending.insert(id);
            }
        }
    }

    fn undo(&mut self, now: u64, mcst_id: Ipv4Addr, step: Step) {
        if let Some(registration) = self.groups.get_mut(&mcst_id) {
            let first = registration.errors.pop_first();
            registration.errors.clear();
            if let (Goal::Make(tag), Some((_, initial))) = (&registration.goal, first) {
                registration.goal = Goal::Undo(*tag, initial);
            }
        }
        self.group_step(now, mcst_id, step);
    }

    fn group_made(&mut self, now: u64, mcst_id: Ipv4Addr) {
        let Some(registration) = self.groups.get_mut(&mcst_id) else {
            return;
        };
        registration.step = Step::Ready;
        let group = registration.group.info();
        self.virtual_qpns.used(mcst_id, group.remote_qpn);
        if let Goal::Make(tag) = registration.goal {
            self.say(ApiReply::GroupReady { tag, group });
        }
        self.sign_of_life(now, mcst_id);
    }

    fn group_gone(&mut self, mcst_id: Ipv4Addr) {
        self.punts.forget_group(mcst_id);
        self.leases.forget(mcst_id);
        self.mrp.invitations.forget(mcst_id);
        let Some(registration) = self.groups.remove(&mcst_id) else {
            return;
        };
        self.note_leader(mcst_id);
        let Registration {
            group,
            errors,
            suspects,
            goal,
            ..
        } = registration;
        self.loads.remove(&group.tree);
        for on in &group.switches {
            let control = &mut self.switches[on.switch.0];
            let index = on.group_index;
            if suspects.contains(&on.switch) {
                control.room.spoil(index);
                control.leftovers.insert((u32::from(index), mcst_id));
            } else {
                control.room.release(index);
            }
        }
        self.release_address(mcst_id);
        // A switch that is away loses its entries when it comes back; that is no failure.
        let unwind: Vec<_> = errors
            .into_values()
            .filter(|error| !matches!(error, SwitchError::Lost { .. }))
            .collect();
        let reply = match goal {
            Goal::None => return,
            Goal::Dissolve(leader) => {
                if unwind.is_empty() {
                    self.mrp_answer(mcst_id, leader, Kind::Confirm, 0);
                }
                ApiReply::GroupDissolved { mcst_id }
            }
            Goal::Expire => {
                // Should it be there after all, it is to know.
                if let Some(leader) = group.members.first() {
                    let reason = Refusal::NoSuchGroup.bits();
                    self.mrp_answer(mcst_id, leader.spec.ip, Kind::Refuse, reason);
                }
                ApiReply::GroupExpired { mcst_id }
            }
            Goal::Undo(tag, initial) if unwind.is_empty() => ApiReply::Failed {
                tag,
                error: GroupError::Switch(initial),
            },
            Goal::Undo(tag, initial) => ApiReply::Failed {
                tag,
                error: GroupError::Unwind {
                    initial: Box::new(initial),
                    unwind,
                },
            },
            Goal::Remove(tag) | Goal::Make(tag) if unwind.is_empty() => {
                ApiReply::GroupRemoved { tag, mcst_id }
            }
            Goal::Remove(tag) | Goal::Make(tag) => ApiReply::Failed {
                tag,
                error: GroupError::Removal { mcst_id, unwind },
            },
        };
        self.say(reply);
    }

    /// Checks a request, grows its tree, and takes an address and an index on every switch.
    fn plan(&mut self, request: &RegisterGroup) -> Result<Group, GroupError> {
        let members = self.resolve_members(&request.members)?;
        let hosts: Vec<_> = members.iter().map(|member| member.host).collect();
        let (root, _) = self.topology.attachment(hosts[0]);
        let cut_off = members.iter().find(|m| !self.paths().reaches(root, m.host));
        if let Some(member) = cut_off {
            return Err(GroupError::Unreachable(member.spec.ip));
        }
        let tree = Tree::grow(&self.planner, &self.view(), &hosts);
        self.check_switches(&tree, |_| BTreeMap::new())?;
        let mcst_id = self.take_address(request.mcst_id, request.strategies)?;
        let virtual_qpn = match self.virtual_qpns.choose(mcst_id, request.virtual_qpn) {
            Ok(virtual_qpn) => virtual_qpn,
            Err(error) => {
                self.release_address(mcst_id);
                return Err(error.into());
            }
        };
        let mut switches = Vec::new();
        let by_host = MembersByHost::new(&members);
        for (switch, ports) in tree.switches() {
            let ports = || ports.iter().copied();
            let wanted = wanted(&self.topology, switch, ports(), BTreeMap::new());
            let granted = self.switches[switch.0].room.take(&wanted);
            let granted = granted.expect("room was checked before");
            let on = OnSwitch::new(&self.topology, switch, &granted, ports(), &by_host);
            switches.push(on);
        }
        let group = Group {
            mcst_id,
            virtual_qpn,
            initial_psn: request.initial_psn,
            strategies: request.strategies,
            in_band: false,
            position: Position::before(request.initial_psn),
            source: None,
            members,
            tree,
            switches,
        };
        self.loads.add(&group.tree);
        if let Err(error) = group.check(&self.program) {
            self.give_back(&group);
            return Err(error);
        }
        Ok(group)
    }

    pub(super) fn resolve_members(
        &self,
        specs: &[MemberSpec],
    ) -> Result<Vec<GroupMember>, GroupError> {
        if specs.len() < 2 {
            return Err(GroupError::TooFewMembers(specs.len()));
        }
        if specs.len() > self.topology.hosts().len() {
            return Err(GroupError::LargerThanTopology {
                members: specs.len(),
                hosts: self.topology.hosts().len(),
            });
        }
        let mut seen = BTreeSet::new();
        let resolve = |spec: &MemberSpec| {
            let ip = spec.ip;
            let host = self
                .topology
                .host_with_ip(ip)
                .ok_or(GroupError::UnknownHost(ip))?;
            let entry = self.topology.host(host);
            if !seen.insert(host) {
                return Err(GroupError::MemberTwice {
                    host: entry.name.clone(),
                    ip,
                });
            }
            if spec.qpn.get() == 0 {
                return Err(GroupError::QueuePair(ip));
            }
            check_region(spec)?;
            Ok(GroupMember {
                host,
                mac: entry.mac,
                spec: *spec,
            })
        };
        specs.iter().map(resolve).collect()
    }

    /// Whether every switch of the tree is there and has room in each table; `kept` are slots that hosts have there already.
    pub(super) fn check_switches(
        &self,
        tree: &Tree,
        kept: impl Fn(SwitchIndex) -> BTreeMap<u32, u32>,
    ) -> Result<(), GroupError> {
        let sizes = self.program.sizes;
        for (switch, ports) in tree.switches() {
            let control = &self.switches[switch.0];
            let name = || self.topology.switch(switch).name.clone();
            if ports.len() > sizes.paths as usize {
                return Err(GroupError::TooManyPaths {
                    switch: name(),
                    paths: ports.len(),
                    limit: sizes.paths,
                });
            }
            if !control.boot.is_ready() {
                let why = control.session.usable().err();
                return Err(GroupError::SwitchNotReady {
                    switch: name(),
                    why: why.unwrap_or("its entries are being written").to_owned(),
                });
            }
            let ports = ports.iter().copied();
            let wanted = wanted(&self.topology, switch, ports, kept(switch));
            if let Err(no) = control.room.check(&wanted) {
                return Err(GroupError::SwitchFull {
                    switch: name(),
                    table: no.table,
                    needed: no.needed,
                    left: no.left,
                });
            }
        }
        Ok(())
    }

    pub(super) fn take_address(
        &mut self,
        wanted: Option<Ipv4Addr>,
        strategies: Strategies,
    ) -> Result<Ipv4Addr, GroupError> {
        let range = self.config.group_range;
        let recomputes = strategies.icrc == IcrcMode::Recompute;
        match wanted {
            Some(mcst_id) if !range.may_be_group(mcst_id) => Err(GroupError::OutsideRange {
                mcst_id,
                network: range.network(),
                prefix_len: range.prefix_len(),
            }),
            Some(mcst_id) if recomputes && !is_parsed(u32::from(mcst_id)) => {
                Err(GroupError::NotRecomputed { mcst_id })
            }
            Some(mcst_id) => match self.addresses.take_this(u32::from(mcst_id)) {
                true => Ok(mcst_id),
                false => Err(GroupError::Taken(mcst_id)),
            },
            // Parsing a payload for nothing takes time: groups that do not need it stay outside the range of those that do.
            None => match self
                .addresses
                .take_if(|number| is_parsed(number) == recomputes)
                .or_else(|| self.addresses.take_if(|_| !recomputes))
            {
                Some(number) => Ok(Ipv4Addr::from(number)),
                None => Err(GroupError::NoAddress {
                    network: range.network(),
                    prefix_len: range.prefix_len(),
                }),
            },
        }
    }

    /// Gives back what a plan took that never reached a switch.
    fn give_back(&mut self, group: &Group) {
        self.loads.remove(&group.tree);
        for on in &group.switches {
            self.switches[on.switch.0].room.release(on.group_index);
        }
        self.release_address(group.mcst_id);
    }
}

/// Parsers know no group: only in its own range of addresses is data parsed up to its ICRC.
fn is_parsed(mcst_id: u32) -> bool {
    mcst_id & RECOMPUTE_MASK == RECOMPUTE_NETWORK
}

/// A WRITE's virtual address changes by XOR, which moves it into the region only if the region is aligned.
fn check_region(spec: &MemberSpec) -> Result<(), GroupError> {
    let Some(MemoryRegion { va, len, .. }) = spec.region else {
        return Ok(());
    };
    if len == 0 {
        return Err(GroupError::EmptyRegion(spec.ip));
    }
    let alignment = u128::from(len).next_power_of_two();
    match u128::from(va) % alignment {
        0 => Ok(()),
        _ => Err(GroupError::Region {
            ip: spec.ip,
            va,
            len,
            alignment,
        }),
    }
}
