//! Recovery of a group's position and source after a switch has lost its registers, if no other switch has them.
//!
//! [`super::boot`] initialises the registers from the other switches of the tree. That is enough unless the source may be at
//! the failed switch: then only its members have the position. They are queried by duplicate requests:
//!
//! ```text
//!  controller ── a duplicate, its PSN long acknowledged ──▶ switch ──▶ member (duplicate.rs)
//!                                                           switch ◀── ACK of the newest PSN that it has
//!  controller ── read of CLAIMED, for each path ──────────▶ switch
//!             ◀──────────────────────────────────────────── the newest PSN that each path has acknowledged
//!  controller ── INIT_GROUP from the position of all (locate.rs), the source's port, the group's entry
//! ```
//!
//! The group stays published, because its replies would be dropped otherwise. Its registers are set while it is published, one
//! path after another. That is safe, because they only advance to what all members have. Until the group makes progress,
//! its entry has a wide window (`WIDE_WINDOW` in `group.rs`), because a position that is too old must not block the source.

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

/// Number of queries to a member that does not reply.
const ROUNDS: u32 = 8;
/// Maximum number of recoveries restarted by reports of members.
const MAX_STALL_REPORTS: u32 = 4;

/// A group on one switch.
pub(super) type Place = (Ipv4Addr, SwitchIndex);

/// Running recoveries, at most one per group and switch of its tree.
#[derive(Debug, Default)]
pub(super) struct Recoveries {
    open: BTreeMap<Place, Recovery>,
    timers: Timers<Place>,
    /// Member of each group that last reported no progress.
    stall_reporters: BTreeMap<Ipv4Addr, Ipv4Addr>,
    /// Parts repaired since their group last made progress.
    repaired: BTreeSet<Place>,
}

#[derive(Debug)]
struct Recovery {
    /// Position that all members but the source certainly have; replies are newer.
    base: Position,
    /// Number of restarts by reports of members.
    stall_reports: u32,
    round: u32,
    stage: Stage,
    pending: BTreeMap<TaskId, RegisterRead>,
    /// Newest PSN acknowledged by each path with a member.
    claims: BTreeMap<u8, Psn>,
    readings: Readings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waiting for replies of members.
    Asking,
    /// Reading registers of switches.
    Reading,
    /// Writing registers.
    Setting(Setting),
    /// The wide window is still in effect.
    Open,
}

/// Values for the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Setting {
    position: Position,
    source: u32,
    /// The position is the newest that all members have.
    is_exact: bool,
    /// INIT_GROUP is complete; the remaining registers are being written.
    is_complete: bool,
}

#[derive(Clone, Copy, Debug)]
enum RegisterRead {
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

    /// Whether a part's recovery is running, or its position may not be the newest.
    pub(super) fn is_open(&self, place: Place) -> bool {
        self.open.contains_key(&place)
    }

    pub(super) fn discard(&mut self, place: Place) {
        self.open.remove(&place);
        self.timers.clear(place);
    }

    pub(super) fn discard_group(&mut self, mcst_id: Ipv4Addr) {
        let places = (mcst_id, SwitchIndex(0))..=(mcst_id, SwitchIndex(usize::MAX));
        let places: Vec<Place> = self.open.range(places).map(|(place, _)| *place).collect();
        for place in places {
            self.discard(place);
        }
        self.stall_reporters.remove(&mcst_id);
        self.has_moved(mcst_id);
    }

    pub(super) fn discard_switch(&mut self, switch: SwitchIndex) {
        let places = self.open.keys().filter(|(_, at)| *at == switch);
        for place in places.copied().collect::<Vec<_>>() {
            self.discard(place);
        }
    }

    /// Whether a part may be repaired, when a member claims more than was sent, instead of removing the member. Only once until
    /// the group makes progress: otherwise a faulty member could never be removed.
    pub(super) fn may_repair(&mut self, place: Place) -> bool {
        self.repaired.insert(place)
    }

    /// Records that a group makes progress.
    pub(super) fn has_moved(&mut self, mcst_id: Ipv4Addr) {
        self.repaired.retain(|(of, _)| *of != mcst_id);
    }
}

impl Controller {
    /// Starts the recovery of a group on a switch whose registers started from `base`.
    pub(super) fn recover(&mut self, now: u64, place: Place, base: Position) {
        self.begin_recovery(now, place, base, 0);
    }

    /// Processes a member's report that the group makes no progress. If the source is uncertain, it may be this member.
    pub(super) fn member_reports_stall(&mut self, now: u64, mcst_id: Ipv4Addr, member: Ipv4Addr) {
        self.recoveries.stall_reporters.insert(mcst_id, member);
        let places = (mcst_id, SwitchIndex(0))..=(mcst_id, SwitchIndex(usize::MAX));
        let open = self.recoveries.open.range(places);
        let uncertain = open.filter(|(_, recovery)| {
            recovery.stage == Stage::Open && recovery.stall_reports < MAX_STALL_REPORTS
        });
        let again: Vec<(Place, Position, u32)> = uncertain
            .map(|(place, recovery)| (*place, recovery.base, recovery.stall_reports + 1))
            .collect();
        for (place, base, stall_reports) in again {
            self.begin_recovery(now, place, base, stall_reports);
        }
    }

    fn begin_recovery(&mut self, now: u64, place: Place, base: Position, stall_reports: u32) {
        let recovery = Recovery {
            base,
            stall_reports,
            round: 0,
            stage: Stage::Asking,
            pending: BTreeMap::new(),
            claims: BTreeMap::new(),
            readings: Readings::default(),
        };
        self.recoveries.open.insert(place, recovery);
        self.ask_members_of(now, place);
    }

    /// Whether the recovery of a part can proceed now. Otherwise it is retried later, or dropped.
    fn is_recoverable(&mut self, now: u64, place: Place) -> bool {
        let (mcst_id, switch) = place;
        let registration = self.groups.get(&mcst_id);
        let is_there = registration.is_some_and(|r| r.is_ready() && r.group().on(switch).is_some());
        if !is_there || !self.switches[switch.0].boot.is_ready() {
            self.recoveries.discard(place);
            return false;
        }
        let is_at_rest = registration.is_some_and(|r| r.is_at_rest());
        if !is_at_rest {
            // A change reads and writes registers itself.
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

    /// Sends a duplicate to each member at the switch that has not replied.
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

    /// Reads the replies of members, and the registers of the other switches in the tree.
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
                members
                    .for_each(|(path, _)| read(REGISTER_CLAIMED, path, RegisterRead::Claim(path)));
            } else if self.has_position((mcst_id, on.switch)) {
                read(REGISTER_AGG, 0, RegisterRead::LastAcked(on.switch));
                read(REGISTER_SENT, 0, RegisterRead::Sent(on.switch));
                read(REGISTER_SRC_PORT, 0, RegisterRead::Source(on.switch));
            }
        }
        self.ask_for(now, place, Stage::Reading, reads);
    }

    fn ask_for(
        &mut self,
        now: u64,
        place: Place,
        stage: Stage,
        tasks: Vec<(SwitchIndex, Task, RegisterRead)>,
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

    /// Processes a register read from a switch.
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
            (RegisterRead::Claim(path), Ok(value)) => {
                let newest = Psn::new(value as u32);
                if recovery.base.psn.precedes(newest) {
                    recovery.claims.insert(path, newest);
                }
            }
            (RegisterRead::LastAcked(of), Ok(value)) => {
                recovery.readings.of(of).last_acked = Some(Position::from_register(value));
            }
            (RegisterRead::Sent(of), Ok(value)) => {
                recovery.readings.of(of).sent = Some(Psn::new(value as u32));
            }
            (RegisterRead::Source(of), Ok(value)) => {
                recovery.readings.of(of).source = Some(value as u32);
            }
            // Other switches or the members have the value.
            (RegisterRead::Nothing, _) | (_, Err(_)) => {}
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

    /// Writes the registers if all members have replied or were queried often enough; else queries again.
    fn look_at_claims(&mut self, now: u64, place: Place) {
        let (mcst_id, switch) = place;
        let Some(evidence) = self.evidence(place) else {
            return self.recoveries.discard(place);
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
        // Only the source's newest PSN may be older than the base.
        let silent: Vec<&Local> = silent.collect();
        let are_all = match (&silent[..], evidence.towards_source) {
            ([], _) => true,
            ([one], None) => one.may_send && recovery.round > 0,
            _ => false,
        };
        if evidence.locals.is_empty() && evidence.towards_source.is_none() && are_others_open {
            // Query the members again.
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
            vec![(switch, task, RegisterRead::Nothing)],
        );
    }

    /// Continues after INIT_GROUP: writes the remaining registers, then the window.
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
            let tasks =
                accesses.map(|access| (switch, Task::Registers(access), RegisterRead::Nothing));
            let tasks = tasks.collect();
            let setting = Setting {
                is_complete: true,
                ..setting
            };
            return self.ask_for(now, place, Stage::Setting(setting), tasks);
        }
        if setting.is_exact {
            self.submit(now, switch, Owner::Detached, Task::Write(vec![entry]));
            return self.recoveries.discard(place);
        }
        if let Some(recovery) = self.recoveries.open.get_mut(&place) {
            recovery.stage = Stage::Open;
        }
        let close = now + self.config.dead_member_ns;
        self.recoveries.timers.set(place, close);
    }

    /// Restores the normal window, once the group has had time to make progress.
    fn close_recovery(&mut self, now: u64, place: Place) {
        let (_, switch) = place;
        if !self.is_recoverable(now, place) {
            return;
        }
        let Some((group, on)) = self.part_at(place) else {
            return;
        };
        let entry = modify(group.publication(&self.program, on));
        self.submit(now, switch, Owner::Detached, Task::Write(vec![entry]));
        self.recoveries.discard(place);
    }

    /// Collects the input of [`Evidence::locate`].
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
        let reporter = self.recoveries.stall_reporters.get(&mcst_id).copied();
        let likely = [reporter, group.source].into_iter().flatten();
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

/// Turns an insertion into a modification.
fn modify(mut entry: alfirk_p4runtime::p4::v1::Update) -> alfirk_p4runtime::p4::v1::Update {
    entry.r#type = alfirk_p4runtime::p4::v1::update::Type::Modify.into();
    entry
}
