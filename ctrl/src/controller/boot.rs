//! Bringing a switch to the desired state after its session opened: the fabric's entries, then its groups.
//!
//! The switch was read before.  Entries are repaired by difference.  Registers are another matter: those of a group are
//! left alone if the switch still shows the group to packets, with the very paths that it should have.  Otherwise
//! they start anew from a PSN that every member is known to have acknowledged: too old a PSN costs retransmissions,
//! too new a one would acknowledge what a member lacks.
//!
//! What another switch of the tree has told its source is such a PSN only for the members that this switch reports on.
//! A sender has less than [`IN_FLIGHT`] packets under way, so that PSN less `IN_FLIGHT` is one for all.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::error::SwitchError;
use super::group::{Group, OnSwitch};
use super::position::Position;
use super::registers;
use super::session::{Found, Task, TaskId};
use super::underlay::UnderlayEntries;
use super::{ApiReply, Controller, Owner};
use crate::constants::REGISTER_AGG;
use crate::tables::{Snapshot, Table};
use crate::topology::SwitchIndex;
use alfirk_p4runtime::p4::v1::Update;

/// More packets than a sender has unacknowledged at a time, and few enough that state this old is still told from
/// newer one (2^23) after some restarts in a row.
pub(super) const IN_FLIGHT: u32 = 1 << 20;
/// Switches that are asked how far a group is.
const WITNESSES: usize = 2;

/// How far a switch is.
#[derive(Debug)]
pub(super) struct Boot {
    step: Step,
    pending: BTreeSet<TaskId>,
    /// What the switch held when it was read.
    pub(super) found: Snapshot,
    /// Groups whose registers stand.
    sound: BTreeSet<Ipv4Addr>,
}

/// Each step starts when every task of the one before is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Not connected, or without pipeline.
    Off,
    /// Away with what should not be there.
    Stale,
    /// Next hops, ARP, clone sessions.
    Base,
    /// Routes, which refer to next hops.
    Routes,
    /// How far groups are whose registers are lost, from other switches.
    Survey,
    /// Registers of the groups that the switch is to have.
    GroupRegisters,
    /// Their entries.
    GroupEntries,
    /// The entries that make them visible.
    GroupPublication,
    /// In use.
    Ready,
}

impl Boot {
    pub(super) fn new() -> Boot {
        Boot {
            step: Step::Off,
            pending: BTreeSet::new(),
            found: Snapshot::default(),
            sound: BTreeSet::new(),
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.step == Step::Ready
    }
}

impl Controller {
    /// The switch runs the pipeline and holds what was found.
    pub(super) fn start_boot(&mut self, now: u64, switch: SwitchIndex, found: Found) {
        self.forget_leftovers(switch);
        let snapshot = Snapshot::new(found.entities);
        self.note_orphans(switch, &snapshot);
        let here = self.groups_on(switch).filter(|(group, on)| {
            let mut shown = group.paths(&self.program, on);
            shown.push(group.publication(&self.program, on));
            found.kept && shown.iter().all(|entry| snapshot.holds(entry))
        });
        let sound = here.map(|(group, _)| group.mcst_id).collect();
        let boot = &mut self.switches[switch.0].boot;
        boot.sound = sound;
        boot.found = snapshot;
        self.boot_step(now, switch, Step::Stale);
    }

    pub(super) fn switch_failed(&mut self, now: u64, switch: SwitchIndex, error: SwitchError) {
        if self.switches[switch.0].boot.is_ready() {
            self.note_absent(now, switch);
        }
        self.switches[switch.0].boot = Boot::new();
        self.unready.insert(switch);
        self.punts.forget_switch(switch);
        self.forget_orphans(switch);
        self.fail_registrations(now, switch, &error);
        self.say(ApiReply::SwitchFailed { switch, error });
    }

    pub(super) fn boot_done(
        &mut self,
        now: u64,
        switch: SwitchIndex,
        task: TaskId,
        result: Result<u64, SwitchError>,
    ) {
        let boot = &mut self.switches[switch.0].boot;
        if !boot.pending.remove(&task) {
            return;
        }
        if let Err(error) = result {
            // A lost connection is reported by the session itself.
            boot.pending.clear();
            if !matches!(error, SwitchError::Lost { .. }) {
                self.with_session(switch, |session, _| session.fail(error));
            }
        } else if boot.pending.is_empty() {
            let next = match boot.step {
                Step::Off => return,
                Step::Stale => Step::Base,
                Step::Base => Step::Routes,
                Step::Routes => Step::Survey,
                Step::Survey => Step::GroupRegisters,
                Step::GroupRegisters => Step::GroupEntries,
                Step::GroupEntries => Step::GroupPublication,
                Step::GroupPublication | Step::Ready => Step::Ready,
            };
            self.boot_step(now, switch, next);
        }
    }

    /// Another switch has told how far a group is, or could not.
    pub(super) fn survey_done(
        &mut self,
        now: u64,
        switch: SwitchIndex,
        mcst_id: Ipv4Addr,
        task: TaskId,
        result: Result<u64, SwitchError>,
    ) {
        if let (Ok(value), Some(registration)) = (result, self.groups.get_mut(&mcst_id)) {
            let told = Position::from_register(value);
            registration.group_mut().advance(told.for_all());
        }
        // What is not known from here is known well enough from before.
        self.boot_done(now, switch, task, Ok(0));
    }

    /// Starts a step, or the first one after it that has something to do.
    fn boot_step(&mut self, now: u64, switch: SwitchIndex, step: Step) {
        self.switches[switch.0].boot.step = step;
        match step {
            Step::Ready => self.unready.remove(&switch),
            _ => self.unready.insert(switch),
        };
        let found = &self.switches[switch.0].boot.found;
        let mut surveys = Vec::new();
        let mut tasks = match step {
            Step::Off => return,
            Step::Stale => vec![Task::Write(self.stale(switch))],
            Step::Base => vec![Task::Write(
                found.missing(self.underlay_entries(switch).first),
            )],
            Step::Routes => vec![Task::Write(
                found.missing(self.underlay_entries(switch).second),
            )],
            Step::Survey => {
                surveys = self.surveys(switch);
                Vec::new()
            }
            Step::Ready => {
                if !self.adopts {
                    self.switches[switch.0].boot.found = Snapshot::default();
                }
                self.say(ApiReply::SwitchReady { switch });
                self.note_present(now, switch);
                return;
            }
            _ => self.group_tasks(switch, step),
        };
        // An empty Write is done at once, so that a step without tasks ends like any other.
        if tasks.is_empty() && surveys.is_empty() {
            tasks.push(Task::Write(Vec::new()));
        }
        for (witness, mcst_id, task) in surveys {
            let owner = Owner::Survey(switch, mcst_id);
            let id = self.submit(now, witness, owner, task);
            self.switches[switch.0].boot.pending.insert(id);
        }
        for task in tasks {
            let id = self.submit(now, switch, Owner::Boot(switch), task);
            self.switches[switch.0].boot.pending.insert(id);
        }
    }

    pub(super) fn underlay_entries(&self, switch: SwitchIndex) -> UnderlayEntries {
        let underlay = &self.underlay;
        let mut entries = underlay.entries(&self.program, &self.topology, &self.config, switch);
        let (first, second) = self.datagram_entries(switch);
        entries.first.extend(first);
        entries.second.extend(second);
        entries
    }

    /// Groups that are in use and have the switch in their tree.
    fn groups_on(&self, switch: SwitchIndex) -> impl Iterator<Item = (&Group, &OnSwitch)> {
        let groups = self.groups.values().filter(|r| r.is_ready());
        groups.filter_map(move |registration| {
            let group = registration.group();
            Some((group, group.on(switch)?))
        })
    }

    /// Those of them whose registers are lost.
    fn lost_groups(&self, switch: SwitchIndex) -> impl Iterator<Item = (&Group, &OnSwitch)> {
        let sound = &self.switches[switch.0].boot.sound;
        self.groups_on(switch)
            .filter(move |(group, _)| !sound.contains(&group.mcst_id))
    }

    /// What the switch holds and should not, and what hides the groups whose registers are lost.
    fn stale(&self, switch: SwitchIndex) -> Vec<Update> {
        let control = &self.switches[switch.0];
        let found = &control.boot.found;
        if found.is_empty() {
            return Vec::new();
        }
        let underlay = self.underlay_entries(switch);
        let mut wanted: Vec<Update> = underlay.first;
        wanted.extend(underlay.second);
        for (group, on) in self.groups_on(switch) {
            // Solved once already, when the group was made.
            wanted.extend(group.entries(&self.program, on).unwrap_or_default());
            wanted.push(group.publication(&self.program, on));
        }
        let is_orphan = |entity: &_| {
            let mut orphans = control.orphans.iter();
            let group = self.program.group_of(entity);
            group.is_some_and(|group| orphans.any(|(index, part)| group.is(*index, part.mcst_id)))
        };
        let mut updates: Vec<Update> = self
            .lost_groups(switch)
            .filter(|(group, _)| group.is_shown(&self.program, found))
            .map(|(group, _)| group.withdrawal(&self.program))
            .collect();
        updates.extend(found.surplus(
            &Snapshot::of_updates(&wanted),
            self.program.groups.id(),
            is_orphan,
        ));
        updates
    }

    /// Whom to ask how far groups are whose registers are lost.
    fn surveys(&self, switch: SwitchIndex) -> Vec<(SwitchIndex, Ipv4Addr, Task)> {
        let groups = self.lost_groups(switch);
        let reads = groups.flat_map(|(group, _)| {
            let others = group
                .switches
                .iter()
                .filter(|on| on.switch != switch && self.switches[on.switch.0].boot.is_ready());
            others.take(WITNESSES).map(|on| {
                let read = registers::read(on.group_index, REGISTER_AGG, 0);
                (on.switch, group.mcst_id, Task::Registers(read))
            })
        });
        reads.collect()
    }

    /// One step for every group that the switch is to have.
    ///
    /// Groups are looked up anew in each step: one that is removed meanwhile is left out.
    fn group_tasks(&self, switch: SwitchIndex, step: Step) -> Vec<Task> {
        let found = &self.switches[switch.0].boot.found;
        match step {
            Step::GroupRegisters => {
                let lost = self.lost_groups(switch);
                lost.flat_map(|(group, on)| group.registers(&self.topology, on, &BTreeMap::new()))
                    .collect()
            }
            Step::GroupEntries => self
                .groups_on(switch)
                // Solved once already, when the group was made.
                .filter_map(|(group, on)| group.entries(&self.program, on).ok())
                .map(|entries| Task::Write(found.missing(entries)))
                .collect(),
            Step::GroupPublication => self
                .lost_groups(switch)
                .map(|(group, on)| Task::Write(vec![group.publication(&self.program, on)]))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Indexes and addresses that waited for this switch to start anew are free again.
    fn forget_leftovers(&mut self, switch: SwitchIndex) {
        let control = &mut self.switches[switch.0];
        control.room.clean();
        for (_, mcst_id) in std::mem::take(&mut control.leftovers) {
            self.release_address(mcst_id);
        }
    }

    /// Makes an address usable again, unless a switch may still know it.
    pub(super) fn release_address(&mut self, mcst_id: Ipv4Addr) {
        let is_left = |control: &super::SwitchControl| {
            control.leftovers.iter().any(|(_, left)| *left == mcst_id)
        };
        if !self.switches.iter().any(is_left) {
            self.addresses.release(u32::from(mcst_id));
        }
    }
}
