//! The life of one algorithm's run, from queue pairs to checked bytes.

mod deaths;
mod guarded;
mod recovery;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use alfirk_ctrl::constants::VIRTUAL_MAC;
use alfirk_ctrl::tables::Counts;
use alfirk_ctrl::topology::{HostIndex, Topology};
use alfirk_roce::collective::{
    Algorithm, Digest, Endpoint, ExpectedData, LegVerb, Progress, TransferSpec, WriteMode,
};
use alfirk_roce::hostile::Target;
use alfirk_roce::rc::RcConfig;

use guarded::{Reason, Watch};

use super::error::JobError;
use super::layout::{peers, Layout, DATAGRAM_GROUP};
use super::spec::{Job, Registration};
use crate::changes::{Change, Changes};
use crate::fabric::{Fabric, FabricError, Traffic};
use crate::incidents::Incidents;
use crate::member::MemberEvent;
use crate::report::{goodput_gbps, Fallback, Missing, MissingReason, PartRow, Row};

/// Runs `algorithm` on `fabric`. `watch` is shown now and then how many bytes the receivers have together.
pub fn run_algorithm(
    fabric: &mut dyn Fabric,
    topology: &Topology,
    job: &Job,
    algorithm: Algorithm,
    watch: &mut dyn FnMut(Progress),
) -> Result<Row, JobError> {
    let row = Run::new(&mut *fabric, topology, job, algorithm).carry_out(watch)?;
    let control = fabric.flow_control();
    Ok(Row {
        flow_control: control.map_err(|error| JobError::Fabric { algorithm, error })?,
        ..row
    })
}

struct Run<'a> {
    fabric: &'a mut dyn Fabric,
    layout: Layout<'a>,
    /// Whether the message goes through a registered group.
    grouped: bool,
    /// What the first member is to do.
    spec: Option<TransferSpec>,
    /// The rank of the source at present.
    sending: usize,
    /// How many packets of the source were acknowledged when that last changed or was complained about, and when.
    moved: (u64, u64),
    /// How many bytes all receivers had together when that last changed, when that was, and when it was last looked at.
    received: (u64, u64, u64),
    /// By how much the controller delays the group's acknowledgements, in nanoseconds.
    answers_later: u64,
    /// How long it took to get the group, in nanoseconds, if there is one.
    registration_ns: Option<u64>,
    /// What the switches had counted at the start, where that is compared.
    counted: Option<Counts>,
    cost: Cost,
    incidents: Incidents,
    changes: Changes,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        fabric: &'a mut dyn Fabric,
        topology: &'a Topology,
        job: &'a Job,
        algorithm: Algorithm,
    ) -> Run<'a> {
        Run {
            layout: Layout::new(topology, job, algorithm, fabric.now()).with_limits(
                fabric.processing(),
                &OnceCell::new(),
                None,
            ),
            fabric,
            grouped: false,
            spec: None,
            sending: 0,
            moved: (0, 0),
            received: (0, 0, 0),
            answers_later: 0,
            registration_ns: None,
            counted: None,
            cost: Cost {
                spent: Traffic::nothing(),
                before: Traffic::nothing(),
            },
            incidents: Incidents::new(&job.kills),
            changes: Changes::new(&job.outages, &job.suspensions),
        }
    }
}

/// What the queue pairs of legs that are over have cost, and the counters when the present one began.
struct Cost {
    spent: Traffic,
    before: Traffic,
}

/// What came of the request for a group.
enum Opened {
    /// There is one, or none is needed.
    Ready(Vec<Endpoint>),
    /// There is none, and the job names what to do without.
    Refused { why: String, to: Algorithm },
}

/// What the members have reported by now, by rank.
struct Reported {
    ranks: BTreeMap<HostIndex, usize>,
    ready: Vec<bool>,
    /// When each was done, and what it holds.
    done: Vec<Option<(u64, Digest)>>,
    /// When each had each part, by part; nothing unless members take turns.
    parts: Vec<Vec<Option<u64>>>,
    /// Whose relayed data is acknowledged, too.
    finished: Vec<bool>,
    /// How many slices each held, from the first one on, when it had left a leg, and which beyond.
    left: Vec<Option<(u32, Vec<u32>)>>,
    /// Whether a member has noticed that another one is dead.
    broken: bool,
    /// Who is out of the group, or dead, and need not be waited for.
    lost: Vec<bool>,
}

impl Reported {
    fn new(hosts: &[HostIndex], parts: u32) -> Reported {
        let members = hosts.len();
        Reported {
            ranks: hosts.iter().copied().zip(0..).collect(),
            ready: vec![false; members],
            done: vec![None; members],
            parts: vec![vec![None; members]; parts as usize],
            finished: vec![false; members],
            left: vec![None; members],
            broken: false,
            lost: vec![false; members],
        }
    }

    fn missing<'a>(
        &'a self,
        has: &'a impl Fn(&Reported, usize) -> bool,
    ) -> impl Iterator<Item = usize> + 'a {
        (0..self.lost.len()).filter(move |&rank| self.is_missing(rank, has))
    }

    fn is_missing(&self, rank: usize, has: &impl Fn(&Reported, usize) -> bool) -> bool {
        !self.lost[rank] && !has(self, rank)
    }
}

impl Run<'_> {
    /// Carries the job out, with an eye on the group if that is asked for.
    pub(super) fn carry_out(mut self, watch: &mut dyn FnMut(Progress)) -> Result<Row, JobError> {
        let asked_for = self.layout.algorithm;
        let guarded = self.layout.guarded();
        let mut guard = guarded.map(|(config, to)| Watch::new(config, to));
        if guard.is_some() {
            // Groups will come and go.
            self.counted = Some(self.counts()?);
        }
        let opened = self.open()?;
        let mut fallback = None;
        let posted_at;
        let mut reported = Reported::new(&self.layout.job.members, self.layout.parts());
        match (opened, &mut guard) {
            (Opened::Ready(endpoints), guard) => {
                posted_at = self.set_out(&endpoints, &mut reported, watch)?;
                if let Some(guard) = guard {
                    guard.group_begins(posted_at[0]);
                }
            }
            (Opened::Refused { why, .. }, Some(guard)) => {
                let reason = Reason::Refused(why);
                posted_at = vec![self.fall_back(&mut reported, guard, reason, watch)?];
            }
            (Opened::Refused { why, to }, None) => {
                fallback = Some(Fallback {
                    to: to.to_string(),
                    why,
                });
                self.close()?;
                let layout =
                    Layout::new(self.layout.topology, self.layout.job, to, self.layout.begun);
                self.layout = layout.with_limits(self.fabric.processing(), &OnceCell::new(), None);
                reported = Reported::new(&self.layout.job.members, self.layout.parts());
                let endpoints = self.prepare()?;
                posted_at = self.set_out(&endpoints, &mut reported, watch)?;
            }
        }
        let ended = match &mut guard {
            Some(guard) => self.attend(&mut reported, guard, watch),
            None => self.see_through(&mut reported, watch),
        };
        // What has come until then is a result, too.
        let given_up = match ended {
            Ok(()) => None,
            Err(error) => Some(error.late().ok_or(error)?),
        };
        let ended_at = self.fabric.now();
        let traffic = self.traffic()?.since(&self.cost.before);
        let traffic = self.cost.spent.plus(&traffic);
        let requests = self.fabric.request_times(self.layout.job.members[0]);
        let requests = self.on_fabric(requests)?;
        let counts = match self.counted.take() {
            Some(before) => Some(self.counts()? - before),
            None => None,
        };
        let missing = self.missing(&reported, &posted_at)?;
        let ended = self.end(&mut reported);
        if given_up.is_none() {
            ended?;
        }
        let row = self.row(&reported, &posted_at, &traffic, counts.as_ref());
        let is_complete = given_up.is_none() && missing.is_empty();
        let (completion_ns, goodput_gbps) = match given_up {
            None => (row.completion_ns, row.goodput_gbps),
            Some(_) => (ended_at.saturating_sub(posted_at[0]), None),
        };
        Ok(Row {
            algorithm: asked_for.to_string(),
            verified: row.verified && is_complete,
            completion_ns,
            goodput_gbps,
            given_up,
            missing,
            registration_ns: self.registration_ns,
            sender: Some(self.layout.sender(&self.rc(0))),
            fallback,
            requests,
            safeguard: guard.map_or_else(Vec::new, Watch::changes),
            ..row
        })
    }

    /// Makes the queue pairs, and the group that they are to be in.
    fn open(&mut self) -> Result<Opened, JobError> {
        let endpoints = self.prepare()?;
        let asked_at = self.fabric.now();
        if self.layout.algorithm.needs_group() {
            let job = self.layout.job;
            let to = job.fallback.filter(|to| to.supports(job.collective));
            match (self.register(&endpoints), to) {
                (Ok(()), _) => self.grouped = true,
                (Err(error), Some(to)) if error.leaves_members_alone() => {
                    let why = error.to_string();
                    return Ok(Opened::Refused { why, to });
                }
                (Err(error), _) => return self.on_fabric(Err(error)),
            }
        } else if self.layout.algorithm.needs_datagrams() {
            let members = &self.layout.job.members;
            let joined = self.fabric.join_datagrams(DATAGRAM_GROUP, members);
            self.on_fabric(joined)?;
        } else {
            return Ok(Opened::Ready(endpoints));
        }
        self.registration_ns = Some(self.fabric.now() - asked_at);
        Ok(Opened::Ready(endpoints))
    }

    /// Connects the members and has the sources send; gives when each did.
    fn set_out(
        &mut self,
        endpoints: &[Endpoint],
        reported: &mut Reported,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<Vec<u64>, JobError> {
        self.connect(&self.layout.job.members, endpoints)?;
        self.wait(reported, "is not connected", |t, rank| t.ready[rank], watch)?;
        self.turn_hostile(reported)?;
        self.make_ready()?;
        // Counters of the switches say nothing about algorithms without a group.
        if self.grouped && self.counted.is_none() {
            self.counted = Some(self.counts()?);
        }
        self.cost.before = self.traffic()?;
        self.send(reported, watch)
    }

    /// Waits until all is done and acknowledged, without those who die on the way.
    fn see_through(
        &mut self,
        reported: &mut Reported,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(), JobError> {
        loop {
            let is_done = |t: &Reported, rank: usize| t.done[rank].is_some();
            self.wait(reported, "is not done", is_done, watch)?;
            // The last acknowledgements belong to what the transfer costs, though nobody waits for them.
            let has_finished = |t: &Reported, rank: usize| t.finished[rank];
            self.wait(reported, "has not finished", has_finished, watch)?;
            if !reported.broken {
                return Ok(());
            }
            self.recover(reported, watch)?;
        }
    }

    /// Leaves nothing behind on the fabric.
    fn end(&mut self, reported: &mut Reported) -> Result<(), JobError> {
        self.close()?;
        if self.layout.algorithm.needs_datagrams() {
            let members = &self.layout.job.members;
            let left = self.fabric.leave_datagrams(DATAGRAM_GROUP, members);
            self.on_fabric(left)?;
        }
        if self.grouped {
            let removed = self.deregister();
            self.on_fabric(removed)?;
            // A controller that was about to heal the group is done with that now.
            let heard = self.hear_news(reported, self.moved.0);
            self.on_fabric(heard)?;
        }
        Ok(())
    }

    /// What the queue pairs have cost so far is put by, before others take their place.
    fn settle_cost(&mut self) -> Result<(), JobError> {
        let traffic = self.traffic()?.since(&self.cost.before);
        self.cost.spent = self.cost.spent.plus(&traffic);
        Ok(())
    }

    /// Has one source after the other post its part; gives the times.
    fn send(
        &mut self,
        reported: &mut Reported,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<Vec<u64>, JobError> {
        let mut posted_at = Vec::new();
        if let Some(spec) = self.begins_everywhere() {
            // The last one decides when it can be over.
            let last = self.begin_everywhere(&spec)?;
            self.incidents.begin(last);
            self.changes.begin(last);
            return Ok(vec![last]);
        }
        for part in 0..self.layout.parts() {
            let (source, data) = match &self.spec {
                Some(spec) if spec.has_several_sources() => {
                    let (offset, len) = spec.part(part);
                    let data = &self.layout.job.data.bytes()[offset as usize..][..len as usize];
                    let data = Arc::new(ExpectedData::new(Arc::from(data)));
                    (spec.source_of(part) as usize, data)
                }
                _ => (0, Arc::clone(&self.layout.job.data)),
            };
            self.sending = source;
            let posted = self.fabric.start(self.layout.job.members[source], &data);
            posted_at.push(self.on_fabric(posted)?);
            if part == 0 {
                self.incidents.begin(posted_at[0]);
                self.changes.begin(posted_at[0]);
            }
            if part + 1 < self.layout.parts() {
                // A leaf switch knows one region per receiver; what an old source sends again must not find a new one's.
                let early =
                    self.layout.job.switch_early && self.layout.job.write != WriteMode::PerRequest;
                self.wait(
                    reported,
                    "does not have its part",
                    |t, rank| t.parts[part as usize][rank].is_some() || (early && rank == source),
                    watch,
                )?;
            }
        }
        Ok(posted_at)
    }

    /// What the first member is to do, if every member begins at once with something of its own.
    fn begins_everywhere(&self) -> Option<TransferSpec> {
        let spec = self.spec.as_ref()?;
        let begins = spec.collective.begins_everywhere() && !spec.has_several_sources();
        begins.then(|| spec.clone())
    }

    /// Makes the queue pairs of all members.
    fn prepare(&mut self) -> Result<Vec<Endpoint>, JobError> {
        self.answers_later = match self.layout.round_trips_to_controller() {
            0 => 0,
            punts => {
                let round_trip = self.fabric.control_round_trip();
                self.on_fabric(round_trip)? * punts
            }
        };
        let specs = self.layout.specs(|rank| {
            let paths = self.layout.paths(self.fabric, rank, self.answers_later);
            (self.rc(rank), paths)
        });
        self.spec = specs.first().cloned();
        let mut endpoints = Vec::new();
        for (&host, spec) in self.layout.job.members.iter().zip(specs) {
            let prepared = self.fabric.prepare(host, spec);
            endpoints.extend(self.on_fabric(prepared)?);
        }
        Ok(endpoints)
    }

    fn rc(&self, rank: usize) -> RcConfig {
        self.layout.rc(self.fabric, rank, self.answers_later)
    }

    /// Connects members, given by their ranks, each to the ends of its own edges.
    fn connect(&mut self, members: &[HostIndex], endpoints: &[Endpoint]) -> Result<(), JobError> {
        let tells = |rank| self.layout.tells_memory(rank);
        let peers = peers(members.len(), endpoints, tells);
        for (&host, peers) in members.iter().zip(peers) {
            let connected = self.fabric.connect(host, &peers);
            self.on_fabric(connected)?;
        }
        Ok(())
    }

    fn register(&mut self, endpoints: &[Endpoint]) -> Result<(), FabricError> {
        let window = self.layout.window(self.fabric, self.answers_later);
        let request = self.layout.registration(endpoints, window);
        let job = self.layout.job;
        match job.registration {
            Registration::Api => self.fabric.register(request).map(|_| ()),
            Registration::Mrp => self.fabric.register_in_band(job.members[0], request),
        }
    }

    /// Has every member begin with its own data; gives when the last one did.
    fn begin_everywhere(&mut self, spec: &TransferSpec) -> Result<u64, JobError> {
        let mut last = 0;
        for (rank, &host) in self.layout.job.members.iter().enumerate() {
            let spec = TransferSpec {
                rank: rank as u32,
                ..spec.clone()
            };
            let (offset, len) = spec.own_bytes();
            let own = &self.layout.job.data.bytes()[offset as usize..][..len as usize];
            let own = Arc::new(ExpectedData::new(Arc::from(own)));
            let begun = self.fabric.start(host, &own);
            last = last.max(self.on_fabric(begun)?);
        }
        Ok(last)
    }

    /// Has receivers send notices that they are ready, where they do that.
    fn make_ready(&mut self) -> Result<(), JobError> {
        let tells = self.spec.as_ref().is_some_and(|spec| spec.ready.is_some());
        for &host in self.layout.job.members[1..].iter().filter(|_| tells) {
            let proceeded = self.fabric.act(host, LegVerb::Proceed);
            self.on_fabric(proceeded)?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), JobError> {
        for &host in &self.layout.job.members {
            let closed = self.fabric.close(host);
            self.on_fabric(closed)?;
        }
        Ok(())
    }

    /// How long the source bears to get no acknowledgement: a few timeouts at the least.
    fn patience(&self) -> u64 {
        let timeout = self.rc(self.sending).ack_timeout.ns().unwrap_or(0);
        self.fabric.patience().max(4 * timeout)
    }

    fn deregister(&mut self) -> Result<(), FabricError> {
        match self.layout.job.registration {
            Registration::Api => self.fabric.deregister(self.layout.mcst_id()),
            Registration::Mrp => self.fabric.deregister_in_band(self.layout.job.members[0]),
        }
    }

    /// Waits until `has` holds of every rank that is not lost.
    fn wait(
        &mut self,
        reported: &mut Reported,
        what: &'static str,
        has: impl Fn(&Reported, usize) -> bool,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(), JobError> {
        let deadline = self.fabric.now().saturating_add(self.layout.time_limit());
        let mut missing = reported.missing(&has).next();
        while let Some(rank) = missing {
            if self.fabric.now() >= deadline {
                return Err(self.too_late(what, reported.missing(&has)));
            }
            self.step(reported, deadline, watch)?;
            self.audit(reported)?;
            if self.grouped && self.layout.guarded().is_none() {
                let looked = self.look_after(reported);
                self.on_fabric(looked)?;
            } else if self.closes() {
                self.strike(reported)?;
                if reported.broken {
                    return Ok(());
                }
            } else if self.buries() {
                self.bury(reported)?;
            }
            // The others are looked at only when this one is missing no more.
            if !reported.is_missing(rank, &has) {
                missing = reported.missing(&has).next();
            }
        }
        Ok(())
    }

    /// Waits for what comes next, at most until `limit`, and takes it.
    fn step(
        &mut self,
        reported: &mut Reported,
        limit: u64,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(), JobError> {
        let interval = match self.is_audited() {
            true => self.fabric.audit_interval(),
            false => self.fabric.tick(),
        };
        let soon = self.fabric.now().saturating_add(interval);
        let due = [self.incidents.next(), self.changes.next()];
        let soon = due.into_iter().flatten().fold(soon, u64::min);
        let event = self.fabric.next_event(soon.min(limit));
        match self.on_fabric(event)? {
            Some((host, event)) => self.take(reported, host, event)?,
            None => watch(self.progress()?),
        }
        let now = self.fabric.now();
        while let Some(change) = self.changes.take_due(now) {
            let done = match change {
                Change::Loss(link, loss) => self.fabric.set_loss(link, loss),
                Change::Suspend(host, lasts) => self.fabric.suspend(host, lasts),
            };
            self.on_fabric(done)?;
        }
        Ok(())
    }

    /// Whether acknowledgements are compared with what members have: where a hostile member may have forged them.
    fn is_audited(&self) -> bool {
        self.grouped && !self.layout.job.hostiles.is_empty()
    }

    /// Compares what is acknowledged to the sources with what each member has received, which no correct fabric acknowledges before.
    fn audit(&mut self, reported: &Reported) -> Result<(), JobError> {
        if !self.is_audited() {
            return Ok(());
        }
        let members = &self.layout.job.members;
        let mut acknowledged = Vec::with_capacity(members.len());
        for (rank, &host) in members.iter().enumerate() {
            // What is lost sends nothing any more, or is hostile.
            let counted = match reported.lost[rank] {
                true => Ok(0),
                false => self.fabric.acknowledged(host),
            };
            acknowledged.push(self.on_fabric(counted)?);
        }
        let all: u64 = acknowledged.iter().sum();
        for (rank, &host) in members.iter().enumerate() {
            if reported.lost[rank] {
                continue;
            }
            // Read after what is acknowledged: it only grows.
            let received = self.fabric.received(host);
            let others = all - acknowledged[rank];
            match self.on_fabric(received)? {
                Some(received) if received < others => {
                    return Err(JobError::FalseAcknowledgement {
                        algorithm: self.layout.algorithm,
                        source_host: self.host_name(self.sending),
                        host: self.host_name(rank),
                        acknowledged: others,
                        received,
                    })
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Lets the hostile members loose, if there is a group.
    fn turn_hostile(&mut self, reported: &mut Reported) -> Result<(), JobError> {
        for &host in self.layout.job.hostiles.iter().filter(|_| self.grouped) {
            let rank = self
                .layout
                .job
                .members
                .iter()
                .position(|&member| member == host);
            if let Some(rank) = rank {
                reported.lost[rank] = true;
            }
            let target = Target {
                mcst_id: self.layout.mcst_id(),
                virtual_qpn: self.layout.virtual_qpn(),
                mac: VIRTUAL_MAC,
                initial_psn: self.layout.initial_psn(),
                window: self.rc(self.sending).window,
            };
            let turned = self.fabric.turn_hostile(host, target, self.layout.job.seed);
            self.on_fabric(turned)?;
        }
        Ok(())
    }

    fn too_late(&self, what: &'static str, ranks: impl Iterator<Item = usize>) -> JobError {
        JobError::TimeLimit {
            algorithm: self.layout.algorithm,
            what,
            hosts: ranks.map(|rank| self.host_name(rank)).collect(),
            seconds: self.layout.time_limit() as f64 / 1e9,
        }
    }

    /// Breaks what is due to break, sees what the controller has done about it, and complains when nothing moves.
    fn look_after(&mut self, reported: &mut Reported) -> Result<(), FabricError> {
        let now = self.fabric.now();
        let source = self.layout.job.members[self.sending];
        let acknowledged = self.fabric.acknowledged(source)?;
        while let Some(kill) = self.incidents.take_due(now) {
            self.fabric.kill(kill)?;
        }
        self.hear_news(reported, acknowledged)?;
        // A host that had acknowledged everything when it died is nobody that the group waits for.
        if reported.finished[self.sending] && self.incidents.any() {
            for (rank, &host) in self.layout.job.members.iter().enumerate() {
                let is_gone = self.incidents.has_killed(host);
                reported.lost[rank] |= is_gone && reported.done[rank].is_none();
            }
        }
        self.incidents.moved(now, acknowledged);
        if acknowledged != self.moved.0 || reported.finished[self.sending] {
            self.moved = (acknowledged, now);
        } else if now - self.moved.1 >= self.patience() {
            self.moved.1 = now;
            let in_band = self.layout.job.registration == Registration::Mrp;
            self.fabric
                .stalled(self.layout.mcst_id(), in_band.then_some(source))?;
        }
        Ok(())
    }

    /// Takes what the controller has done to the group.
    fn hear_news(&mut self, reported: &mut Reported, acknowledged: u64) -> Result<(), FabricError> {
        for news in self.fabric.news()? {
            if news.mcst_id != self.layout.mcst_id() {
                continue;
            }
            for (rank, &host) in self.layout.job.members.iter().enumerate() {
                reported.lost[rank] |= news.lost.contains(&self.layout.topology.host(host).ip);
            }
            let has_finished = reported.finished[self.sending];
            self.incidents
                .repaired(self.layout.topology, &news, acknowledged, has_finished);
        }
        Ok(())
    }

    fn take(
        &self,
        reported: &mut Reported,
        host: HostIndex,
        event: MemberEvent,
    ) -> Result<(), JobError> {
        let Some(&rank) = reported.ranks.get(&host) else {
            return Ok(());
        };
        match event {
            MemberEvent::Ready => reported.ready[rank] = true,
            MemberEvent::Done { sha256, at } => reported.done[rank] = Some((at, sha256)),
            MemberEvent::PartDone { part, at } => {
                if let Some(reported) = reported.parts.get_mut(part as usize) {
                    reported[rank] = Some(at);
                }
            }
            MemberEvent::Finished => reported.finished[rank] = true,
            MemberEvent::Left { held, beyond } => reported.left[rank] = Some((held, beyond)),
            // The controller's news say the same.
            MemberEvent::Group(_) => {}
            MemberEvent::Failed { .. } if self.closes() && self.incidents.any() => {
                reported.broken = true;
            }
            MemberEvent::Failed { why } => {
                return Err(JobError::Member {
                    algorithm: self.layout.algorithm,
                    host: self.host_name(rank),
                    why,
                })
            }
        }
        Ok(())
    }

    /// Over all receivers.
    fn progress(&mut self) -> Result<Progress, JobError> {
        let mut all = Progress { bytes: 0, total: 0 };
        for &host in &self.layout.job.members[1..] {
            let progress = self.fabric.progress(host);
            let progress = self.on_fabric(progress)?;
            all.bytes += progress.bytes.min(progress.total);
            all.total += progress.total;
        }
        Ok(all)
    }

    /// What the switches have counted.
    fn counts(&mut self) -> Result<Counts, JobError> {
        let counts = self.fabric.counts();
        self.on_fabric(counts)
    }

    fn traffic(&mut self) -> Result<Traffic, JobError> {
        let members = self.layout.job.members.len();
        let sources = match self.layout.job.collective.begins_everywhere() {
            true => members,
            false => members.min(self.layout.parts() as usize),
        };
        let traffic = self.fabric.traffic(&self.layout.job.members, sources);
        self.on_fabric(traffic)
    }

    fn row(
        &self,
        reported: &Reported,
        posted_at: &[u64],
        traffic: &Traffic,
        counts: Option<&Counts>,
    ) -> Row {
        let first = self.first_receiver(posted_at);
        let last = reported.done[first..]
            .iter()
            .flatten()
            .map(|&(at, _)| at)
            .max();
        let completion_ns = last.map_or(0, |at| at.saturating_sub(posted_at[0]));
        let ranks = reported.done.iter().enumerate().skip(first);
        let right = ranks
            .filter(|(rank, done)| done.is_some_and(|(_, sha256)| sha256 == self.expected(*rank)));
        let receivers_verified = right.count();
        let receivers = reported.done.len() - first;
        let lost = (first..reported.done.len())
            .filter(|&rank| reported.lost[rank] && reported.done[rank].is_none());
        let lost: Vec<String> = lost.map(|rank| self.host_name(rank)).collect();
        Row {
            completion_ns,
            goodput_gbps: goodput_gbps(self.layout.job.data.bytes().len() as u64, completion_ns),
            verified: receivers_verified + lost.len() == receivers,
            receivers,
            receivers_verified,
            failures: self.incidents.report(),
            lost,
            parts: self.part_rows(reported, posted_at),
            ..Row::of_cost(self.layout.algorithm, self.layout.job, traffic, counts)
        }
    }

    /// Receivers that do not hold what they are to hold, but for those that the job itself has cut off or made hostile.
    fn missing(
        &mut self,
        reported: &Reported,
        posted_at: &[u64],
    ) -> Result<Vec<Missing>, JobError> {
        let mut missing = Vec::new();
        for rank in self.first_receiver(posted_at)..reported.done.len() {
            let host = self.layout.job.members[rank];
            let source = self.layout.job.members[self.sending];
            let is_expected = self.layout.job.hostiles.contains(&host)
                || self
                    .incidents
                    .has_cut_off(self.layout.topology, source, host);
            let why = match reported.done[rank] {
                Some((_, sha256)) if sha256 == self.expected(rank) => continue,
                Some(_) => MissingReason::Wrong,
                None if is_expected => continue,
                None if reported.lost[rank] => MissingReason::Removed,
                None => MissingReason::Late,
            };
            let progress = self.fabric.progress(host);
            let progress = self.on_fabric(progress)?;
            missing.push(Missing {
                host: self.host_name(rank),
                bytes: progress.bytes.min(progress.total),
                total: progress.total,
                why,
            });
        }
        Ok(missing)
    }

    /// The first rank that receives: where members take turns, or all begin, the first member does, too.
    fn first_receiver(&self, posted_at: &[u64]) -> usize {
        let is_only_source =
            posted_at.len() == 1 && !self.layout.job.collective.begins_everywhere();
        usize::from(is_only_source)
    }

    /// What a member is to hold at the end.
    fn expected(&self, rank: usize) -> Digest {
        let spec = self.spec.as_ref().map(|spec| TransferSpec {
            rank: rank as u32,
            ..spec.clone()
        });
        match spec.map(|spec| spec.final_bytes()) {
            Some((offset, len)) if len < self.layout.job.data.bytes().len() as u64 => {
                Digest::of(&self.layout.job.data.bytes()[offset as usize..][..len as usize])
            }
            _ => self.layout.job.data.sha256(),
        }
    }

    /// What each source did; nothing unless members take turns.
    fn part_rows(&self, reported: &Reported, posted_at: &[u64]) -> Vec<PartRow> {
        let Some(spec) = self.spec.as_ref().filter(|spec| spec.has_several_sources()) else {
            return Vec::new();
        };
        let rows = posted_at.iter().zip(&reported.parts).enumerate();
        rows.map(|(part, (&posted_at, reported))| {
            let source = spec.source_of(part as u32) as usize;
            let (_, bytes) = spec.part(part as u32);
            let others = reported
                .iter()
                .enumerate()
                .filter(|(rank, _)| *rank != source);
            let last = others.filter_map(|(_, at)| *at).max();
            let completion_ns = last.map_or(0, |at| at.saturating_sub(posted_at));
            PartRow {
                source: self.host_name(source),
                bytes,
                completion_ns,
                goodput_gbps: goodput_gbps(bytes, completion_ns),
            }
        })
        .collect()
    }

    fn host_name(&self, rank: usize) -> String {
        let host = self.layout.job.members[rank];
        self.layout.topology.host(host).name.clone()
    }

    fn on_fabric<T>(&self, result: Result<T, FabricError>) -> Result<T, JobError> {
        result.map_err(|error| JobError::Fabric {
            algorithm: self.layout.algorithm,
            error,
        })
    }
}
