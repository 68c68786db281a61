//! Runs a workload.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_ctrl::tables::Counts;
use alfirk_ctrl::topology::{HostIndex, Paths, Topology};
use alfirk_roce::collective::{Algorithm, Digest, ExpectedData, LegCommand, Progress, Requests};

use super::throughput::Samples;
use super::{Flow, Phase, PhaseRow, Throughput, Workload};
use crate::fabric::{FabricError, SharedFabric, Traffic};
use crate::job::error::JobError;
use crate::job::layout::{peers, slowest_bps, time_limit, Layout};
use crate::job::limits::{self, Contention};
use crate::job::spec::Job;
use crate::member::{MemberEvent, TransferId};
use crate::report::{goodput_gbps, Row};
use crate::stream::{bytes, seed};

/// Number of different messages among flows of one size, assigned in turn. So misdelivery between neighbouring flows is
/// detected, and the data of thousands of flows fits into memory.
const VARIANTS: usize = 8;

/// Runs `workload` on `fabric`, with `algorithm` as the compared one. Other settings are those of `job`, whose members and data are
/// ignored. `watch` is called from time to time with the total bytes at the receivers of the current phase.
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
        next: 1,
        interval: workload.interval,
        sum: Sum::default(),
    };
    for phase in &workload.phases {
        run.execute(phase, watch)?;
    }
    let control = run.fabric.flow_control();
    let control = control.map_err(|error| JobError::Fabric { algorithm, error })?;
    Ok(Row {
        flow_control: control,
        ..run.row(workload.bytes())
    })
}

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
    /// Bytes of the flows of the current phase, counted once for each member of a flow.
    phase_bytes: u64,
    /// Number of the next flow.
    next: u32,
    /// Sampling interval of throughput in ns; `None` for no samples.
    interval: Option<u64>,
    sum: Sum,
}

/// Totals of finished phases.
#[derive(Default)]
struct Sum {
    phases: Vec<PhaseRow>,
    traffic: Option<Traffic>,
    counts: Option<Counts>,
    requests: Option<Requests>,
    receivers: usize,
    verified: usize,
}

/// A running flow.
struct Active<'a> {
    flow: &'a Flow,
    id: TransferId,
    job: Job,
    algorithm: Algorithm,
    is_background: bool,
    /// Whether the flow's receivers announce posted receives, after a command to begin.
    announces_ready: bool,
    posted_at: Option<u64>,
    samples: Samples,
    ready: BTreeSet<HostIndex>,
    done: BTreeMap<HostIndex, (u64, Digest)>,
    finished: BTreeSet<HostIndex>,
}

impl Active<'_> {
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

    /// Time at which the last receiver had all data, and the time since the post, in ns. `None` before.
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
            self.add_up(phase, &[], 0);
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
                let proceeded = self.fabric.act_of(flow.id, host, LegCommand::Proceed);
                on_fabric(flow.algorithm, proceeded)?;
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
        self.add_up(phase, &flows, posted);
        let all = self.sum.traffic.take().unwrap_or_else(Traffic::nothing);
        self.sum.traffic = Some(all.plus(&traffic));
        if let Some((before, after)) = counts {
            let counts = after - before;
            *self.sum.counts.get_or_insert_default() += counts;
        }
        self.tear_down(&flows, started_at)
    }

    /// Creates queue pairs and groups, and connects all members.
    fn set_up<'p>(
        &mut self,
        phase: &'p Phase,
        started_at: u64,
    ) -> Result<Vec<Active<'p>>, JobError> {
        let waited_for = phase.flows.iter().map(|flow| (flow, false));
        let background = phase.background.iter().map(|flow| (flow, true));
        let all = waited_for.chain(background);
        let mut flows: Vec<Active<'p>> = all
            .map(|(flow, is_background)| self.active(flow, is_background))
            .collect();
        let contended = self.contended(&flows);
        for active in &mut flows {
            self.make(active, started_at, contended.as_ref())?;
        }
        Ok(flows)
    }

    /// Links on which the flows of a phase exceed the capacity; `None` if links do not have the topology's rates.
    fn contended(&self, flows: &[Active<'_>]) -> Option<Contention> {
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

    fn active<'p>(&mut self, flow: &'p Flow, is_background: bool) -> Active<'p> {
        let number = self.next;
        self.next += 1;
        let job = Job {
            members: flow.members.clone(),
            data: self.data(flow.bytes, number),
            messages: flow.messages,
            depth: flow.depth,
            mcst_id: Ipv4Addr::from(u32::from(self.job.mcst_id) + number),
            seed: seed(self.job.seed, &format!("flow {number}")),
            ..self.job.clone()
        };
        Active {
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

    fn make(
        &mut self,
        active: &mut Active<'_>,
        started_at: u64,
        contended: Option<&Contention>,
    ) -> Result<(), JobError> {
        let algorithm = active.algorithm;
        let layout = active.layout(self.topology, started_at);
        let layout = layout.with_limits(self.fabric.processing(), &self.paths, contended);
        let controller_delay_ns = match layout.round_trips_to_controller() {
            0 => 0,
            punts => on_fabric(algorithm, self.fabric.control_round_trip())? * punts,
        };
        let specs = layout.specs(|rank| {
            let fabric = &*self.fabric;
            let paths = layout.paths(fabric, rank, controller_delay_ns);
            (layout.rc(fabric, rank, controller_delay_ns), paths)
        });
        let announces_ready = specs.iter().any(|spec| spec.ready.is_some());
        let members = &active.flow.members;
        let mut endpoints = Vec::new();
        for (&host, spec) in members.iter().zip(specs) {
            let prepared = self.fabric.prepare_of(active.id, host, spec);
            endpoints.extend(on_fabric(algorithm, prepared)?);
        }
        if algorithm.needs_group() {
            let window = layout.window(&*self.fabric, controller_delay_ns);
            let registered = self
                .fabric
                .register(layout.registration(&endpoints, window));
            on_fabric(algorithm, registered)?;
        }
        let layout = active.layout(self.topology, started_at);
        let peers = peers(members.len(), &endpoints, |rank| {
            layout.announces_memory(rank)
        });
        for (&host, peers) in members.iter().zip(peers) {
            let connected = self.fabric.connect_of(active.id, host, &peers);
            on_fabric(algorithm, connected)?;
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

    /// Processes events until `has` is true for all flows. `posted`: time from which the starts of the flows count;
    /// `None` starts none.
    fn wait(
        &mut self,
        flows: &mut [Active<'_>],
        posted: Option<u64>,
        what: &'static str,
        has: impl Fn(&Active<'_>) -> bool,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(), JobError> {
        let deadline = self.fabric.now().saturating_add(self.time_limit());
        while flows.iter().any(|flow| !has(flow)) {
            let now = self.fabric.now();
            if now >= deadline {
                return Err(self.too_late(what, flows, &has));
            }
            let mut until = deadline.min(now.saturating_add(self.fabric.tick()));
            if let Some(posted) = posted {
                until = until.min(self.begin_due(flows, posted)?);
                until = until.min(self.sample(flows, posted));
            }
            let event = self.fabric.next_event_of_any(until.max(now));
            match on_fabric(self.algorithm, event)? {
                Some((id, host, event)) => self.take(flows, id, host, event)?,
                None => watch(self.progress(flows)),
            }
        }
        Ok(())
    }

    /// Starts due flows; returns the time of the next start.
    fn begin_due(&mut self, flows: &mut [Active<'_>], posted: u64) -> Result<u64, JobError> {
        let mut next = u64::MAX;
        for active in flows.iter_mut().filter(|a| a.posted_at.is_none()) {
            let due = posted.saturating_add(active.flow.after);
            if due > self.fabric.now() {
                next = next.min(due);
                continue;
            }
            let source = active.flow.members[0];
            let started = self.fabric.start_of(active.id, source, &active.job.data);
            active.posted_at = Some(on_fabric(active.algorithm, started)?);
        }
        Ok(next)
    }

    /// Records the bytes that each flow's slowest receiver has, if an interval is over. Returns the end of the next
    /// interval.
    fn sample(&self, flows: &mut [Active<'_>], posted: u64) -> u64 {
        let Some(interval) = self.interval else {
            return u64::MAX;
        };
        let over = self.fabric.now().saturating_sub(posted) / interval;
        for active in flows.iter_mut() {
            let receivers = active.flow.members[1..].iter();
            let has = |host: &HostIndex| {
                let progress = self.fabric.progress_of(active.id, *host);
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

    fn take(
        &self,
        flows: &mut [Active<'_>],
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
            MemberEvent::Done { sha256, at } => drop(active.done.insert(host, (at, sha256))),
            MemberEvent::Finished => drop(active.finished.insert(host)),
            MemberEvent::Failed { why } => {
                return Err(JobError::Member {
                    algorithm: active.algorithm,
                    host: self.topology.host(host).name.clone(),
                    why,
                })
            }
            MemberEvent::PartDone { .. } | MemberEvent::Left { .. } | MemberEvent::Group(_) => {}
        }
        Ok(())
    }

    fn too_late(
        &self,
        what: &'static str,
        flows: &[Active<'_>],
        has: &impl Fn(&Active<'_>) -> bool,
    ) -> JobError {
        let late = flows.iter().filter(|flow| !has(flow));
        let hosts = late.flat_map(|flow| {
            let is_late = |host: &&HostIndex| !flow.finished.contains(host);
            flow.flow.members.iter().filter(is_late)
        });
        let hosts: BTreeSet<HostIndex> = hosts.copied().collect();
        JobError::TimeLimit {
            algorithm: self.algorithm,
            what,
            hosts: hosts
                .iter()
                .map(|host| self.topology.host(*host).name.clone())
                .collect(),
            seconds: self.time_limit() as f64 / 1e9,
        }
    }

    /// Progress of all receivers of the flows that are waited for.
    fn progress(&self, flows: &[Active<'_>]) -> Progress {
        let mut all = Progress { bytes: 0, total: 0 };
        for flow in flows.iter().filter(|flow| !flow.is_background) {
            for &host in &flow.flow.members[1..] {
                let progress = self.fabric.progress_of(flow.id, host);
                all.bytes += progress.bytes.min(progress.total);
                all.total += progress.total;
            }
        }
        all
    }

    /// Traffic of all hosts that take part, including background flows.
    fn traffic(&mut self, flows: &[Active<'_>]) -> Result<Traffic, JobError> {
        let sources: BTreeSet<HostIndex> = flows.iter().map(|f| f.flow.members[0]).collect();
        let others = flows.iter().flat_map(|f| &f.flow.members[1..]).copied();
        let others: BTreeSet<HostIndex> = others.filter(|host| !sources.contains(host)).collect();
        let members: Vec<HostIndex> = sources.iter().chain(&others).copied().collect();
        let traffic = self.fabric.traffic(&members, sources.len());
        on_fabric(self.algorithm, traffic)
    }

    /// Packet counters of the switches; `None` if no flow uses a group.
    fn counts(&mut self, flows: &[Active<'_>]) -> Result<Option<Counts>, JobError> {
        if !flows.iter().any(|flow| flow.algorithm.needs_group()) {
            return Ok(None);
        }
        on_fabric(self.algorithm, self.fabric.counts()).map(Some)
    }

    /// Adds the result of a phase that began at `posted`.
    fn add_up(&mut self, phase: &Phase, flows: &[Active<'_>], posted: u64) {
        let waited_for: Vec<&Active<'_>> = flows.iter().filter(|f| !f.is_background).collect();
        let ends: Vec<(u64, u64)> = waited_for.iter().filter_map(|f| f.completion()).collect();
        let last = ends.iter().map(|(at, _)| *at).max().unwrap_or(posted);
        let took = || ends.iter().map(|(_, took)| *took);
        let throughput = self.interval.filter(|_| !flows.is_empty());
        let throughput = throughput.map(|interval| {
            let named = flows.iter().map(|f| (self.name_of(f.flow), &f.samples));
            Throughput::of(interval, &named.collect::<Vec<_>>())
        });
        self.sum.phases.push(PhaseRow {
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
            self.sum.receivers += receivers.len();
            self.sum.verified += receivers.iter().filter(holds).count();
            if let Some(requests) = self.fabric.requests_of(active.id, active.flow.members[0]) {
                self.sum.requests.get_or_insert_default().merge(requests);
            }
        }
    }

    /// Removes queue pairs and groups from the fabric.
    fn tear_down(&mut self, flows: &[Active<'_>], started_at: u64) -> Result<(), JobError> {
        for active in flows {
            for &host in &active.flow.members {
                let closed = self.fabric.close_of(active.id, host);
                on_fabric(active.algorithm, closed)?;
            }
        }
        for active in flows.iter().filter(|flow| flow.algorithm.needs_group()) {
            let mcst_id = active.layout(self.topology, started_at).mcst_id();
            let removed = self.fabric.deregister(mcst_id);
            on_fabric(active.algorithm, removed)?;
        }
        Ok(())
    }

    fn row(self, bytes: u64) -> Row {
        let sum = self.sum;
        let completion_ns = sum.phases.iter().map(|phase| phase.completion_ns).sum();
        let traffic = sum.traffic.unwrap_or_else(Traffic::nothing);
        Row {
            completion_ns,
            goodput_gbps: goodput_gbps(bytes, completion_ns),
            verified: sum.verified == sum.receivers,
            receivers: sum.receivers,
            receivers_verified: sum.verified,
            requests: sum.requests.as_ref().and_then(Requests::times),
            fairness: fairness(&sum.phases),
            phases: sum.phases,
            ..Row::of_cost(self.algorithm, self.job, &traffic, sum.counts.as_ref())
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

fn on_fabric<T>(algorithm: Algorithm, result: Result<T, FabricError>) -> Result<T, JobError> {
    result.map_err(|error| JobError::Fabric { algorithm, error })
}
