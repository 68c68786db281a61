//! Runs one algorithm, from the creation of queue pairs to the check of received bytes.
//!
//! Terms: a *group* is a multicast group of the fabric, and an *overlay* is an algorithm that uses only unicast
//! connections between members. A *leg* is the part of a transfer with the same queue pairs, through a group or by an
//! overlay. A *slice* is one message of the data.

mod audit;
mod group_fallback;
mod member_failures;
mod recovery;
mod reports;
mod rows;

use std::cell::OnceCell;
use std::sync::Arc;

use alfirk_ctrl::tables::Counts;
use alfirk_ctrl::topology::{HostIndex, Topology};
use alfirk_roce::collective::{
    Algorithm, Endpoint, ExpectedData, LegCommand, Progress, TransferSpec, WriteMode,
};
use alfirk_roce::rc::RcConfig;

use group_fallback::{LegReason, SafeguardState};
use reports::MemberReports;

use super::error::{JobError, JobFailure};
use super::layout::{peers, Layout, DATAGRAM_GROUP};
use super::spec::{Job, Registration};
use crate::changes::{Change, Changes};
use crate::fabric::{Fabric, FabricError, Traffic};
use crate::incidents::Incidents;
use crate::report::{Fallback, Row};
use crate::MemberEvent;

/// Runs `algorithm` on `fabric`, and returns its result. `watch` is called from time to time with the progress of all
/// receivers.
pub fn run_algorithm(
    fabric: &mut dyn Fabric,
    topology: &Topology,
    job: &Job,
    algorithm: Algorithm,
    watch: &mut dyn FnMut(Progress),
) -> Result<Row, JobError> {
    let mut run = Run::new(&mut *fabric, topology, job, algorithm);
    run.execute(watch).map_err(|failure| JobError {
        // It may have changed to the fallback.
        algorithm: run.layout.algorithm,
        failure,
    })
}

/// What happens when members fail, which depends on what carries the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailurePolicy {
    /// The controller repairs the group: it reroutes the tree, or removes members.
    Repair,
    /// The transfer closes at all members, and the survivors continue in a new one (RDMC).
    Close,
    /// Members detect failed ones themselves, and continue without them (multicast of datagrams with acknowledgements).
    Remove,
    /// A member that fails makes the run fail.
    Fail,
}

/// State of the run of one algorithm.
struct Run<'a> {
    fabric: &'a mut dyn Fabric,
    layout: Layout<'a>,
    /// Whether the message is sent through a registered group.
    uses_group: bool,
    /// Specification of the first member.
    spec: Option<TransferSpec>,
    /// Rank of the member that currently sends.
    source_rank: usize,
    /// Number of packets of the source that are acknowledged, and the time in nanoseconds at which this number last
    /// changed or a stall was last reported.
    last_ack_change: (u64, u64),
    /// Total bytes at the receivers when that number last changed, the time of that change, and the time of the next
    /// check; times in nanoseconds.
    received: (u64, u64, u64),
    /// Time in nanoseconds by which the controller delays an acknowledgement of the group; 0 if it does not.
    controller_ack_delay_ns: u64,
    /// Duration of the group's registration in nanoseconds; `None` without a group.
    registration_ns: Option<u64>,
    /// Packet counters of the switches at the start of the run; `None` if the run does not report them.
    counts_before: Option<Counts>,
    leg_traffic: LegTraffic,
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
            uses_group: false,
            spec: None,
            source_rank: 0,
            last_ack_change: (0, 0),
            received: (0, 0, 0),
            controller_ack_delay_ns: 0,
            registration_ns: None,
            counts_before: None,
            leg_traffic: LegTraffic {
                spent: Traffic::nothing(),
                before: Traffic::nothing(),
            },
            incidents: Incidents::new(&job.kills),
            changes: Changes::new(&job.outages, &job.suspensions),
        }
    }
}

/// Traffic of the legs that are finished, and the counters at the start of the current leg. A leg is the part of a
/// transfer with the same queue pairs.
struct LegTraffic {
    spent: Traffic,
    before: Traffic,
}

/// Outcome of the request for a group at the start of a run.
enum GroupOutcome {
    /// The group exists, or the algorithm uses none; holds the endpoints of the members' queue pairs.
    Ready(Vec<Endpoint>),
    /// The group was refused for the reason `why`, and the job continues with the fallback algorithm `to`.
    Refused { why: String, to: Algorithm },
}

impl Run<'_> {
    /// Runs the algorithm and returns its result. If the job has a safeguard, the transfer may change between group and
    /// overlay meanwhile.
    fn execute(&mut self, watch: &mut dyn FnMut(Progress)) -> Result<Row, JobFailure> {
        let asked_for = self.layout.algorithm;
        let safeguard = self.layout.safeguard_and_overlay();
        let mut guard = safeguard.map(|(config, to)| SafeguardState::new(config, to));
        if guard.is_some() {
            // Counters are read now, as groups will be created and removed.
            self.counts_before = Some(self.fabric.counts()?);
        }
        let opened = self.open()?;
        let mut fallback = None;
        let posted_at;
        let mut reported = MemberReports::new(&self.layout.job.members, self.layout.parts());
        match (opened, &mut guard) {
            (GroupOutcome::Ready(endpoints), guard) => {
                posted_at = self.connect_and_start(&endpoints, &mut reported, watch)?;
                if let Some(guard) = guard {
                    guard.group_begins(posted_at[0]);
                }
            }
            (GroupOutcome::Refused { why, .. }, Some(guard)) => {
                let reason = LegReason::Refused(why);
                posted_at = vec![self.fall_back(&mut reported, guard, reason, watch)?];
            }
            (GroupOutcome::Refused { why, to }, None) => {
                fallback = Some(Fallback {
                    to: to.to_string(),
                    why,
                });
                self.close()?;
                let layout = Layout::new(
                    self.layout.topology,
                    self.layout.job,
                    to,
                    self.layout.started_at,
                );
                self.layout = layout.with_limits(self.fabric.processing(), &OnceCell::new(), None);
                reported = MemberReports::new(&self.layout.job.members, self.layout.parts());
                let endpoints = self.prepare()?;
                posted_at = self.connect_and_start(&endpoints, &mut reported, watch)?;
            }
        }
        let ended = match &mut guard {
            Some(guard) => self.run_with_safeguard(&mut reported, guard, watch),
            None => self.wait_until_finished(&mut reported, watch),
        };
        // A run that was given up still has a result.
        let given_up = match ended {
            Ok(()) => None,
            Err(error) => Some(error.late().ok_or(error)?),
        };
        let ended_at = self.fabric.now();
        let traffic = self.traffic()?.since(&self.leg_traffic.before);
        let traffic = self.leg_traffic.spent.plus(&traffic);
        let requests = self.fabric.request_times(self.layout.job.members[0])?;
        let counts = match self.counts_before.take() {
            Some(before) => Some(self.fabric.counts()? - before),
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
            sender: Some(self.layout.sender_row(&self.rc(0))),
            fallback,
            requests,
            safeguard: guard.map_or_else(Vec::new, SafeguardState::changes),
            flow_control: self.fabric.flow_control()?,
            ..row
        })
    }

    /// Creates the queue pairs of all members, and requests their group if the algorithm uses one.
    fn open(&mut self) -> Result<GroupOutcome, JobFailure> {
        let endpoints = self.prepare()?;
        let asked_at = self.fabric.now();
        if self.layout.algorithm.needs_group() {
            let job = self.layout.job;
            let to = job.fallback.filter(|to| to.supports(job.collective));
            match (self.register(&endpoints), to) {
                (Ok(()), _) => self.uses_group = true,
                (Err(error), Some(to)) if error.leaves_members_alone() => {
                    let why = error.to_string();
                    return Ok(GroupOutcome::Refused { why, to });
                }
                (Err(error), _) => return Err(error.into()),
            }
        } else if self.layout.algorithm.needs_datagrams() {
            let members = &self.layout.job.members;
            self.fabric.join_datagrams(DATAGRAM_GROUP, members)?;
        } else {
            return Ok(GroupOutcome::Ready(endpoints));
        }
        self.registration_ns = Some(self.fabric.now() - asked_at);
        Ok(GroupOutcome::Ready(endpoints))
    }

    /// Connects the members, then makes the sources post their data. Returns the time of each post.
    fn connect_and_start(
        &mut self,
        endpoints: &[Endpoint],
        reported: &mut MemberReports,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<Vec<u64>, JobFailure> {
        self.connect(&self.layout.job.members, endpoints)?;
        self.wait(reported, "is not connected", |t, rank| t.ready[rank], watch)?;
        self.turn_hostile(reported)?;
        self.send_ready_notices()?;
        // Without a group, counters of the switches are not needed.
        if self.uses_group && self.counts_before.is_none() {
            self.counts_before = Some(self.fabric.counts()?);
        }
        self.leg_traffic.before = self.traffic()?;
        self.send(reported, watch)
    }

    /// Waits until all members are done and all data is acknowledged, except for members that fail.
    fn wait_until_finished(
        &mut self,
        reported: &mut MemberReports,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(), JobFailure> {
        loop {
            let is_done = |t: &MemberReports, rank: usize| t.done[rank].is_some();
            self.wait(reported, "is not done", is_done, watch)?;
            // The last acknowledgements are part of the traffic, although the result does not depend on them.
            let has_finished = |t: &MemberReports, rank: usize| t.finished[rank];
            self.wait(reported, "has not finished", has_finished, watch)?;
            if !reported.has_detected_failure {
                return Ok(());
            }
            self.recover(reported, watch)?;
        }
    }

    /// Removes queue pairs and group from the fabric.
    fn end(&mut self, reported: &mut MemberReports) -> Result<(), JobFailure> {
        self.close()?;
        if self.layout.algorithm.needs_datagrams() {
            let members = &self.layout.job.members;
            self.fabric.leave_datagrams(DATAGRAM_GROUP, members)?;
        }
        if self.uses_group {
            self.deregister()?;
            // By now the controller has finished a repair of the group that was in progress.
            self.process_group_changes(reported, self.last_ack_change.0)?;
        }
        Ok(())
    }

    /// Adds the traffic of the current leg to that of the finished legs, before other queue pairs replace the current
    /// ones.
    fn add_leg_traffic(&mut self) -> Result<(), JobFailure> {
        let traffic = self.traffic()?.since(&self.leg_traffic.before);
        self.leg_traffic.spent = self.leg_traffic.spent.plus(&traffic);
        Ok(())
    }

    /// Makes the sources post their parts of the data, one after the other. Returns the time of each post.
    fn send(
        &mut self,
        reported: &mut MemberReports,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<Vec<u64>, JobFailure> {
        let mut posted_at = Vec::new();
        if let Some(spec) = self.begins_everywhere() {
            // The post of the last member determines the start.
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
            self.source_rank = source;
            posted_at.push(self.fabric.start(self.layout.job.members[source], &data)?);
            if part == 0 {
                self.incidents.begin(posted_at[0]);
                self.changes.begin(posted_at[0]);
            }
            if part + 1 < self.layout.parts() {
                // A leaf switch stores one region per receiver; retransmissions of a former source must not use that of the next one.
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

    /// Specification of the first member, if every member starts with data of its own, as in an allgather; else `None`.
    fn begins_everywhere(&self) -> Option<TransferSpec> {
        let spec = self.spec.as_ref()?;
        let begins = spec.collective.begins_everywhere() && !spec.has_several_sources();
        begins.then(|| spec.clone())
    }

    /// Creates the queue pairs of all members, and returns their endpoints.
    fn prepare(&mut self) -> Result<Vec<Endpoint>, JobFailure> {
        self.controller_ack_delay_ns = match self.layout.round_trips_to_controller() {
            0 => 0,
            punts => self.fabric.control_round_trip()? * punts,
        };
        let specs = self.layout.specs(|rank| {
            let paths = self
                .layout
                .path_settings(self.fabric, rank, self.controller_ack_delay_ns);
            (self.rc(rank), paths)
        });
        self.spec = specs.first().cloned();
        let mut endpoints = Vec::new();
        for (&host, spec) in self.layout.job.members.iter().zip(specs) {
            endpoints.extend(self.fabric.prepare(host, spec)?);
        }
        Ok(endpoints)
    }

    fn rc(&self, rank: usize) -> RcConfig {
        self.layout
            .rc(self.fabric, rank, self.controller_ack_delay_ns)
    }

    /// Connects each member to the endpoints that it needs.
    fn connect(&mut self, members: &[HostIndex], endpoints: &[Endpoint]) -> Result<(), JobFailure> {
        let tells = |rank| self.layout.announces_memory(rank);
        let peers = peers(members.len(), endpoints, tells);
        for (&host, peers) in members.iter().zip(peers) {
            self.fabric.connect(host, &peers)?;
        }
        Ok(())
    }

    fn register(&mut self, endpoints: &[Endpoint]) -> Result<(), FabricError> {
        let window = self
            .layout
            .window(self.fabric, self.controller_ack_delay_ns);
        let request = self.layout.registration(endpoints, window);
        let job = self.layout.job;
        match job.registration {
            Registration::Api => self.fabric.register(request).map(|_| ()),
            Registration::Mrp => self.fabric.register_in_band(job.members[0], request),
        }
    }

    /// Starts every member with its own data; returns the time of the last start.
    fn begin_everywhere(&mut self, spec: &TransferSpec) -> Result<u64, JobFailure> {
        let mut last = 0;
        for (rank, &host) in self.layout.job.members.iter().enumerate() {
            let spec = TransferSpec {
                rank: rank as u32,
                ..spec.clone()
            };
            let (offset, len) = spec.own_bytes();
            let own = &self.layout.job.data.bytes()[offset as usize..][..len as usize];
            let own = Arc::new(ExpectedData::new(Arc::from(own)));
            last = last.max(self.fabric.start(host, &own)?);
        }
        Ok(last)
    }

    /// Makes receivers send ready notices (announcements of posted receives), if the job uses them.
    fn send_ready_notices(&mut self) -> Result<(), JobFailure> {
        let tells = self.spec.as_ref().is_some_and(|spec| spec.ready.is_some());
        for &host in self.layout.job.members[1..].iter().filter(|_| tells) {
            self.fabric.execute_leg_command(host, LegCommand::Proceed)?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), JobFailure> {
        for &host in &self.layout.job.members {
            self.fabric.close(host)?;
        }
        Ok(())
    }

    /// Time in nanoseconds without acknowledgements after which the source reports a stall: at least four ACK timeouts.
    fn stall_timeout(&self) -> u64 {
        let timeout = self.rc(self.source_rank).ack_timeout.ns().unwrap_or(0);
        self.fabric.stall_timeout().max(4 * timeout)
    }

    fn deregister(&mut self) -> Result<(), FabricError> {
        match self.layout.job.registration {
            Registration::Api => self.fabric.deregister(self.layout.mcst_id()),
            Registration::Mrp => self.fabric.deregister_in_band(self.layout.job.members[0]),
        }
    }

    fn failure_policy(&self) -> FailurePolicy {
        let layout = &self.layout;
        let kills = !layout.job.kills.is_empty();
        match layout.algorithm {
            // With a safeguard, the transfer changes to the overlay instead.
            _ if self.uses_group && layout.safeguard_and_overlay().is_none() => {
                FailurePolicy::Repair
            }
            Algorithm::Rdmc(_) if kills => FailurePolicy::Close,
            algorithm if kills && algorithm.needs_datagrams() => FailurePolicy::Remove,
            _ => FailurePolicy::Fail,
        }
    }

    /// Waits until `has` is true for every rank that is not lost. `what`: the error's description of a member that is
    /// late, such as `is not done`.
    fn wait(
        &mut self,
        reported: &mut MemberReports,
        what: &'static str,
        has: impl Fn(&MemberReports, usize) -> bool,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(), JobFailure> {
        let deadline = self.fabric.now().saturating_add(self.layout.time_limit());
        let mut missing = reported.missing(&has).next();
        while let Some(rank) = missing {
            if self.fabric.now() >= deadline {
                return Err(self.time_limit_error(what, reported.missing(&has)));
            }
            self.step(reported, deadline, watch)?;
            self.audit(reported)?;
            match self.failure_policy() {
                FailurePolicy::Repair => self.handle_failures(reported)?,
                FailurePolicy::Close => {
                    self.fail_due_parts(reported)?;
                    if reported.has_detected_failure {
                        return Ok(());
                    }
                }
                FailurePolicy::Remove => self.apply_due_failures(reported)?,
                FailurePolicy::Fail => {}
            }
            // Further ranks are checked once this one is no longer missing.
            if !reported.is_missing(rank, &has) {
                missing = reported.missing(&has).next();
            }
        }
        Ok(())
    }

    /// Waits for the next event, at most until `limit`, and processes it.
    fn step(
        &mut self,
        reported: &mut MemberReports,
        limit: u64,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(), JobFailure> {
        let interval = match self.is_audited() {
            true => self.fabric.audit_interval(),
            false => self.fabric.tick(),
        };
        let soon = self.fabric.now().saturating_add(interval);
        let due = [self.incidents.next(), self.changes.next()];
        let latest = due.into_iter().flatten().fold(limit, u64::min);
        // After a failure, progress is checked at each interval.
        let may_skip = soon < latest && !self.is_audited() && !self.incidents.has_any();
        let event = match may_skip {
            true => self.fabric.next_event_by_intervals(soon, interval, latest),
            false => self.fabric.next_event(soon.min(latest)),
        };
        match event? {
            Some((host, event)) => self.record_event(reported, host, event)?,
            None => watch(self.progress()?),
        }
        let now = self.fabric.now();
        while let Some(change) = self.changes.take_due(now) {
            match change {
                Change::Loss(link, loss) => self.fabric.set_loss(link, loss)?,
                Change::Suspend(host, lasts) => self.fabric.suspend(host, lasts)?,
            }
        }
        Ok(())
    }

    fn time_limit_error(
        &self,
        what: &'static str,
        ranks: impl Iterator<Item = usize>,
    ) -> JobFailure {
        JobFailure::TimeLimit {
            what,
            hosts: ranks.map(|rank| self.host_name(rank)).collect(),
            seconds: self.layout.time_limit() as f64 / 1e9,
        }
    }

    /// Causes failures that are due, processes the controller's changes of the group, and reports a stall if the source
    /// makes no progress.
    fn handle_failures(&mut self, reported: &mut MemberReports) -> Result<(), FabricError> {
        let now = self.fabric.now();
        let source = self.layout.job.members[self.source_rank];
        let acknowledged = self.fabric.acknowledged_packets(source)?;
        while let Some(kill) = self.incidents.take_due(now) {
            self.fabric.kill(kill)?;
        }
        self.process_group_changes(reported, acknowledged)?;
        // A host that had acknowledged everything before it failed is not waited for.
        if reported.finished[self.source_rank] && self.incidents.has_any() {
            for (rank, &host) in self.layout.job.members.iter().enumerate() {
                let is_gone = self.incidents.has_killed(host);
                reported.lost[rank] |= is_gone && reported.done[rank].is_none();
            }
        }
        self.incidents.record_progress(now, acknowledged);
        if acknowledged != self.last_ack_change.0 || reported.finished[self.source_rank] {
            self.last_ack_change = (acknowledged, self.last_check_with_progress(source)?);
        } else if now - self.last_ack_change.1 >= self.stall_timeout() {
            self.last_ack_change.1 = now;
            let in_band = self.layout.job.registration == Registration::Mrp;
            self.fabric
                .report_stall(self.layout.mcst_id(), in_band.then_some(source))?;
        }
        Ok(())
    }

    /// Time of the first check of progress after the last acknowledgement that `source` has got, in nanoseconds. That is the
    /// present check, unless the fabric has passed over some ([`Fabric::next_event_by_intervals`]).
    fn last_check_with_progress(&mut self, source: HostIndex) -> Result<u64, FabricError> {
        let now = self.fabric.now();
        let interval = self.fabric.tick().max(1);
        let acknowledged_at = self.fabric.last_acknowledged_at(source)?.unwrap_or(now);
        Ok(now - now.saturating_sub(acknowledged_at) / interval * interval)
    }

    /// Processes the changes that the controller has made to the group: marks removed members as lost, and records
    /// repairs.
    fn process_group_changes(
        &mut self,
        reported: &mut MemberReports,
        acknowledged: u64,
    ) -> Result<(), FabricError> {
        for change in self.fabric.take_group_changes()? {
            if change.mcst_id != self.layout.mcst_id() {
                continue;
            }
            for (rank, &host) in self.layout.job.members.iter().enumerate() {
                reported.lost[rank] |= change.lost.contains(&self.layout.topology.host(host).ip);
            }
            let has_finished = reported.finished[self.source_rank];
            self.incidents
                .record_repair(self.layout.topology, &change, acknowledged, has_finished);
        }
        Ok(())
    }

    /// Records an event of a member. Fails if the transfer has failed at the member.
    fn record_event(
        &self,
        reported: &mut MemberReports,
        host: HostIndex,
        event: MemberEvent,
    ) -> Result<(), JobFailure> {
        let Some(&rank) = reported.ranks.get(&host) else {
            return Ok(());
        };
        match event {
            MemberEvent::Ready => reported.ready[rank] = true,
            MemberEvent::Done { sha256, at, .. } => reported.done[rank] = Some((at, sha256)),
            MemberEvent::PartDone { part, at } => {
                if let Some(reported) = reported.parts.get_mut(part as usize) {
                    reported[rank] = Some(at);
                }
            }
            MemberEvent::Finished => reported.finished[rank] = true,
            MemberEvent::Left { held, beyond } => reported.left[rank] = Some((held, beyond)),
            // The controller's news contain the same.
            MemberEvent::Group(_) => {}
            MemberEvent::Failed { .. }
                if self.failure_policy() == FailurePolicy::Close && self.incidents.has_any() =>
            {
                reported.has_detected_failure = true;
            }
            MemberEvent::Failed { why } => {
                return Err(JobFailure::Member {
                    host: self.host_name(rank),
                    why,
                })
            }
        }
        Ok(())
    }

    /// Progress of all receivers together.
    fn progress(&mut self) -> Result<Progress, JobFailure> {
        let mut all = Progress { bytes: 0, total: 0 };
        for &host in &self.layout.job.members[1..] {
            let progress = self.fabric.progress(host)?;
            all.bytes += progress.bytes.min(progress.total);
            all.total += progress.total;
        }
        Ok(all)
    }

    fn traffic(&mut self) -> Result<Traffic, JobFailure> {
        let members = self.layout.job.members.len();
        let sources = match self.layout.job.collective.begins_everywhere() {
            true => members,
            false => members.min(self.layout.parts() as usize),
        };
        Ok(self.fabric.traffic(&self.layout.job.members, sources)?)
    }

    fn host_name(&self, rank: usize) -> String {
        let host = self.layout.job.members[rank];
        self.layout.topology.host(host).name.clone()
    }
}
