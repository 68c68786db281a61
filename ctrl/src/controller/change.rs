//! Changing a group in use: members come and go, trees are led around what is broken.
//!
//! Where a switch's part of the group changes, the new part is written under another group index beside the old one.
//! Then the old parts are hidden, so that for a moment the group's packets are lost there and no state moves; what
//! every member has acknowledged is read; the new parts' registers start from it; and the new parts are shown:
//!
//! ```text
//!  [look: is the group idle?]  prepare ──▶ hide ──▶ survey ──▶ [exchange] ──▶ registers ──▶ publish ──▶ clean up
//!     only when joining                      └───────┴────────────┴────────────┴───────────┴──▶ restore the old parts, discard
//! ```
//!
//! On Tofino entries that name the group by its address are the same for both parts: they are exchanged while the group is hidden.
//!
//! So paths stay numbered densely, no acknowledgement is merged from two trees, and none is sent too early: a switch that
//! starts from too old a PSN only causes retransmissions, and the senders' own timeouts carry the group over the pause.
//!
//! What a leaf was told of its hosts' memory for the next WRITE is told no second time, so hosts that stay keep their slots
//! there ([`Room`](super::room::Room)).
//!
//! A new member knows nothing of earlier messages, so it comes between two of them: the group must be idle before it
//! is hidden and still be so afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use alfirk_p4runtime::p4::v1::{update, Update};
use alfirk_roce::wire::mrp::{Kind as Packet, Refusal};
use alfirk_roce::wire::Psn;

use super::error::{GroupError, SwitchError};
use super::event::{MemberSpec, Tag};
use super::group::{wanted, Group, GroupMember, MembersByHost, OnSwitch};
use super::position::Position;
use super::registers;
use super::session::{Task, TaskId};
use super::{ApiReply, Controller, Owner};
use crate::constants::{REGISTER_ACK, REGISTER_AGG, REGISTER_SRC_PORT};
use crate::tables::{self, Program};
use crate::topology::SwitchIndex;
use crate::tree::Tree;

/// A change under way.
#[derive(Debug)]
pub(super) struct Change {
    kind: Kind,
    origin: Origin,
    /// The group as it is to be.
    next: Group,
    /// Parts of the group that it has now and will have no more.
    retired: Vec<OnSwitch>,
    /// Parts that it has not yet.
    fresh: Vec<OnSwitch>,
    step: Step,
    reads: BTreeMap<TaskId, Reading>,
    told: Vec<Position>,
    /// The ports that switches take the source to be behind; asked only where whoever makes registers ready must know.
    sources: Vec<(SwitchIndex, u32)>,
    acked: Vec<Psn>,
    /// A switch of the old tree could not be asked.
    is_blind: bool,
    error: Option<GroupError>,
    /// [`Step::Exchange`] was begun.
    is_exchanged: bool,
    /// Switches on which something of what is to go may be left.
    spoiled: BTreeSet<SwitchIndex>,
}

/// What changes.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Join(GroupMember),
    /// Members go because somebody wants them to.
    Leave,
    /// Members go because they do not answer.
    Lose(Vec<Ipv4Addr>),
    /// The tree is another one, without the members that nothing leads to any more.
    Reroute(Vec<Ipv4Addr>),
}

/// Who is told how it ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    Api(Tag),
    Leader(Ipv4Addr),
    Controller,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Look,
    Prepare,
    Hide,
    Survey,
    /// Entries that name the group by its address: of the old part, then of the new one. Nobody sees the group meanwhile.
    Exchange,
    Registers,
    Publish,
    CleanUp,
    Restore,
    Discard,
}

#[derive(Clone, Copy, Debug)]
enum Reading {
    Told,
    Acked,
    Source,
}

impl Change {
    pub(super) fn concerns(&self, switch: SwitchIndex) -> bool {
        let mut parts = self.retired.iter().chain(&self.fresh);
        parts.any(|on| on.switch == switch)
    }

    pub(super) fn fail(&mut self, error: SwitchError) {
        self.error.get_or_insert(GroupError::Switch(error));
    }

    pub(super) fn fresh_on(&self, switch: SwitchIndex) -> Option<&OnSwitch> {
        self.fresh.iter().find(|on| on.switch == switch)
    }

    /// What every path has acknowledged and beyond which nothing was sent, if that is so.
    fn idle_at(&self) -> Option<Position> {
        let first = self.told.first().copied()?;
        let told = self.told.iter().map(|told| told.psn);
        let mut all = told.chain(self.acked.iter().copied());
        (!self.is_blind && all.all(|psn| psn == first.psn)).then_some(first)
    }

    /// What every member has acknowledged, from what the old parts told.
    fn common(&self) -> Option<Position> {
        let least = self.told.iter().copied().reduce(Position::older)?;
        Some(match self.is_blind {
            true => least.for_all(),
            false => least,
        })
    }
}

impl Controller {
    /// Adds a member for a user.
    pub(super) fn join_for_user(
        &mut self,
        now: u64,
        tag: Tag,
        mcst_id: Ipv4Addr,
        spec: MemberSpec,
    ) {
        let origin = Origin::Api(tag);
        // What cannot be done for other reasons fails at once.
        match self.config.ask_members && self.plan_join(mcst_id, spec).is_ok() {
            true => self.invite_to_join(now, origin, mcst_id, spec),
            false => self.join(now, origin, mcst_id, spec),
        }
    }

    /// Adds a member between two messages.
    pub(super) fn join(&mut self, now: u64, origin: Origin, mcst_id: Ipv4Addr, spec: MemberSpec) {
        self.sign_of_life(now, mcst_id);
        let planned = self.plan_join(mcst_id, spec);
        self.begin_change(now, origin, mcst_id, planned);
    }

    /// Takes members out.
    pub(super) fn leave(
        &mut self,
        now: u64,
        origin: Origin,
        mcst_id: Ipv4Addr,
        members: Vec<Ipv4Addr>,
    ) {
        self.sign_of_life(now, mcst_id);
        let planned = self.plan_leave(mcst_id, &members, 2);
        let planned = planned.map(|next| (Kind::Leave, next));
        self.begin_change(now, origin, mcst_id, planned);
    }

    /// Takes members out that do not answer; the group may shrink to one.
    pub(super) fn lose(&mut self, now: u64, mcst_id: Ipv4Addr, members: Vec<Ipv4Addr>) {
        let planned = self.plan_leave(mcst_id, &members, 1);
        let planned = planned.map(|next| (Kind::Lose(members), next));
        self.begin_change(now, Origin::Controller, mcst_id, planned);
    }

    /// Leads a group around what is broken; members that are cut off are lost, if two or more remain.
    pub(super) fn reroute(&mut self, now: u64, mcst_id: Ipv4Addr) {
        let planned = self.plan_reroute(mcst_id);
        self.begin_change(now, Origin::Controller, mcst_id, planned);
    }

    fn plan_join(
        &self,
        mcst_id: Ipv4Addr,
        spec: MemberSpec,
    ) -> Result<(Kind, (Group, Tree)), GroupError> {
        let group = self.idle_group(mcst_id)?;
        let mut specs: Vec<_> = group.members.iter().map(|member| member.spec).collect();
        specs.push(spec);
        let members = self.resolve_members(&specs)?;
        let member = members[members.len() - 1];
        let mut tree = group.tree.clone();
        let (root, _) = self.topology.attachment(members[0].host);
        if !self.paths().reaches(root, member.host) {
            return Err(GroupError::Unreachable(spec.ip));
        }
        tree.extend(&self.planner, &self.view(), members[0].host, member.host);
        let next = Group {
            members,
            ..group.clone()
        };
        Ok((Kind::Join(member), (next, tree)))
    }

    fn plan_leave(
        &self,
        mcst_id: Ipv4Addr,
        leaving: &[Ipv4Addr],
        least: usize,
    ) -> Result<(Group, Tree), GroupError> {
        let group = self.idle_group(mcst_id)?;
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
        let tree = group.tree.without(&self.topology, &gone);
        let next = Group {
            members,
            ..group.clone()
        };
        Ok((next, tree))
    }

    fn plan_reroute(&self, mcst_id: Ipv4Addr) -> Result<(Kind, (Group, Tree)), GroupError> {
        let group = self.idle_group(mcst_id)?;
        let (members, cut_off) = self.largest_part(&group.members);
        if members.len() < 2 {
            let nowhere = cut_off.first().or(members.first());
            let ip = nowhere.map_or(mcst_id, |member| member.spec.ip);
            return Err(GroupError::Unreachable(ip));
        }
        let hosts: Vec<_> = members.iter().map(|member| member.host).collect();
        let tree = Tree::grow(&self.planner, &self.view(), &hosts);
        let lost = cut_off.iter().map(|member| member.spec.ip).collect();
        let next = Group {
            members,
            ..group.clone()
        };
        Ok((Kind::Reroute(lost), (next, tree)))
    }

    /// The members that the leader still reaches, and the others; without them the most that reach each other.
    fn largest_part(&self, members: &[GroupMember]) -> (Vec<GroupMember>, Vec<GroupMember>) {
        let reachable_from = |root: &GroupMember| {
            let (switch, _) = self.topology.attachment(root.host);
            let is_here = |m: &&GroupMember| self.paths().reaches(switch, m.host);
            members.iter().filter(is_here).count()
        };
        let leader = members.first().filter(|m| reachable_from(m) > 1);
        // Of equal parts the one of the first member.
        let most = || members.iter().rev().max_by_key(|m| reachable_from(m));
        let best = leader.or_else(most);
        let Some((switch, _)) = best.map(|root| self.topology.attachment(root.host)) else {
            return (Vec::new(), Vec::new());
        };
        members
            .iter()
            .partition(|m| self.paths().reaches(switch, m.host))
    }

    fn idle_group(&self, mcst_id: Ipv4Addr) -> Result<&Group, GroupError> {
        match self.groups.get(&mcst_id) {
            None => Err(GroupError::NoSuchGroup(mcst_id)),
            Some(registration) if registration.is_at_rest() => Ok(registration.group()),
            Some(_) => Err(GroupError::Busy(mcst_id)),
        }
    }

    fn begin_change(
        &mut self,
        now: u64,
        origin: Origin,
        mcst_id: Ipv4Addr,
        planned: Result<(Kind, (Group, Tree)), GroupError>,
    ) {
        let change =
            planned.and_then(|(kind, (next, tree))| self.prepare_change(kind, origin, next, tree));
        match change {
            Err(error) => self.change_failed(mcst_id, origin, error),
            Ok(change) => {
                let first = match change.kind {
                    Kind::Join(_) => Step::Look,
                    _ => Step::Prepare,
                };
                if let Some(registration) = self.groups.get_mut(&mcst_id) {
                    registration.begin_change(change);
                }
                self.change_step(now, mcst_id, first);
            }
        }
    }

    /// Takes indexes for the parts that differ.
    fn prepare_change(
        &mut self,
        kind: Kind,
        origin: Origin,
        mut next: Group,
        tree: Tree,
    ) -> Result<Change, GroupError> {
        // The members behind a port may be others then, so that what it has acknowledged says nothing.
        let is_reroute = matches!(kind, Kind::Reroute(_));
        let old = std::mem::take(&mut next.switches);
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
        self.check_switches(&part, kept)?;
        let (kept, retired): (Vec<_>, Vec<_>) = old.into_iter().partition(|on| is_same(on.switch));
        let away = retired
            .iter()
            .find(|on| !self.switches[on.switch.0].boot.is_ready());
        if let (Some(away), false) = (away, is_reroute) {
            return Err(GroupError::SwitchNotReady {
                switch: self.topology.switch(away.switch).name.clone(),
                why: "the group cannot be changed without it".to_owned(),
            });
        }
        let mut fresh = Vec::new();
        let by_host = MembersByHost::new(&next.members);
        for switch in changed {
            let ports = || next.tree.ports_on(switch);
            let kept = slots_on(&retired, switch);
            let wanted = wanted(&self.topology, switch, ports(), kept);
            let granted = self.switches[switch.0].room.take(&wanted);
            let granted = granted.expect("room was checked before");
            let on = OnSwitch::new(&self.topology, switch, &granted, ports(), &by_host);
            fresh.push(on);
        }
        next.switches = kept.into_iter().chain(fresh.iter().cloned()).collect();
        next.switches.sort_by_key(|on| on.switch);
        if let Err(error) = next.check(&self.program) {
            for on in &fresh {
                self.switches[on.switch.0].room.release(on.group_index);
            }
            return Err(error);
        }
        Ok(Change {
            kind,
            origin,
            next,
            retired,
            fresh,
            step: Step::Look,
            reads: BTreeMap::new(),
            told: Vec::new(),
            sources: Vec::new(),
            acked: Vec::new(),
            is_blind: false,
            error: None,
            is_exchanged: false,
            spoiled: BTreeSet::new(),
        })
    }

    /// Starts a step, or the first one after it that has something to do.
    fn change_step(&mut self, now: u64, mcst_id: Ipv4Addr, step: Step) {
        let Some(registration) = self.groups.get_mut(&mcst_id) else {
            return;
        };
        let Some((group, change)) = registration.change_mut() else {
            return;
        };
        change.step = step;
        let mut tasks: Vec<(SwitchIndex, Task, Option<Reading>)> = Vec::new();
        let program = &self.program;
        let is_there = |on: &&OnSwitch| self.switches[on.switch.0].boot.is_ready();
        match step {
            Step::Look | Step::Survey => {
                change.told.clear();
                change.sources.clear();
                change.acked.clear();
                change.is_blind = !group.switches.iter().all(|on| is_there(&on));
                for on in group.switches.iter().filter(is_there) {
                    let read =
                        |reg, path| Task::Registers(registers::read(on.group_index, reg, path));
                    let told = read(REGISTER_AGG, 0);
                    tasks.push((on.switch, told, Some(Reading::Told)));
                    if program.group_registers.is_some() {
                        let source = read(REGISTER_SRC_PORT, 0);
                        tasks.push((on.switch, source, Some(Reading::Source)));
                    }
                    if let Kind::Join(_) = change.kind {
                        let paths = (0..=u8::MAX).zip(&on.paths);
                        tasks.extend(paths.map(|(path, _)| {
                            let acked = read(REGISTER_ACK, path);
                            (on.switch, acked, Some(Reading::Acked))
                        }));
                    }
                }
            }
            Step::Prepare => {
                for on in &change.fresh {
                    // Solved when the change was planned.
                    let mut entries = change.next.entries(program, on).unwrap_or_default();
                    entries.retain(|entry| !program.is_by_address(entry));
                    tasks.push((on.switch, Task::Write(entries), None));
                }
            }
            Step::Hide => {
                for on in change.retired.iter().filter(is_there) {
                    let hide = Task::Write(vec![group.withdrawal(program)]);
                    tasks.push((on.switch, hide, None));
                }
            }
            Step::Exchange => {
                change.is_exchanged = true;
                for on in &change.fresh {
                    let old = change.retired.iter().find(|old| old.switch == on.switch);
                    let old = old.map_or(Vec::new(), |old| group.removal(program, old));
                    let new = change.next.entries(program, on).unwrap_or_default();
                    let updates = exchange(old, new, program);
                    tasks.push((on.switch, Task::Write(updates), None));
                }
            }
            Step::Registers => {
                for on in &change.fresh {
                    let kept = slots_on(&change.retired, on.switch);
                    let registers = change.next.registers(&self.topology, on, &kept).into_iter();
                    tasks.extend(registers.map(|task| (on.switch, task, None)));
                }
            }
            Step::Publish => {
                for on in &change.fresh {
                    let show = Task::Write(vec![change.next.publication(program, on)]);
                    tasks.push((on.switch, show, None));
                }
            }
            Step::CleanUp => {
                for on in change.retired.iter().filter(is_there) {
                    // By now the group is the next one; entries go by index and port alone.
                    let mut removal = group.removal(program, on);
                    if change.fresh_on(on.switch).is_some() {
                        removal.retain(|entry| !program.is_by_address(entry));
                    }
                    tasks.push((on.switch, Task::Write(removal), None));
                }
            }
            Step::Restore => {
                // Switches that are new in the tree have nothing to go back to.
                for on in change.fresh.iter().filter(is_there) {
                    if !change.retired.iter().any(|old| old.switch == on.switch) {
                        let mut hide = vec![change.next.withdrawal(program)];
                        if change.is_exchanged {
                            let removal = change.next.removal(program, on);
                            hide.extend(exchange(removal, Vec::new(), program));
                        }
                        tasks.push((on.switch, Task::Write(hide), None));
                    }
                }
                for on in change.retired.iter().filter(is_there) {
                    let mut show = Vec::new();
                    if let Some(fresh) = change.fresh_on(on.switch).filter(|_| change.is_exchanged)
                    {
                        let old = group.entries(program, on).unwrap_or_default();
                        let new = change.next.removal(program, fresh);
                        show.extend(exchange(new, old, program));
                    }
                    show.push(group.publication(program, on));
                    tasks.push((on.switch, Task::Write(show), None));
                }
            }
            Step::Discard => {
                for on in change.fresh.iter().filter(is_there) {
                    let mut removal = change.next.removal(program, on);
                    removal.retain(|entry| !program.is_by_address(entry));
                    tasks.push((on.switch, Task::Write(removal), None));
                }
            }
        }
        if tasks.is_empty() {
            return self.change_step_done(now, mcst_id);
        }
        for (switch, task, reading) in tasks {
            let id = self.submit(now, switch, Owner::Change(switch, mcst_id), task);
            if let Some(registration) = self.groups.get_mut(&mcst_id) {
                registration.wait_for(id);
                if let (Some(reading), Some((_, change))) = (reading, registration.change_mut()) {
                    change.reads.insert(id, reading);
                }
            }
        }
    }

    pub(super) fn change_done(
        &mut self,
        now: u64,
        switch: SwitchIndex,
        mcst_id: Ipv4Addr,
        task: TaskId,
        result: Result<u64, SwitchError>,
    ) {
        let Some(registration) = self.groups.get_mut(&mcst_id) else {
            return;
        };
        registration.forget_task(task);
        let is_waiting = registration.is_waiting();
        let Some((_, change)) = registration.change_mut() else {
            return;
        };
        let reading = change.reads.remove(&task);
        match (result, reading) {
            (Ok(value), Some(Reading::Told)) => change.told.push(Position::from_register(value)),
            (Ok(value), Some(Reading::Acked)) => change.acked.push(Psn::new((value >> 8) as u32)),
            (Ok(port), Some(Reading::Source)) => change.sources.push((switch, port as u32)),
            (Ok(_), None) => {}
            // Then what was known of it has to do.
            (Err(_), Some(Reading::Source)) => {}
            // What a switch would have told can be done without, but not by a member that joins.
            (Err(_), Some(_)) => change.is_blind = true,
            (Err(_), None) if matches!(change.step, Step::CleanUp | Step::Discard) => {
                change.spoiled.insert(switch);
            }
            (Err(error), None) => {
                change.spoiled.insert(switch);
                change.error.get_or_insert(GroupError::Switch(error));
            }
        }
        if !is_waiting {
            self.change_step_done(now, mcst_id);
        }
    }

    fn change_step_done(&mut self, now: u64, mcst_id: Ipv4Addr) {
        let Some(registration) = self.groups.get_mut(&mcst_id) else {
            return;
        };
        let Some((group, change)) = registration.change_mut() else {
            return;
        };
        let is_join = matches!(change.kind, Kind::Join(_));
        let next = match change.step {
            Step::CleanUp => return self.change_made(now, mcst_id),
            Step::Discard => return self.change_undone(now, mcst_id),
            Step::Restore => Step::Discard,
            // Nothing is written yet.
            Step::Look if change.error.is_some() => return self.change_undone(now, mcst_id),
            Step::Prepare if change.error.is_some() => Step::Discard,
            _ if change.error.is_some() => Step::Restore,
            Step::Look => match change.idle_at() {
                Some(position) => {
                    change.next.position = position;
                    Step::Prepare
                }
                None => {
                    change.error = Some(GroupError::InUse(mcst_id));
                    return self.change_undone(now, mcst_id);
                }
            },
            Step::Prepare => Step::Hide,
            Step::Hide => Step::Survey,
            Step::Survey if is_join && change.idle_at() != Some(change.next.position) => {
                change.error = Some(GroupError::InUse(mcst_id));
                Step::Restore
            }
            Step::Survey => {
                let source = change.sources.iter().find_map(|(switch, port)| {
                    let path = group
                        .on(*switch)?
                        .paths
                        .iter()
                        .find(|path| path.port == *port)?;
                    path.member.map(|member| member.spec.ip)
                });
                change.next.source = source.or(change.next.source);
                if let (Some(position), false) = (change.common(), is_join) {
                    // Older than what was known is no news, but newer is.
                    change.next.advance(position);
                }
                Step::Exchange
            }
            Step::Exchange => Step::Registers,
            Step::Registers => Step::Publish,
            Step::Publish => {
                self.change_published(mcst_id);
                Step::CleanUp
            }
        };
        self.change_step(now, mcst_id, next);
    }

    /// The new parts are shown: from now on the group is the next one.
    fn change_published(&mut self, mcst_id: Ipv4Addr) {
        let Some(registration) = self.groups.get_mut(&mcst_id) else {
            return;
        };
        let Some((group, change)) = registration.change_mut() else {
            return;
        };
        self.loads.remove(&group.tree);
        group.clone_from(&change.next);
        self.loads.add(&group.tree);
        self.note_leader(mcst_id);
    }

    fn change_made(&mut self, now: u64, mcst_id: Ipv4Addr) {
        let Some(change) = self.groups.get_mut(&mcst_id).and_then(|r| r.end_change()) else {
            return;
        };
        self.give_back_parts(&change.retired, &change.spoiled);
        let psn = change.next.position.psn.next();
        let remote_qpn = change.next.virtual_qpn;
        match (&change.kind, change.origin) {
            (Kind::Join(member), origin) => {
                let ip = member.spec.ip;
                if let Some(registration) = self.groups.get_mut(&mcst_id) {
                    registration.note_joined(ip, psn);
                }
                match origin {
                    Origin::Api(tag) => self.say(ApiReply::MemberJoined {
                        tag,
                        mcst_id,
                        ip,
                        remote_qpn,
                        psn,
                    }),
                    _ => self.tell_joined(mcst_id, member, psn),
                }
            }
            (Kind::Leave, Origin::Api(tag)) => {
                self.say(ApiReply::MembersLeft { tag, mcst_id });
            }
            (Kind::Leave, Origin::Leader(leader)) => {
                self.mrp_answer(mcst_id, leader, Packet::Confirm, 0);
            }
            (Kind::Lose(members), _) => {
                self.tell_lost(mcst_id, members);
                self.say(ApiReply::MembersLost {
                    mcst_id,
                    members: members.clone(),
                });
            }
            (Kind::Reroute(lost), _) => {
                self.say(ApiReply::GroupRerouted { mcst_id });
                if !lost.is_empty() {
                    self.tell_lost(mcst_id, lost);
                    let members = lost.clone();
                    self.say(ApiReply::MembersLost { mcst_id, members });
                }
            }
            (Kind::Leave, Origin::Controller) => {}
        }
        if self.remove_after_change(now, mcst_id) {
            return;
        }
        // Something may have broken meanwhile.
        if self.is_broken(mcst_id) {
            self.reroute(now, mcst_id);
        }
        self.prune_ended(now, mcst_id);
    }

    /// The group is as it was.
    fn change_undone(&mut self, now: u64, mcst_id: Ipv4Addr) {
        let Some(change) = self.groups.get_mut(&mcst_id).and_then(|r| r.end_change()) else {
            return;
        };
        self.give_back_parts(&change.fresh, &change.spoiled);
        let error = change.error.unwrap_or(GroupError::Busy(mcst_id));
        self.change_failed(mcst_id, change.origin, error);
        if !self.remove_after_change(now, mcst_id) {
            self.prune_ended(now, mcst_id);
        }
    }

    pub(super) fn change_failed(&mut self, mcst_id: Ipv4Addr, origin: Origin, error: GroupError) {
        match origin {
            Origin::Api(tag) => self.say(ApiReply::Failed { tag, error }),
            Origin::Leader(leader) => {
                let refusal = match error {
                    GroupError::InUse(_)
                    | GroupError::Busy(_)
                    | GroupError::SwitchNotReady { .. } => Refusal::Busy,
                    GroupError::SwitchFull { .. } | GroupError::TooManyPaths { .. } => {
                        Refusal::Full
                    }
                    GroupError::Switch(_) => Refusal::SwitchFailed,
                    GroupError::NotAgreed { .. } => Refusal::NotAgreed,
                    _ => Refusal::BadNodes,
                };
                self.mrp_refuse(mcst_id, leader, refusal);
            }
            Origin::Controller => {
                tracing::warn!(%mcst_id, "the group stays as it is: {error}");
            }
        }
    }

    fn give_back_parts(&mut self, parts: &[OnSwitch], spoiled: &BTreeSet<SwitchIndex>) {
        for on in parts {
            let control = &mut self.switches[on.switch.0];
            let index = on.group_index;
            match control.boot.is_ready() && !spoiled.contains(&on.switch) {
                true => control.room.release(index),
                // Until the switch has been read and repaired.
                false => control.room.spoil(index),
            }
        }
    }

    /// Tells a member that it is in, and with which PSN it starts; it confirms to the leader.
    pub(super) fn tell_joined(&mut self, mcst_id: Ipv4Addr, member: &GroupMember, psn: Psn) {
        let Some(group) = self.groups.get(&mcst_id).map(|r| r.group()) else {
            return;
        };
        let Some(leader) = group.members.first() else {
            return;
        };
        let node = member.spec.node();
        let leader = leader.spec.ip;
        let frame = self.mrp_member_frame(Packet::Register, mcst_id, leader, psn, &node);
        let (switch, port) = self.topology.attachment(member.host);
        self.send_frame(switch, port, frame);
    }

    /// Names lost members to the leader.
    fn tell_lost(&mut self, mcst_id: Ipv4Addr, members: &[Ipv4Addr]) {
        let group = self.groups.get(&mcst_id).map(|r| r.group());
        let Some(leader) = group.and_then(|group| group.members.first()) else {
            return;
        };
        let leader = leader.spec.ip;
        self.mrp_name(mcst_id, leader, Packet::Leave, 0, members);
    }
}

/// What brings the entries that name a group by its address from those that `removal` takes away to those that `entries` add.
fn exchange(removal: Vec<Update>, entries: Vec<Update>, program: &Program) -> Vec<Update> {
    let of_group = |updates: Vec<Update>| -> Vec<Update> {
        (updates.into_iter())
            .filter(|update| program.is_by_address(update))
            .collect()
    };
    let (mut gone, mut new) = (of_group(removal), of_group(entries));
    for entry in &mut new {
        // Updates of one Write may be applied in any order (P4Runtime, section 12): no deletion and insertion of one key.
        if let Some(at) = gone.iter().position(|old| tables::same_key(old, entry)) {
            gone.swap_remove(at);
            entry.r#type = update::Type::Modify.into();
        }
    }
    gone.extend(new);
    gone
}

/// Slots of the hosts that a group has next to a switch, by port.
fn slots_on(parts: &[OnSwitch], switch: SwitchIndex) -> BTreeMap<u32, u32> {
    let on = parts.iter().find(|on| on.switch == switch);
    on.into_iter().flat_map(OnSwitch::slots).collect()
}
