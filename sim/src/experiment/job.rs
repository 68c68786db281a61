//! One algorithm of the main job, from queue pairs to checked bytes. Pure orchestration: the same on every fabric.

use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_ctrl::controller::{MemberSpec, MemoryRegion, RegisterGroup};
use alfirk_ctrl::topology::{HostIndex, Topology};
use alfirk_roce::collective::{
    Algorithm, Digest, Endpoint, GroupSpec, Progress, TransferOp, TransferSpec,
};
use alfirk_roce::rc::PathMtu;
use alfirk_roce::wire::Psn;

use super::fabric::{Fabric, FabricError, Traffic};
use super::report::{goodput_gbps, Row};
use crate::engine::stream::seed;
use crate::network::MemberEvent;

/// What is sent to whom and how, the same for every algorithm.
#[derive(Debug, Clone)]
pub struct Job {
    /// The source first.
    pub members: Vec<HostIndex>,
    pub data: Arc<[u8]>,
    /// Of the data.
    pub sha256: Digest,
    pub op: TransferOp,
    pub mtu: PathMtu,
    /// Slices of the algorithms that relay; their own choice if `None`.
    pub slices: Option<u32>,
    /// The longest time that setting up, and then the transfer, may each take on the fabric's clock, in ns.
    pub time_limit: u64,
    /// The address that stands for the group.
    pub mcst_id: Ipv4Addr,
    /// Decides the group's initial PSN.
    pub seed: u64,
}

/// Why an algorithm gave no result.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    #[error("{algorithm}: {error}")]
    Fabric {
        algorithm: Algorithm,
        error: FabricError,
    },
    #[error("{algorithm}: host {host}: {why}")]
    Member {
        algorithm: Algorithm,
        host: String,
        why: String,
    },
    #[error("{algorithm}: {} {what} within {seconds} s; raise --time-limit if that is too short", hosts.join(", "))]
    TimeLimit {
        algorithm: Algorithm,
        what: &'static str,
        hosts: Vec<String>,
        seconds: f64,
    },
}

/// Runs `algorithm` on `fabric`. `watch` is shown now and then how many bytes the receivers have together.
pub fn run_algorithm(
    fabric: &mut dyn Fabric,
    topology: &Topology,
    job: &Job,
    algorithm: Algorithm,
    watch: &mut dyn FnMut(Progress),
) -> Result<Row, JobError> {
    Run {
        fabric,
        topology,
        job,
        algorithm,
    }
    .run(watch)
}

struct Run<'a> {
    fabric: &'a mut dyn Fabric,
    topology: &'a Topology,
    job: &'a Job,
    algorithm: Algorithm,
}

/// What the members have told by now, by rank.
struct Told {
    ready: Vec<bool>,
    /// When each was done, and what it holds.
    done: Vec<Option<(u64, Digest)>>,
    /// Whose relayed data is acknowledged, too.
    finished: Vec<bool>,
}

impl Run<'_> {
    fn run(&mut self, watch: &mut dyn FnMut(Progress)) -> Result<Row, JobError> {
        let endpoints = self.prepare()?;
        let group = self.algorithm.needs_group();
        if group {
            self.register(&endpoints)?;
        }
        for &host in &self.job.members {
            let connected = self.fabric.connect(host, &endpoints);
            self.on_fabric(connected)?;
        }
        let members = self.job.members.len();
        let mut told = Told {
            ready: vec![false; members],
            done: vec![None; members],
            finished: vec![false; members],
        };
        self.wait(
            &mut told,
            "is not connected",
            |t, rank| t.ready[rank],
            watch,
        )?;

        let before = self.traffic()?;
        let source = self.job.members[0];
        let posted = self.fabric.start(source, &self.job.data);
        let posted_at = self.on_fabric(posted)?;
        self.wait(
            &mut told,
            "is not done",
            |t, rank| t.done[rank].is_some(),
            watch,
        )?;
        // The last acknowledgements belong to what the transfer costs, though nobody waits for them.
        self.wait(
            &mut told,
            "has not finished",
            |t, rank| t.finished[rank],
            watch,
        )?;
        let traffic = self.traffic()?.since(&before);

        for &host in &self.job.members {
            let closed = self.fabric.close(host);
            self.on_fabric(closed)?;
        }
        if group {
            let removed = self.fabric.deregister(self.job.mcst_id);
            self.on_fabric(removed)?;
        }
        Ok(self.row(&told, posted_at, &traffic))
    }

    fn prepare(&mut self) -> Result<Vec<Endpoint>, JobError> {
        let job = self.job;
        let size = job.data.len() as u64;
        let addresses: Vec<Ipv4Addr> = job
            .members
            .iter()
            .map(|&host| self.topology.host(host).ip)
            .collect();
        let relays = matches!(self.algorithm, Algorithm::Chain | Algorithm::Binomial);
        let default = self.algorithm.default_slices(size);
        let slices = job.slices.filter(|_| relays).map_or(default, |n| n.max(1));
        let mut endpoints = Vec::new();
        for (rank, &host) in job.members.iter().enumerate() {
            let spec = TransferSpec {
                algorithm: self.algorithm,
                rank: rank as u32,
                members: addresses.clone(),
                size,
                slices,
                op: job.op,
                rc: Some(self.fabric.rc(job.mtu)),
                group: self
                    .algorithm
                    .needs_group()
                    .then(|| GroupSpec::new(job.mcst_id, self.initial_psn())),
                // The orchestrator compares: a wrong byte is a result, not a failure to get one.
                expected_sha256: None,
            };
            let prepared = self.fabric.prepare(host, spec);
            endpoints.extend(self.on_fabric(prepared)?);
        }
        Ok(endpoints)
    }

    fn register(&mut self, endpoints: &[Endpoint]) -> Result<(), JobError> {
        let members = endpoints.iter().map(|endpoint| MemberSpec {
            ip: endpoint.ip,
            qpn: endpoint.qpn,
            region: endpoint.memory.map(|memory| MemoryRegion {
                va: memory.va,
                rkey: memory.rkey,
                len: memory.len,
            }),
        });
        let request = RegisterGroup {
            mcst_id: Some(self.job.mcst_id),
            members: members.collect(),
            initial_psn: self.initial_psn(),
        };
        let registered = self.fabric.register(request);
        self.on_fabric(registered)?;
        Ok(())
    }

    /// Waits until `has` holds of every rank.
    fn wait(
        &mut self,
        told: &mut Told,
        what: &'static str,
        has: impl Fn(&Told, usize) -> bool,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(), JobError> {
        let ranks = 0..self.job.members.len();
        let deadline = self.fabric.now().saturating_add(self.job.time_limit);
        while !ranks.clone().all(|rank| has(told, rank)) {
            if self.fabric.now() >= deadline {
                let missing = ranks.filter(|&rank| !has(told, rank));
                return Err(JobError::TimeLimit {
                    algorithm: self.algorithm,
                    what,
                    hosts: missing.map(|rank| self.host_name(rank)).collect(),
                    seconds: self.job.time_limit as f64 / 1e9,
                });
            }
            let soon = self.fabric.now().saturating_add(self.fabric.tick());
            let event = self.fabric.next_event(soon.min(deadline));
            match self.on_fabric(event)? {
                Some((host, event)) => self.take(told, host, event)?,
                None => watch(self.progress()?),
            }
        }
        Ok(())
    }

    fn take(&self, told: &mut Told, host: HostIndex, event: MemberEvent) -> Result<(), JobError> {
        let members = &self.job.members;
        let Some(rank) = members.iter().position(|&member| member == host) else {
            return Ok(());
        };
        match event {
            MemberEvent::Ready => told.ready[rank] = true,
            MemberEvent::Done { sha256, at } => told.done[rank] = Some((at, sha256)),
            MemberEvent::Finished => told.finished[rank] = true,
            MemberEvent::Failed { why } => {
                return Err(JobError::Member {
                    algorithm: self.algorithm,
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
        for &host in &self.job.members[1..] {
            let progress = self.fabric.progress(host);
            let progress = self.on_fabric(progress)?;
            all.bytes += progress.bytes.min(progress.total);
            all.total += progress.total;
        }
        Ok(all)
    }

    fn traffic(&mut self) -> Result<Traffic, JobError> {
        let traffic = self.fabric.traffic(&self.job.members);
        self.on_fabric(traffic)
    }

    fn row(&self, told: &Told, posted_at: u64, traffic: &Traffic) -> Row {
        let receivers = told.done[1..].iter().flatten();
        let last = receivers.clone().map(|&(at, _)| at).max();
        let completion_ns = last.map_or(0, |at| at.saturating_sub(posted_at));
        let right = receivers.filter(|(_, sha256)| *sha256 == self.job.sha256);
        let receivers_verified = right.count();
        let receivers = told.done.len() - 1;
        Row {
            algorithm: self.algorithm.to_string(),
            completion_ns,
            goodput_gbps: goodput_gbps(self.job.data.len() as u64, completion_ns),
            verified: receivers_verified == receivers,
            receivers,
            receivers_verified,
            sender_tx_bytes: traffic.source_tx_bytes,
            sender_payload_bytes: traffic.source_payload_bytes,
            wire_packets: traffic.wire_packets,
            sender_acks: traffic.source_acks,
            retransmissions: traffic.retransmissions,
            dropped_packets: traffic.dropped_packets,
        }
    }

    /// The group's first PSN: near the wrap-around for some seeds, as on real NICs.
    fn initial_psn(&self) -> Psn {
        Psn::new(seed(self.job.seed, "initial psn") as u32 & 0x00ff_ffff)
    }

    fn host_name(&self, rank: usize) -> String {
        let host = self.job.members[rank];
        self.topology.host(host).name.clone()
    }

    fn on_fabric<T>(&self, result: Result<T, FabricError>) -> Result<T, JobError> {
        result.map_err(|error| JobError::Fabric {
            algorithm: self.algorithm,
            error,
        })
    }
}
