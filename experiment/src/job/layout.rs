//! How a job's transfer is laid out for one algorithm: what each member is to do, and which group it needs. Pure.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::num::NonZeroU64;
use std::sync::Arc;

use alfirk_ctrl::controller::{MemberSpec, MemoryRegion, RegisterGroup};
use alfirk_ctrl::strategy::{IcrcMode, MinPsn, Strategies, Window};
use alfirk_ctrl::topology::{HostIndex, Paths, SwitchIndex, Topology};
use alfirk_packet_io::wire::serialisation_ps;
use alfirk_roce::collective::{
    blocks, max_blocks_in_flight, Algorithm, Collective, DatagramSpec, EdgeId, Endpoint, GroupSpec,
    Members, PathSettings, Racks, TransferOp, TransferSpec, WriteMode,
};
use alfirk_roce::dcqcn::DcqcnConfig;
use alfirk_roce::rc::{RcConfig, MAX_MESSAGE};
use alfirk_roce::wire::{Psn, QpNum};

use super::limits::{self, Contended, Limits, Processing, SendLimits};
use super::spec::{Congestion, Job, Pace};
use crate::fabric::Fabric;
use crate::report::SenderRow;
use crate::safeguard::SafeguardConfig;
use crate::stream::seed;

/// Where those members send datagrams whose algorithm wants to: of the addresses that are for an organization itself (RFC 2365).
pub(super) const DATAGRAM_GROUP: Ipv4Addr = Ipv4Addr::new(239, 192, 0, 4);

/// Where the members of a group whose regions are all the same have them. The key is none that hosts give out by themselves.
const UNIFORM_VA: u64 = 0x5a00_0000_0000;
const UNIFORM_RKEY: u32 = 0xa1f1_0001;

/// A job by one algorithm.
pub(crate) struct Layout<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) job: &'a Job,
    /// What runs; another one than was asked for after a fallback.
    pub(crate) algorithm: Algorithm,
    /// What the paths allow its members; `None` where links do not have the rates of the topology.
    limits: Option<Limits>,
    /// When it began, by the fabric's clock.
    pub(crate) begun: u64,
    /// How many groups have been asked for before this one.
    pub(crate) generation: u32,
}

impl<'a> Layout<'a> {
    /// A job that began at `begun`, on whatever fabric.
    pub(crate) fn new(
        topology: &'a Topology,
        job: &'a Job,
        algorithm: Algorithm,
        begun: u64,
    ) -> Layout<'a> {
        Layout {
            topology,
            job,
            algorithm,
            limits: None,
            begun,
            generation: 0,
        }
    }

    /// The same where equipment takes this time; `None` where links do not have the rates of the topology. `paths` are those of the topology,
    /// found when they are needed, `contended` where it meets jobs that run at the same time.
    pub(crate) fn with_limits(
        mut self,
        processing: Option<Processing>,
        paths: &OnceCell<Paths>,
        contended: Option<&Contended>,
    ) -> Layout<'a> {
        self.limits = processing.map(|processing| {
            let racks = self.racks(&self.job.members);
            let senders = self.parts() as usize;
            let network = limits::Network {
                topology: self.topology,
                paths,
                processing,
            };
            let of =
                |algorithm| Limits::new(&network, self.job, algorithm, &racks, senders, contended);
            match self.guarded() {
                // Queue pairs of all legs have the same settings.
                Some((_, to)) => of(self.algorithm).or(&of(to), self.job.members.len()),
                None => of(self.algorithm),
            }
        });
        self
    }
}

impl Layout<'_> {
    /// Into how many parts the data is cut, each from another source.
    pub(crate) fn parts(&self) -> u32 {
        match (self.algorithm.needs_group(), self.job.collective) {
            (true, Collective::Broadcast) => self.job.switch_source + 1,
            // On a group members send each other their pieces by turns.
            (true, Collective::Allgather) => self.job.members.len() as u32,
            _ => 1,
        }
    }

    /// Whether a member is ever the group's source.
    pub(crate) fn may_send(&self, rank: u32) -> bool {
        // Turns go round by ranks.
        rank < self.parts()
    }

    /// Whether a member announces the others' memory to the switches of a group.
    pub(crate) fn tells_memory(&self, rank: u32) -> bool {
        self.job.write == WriteMode::PerRequest && self.may_send(rank)
    }

    /// The ranks that send, by part; none if the first member sends everything.
    pub(crate) fn sources(&self) -> Arc<[u32]> {
        match self.parts() {
            1 => Arc::default(),
            parts => (0..parts)
                .map(|part| part % self.job.members.len() as u32)
                .collect(),
        }
    }

    /// What each member is to do, by rank, when its queue pairs have these settings.
    pub(crate) fn specs(
        &self,
        rc: impl Fn(usize) -> (RcConfig, Vec<PathSettings>),
    ) -> Vec<TransferSpec> {
        let job = self.job;
        let size = job.data.bytes().len() as u64;
        let addresses: Members = job
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
        let (racks, sources) = (self.racks(&job.members), self.sources());
        let counts_requests = !self.algorithm.relays() && self.guarded().is_none();
        let spec = |rank: usize| {
            let (rc, paths) = rc(rank);
            let spec = TransferSpec {
                collective: job.collective,
                algorithm: self.algorithm,
                rank: rank as u32,
                members: addresses.clone(),
                size,
                slices: slices * self.parts(),
                op: job.op,
                write: job.write,
                sources: Arc::clone(&sources),
                receives: job
                    .receives
                    .filter(|_| !is_rdmc && !self.algorithm.needs_datagrams()),
                rc: Some(rc),
                paths,
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
                ready: match block.filter(|_| is_rdmc) {
                    Some(block) => Some(job.ready.unwrap_or(max_blocks_in_flight(block))),
                    None => job.ready.filter(|_| is_overlay),
                },
                depth: job.depth.filter(|_| counts_requests),
                announce: is_rdmc && job.op == TransferOp::Send,
                // The orchestrator compares: a wrong byte is a result, not a failure to get one.
                expected_sha256: None,
            };
            // Who learns the size from the data gets nothing before.
            match spec.announce && rank > 0 {
                true => TransferSpec {
                    size: 0,
                    slices: 0,
                    ..spec
                },
                false => spec,
            }
        };
        (0..job.members.len()).map(spec).collect()
    }

    /// The racks of members, which are their leaf switches; nothing unless the algorithm wants to know.
    pub(crate) fn racks(&self, members: &[HostIndex]) -> Racks {
        let rack = |&host: &HostIndex| self.topology.attachment(host).0 .0 as u32;
        match self.algorithm.needs_racks() {
            true => members.iter().map(rack).collect(),
            false => Racks::default(),
        }
    }

    /// The settings of a member's queue pairs on a fabric whose controller delays acknowledgements by so many nanoseconds.
    pub(crate) fn rc(&self, fabric: &dyn Fabric, rank: usize, answers_later: u64) -> RcConfig {
        let limits = self.limits.as_ref().map(|limits| limits.of(rank));
        self.rc_within(limits, fabric, rank, answers_later)
    }

    /// Those of its queue pairs to single members, where their paths differ.
    pub(crate) fn paths(
        &self,
        fabric: &dyn Fabric,
        rank: usize,
        answers_later: u64,
    ) -> Vec<PathSettings> {
        let limits = self.limits.iter();
        let limits = limits.flat_map(|limits| limits.to_members(rank));
        let settings = limits.map(|&(host, limits)| PathSettings {
            peer: self.topology.host(host).ip,
            rc: self.rc_within(Some(limits), fabric, rank, answers_later),
        });
        settings.collect()
    }

    fn rc_within(
        &self,
        limits: Option<SendLimits>,
        fabric: &dyn Fabric,
        rank: usize,
        answers_later: u64,
    ) -> RcConfig {
        let host = self.job.members[rank];
        let link = self.topology.link(self.topology.uplink(host).link);
        let own_bps = link.attributes.rate_bps;
        let rc = fabric.rc(self.job.mtu).with_recovery(self.job.recovery);
        let rc = limits.map_or(rc, |limits| limits.apply(rc));
        // Without limits links have no rates either.
        let later_bps = limits.map_or(0, |limits| limits.rate_bps);
        let rc = rc.with_ack_delay(answers_later, later_bps);
        let wanted = &self.job.sender;
        RcConfig {
            congestion: match self.job.congestion {
                Congestion::None => None,
                Congestion::Dcqcn => Some(DcqcnConfig::new(own_bps)),
            },
            window: wanted.window.unwrap_or(rc.window),
            ack_timeout: wanted.ack_timeout.unwrap_or(rc.ack_timeout),
            retries: wanted.retries.unwrap_or(rc.retries),
            pace_bps: match wanted.pace {
                // Where marks say how fast to send, the topology need not.
                Pace::Path if self.job.congestion == Congestion::Dcqcn => None,
                Pace::Path => rc.pace_bps,
                Pace::Off => None,
                Pace::At(rate) => Some(rate),
            },
            ..rc
        }
    }

    /// How often, until an acknowledgement comes, a switch leaves something to the controller and waits for it: the copy for
    /// a receiver at its leaf, the minimum at every switch.
    pub(crate) fn round_trips_to_controller(&self) -> u64 {
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
    pub(crate) fn switches_between(&self) -> u64 {
        let paths = Paths::new(self.topology);
        let hosts = self.job.members.iter();
        // One host of each switch stands for all of them.
        let leaves: BTreeMap<SwitchIndex, HostIndex> = hosts
            .map(|&host| (self.topology.attachment(host).0, host))
            .collect();
        let ways = leaves
            .keys()
            .flat_map(|leaf| leaves.values().map(move |host| (*leaf, *host)));
        let lengths = ways
            .filter(|(leaf, host)| paths.reaches(*leaf, *host))
            .map(|(leaf, host)| paths.distance(leaf, host));
        lengths.max().unwrap_or(0).into()
    }

    pub(crate) fn group(&self) -> GroupSpec {
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

    /// What the first member keeps to whose queue pairs have these settings.
    pub(crate) fn sender(&self, rc: &RcConfig) -> SenderRow {
        let limits = self.limits.as_ref().map(|limits| limits.of(0));
        SenderRow {
            window: rc.window,
            ack_timeout_ns: rc.ack_timeout.ns(),
            pace_bps: rc.pace_bps.map(NonZeroU64::get),
            bottleneck_bps: limits.map(|limits| limits.rate_bps),
            round_trip_ns: limits.map(|limits| limits.round_trip_ns),
        }
    }

    /// The longest time that setting up, and then the transfer, may each take, in nanoseconds.
    pub(crate) fn time_limit(&self) -> u64 {
        let job = self.job;
        let all = (job.data.bytes().len() as u64).saturating_mul(job.members.len() as u64);
        let slowest = self
            .limits
            .as_ref()
            .and_then(|_| slowest_bps(self.topology));
        job.time_limit.unwrap_or_else(|| time_limit(all, slowest))
    }

    /// Packets that any member can have outstanding, on a fabric whose controller delays acknowledgements by so many nanoseconds.
    pub(crate) fn window(&self, fabric: &dyn Fabric, answers_later: u64) -> Window {
        // Of a long list of turns each member has some.
        let senders = 0..self.job.members.len().min(self.parts() as usize);
        let packets = senders.map(|rank| self.rc(fabric, rank, answers_later).window);
        Window::at_least(packets.max().unwrap_or(0))
    }

    /// The request for a group of these endpoints, of which the source is never further ahead than `window`.
    pub(crate) fn registration(&self, endpoints: &[Endpoint], window: Window) -> RegisterGroup {
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
        RegisterGroup {
            mcst_id: Some(self.mcst_id()),
            virtual_qpn: Some(self.virtual_qpn()),
            members: members.collect(),
            initial_psn: self.initial_psn(),
            strategies: Strategies {
                recovery: self.job.recovery,
                window,
                ..self.job.strategies
            },
        }
    }

    /// The group's first PSN: near the wrap-around for some seeds, as on real NICs.
    pub(crate) fn initial_psn(&self) -> Psn {
        let drawn = || Psn::new(self.drawn("initial psn"));
        self.job.initial_psn.unwrap_or_else(drawn)
    }

    /// The queue pair number that the members of the present group address.
    pub(crate) fn virtual_qpn(&self) -> QpNum {
        // Another one when the same job runs on the same fabric again.
        QpNum::ordinary(self.drawn(&format!("virtual qpn at {}", self.begun)))
    }

    /// A number for the present group.
    pub(crate) fn drawn(&self, what: &str) -> u32 {
        let of_seed = match self.generation {
            0 => seed(self.job.seed, what),
            n => seed(self.job.seed, &format!("{what} {n}")),
        };
        of_seed as u32
    }

    /// The address of the present group. Each has another, so that what is left of one on the way finds no other.
    pub(crate) fn mcst_id(&self) -> Ipv4Addr {
        let first = u32::from(self.job.mcst_id);
        first.wrapping_add(self.generation).into()
    }

    /// When the group is to be given up, and for what; nothing unless it is watched.
    pub(crate) fn guarded(&self) -> Option<(SafeguardConfig, Algorithm)> {
        let is_plain = self.algorithm.needs_group()
            && self.job.switch_source == 0
            && self.job.collective == Collective::Broadcast;
        let config = self
            .job
            .safeguard
            .filter(|_| is_plain || self.generation > 0)?;
        Some((config, self.job.fallback?))
    }
}

/// The other ends of the edges of each of so many members, by rank, from the endpoints of all.
///
/// Members of a group in the fabric need none, but those that announce the others' memory: `tells` says whether a rank may do so.
pub(crate) fn peers(
    members: usize,
    endpoints: &[Endpoint],
    tells: impl Fn(u32) -> bool,
) -> Vec<Vec<Endpoint>> {
    let mut peers: Vec<Vec<Endpoint>> = vec![Vec::new(); members];
    for endpoint in endpoints {
        match endpoint.edge {
            EdgeId::Pair { from, to } => {
                let other = if endpoint.rank == from { to } else { from };
                peers[other as usize].push(endpoint.clone());
            }
            EdgeId::Group { .. } => {
                let all = (0..).zip(&mut peers);
                all.filter(|(rank, _)| tells(*rank))
                    .for_each(|(_, p)| p.push(endpoint.clone()));
            }
            // The others learn of each other from the root.
            EdgeId::Datagrams { root } if endpoint.rank == root => {
                peers.iter_mut().for_each(|p| p.push(endpoint.clone()));
            }
            EdgeId::Datagrams { .. } => {}
        }
    }
    peers
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

/// The rate of a network's slowest link, in bits per second.
pub(crate) fn slowest_bps(topology: &Topology) -> Option<u64> {
    let rates = topology.links().iter().map(|link| link.attributes.rate_bps);
    rates.min()
}

/// Nanoseconds after which nobody waits any longer for so many bytes, where all of them may go over a link of `slowest_bps` bits per second.
pub(crate) fn time_limit(bytes: u64, slowest_bps: Option<u64>) -> u64 {
    const LEAST_NS: u64 = 60_000_000_000;
    const TIMES: u64 = 20;
    let carried = slowest_bps.map_or(0, |rate| serialisation_ps(bytes, rate) / 1_000);
    LEAST_NS.saturating_add(carried.saturating_mul(TIMES))
}
