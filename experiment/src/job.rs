//! One algorithm of the main job, from queue pairs to checked bytes. Pure orchestration: the same on every fabric.

mod guarded;
mod recovery;

use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_ctrl::constants::VIRTUAL_MAC;
use alfirk_ctrl::controller::{GroupRange, MemberSpec, MemoryRegion, RegisterGroup};
use alfirk_ctrl::strategy::{IcrcMode, MinPsn, Strategies};
use alfirk_ctrl::tables::Counts;
use alfirk_ctrl::topology::{HostIndex, Paths, Topology};
use alfirk_roce::collective::{
    blocks, Algorithm, Collective, DatagramSpec, Digest, EdgeId, Endpoint, GroupSpec, LegVerb,
    Original, Progress, TransferOp, TransferSpec, WriteMode,
};
use alfirk_roce::dcqcn::DcqcnConfig;
use alfirk_roce::hostile::Target;
use alfirk_roce::rc::{PathMtu, RcConfig, MAX_MESSAGE};
use alfirk_roce::wire::{Psn, QpNum};

use super::fabric::{Fabric, FabricError, Traffic, Victim};
use super::incidents::Incidents;
use super::member::MemberEvent;
use super::outages::{Outage, Outages};
use super::report::{goodput_gbps, Fallback, FeedbackWork, PartRow, Row};
use super::safeguard::SafeguardConfig;
use super::stream::seed;

/// Receives that RDMC keeps posted on a connection: "only a few".
const RDMC_RECEIVES: u32 = 4;

/// Where those members send datagrams whose algorithm wants to: of the addresses that are for an organization itself (RFC 2365).
const DATAGRAM_GROUP: Ipv4Addr = Ipv4Addr::new(239, 192, 0, 4);

/// Where the members of a group whose regions are all the same have them. The key is none that hosts give out by themselves.
const UNIFORM_VA: u64 = 0x5a00_0000_0000;
const UNIFORM_RKEY: u32 = 0xa1f1_0001;

/// What is sent to whom and how, the same for every algorithm.
#[derive(Debug, Clone)]
pub struct Job {
    /// The source first.
    pub members: Vec<HostIndex>,
    pub data: Arc<Original>,
    /// What is to be brought about; a barrier has no data.
    pub collective: Collective,
    pub op: TransferOp,
    /// How WRITEs to the group fit its receivers.
    pub write: WriteMode,
    /// How the switches handle the group's feedback and ICRCs.
    pub strategies: Strategies,
    /// What slows the members' queue pairs down.
    pub congestion: Congestion,
    pub mtu: PathMtu,
    /// Slices of the algorithms that relay, and of WRITEs to the group that tell each receiver's region; their own choice if
    /// `None`.
    pub slices: Option<u32>,
    /// Messages into which the algorithms that cut nothing by themselves cut the data; one if `None`.
    pub messages: Option<u32>,
    /// Bytes per slice instead, of which only the last one may have fewer.
    pub block: Option<u32>,
    /// Whether members that relay pass nothing on before they hold everything.
    pub store_and_forward: bool,
    /// Receives that members of overlays keep posted and tell of, so that nobody sends before; what RDMC posts for its algorithms, and
    /// untold for others, if `None`.
    pub ready: Option<u32>,
    /// Receives that each member keeps posted; one for each message if `None`.
    pub receives: Option<u32>,
    /// How often another member takes over as the source of a group: the data goes out in one part more than that, by turns
    /// through all members. Algorithms without a group send everything from the first member.
    pub switch_source: u32,
    /// Whether a source begins as soon as all others hold what was sent before, though the one before may still wait for its
    /// acknowledgements.
    pub switch_early: bool,
    /// The longest time that setting up, and then the transfer, may each take on the fabric's clock, in ns.
    pub time_limit: u64,
    /// The address that stands for the group.
    pub mcst_id: Ipv4Addr,
    /// Decides the group's initial PSN, if that is not given.
    pub seed: u64,
    pub initial_psn: Option<Psn>,
    /// How the group is registered.
    pub registration: Registration,
    /// What to do without a group if it cannot be registered; an error if `None`.
    pub fallback: Option<Algorithm>,
    /// When the group is given up for the fallback though it could be registered, and when it is tried again; then it is also tried
    /// again after it could not be registered. Never if `None`, or if there is no fallback. Not for groups whose source changes.
    pub safeguard: Option<SafeguardConfig>,
    /// Which links lose frames, and when.
    pub outages: Vec<Outage>,
    /// What breaks while the message is under way.
    pub kills: Vec<Kill>,
    /// Members that send random packets to the group while the message is under way. Nobody waits for them.
    pub hostiles: Vec<HostIndex>,
}

impl Job {
    /// A SEND of `data` from the first member to the others, with 4,096 bytes per packet and nothing special about it.
    pub fn new(members: Vec<HostIndex>, data: Arc<[u8]>) -> Job {
        Job {
            members,
            data: Arc::new(Original::new(data)),
            collective: Collective::Broadcast,
            op: TransferOp::Send,
            write: WriteMode::Aligned,
            strategies: Strategies::default(),
            congestion: Congestion::None,
            switch_source: 0,
            switch_early: false,
            mtu: PathMtu::B4096,
            slices: None,
            messages: None,
            block: None,
            store_and_forward: false,
            ready: None,
            receives: None,
            time_limit: 60_000_000_000,
            mcst_id: GroupRange::default().first(),
            seed: 1,
            initial_psn: None,
            registration: Registration::Service,
            fallback: None,
            safeguard: None,
            outages: Vec::new(),
            kills: Vec::new(),
            hostiles: Vec::new(),
        }
    }
}

/// How a group is registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registration {
    /// Through the controller's service.
    Service,
    /// By the source, with packets that the switches hand up.
    InBand,
}

/// Congestion control of the members' queue pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Congestion {
    /// They send as fast as their ports and windows let them.
    #[default]
    None,
    /// DCQCN with the parameters of its paper, each at the rate of its host's link.
    Dcqcn,
}

/// Something that breaks for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kill {
    pub victim: Victim,
    /// For people.
    pub name: String,
    /// Nanoseconds after the source has posted the message.
    pub after: u64,
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
    let run = Run {
        begun: fabric.now(),
        fabric,
        topology,
        job,
        algorithm,
        grouped: false,
        generation: 0,
        spec: None,
        sending: 0,
        moved: (0, 0),
        received: (0, 0, 0),
        answers_later: 0,
        incidents: Incidents::new(&job.kills),
        outages: Outages::new(&job.outages),
    };
    match run.guarded() {
        Some((config, to)) => run.run_guarded(config, to, watch),
        None => run.run(watch),
    }
}

struct Run<'a> {
    fabric: &'a mut dyn Fabric,
    topology: &'a Topology,
    job: &'a Job,
    /// What runs; another one than was asked for after a fallback.
    algorithm: Algorithm,
    /// Whether the message goes through a registered group.
    grouped: bool,
    /// When, by the fabric's clock.
    begun: u64,
    /// How many groups have been asked for before this one.
    generation: u32,
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
    incidents: Incidents,
    outages: Outages,
}

/// What the queue pairs of legs that are over have cost, and the counters when the present one began.
struct Cost {
    spent: Traffic,
    before: Traffic,
}

/// What the members have told by now, by rank.
struct Told {
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

impl Told {
    fn new(members: usize, parts: u32) -> Told {
        Told {
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
        has: &'a impl Fn(&Told, usize) -> bool,
    ) -> impl Iterator<Item = usize> + 'a {
        (0..self.lost.len()).filter(move |&rank| !self.lost[rank] && !has(self, rank))
    }
}

/// The size of blocks when there are to be about so many: at least 1 byte, and a whole number of packets.
fn block_size(size: u64, slices: u32) -> u32 {
    const PACKET: u64 = 4_096;
    let even = size.div_ceil(slices.into());
    let block = match even > PACKET {
        true => even.next_multiple_of(PACKET),
        false => even.max(1),
    };
    block.min(MAX_MESSAGE) as u32
}

impl Run<'_> {
    fn run(mut self, watch: &mut dyn FnMut(Progress)) -> Result<Row, JobError> {
        let asked_for = self.algorithm;
        let mut endpoints = self.prepare()?;
        let (mut registration_ns, mut fallback) = (None, None);
        if self.algorithm.needs_group() {
            let asked_at = self.fabric.now();
            match (self.register(&endpoints), self.job.fallback) {
                (Ok(()), _) => {
                    registration_ns = Some(self.fabric.now() - asked_at);
                    self.grouped = true;
                }
                (Err(error), Some(to))
                    if error.leaves_members_alone() && to.does(self.job.collective) =>
                {
                    fallback = Some(Fallback {
                        to: to.to_string(),
                        why: error.to_string(),
                    });
                    self.close()?;
                    self.algorithm = to;
                    endpoints = self.prepare()?;
                }
                (Err(error), _) => return self.on_fabric(Err(error)),
            }
        } else if self.algorithm.needs_datagrams() {
            let asked_at = self.fabric.now();
            let joined = self
                .fabric
                .join_datagrams(DATAGRAM_GROUP, &self.job.members);
            self.on_fabric(joined)?;
            registration_ns = Some(self.fabric.now() - asked_at);
        }
        self.connect(&self.job.members, &endpoints)?;
        let mut told = Told::new(self.job.members.len(), self.parts());
        self.wait(
            &mut told,
            "is not connected",
            |t, rank| t.ready[rank],
            watch,
        )?;

        self.turn_hostile(&mut told)?;
        self.make_ready()?;

        let counted = self.counts()?;
        let before = self.traffic()?;
        let posted_at = self.send(&mut told, watch)?;
        let mut cost = Cost {
            spent: Traffic::nothing(),
            before,
        };
        loop {
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
            if !told.broken {
                break;
            }
            self.recover(&mut told, &mut cost, watch)?;
        }
        let traffic = cost.spent.plus(&self.traffic()?.since(&cost.before));
        let counts = counted.zip(self.counts()?);
        let counts = counts.map(|(before, after)| after - before);

        self.close()?;
        if self.algorithm.needs_datagrams() {
            let left = self
                .fabric
                .leave_datagrams(DATAGRAM_GROUP, &self.job.members);
            self.on_fabric(left)?;
        }
        if self.grouped {
            let removed = self.deregister();
            self.on_fabric(removed)?;
            // A controller that was about to heal the group is done with that now.
            let heard = self.hear_news(&mut told, self.moved.0);
            self.on_fabric(heard)?;
        }
        let row = self.row(&told, &posted_at, &traffic, counts.as_ref());
        Ok(Row {
            algorithm: asked_for.to_string(),
            registration_ns,
            fallback,
            ..row
        })
    }

    /// Has one source after the other post its part; gives the times.
    fn send(
        &mut self,
        told: &mut Told,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<Vec<u64>, JobError> {
        let mut posted_at = Vec::new();
        if let Some(spec) = self.begins_everywhere() {
            // The last one decides when it can be over.
            let last = self.begin_everywhere(&spec)?;
            self.incidents.begin(last);
            self.outages.begin(last);
            return Ok(vec![last]);
        }
        for part in 0..self.parts() {
            let (source, data) = match &self.spec {
                Some(spec) if spec.takes_turns() => {
                    let (offset, len) = spec.part(part);
                    let data = &self.job.data.bytes()[offset as usize..][..len as usize];
                    let data = Arc::new(Original::new(Arc::from(data)));
                    (spec.source_of(part) as usize, data)
                }
                _ => (0, Arc::clone(&self.job.data)),
            };
            self.sending = source;
            let posted = self.fabric.start(self.job.members[source], &data);
            posted_at.push(self.on_fabric(posted)?);
            if part == 0 {
                self.incidents.begin(posted_at[0]);
                self.outages.begin(posted_at[0]);
            }
            if part + 1 < self.parts() {
                // A leaf switch knows one region per receiver; what an old source sends again must not find a new one's.
                let early = self.job.switch_early && self.job.write != WriteMode::PerRequest;
                self.wait(
                    told,
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
        let begins = spec.collective.begins_everywhere() && !spec.takes_turns();
        begins.then(|| spec.clone())
    }

    /// Has every member begin with its own data; gives when the last one did.
    fn begin_everywhere(&mut self, spec: &TransferSpec) -> Result<u64, JobError> {
        let mut last = 0;
        for (rank, &host) in self.job.members.iter().enumerate() {
            let spec = TransferSpec {
                rank: rank as u32,
                ..spec.clone()
            };
            let (offset, len) = spec.own_bytes();
            let own = &self.job.data.bytes()[offset as usize..][..len as usize];
            let own = Arc::new(Original::new(Arc::from(own)));
            let begun = self.fabric.start(host, &own);
            last = last.max(self.on_fabric(begun)?);
        }
        Ok(last)
    }

    /// Into how many parts the data is cut, each from another source.
    fn parts(&self) -> u32 {
        match (self.algorithm.needs_group(), self.job.collective) {
            (true, Collective::Broadcast) => self.job.switch_source + 1,
            // On a group members tell each other their pieces by turns.
            (true, Collective::Allgather) => self.job.members.len() as u32,
            _ => 1,
        }
    }

    /// Whether a member is ever the group's source.
    fn may_send(&self, rank: u32) -> bool {
        let sources = self.sources();
        match sources.is_empty() {
            true => rank == 0,
            false => sources.contains(&rank),
        }
    }

    /// The ranks that send, by part; none if the first member sends everything.
    fn sources(&self) -> Vec<u32> {
        match self.parts() {
            1 => Vec::new(),
            parts => (0..parts)
                .map(|part| part % self.job.members.len() as u32)
                .collect(),
        }
    }

    /// Connects members, given by their ranks, each to the ends of its own edges.
    fn connect(&mut self, members: &[HostIndex], endpoints: &[Endpoint]) -> Result<(), JobError> {
        let mut peers: Vec<Vec<Endpoint>> = vec![Vec::new(); members.len()];
        for endpoint in endpoints {
            match endpoint.edge {
                EdgeId::Pair { from, to } => {
                    let other = if endpoint.rank == from { to } else { from };
                    peers[other as usize].push(endpoint.clone());
                }
                EdgeId::Group { .. } => {
                    peers.iter_mut().for_each(|p| p.push(endpoint.clone()));
                }
                // The others learn of each other from the root.
                EdgeId::Datagrams { root } if endpoint.rank == root => {
                    peers.iter_mut().for_each(|p| p.push(endpoint.clone()));
                }
                EdgeId::Datagrams { .. } => {}
            }
        }
        for (&host, peers) in members.iter().zip(&peers) {
            let connected = self.fabric.connect(host, peers);
            self.on_fabric(connected)?;
        }
        Ok(())
    }

    /// Has receivers tell their senders that they are ready, where they do that.
    fn make_ready(&mut self) -> Result<(), JobError> {
        let tells = self.spec.as_ref().is_some_and(|spec| spec.ready.is_some());
        for &host in self.job.members[1..].iter().filter(|_| tells) {
            let proceeded = self.fabric.act(host, LegVerb::Proceed);
            self.on_fabric(proceeded)?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), JobError> {
        for &host in &self.job.members {
            let closed = self.fabric.close(host);
            self.on_fabric(closed)?;
        }
        Ok(())
    }

    fn prepare(&mut self) -> Result<Vec<Endpoint>, JobError> {
        let job = self.job;
        let punts = self.round_trips_to_controller();
        self.answers_later = match punts {
            0 => 0,
            _ => {
                let round_trip = self.fabric.control_round_trip();
                self.on_fabric(round_trip)? * punts
            }
        };
        let size = job.data.bytes().len() as u64;
        let addresses: Vec<Ipv4Addr> = job
            .members
            .iter()
            .map(|&host| self.topology.host(host).ip)
            .collect();
        // What can change its way on the road comes in slices like those of an algorithm that relays.
        let like = match self.guarded() {
            Some(_) => Algorithm::Chain,
            None => self.algorithm,
        };
        let part = size.div_ceil(self.parts().into());
        let members = addresses.len() as u32;
        let default = match (job.collective, self.parts()) {
            (Collective::Allgather, 2..) => 1,
            (collective, _) => like.slices_for(collective, part, members),
        };
        let requests = self.algorithm.needs_group() && job.write == WriteMode::PerRequest;
        let cut = self.algorithm.relays() || requests || self.guarded().is_some();
        let slices = match job.collective {
            // Pieces and signs are as many as there are members.
            Collective::Scatter | Collective::Allgather | Collective::Barrier => None,
            Collective::Broadcast if cut => job.slices,
            Collective::Broadcast => job.messages,
        };
        let slices = slices.map_or(default, |n| n.max(1));
        let is_overlay = self.algorithm.is_overlay() && job.collective == Collective::Broadcast;
        let is_rdmc = matches!(self.algorithm, Algorithm::Rdmc(_));
        let block = match job.block {
            Some(block) if cut && is_overlay => Some(block),
            _ if is_rdmc => Some(block_size(size, slices)),
            _ => None,
        };
        let slices = block.map_or(slices, |block| blocks(size, block));
        let racks = self.racks(&job.members);
        let mut endpoints = Vec::new();
        for (rank, &host) in job.members.iter().enumerate() {
            let spec = TransferSpec {
                collective: job.collective,
                algorithm: self.algorithm,
                rank: rank as u32,
                members: addresses.clone(),
                size,
                slices: slices * self.parts(),
                op: job.op,
                write: job.write,
                sources: self.sources(),
                receives: job
                    .receives
                    .filter(|_| !is_rdmc && !self.algorithm.needs_datagrams()),
                rc: Some(self.rc(host)),
                group: self.algorithm.needs_group().then(|| self.group()),
                datagrams: self.algorithm.needs_datagrams().then(|| DatagramSpec {
                    group: DATAGRAM_GROUP,
                    qkey: self.drawn("qkey") >> 1,
                }),
                racks: racks.clone(),
                store_and_forward: job.store_and_forward
                    && is_overlay
                    && self.algorithm.is_one_tree(),
                block,
                ready: match is_rdmc {
                    true => Some(job.ready.unwrap_or(RDMC_RECEIVES)),
                    false => job.ready.filter(|_| is_overlay),
                },
                announce: is_rdmc && job.op == TransferOp::Send,
                // The orchestrator compares: a wrong byte is a result, not a failure to get one.
                expected_sha256: None,
            };
            // Who learns the size from the data is told nothing before.
            let spec = match spec.announce && rank > 0 {
                true => TransferSpec {
                    size: 0,
                    slices: 0,
                    ..spec
                },
                false => spec,
            };
            if rank == 0 {
                self.spec = Some(spec.clone());
            }
            let prepared = self.fabric.prepare(host, spec);
            endpoints.extend(self.on_fabric(prepared)?);
        }
        Ok(endpoints)
    }

    /// The racks of members, which are their leaf switches; nothing unless the algorithm wants to know.
    fn racks(&self, members: &[HostIndex]) -> Vec<u32> {
        let rack = |&host: &HostIndex| self.topology.attachment(host).0 .0 as u32;
        match self.algorithm.needs_racks() {
            true => members.iter().map(rack).collect(),
            false => Vec::new(),
        }
    }

    fn rc(&self, host: HostIndex) -> RcConfig {
        let link = self.topology.link(self.topology.uplink(host).link);
        let rate_bps = link.attributes.rate_bps;
        RcConfig {
            congestion: match self.job.congestion {
                Congestion::None => None,
                Congestion::Dcqcn => Some(DcqcnConfig::new(rate_bps)),
            },
            ..self.fabric.rc(self.job.mtu, rate_bps, self.answers_later)
        }
    }

    /// How often, until an acknowledgement comes, a switch leaves something to the controller and waits for it: the copy for
    /// a receiver at its leaf, the minimum at every switch.
    fn round_trips_to_controller(&self) -> u64 {
        if !self.algorithm.needs_group() {
            return 0;
        }
        let strategies = self.job.strategies;
        let minima = match strategies.min_psn {
            MinPsn::Punt => self.switches_between(),
            MinPsn::Tree | MinPsn::Walk => 0,
        };
        minima + u64::from(strategies.icrc == IcrcMode::Punt)
    }

    /// How many switches an acknowledgement passes on its way, at most.
    fn switches_between(&self) -> u64 {
        let paths = Paths::new(self.topology);
        let hosts = &self.job.members;
        let leaves = hosts.iter().map(|host| self.topology.attachment(*host).0);
        let ways = leaves.flat_map(|leaf| hosts.iter().map(move |host| (leaf, *host)));
        let lengths = ways
            .filter(|(leaf, host)| paths.reaches(*leaf, *host))
            .map(|(leaf, host)| paths.distance(leaf, host));
        lengths.max().unwrap_or(0).into()
    }

    /// How long the source bears to get no acknowledgement: a few timeouts at the least.
    fn patience(&self, source: HostIndex) -> u64 {
        let timeout = self.rc(source).ack_timeout.ns().unwrap_or(0);
        self.fabric.patience().max(4 * timeout)
    }

    fn group(&self) -> GroupSpec {
        let group = GroupSpec::new(self.mcst_id(), self.virtual_qpn(), self.initial_psn());
        match self.job.write {
            WriteMode::Uniform => GroupSpec {
                va: UNIFORM_VA,
                rkey: UNIFORM_RKEY,
                ..group
            },
            WriteMode::Aligned | WriteMode::PerRequest => group,
        }
    }

    fn register(&mut self, endpoints: &[Endpoint]) -> Result<(), FabricError> {
        let members = endpoints.iter().map(|endpoint| MemberSpec {
            ip: endpoint.ip,
            qpn: endpoint.qpn,
            region: endpoint.memory.map(|memory| MemoryRegion {
                va: memory.va,
                rkey: memory.rkey,
                len: memory.len,
            }),
            may_send: self.may_send(endpoint.rank),
        });
        let request = RegisterGroup {
            mcst_id: Some(self.mcst_id()),
            virtual_qpn: Some(self.virtual_qpn()),
            members: members.collect(),
            initial_psn: self.initial_psn(),
            strategies: self.job.strategies,
        };
        match self.job.registration {
            Registration::Service => self.fabric.register(request).map(|_| ()),
            Registration::InBand => self.fabric.register_in_band(self.job.members[0], request),
        }
    }

    fn deregister(&mut self) -> Result<(), FabricError> {
        match self.job.registration {
            Registration::Service => self.fabric.deregister(self.mcst_id()),
            Registration::InBand => self.fabric.deregister_in_band(self.job.members[0]),
        }
    }

    /// When the group is to be given up, and for what; nothing unless it is watched.
    fn guarded(&self) -> Option<(SafeguardConfig, Algorithm)> {
        let is_plain = self.algorithm.needs_group()
            && self.job.switch_source == 0
            && self.job.collective == Collective::Broadcast;
        let config = self
            .job
            .safeguard
            .filter(|_| is_plain || self.generation > 0)?;
        Some((config, self.job.fallback?))
    }

    /// Waits until `has` holds of every rank that is not lost.
    fn wait(
        &mut self,
        told: &mut Told,
        what: &'static str,
        has: impl Fn(&Told, usize) -> bool,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(), JobError> {
        let deadline = self.fabric.now().saturating_add(self.job.time_limit);
        while told.missing(&has).next().is_some() {
            if self.fabric.now() >= deadline {
                return Err(self.too_late(what, told.missing(&has)));
            }
            self.step(told, deadline, watch)?;
            if self.grouped && self.guarded().is_none() {
                let looked = self.look_after(told);
                self.on_fabric(looked)?;
            } else if self.closes() {
                self.strike(told)?;
                if told.broken {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Waits for what comes next, at most until `limit`, and takes it.
    fn step(
        &mut self,
        told: &mut Told,
        limit: u64,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(), JobError> {
        let soon = self.fabric.now().saturating_add(self.fabric.tick());
        let due = [self.incidents.next(), self.outages.next()];
        let soon = due.into_iter().flatten().fold(soon, u64::min);
        let event = self.fabric.next_event(soon.min(limit));
        match self.on_fabric(event)? {
            Some((host, event)) => self.take(told, host, event)?,
            None => watch(self.progress()?),
        }
        let now = self.fabric.now();
        while let Some((link, loss)) = self.outages.take_due(now) {
            let set = self.fabric.set_loss(link, loss);
            self.on_fabric(set)?;
        }
        Ok(())
    }

    /// Lets the hostile members loose, if there is a group.
    fn turn_hostile(&mut self, told: &mut Told) -> Result<(), JobError> {
        for &host in self.job.hostiles.iter().filter(|_| self.grouped) {
            let rank = self.job.members.iter().position(|&member| member == host);
            if let Some(rank) = rank {
                told.lost[rank] = true;
            }
            let target = Target {
                mcst_id: self.mcst_id(),
                virtual_qpn: self.virtual_qpn(),
                mac: VIRTUAL_MAC,
            };
            let turned = self.fabric.turn_hostile(host, target, self.job.seed);
            self.on_fabric(turned)?;
        }
        Ok(())
    }

    fn too_late(&self, what: &'static str, ranks: impl Iterator<Item = usize>) -> JobError {
        JobError::TimeLimit {
            algorithm: self.algorithm,
            what,
            hosts: ranks.map(|rank| self.host_name(rank)).collect(),
            seconds: self.job.time_limit as f64 / 1e9,
        }
    }

    /// Breaks what is due to break, sees what the controller has done about it, and complains when nothing moves.
    fn look_after(&mut self, told: &mut Told) -> Result<(), FabricError> {
        let now = self.fabric.now();
        let source = self.job.members[self.sending];
        let acknowledged = self.fabric.acknowledged(source)?;
        while let Some(kill) = self.incidents.take_due(now) {
            self.fabric.kill(kill)?;
        }
        self.hear_news(told, acknowledged)?;
        // A host that had acknowledged everything when it died is nobody that the group waits for.
        for (rank, &host) in self.job.members.iter().enumerate() {
            let is_gone = told.finished[self.sending] && self.incidents.has_killed(host);
            told.lost[rank] |= is_gone && told.done[rank].is_none();
        }
        self.incidents.moved(now, acknowledged);
        if acknowledged != self.moved.0 || told.finished[self.sending] {
            self.moved = (acknowledged, now);
        } else if now - self.moved.1 >= self.patience(source) {
            self.moved.1 = now;
            let in_band = self.job.registration == Registration::InBand;
            self.fabric
                .stalled(self.mcst_id(), in_band.then_some(source))?;
        }
        Ok(())
    }

    /// Takes what the controller has done to the group.
    fn hear_news(&mut self, told: &mut Told, acknowledged: u64) -> Result<(), FabricError> {
        for news in self.fabric.news()? {
            if news.mcst_id != self.mcst_id() {
                continue;
            }
            for (rank, &host) in self.job.members.iter().enumerate() {
                told.lost[rank] |= news.lost.contains(&self.topology.host(host).ip);
            }
            let has_finished = told.finished[self.sending];
            self.incidents
                .repaired(self.topology, &news, acknowledged, has_finished);
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
            MemberEvent::PartDone { part, at } => {
                if let Some(told) = told.parts.get_mut(part as usize) {
                    told[rank] = Some(at);
                }
            }
            MemberEvent::Finished => told.finished[rank] = true,
            MemberEvent::Left { held, beyond } => told.left[rank] = Some((held, beyond)),
            // The controller's news tell the same.
            MemberEvent::Group(_) => {}
            MemberEvent::Failed { .. } if self.closes() && self.incidents.any() => {
                told.broken = true;
            }
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

    /// Counters of the switches; they say nothing about algorithms without a group.
    fn counts(&mut self) -> Result<Option<Counts>, JobError> {
        if !self.grouped {
            return Ok(None);
        }
        let counts = self.fabric.counts();
        self.on_fabric(counts).map(Some)
    }

    fn traffic(&mut self) -> Result<Traffic, JobError> {
        let members = self.job.members.len();
        let sources = match self.job.collective.begins_everywhere() {
            true => members,
            false => members.min(self.parts() as usize),
        };
        let traffic = self.fabric.traffic(&self.job.members, sources);
        self.on_fabric(traffic)
    }

    fn row(
        &self,
        told: &Told,
        posted_at: &[u64],
        traffic: &Traffic,
        counts: Option<&Counts>,
    ) -> Row {
        let work = counts.map(|counts| counts.work(self.job.strategies.min_psn));
        let has_control = self.job.congestion != Congestion::None;
        // Where members take turns, or all begin, the first one receives, too.
        let is_only_source = posted_at.len() == 1 && !self.job.collective.begins_everywhere();
        let first = usize::from(is_only_source);
        let last = told.done[first..].iter().flatten().map(|&(at, _)| at).max();
        let completion_ns = last.map_or(0, |at| at.saturating_sub(posted_at[0]));
        let ranks = told.done.iter().enumerate().skip(first);
        let right = ranks
            .filter(|(rank, done)| done.is_some_and(|(_, sha256)| sha256 == self.expected(*rank)));
        let receivers_verified = right.count();
        let receivers = told.done.len() - first;
        let lost =
            (first..told.done.len()).filter(|&rank| told.lost[rank] && told.done[rank].is_none());
        let lost: Vec<String> = lost.map(|rank| self.host_name(rank)).collect();
        Row {
            algorithm: self.algorithm.to_string(),
            completion_ns,
            goodput_gbps: goodput_gbps(self.job.data.bytes().len() as u64, completion_ns),
            verified: receivers_verified + lost.len() == receivers,
            receivers,
            receivers_verified,
            sender_tx_bytes: traffic.source_tx_bytes,
            sender_payload_bytes: traffic.source_payload_bytes,
            wire_packets: traffic.wire_packets,
            sender_acks: traffic.source_acks,
            sender_cnps: has_control.then_some(traffic.source_cnps),
            marked_packets: has_control.then_some(traffic.marked),
            cnps_sent: has_control.then_some(traffic.cnps_sent),
            cnps_filtered: counts.filter(|_| has_control).map(|c| c.cnps_filtered),
            copies_filtered: counts.map(|c| c.copies_filtered),
            feedback_work: work.map(|work| FeedbackWork {
                feedback: work.feedback,
                told: work.told,
                recirculations: work.recirculations,
                punts: work.punts,
            }),
            retransmissions: traffic.retransmissions,
            dropped_packets: traffic.dropped_packets,
            implausible_packets: traffic.implausible,
            registration_ns: None,
            fallback: None,
            safeguard: Vec::new(),
            failures: self.incidents.report(),
            lost,
            parts: self.part_rows(told, posted_at),
        }
    }

    /// What a member is to hold at the end.
    fn expected(&self, rank: usize) -> Digest {
        let spec = self.spec.as_ref().map(|spec| TransferSpec {
            rank: rank as u32,
            ..spec.clone()
        });
        match spec.map(|spec| spec.final_bytes()) {
            Some((offset, len)) if len < self.job.data.bytes().len() as u64 => {
                Digest::of(&self.job.data.bytes()[offset as usize..][..len as usize])
            }
            _ => self.job.data.sha256(),
        }
    }

    /// What each source did; nothing unless members take turns.
    fn part_rows(&self, told: &Told, posted_at: &[u64]) -> Vec<PartRow> {
        let Some(spec) = self.spec.as_ref().filter(|spec| spec.takes_turns()) else {
            return Vec::new();
        };
        let rows = posted_at.iter().zip(&told.parts).enumerate();
        rows.map(|(part, (&posted_at, told))| {
            let source = spec.source_of(part as u32) as usize;
            let (_, bytes) = spec.part(part as u32);
            let others = told.iter().enumerate().filter(|(rank, _)| *rank != source);
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

    /// The group's first PSN: near the wrap-around for some seeds, as on real NICs.
    fn initial_psn(&self) -> Psn {
        let drawn = || Psn::new(self.drawn("initial psn"));
        self.job.initial_psn.unwrap_or_else(drawn)
    }

    /// The queue pair number that the members of the present group address.
    fn virtual_qpn(&self) -> QpNum {
        // Another one when the same job runs on the same fabric again.
        QpNum::ordinary(self.drawn(&format!("virtual qpn at {}", self.begun)))
    }

    /// A number for the present group.
    fn drawn(&self, what: &str) -> u32 {
        let of_seed = match self.generation {
            0 => seed(self.job.seed, what),
            n => seed(self.job.seed, &format!("{what} {n}")),
        };
        of_seed as u32
    }

    /// The address of the present group. Each has another, so that what is left of one on the way finds no other.
    fn mcst_id(&self) -> Ipv4Addr {
        let first = u32::from(self.job.mcst_id);
        first.wrapping_add(self.generation).into()
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
