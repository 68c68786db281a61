//! Finding a group's position and source again after a switch has lost its registers, where no other switch knows them.
//!
//! [`super::boot`] makes the registers ready from what other switches of the tree hold. That is enough unless the source may hang at the
//! very switch: then only its members know how far the group is. They are asked as a source would ask them:
//!
//! ```text
//!  controller ── a duplicate, its PSN long acknowledged ──▶ switch ──▶ member (duplicate.rs)
//!                                                           switch ◀── ACK of the newest PSN that it has
//!  controller ── read of CLAIMED, for each path ──────────▶ switch
//!             ◀──────────────────────────────────────────── the newest PSN that each path has acknowledged
//!  controller ── INIT_GROUP from the position of all (locate.rs), the source's port, the group's entry
//! ```
//!
//! The group is shown to packets all the while, for only so do answers come in. Its registers are set on a visible group in one step per
//! path, which is safe: they rise to what all members have. Until the group runs again its source may be further ahead than its window
//! (`Window::MAX` in the group's entry), lest a position that is too old holds it up.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use alfirk_roce::wire::Psn;

use super::error::SwitchError;
use super::group::{Group, GroupPart};
use super::locate::{Evidence, Local, Located, Readings};
use super::position::Position;
use super::registers;
use super::session::{Task, TaskId};
use super::timers::Timers;
use super::{duplicate, Controller, Owner};
use crate::constants::{REGISTER_AGG, REGISTER_CLAIMED, REGISTER_SENT, REGISTER_SRC_PORT};
use crate::topology::SwitchIndex;

/// How often members are asked that do not answer.
const ROUNDS: u32 = 8;
/// How often complaints have a position looked for again.
const MOST_COMPLAINTS: u32 = 4;

/// A group on one switch.
pub(super) type Place = (Ipv4Addr, SwitchIndex);

/// Parts of groups whose position is looked for. At most one per group and switch of its tree.
#[derive(Debug, Default)]
pub(super) struct Recoveries {
    open: BTreeMap<Place, Recovery>,
    timers: Timers<Place>,
    /// The member of a group that complained last that nothing moves.
    complained: BTreeMap<Ipv4Addr, Ipv4Addr>,
    /// Parts whose registers have been repaired since their group made progress.
    repaired: BTreeSet<Place>,
}

#[derive(Debug)]
struct Recovery {
    /// What all members but the source have for sure: answers are newer.
    base: Position,
    /// How often it has begun again because of a complaint.
    complaints: u32,
    round: u32,
    stage: Stage,
    pending: BTreeMap<TaskId, Asked>,
    /// The newest PSN that each path with a member has acknowledged.
    claims: BTreeMap<u8, Psn>,
    readings: Readings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Members have been asked; their answers are on the way.
    Asking,
    /// What the switches hold is being read.
    Reading,
    /// Registers are being set.
    Setting(Setting),
    /// The source may still be further ahead than its window.
    Open,
}

/// What registers are set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Setting {
    position: Position,
    source: u32,
    /// Whether the position is the newest one.
    is_exact: bool,
    /// Whether INIT_GROUP is done, and what is beside it is being set.
    is_complete: bool,
}

#[derive(Clone, Copy, Debug)]
enum Asked {
    Claim(u8),
    LastAcked(SwitchIndex),
    Sent(SwitchIndex),
    Source(SwitchIndex),
    Nothing,
}

impl Recoveries {
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        self.timers.first()
    }

    /// A part's position is being looked for, or it is not known whether it is the newest.
    pub(super) fn is_open(&self, place: Place) -> bool {
        self.open.contains_key(&place)
    }

    pub(super) fn forget(&mut self, place: Place) {
        self.open.remove(&place);
        self.timers.clear(place);
    }

    pub(super) fn forget_group(&mut self, mcst_id: Ipv4Addr) {
        let places = (mcst_id, SwitchIndex(0))..=(mcst_id, SwitchIndex(usize::MAX));
        let places: Vec<Place> = self.open.range(places).map(|(place, _)| *place).collect();
        for place in places {
            self.forget(place);
        }
        self.complained.remove(&mcst_id);
        self.has_moved(mcst_id);
    }

    pub(super) fn forget_switch(&mut self, switch: SwitchIndex) {
        let places = self.open.keys().filter(|(_, at)| *at == switch);
        for place in places.copied().collect::<Vec<_>>() {
            self.forget(place);
        }
    }

    /// Whether a part may be repaired instead of taking out a member that claims more than was sent: once, until the group makes
    /// progress. Else a member that claims so for ever could not be taken out.
    pub(super) fn may_repair(&mut self, place: Place) -> bool {
        self.repaired.insert(place)
    }

    /// The group makes progress.
    pub(super) fn has_moved(&mut self, mcst_id: Ipv4Addr) {
        self.repaired.retain(|(of, _)| *of != mcst_id);
    }
}

impl Controller {
    /// Looks for the position of a group on a switch whose registers started from `base`.
    pub(super) fn recover(&mut self, now: u64, place: Place, base: Position) {
        self.begin_recovery(now, place, base, 0);
    }

    /// A member that may send says that the group makes no progress: where it was not certain who the source is, it may be this one.
    pub(super) fn member_complains(&mut self, now: u64, mcst_id: Ipv4Addr, member: Ipv4Addr) {
        self.recoveries.complained.insert(mcst_id, member);
        let places = (mcst_id, SwitchIndex(0))..=(mcst_id, SwitchIndex(usize::MAX));
        let open = self.recoveries.open.range(places);
        let uncertain = open.filter(|(_, recovery)| {
            recovery.stage == Stage::Open && recovery.complaints < MOST_COMPLAINTS
        });
        let again: Vec<(Place, Position, u32)> = uncertain
            .map(|(place, recovery)| (*place, recovery.base, recovery.complaints + 1))
            .collect();
        for (place, base, complaints) in again {
            self.begin_recovery(now, place, base, complaints);
        }
    }

    fn begin_recovery(&mut self, now: u64, place: Place, base: Position, complaints: u32) {
        let recovery = Recovery {
            base,
            complaints,
            round: 0,
            stage: Stage::Asking,
            pending: BTreeMap::new(),
            claims: BTreeMap::new(),
            readings: Readings::default(),
        };
        self.recoveries.open.insert(place, recovery);
        self.ask_members_of(now, place);
    }

    /// Whether the group's part can be worked on now: else it is tried again in a while, or forgotten.
    fn is_recoverable(&mut self, now: u64, place: Place) -> bool {
        let (mcst_id, switch) = place;
        let registration = self.groups.get(&mcst_id);
        let is_there = registration.is_some_and(|r| r.is_ready() && r.group().on(switch).is_some());
        if !is_there || !self.switches[switch.0].boot.is_ready() {
            self.recoveries.forget(place);
            return false;
        }
        let is_at_rest = registration.is_some_and(|r| r.is_at_rest());
        if !is_at_rest {
            // A change reads and sets registers itself.
            if let Some(recovery) = self.recoveries.open.get_mut(&place) {
                if recovery.stage != Stage::Open {
                    recovery.stage = Stage::Asking;
                    recovery.claims.clear();
                }
            }
            let next = now + self.config.probe_interval_ns;
            self.recoveries.timers.set(place, next);
        }
        is_at_rest
    }

    /// The group's part.
    fn part_at(&self, (mcst_id, switch): Place) -> Option<(&Group, &GroupPart)> {
        let group = self.groups.get(&mcst_id)?.group();
        Some((group, group.on(switch)?))
    }

    /// Sends a duplicate to each member next to the switch that has not answered.
    fn ask_members_of(&mut self, now: u64, place: Place) {
        let (mcst_id, switch) = place;
        let Some(recovery) = self.recoveries.open.get(&place) else {
            return;
        };
        let (base, answered) = (recovery.base.psn, recovery.claims.clone());
        if !self.is_recoverable(now, place) {
            return;
        }
        let Some((group, on)) = self.part_at(place) else {
            return;
        };
        let psn = duplicate::psn(base);
        let numbered = (0..=u8::MAX).zip(&on.paths);
        let silent = numbered.filter(|(path, _)| !answered.contains_key(path));
        let frames: Vec<(u32, Vec<u8>)> = silent
            .filter_map(|(_, path)| {
                let frame = duplicate::frame(group.mcst_id, path.member()?, psn);
                Some((path.port, frame))
            })
            .collect();
        for (port, frame) in frames {
            self.send_frame(switch, port, frame);
        }
        let next = now + self.config.recovery_interval_ns;
        self.recoveries.timers.set((mcst_id, switch), next);
    }

    pub(super) fn recovery_timeout(&mut self, now: u64) {
        while let Some(place) = self.recoveries.timers.pop_due(now) {
            match self.recoveries.open.get(&place).map(|r| r.stage) {
                Some(Stage::Asking) => self.read_claims(now, place),
                Some(Stage::Open) => self.close_recovery(now, place),
                Some(Stage::Reading | Stage::Setting(_)) | None => {}
            }
        }
    }

    /// Reads what members have answered, and what the other switches of the tree hold.
    fn read_claims(&mut self, now: u64, place: Place) {
        let (mcst_id, switch) = place;
        if !self.is_recoverable(now, place) {
            return;
        }
        let Some(group) = self.groups.get(&mcst_id).map(|r| r.group()) else {
            return;
        };
        let mut reads = Vec::new();
        for on in &group.switches {
            let index = on.group_index;
            let mut read = |register, path, asked| {
                let task = Task::Registers(registers::read(index, register, path));
                reads.push((on.switch, task, asked));
            };
            if on.switch == switch {
                let members = (0..=u8::MAX)
                    .zip(&on.paths)
                    .filter(|(_, p)| p.member().is_some());
                members.for_each(|(path, _)| read(REGISTER_CLAIMED, path, Asked::Claim(path)));
            } else if self.has_position((mcst_id, on.switch)) {
                read(REGISTER_AGG, 0, Asked::LastAcked(on.switch));
                read(REGISTER_SENT, 0, Asked::Sent(on.switch));
                read(REGISTER_SRC_PORT, 0, Asked::Source(on.switch));
            }
        }
        self.ask_for(now, place, Stage::Reading, reads);
    }

    fn ask_for(
        &mut self,
        now: u64,
        place: Place,
        stage: Stage,
        tasks: Vec<(SwitchIndex, Task, Asked)>,
    ) {
        if let Some(recovery) = self.recoveries.open.get_mut(&place) {
            recovery.stage = stage;
            recovery.pending.clear();
        }
        for (switch, task, asked) in tasks {
            let id = self.submit(now, switch, Owner::Recovery(place), task);
            if let Some(recovery) = self.recoveries.open.get_mut(&place) {
                recovery.pending.insert(id, asked);
            }
        }
    }

    /// A switch has answered.
    pub(super) fn recovery_read(
        &mut self,
        now: u64,
        place: Place,
        task: TaskId,
        result: Result<u64, SwitchError>,
    ) {
        let Some(recovery) = self.recoveries.open.get_mut(&place) else {
            return;
        };
        let Some(asked) = recovery.pending.remove(&task) else {
            return;
        };
        match (asked, result) {
            (Asked::Claim(path), Ok(value)) => {
                let newest = Psn::new(value as u32);
                if recovery.base.psn.precedes(newest) {
                    recovery.claims.insert(path, newest);
                }
            }
            (Asked::LastAcked(of), Ok(value)) => {
                recovery.readings.of(of).last_acked = Some(Position::from_register(value));
            }
            (Asked::Sent(of), Ok(value)) => {
                recovery.readings.of(of).sent = Some(Psn::new(value as u32));
            }
            (Asked::Source(of), Ok(value)) => {
                recovery.readings.of(of).source = Some(value as u32);
            }
            // What is not known there, others know, or the members.
            (Asked::Nothing, _) | (_, Err(_)) => {}
        }
        if !recovery.pending.is_empty() {
            return;
        }
        match recovery.stage {
            Stage::Reading => self.look_at_claims(now, place),
            Stage::Setting(setting) => self.registers_set(now, place, setting),
            Stage::Asking | Stage::Open => {}
        }
    }

    /// Sets the registers if all have answered who will, or asks again.
    fn look_at_claims(&mut self, now: u64, place: Place) {
        let (mcst_id, switch) = place;
        let Some(evidence) = self.evidence(place) else {
            return self.recoveries.forget(place);
        };
        let silent = evidence
            .locals
            .iter()
            .filter(|local| local.newest.is_none());
        let group = self.groups.get(&mcst_id).map(|r| r.group());
        let mut others = group.into_iter().flat_map(|group| &group.switches);
        let are_others_open =
            others.any(|on| on.switch != switch && !self.has_position((mcst_id, on.switch)));
        let Some(recovery) = self.recoveries.open.get_mut(&place) else {
            return;
        };
        // The source's own newest PSN may be older than the base, and it is the only one of which that is so.
        let silent: Vec<&Local> = silent.collect();
        let are_all = match (&silent[..], evidence.towards_source) {
            ([], _) => true,
            ([one], None) => one.may_send && recovery.round > 0,
            _ => false,
        };
        if evidence.locals.is_empty() && evidence.towards_source.is_none() && are_others_open {
            // They will know.
            recovery.stage = Stage::Asking;
            let next = now + self.config.probe_interval_ns;
            return self.recoveries.timers.set(place, next);
        }
        recovery.round += 1;
        if recovery.round < ROUNDS && !are_all {
            recovery.stage = Stage::Asking;
            return self.ask_members_of(now, place);
        }
        let Located {
            psn,
            source,
            is_exact,
        } = evidence.locate();
        let base = recovery.base;
        let position = match recovery.readings.least() {
            Some(least) if least.psn == psn => least,
            _ => Position { psn, ..base },
        };
        if !self.is_recoverable(now, place) {
            return;
        }
        let Some((group, on)) = self.part_at(place) else {
            return;
        };
        let name = &self.topology.switch(switch).name;
        tracing::info!(%mcst_id, switch = name, %psn, source, is_exact, "registers start anew");
        let task = group.init_group(on, position, source);
        let member = on.paths.iter().find(|path| path.port == source);
        let member = member.and_then(|path| Some(path.member()?.spec.ip));
        if let Some(registration) = self.groups.get_mut(&mcst_id) {
            let group = registration.group_mut();
            group.advance(position);
            group.source = member.or(group.source);
        }
        let setting = Setting {
            position,
            source,
            is_exact,
            is_complete: false,
        };
        self.ask_for(
            now,
            place,
            Stage::Setting(setting),
            vec![(switch, task, Asked::Nothing)],
        );
    }

    /// The registers are set: now what INIT_GROUP does not set, and then the window.
    fn registers_set(&mut self, now: u64, place: Place, setting: Setting) {
        let (_, switch) = place;
        if !self.is_recoverable(now, place) {
            return;
        }
        let Some((group, on)) = self.part_at(place) else {
            return;
        };
        let entry = modify(group.publication(&self.program, on));
        if !setting.is_complete && self.program.group_registers.is_none() {
            let (position, source) = (setting.position, setting.source);
            let accesses = registers::after_init(on.group_index, position, source);
            let tasks = accesses.map(|access| (switch, Task::Registers(access), Asked::Nothing));
            let tasks = tasks.collect();
            let setting = Setting {
                is_complete: true,
                ..setting
            };
            return self.ask_for(now, place, Stage::Setting(setting), tasks);
        }
        if setting.is_exact {
            self.submit(now, switch, Owner::Nobody, Task::Write(vec![entry]));
            return self.recoveries.forget(place);
        }
        if let Some(recovery) = self.recoveries.open.get_mut(&place) {
            recovery.stage = Stage::Open;
        }
        let close = now + self.config.dead_member_ns;
        self.recoveries.timers.set(place, close);
    }

    /// The group has had time to run again: its source may be as far ahead as ever, and no further.
    fn close_recovery(&mut self, now: u64, place: Place) {
        let (_, switch) = place;
        if !self.is_recoverable(now, place) {
            return;
        }
        let Some((group, on)) = self.part_at(place) else {
            return;
        };
        let entry = modify(group.publication(&self.program, on));
        self.submit(now, switch, Owner::Nobody, Task::Write(vec![entry]));
        self.recoveries.forget(place);
    }

    /// What there is to go by.
    fn evidence(&self, (mcst_id, switch): Place) -> Option<Evidence> {
        let recovery = self.recoveries.open.get(&(mcst_id, switch))?;
        let group = self.groups.get(&mcst_id)?.group();
        let on = group.on(switch)?;
        let locals = (0..=u8::MAX).zip(&on.paths).filter_map(|(number, path)| {
            Some(Local {
                port: path.port,
                may_send: path.member()?.spec.may_send,
                newest: recovery.claims.get(&number).copied(),
            })
        });
        let port_of = |ip: Ipv4Addr| {
            let mut paths = on.paths.iter();
            let path = paths.find(|path| path.member().is_some_and(|m| m.spec.ip == ip));
            path.map(|path| path.port)
        };
        let complained = self.recoveries.complained.get(&mcst_id).copied();
        let likely = [complained, group.source].into_iter().flatten();
        let towards_source = recovery.readings.source(group).map(|source| {
            let located = group.port_of(&self.topology, switch, source);
            located.unwrap_or(0)
        });
        Some(Evidence {
            base: recovery.base.psn,
            window: group.window(),
            locals: locals.collect(),
            elsewhere: recovery.readings.least().map(|position| position.psn),
            towards_source: towards_source.filter(|port| *port != 0),
            likely: likely.filter_map(port_of).collect(),
        })
    }
}

/// The same entry in place of the one that is there.
fn modify(mut entry: alfirk_p4runtime::p4::v1::Update) -> alfirk_p4runtime::p4::v1::Update {
    entry.r#type = alfirk_p4runtime::p4::v1::update::Type::Modify.into();
    entry
}
