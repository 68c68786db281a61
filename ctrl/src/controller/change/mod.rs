//! Change procedure of a group in use: members join or leave, or its tree is rerouted around failures.
//!
//! Where a switch's part of the group changes, the new part is written under another group index beside the old part.
//! Then the old parts are withdrawn, so that switches drop the group's packets and no state changes. The procedure reads
//! what every member has acknowledged, initialises the registers of the new parts from it, and publishes them:
//!
//! ```text
//!  [check idle]  prepare ──▶ withdraw ──▶ survey ──▶ [exchange] ──▶ registers ──▶ publish ──▶ clean up
//!     only when joining           │         │                      │                          │
//!                           discard ◀── republish ◀────────── exchange back ◀────────── withdraw new
//! ```
//!
//! On Tofino, entries with the group's address as key are the same for both parts. They are replaced while the group is
//! withdrawn.
//!
//! With whole new parts, path numbers have no gaps, acknowledgements of two trees are never merged, and none is sent too
//! early. A switch that starts from too old a PSN only causes retransmissions. Senders retransmit the packets that are
//! dropped meanwhile.
//!
//! Hosts that stay keep their slots at their leaf ([`Capacity`](super::capacity::Capacity)), because memory regions that they
//! have announced for the next WRITE are not announced again.
//!
//! A new member has no data of earlier messages, so it can join only between two messages: the group must be idle before
//! it is withdrawn, and still be idle afterwards.

mod outcome;
mod plan;
mod request;

pub(super) use outcome::change_failed;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use alfirk_p4runtime::p4::v1::{update, Update};
use alfirk_roce::wire::Psn;

use super::bridge::GroupMember;
use super::command::{Command, Ended};
use super::error::{GroupError, SwitchError};
use super::event::Tag;
use super::group::{Group, GroupPart};
use super::groups::Groups;
use super::locate::Readings;
use super::network::Network;
use super::position::Position;
use super::procedure::{Holders, Parts, Procedure, Run, Step, SwitchTask};
use super::registers;
use super::registration::Registration;
use super::session::Task;
use super::switches::Owner;
use crate::constants::{REGISTER_ACK, REGISTER_AGG, REGISTER_SENT, REGISTER_SRC_PORT};
use crate::tables::{self, Program};
use crate::topology::{Node, SwitchIndex};

/// State of the procedure that changes a group in use.
#[derive(Debug)]
pub(super) struct Change {
    kind: Kind,
    origin: Origin,
    /// The group after the change.
    pub(super) next: Group,
    /// Parts of the group on switches that the change removes.
    old_parts: Vec<GroupPart>,
    /// Parts of the group on switches that the change adds.
    new_parts: Vec<GroupPart>,
    /// Registers read from the old parts.
    readings: Readings,
    /// Newest acknowledged PSN of each path of the old parts. Read only if a member joins.
    acked: Vec<Psn>,
    /// Whether a register of the old tree could not be read, so that positions may be missing.
    is_incomplete: bool,
}

/// Kind of a change of a group in use.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A member is added.
    Join(GroupMember),
    /// Members leave on request.
    Leave,
    /// Members are removed because they do not respond.
    RemoveFailed(Vec<Ipv4Addr>),
    /// The tree changes; members that cannot be reached any more are removed.
    Reroute(Vec<Ipv4Addr>),
}

/// Component that has requested a change of a group; the result is reported to it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    /// A client of the control service.
    Api(Tag),
    /// The group's leader host, in band.
    Leader(Ipv4Addr),
    /// The controller itself, after a failure.
    Controller,
}

/// Register of the group that the procedure reads from a switch.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reading {
    /// PSN and MSN last acknowledged to the source.
    LastAcked,
    /// Newest acknowledged PSN of a path.
    Acked,
    /// Newest PSN sent by the source.
    Sent,
    /// Port of the source.
    Source,
}

type SwitchTasks = Vec<SwitchTask<Reading>>;

impl Procedure for Change {
    type Key = Ipv4Addr;
    type Reading = Reading;
    type Failure = GroupError;

    const NAME: &'static str = "change";
    const STEPS: &'static [Step<Change>] = &[
        Step::new("check idle", Change::check_idle).then(process_idle_check),
        Step::new("prepare", Change::prepare).undone_by(Change::discard),
        Step::new("withdraw", Change::withdraw).undone_by(Change::republish),
        // Wait until frames of the old tree that are still on links have arrived at switches, which drop them.
        Step::new("flush", Change::flush),
        Step::new("survey", Change::read_positions).then(process_readings),
        Step::new("exchange", Change::exchange).undone_by(Change::exchange_back),
        Step::new("registers", Change::registers),
        // On targets whose INIT_GROUP does not set the source.
        Step::new("sources", Change::sources),
        Step::new("publish", Change::publish)
            .undone_by(Change::withdraw_new)
            .then(change_published),
        Step::new("clean up", Change::clean_up).irreversible(),
    ];

    fn find<'a>(parts: &Parts<'a>, mcst_id: Ipv4Addr) -> Option<&'a Run<Change>> {
        parts.groups.get(mcst_id)?.change()
    }

    fn find_mut(holders: Holders<'_>, mcst_id: Ipv4Addr) -> Option<&mut Run<Change>> {
        holders.groups.get_mut(mcst_id)?.change_mut()
    }

    fn owner(mcst_id: Ipv4Addr) -> Owner {
        Owner::Change(mcst_id)
    }

    fn record_reading(
        &mut self,
        switch: SwitchIndex,
        reading: Reading,
        result: Result<u64, SwitchError>,
    ) {
        match (reading, result) {
            (Reading::LastAcked, Ok(value)) => {
                self.readings.entry(switch).last_acked = Some(Position::from_register(value));
            }
            (Reading::Acked, Ok(value)) => self.acked.push(Psn::new((value >> 8) as u32)),
            (Reading::Sent, Ok(value)) => {
                self.readings.entry(switch).sent = Some(Psn::new(value as u32));
            }
            (Reading::Source, Ok(port)) => self.readings.entry(switch).source = Some(port as u32),
            // The readings of other switches are used instead.
            (Reading::Sent | Reading::Source, Err(_)) => {}
            // A reading may be missing, unless a member joins.
            (Reading::LastAcked | Reading::Acked, Err(_)) => self.is_incomplete = true,
        }
    }

    fn ended(mcst_id: Ipv4Addr) -> Ended {
        Ended::Change(mcst_id)
    }
}

impl Change {
    fn new(
        kind: Kind,
        origin: Origin,
        next: Group,
        old_parts: Vec<GroupPart>,
        new_parts: Vec<GroupPart>,
    ) -> Change {
        Change {
            kind,
            origin,
            next,
            old_parts,
            new_parts,
            readings: Readings::default(),
            acked: Vec::new(),
            is_incomplete: false,
        }
    }

    pub(super) fn involves(&self, switch: SwitchIndex) -> bool {
        let mut parts = self.old_parts.iter().chain(&self.new_parts);
        parts.any(|on| on.switch == switch)
    }

    pub(super) fn new_part_on(&self, switch: SwitchIndex) -> Option<&GroupPart> {
        self.new_parts.iter().find(|on| on.switch == switch)
    }

    fn old_part_on(&self, switch: SwitchIndex) -> Option<&GroupPart> {
        self.old_parts.iter().find(|on| on.switch == switch)
    }

    fn is_join(&self) -> bool {
        matches!(self.kind, Kind::Join(_))
    }

    /// Position of the group if it is idle: all paths have the same newest PSN. For the source's path, that is the newest
    /// PSN sent. `None` if the group is not idle or a reading is missing.
    fn idle_position(&self) -> Option<Position> {
        let first = self.last_acked().next()?;
        let last_acked = self.last_acked().map(|position| position.psn);
        let mut all = last_acked.chain(self.acked.iter().copied());
        (!self.is_incomplete && all.all(|psn| psn == first.psn)).then_some(first)
    }

    /// Yields the position last acknowledged to the source, for each switch that could be read.
    fn last_acked(&self) -> impl Iterator<Item = Position> + '_ {
        self.readings
            .0
            .values()
            .filter_map(|reading| reading.last_acked)
    }

    /// Position that every member has acknowledged, computed from the registers of the old parts; `None` if no switch
    /// could be read.
    fn common_position(&self, group: &Group) -> Option<Position> {
        let least = self.readings.oldest_acked()?;
        // The source's switch has the minimum of all members. If the group is idle, so does every other switch.
        let is_known =
            self.readings.source(group).is_some() || self.readings.newest_sent() == Some(least.psn);
        if is_known || !self.is_incomplete {
            return Some(least);
        }
        let acked = self.readings.newest_sent().map(|sent| Position {
            psn: Psn::new(sent.get().wrapping_sub(group.window())),
            ..least
        });
        Some(acked.map_or(least.lower_bound(), |acked| least.older(acked)))
    }

    /// The group before the change.
    fn group<'a>(&self, parts: &Parts<'a>) -> Option<&'a Group> {
        parts.groups.group(self.next.mcst_id)
    }

    /// Reads registers to check that the group is idle, which only a join requires.
    fn check_idle(&self, parts: &Parts) -> SwitchTasks {
        match self.is_join() {
            true => self.read_positions(parts),
            false => Vec::new(),
        }
    }

    /// Reads the position of the group from every connected switch.
    fn read_positions(&self, parts: &Parts) -> SwitchTasks {
        let Some(group) = self.group(parts) else {
            return Vec::new();
        };
        let mut switch_tasks = Vec::new();
        for on in connected_parts(parts, &group.parts) {
            let read = |register, path, reading| {
                let task = Task::Registers(registers::read(on.group_index, register, path));
                SwitchTask::read(on.switch, task, reading)
            };
            switch_tasks.push(read(REGISTER_AGG, 0, Reading::LastAcked));
            switch_tasks.push(read(REGISTER_SENT, 0, Reading::Sent));
            switch_tasks.push(read(REGISTER_SRC_PORT, 0, Reading::Source));
            if self.is_join() {
                let paths = (0..=u8::MAX).zip(&on.paths);
                switch_tasks
                    .extend(paths.map(|(path, _)| read(REGISTER_ACK, path, Reading::Acked)));
            }
        }
        switch_tasks
    }

    fn prepare(&self, parts: &Parts) -> SwitchTasks {
        let program = parts.network.program();
        let parts = self.new_parts.iter().map(|on| {
            let mut entries = self.next.entries(program, on);
            entries.retain(|entry| !program.is_by_address(entry));
            write(on, entries)
        });
        parts.collect()
    }

    fn discard(&self, parts: &Parts) -> SwitchTasks {
        let program = parts.network.program();
        let parts = connected_parts(parts, &self.new_parts).map(|on| {
            let mut removal = self.next.removal(program, on);
            removal.retain(|entry| !program.is_by_address(entry));
            write(on, removal)
        });
        parts.collect()
    }

    fn withdraw(&self, parts: &Parts) -> SwitchTasks {
        let affected = connected_parts(parts, &self.old_parts);
        // The address does not change, even if other parameters do.
        affected
            .map(|on| write(on, vec![self.next.withdrawal(parts.network.program())]))
            .collect()
    }

    /// On a reroute, flushes the links between switches that both the old and the new tree use: waits until all earlier
    /// frames have arrived. An acknowledgement of the old tree may stand for fewer members than are behind its switch in
    /// the new tree, so it must not be received there.
    fn flush(&self, parts: &Parts) -> SwitchTasks {
        let Some(group) = self
            .group(parts)
            .filter(|_| matches!(self.kind, Kind::Reroute(_)))
        else {
            return Vec::new();
        };
        let mut switch_tasks = Vec::new();
        for on in connected_parts(parts, &group.parts) {
            for path in &on.paths {
                let Some(behind) = parts.network.topology().neighbour_at(on.switch, path.port)
                else {
                    continue;
                };
                let is_kept = matches!(behind.peer.node, Node::Switch(next) if self.new_part_on(next).is_some())
                    && self
                        .next
                        .part_on(on.switch)
                        .is_some_and(|next| next.paths.iter().any(|p| p.port == path.port))
                    && !parts.health.failed_links().contains(&behind.link);
                if is_kept {
                    switch_tasks.push(SwitchTask::new(on.switch, Task::Flush { port: path.port }));
                }
            }
        }
        switch_tasks
    }

    fn republish(&self, parts: &Parts) -> SwitchTasks {
        let Some(group) = self.group(parts) else {
            return Vec::new();
        };
        let affected = connected_parts(parts, &self.old_parts);
        affected
            .map(|on| write(on, vec![group.publication(parts.network.program(), on)]))
            .collect()
    }

    /// Replaces entries that have the group's address as key: those of the old part by those of the new part.
    fn exchange(&self, parts: &Parts) -> SwitchTasks {
        let Some(group) = self.group(parts) else {
            return Vec::new();
        };
        let program = parts.network.program();
        let parts = self.new_parts.iter().map(|on| {
            let old = self.old_part_on(on.switch);
            let old = old.map_or(Vec::new(), |old| group.removal(program, old));
            let new = self.next.entries(program, on);
            write(on, replace_entries(old, new, program))
        });
        parts.collect()
    }

    fn exchange_back(&self, parts: &Parts) -> SwitchTasks {
        let Some(group) = self.group(parts) else {
            return Vec::new();
        };
        let program = parts.network.program();
        let parts = connected_parts(parts, &self.new_parts).map(|on| {
            let new = self.next.removal(program, on);
            let old = self.old_part_on(on.switch);
            let old = old.map_or(Vec::new(), |old| group.entries(program, old));
            write(on, replace_entries(new, old, program))
        });
        parts.collect()
    }

    fn registers(&self, parts: &Parts) -> SwitchTasks {
        let parts = self.new_parts.iter().flat_map(|on| {
            let kept = slots_on(&self.old_parts, on.switch);
            let tasks = self.next.registers(parts.network.topology(), on, &kept);
            tasks
                .into_iter()
                .map(|task| SwitchTask::new(on.switch, task))
        });
        parts.collect()
    }

    fn sources(&self, parts: &Parts) -> SwitchTasks {
        if parts.network.program().group_registers.is_some() {
            return Vec::new();
        }
        let parts = self.new_parts.iter().filter_map(|on| {
            let port = self
                .next
                .port_towards_source(parts.network.topology(), on.switch);
            let access = registers::set_source(on.group_index, port);
            (port != 0).then(|| SwitchTask::new(on.switch, Task::Registers(access)))
        });
        parts.collect()
    }

    fn publish(&self, parts: &Parts) -> SwitchTasks {
        let affected = self.new_parts.iter();
        affected
            .map(|on| write(on, vec![self.next.publication(parts.network.program(), on)]))
            .collect()
    }

    fn withdraw_new(&self, parts: &Parts) -> SwitchTasks {
        let affected = connected_parts(parts, &self.new_parts);
        affected
            .map(|on| write(on, vec![self.next.withdrawal(parts.network.program())]))
            .collect()
    }

    fn clean_up(&self, parts: &Parts) -> SwitchTasks {
        let program = parts.network.program();
        let parts = connected_parts(parts, &self.old_parts).map(|on| {
            // These entries have only index and port as keys.
            let mut removal = self.next.removal(program, on);
            if self.new_part_on(on.switch).is_some() {
                removal.retain(|entry| !program.is_by_address(entry));
            }
            write(on, removal)
        });
        parts.collect()
    }
}

/// Checks that the group is idle, which only a join requires.
fn process_idle_check(
    _: &mut Network,
    groups: &mut Groups,
    mcst_id: Ipv4Addr,
) -> Result<Option<Command>, GroupError> {
    let registration = groups.get_mut(mcst_id);
    let Some((change, group)) = registration.and_then(Registration::change_and_group) else {
        return Ok(None);
    };
    if change.is_join() {
        change.is_incomplete |= change.last_acked().count() < group.parts.len();
        let idle = change.idle_position();
        change.next.position = idle.ok_or(GroupError::InUse(mcst_id))?;
    }
    change.readings = Readings::default();
    change.acked.clear();
    change.is_incomplete = false;
    Ok(None)
}

/// Computes the position and source of the changed group from the registers of the old parts.
fn process_readings(
    _: &mut Network,
    groups: &mut Groups,
    mcst_id: Ipv4Addr,
) -> Result<Option<Command>, GroupError> {
    let registration = groups.get_mut(mcst_id);
    let Some((change, group)) = registration.and_then(Registration::change_and_group) else {
        return Ok(None);
    };
    change.is_incomplete |= change.last_acked().count() < group.parts.len();
    if change.is_join() {
        if change.idle_position() != Some(change.next.position) {
            return Err(GroupError::InUse(mcst_id));
        }
    } else if let Some(position) = change.common_position(group) {
        // Positions only advance.
        change.next.advance(position);
    }
    change.next.source = change.readings.source(group).or(change.next.source);
    Ok(None)
}

/// Makes the changed group the current one, once its new parts are published.
fn change_published(
    network: &mut Network,
    groups: &mut Groups,
    mcst_id: Ipv4Addr,
) -> Result<Option<Command>, GroupError> {
    let Some(registration) = groups.get_mut(mcst_id) else {
        return Ok(None);
    };
    network.remove_load(&registration.group().tree);
    registration.apply_change();
    network.add_load(&registration.group().tree);
    Ok(Some(Command::LeaderChanged(mcst_id)))
}

/// Yields those parts of a group whose switches are ready.
fn connected_parts<'a>(
    parts: &Parts<'a>,
    of: &'a [GroupPart],
) -> impl Iterator<Item = &'a GroupPart> {
    let network = parts.network;
    of.iter().filter(|on| network.is_ready(on.switch))
}

fn write(on: &GroupPart, updates: Vec<Update>) -> SwitchTask<Reading> {
    SwitchTask::new(on.switch, Task::Write(updates))
}

/// Updates that replace entries whose key is a group's address: they delete those of `removal`, and insert those of
/// `entries`.
fn replace_entries(removal: Vec<Update>, entries: Vec<Update>, program: &Program) -> Vec<Update> {
    let of_group = |updates: Vec<Update>| -> Vec<Update> {
        (updates.into_iter())
            .filter(|update| program.is_by_address(update))
            .collect()
    };
    let (mut gone, mut new) = (of_group(removal), of_group(entries));
    for entry in &mut new {
        // Updates of one Write may be applied in any order (P4Runtime, section 12), so one key is never deleted and inserted.
        if let Some(at) = gone.iter().position(|old| tables::same_key(old, entry)) {
            gone.swap_remove(at);
            entry.r#type = update::Type::Modify.into();
        }
    }
    gone.extend(new);
    gone
}

/// Receiver slots of a group's members at a switch, by port.
fn slots_on(parts: &[GroupPart], switch: SwitchIndex) -> BTreeMap<u32, u32> {
    let on = parts.iter().find(|on| on.switch == switch);
    on.into_iter().flat_map(GroupPart::slots).collect()
}
