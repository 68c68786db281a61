//! Bringing a switch to the desired state after its session opened: the fabric's entries, then its groups.
//!
//! The switch was read before.  Entries are repaired by difference.  Registers are another matter: those of a group are
//! left alone if the switch still shows the group to packets, with the very paths that it should have.  Otherwise
//! they start anew from a PSN that every member is known to have acknowledged: too old a PSN costs retransmissions,
//! too new a one would acknowledge what a member lacks.
//!
//! How far a group is and where its source is, the other switches of its tree say ([`super::locate`]). If the source may be a host next to
//! this very switch, they do not know: then the registers start from what is known for sure, and the switch's own hosts are asked as soon
//! as the group is shown ([`super::recovery`]).

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::error::SwitchError;
use super::group::{Group, GroupPart};
use super::locate::Readings;
use super::position::Position;
use super::procedure::{Order, Procedure, Run, Step};
use super::registers;
use super::session::{Found, Task};
use super::underlay::UnderlayEntries;
use super::{ApiReply, Controller, Owner};
use crate::constants::{REGISTER_AGG, REGISTER_SENT, REGISTER_SRC_PORT};
use crate::tables::{Snapshot, Table};
use crate::topology::SwitchIndex;
use alfirk_p4runtime::p4::v1::Update;
use alfirk_roce::wire::Psn;

/// Whether a switch is in use.
#[derive(Debug)]
pub(super) enum SwitchPhase {
    /// Not connected, or without pipeline.
    Off,
    Booting(Box<Run<Boot>>),
    InUse,
}

impl SwitchPhase {
    pub(super) fn is_ready(&self) -> bool {
        matches!(self, SwitchPhase::InUse)
    }
}

/// A switch that is brought to what it should hold.
#[derive(Debug)]
pub(super) struct Boot {
    switch: SwitchIndex,
    /// What it held when it was read.
    found: Snapshot,
    /// Groups whose registers stand.
    sound: BTreeSet<Ipv4Addr>,
    /// What other switches hold of the groups whose registers are lost.
    readings: BTreeMap<Ipv4Addr, Readings>,
    /// What follows from that.
    starts: BTreeMap<Ipv4Addr, Start>,
}

/// What the registers of a group start from.
#[derive(Clone, Copy, Debug)]
struct Start {
    position: Position,
    /// The port of the source, 0 if there was none, or it is not known.
    source: u32,
    /// Whether that is all there is to know.
    is_sure: bool,
}

/// What another switch is asked about a group.
#[derive(Clone, Copy, Debug)]
pub(super) enum Question {
    /// What it has last acknowledged to the source.
    LastAcked(Ipv4Addr),
    /// The newest PSN that it has been sent.
    Sent(Ipv4Addr),
    /// The port that it takes the source to be behind.
    Source(Ipv4Addr),
}

type Orders = Vec<Order<Question>>;

/// Nothing is undone: a switch of which something is refused is given up until it connects again, and then it is read anew.
impl Procedure for Boot {
    type Place = SwitchIndex;
    type Reading = Question;
    type Failure = SwitchError;

    const NAME: &'static str = "boot";
    const STEPS: &'static [Step<Boot>] = &[
        // Away with what should not be there.
        Step::new("stale", |boot, controller| {
            boot.write(controller.stale(boot))
        }),
        // Next hops, ARP, clone sessions.
        Step::new("base", |boot, controller| {
            boot.missing(controller.underlay_entries(boot.switch).first)
        }),
        // Routes, which refer to next hops.
        Step::new("routes", |boot, controller| {
            boot.missing(controller.underlay_entries(boot.switch).second)
        }),
        // How far groups are whose registers are lost, and where their sources are, from other switches.
        Step::new("survey", Boot::survey).then(Controller::boot_surveyed),
        // Groups are looked up anew in each step: one that is removed meanwhile is left out.
        Step::new("group registers", Boot::group_registers),
        // Where INIT_GROUP does not set them.
        Step::new("group sources", Boot::group_sources),
        Step::new("group entries", Boot::group_entries),
        // The entries that make them visible.
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
        witness: SwitchIndex,
        question: Question,
        result: Result<u64, SwitchError>,
    ) {
        let (Question::LastAcked(group) | Question::Sent(group) | Question::Source(group)) =
            question;
        let reading = self.readings.entry(group).or_default().of(witness);
        match (question, result) {
            (Question::LastAcked(_), Ok(value)) => {
                reading.last_acked = Some(Position::from_register(value));
            }
            (Question::Sent(_), Ok(value)) => reading.sent = Some(Psn::new(value as u32)),
            (Question::Source(_), Ok(port)) => reading.source = Some(port as u32),
            // What is not known from there, others know, or the members.
            (_, Err(_)) => {}
        }
    }

    fn over(controller: &mut Controller, now: u64, switch: SwitchIndex) {
        controller.boot_over(now, switch);
    }
}

impl Boot {
    fn write(&self, updates: Vec<Update>) -> Orders {
        match updates.is_empty() {
            true => Vec::new(),
            false => vec![Order::new(self.switch, Task::Write(updates))],
        }
    }

    fn missing(&self, wanted: Vec<Update>) -> Orders {
        self.write(self.found.missing(wanted))
    }

    /// Asks the other switches of the trees of groups whose registers are lost.
    fn survey(&self, controller: &Controller) -> Orders {
        let mut orders = Vec::new();
        for (group, _) in self.lost_groups(controller) {
            let mcst_id = group.mcst_id;
            for on in group.switches.iter().filter(|on| on.switch != self.switch) {
                if !controller.has_position((mcst_id, on.switch)) {
                    continue;
                }
                let ask = |register, question| {
                    let read = Task::Registers(registers::read(on.group_index, register, 0));
                    Order::read(on.switch, read, question)
                };
                orders.push(ask(REGISTER_AGG, Question::LastAcked(mcst_id)));
                orders.push(ask(REGISTER_SENT, Question::Sent(mcst_id)));
                orders.push(ask(REGISTER_SRC_PORT, Question::Source(mcst_id)));
            }
        }
        orders
    }

    /// What the registers of a group start from, by what the other switches hold.
    fn start(&self, controller: &Controller, group: &Group) -> Start {
        let nothing = Readings::default();
        let readings = self.readings.get(&group.mcst_id).unwrap_or(&nothing);
        let known = group.position;
        if let (Some(source), Some(position)) = (readings.source(group), readings.least()) {
            let port = group.port_of(&controller.topology, self.switch, source);
            return Start {
                position,
                source: port.unwrap_or(0),
                is_sure: port.is_some(),
            };
        }
        let others = group.switches.len() - 1;
        if readings.is_untouched()
            && readings.0.len() == others
            && readings.sent() == Some(known.psn)
            && known == Position::before(group.initial_psn)
        {
            return Start {
                position: known,
                source: 0,
                is_sure: true,
            };
        }
        // A source is no further ahead than its window.
        let mut position = known;
        if let Some(sent) = readings.sent() {
            let acked = Psn::new(sent.get().wrapping_sub(group.window()));
            if position.psn.precedes(acked) {
                position = Position {
                    psn: acked,
                    ..readings.least().unwrap_or(known)
                };
            }
        }
        Start {
            // One before, so that every answer is newer.
            position: Position {
                psn: position.psn.prev(),
                ..position
            },
            source: group.port_of_source(&controller.topology, self.switch),
            is_sure: false,
        }
    }

    fn start_of(&self, controller: &Controller, group: &Group) -> Start {
        let start = self.starts.get(&group.mcst_id).copied();
        start.unwrap_or_else(|| self.start(controller, group))
    }

    fn group_registers(&self, controller: &Controller) -> Orders {
        let lost = self.lost_groups(controller);
        let tasks = lost.flat_map(|(group, on)| {
            let Start {
                position, source, ..
            } = self.start_of(controller, group);
            group.registers_from(position, source, on, &BTreeMap::new())
        });
        tasks.map(|task| Order::new(self.switch, task)).collect()
    }

    fn group_sources(&self, controller: &Controller) -> Orders {
        if controller.program.group_registers.is_some() {
            return Vec::new();
        }
        let lost = self.lost_groups(controller);
        let tasks = lost.flat_map(|(group, on)| {
            let start = self.start_of(controller, group);
            registers::after_init(on.group_index, start.position, start.source)
        });
        let orders = tasks.map(|access| Order::new(self.switch, Task::Registers(access)));
        orders.collect()
    }

    fn group_entries(&self, controller: &Controller) -> Orders {
        let groups = controller.groups_on(self.switch);
        groups
            .flat_map(|(group, on)| self.missing(group.entries(&controller.program, on)))
            .collect()
    }

    fn group_publication(&self, controller: &Controller) -> Orders {
        let lost = self.lost_groups(controller);
        let entries = lost.map(
            |(group, on)| match self.start_of(controller, group).is_sure {
                true => group.publication(&controller.program, on),
                false => group.wide_publication(&controller.program, on),
            },
        );
        entries.flat_map(|entry| self.write(vec![entry])).collect()
    }

    /// Groups that the switch is to have and whose registers are lost.
    fn lost_groups<'a>(
        &'a self,
        controller: &'a Controller,
    ) -> impl Iterator<Item = (&'a Group, &'a GroupPart)> {
        let groups = controller.groups_on(self.switch);
        groups.filter(|(group, _)| !self.sound.contains(&group.mcst_id))
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
        let boot = Boot {
            switch,
            sound: here.map(|(group, _)| group.mcst_id).collect(),
            found: snapshot,
            readings: BTreeMap::new(),
            starts: BTreeMap::new(),
        };
        self.switches[switch.0].boot = SwitchPhase::Booting(Box::new(Run::new(boot)));
        self.unready.insert(switch);
        self.begin::<Boot>(now, switch);
    }

    pub(super) fn switch_failed(&mut self, now: u64, switch: SwitchIndex, error: SwitchError) {
        if self.switches[switch.0].boot.is_ready() {
            self.note_absent(now, switch);
        }
        self.switches[switch.0].boot = SwitchPhase::Off;
        self.switches[switch.0].found = Snapshot::default();
        self.unready.insert(switch);
        self.punts.forget_switch(switch);
        self.recoveries.forget_switch(switch);
        self.forget_markers(now, switch);
        self.forget_orphans(switch);
        self.fail_registrations(now, switch, &error);
        self.queue_reply(ApiReply::SwitchFailed { switch, error });
    }

    fn boot_over(&mut self, now: u64, switch: SwitchIndex) {
        let control = &mut self.switches[switch.0];
        let phase = std::mem::replace(&mut control.boot, SwitchPhase::Off);
        let SwitchPhase::Booting(run) = phase else {
            control.boot = phase;
            return;
        };
        let (boot, ending) = run.end();
        match ending.failure {
            Some(error) => self.with_session(switch, |session, _| session.fail(error)),
            None => {
                control.boot = SwitchPhase::InUse;
                if self.adopts {
                    control.found = boot.found;
                }
                self.unready.remove(&switch);
                self.queue_reply(ApiReply::SwitchReady { switch });
                for (mcst_id, start) in boot.starts {
                    if !start.is_sure {
                        self.recover(now, (mcst_id, switch), start.position);
                    }
                }
                self.note_present(now, switch);
            }
        }
    }

    /// Whether what a switch holds of a group is to be relied on.
    pub(super) fn has_position(&self, (mcst_id, switch): (Ipv4Addr, SwitchIndex)) -> bool {
        self.switches[switch.0].boot.is_ready() && !self.recoveries.is_open((mcst_id, switch))
    }

    fn boot_surveyed(&mut self, switch: SwitchIndex) -> Result<(), SwitchError> {
        let Some(run) = Boot::find(self, switch) else {
            return Ok(());
        };
        let boot = &run.procedure;
        let lost = boot.lost_groups(self);
        let starts: BTreeMap<Ipv4Addr, Start> = lost
            .map(|(group, _)| (group.mcst_id, boot.start(self, group)))
            .collect();
        let readings = boot.readings.clone();
        for (mcst_id, start) in &starts {
            if let Some(registration) = self.groups.get_mut(mcst_id) {
                let group = registration.group_mut();
                let source = readings
                    .get(mcst_id)
                    .and_then(|readings| readings.source(group));
                group.source = source.or(group.source);
                if start.is_sure {
                    group.advance(start.position);
                }
            }
        }
        if let Some(run) = Boot::find_mut(self, switch) {
            run.procedure.starts = starts;
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

    /// Groups that are in use and have the switch in their tree.
    fn groups_on(&self, switch: SwitchIndex) -> impl Iterator<Item = (&Group, &GroupPart)> {
        let groups = self.groups.values().filter(|r| r.is_ready());
        groups.filter_map(move |registration| {
            let group = registration.group();
            Some((group, group.on(switch)?))
        })
    }

    /// What the switch holds and should not, and what hides the groups whose registers are lost.
    fn stale(&self, boot: &Boot) -> Vec<Update> {
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
