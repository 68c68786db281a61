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

use super::error::{GroupError, SwitchError};
use super::event::Tag;
use super::group::Group;
use super::position::Position;
use super::registers;
use super::session::{Task, TaskId};
use super::timers::Timers;
use super::underlay::Underlay;
use super::{ApiReply, Controller, Owner};
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
    pending: BTreeMap<TaskId, PathKey>,
    /// Newest acknowledged PSN of each path, and the time of its last change.
    acked: BTreeMap<PathKey, (Psn, u64)>,
    /// Oldest acknowledged PSN of all paths at the first complete reading; `None` before.
    initial_minimum: Option<Psn>,
    /// Members that may have failed, and pending reads about them; `None` while there are no such members.
    suspects: Option<Suspects>,
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
}

impl Controller {
    /// Processes a report that a sender of the group gets no acknowledgements.
    pub(super) fn suspect(&mut self, now: u64, tag: Tag, mcst_id: Ipv4Addr) {
        if !self.groups.get(&mcst_id).is_some_and(|r| r.is_ready()) {
            let error = GroupError::NoSuchGroup(mcst_id);
            return self.queue_reply(ApiReply::Failed { tag, error });
        }
        self.queue_reply(ApiReply::Probing { tag, mcst_id });
        self.renew_lease(now, mcst_id);
        self.watch(now, mcst_id);
    }

    /// Monitors the group's paths until it makes progress or the cause is known.
    pub(super) fn watch(&mut self, now: u64, mcst_id: Ipv4Addr) {
        if !self.groups.get(&mcst_id).is_some_and(|r| r.is_ready()) {
            return;
        }
        if let Entry::Vacant(entry) = self.health.monitors.entry(mcst_id) {
            entry.insert(StallMonitor::default());
            self.read_acked_psns(now, mcst_id);
        }
    }

    pub(super) fn health_timeout(&mut self, now: u64) {
        while let Some(mcst_id) = self.health.next_readings.pop_due(now) {
            if self.health.monitors.contains_key(&mcst_id) {
                self.read_acked_psns(now, mcst_id);
            }
        }
        let absent = self
            .health
            .failure_deadlines
            .iter()
            .filter(|(_, at)| **at <= now);
        for switch in absent.map(|(switch, _)| *switch).collect::<Vec<_>>() {
            self.health.failure_deadlines.remove(&switch);
            let name = &self.topology.switch(switch).name;
            tracing::warn!("switch {name} has failed; rerouting traffic around it");
            self.health.failed_switches.insert(switch);
            self.reroute_around_failures(now);
        }
    }

    /// Records that a switch has disconnected.
    pub(super) fn note_disconnected(&mut self, now: u64, switch: SwitchIndex) {
        if !self.health.failed_switches.contains(&switch) {
            let deadline = now + self.config.dead_switch_ns;
            self.health
                .failure_deadlines
                .entry(switch)
                .or_insert(deadline);
        }
    }

    /// Records that a switch is ready again.
    pub(super) fn note_reconnected(&mut self, now: u64, switch: SwitchIndex) {
        self.health.failure_deadlines.remove(&switch);
        if self.health.failed_switches.remove(&switch) {
            self.reroute_around_failures(now);
        }
    }

    /// Processes a change of a link's state.
    pub(super) fn link_changed(&mut self, now: u64, link: LinkIndex, is_up: bool) {
        let is_changed = match is_up {
            true => self.health.failed_links.remove(&link),
            false => self.health.failed_links.insert(link),
        };
        if is_changed {
            self.reroute_around_failures(now);
        }
    }

    /// Reads the newest acknowledged PSN of every path of a group.
    fn read_acked_psns(&mut self, now: u64, mcst_id: Ipv4Addr) {
        let Some(registration) = self.groups.get(&mcst_id).filter(|r| r.is_ready()) else {
            self.health.stop_monitoring(mcst_id);
            return;
        };
        let mut reads = Vec::new();
        for on in &registration.group().parts {
            if self.switches[on.switch.0].boot.is_ready() {
                reads.extend((0..=u8::MAX).zip(&on.paths).map(|(path, _)| {
                    let read = registers::read(on.group_index, REGISTER_ACK, path);
                    ((on.switch, path), Task::Registers(read))
                }));
            }
        }
        if reads.is_empty() {
            let next = now + self.probe_interval(mcst_id);
            self.health.next_readings.set(mcst_id, next);
        }
        for ((switch, path), task) in reads {
            let id = self.submit(now, switch, Owner::StallMonitor(mcst_id), task);
            if let Some(monitor) = self.health.monitors.get_mut(&mcst_id) {
                monitor.pending.insert(id, (switch, path));
            }
        }
    }

    pub(super) fn acked_psn_read(
        &mut self,
        now: u64,
        mcst_id: Ipv4Addr,
        task: TaskId,
        result: Result<u64, SwitchError>,
    ) {
        let Some(monitor) = self.health.monitors.get_mut(&mcst_id) else {
            return;
        };
        if let Some(suspects) = &mut monitor.suspects {
            let Some(claim) = suspects.pending.remove(&task) else {
                return;
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
            if suspects.pending.is_empty() {
                self.remove_failed(now, mcst_id);
            }
            return;
        }
        let Some(path) = monitor.pending.remove(&task) else {
            return;
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
        if monitor.pending.is_empty() {
            let next = now + self.probe_interval(mcst_id);
            self.health.next_readings.set(mcst_id, next);
            self.classify_paths(now, mcst_id);
        }
    }

    fn classify_paths(&mut self, now: u64, mcst_id: Ipv4Addr) {
        let (Some(monitor), Some(registration)) = (
            self.health.monitors.get_mut(&mcst_id),
            self.groups.get(&mcst_id).filter(|r| r.is_ready()),
        ) else {
            self.health.stop_monitoring(mcst_id);
            return;
        };
        let psns = || monitor.acked.values().map(|(psn, _)| *psn);
        let newest = psns().reduce(|a, b| if a.precedes(b) { b } else { a });
        let least = psns().reduce(|a, b| if b.precedes(a) { b } else { a });
        let (Some(least), Some(newest)) = (least, newest) else {
            // Nothing could be read; the next reading is scheduled.
            return;
        };
        if least == newest
            || monitor
                .initial_minimum
                .is_some_and(|before| before.precedes(least))
        {
            // All paths have what was sent, or the group makes progress.
            self.recoveries.note_progress(mcst_id);
            self.health.stop_monitoring(mcst_id);
            return;
        }
        monitor.initial_minimum.get_or_insert(least);
        if !registration.is_at_rest() {
            // A change is in progress; its result is awaited.
            return;
        }
        let (dead, links) = self.find_failures(now, mcst_id, least, newest);
        if !links.is_empty() {
            // A blocked group does not prove a link failure: its source may have sent nothing since a frame was lost.
            self.health.stop_monitoring(mcst_id);
            for link in links {
                self.test_link(now, link);
            }
            self.watch(now, mcst_id);
        } else if !dead.is_empty() {
            self.read_claims_of(now, mcst_id, dead);
        }
    }

    /// Reads, for members that may have failed, whether they have acknowledged more than their switches have recorded as
    /// sent.
    fn read_claims_of(&mut self, now: u64, mcst_id: Ipv4Addr, members: Vec<Ipv4Addr>) {
        let Some(registration) = self.groups.get(&mcst_id) else {
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
        if let Some(monitor) = self.health.monitors.get_mut(&mcst_id) {
            monitor.suspects = Some(Suspects {
                members,
                paths: at,
                pending: BTreeMap::new(),
                claimed: BTreeMap::new(),
                sent: BTreeMap::new(),
            });
        }
        self.health.next_readings.clear(mcst_id);
        for (switch, read, claim) in reads {
            let id = self.submit(
                now,
                switch,
                Owner::StallMonitor(mcst_id),
                Task::Registers(read),
            );
            let suspects = self.health.monitors.get_mut(&mcst_id);
            if let Some(suspects) = suspects.and_then(|monitor| monitor.suspects.as_mut()) {
                suspects.pending.insert(id, claim);
            }
        }
    }

    /// Removes failed members; if one is alive, repairs the registers of its switch instead.
    fn remove_failed(&mut self, now: u64, mcst_id: Ipv4Addr) {
        let monitor = self.health.monitors.get(&mcst_id);
        let least = monitor.and_then(|monitor| monitor.initial_minimum);
        let Some(suspects) = self
            .health
            .monitors
            .get_mut(&mcst_id)
            .and_then(|p| p.suspects.take())
        else {
            return;
        };
        let is_ahead = |member: &Ipv4Addr| {
            let (switch, _) = suspects.paths.get(member)?;
            let (sent, claimed) = (suspects.sent.get(switch)?, suspects.claimed.get(member)?);
            sent.precedes(*claimed).then_some(*switch)
        };
        let wrong: BTreeSet<SwitchIndex> = suspects.members.iter().filter_map(is_ahead).collect();
        self.health.stop_monitoring(mcst_id);
        let wrong: Vec<SwitchIndex> = wrong
            .into_iter()
            .filter(|switch| self.recoveries.may_repair((mcst_id, *switch)))
            .collect();
        if wrong.is_empty() {
            return self.remove_members(now, mcst_id, suspects.members);
        }
        let msn = self
            .groups
            .get(&mcst_id)
            .map_or(0, |r| r.group().position.msn);
        for switch in wrong {
            let psn = least.unwrap_or(Psn::new(0)).prev();
            self.recover(now, (mcst_id, switch), Position { psn, msn });
        }
        self.watch(now, mcst_id);
    }

    /// Time in nanoseconds after which a member of a group is taken as failed. It is long enough for several round trips
    /// with full queues, and it ends before the queue pairs of the other members give up.
    fn failure_timeout(&self, group: &Group) -> u64 {
        let longest = group.tree.longest_ns(&self.topology);
        let needed = longest.saturating_mul(PASSES);
        group
            .retry_timeout
            .dead_after_ns(self.config.dead_member_ns.max(needed))
    }

    /// Interval in nanoseconds at which the controller reads the registers of a group's switches (the newest acknowledged
    /// PSN of each path), while the group makes no progress.
    fn probe_interval(&self, mcst_id: Ipv4Addr) -> u64 {
        let group = self.groups.get(&mcst_id).map(|r| r.group());
        let failure_timeout = group.map_or(u64::MAX, |group| self.failure_timeout(group));
        self.config.probe_interval_ns.min(failure_timeout / 8)
    }

    /// Members and links that have blocked a group at the PSN `least` for too long, although data has arrived up to
    /// `newest`.
    fn find_failures(
        &self,
        now: u64,
        mcst_id: Ipv4Addr,
        least: Psn,
        newest: Psn,
    ) -> (Vec<Ipv4Addr>, Vec<LinkIndex>) {
        let (mut dead, mut links) = (Vec::new(), Vec::new());
        let (Some(monitor), Some(registration)) = (
            self.health.monitors.get(&mcst_id),
            self.groups.get(&mcst_id),
        ) else {
            return (dead, links);
        };
        let failure_timeout = self.failure_timeout(registration.group());
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
                let Some(neighbour) = self.topology.neighbour_at(on.switch, path.port) else {
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

    /// Computes paths without failed links and switches. Changes the routes accordingly, and the trees of groups that use
    /// a failed link or switch.
    fn reroute_around_failures(&mut self, now: u64) {
        let paths = Paths::without(
            &self.topology,
            &self.health.failed_links,
            &self.health.failed_switches,
        );
        let underlay = Underlay::new(&self.topology, paths, self.config.group_range);
        let old = std::mem::replace(&mut self.underlay, underlay);
        let ready: Vec<SwitchIndex> = self
            .topology
            .switch_indexes()
            .filter(|switch| self.switches[switch.0].boot.is_ready())
            .collect();
        for switch in ready {
            let updates = self.route_changes(switch, &old);
            if !updates.is_empty() {
                self.submit(now, switch, Owner::Detached, Task::Write(updates));
            }
        }
        self.reroute_datagrams(now);
        let groups = self.groups.keys().copied();
        let broken: Vec<Ipv4Addr> = groups.filter(|group| self.is_broken(*group)).collect();
        for mcst_id in broken {
            self.reroute(now, mcst_id);
        }
    }

    /// Whether a link is taken as failed.
    pub(super) fn is_failed(&self, link: LinkIndex) -> bool {
        self.health.failed_links.contains(&link)
    }

    /// Whether a group's tree uses a failed link or switch.
    pub(super) fn is_broken(&self, mcst_id: Ipv4Addr) -> bool {
        let group = self.groups.get(&mcst_id).map(|r| r.group());
        group.is_some_and(|group| {
            group.tree.ports().any(|(switch, port)| {
                let neighbour = self.topology.neighbour_at(switch, port);
                let link = neighbour.is_some_and(|n| self.health.failed_links.contains(&n.link));
                link || self.health.failed_switches.contains(&switch)
            })
        })
    }

    fn route_changes(&self, switch: SwitchIndex, old: &Underlay) -> Vec<Update> {
        let entries = |underlay: &Underlay| {
            let both = underlay.entries(&self.program, &self.topology, &self.config, switch);
            both.first
                .into_iter()
                .chain(both.second)
                .collect::<Vec<_>>()
        };
        let (before, after) = (entries(old), entries(&self.underlay));
        let held = Snapshot::of_updates(&before);
        let mut updates = held.missing(after.clone());
        updates.extend(held.surplus_deletions(
            &Snapshot::of_updates(&after),
            self.program.routes.id(),
            |_| false,
        ));
        updates
    }
}
