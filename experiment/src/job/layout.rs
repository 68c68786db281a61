//! Derives what a job means for one algorithm: the transfer specification of each member, and the group. Pure
//! functions.
//!
//! Terms: a *group* is a multicast group of the fabric. An *overlay* is an algorithm that uses only unicast connections
//! between members. A *slice* is one message of the data, and a *part* is what one of several sources sends.

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

use super::limits::{self, Contention, Limits, ProcessingTimes, SendLimits};
use super::spec::{Congestion, Job, Pace};
use crate::fabric::Fabric;
use crate::report::SenderRow;
use crate::safeguard::SafeguardConfig;
use crate::stream::seed;

/// Destination of multicast datagrams: an address of the organization-local scope (RFC 2365).
pub(super) const DATAGRAM_GROUP: Ipv4Addr = Ipv4Addr::new(239, 192, 0, 4);

/// Virtual address of the memory region of every member, in a group where all regions have the same address and R_Key
/// ([`WriteMode::Uniform`]).
const UNIFORM_VA: u64 = 0x5a00_0000_0000;
/// R_Key of the memory region of every member, in a group with [`WriteMode::Uniform`]. Hosts do not otherwise assign
/// this key.
const UNIFORM_RKEY: u32 = 0xa1f1_0001;

/// A job as one algorithm executes it: its members, send limits, and current group.
pub(crate) struct Layout<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) job: &'a Job,
    /// The algorithm that runs. After a fallback it differs from the requested algorithm.
    pub(crate) algorithm: Algorithm,
    /// Send limits (rates, windows and timeouts) derived from the paths; `None` if links do not have the topology's
    /// rates.
    limits: Option<Limits>,
    /// Start time of the job in nanoseconds, on the fabric's clock.
    pub(crate) started_at: u64,
    /// Number of groups that the job has requested before the current group; it selects the current group's address and
    /// numbers.
    pub(crate) generation: u32,
}

impl<'a> Layout<'a> {
    /// Creates the layout of a job that started at `started_at`, without send limits.
    pub(crate) fn new(
        topology: &'a Topology,
        job: &'a Job,
        algorithm: Algorithm,
        started_at: u64,
    ) -> Layout<'a> {
        Layout {
            topology,
            job,
            algorithm,
            limits: None,
            started_at,
            generation: 0,
        }
    }

    /// Adds send limits derived from the topology and from `processing`. If `processing` is `None`, links do not have
    /// the topology's rates, and there are no limits. `paths` caches the topology's paths; `contended` are links shared
    /// with jobs that run at the same time.
    pub(crate) fn with_limits(
        mut self,
        processing: Option<ProcessingTimes>,
        paths: &OnceCell<Paths>,
        contended: Option<&Contention>,
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
            match self.safeguard_and_overlay() {
                // Queue pairs of all legs have the same settings.
                Some((_, to)) => of(self.algorithm).combine(&of(to), self.job.members.len()),
                None => of(self.algorithm),
            }
        });
        self
    }
}

impl Layout<'_> {
    /// Number of parts of the data. Each part is sent by another source than the part before it.
    pub(crate) fn parts(&self) -> u32 {
        match (self.algorithm.needs_group(), self.job.collective) {
            (true, Collective::Broadcast) => self.job.switch_source + 1,
            // On a group, members multicast their pieces in turn.
            (true, Collective::Allgather) => self.job.members.len() as u32,
            _ => 1,
        }
    }

    /// Whether a member is the group's source at some time during the transfer.
    pub(crate) fn may_send(&self, rank: u32) -> bool {
        // Sources follow in the order of ranks.
        rank < self.parts()
    }

    /// Whether a member announces the others' memory regions to the switches of a group.
    pub(crate) fn announces_memory(&self, rank: u32) -> bool {
        self.job.write == WriteMode::PerRequest && self.may_send(rank)
    }

    /// Rank of the source of each part; empty if the first member sends everything.
    pub(crate) fn sources(&self) -> Arc<[u32]> {
        match self.parts() {
            1 => Arc::default(),
            parts => (0..parts)
                .map(|part| part % self.job.members.len() as u32)
                .collect(),
        }
    }

    /// Returns the transfer specification of each member, by rank. `rc` returns the settings of a rank's queue pairs:
    /// the general settings, and the settings towards single members.
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
        // Data that may change its path is sliced as by an algorithm that relays.
        let like = match self.safeguard_and_overlay() {
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
        let cut = self.algorithm.relays() || requests || self.safeguard_and_overlay().is_some();
        let slices = match job.collective {
            // The number of pieces or signals is that of the members.
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
        let counts_requests = !self.algorithm.relays() && self.safeguard_and_overlay().is_none();
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
                    qkey: self.random_number("qkey") >> 1,
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
                // The orchestrator compares digests: a wrong byte is a result, not an error.
                expected_sha256: None,
            };
            // A member that gets the size with the data must not have it before.
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

    /// Rack of each member, given by its leaf switch. Empty unless the algorithm uses racks.
    pub(crate) fn racks(&self, members: &[HostIndex]) -> Racks {
        let rack = |&host: &HostIndex| self.topology.attachment(host).0 .0 as u32;
        match self.algorithm.needs_racks() {
            true => members.iter().map(rack).collect(),
            false => Racks::default(),
        }
    }

    /// Settings of a member's queue pairs. `controller_ack_delay_ns`: time in nanoseconds by which the controller
    /// delays an acknowledgement.
    pub(crate) fn rc(
        &self,
        fabric: &dyn Fabric,
        rank: usize,
        controller_ack_delay_ns: u64,
    ) -> RcConfig {
        let limits = self.limits.as_ref().map(|limits| limits.of(rank));
        self.rc_within(limits, fabric, rank, controller_ack_delay_ns)
    }

    /// Settings of a member's queue pairs towards each single other member. Empty if all paths have the same settings.
    pub(crate) fn path_settings(
        &self,
        fabric: &dyn Fabric,
        rank: usize,
        controller_ack_delay_ns: u64,
    ) -> Vec<PathSettings> {
        let limits = self.limits.iter();
        let limits = limits.flat_map(|limits| limits.to_members(rank));
        let settings = limits.map(|&(host, limits)| PathSettings {
            peer: self.topology.host(host).ip,
            rc: self.rc_within(Some(limits), fabric, rank, controller_ack_delay_ns),
        });
        settings.collect()
    }

    /// Settings of a member's queue pairs within `limits`, with the overrides of the job.
    fn rc_within(
        &self,
        limits: Option<SendLimits>,
        fabric: &dyn Fabric,
        rank: usize,
        controller_ack_delay_ns: u64,
    ) -> RcConfig {
        let host = self.job.members[rank];
        let link = self.topology.link(self.topology.uplink(host).link);
        let own_bps = link.attributes.rate_bps;
        let rc = fabric.rc(self.job.mtu).with_recovery(self.job.recovery);
        let rc = limits.map_or(rc, |limits| limits.apply(rc));
        // Without limits links have no rates either.
        let later_bps = limits.map_or(0, |limits| limits.rate_bps);
        let rc = rc.with_ack_delay(controller_ack_delay_ns, later_bps);
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
                // With DCQCN, marks determine the rate.
                Pace::Path if self.job.congestion == Congestion::Dcqcn => None,
                Pace::Path => rc.pace_bps,
                Pace::Off => None,
                Pace::At(rate) => Some(rate),
            },
            ..rc
        }
    }

    /// Maximum number of round trips between switches and controller that delay one acknowledgement. A punted packet
    /// takes one round trip. [`IcrcMode::Punt`] punts each copy for a receiver, and [`MinPsn::Punt`] punts an
    /// acknowledgement at each switch.
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

    /// Maximum number of switches on an acknowledgement's path.
    pub(crate) fn switches_between(&self) -> u64 {
        let paths = Paths::new(self.topology);
        let hosts = self.job.members.iter();
        // One host of each leaf represents all of them.
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

    /// Send settings of the first member's queue pairs, and figures of its paths, for the report.
    pub(crate) fn sender_row(&self, rc: &RcConfig) -> SenderRow {
        let limits = self.limits.as_ref().map(|limits| limits.of(0));
        SenderRow {
            window: rc.window,
            ack_timeout_ns: rc.ack_timeout.ns(),
            pace_bps: rc.pace_bps.map(NonZeroU64::get),
            bottleneck_bps: limits.map(|limits| limits.rate_bps),
            round_trip_ns: limits.map(|limits| limits.round_trip_ns),
        }
    }

    /// Time limit in nanoseconds: for the setup, and again for the transfer.
    pub(crate) fn time_limit(&self) -> u64 {
        let job = self.job;
        let all = (job.data.bytes().len() as u64).saturating_mul(job.members.len() as u64);
        let slowest = self
            .limits
            .as_ref()
            .and_then(|_| slowest_bps(self.topology));
        job.time_limit.unwrap_or_else(|| time_limit(all, slowest))
    }

    /// Maximum number of packets that any member may have outstanding. `controller_ack_delay_ns`: time in nanoseconds
    /// by which the controller delays an acknowledgement.
    pub(crate) fn window(&self, fabric: &dyn Fabric, controller_ack_delay_ns: u64) -> Window {
        // Each member is the source at some time within the first round of a long list of parts.
        let senders = 0..self.job.members.len().min(self.parts() as usize);
        let packets = senders.map(|rank| self.rc(fabric, rank, controller_ack_delay_ns).window);
        Window::at_least(packets.max().unwrap_or(0))
    }

    /// Request to register a group of these endpoints. `window`: number of packets that a source may send beyond the
    /// last acknowledged packet.
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

    /// Initial PSN of the group: given by the job, or else random as on real NICs. Some seeds give a PSN near the
    /// wrap-around.
    pub(crate) fn initial_psn(&self) -> Psn {
        let drawn = || Psn::new(self.random_number("initial psn"));
        self.job.initial_psn.unwrap_or_else(drawn)
    }

    /// Queue pair number to which the members of the current group send.
    pub(crate) fn virtual_qpn(&self) -> QpNum {
        // Differs when the same job runs on the same fabric again.
        QpNum::ordinary(self.random_number(&format!("virtual qpn at {}", self.started_at)))
    }

    /// Returns a random number for the current group, from the random stream named `what`.
    pub(crate) fn random_number(&self, what: &str) -> u32 {
        let of_seed = match self.generation {
            0 => seed(self.job.seed, what),
            n => seed(self.job.seed, &format!("{what} {n}")),
        };
        of_seed as u32
    }

    /// Address of the current group. Each group of a job has another address, so packets of an earlier group cannot
    /// reach it.
    pub(crate) fn mcst_id(&self) -> Ipv4Addr {
        let first = u32::from(self.job.mcst_id);
        first.wrapping_add(self.generation).into()
    }

    /// Settings of the safeguard, which may leave the group, and the overlay algorithm that then runs; `None` if no
    /// safeguard watches the group.
    pub(crate) fn safeguard_and_overlay(&self) -> Option<(SafeguardConfig, Algorithm)> {
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

/// Selects the remote endpoints that each of the first `members` ranks needs in order to connect its queue pairs.
///
/// A member of a multicast group needs none, except if it announces the others' memory regions. `tells(rank)`: whether
/// this rank announces them.
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
            // The other members get each other's endpoints from the root.
            EdgeId::Datagrams { root } if endpoint.rank == root => {
                peers.iter_mut().for_each(|p| p.push(endpoint.clone()));
            }
            EdgeId::Datagrams { .. } => {}
        }
    }
    peers
}

/// Size of a block in bytes, if data of `size` bytes is divided into about `slices` blocks: at least 1 byte, and a
/// whole number of 4,096-byte packets if larger than one packet.
fn block_size(size: u64, slices: u32) -> u32 {
    const PACKET: u64 = 4_096;
    let even = size.div_ceil(slices.into());
    let block = match even > PACKET {
        true => even.next_multiple_of(PACKET),
        false => even.max(1),
    };
    block.min(MAX_MESSAGE) as u32
}

/// Rate of the network's slowest link in bits per second; `None` without links.
pub(crate) fn slowest_bps(topology: &Topology) -> Option<u64> {
    let rates = topology.links().iter().map(|link| link.attributes.rate_bps);
    rates.min()
}

/// Default time limit in nanoseconds for a transfer of `bytes` bytes: 60 s, plus 20 times the duration of all bytes on
/// a link of `slowest_bps` bits per second.
pub(crate) fn time_limit(bytes: u64, slowest_bps: Option<u64>) -> u64 {
    const MIN_NS: u64 = 60_000_000_000;
    const DURATION_FACTOR: u64 = 20;
    let carried = slowest_bps.map_or(0, |rate| serialisation_ps(bytes, rate) / 1_000);
    MIN_NS.saturating_add(carried.saturating_mul(DURATION_FACTOR))
}
