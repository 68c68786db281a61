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

use super::command::{Command, Ended};
use super::datagrams::Datagrams;
use super::error::SwitchError;
use super::event::ApiReply;
use super::group::{Group, GroupPart};
use super::groups::Groups;
use super::locate::Readings;
use super::network::Network;
use super::position::Position;
use super::procedure::{Holders, Parts, Procedure, Run, Step, SwitchTask};
use super::registers;
use super::session::Task;
use super::switches::Owner;
use crate::constants::{REGISTER_AGG, REGISTER_SENT, REGISTER_SRC_PORT};
use crate::tables::{Snapshot, Table};
use crate::topology::{SwitchIndex, Topology};
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

    fn boot(&self) -> Option<&Run<Boot>> {
        match self {
            SwitchPhase::Booting(run) => Some(run),
            SwitchPhase::Off | SwitchPhase::InUse => None,
        }
    }

    fn boot_mut(&mut self) -> Option<&mut Run<Boot>> {
        match self {
            SwitchPhase::Booting(run) => Some(run),
            SwitchPhase::Off | SwitchPhase::InUse => None,
        }
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
        Step::new("stale", |boot, parts| {
            boot.write(boot.cleanup_updates(parts))
        }),
        // Write next hops, ARP entries and clone sessions.
        Step::new("base", |boot, parts| {
            boot.write_missing(first_entries(parts.network, parts.datagrams, boot.switch))
        }),
        // Write routes, which refer to next hops.
        Step::new("routes", |boot, parts| {
            boot.write_missing(second_entries(parts.network, parts.datagrams, boot.switch))
        }),
        // Read position and source of groups with lost registers from other switches.
        Step::new("survey", Boot::read_other_switches).then(process_readings),
        // Each step looks up the groups again, as some may have been removed meanwhile.
        Step::new("group registers", Boot::group_registers),
        // On targets whose INIT_GROUP does not set the source.
        Step::new("group sources", Boot::group_sources),
        Step::new("group entries", Boot::group_entries),
        // Publish the groups.
        Step::new("group publication", Boot::group_publication),
    ];

    fn find<'a>(parts: &Parts<'a>, switch: SwitchIndex) -> Option<&'a Run<Boot>> {
        parts.network.switches().phase(switch).boot()
    }

    fn find_mut(holders: Holders<'_>, switch: SwitchIndex) -> Option<&mut Run<Boot>> {
        holders.network.switches_mut().phase_mut(switch).boot_mut()
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

    fn ended(switch: SwitchIndex) -> Ended {
        Ended::Boot(switch)
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
    fn read_other_switches(&self, parts: &Parts) -> SwitchTasks {
        let mut switch_tasks = Vec::new();
        for (group, _) in self.lost_groups(parts.groups) {
            let mcst_id = group.mcst_id;
            for on in group.parts.iter().filter(|on| on.switch != self.switch) {
                if !parts
                    .recoveries
                    .has_position(parts.network, (mcst_id, on.switch))
                {
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
    fn compute_initial_registers(&self, topology: &Topology, group: &Group) -> InitialRegisters {
        let nothing = Readings::default();
        let readings = self.readings.get(&group.mcst_id).unwrap_or(&nothing);
        let known = group.position;
        if let (Some(source), Some(position)) = (readings.source(group), readings.oldest_acked()) {
            let port = group.port_towards(topology, self.switch, source);
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
            source: group.port_towards_source(topology, self.switch),
            is_certain: false,
        }
    }

    fn initial_registers_of(&self, topology: &Topology, group: &Group) -> InitialRegisters {
        let start = self.initial_registers.get(&group.mcst_id).copied();
        start.unwrap_or_else(|| self.compute_initial_registers(topology, group))
    }

    fn group_registers(&self, parts: &Parts) -> SwitchTasks {
        let lost = self.lost_groups(parts.groups);
        let tasks = lost.flat_map(|(group, on)| {
            let InitialRegisters {
                position, source, ..
            } = self.initial_registers_of(parts.network.topology(), group);
            group.registers_from(position, source, on, &BTreeMap::new())
        });
        tasks
            .map(|task| SwitchTask::new(self.switch, task))
            .collect()
    }

    fn group_sources(&self, parts: &Parts) -> SwitchTasks {
        if parts.network.program().group_registers.is_some() {
            return Vec::new();
        }
        let lost = self.lost_groups(parts.groups);
        let tasks = lost.flat_map(|(group, on)| {
            let start = self.initial_registers_of(parts.network.topology(), group);
            registers::after_init(on.group_index, start.position, start.source)
        });
        let switch_tasks =
            tasks.map(|access| SwitchTask::new(self.switch, Task::Registers(access)));
        switch_tasks.collect()
    }

    fn group_entries(&self, parts: &Parts) -> SwitchTasks {
        let groups = parts.groups.on_switch(self.switch);
        groups
            .flat_map(|(group, on)| self.write_missing(group.entries(parts.network.program(), on)))
            .collect()
    }

    fn group_publication(&self, parts: &Parts) -> SwitchTasks {
        let lost = self.lost_groups(parts.groups);
        let entries = lost.map(|(group, on)| {
            match self
                .initial_registers_of(parts.network.topology(), group)
                .is_certain
            {
                true => group.publication(parts.network.program(), on),
                false => group.wide_publication(parts.network.program(), on),
            }
        });
        entries.flat_map(|entry| self.write(vec![entry])).collect()
    }

    /// Updates that delete unwanted entries of the switch, and withdraw the groups whose registers it has lost.
    fn cleanup_updates(&self, parts: &Parts) -> Vec<Update> {
        let (switch, found, program) = (self.switch, &self.found, parts.network.program());
        if found.is_empty() {
            return Vec::new();
        }
        let mut wanted = first_entries(parts.network, parts.datagrams, switch);
        wanted.extend(second_entries(parts.network, parts.datagrams, switch));
        for (group, on) in parts.groups.on_switch(switch) {
            wanted.extend(group.entries(program, on));
            wanted.push(group.publication(program, on));
        }
        let is_orphan = |entity: &_| {
            let group = program.group_of(entity);
            group.is_some_and(|group| parts.adoption.has_orphan(switch, group))
        };
        let mut updates: Vec<Update> = self
            .lost_groups(parts.groups)
            .filter(|(group, _)| group.is_published(program, found))
            .map(|(group, _)| group.withdrawal(program))
            .collect();
        updates.extend(found.surplus_deletions(
            &Snapshot::of_updates(&wanted),
            program.groups.id(),
            is_orphan,
        ));
        updates
    }

    /// Groups on this switch whose registers are lost and must be initialised.
    fn lost_groups<'a>(
        &'a self,
        groups: &'a Groups,
    ) -> impl Iterator<Item = (&'a Group, &'a GroupPart)> {
        let groups = groups.on_switch(self.switch);
        groups.filter(|(group, _)| !self.intact.contains(&group.mcst_id))
    }
}

/// Starts the boot procedure of a switch that runs the pipeline and has the entries `entries`. `has_kept_state`: whether it
/// has kept tables and registers.
pub(super) fn prepare(
    network: &mut Network,
    groups: &Groups,
    switch: SwitchIndex,
    has_kept_state: bool,
    entries: Snapshot,
) {
    let here = groups.on_switch(switch).filter(|(group, on)| {
        let mut shown = group.paths(network.program(), on);
        shown.push(group.publication(network.program(), on));
        has_kept_state && shown.iter().all(|entry| entries.contains(entry))
    });
    let boot = Boot {
        switch,
        intact: here.map(|(group, _)| group.mcst_id).collect(),
        found: entries,
        readings: BTreeMap::new(),
        initial_registers: BTreeMap::new(),
    };
    let phase = SwitchPhase::Booting(Box::new(Run::new(boot)));
    network.switches_mut().enter(switch, phase);
}

/// Ends the boot procedure of a switch. Returns the entries that the switch had when its session opened, and the commands
/// that follow; `None` if the switch has failed.
pub(super) fn finish(
    network: &mut Network,
    switch: SwitchIndex,
) -> Option<(Snapshot, Vec<Command>)> {
    network.switches().phase(switch).boot()?;
    let SwitchPhase::Booting(run) = network.switches_mut().enter(switch, SwitchPhase::Off) else {
        return None;
    };
    let (boot, outcome) = run.into_outcome();
    if let Some(error) = outcome.failure {
        network.with_session(switch, |session, _| session.fail(error));
        return None;
    }
    network.switches_mut().enter(switch, SwitchPhase::InUse);
    network.reply(ApiReply::SwitchReady { switch });
    let uncertain = boot.initial_registers.into_iter();
    let uncertain = uncertain.filter(|(_, start)| !start.is_certain);
    let recoveries =
        uncertain.map(|(mcst_id, start)| Command::Recover((mcst_id, switch), start.position));
    let commands = recoveries.chain([Command::SwitchReady(switch)]).collect();
    Some((boot.found, commands))
}

/// Computes the initial registers of groups from the registers of other switches.
fn process_readings(
    network: &mut Network,
    groups: &mut Groups,
    switch: SwitchIndex,
) -> Result<Option<Command>, SwitchError> {
    let (topology, switches) = network.topology_and_switches();
    let Some(run) = switches.phase_mut(switch).boot_mut() else {
        return Ok(None);
    };
    let boot = &mut run.procedure;
    let lost = boot.lost_groups(groups);
    let initial_registers: BTreeMap<Ipv4Addr, InitialRegisters> = lost
        .map(|(group, _)| {
            let start = boot.compute_initial_registers(topology, group);
            (group.mcst_id, start)
        })
        .collect();
    for (mcst_id, start) in &initial_registers {
        if let Some(registration) = groups.get_mut(*mcst_id) {
            let group = registration.group_mut();
            let readings = boot.readings.get(mcst_id);
            let source = readings.and_then(|readings| readings.source(group));
            group.source = source.or(group.source);
            if start.is_certain {
                group.advance(start.position);
            }
        }
    }
    boot.initial_registers = initial_registers;
    Ok(None)
}

/// Entries of a switch that do not depend on groups, and those of datagram groups: those that are written first. Computed
/// apart from [`second_entries`], which are written later, because all switches of a fabric boot at the same time.
pub(super) fn first_entries(
    network: &Network,
    datagrams: &Datagrams,
    switch: SwitchIndex,
) -> Vec<Update> {
    let (program, topology) = (network.program(), network.topology());
    let config = network.config();
    let mut entries = network
        .underlay()
        .first_entries(program, topology, config, switch);
    entries.extend(datagrams.entries(program, switch).0);
    entries
}

/// Entries of a switch that refer to its [`first_entries`].
pub(super) fn second_entries(
    network: &Network,
    datagrams: &Datagrams,
    switch: SwitchIndex,
) -> Vec<Update> {
    let (program, topology) = (network.program(), network.topology());
    let mut entries = network.underlay().second_entries(program, topology, switch);
    entries.extend(datagrams.entries(program, switch).1);
    entries
}
