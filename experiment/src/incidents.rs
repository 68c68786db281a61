//! What breaks during a transfer, and how long the group takes to go on.

use std::collections::{BTreeSet, VecDeque};

use alfirk_ctrl::topology::{HostIndex, Node, Paths, Topology};

use super::fabric::{News, Victim};
use super::job::spec::Kill;
use super::report::Failure;

/// Deaths to come and deaths that were.
#[derive(Debug)]
pub(super) struct Incidents {
    begun_at: Option<u64>,
    /// By time.
    to_come: VecDeque<Kill>,
    past: Vec<Incident>,
}

#[derive(Debug)]
struct Incident {
    kill: Kill,
    died_at: u64,
    /// When the controller had led the group around it, or taken the member out, and how many packets were
    /// acknowledged then.
    repaired: Option<(u64, u64)>,
    /// When the next packet was acknowledged after that.
    moved_at: Option<u64>,
}

impl Incidents {
    pub(super) fn new(kills: &[Kill]) -> Incidents {
        let mut to_come = kills.to_vec();
        to_come.sort_by_key(|kill| kill.after);
        Incidents {
            begun_at: None,
            to_come: to_come.into(),
            past: Vec::new(),
        }
    }

    /// The source has posted its message.
    pub(super) fn begin(&mut self, now: u64) {
        self.begun_at = Some(now);
    }

    /// When the next death is due, or else whether to look closely because the group should soon go on.
    pub(super) fn next(&self) -> Option<u64> {
        let kill = self.to_come.front()?;
        Some(self.begun_at?.saturating_add(kill.after))
    }

    pub(super) fn take_due(&mut self, now: u64) -> Option<Victim> {
        self.next().filter(|at| *at <= now)?;
        let kill = self.to_come.pop_front()?;
        let victim = kill.victim;
        self.past.push(Incident {
            kill,
            died_at: now,
            repaired: None,
            moved_at: None,
        });
        Some(victim)
    }

    pub(super) fn has_killed(&self, host: HostIndex) -> bool {
        let mut past = self.past.iter();
        past.any(|incident| incident.kill.victim == Victim::Host(host))
    }

    /// Whether the job has cut off `host`: it is dead, or nothing leads from `source` to it any more.
    pub(super) fn has_cut_off(
        &self,
        topology: &Topology,
        source: HostIndex,
        host: HostIndex,
    ) -> bool {
        if !self.any() {
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

    /// The controller has done something: about a dead host if it names it, about anything else in any case.
    ///
    /// If the source has finished meanwhile, acknowledgements came at once.
    pub(super) fn repaired(
        &mut self,
        topology: &Topology,
        news: &News,
        acknowledged: u64,
        has_finished: bool,
    ) {
        let is_lost = |host: HostIndex| news.lost.contains(&topology.host(host).ip);
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
                incident.repaired = Some((news.at, acknowledged));
                incident.moved_at = has_finished.then_some(news.at);
            }
        }
    }

    /// So many packets of the source are acknowledged by now.
    pub(super) fn moved(&mut self, now: u64, acknowledged: u64) {
        for incident in &mut self.past {
            if incident
                .repaired
                .is_some_and(|(_, then)| acknowledged > then)
            {
                incident.moved_at.get_or_insert(now);
            }
        }
    }

    /// The survivors of an overlay have agreed on what is stable, and go on.
    pub(super) fn agreed(&mut self, agreed_at: u64, went_on_at: u64) {
        for incident in &mut self.past {
            if incident.repaired.is_none() {
                incident.repaired = Some((agreed_at, 0));
                incident.moved_at = Some(went_on_at);
            }
        }
    }

    /// Whether anything has broken.
    pub(super) fn any(&self) -> bool {
        !self.past.is_empty()
    }

    pub(super) fn report(&self) -> Vec<Failure> {
        let begun_at = self.begun_at.unwrap_or(0);
        let past = self.past.iter().map(|incident| Failure {
            what: incident.kill.name.clone(),
            at_ns: incident.died_at - begun_at,
            repaired_ns: incident.repaired.map(|(at, _)| at - incident.died_at),
            going_on_ns: incident.moved_at.map(|at| at - incident.died_at),
        });
        past.collect()
    }
}
