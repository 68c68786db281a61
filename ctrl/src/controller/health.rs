//! Detection of failed members and links that block a group.
//!
//! Groups are not monitored while they make progress. When a sender reports that a group makes none, the newest
//! acknowledgement of every path is read repeatedly, until the minimum advances or a path has blocked it for too long.
//! For the path to the sender, that is the newest PSN sent, so the newest PSN on a switch shows how far data has arrived.
//! Paths that have stayed at the minimum are classified:
//!
//! - a member's path on a switch that all data has reached: the member has failed and is removed;
//! - the path to a switch that data has not reached, or that has acknowledged more than arrived here: the link between
//!   them may have failed. If it does not carry test frames either (`links.rs`), the tree is rerouted;
//! - any other path: the cause is at another switch.
//!
//! Before a member is removed, the PSN that it claims to have is read. If that is newer than the newest PSN sent according to
//! its switch, the member is alive, and the registers of the switch are wrong. Then they are repaired
//! ([`super::recovery`]), and no member is removed.
//!
//! A comparison of members with the data would be wrong, because only some packets request an acknowledgement.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use alfirk_p4runtime::p4::v1::Update;
use alfirk_roce::wire::Psn;

use super::command::Command;
use super::error::SwitchError;
use super::group::Group;
use super::groups::Groups;
use super::network::Network;
use super::position::Position;
use super::recovery::Recoveries;
use super::registers;
use super::session::{Task, TaskId};
use super::switches::Owner;
use super::timers::Timers;
use super::underlay::Underlay;
use crate::constants::{REGISTER_ACK, REGISTER_CLAIMED, REGISTER_SENT};
use crate::tables::{Snapshot, Table};
use crate::topology::{LinkIndex, Node, Paths, SwitchIndex, Topology};

/// Minimum time before a member is taken as failed, in passes over the longest path of the group's tree with full
/// queues: four round trips of data and its acknowledgement.
const PASSES: u64 = 8;

/// Key of a path of a group: the switch, and the number of the path (a port in the group's tree) there.
type PathKey = (SwitchIndex, u8);

/// Monitoring state of a group that makes no progress.
#[derive(Debug, Default)]
struct StallMonitor {
    reads: Reads,
    /// Newest acknowledged PSN of each path, and the time of its last change.
    acked: BTreeMap<PathKey, (Psn, u64)>,
    /// Oldest acknowledged PSN of all paths at the first complete reading; `None` before.
    initial_minimum: Option<Psn>,
}

/// Pending reads of registers for a group that makes no progress.
#[derive(Debug)]
enum Reads {
    /// Newest acknowledged PSN of paths.
    Paths(BTreeMap<TaskId, PathKey>),
    /// Registers about members that may have failed.
    Suspects(Suspects),
}

impl Default for Reads {
    fn default() -> Reads {
        Reads::Paths(BTreeMap::new())
    }
}

/// Members that may have failed, and the register values that decide whether each has failed.
#[derive(Debug)]
struct Suspects {
    members: Vec<Ipv4Addr>,
    /// Path to each member.
    paths: BTreeMap<Ipv4Addr, PathKey>,
    pending: BTreeMap<TaskId, SuspectRead>,
    claimed: BTreeMap<Ipv4Addr, Psn>,
    sent: BTreeMap<SwitchIndex, Psn>,
}

/// Register that is read before a member that may have failed is removed.
#[derive(Clone, Copy, Debug)]
enum SuspectRead {
    /// Newest PSN in the ACKs and NAKs of the member.
    Claimed(Ipv4Addr),
    /// Newest PSN sent by the source, as recorded by this switch.
    Sent(SwitchIndex),
}

impl StallMonitor {
    fn on(&self, switch: SwitchIndex) -> impl Iterator<Item = (Psn, u64)> + '_ {
        let paths = self.acked.range((switch, 0)..=(switch, u8::MAX));
        paths.map(|(_, acked)| *acked)
    }

    /// Newest acknowledged PSN of the group's paths on a switch, and the time of its last change.
    fn newest_on(&self, switch: SwitchIndex) -> Option<(Psn, u64)> {
        self.on(switch).reduce(|a, b| match a.0.precedes(b.0) {
            true => b,
            false => a,
        })
    }

    /// Oldest acknowledged PSN of the group's paths on a switch, and the time of its last change.
    fn oldest_on(&self, switch: SwitchIndex) -> Option<(Psn, u64)> {
        self.on(switch).reduce(|a, b| match b.0.precedes(a.0) {
            true => b,
            false => a,
        })
    }
}

/// Groups that are monitored because they make no progress, and failed switches and links.
#[derive(Debug, Default)]
pub(super) struct Health {
    monitors: BTreeMap<Ipv4Addr, StallMonitor>,
    /// Time of the next reading of each group without pending reads.
    next_readings: Timers<Ipv4Addr>,
    /// Time at which a disconnected switch is taken as failed.
    failure_deadlines: BTreeMap<SwitchIndex, u64>,
    failed_links: BTreeSet<LinkIndex>,
    failed_switches: BTreeSet<SwitchIndex>,
}

impl Health {
    /// Names of failed switches and links: `s1`, `s1:2 - s2:1`.
    pub(super) fn avoided(&self, topology: &Topology) -> Vec<String> {
        let switches = self
            .failed_switches
            .iter()
            .map(|s| topology.switch(*s).name.clone());
        let links = self.failed_links.iter().map(|link| {
            let [a, b] = topology.link(*link).ends;
            format!("{} - {}", topology.show_end(a), topology.show_end(b))
        });
        switches.chain(links).collect()
    }

    /// Ends the monitoring of a group.
    fn stop_monitoring(&mut self, mcst_id: Ipv4Addr) {
        self.monitors.remove(&mcst_id);
        self.next_readings.clear(mcst_id);
    }

    pub(super) fn poll_timeout(&self) -> Option<u64> {
        let absent = self.failure_deadlines.values().copied();
        absent.chain(self.next_readings.first()).min()
    }

    /// Monitors the group's paths until it makes progress or the cause is known.
    pub(super) fn watch(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &Groups,
        mcst_id: Ipv4Addr,
    ) {
        if !groups.is_ready(mcst_id) {
            return;
        }
        if let Entry::Vacant(entry) = self.monitors.entry(mcst_id) {
            entry.insert(StallMonitor::default());
            self.read_acked_psns(now, network, groups, mcst_id);
        }
    }

    /// Reads the registers of groups whose reading is due. Returns commands about switches that have been disconnected for
    /// too long.
    pub(super) fn timeout(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &Groups,
    ) -> Vec<Command> {
        while let Some(mcst_id) = self.next_readings.pop_due(now) {
            if self.monitors.contains_key(&mcst_id) {
                self.read_acked_psns(now, network, groups, mcst_id);
            }
        }
        let absent = self.failure_deadlines.iter();
        let absent = absent.filter(|(_, at)| **at <= now);
        let absent = absent.map(|(switch, _)| Command::ExcludeSwitch(*switch));
        absent.collect()
    }

    /// Records that a switch is taken as failed.
    pub(super) fn exclude_switch(&mut self, network: &Network, switch: SwitchIndex) {
        self.failure_deadlines.remove(&switch);
        let name = network.name(switch);
        tracing::warn!("switch {name} has failed; rerouting traffic around it");
        self.failed_switches.insert(switch);
    }

    /// Records that a switch has disconnected.
    pub(super) fn note_disconnected(&mut self, now: u64, network: &Network, switch: SwitchIndex) {
        if !self.failed_switches.contains(&switch) {
            let deadline = now + network.config().dead_switch_ns;
            self.failure_deadlines.entry(switch).or_insert(deadline);
        }
    }

    /// Records that a switch is ready again. Returns whether it was taken as failed.
    pub(super) fn note_reconnected(&mut self, switch: SwitchIndex) -> bool {
        self.failure_deadlines.remove(&switch);
        self.failed_switches.remove(&switch)
    }

    /// Records the state of a link. Returns whether it has changed.
    pub(super) fn note_link(&mut self, link: LinkIndex, is_up: bool) -> bool {
        match is_up {
            true => self.failed_links.remove(&link),
            false => self.failed_links.insert(link),
        }
    }

    /// Reads the newest acknowledged PSN of every path of a group.
    fn read_acked_psns(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &Groups,
        mcst_id: Ipv4Addr,
    ) {
        let Some(registration) = groups.get(mcst_id).filter(|r| r.is_ready()) else {
            self.stop_monitoring(mcst_id);
            return;
        };
        let mut reads = Vec::new();
        for on in &registration.group().parts {
            if network.is_ready(on.switch) {
                reads.extend((0..=u8::MAX).zip(&on.paths).map(|(path, _)| {
                    let read = registers::read(on.group_index, REGISTER_ACK, path);
                    ((on.switch, path), Task::Registers(read))
                }));
            }
        }
        if reads.is_empty() {
            let next = now + probe_interval(network, groups, mcst_id);
            self.next_readings.set(mcst_id, next);
        }
        for ((switch, path), task) in reads {
            let id = network.submit(now, switch, Owner::StallMonitor(mcst_id), task);
            let monitor = self.monitors.get_mut(&mcst_id);
            if let Some(Reads::Paths(pending)) = monitor.map(|monitor| &mut monitor.reads) {
                pending.insert(id, (switch, path));
            }
        }
    }

    /// Processes a register of a monitored group, read from a switch.
    pub(super) fn register_read(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &Groups,
        recoveries: &mut Recoveries,
        (mcst_id, task): (Ipv4Addr, TaskId),
        result: Result<u64, SwitchError>,
    ) -> Vec<Command> {
        let Some(monitor) = self.monitors.get_mut(&mcst_id) else {
            return Vec::new();
        };
        let pending = match &mut monitor.reads {
            Reads::Paths(pending) => pending,
            Reads::Suspects(suspects) => {
                let Some(claim) = suspects.pending.remove(&task) else {
                    return Vec::new();
                };
                let psn = result.ok().map(|value| Psn::new(value as u32));
                match (claim, psn) {
                    (SuspectRead::Claimed(member), Some(psn)) => {
                        suspects.claimed.insert(member, psn);
                    }
                    (SuspectRead::Sent(switch), Some(psn)) => {
                        suspects.sent.insert(switch, psn);
                    }
                    (_, None) => {}
                }
                return match suspects.pending.is_empty() {
                    true => self.remove_failed(groups, recoveries, mcst_id),
                    false => Vec::new(),
                };
            }
        };
        let Some(path) = pending.remove(&task) else {
            return Vec::new();
        };
        match result {
            Ok(value) => {
                let psn = Psn::new((value >> 8) as u32);
                let acked = monitor.acked.entry(path).or_insert((psn, now));
                if acked.0 != psn {
                    *acked = (psn, now);
                }
            }
            Err(_) => {
                monitor.acked.remove(&path);
            }
        }
        if !pending.is_empty() {
            return Vec::new();
        }
        let next = now + probe_interval(network, groups, mcst_id);
        self.next_readings.set(mcst_id, next);
        self.classify_paths(now, network, groups, recoveries, mcst_id)
    }

    fn classify_paths(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &Groups,
        recoveries: &mut Recoveries,
        mcst_id: Ipv4Addr,
    ) -> Vec<Command> {
        let (Some(monitor), Some(registration)) = (
            self.monitors.get_mut(&mcst_id),
            groups.get(mcst_id).filter(|r| r.is_ready()),
        ) else {
            self.stop_monitoring(mcst_id);
            return Vec::new();
        };
        let psns = || monitor.acked.values().map(|(psn, _)| *psn);
        let newest = psns().reduce(|a, b| if a.precedes(b) { b } else { a });
        let least = psns().reduce(|a, b| if b.precedes(a) { b } else { a });
        let (Some(least), Some(newest)) = (least, newest) else {
            // Nothing could be read; the next reading is scheduled.
            return Vec::new();
        };
        if least == newest
            || monitor
                .initial_minimum
                .is_some_and(|before| before.precedes(least))
        {
            // All paths have what was sent, or the group makes progress.
            recoveries.note_progress(mcst_id);
            self.stop_monitoring(mcst_id);
            return Vec::new();
        }
        monitor.initial_minimum.get_or_insert(least);
        if !registration.is_at_rest() {
            // A change is in progress; its result is awaited.
            return Vec::new();
        }
        let (dead, links) = self.find_failures(now, network, groups, mcst_id, (least, newest));
        if !links.is_empty() {
            // A blocked group does not prove a link failure: its source may have sent nothing since a frame was lost.
            self.stop_monitoring(mcst_id);
            let tests = links.into_iter().map(Command::TestLink);
            return tests.chain([Command::Watch(mcst_id)]).collect();
        }
        if !dead.is_empty() {
            self.read_claims_of(now, network, groups, mcst_id, dead);
        }
        Vec::new()
    }

    /// Reads, for members that may have failed, whether they have acknowledged more than their switches have recorded as
    /// sent.
    fn read_claims_of(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &Groups,
        mcst_id: Ipv4Addr,
        members: Vec<Ipv4Addr>,
    ) {
        let Some(registration) = groups.get(mcst_id) else {
            return;
        };
        let mut reads = Vec::new();
        let mut at = BTreeMap::new();
        for on in &registration.group().parts {
            let paths = (0..=u8::MAX).zip(&on.paths).filter_map(|(number, path)| {
                let ip = path.member()?.spec.ip;
                members.contains(&ip).then_some((number, ip))
            });
            let before = at.len();
            for (number, ip) in paths {
                at.insert(ip, (on.switch, number));
                let read = registers::read(on.group_index, REGISTER_CLAIMED, number);
                reads.push((on.switch, read, SuspectRead::Claimed(ip)));
            }
            if at.len() > before {
                let read = registers::read(on.group_index, REGISTER_SENT, 0);
                reads.push((on.switch, read, SuspectRead::Sent(on.switch)));
            }
        }
        if let Some(monitor) = self.monitors.get_mut(&mcst_id) {
            monitor.reads = Reads::Suspects(Suspects {
                members,
                paths: at,
                pending: BTreeMap::new(),
                claimed: BTreeMap::new(),
                sent: BTreeMap::new(),
            });
        }
        self.next_readings.clear(mcst_id);
        for (switch, read, claim) in reads {
            let id = network.submit(
                now,
                switch,
                Owner::StallMonitor(mcst_id),
                Task::Registers(read),
            );
            let monitor = self.monitors.get_mut(&mcst_id);
            if let Some(Reads::Suspects(suspects)) = monitor.map(|monitor| &mut monitor.reads) {
                suspects.pending.insert(id, claim);
            }
        }
    }

    /// Removes failed members; if one is alive, repairs the registers of its switch instead.
    fn remove_failed(
        &mut self,
        groups: &Groups,
        recoveries: &mut Recoveries,
        mcst_id: Ipv4Addr,
    ) -> Vec<Command> {
        let monitor = self.monitors.remove(&mcst_id);
        self.stop_monitoring(mcst_id);
        let Some(StallMonitor {
            reads: Reads::Suspects(suspects),
            initial_minimum: least,
            ..
        }) = monitor
        else {
            return Vec::new();
        };
        let is_ahead = |member: &Ipv4Addr| {
            let (switch, _) = suspects.paths.get(member)?;
            let (sent, claimed) = (suspects.sent.get(switch)?, suspects.claimed.get(member)?);
            sent.precedes(*claimed).then_some(*switch)
        };
        let wrong: BTreeSet<SwitchIndex> = suspects.members.iter().filter_map(is_ahead).collect();
        let wrong: Vec<SwitchIndex> = wrong
            .into_iter()
            .filter(|switch| recoveries.may_repair((mcst_id, *switch)))
            .collect();
        if wrong.is_empty() {
            return vec![Command::RemoveMembers(mcst_id, suspects.members)];
        }
        let position = Position {
            psn: least.unwrap_or(Psn::new(0)).prev(),
            msn: groups.group(mcst_id).map_or(0, |group| group.position.msn),
        };
        let parts = wrong.into_iter().map(|switch| (mcst_id, switch));
        let repairs = parts.map(|part| Command::Recover(part, position));
        repairs.chain([Command::Watch(mcst_id)]).collect()
    }

    /// Members and links that have blocked a group at the PSN `least` for too long, although data has arrived up to
    /// `newest`.
    fn find_failures(
        &self,
        now: u64,
        network: &Network,
        groups: &Groups,
        mcst_id: Ipv4Addr,
        (least, newest): (Psn, Psn),
    ) -> (Vec<Ipv4Addr>, Vec<LinkIndex>) {
        let (mut dead, mut links) = (Vec::new(), Vec::new());
        let (Some(monitor), Some(registration)) =
            (self.monitors.get(&mcst_id), groups.get(mcst_id))
        else {
            return (dead, links);
        };
        let failure_timeout = failure_timeout(network, registration.group());
        let is_old = |since: u64| now - since >= failure_timeout;
        for on in &registration.group().parts {
            let has_all = monitor
                .newest_on(on.switch)
                .is_some_and(|(psn, _)| psn == newest);
            for (path_index, path) in (0..=u8::MAX).zip(&on.paths) {
                let acked = monitor.acked.get(&(on.switch, path_index));
                let holds_up = |(psn, since): &&(Psn, u64)| *psn == least && is_old(*since);
                if !has_all || acked.filter(holds_up).is_none() {
                    continue;
                }
                if let Some(member) = path.member() {
                    dead.push(member.spec.ip);
                    continue;
                }
                let Some(neighbour) = network.topology().neighbour_at(on.switch, path.port) else {
                    continue;
                };
                let Node::Switch(next) = neighbour.peer.node else {
                    continue;
                };
                let gets_nothing = monitor
                    .newest_on(next)
                    .is_some_and(|(psn, since)| psn.precedes(newest) && is_old(since));
                let lacks_acks = monitor
                    .oldest_on(next)
                    .is_some_and(|(psn, since)| least.precedes(psn) && is_old(since));
                if gets_nothing || lacks_acks {
                    links.push(neighbour.link);
                }
            }
        }
        (dead, links)
    }

    /// Computes paths without failed links and switches, and changes the routes accordingly.
    pub(super) fn change_routes(&self, now: u64, network: &mut Network) {
        let paths = Paths::without(
            network.topology(),
            &self.failed_links,
            &self.failed_switches,
        );
        let underlay = Underlay::new(network.topology(), paths, network.config().group_range);
        let old = network.replace_underlay(underlay);
        for switch in network.ready_switches() {
            let updates = route_changes(network, switch, &old);
            if !updates.is_empty() {
                network.submit(now, switch, Owner::Detached, Task::Write(updates));
            }
        }
    }

    /// Links that are taken as failed.
    pub(super) fn failed_links(&self) -> &BTreeSet<LinkIndex> {
        &self.failed_links
    }

    /// Whether a group's tree uses a failed link or switch.
    pub(super) fn is_broken(&self, topology: &Topology, group: &Group) -> bool {
        group.tree.ports().any(|(switch, port)| {
            let neighbour = topology.neighbour_at(switch, port);
            let link = neighbour.is_some_and(|n| self.failed_links.contains(&n.link));
            link || self.failed_switches.contains(&switch)
        })
    }
}

/// Time in nanoseconds after which a member of a group is taken as failed. It is long enough for several round trips with
/// full queues, and it ends before the queue pairs of the other members give up.
fn failure_timeout(network: &Network, group: &Group) -> u64 {
    let longest = group.tree.longest_ns(network.topology());
    let needed = longest.saturating_mul(PASSES);
    group
        .retry_timeout
        .dead_after_ns(network.config().dead_member_ns.max(needed))
}

/// Interval in nanoseconds at which the controller reads the registers of a group's switches (the newest acknowledged PSN of
/// each path), while the group makes no progress.
fn probe_interval(network: &Network, groups: &Groups, mcst_id: Ipv4Addr) -> u64 {
    let group = groups.group(mcst_id);
    let failure_timeout = group.map_or(u64::MAX, |group| failure_timeout(network, group));
    network.config().probe_interval_ns.min(failure_timeout / 8)
}

/// Updates that change the entries of a switch from those of `old` to those of the current underlay.
fn route_changes(network: &Network, switch: SwitchIndex, old: &Underlay) -> Vec<Update> {
    let entries = |underlay: &Underlay| {
        let program = network.program();
        let both = underlay.entries(program, network.topology(), network.config(), switch);
        both.first
            .into_iter()
            .chain(both.second)
            .collect::<Vec<_>>()
    };
    let (before, after) = (entries(old), entries(network.underlay()));
    let held = Snapshot::of_updates(&before);
    let mut updates = held.missing(after.clone());
    updates.extend(held.surplus_deletions(
        &Snapshot::of_updates(&after),
        network.program().routes.id(),
        |_| false,
    ));
    updates
}
