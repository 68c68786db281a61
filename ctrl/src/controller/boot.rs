//! Boot procedure: brings a switch to the desired state after its session has opened.
//!
//! The session has read all entries of the switch. The procedure writes the missing entries, first those of the underlay
//! (routes, ARP and others that do not depend on groups), then those of groups. It keeps the registers of a group if the
//! group is published on the switch with the expected paths. Otherwise it initialises them from a PSN that every member is
//! known to have acknowledged. A PSN that is too old only causes retransmissions; one that is too new would acknowledge
//! data that a member lacks.
//!
//! The position of a group (PSN and MSN that all members have acknowledged) and its source are read from the other
//! switches of its tree ([`super::locate`]). They cannot be determined if the source may be a host of the booting switch.
//! Then the registers start from a position known to be safe, and the hosts of the switch are queried once the group is
//! published ([`super::recovery`]).

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::error::SwitchError;
use super::group::{Group, GroupPart};
use super::locate::Readings;
use super::position::Position;
use super::procedure::{Procedure, Run, Step, SwitchTask};
use super::registers;
use super::session::{InitialState, Task};
use super::underlay::UnderlayEntries;
use super::{ApiReply, Controller, Owner};
use crate::constants::{REGISTER_AGG, REGISTER_SENT, REGISTER_SRC_PORT};
use crate::tables::{Snapshot, Table};
use crate::topology::SwitchIndex;
use alfirk_p4runtime::p4::v1::Update;
use alfirk_roce::wire::Psn;

/// Progress of the boot procedure of a switch.
#[derive(Debug)]
pub(super) enum SwitchPhase {
    /// The switch is not connected, or has no pipeline.
    Off,
    Booting(Box<Run<Boot>>),
    InUse,
}

impl SwitchPhase {
    pub(super) fn is_ready(&self) -> bool {
        matches!(self, SwitchPhase::InUse)
    }
}

/// State of the boot procedure of one switch.
#[derive(Debug)]
pub(super) struct Boot {
    switch: SwitchIndex,
    /// Entries that the switch had when its session opened.
    found: Snapshot,
    /// Groups whose registers on the switch are still valid, so that they are not written.
    intact: BTreeSet<Ipv4Addr>,
    /// Registers read from other switches, for each group whose registers this switch has lost.
    readings: BTreeMap<Ipv4Addr, Readings>,
    /// Initial register values of each group whose registers this switch has lost, computed from `readings`.
    initial_registers: BTreeMap<Ipv4Addr, InitialRegisters>,
}

/// Initial values of a group's registers on the booting switch.
#[derive(Clone, Copy, Debug)]
struct InitialRegisters {
    position: Position,
    /// Port of the source; 0 if there is none or it is unknown.
    source: u32,
    /// Whether the position and source are certain, so that the members need not be queried (recovery).
    is_certain: bool,
}

/// Register of a group that is read from another switch.
#[derive(Clone, Copy, Debug)]
pub(super) enum GroupRegister {
    /// PSN and MSN last acknowledged to the source.
    LastAcked(Ipv4Addr),
    /// Newest PSN sent by the source.
    Sent(Ipv4Addr),
    /// Port of the source.
    Source(Ipv4Addr),
}

type SwitchTasks = Vec<SwitchTask<GroupRegister>>;

/// No step is undone: a switch that rejects an entry is failed until it reconnects, and is then read again.
impl Procedure for Boot {
    type Key = SwitchIndex;
    type Reading = GroupRegister;
    type Failure = SwitchError;

    const NAME: &'static str = "boot";
    const STEPS: &'static [Step<Boot>] = &[
        // Delete unwanted entries.
        Step::new("stale", |boot, controller| {
            boot.write(controller.cleanup_updates(boot))
        }),
        // Write next hops, ARP entries and clone sessions.
        Step::new("base", |boot, controller| {
            boot.write_missing(controller.underlay_entries(boot.switch).first)
        }),
        // Write routes, which refer to next hops.
        Step::new("routes", |boot, controller| {
            boot.write_missing(controller.underlay_entries(boot.switch).second)
        }),
        // Read position and source of groups with lost registers from other switches.
        Step::new("survey", Boot::read_other_switches).then(Controller::process_boot_readings),
        // Each step looks up the groups again, as some may have been removed meanwhile.
        Step::new("group registers", Boot::group_registers),
        // On targets whose INIT_GROUP does not set the source.
        Step::new("group sources", Boot::group_sources),
        Step::new("group entries", Boot::group_entries),
        // Publish the groups.
        Step::new("group publication", Boot::group_publication),
    ];

    fn find(controller: &Controller, switch: SwitchIndex) -> Option<&Run<Boot>> {
        match &controller.switches[switch.0].boot {
            SwitchPhase::Booting(run) => Some(run),
            SwitchPhase::Off | SwitchPhase::InUse => None,
        }
    }

    fn find_mut(controller: &mut Controller, switch: SwitchIndex) -> Option<&mut Run<Boot>> {
        match &mut controller.switches[switch.0].boot {
            SwitchPhase::Booting(run) => Some(run),
            SwitchPhase::Off | SwitchPhase::InUse => None,
        }
    }

    fn owner(switch: SwitchIndex) -> Owner {
        Owner::Boot(switch)
    }

    fn record_reading(
        &mut self,
        other: SwitchIndex,
        register: GroupRegister,
        result: Result<u64, SwitchError>,
    ) {
        let (GroupRegister::LastAcked(group)
        | GroupRegister::Sent(group)
        | GroupRegister::Source(group)) = register;
        let reading = self.readings.entry(group).or_default().entry(other);
        match (register, result) {
            (GroupRegister::LastAcked(_), Ok(value)) => {
                reading.last_acked = Some(Position::from_register(value));
            }
            (GroupRegister::Sent(_), Ok(value)) => reading.sent = Some(Psn::new(value as u32)),
            (GroupRegister::Source(_), Ok(port)) => reading.source = Some(port as u32),
            // Other switches or the members have the value.
            (_, Err(_)) => {}
        }
    }

    fn ended(controller: &mut Controller, now: u64, switch: SwitchIndex) {
        controller.boot_ended(now, switch);
    }
}

impl Boot {
    fn write(&self, updates: Vec<Update>) -> SwitchTasks {
        match updates.is_empty() {
            true => Vec::new(),
            false => vec![SwitchTask::new(self.switch, Task::Write(updates))],
        }
    }

    fn write_missing(&self, wanted: Vec<Update>) -> SwitchTasks {
        self.write(self.found.missing(wanted))
    }

    /// Reads registers of the other switches in the trees of groups with lost registers.
    fn read_other_switches(&self, controller: &Controller) -> SwitchTasks {
        let mut switch_tasks = Vec::new();
        for (group, _) in self.lost_groups(controller) {
            let mcst_id = group.mcst_id;
            for on in group.parts.iter().filter(|on| on.switch != self.switch) {
                if !controller.has_position((mcst_id, on.switch)) {
                    continue;
                }
                let read_task = |number, register| {
                    let read = Task::Registers(registers::read(on.group_index, number, 0));
                    SwitchTask::read(on.switch, read, register)
                };
                switch_tasks.push(read_task(REGISTER_AGG, GroupRegister::LastAcked(mcst_id)));
                switch_tasks.push(read_task(REGISTER_SENT, GroupRegister::Sent(mcst_id)));
                switch_tasks.push(read_task(REGISTER_SRC_PORT, GroupRegister::Source(mcst_id)));
            }
        }
        switch_tasks
    }

    /// Computes the initial register values of a group from the readings of other switches.
    fn compute_initial_registers(
        &self,
        controller: &Controller,
        group: &Group,
    ) -> InitialRegisters {
        let nothing = Readings::default();
        let readings = self.readings.get(&group.mcst_id).unwrap_or(&nothing);
        let known = group.position;
        if let (Some(source), Some(position)) = (readings.source(group), readings.oldest_acked()) {
            let port = group.port_towards(&controller.topology, self.switch, source);
            return InitialRegisters {
                position,
                source: port.unwrap_or(0),
                is_certain: port.is_some(),
            };
        }
        let others = group.parts.len() - 1;
        if readings.had_no_source()
            && readings.0.len() == others
            && readings.newest_sent() == Some(known.psn)
            && known == Position::before(group.initial_psn)
        {
            return InitialRegisters {
                position: known,
                source: 0,
                is_certain: true,
            };
        }
        // The source has sent at most a window beyond the last acknowledged PSN.
        let mut position = known;
        if let Some(sent) = readings.newest_sent() {
            let acked = Psn::new(sent.get().wrapping_sub(group.window()));
            if position.psn.precedes(acked) {
                position = Position {
                    psn: acked,
                    ..readings.oldest_acked().unwrap_or(known)
                };
            }
        }
        InitialRegisters {
            // The PSN before, so that every reply of a member is newer.
            position: Position {
                psn: position.psn.prev(),
                ..position
            },
            source: group.port_towards_source(&controller.topology, self.switch),
            is_certain: false,
        }
    }

    fn initial_registers_of(&self, controller: &Controller, group: &Group) -> InitialRegisters {
        let start = self.initial_registers.get(&group.mcst_id).copied();
        start.unwrap_or_else(|| self.compute_initial_registers(controller, group))
    }

    fn group_registers(&self, controller: &Controller) -> SwitchTasks {
        let lost = self.lost_groups(controller);
        let tasks = lost.flat_map(|(group, on)| {
            let InitialRegisters {
                position, source, ..
            } = self.initial_registers_of(controller, group);
            group.registers_from(position, source, on, &BTreeMap::new())
        });
        tasks
            .map(|task| SwitchTask::new(self.switch, task))
            .collect()
    }

    fn group_sources(&self, controller: &Controller) -> SwitchTasks {
        if controller.program.group_registers.is_some() {
            return Vec::new();
        }
        let lost = self.lost_groups(controller);
        let tasks = lost.flat_map(|(group, on)| {
            let start = self.initial_registers_of(controller, group);
            registers::after_init(on.group_index, start.position, start.source)
        });
        let switch_tasks =
            tasks.map(|access| SwitchTask::new(self.switch, Task::Registers(access)));
        switch_tasks.collect()
    }

    fn group_entries(&self, controller: &Controller) -> SwitchTasks {
        let groups = controller.groups_on(self.switch);
        groups
            .flat_map(|(group, on)| self.write_missing(group.entries(&controller.program, on)))
            .collect()
    }

    fn group_publication(&self, controller: &Controller) -> SwitchTasks {
        let lost = self.lost_groups(controller);
        let entries =
            lost.map(
                |(group, on)| match self.initial_registers_of(controller, group).is_certain {
                    true => group.publication(&controller.program, on),
                    false => group.wide_publication(&controller.program, on),
                },
            );
        entries.flat_map(|entry| self.write(vec![entry])).collect()
    }

    /// Groups on this switch whose registers are lost and must be initialised.
    fn lost_groups<'a>(
        &'a self,
        controller: &'a Controller,
    ) -> impl Iterator<Item = (&'a Group, &'a GroupPart)> {
        let groups = controller.groups_on(self.switch);
        groups.filter(|(group, _)| !self.intact.contains(&group.mcst_id))
    }
}

impl Controller {
    /// Starts the boot procedure of a switch that runs the pipeline and has the entries `found`.
    pub(super) fn start_boot(&mut self, now: u64, switch: SwitchIndex, found: InitialState) {
        self.discard_leftovers(switch);
        let snapshot = Snapshot::new(found.entities);
        self.record_orphans(switch, &snapshot);
        let here = self.groups_on(switch).filter(|(group, on)| {
            let mut shown = group.paths(&self.program, on);
            shown.push(group.publication(&self.program, on));
            found.has_kept_state && shown.iter().all(|entry| snapshot.contains(entry))
        });
        let boot = Boot {
            switch,
            intact: here.map(|(group, _)| group.mcst_id).collect(),
            found: snapshot,
            readings: BTreeMap::new(),
            initial_registers: BTreeMap::new(),
        };
        self.switches[switch.0].boot = SwitchPhase::Booting(Box::new(Run::new(boot)));
        self.unready.insert(switch);
        self.begin::<Boot>(now, switch);
    }

    pub(super) fn switch_failed(&mut self, now: u64, switch: SwitchIndex, error: SwitchError) {
        if self.switches[switch.0].boot.is_ready() {
            self.note_disconnected(now, switch);
        }
        self.switches[switch.0].boot = SwitchPhase::Off;
        self.switches[switch.0].found = Snapshot::default();
        self.unready.insert(switch);
        self.punts.discard_switch(switch);
        self.recoveries.discard_switch(switch);
        self.discard_markers(now, switch);
        self.discard_orphans(switch);
        self.fail_registrations(now, switch, &error);
        self.queue_reply(ApiReply::SwitchFailed { switch, error });
    }

    fn boot_ended(&mut self, now: u64, switch: SwitchIndex) {
        let control = &mut self.switches[switch.0];
        let phase = std::mem::replace(&mut control.boot, SwitchPhase::Off);
        let SwitchPhase::Booting(run) = phase else {
            control.boot = phase;
            return;
        };
        let (boot, outcome) = run.into_outcome();
        match outcome.failure {
            Some(error) => self.with_session(switch, |session, _| session.fail(error)),
            None => {
                control.boot = SwitchPhase::InUse;
                if self.may_adopt {
                    control.found = boot.found;
                }
                self.unready.remove(&switch);
                self.queue_reply(ApiReply::SwitchReady { switch });
                for (mcst_id, start) in boot.initial_registers {
                    if !start.is_certain {
                        self.recover(now, (mcst_id, switch), start.position);
                    }
                }
                self.note_reconnected(now, switch);
            }
        }
    }

    /// Whether the registers of a group on a switch are reliable: the switch is ready, and no recovery of the group is
    /// pending there.
    pub(super) fn has_position(&self, (mcst_id, switch): (Ipv4Addr, SwitchIndex)) -> bool {
        self.switches[switch.0].boot.is_ready() && !self.recoveries.is_running((mcst_id, switch))
    }

    fn process_boot_readings(&mut self, switch: SwitchIndex) -> Result<(), SwitchError> {
        let Some(run) = Boot::find(self, switch) else {
            return Ok(());
        };
        let boot = &run.procedure;
        let lost = boot.lost_groups(self);
        let initial_registers: BTreeMap<Ipv4Addr, InitialRegisters> = lost
            .map(|(group, _)| (group.mcst_id, boot.compute_initial_registers(self, group)))
            .collect();
        let readings = boot.readings.clone();
        for (mcst_id, start) in &initial_registers {
            if let Some(registration) = self.groups.get_mut(mcst_id) {
                let group = registration.group_mut();
                let source = readings
                    .get(mcst_id)
                    .and_then(|readings| readings.source(group));
                group.source = source.or(group.source);
                if start.is_certain {
                    group.advance(start.position);
                }
            }
        }
        if let Some(run) = Boot::find_mut(self, switch) {
            run.procedure.initial_registers = initial_registers;
        }
        Ok(())
    }

    pub(super) fn underlay_entries(&self, switch: SwitchIndex) -> UnderlayEntries {
        let underlay = &self.underlay;
        let mut entries = underlay.entries(&self.program, &self.topology, &self.config, switch);
        let (first, second) = self.datagram_entries(switch);
        entries.first.extend(first);
        entries.second.extend(second);
        entries
    }

    /// Active groups with this switch in their tree.
    fn groups_on(&self, switch: SwitchIndex) -> impl Iterator<Item = (&Group, &GroupPart)> {
        let groups = self.groups.values().filter(|r| r.is_ready());
        groups.filter_map(move |registration| {
            let group = registration.group();
            Some((group, group.part_on(switch)?))
        })
    }

    /// Updates that delete unwanted entries of a booting switch, and withdraw the groups whose registers it has lost.
    fn cleanup_updates(&self, boot: &Boot) -> Vec<Update> {
        let Boot { switch, found, .. } = boot;
        let switch = *switch;
        let control = &self.switches[switch.0];
        if found.is_empty() {
            return Vec::new();
        }
        let underlay = self.underlay_entries(switch);
        let mut wanted: Vec<Update> = underlay.first;
        wanted.extend(underlay.second);
        for (group, on) in self.groups_on(switch) {
            wanted.extend(group.entries(&self.program, on));
            wanted.push(group.publication(&self.program, on));
        }
        let is_orphan = |entity: &_| {
            let mut orphans = control.orphans.iter();
            let group = self.program.group_of(entity);
            group.is_some_and(|group| orphans.any(|(index, part)| group.is(*index, part.mcst_id)))
        };
        let mut updates: Vec<Update> = boot
            .lost_groups(self)
            .filter(|(group, _)| group.is_published(&self.program, found))
            .map(|(group, _)| group.withdrawal(&self.program))
            .collect();
        updates.extend(found.surplus_deletions(
            &Snapshot::of_updates(&wanted),
            self.program.groups.id(),
            is_orphan,
        ));
        updates
    }

    /// Frees the group indexes and addresses that were reserved because their groups could not be removed from this switch.
    fn discard_leftovers(&mut self, switch: SwitchIndex) {
        let control = &mut self.switches[switch.0];
        control.capacity.end_quarantine();
        for (_, mcst_id) in std::mem::take(&mut control.leftovers) {
            self.release_address(mcst_id);
        }
    }

    /// Frees the address of a removed group, unless a switch may still have entries of the group.
    pub(super) fn release_address(&mut self, mcst_id: Ipv4Addr) {
        let is_left = |control: &super::SwitchControl| {
            control.leftovers.iter().any(|(_, left)| *left == mcst_id)
        };
        if !self.switches.iter().any(is_left) {
            self.addresses.release(u32::from(mcst_id));
        }
    }
}
