//! Failures that a job causes during a transfer, and the times until the group recovers from them.

use std::collections::{BTreeSet, VecDeque};

use alfirk_ctrl::topology::{HostIndex, Node, Paths, Topology};

use super::fabric::{GroupChange, Victim};
use super::job::spec::Kill;
use super::report::Failure;

/// Failures of a job: those still to be caused, and those that have occurred.
#[derive(Debug)]
pub(super) struct Incidents {
    begun_at: Option<u64>,
    /// Failures that have not occurred yet, ordered by time.
    pending: VecDeque<Kill>,
    past: Vec<Incident>,
}

#[derive(Debug)]
struct Incident {
    kill: Kill,
    failed_at: u64,
    /// Time at which the failure was repaired (the controller had rerouted the group or removed the member), and the
    /// number of packets that were acknowledged by then; `None` before the repair.
    repaired: Option<(u64, u64)>,
    /// Time of the first acknowledgement after the repair, in nanoseconds; `None` before.
    resumed_at: Option<u64>,
}

impl Incidents {
    pub(super) fn new(kills: &[Kill]) -> Incidents {
        let mut pending = kills.to_vec();
        pending.sort_by_key(|kill| kill.after);
        Incidents {
            begun_at: None,
            pending: pending.into(),
            past: Vec::new(),
        }
    }

    /// Sets the time origin: the source has posted its message at `now`.
    pub(super) fn begin(&mut self, now: u64) {
        self.begun_at = Some(now);
    }

    /// Time of the next planned failure in nanoseconds; `None` before the source's post, or if no failure is pending.
    pub(super) fn next(&self) -> Option<u64> {
        let kill = self.pending.front()?;
        Some(self.begun_at?.saturating_add(kill.after))
    }

    /// Removes the next failure if its time is at or before `now`, records it as past, and returns the component to
    /// fail; `None` if no failure is due.
    pub(super) fn take_due(&mut self, now: u64) -> Option<Victim> {
        self.next().filter(|at| *at <= now)?;
        let kill = self.pending.pop_front()?;
        let victim = kill.victim;
        self.past.push(Incident {
            kill,
            failed_at: now,
            repaired: None,
            resumed_at: None,
        });
        Some(victim)
    }

    pub(super) fn has_killed(&self, host: HostIndex) -> bool {
        let mut past = self.past.iter();
        past.any(|incident| incident.kill.victim == Victim::Host(host))
    }

    /// Whether the job's failures cut off `host`: it has failed, or no path leads from `source` to it.
    pub(super) fn is_cut_off(
        &self,
        topology: &Topology,
        source: HostIndex,
        host: HostIndex,
    ) -> bool {
        if !self.has_any() {
            return false;
        }
        let (mut links, mut switches) = (BTreeSet::new(), BTreeSet::new());
        for incident in &self.past {
            match incident.kill.victim {
                Victim::Host(dead) if dead == host || dead == source => return true,
                Victim::Host(_) => {}
                Victim::Link(link) => drop(links.insert(link)),
                Victim::Switch(switch) => drop(switches.insert(switch)),
            }
        }
        let (leaf, _) = topology.attachment(source);
        let uplink = topology.uplink(source).link;
        let is_off = links.contains(&uplink) || switches.contains(&leaf);
        is_off || !Paths::without(topology, &links, &switches).reaches(leaf, host)
    }

    /// Records a change of the group by the controller as the repair of failures. Removal of a host repairs the failure
    /// of that host, and that of its link. Any change repairs the failures of switches and of links between them.
    ///
    /// If the source has finished, its acknowledgements count as continued at once.
    pub(super) fn record_repair(
        &mut self,
        topology: &Topology,
        change: &GroupChange,
        acknowledged: u64,
        has_finished: bool,
    ) {
        let is_lost = |host: HostIndex| change.lost.contains(&topology.host(host).ip);
        for incident in &mut self.past {
            let concerns = match incident.kill.victim {
                Victim::Host(host) => is_lost(host),
                Victim::Link(link) => {
                    let ends = topology.link(link).ends;
                    ends.iter().all(|end| match end.node {
                        Node::Host(host) => is_lost(host),
                        Node::Switch(_) => true,
                    })
                }
                Victim::Switch(_) => true,
            };
            if concerns && incident.repaired.is_none() {
                incident.repaired = Some((change.at, acknowledged));
                incident.resumed_at = has_finished.then_some(change.at);
            }
        }
    }

    /// Records the progress of the source: at `now`, `acknowledged` of its packets are acknowledged. This shows that
    /// transfers continue after a repair.
    pub(super) fn record_progress(&mut self, now: u64, acknowledged: u64) {
        for incident in &mut self.past {
            if incident
                .repaired
                .is_some_and(|(_, then)| acknowledged > then)
            {
                incident.resumed_at.get_or_insert(now);
            }
        }
    }

    /// Records that the surviving members of an overlay have agreed at `agreed_at` which blocks all of them hold, and
    /// have continued at `resumed_at`.
    pub(super) fn record_agreement(&mut self, agreed_at: u64, resumed_at: u64) {
        for incident in &mut self.past {
            if incident.repaired.is_none() {
                incident.repaired = Some((agreed_at, 0));
                incident.resumed_at = Some(resumed_at);
            }
        }
    }

    /// Whether any failure has occurred.
    pub(super) fn has_any(&self) -> bool {
        !self.past.is_empty()
    }

    /// Returns the failures that have occurred, with the times until repair and until the next acknowledgement.
    pub(super) fn report(&self) -> Vec<Failure> {
        let begun_at = self.begun_at.unwrap_or(0);
        let past = self.past.iter().map(|incident| Failure {
            what: incident.kill.name.clone(),
            at_ns: incident.failed_at - begun_at,
            repaired_ns: incident.repaired.map(|(at, _)| at - incident.failed_at),
            going_on_ns: incident.resumed_at.map(|at| at - incident.failed_at),
        });
        past.collect()
    }
}
