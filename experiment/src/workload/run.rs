//! Runs a workload on a fabric, phase by phase.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_ctrl::tables::Counts;
use alfirk_ctrl::topology::{HostIndex, Paths, Topology};
use alfirk_roce::collective::{
    Algorithm, Digest, ExpectedData, LegCommand, Progress, RequestLatencies,
};

use super::throughput::Samples;
use super::{Flow, Phase, PhaseRow, Throughput, Workload};
use crate::fabric::{FabricError, SharedFabric, Traffic};
use crate::job::error::{JobError, JobFailure};
use crate::job::layout::{peers, slowest_bps, time_limit, Layout};
use crate::job::limits::{self, Contention};
use crate::job::spec::Job;
use crate::report::{goodput_gbps, Row};
use crate::stream::{bytes, seed};
use crate::{MemberEvent, TransferId};

/// Number of different messages for flows of the same size, assigned in turn. So misdelivery between neighbouring flows
/// is detected, and the data of thousands of flows fits into memory.
const VARIANTS: usize = 8;

/// Runs `workload` on `fabric`, with `algorithm` as the algorithm under comparison. All settings except members and
/// data are those of `job`. `watch` is called from time to time with the progress of the receivers of the current
/// phase.
///
/// Groups are registered before a phase and removed after it; the time for that is not counted.
///
/// # Errors
/// The fabric fails or has no space for a group; a member fails; a phase exceeds the job's time limit.
pub fn run_workload(
    fabric: &mut dyn SharedFabric,
    topology: &Topology,
    job: &Job,
    workload: &Workload,
    algorithm: Algorithm,
    watch: &mut dyn FnMut(Progress),
) -> Result<Row, JobError> {
    let mut run = Run {
        fabric,
        topology,
        job,
        algorithm,
        paths: OnceCell::new(),
        data: BTreeMap::new(),
        phase_bytes: 0,
        next_flow: 1,
        interval: workload.interval,
        totals: Totals::default(),
    };
    for phase in &workload.phases {
        run.execute(phase, watch)?;
    }
    Ok(Row {
        flow_control: job_result(algorithm, run.fabric.flow_control())?,
        ..run.row(workload.bytes())
    })
}

/// State of the run of a workload.
struct Run<'a> {
    fabric: &'a mut dyn SharedFabric,
    topology: &'a Topology,
    job: &'a Job,
    /// Algorithm under comparison; its flows are measured.
    algorithm: Algorithm,
    /// Paths of the topology, computed on first use.
    paths: OnceCell<Paths>,
    /// Messages of the flows, by size in bytes.
    data: BTreeMap<u64, Vec<Arc<ExpectedData>>>,
    /// Bytes that all members of the current phase's flows hold at the end: each flow's size times its number of
    /// members.
    phase_bytes: u64,
    /// Number that the next flow gets.
    next_flow: u32,
    /// Sampling interval of throughput in ns; `None` for no samples.
    interval: Option<u64>,
    totals: Totals,
}

/// Sums over the phases that are finished.
#[derive(Default)]
struct Totals {
    phases: Vec<PhaseRow>,
    traffic: Option<Traffic>,
    counts: Option<Counts>,
    requests: Option<RequestLatencies>,
    receivers: usize,
    verified: usize,
}

/// A flow of the current phase, with its state.
struct RunningFlow<'a> {
    flow: &'a Flow,
    id: TransferId,
    job: Job,
    algorithm: Algorithm,
    is_background: bool,
    /// Whether the flow's receivers announce posted receives to their senders, after a command to begin.
    announces_ready: bool,
    posted_at: Option<u64>,
    samples: Samples,
    ready: BTreeSet<HostIndex>,
    done: BTreeMap<HostIndex, (u64, Digest)>,
    finished: BTreeSet<HostIndex>,
}

impl RunningFlow<'_> {
    fn layout<'a>(&'a self, topology: &'a Topology, started_at: u64) -> Layout<'a> {
        Layout::new(topology, &self.job, self.algorithm, started_at)
    }

    fn is_ready(&self) -> bool {
        self.ready.len() == self.flow.members.len()
    }

    fn is_over(&self) -> bool {
        let members = self.flow.members.len();
        self.is_background || (self.done.len() == members && self.finished.len() == members)
    }

    /// Time at which the last receiver had all data, and the duration since the post, in ns; `None` before.
    fn completion(&self) -> Option<(u64, u64)> {
        let receivers = self
            .done
            .iter()
            .filter(|(host, _)| **host != self.flow.members[0]);
        let last = receivers.map(|(_, (at, _))| *at).max()?;
        Some((last, last.saturating_sub(self.posted_at?)))
    }
}

impl Run<'_> {
    fn execute(&mut self, phase: &Phase, watch: &mut dyn FnMut(Progress)) -> Result<(), JobError> {
        if phase.flows.is_empty() {
            self.add_phase(phase, &[], 0);
            return Ok(());
        }
        let received = |flow: &Flow| flow.bytes.saturating_mul(flow.members.len() as u64);
        self.phase_bytes = phase
            .flows
            .iter()
            .map(received)
            .fold(0, u64::saturating_add);
        let started_at = self.fabric.now();
        let mut flows = self.set_up(phase, started_at)?;
        self.wait(
            &mut flows,
            None,
            "is not connected",
            |flow| flow.is_ready(),
            watch,
        )?;
        for flow in flows.iter().filter(|flow| flow.announces_ready) {
            for &host in &flow.flow.members[1..] {
                let proceeded = self
                    .fabric
                    .execute_in_transfer(flow.id, host, LegCommand::Proceed);
                job_result(flow.algorithm, proceeded)?;
            }
        }
        let counted = self.counts(&flows)?;
        let before = self.traffic(&flows)?;
        let posted = self.fabric.now();
        self.wait(
            &mut flows,
            Some(posted),
            "is not done",
            |flow| flow.is_over(),
            watch,
        )?;
        let traffic = self.traffic(&flows)?.since(&before);
        let counts = counted.zip(self.counts(&flows)?);
        self.add_phase(phase, &flows, posted);
        let all = self.totals.traffic.take().unwrap_or_else(Traffic::nothing);
        self.totals.traffic = Some(all.plus(&traffic));
        if let Some((before, after)) = counts {
            let counts = after - before;
            *self.totals.counts.get_or_insert_default() += counts;
        }
        self.tear_down(&flows, started_at)
    }

    /// Creates the queue pairs and groups of a phase, and connects the members of all flows.
    fn set_up<'p>(
        &mut self,
        phase: &'p Phase,
        started_at: u64,
    ) -> Result<Vec<RunningFlow<'p>>, JobError> {
        let waited_for = phase.flows.iter().map(|flow| (flow, false));
        let background = phase.background.iter().map(|flow| (flow, true));
        let all = waited_for.chain(background);
        let mut flows: Vec<RunningFlow<'p>> = all
            .map(|(flow, is_background)| self.new_flow(flow, is_background))
            .collect();
        let contended = self.contended(&flows);
        for active in &mut flows {
            self.set_up_flow(active, started_at, contended.as_ref())?;
        }
        Ok(flows)
    }

    /// Links that the flows of a phase overload; `None` if links do not have the topology's rates.
    fn contended(&self, flows: &[RunningFlow<'_>]) -> Option<Contention> {
        let network = limits::Network {
            topology: self.topology,
            paths: &self.paths,
            processing: self.fabric.processing()?,
        };
        let jobs = flows.iter().map(|active| {
            let layout = active.layout(self.topology, 0);
            let racks = layout.racks(&active.job.members);
            (&active.job, active.algorithm, racks)
        });
        Some(Contention::of(&network, jobs))
    }

    /// Creates the state of a flow that is about to run.
    fn new_flow<'p>(&mut self, flow: &'p Flow, is_background: bool) -> RunningFlow<'p> {
        let number = self.next_flow;
        self.next_flow += 1;
        let job = Job {
            members: flow.members.clone(),
            data: self.data(flow.bytes, number),
            messages: flow.messages,
            depth: flow.depth,
            mcst_id: Ipv4Addr::from(u32::from(self.job.mcst_id) + number),
            seed: seed(self.job.seed, &format!("flow {number}")),
            ..self.job.clone()
        };
        RunningFlow {
            flow,
            id: TransferId(number),
            job,
            algorithm: flow.by.algorithm(self.algorithm),
            is_background,
            announces_ready: false,
            posted_at: None,
            samples: Samples::default(),
            ready: BTreeSet::new(),
            done: BTreeMap::new(),
            finished: BTreeSet::new(),
        }
    }

    /// Creates the queue pairs and the group of one flow, and connects its members.
    fn set_up_flow(
        &mut self,
        active: &mut RunningFlow<'_>,
        started_at: u64,
        contended: Option<&Contention>,
    ) -> Result<(), JobError> {
        let algorithm = active.algorithm;
        let layout = active.layout(self.topology, started_at);
        let layout = layout.with_limits(self.fabric.processing(), &self.paths, contended);
        let controller_ack_delay_ns = match layout.round_trips_to_controller() {
            0 => 0,
            punts => job_result(algorithm, self.fabric.control_round_trip())? * punts,
        };
        let specs = layout.specs(|rank| {
            let fabric = &*self.fabric;
            let paths = layout.path_settings(fabric, rank, controller_ack_delay_ns);
            (layout.rc(fabric, rank, controller_ack_delay_ns), paths)
        });
        let announces_ready = specs.iter().any(|spec| spec.ready.is_some());
        let members = &active.flow.members;
        let mut endpoints = Vec::new();
        for (&host, spec) in members.iter().zip(specs) {
            let prepared = self.fabric.prepare_transfer(active.id, host, spec);
            endpoints.extend(job_result(algorithm, prepared)?);
        }
        if algorithm.needs_group() {
            let window = layout.window(&*self.fabric, controller_ack_delay_ns);
            let registered = self
                .fabric
                .register(layout.registration(&endpoints, window));
            job_result(algorithm, registered)?;
        }
        let layout = active.layout(self.topology, started_at);
        let peers = peers(members.len(), &endpoints, |rank| {
            layout.announces_memory(rank)
        });
        for (&host, peers) in members.iter().zip(peers) {
            let connected = self.fabric.connect_transfer(active.id, host, &peers);
            job_result(algorithm, connected)?;
        }
        active.announces_ready = announces_ready;
        Ok(())
    }

    /// Returns the message for flow `number` of `size` bytes. Several flows share a message.
    fn data(&mut self, size: u64, number: u32) -> Arc<ExpectedData> {
        let of_size = self.data.entry(size).or_default();
        let variant = number as usize % VARIANTS;
        for variant in of_size.len()..=variant {
            let name = format!("workload {size} {variant}");
            let content = bytes(self.job.seed, &name, size as usize);
            of_size.push(Arc::new(ExpectedData::new(content.into())));
        }
        Arc::clone(&of_size[variant])
    }

    /// Processes events until `has` is true for all flows. `posted`: start of the phase, from which the flows' start
    /// times count; if `None`, no flow is started. `what`: the error's description of a host that is late.
    fn wait(
        &mut self,
        flows: &mut [RunningFlow<'_>],
        posted: Option<u64>,
        what: &'static str,
        has: impl Fn(&RunningFlow<'_>) -> bool,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(), JobError> {
        let deadline = self.fabric.now().saturating_add(self.time_limit());
        while flows.iter().any(|flow| !has(flow)) {
            let now = self.fabric.now();
            if now >= deadline {
                return Err(self.time_limit_error(what, flows, &has));
            }
            let mut latest = deadline;
            if let Some(posted) = posted {
                latest = latest.min(self.begin_due(flows, posted)?);
                latest = latest.min(self.sample(flows, posted));
            }
            let interval = self.fabric.tick();
            let until = latest.min(now.saturating_add(interval));
            let event = self.fabric.next_transfer_event_by_intervals(
                until.max(now),
                interval,
                latest.max(now),
            );
            match job_result(self.algorithm, event)? {
                Some((id, host, event)) => self.record_event(flows, id, host, event)?,
                None => watch(self.progress(flows)),
            }
        }
        Ok(())
    }

    /// Starts the flows whose start time has come. Returns the time of the next start; `u64::MAX` if there is none.
    fn begin_due(&mut self, flows: &mut [RunningFlow<'_>], posted: u64) -> Result<u64, JobError> {
        let mut next = u64::MAX;
        for active in flows.iter_mut().filter(|a| a.posted_at.is_none()) {
            let due = posted.saturating_add(active.flow.after);
            if due > self.fabric.now() {
                next = next.min(due);
                continue;
            }
            let source = active.flow.members[0];
            let started = self
                .fabric
                .start_transfer(active.id, source, &active.job.data);
            active.posted_at = Some(job_result(active.algorithm, started)?);
        }
        Ok(next)
    }

    /// Records how many bytes the slowest receiver of each flow has, if a sampling interval is over. Returns the end of
    /// the next interval.
    fn sample(&self, flows: &mut [RunningFlow<'_>], posted: u64) -> u64 {
        let Some(interval) = self.interval else {
            return u64::MAX;
        };
        let over = self.fabric.now().saturating_sub(posted) / interval;
        for active in flows.iter_mut() {
            let receivers = active.flow.members[1..].iter();
            let has = |host: &HostIndex| {
                let progress = self.fabric.transfer_progress(active.id, *host);
                progress.bytes.min(progress.total)
            };
            let least = receivers.map(has).min().unwrap_or(0);
            while (active.samples.len() as u64) < over {
                active.samples.push(least);
            }
        }
        posted.saturating_add((over + 1).saturating_mul(interval))
    }

    /// Time limit in nanoseconds for the setup of a phase, and again for its flows.
    fn time_limit(&self) -> u64 {
        let slowest = self
            .fabric
            .processing()
            .and_then(|_| slowest_bps(self.topology));
        let limit = self.job.time_limit;
        limit.unwrap_or_else(|| time_limit(self.phase_bytes, slowest))
    }

    /// Name of a flow: its sender, and its receiver or the number of receivers.
    fn name_of(&self, flow: &Flow) -> String {
        let name = |host: &HostIndex| self.topology.host(*host).name.as_str();
        match &flow.members[..] {
            [from, to] => format!("{} to {}", name(from), name(to)),
            members => format!("{} to {} hosts", name(&members[0]), members.len() - 1),
        }
    }

    fn record_event(
        &self,
        flows: &mut [RunningFlow<'_>],
        id: TransferId,
        host: HostIndex,
        event: MemberEvent,
    ) -> Result<(), JobError> {
        // Flows of a phase have consecutive numbers.
        let first = flows.first().map_or(0, |flow| flow.id.0);
        let place = id.0.checked_sub(first).map(|place| place as usize);
        let Some(active) = place.and_then(|place| flows.get_mut(place)) else {
            return Ok(());
        };
        match event {
            MemberEvent::Ready => drop(active.ready.insert(host)),
            MemberEvent::Done { sha256, at, .. } => drop(active.done.insert(host, (at, sha256))),
            MemberEvent::Finished => drop(active.finished.insert(host)),
            MemberEvent::Failed { why } => {
                let host = self.topology.host(host).name.clone();
                return Err(JobError {
                    algorithm: active.algorithm,
                    failure: JobFailure::Member { host, why },
                });
            }
            MemberEvent::PartDone { .. } | MemberEvent::Left { .. } | MemberEvent::Group(_) => {}
        }
        Ok(())
    }

    fn time_limit_error(
        &self,
        what: &'static str,
        flows: &[RunningFlow<'_>],
        has: &impl Fn(&RunningFlow<'_>) -> bool,
    ) -> JobError {
        let late = flows.iter().filter(|flow| !has(flow));
        let hosts = late.flat_map(|flow| {
            let is_late = |host: &&HostIndex| !flow.finished.contains(host);
            flow.flow.members.iter().filter(is_late)
        });
        let hosts: BTreeSet<HostIndex> = hosts.copied().collect();
        let name = |host: &HostIndex| self.topology.host(*host).name.clone();
        JobError {
            algorithm: self.algorithm,
            failure: JobFailure::TimeLimit {
                what,
                hosts: hosts.iter().map(name).collect(),
                seconds: self.time_limit() as f64 / 1e9,
            },
        }
    }

    /// Progress of all receivers of the phase, without background flows.
    fn progress(&self, flows: &[RunningFlow<'_>]) -> Progress {
        let mut all = Progress { bytes: 0, total: 0 };
        for flow in flows.iter().filter(|flow| !flow.is_background) {
            for &host in &flow.flow.members[1..] {
                let progress = self.fabric.transfer_progress(flow.id, host);
                all.bytes += progress.bytes.min(progress.total);
                all.total += progress.total;
            }
        }
        all
    }

    /// Counters of all hosts that take part, including those of background flows.
    fn traffic(&mut self, flows: &[RunningFlow<'_>]) -> Result<Traffic, JobError> {
        let sources: BTreeSet<HostIndex> = flows.iter().map(|f| f.flow.members[0]).collect();
        let others = flows.iter().flat_map(|f| &f.flow.members[1..]).copied();
        let others: BTreeSet<HostIndex> = others.filter(|host| !sources.contains(host)).collect();
        let members: Vec<HostIndex> = sources.iter().chain(&others).copied().collect();
        let traffic = self.fabric.traffic(&members, sources.len());
        job_result(self.algorithm, traffic)
    }

    /// Packet counters of the switches; `None` if no flow uses a group.
    fn counts(&mut self, flows: &[RunningFlow<'_>]) -> Result<Option<Counts>, JobError> {
        if !flows.iter().any(|flow| flow.algorithm.needs_group()) {
            return Ok(None);
        }
        job_result(self.algorithm, self.fabric.counts()).map(Some)
    }

    /// Adds the result of a phase whose flows started at `posted` to the totals.
    fn add_phase(&mut self, phase: &Phase, flows: &[RunningFlow<'_>], posted: u64) {
        let waited_for: Vec<&RunningFlow<'_>> = flows.iter().filter(|f| !f.is_background).collect();
        let ends: Vec<(u64, u64)> = waited_for.iter().filter_map(|f| f.completion()).collect();
        let last = ends.iter().map(|(at, _)| *at).max().unwrap_or(posted);
        let took = || ends.iter().map(|(_, took)| *took);
        let throughput = self.interval.filter(|_| !flows.is_empty());
        let throughput = throughput.map(|interval| {
            let named = flows.iter().map(|f| (self.name_of(f.flow), &f.samples));
            Throughput::of(interval, &named.collect::<Vec<_>>())
        });
        self.totals.phases.push(PhaseRow {
            name: phase.name.clone(),
            flows: phase.flows.len(),
            bytes: phase.flows.iter().map(|flow| flow.bytes).sum(),
            completion_ns: last.saturating_sub(posted) + phase.computing,
            fastest_ns: took().min().unwrap_or(0),
            mean_ns: took()
                .sum::<u64>()
                .checked_div(ends.len() as u64)
                .unwrap_or(0),
            throughput,
        });
        for active in waited_for {
            let receivers = &active.flow.members[1..];
            let right = active.job.data.sha256();
            let holds = |host: &&HostIndex| active.done.get(host).is_some_and(|(_, d)| *d == right);
            self.totals.receivers += receivers.len();
            self.totals.verified += receivers.iter().filter(holds).count();
            if let Some(requests) = self
                .fabric
                .transfer_requests(active.id, active.flow.members[0])
            {
                self.totals.requests.get_or_insert_default().merge(requests);
            }
        }
    }

    /// Removes queue pairs and groups from the fabric.
    fn tear_down(&mut self, flows: &[RunningFlow<'_>], started_at: u64) -> Result<(), JobError> {
        for active in flows {
            for &host in &active.flow.members {
                let closed = self.fabric.close_transfer(active.id, host);
                job_result(active.algorithm, closed)?;
            }
        }
        for active in flows.iter().filter(|flow| flow.algorithm.needs_group()) {
            let mcst_id = active.layout(self.topology, started_at).mcst_id();
            let removed = self.fabric.deregister(mcst_id);
            job_result(active.algorithm, removed)?;
        }
        Ok(())
    }

    fn row(self, bytes: u64) -> Row {
        let totals = self.totals;
        let completion_ns = totals.phases.iter().map(|phase| phase.completion_ns).sum();
        let traffic = totals.traffic.unwrap_or_else(Traffic::nothing);
        Row {
            completion_ns,
            goodput_gbps: goodput_gbps(bytes, completion_ns),
            verified: totals.verified == totals.receivers,
            receivers: totals.receivers,
            receivers_verified: totals.verified,
            requests: totals.requests.as_ref().and_then(RequestLatencies::times),
            fairness: fairness(&totals.phases),
            phases: totals.phases,
            ..Row::of_cost(self.algorithm, self.job, &traffic, totals.counts.as_ref())
        }
    }
}

fn fairness(phases: &[PhaseRow]) -> Option<f64> {
    let all = phases
        .iter()
        .filter_map(|phase| phase.throughput.as_ref()?.fairness);
    let (sum, count) = all.fold((0.0, 0), |(sum, count), one| (sum + one, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

fn job_result<T>(algorithm: Algorithm, result: Result<T, FabricError>) -> Result<T, JobError> {
    result.map_err(|error| JobError {
        algorithm,
        failure: error.into(),
    })
}
