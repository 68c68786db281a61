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

use super::duplicate;
use super::error::SwitchError;
use super::groups::Groups;
use super::locate::{Evidence, LocalMember, LocatedPosition, Readings};
use super::network::Network;
use super::position::Position;
use super::registers;
use super::session::{Task, TaskId};
use super::switches::Owner;
use super::timers::Timers;
use crate::constants::{REGISTER_AGG, REGISTER_CLAIMED, REGISTER_SENT, REGISTER_SRC_PORT};
use crate::topology::SwitchIndex;

/// Maximum number of rounds in which members that do not reply are queried.
const MAX_ROUNDS: u32 = 8;
/// Maximum number of restarts of a recovery because members reported no progress.
const MAX_STALL_REPORTS: u32 = 4;

/// Key of a group's part on one switch: group address and switch.
pub(super) type PartKey = (Ipv4Addr, SwitchIndex);

/// Running recoveries, at most one per group and switch of its tree.
#[derive(Debug, Default)]
pub(super) struct Recoveries {
    running: BTreeMap<PartKey, Recovery>,
    timers: Timers<PartKey>,
    /// Member of each group that last reported no progress.
    stall_reporters: BTreeMap<Ipv4Addr, Ipv4Addr>,
    /// Parts of groups whose registers were repaired since the group last made progress.
    repaired: BTreeSet<PartKey>,
}

#[derive(Debug)]
struct Recovery {
    /// Position that all members except the source certainly have. Their replies contain newer PSNs.
    base: Position,
    /// Number of restarts because members reported no progress.
    stall_reports: u32,
    /// Number of completed rounds of queries.
    round: u32,
    stage: Stage,
    pending: BTreeMap<TaskId, RegisterRead>,
    /// Newest PSN acknowledged by the member at each path, by path number.
    claims: BTreeMap<u8, Psn>,
    readings: Readings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waiting for replies of members.
    Querying,
    /// Reading registers of switches.
    Reading,
    /// Waiting for the register operation INIT_GROUP.
    Initialising(RegisterValues),
    /// Writing the registers that INIT_GROUP leaves open ([`registers::after_init`]).
    Completing {
        /// Whether the position is the newest that all members have.
        is_exact: bool,
    },
    /// Registers are written, but the position may be too old, so the group still has the wide window.
    WideWindow,
}

/// Values that are written to the registers of a group's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RegisterValues {
    position: Position,
    source: u32,
    /// Whether the position is the newest that all members have.
    is_exact: bool,
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

    /// Whether a part's recovery has begun and not ended. Until it ends, the position in the part's registers may be too
    /// old.
    pub(super) fn is_running(&self, part: PartKey) -> bool {
        self.running.contains_key(&part)
    }

    pub(super) fn discard(&mut self, part: PartKey) {
        self.running.remove(&part);
        self.timers.clear(part);
    }

    pub(super) fn discard_group(&mut self, mcst_id: Ipv4Addr) {
        let parts = (mcst_id, SwitchIndex(0))..=(mcst_id, SwitchIndex(usize::MAX));
        let parts: Vec<PartKey> = self.running.range(parts).map(|(part, _)| *part).collect();
        for part in parts {
            self.discard(part);
        }
        self.stall_reporters.remove(&mcst_id);
        self.note_progress(mcst_id);
    }

    pub(super) fn discard_switch(&mut self, switch: SwitchIndex) {
        let parts = self.running.keys().filter(|(_, at)| *at == switch);
        for part in parts.copied().collect::<Vec<_>>() {
            self.discard(part);
        }
    }

    /// Whether a part's registers may be repaired, instead of removing a member that claims more data than was sent.
    /// Returns true only once until the group makes progress: otherwise a faulty member could never be removed.
    pub(super) fn may_repair(&mut self, part: PartKey) -> bool {
        self.repaired.insert(part)
    }

    /// Records that a group makes progress.
    pub(super) fn note_progress(&mut self, mcst_id: Ipv4Addr) {
        self.repaired.retain(|(of, _)| *of != mcst_id);
    }

    /// Whether the registers of a group on a switch are reliable: the switch is ready, and no recovery of the group is
    /// pending there.
    pub(super) fn has_position(&self, network: &Network, part: PartKey) -> bool {
        network.is_ready(part.1) && !self.is_running(part)
    }

    /// Starts the recovery of a group on a switch whose registers started from `base`.
    pub(super) fn recover(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &Groups,
        part: PartKey,
        base: Position,
    ) {
        self.begin(now, network, groups, part, base, 0);
    }

    /// Processes a member's report that the group makes no progress. If the source is uncertain, it may be this member.
    pub(super) fn stall_reported(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &Groups,
        mcst_id: Ipv4Addr,
        member: Ipv4Addr,
    ) {
        self.stall_reporters.insert(mcst_id, member);
        let parts = (mcst_id, SwitchIndex(0))..=(mcst_id, SwitchIndex(usize::MAX));
        let open = self.running.range(parts);
        let uncertain = open.filter(|(_, recovery)| {
            recovery.stage == Stage::WideWindow && recovery.stall_reports < MAX_STALL_REPORTS
        });
        let again: Vec<(PartKey, Position, u32)> = uncertain
            .map(|(part, recovery)| (*part, recovery.base, recovery.stall_reports + 1))
            .collect();
        for (part, base, stall_reports) in again {
            self.begin(now, network, groups, part, base, stall_reports);
        }
    }

    fn begin(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &Groups,
        part: PartKey,
        base: Position,
        stall_reports: u32,
    ) {
        let recovery = Recovery {
            base,
            stall_reports,
            round: 0,
            stage: Stage::Querying,
            pending: BTreeMap::new(),
            claims: BTreeMap::new(),
            readings: Readings::default(),
        };
        self.running.insert(part, recovery);
        self.query_members(now, network, groups, part);
    }

    /// Whether the recovery of a part can proceed now. Otherwise it is retried later, or dropped.
    fn is_recoverable(
        &mut self,
        now: u64,
        network: &Network,
        groups: &Groups,
        part: PartKey,
    ) -> bool {
        let (mcst_id, switch) = part;
        let registration = groups.get(mcst_id);
        let is_there =
            registration.is_some_and(|r| r.is_ready() && r.group().part_on(switch).is_some());
        if !is_there || !network.is_ready(switch) {
            self.discard(part);
            return false;
        }
        let is_at_rest = registration.is_some_and(|r| r.is_at_rest());
        if !is_at_rest {
            // A change reads and writes registers itself.
            if let Some(recovery) = self.running.get_mut(&part) {
                if recovery.stage != Stage::WideWindow {
                    recovery.stage = Stage::Querying;
                    recovery.claims.clear();
                }
            }
            let next = now + network.config().probe_interval_ns;
            self.timers.set(part, next);
        }
        is_at_rest
    }

    /// Sends a duplicate request to each member at the switch that has not replied.
    fn query_members(&mut self, now: u64, network: &mut Network, groups: &Groups, part: PartKey) {
        let (mcst_id, switch) = part;
        let Some(recovery) = self.running.get(&part) else {
            return;
        };
        let (base, answered) = (recovery.base.psn, recovery.claims.clone());
        if !self.is_recoverable(now, network, groups, part) {
            return;
        }
        let Some((group, on)) = groups.part(part) else {
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
            network.send_frame(switch, port, frame);
        }
        let next = now + network.config().recovery_interval_ns;
        self.timers.set((mcst_id, switch), next);
    }

    /// Continues recoveries whose timers are due.
    pub(super) fn timeout(&mut self, now: u64, network: &mut Network, groups: &Groups) {
        while let Some(part) = self.timers.pop_due(now) {
            match self.running.get(&part).map(|r| r.stage) {
                Some(Stage::Querying) => self.read_claims(now, network, groups, part),
                Some(Stage::WideWindow) => self.end(now, network, groups, part),
                Some(Stage::Reading | Stage::Initialising(_) | Stage::Completing { .. }) | None => {
                }
            }
        }
    }

    /// Reads the replies of members, and the registers of the other switches in the tree.
    fn read_claims(&mut self, now: u64, network: &mut Network, groups: &Groups, part: PartKey) {
        let (mcst_id, switch) = part;
        if !self.is_recoverable(now, network, groups, part) {
            return;
        }
        let Some(group) = groups.group(mcst_id) else {
            return;
        };
        let mut reads = Vec::new();
        for on in &group.parts {
            let index = on.group_index;
            let mut read = |number, path, register| {
                let task = Task::Registers(registers::read(index, number, path));
                reads.push((on.switch, task, register));
            };
            if on.switch == switch {
                let members = (0..=u8::MAX)
                    .zip(&on.paths)
                    .filter(|(_, p)| p.member().is_some());
                members
                    .for_each(|(path, _)| read(REGISTER_CLAIMED, path, RegisterRead::Claim(path)));
            } else if self.has_position(network, (mcst_id, on.switch)) {
                read(REGISTER_AGG, 0, RegisterRead::LastAcked(on.switch));
                read(REGISTER_SENT, 0, RegisterRead::Sent(on.switch));
                read(REGISTER_SRC_PORT, 0, RegisterRead::Source(on.switch));
            }
        }
        self.submit_tasks(now, network, part, Stage::Reading, reads);
    }

    fn submit_tasks(
        &mut self,
        now: u64,
        network: &mut Network,
        part: PartKey,
        stage: Stage,
        tasks: Vec<(SwitchIndex, Task, RegisterRead)>,
    ) {
        if let Some(recovery) = self.running.get_mut(&part) {
            recovery.stage = stage;
            recovery.pending.clear();
        }
        for (switch, task, register) in tasks {
            let id = network.submit(now, switch, Owner::Recovery(part), task);
            if let Some(recovery) = self.running.get_mut(&part) {
                recovery.pending.insert(id, register);
            }
        }
    }

    /// Processes a register read from a switch.
    pub(super) fn register_read(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &mut Groups,
        part: PartKey,
        task: TaskId,
        result: Result<u64, SwitchError>,
    ) {
        let Some(recovery) = self.running.get_mut(&part) else {
            return;
        };
        let Some(register) = recovery.pending.remove(&task) else {
            return;
        };
        match (register, result) {
            (RegisterRead::Claim(path), Ok(value)) => {
                let newest = Psn::new(value as u32);
                if recovery.base.psn.precedes(newest) {
                    recovery.claims.insert(path, newest);
                }
            }
            (RegisterRead::LastAcked(of), Ok(value)) => {
                recovery.readings.entry(of).last_acked = Some(Position::from_register(value));
            }
            (RegisterRead::Sent(of), Ok(value)) => {
                recovery.readings.entry(of).sent = Some(Psn::new(value as u32));
            }
            (RegisterRead::Source(of), Ok(value)) => {
                recovery.readings.entry(of).source = Some(value as u32);
            }
            // Other switches or the members have the value.
            (RegisterRead::Nothing, _) | (_, Err(_)) => {}
        }
        if !recovery.pending.is_empty() {
            return;
        }
        match recovery.stage {
            Stage::Reading => self.evaluate_claims(now, network, groups, part),
            Stage::Initialising(values) => self.initialised(now, network, groups, part, values),
            Stage::Completing { is_exact } => self.completed(now, network, groups, part, is_exact),
            Stage::Querying | Stage::WideWindow => {}
        }
    }

    /// Evaluates the replies of members: writes the registers if all have replied or were queried [`MAX_ROUNDS`] times, else
    /// queries again.
    fn evaluate_claims(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &mut Groups,
        part: PartKey,
    ) {
        let (mcst_id, switch) = part;
        let Some(evidence) = self.evidence(network, groups, part) else {
            return self.discard(part);
        };
        let silent = evidence
            .local_members
            .iter()
            .filter(|local| local.newest.is_none());
        let group = groups.group(mcst_id);
        let mut others = group.into_iter().flat_map(|group| &group.parts);
        let are_others_open = others
            .any(|on| on.switch != switch && !self.has_position(network, (mcst_id, on.switch)));
        let Some(recovery) = self.running.get_mut(&part) else {
            return;
        };
        // Only the source's newest PSN may be older than the base.
        let silent: Vec<&LocalMember> = silent.collect();
        let are_all = match (&silent[..], evidence.port_towards_source) {
            ([], _) => true,
            ([one], None) => one.may_send && recovery.round > 0,
            _ => false,
        };
        if evidence.local_members.is_empty()
            && evidence.port_towards_source.is_none()
            && are_others_open
        {
            // Query the members again.
            recovery.stage = Stage::Querying;
            let next = now + network.config().probe_interval_ns;
            return self.timers.set(part, next);
        }
        recovery.round += 1;
        if recovery.round < MAX_ROUNDS && !are_all {
            recovery.stage = Stage::Querying;
            return self.query_members(now, network, groups, part);
        }
        let LocatedPosition {
            psn,
            source,
            is_exact,
        } = evidence.locate();
        let base = recovery.base;
        let position = match recovery.readings.oldest_acked() {
            Some(least) if least.psn == psn => least,
            _ => Position { psn, ..base },
        };
        if !self.is_recoverable(now, network, groups, part) {
            return;
        }
        let Some((group, on)) = groups.part(part) else {
            return;
        };
        let name = network.name(switch);
        tracing::info!(%mcst_id, switch = name, %psn, source, is_exact, "initialising the lost registers of the group");
        let task = group.init_group(on, position, source);
        let member = on.paths.iter().find(|path| path.port == source);
        let member = member.and_then(|path| Some(path.member()?.spec.ip));
        if let Some(registration) = groups.get_mut(mcst_id) {
            let group = registration.group_mut();
            group.advance(position);
            group.source = member.or(group.source);
        }
        let values = RegisterValues {
            position,
            source,
            is_exact,
        };
        self.submit_tasks(
            now,
            network,
            part,
            Stage::Initialising(values),
            vec![(switch, task, RegisterRead::Nothing)],
        );
    }

    /// Continues after INIT_GROUP: writes the registers that it leaves open.
    fn initialised(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &Groups,
        part: PartKey,
        values: RegisterValues,
    ) {
        if network.program().group_registers.is_some() {
            return self.completed(now, network, groups, part, values.is_exact);
        }
        if !self.is_recoverable(now, network, groups, part) {
            return;
        }
        let Some((_, on)) = groups.part(part) else {
            return;
        };
        let accesses = registers::after_init(on.group_index, values.position, values.source);
        let tasks =
            accesses.map(|access| (on.switch, Task::Registers(access), RegisterRead::Nothing));
        let tasks = tasks.collect();
        let is_exact = values.is_exact;
        let stage = Stage::Completing { is_exact };
        self.submit_tasks(now, network, part, stage, tasks);
    }

    /// Continues when all registers are written: restores the normal window if the position is exact, else keeps the wide one
    /// for a while.
    fn completed(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &Groups,
        part: PartKey,
        is_exact: bool,
    ) {
        if is_exact {
            return self.end(now, network, groups, part);
        }
        if !self.is_recoverable(now, network, groups, part) {
            return;
        }
        if let Some(recovery) = self.running.get_mut(&part) {
            recovery.stage = Stage::WideWindow;
        }
        let close = now + network.config().dead_member_ns;
        self.timers.set(part, close);
    }

    /// Restores the normal window: at once if the position is exact, else once the group has had time to make progress.
    fn end(&mut self, now: u64, network: &mut Network, groups: &Groups, part: PartKey) {
        let (_, switch) = part;
        if !self.is_recoverable(now, network, groups, part) {
            return;
        }
        let Some((group, on)) = groups.part(part) else {
            return;
        };
        let entry = modify(group.publication(network.program(), on));
        network.submit(now, switch, Owner::Detached, Task::Write(vec![entry]));
        self.discard(part);
    }

    /// Collects the replies of members and the registers of other switches, as input of [`Evidence::locate`].
    fn evidence(
        &self,
        network: &Network,
        groups: &Groups,
        (mcst_id, switch): PartKey,
    ) -> Option<Evidence> {
        let recovery = self.running.get(&(mcst_id, switch))?;
        let group = groups.group(mcst_id)?;
        let on = group.part_on(switch)?;
        let local_members = (0..=u8::MAX).zip(&on.paths).filter_map(|(number, path)| {
            Some(LocalMember {
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
        let reporter = self.stall_reporters.get(&mcst_id).copied();
        let likely = [reporter, group.source].into_iter().flatten();
        let port_towards_source = recovery.readings.source(group).map(|source| {
            let located = group.port_towards(network.topology(), switch, source);
            located.unwrap_or(0)
        });
        Some(Evidence {
            base: recovery.base.psn,
            window: group.window(),
            local_members: local_members.collect(),
            acked_elsewhere: recovery
                .readings
                .oldest_acked()
                .map(|position| position.psn),
            port_towards_source: port_towards_source.filter(|port| *port != 0),
            likely_source_ports: likely.filter_map(port_of).collect(),
        })
    }
}

/// Converts an update that inserts an entry to one that modifies it.
fn modify(mut entry: alfirk_p4runtime::p4::v1::Update) -> alfirk_p4runtime::p4::v1::Update {
    entry.r#type = alfirk_p4runtime::p4::v1::update::Type::Modify.into();
    entry
}
