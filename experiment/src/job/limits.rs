//! Send limits of a job: rates, windows and timeouts derived from the paths of the topology. Pure functions.
//!
//! A multicast is as fast as its slowest path. A faster sender fills the queue at the bottleneck until it overflows; with go-back-N all
//! packets after the lost one are then retransmitted. So a sender
//!
//! - is paced at the rate of the slowest link to any of its receivers, if that is below the rate of its own link,
//! - has a window of that rate times its longest round trip (the bandwidth-delay product), plus the packets between two acknowledgements,
//! - has an ACK timeout of twice the longest round trip, plus the time to drain full queues on the path.
//!
//! Where the algorithm's own flows share a link that cannot carry all of them, each flow has a window of at most its share of that link's
//! bandwidth-delay product and queue. So the queue never overflows, with congestion control (DCQCN) not even before marks take effect.
//! With priority flow control (PFC) nothing is dropped, so the share does not apply.
//!
//! With several shortest paths, the worst value of each figure applies, since switches choose by a hash. In a group, the paths are those
//! of the tree that the controller builds ([`Tree`]).

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

use alfirk_ctrl::topology::{
    HostIndex, LinkAttributes, LinkIndex, Neighbour, Node, Paths, SwitchIndex, Topology,
};
use alfirk_ctrl::tree::{Planner, PortLoads, Tree, View};
use alfirk_packet_io::wire::{serialisation_ps, wire_bytes};
use alfirk_roce::collective::{Algorithm, EdgeId, Racks, Shape};
use alfirk_roce::rc::{AckTimeout, PathMtu, RcConfig};
use alfirk_roce::wire::{aeth, immdt, reth, FRAME_OVERHEAD};

use super::spec::Job;

/// Bytes around the payload of a message's longest packet, which has a RETH and an immediate.
const PACKET_OVERHEAD: usize = FRAME_OVERHEAD + reth::HEADER_LEN + immdt::HEADER_LEN;

/// Bytes of an ACKNOWLEDGE packet.
const ACK_FRAME: usize = FRAME_OVERHEAD + aeth::HEADER_LEN;

/// Number of members above which the paths of overlays are not computed individually. An overlay is an algorithm that
/// uses only unicast connections between members.
const MAX_MEMBERS: usize = 1_024;

/// Tolerated ratio of demand to a link's rate before it counts as overloaded, as sums of shares are not exact.
const SLACK: f64 = 1.01;

/// Window in packets that bridges pauses of application and controller. The smaller one of this and [`COMFORT_NS`]
/// applies.
const COMFORT_PACKETS: u64 = 128;
/// Duration in nanoseconds of the same window at the rate of the bottleneck.
const COMFORT_NS: u64 = 430_000;

/// Minimum window that keeps a flow busy with a packet at each end.
const MIN_WINDOW: u64 = 4;

/// Processing times of hosts and switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processing {
    /// Switch latency in nanoseconds: from the last bit of a packet in, to its output queue.
    pub switch_ns: u64,
    /// Nanoseconds that two NICs and an application take for a packet and its reply.
    pub host_ns: u64,
}

/// Limits of one sender, derived from the paths to its receivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendLimits {
    /// Rate of the slowest link to any receiver, in bits per second.
    pub rate_bps: u64,
    /// Round trip of a packet and its acknowledgement to the farthest receiver, with empty queues, in nanoseconds.
    pub round_trip_ns: u64,
    /// Pacing rate in bits per second on the wire; `None` if the sender's own link is the slowest.
    pub pace_bps: Option<NonZeroU64>,
    /// Window in packets that keeps the slowest path busy: the bandwidth-delay product, and packets between acknowledgements.
    pub window: u32,
    /// Largest window in packets with which no queue on the path overflows; `None` if the flow shares no overloaded
    /// link.
    pub max_window: Option<u32>,
    /// Maximum nanoseconds from a packet to its acknowledgement, without losses.
    pub longest_answer_ns: u64,
}

impl SendLimits {
    /// Combines two sets of limits: for each figure, the one that suits both.
    fn or(self, other: SendLimits) -> SendLimits {
        let least = |a: Option<u32>, b: Option<u32>| a.into_iter().chain(b).min();
        SendLimits {
            rate_bps: self.rate_bps.min(other.rate_bps),
            round_trip_ns: self.round_trip_ns.max(other.round_trip_ns),
            pace_bps: self.pace_bps.into_iter().chain(other.pace_bps).min(),
            window: self.window.max(other.window),
            max_window: least(self.max_window, other.max_window),
            longest_answer_ns: self.longest_answer_ns.max(other.longest_answer_ns),
        }
    }

    /// Returns `rc` with these limits for window and rate, and with an ACK timeout of at least twice the longest wait
    /// for an acknowledgement.
    #[must_use]
    pub fn apply(&self, rc: RcConfig) -> RcConfig {
        // The default window suits 10 Gb/s and more, and would fill the queues of slower paths; with selective repeat it is a multiple.
        let more = rc.window / RcConfig::new(rc.mtu).window.max(1);
        let window = self.window.saturating_mul(more.max(1));
        let timeout = self.longest_answer_ns.saturating_mul(2);
        RcConfig {
            window: self.max_window.map_or(window, |most| window.min(most)),
            ack_timeout: match rc.ack_timeout.ns() {
                Some(ns) => AckTimeout::at_least(ns.max(timeout)),
                None => rc.ack_timeout,
            },
            pace_bps: self.pace_bps,
            ..rc
        }
    }
}

/// Limits of all members of a job, by rank.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Limits of each rank; the last entry applies to all further ranks.
    of_rank: Vec<SendLimits>,
    /// Limits of each rank towards single members; empty if its paths do not differ, and missing for further ranks.
    to_members: Vec<Vec<(HostIndex, SendLimits)>>,
}

impl Limits {
    /// Limits of a member.
    pub fn of(&self, rank: usize) -> SendLimits {
        self.of_rank[rank.min(self.of_rank.len() - 1)]
    }

    /// Limits of a member towards single other members; empty if they do not differ.
    pub fn to_members(&self, rank: usize) -> &[(HostIndex, SendLimits)] {
        self.to_members.get(rank).map_or(&[], Vec::as_slice)
    }

    /// Combines the limits of two algorithms for `members` members, so that they suit both.
    pub fn or(&self, other: &Limits, members: usize) -> Limits {
        let of_rank = (0..members).map(|rank| self.of(rank).or(other.of(rank)));
        Limits {
            of_rank: of_rank.collect(),
            to_members: Vec::new(),
        }
    }

    /// Limits of `algorithm` on this network. `senders` is the number of first members that send to a group. `contended` are links shared
    /// with jobs that run at the same time; `None` considers the algorithm's own streams only.
    pub(crate) fn new(
        network: &Network<'_>,
        job: &Job,
        algorithm: Algorithm,
        racks: &Racks,
        senders: usize,
        contended: Option<&Contention>,
    ) -> Limits {
        let topology = network.topology;
        let scale = Scale::new(job.mtu, network.processing);
        let is_uniform = is_uniform(topology);
        let is_alone = contended.is_none_or(|contended| contended.0.is_empty());
        let is_large = job.members.len() > MAX_MEMBERS;
        let mut to_members = Vec::new();
        let of_rank = if is_uniform && algorithm.needs_group() && is_alone
            || is_large && !algorithm.needs_group()
        {
            vec![by_hops(topology, &job.members, &scale)]
        } else if algorithm.needs_datagrams() {
            vec![of_all_pairs(network, &job.members, &scale)]
        } else {
            let streams = streams_of(network, job, algorithm, racks, senders, &scale);
            let own = match can_overflow(topology) && !algorithm.needs_group() {
                true => Contention::among(topology, streams.iter().flatten()),
                false => Contention::default(),
            };
            let contended = contended.unwrap_or(&own);
            to_members = to_members_of(network, &streams, contended, &scale);
            of_streams(network, job, &streams, contended, &scale)
        };
        Limits {
            of_rank,
            to_members,
        }
    }
}

/// Inputs of the computation of limits.
pub(crate) struct Network<'a> {
    pub(crate) topology: &'a Topology,
    /// The topology's paths, computed on first use.
    pub(crate) paths: &'a OnceCell<Paths>,
    pub(crate) processing: Processing,
}

impl Network<'_> {
    fn paths(&self) -> &Paths {
        self.paths.get_or_init(|| Paths::new(self.topology))
    }
}

/// Constants for converting paths to limits.
struct Scale {
    /// Bytes on the wire of a full packet.
    packet: u64,
    /// Bytes on the wire of an acknowledgement.
    ack: u64,
    processing: Processing,
    /// Packets sent between two acknowledgements, and until the second one arrives: twice the interval of ACK requests.
    ack_gap: u64,
}

impl Scale {
    fn new(mtu: PathMtu, processing: Processing) -> Scale {
        Scale {
            packet: wire_bytes(mtu.bytes() + PACKET_OVERHEAD),
            ack: wire_bytes(ACK_FRAME),
            processing,
            ack_gap: 2 * u64::from(RcConfig::new(mtu).ack_every),
        }
    }

    /// Nanoseconds that `packets` full packets take at a rate.
    fn packets_ns(&self, packets: u64, rate_bps: u64) -> u64 {
        serialisation_ps(packets.saturating_mul(self.packet), rate_bps).div_ceil(1_000)
    }

    /// Number of full packets that fit into `ns` nanoseconds at a rate.
    fn packets_in(&self, ns: u64, rate_bps: u64) -> u64 {
        let bits = u128::from(ns) * u128::from(rate_bps) / 1_000_000_000;
        u64::try_from(bits / 8 / u128::from(self.packet)).unwrap_or(u64::MAX)
    }

    /// Creates a path without links, to be extended by [`Scale::over`].
    fn start(&self) -> Path {
        Path {
            rate_bps: u64::MAX,
            round_trip_ns: self.processing.host_ns,
            queues_ns: 0,
        }
    }

    /// Extends a path by a link. The sender is a switch, except on the first link.
    fn over(&self, path: Path, link: &LinkAttributes, is_first: bool) -> Path {
        let there = serialisation_ps(self.packet, link.rate_bps).div_ceil(1_000);
        let back = serialisation_ps(self.ack, link.rate_bps).div_ceil(1_000);
        let switches = if is_first {
            0
        } else {
            2 * self.processing.switch_ns
        };
        let link_ns = (there + back).saturating_add(link.delay_ns.saturating_mul(2));
        let queue_ns = match is_first {
            true => 0,
            false => serialisation_ps(link.queue_bytes, link.rate_bps).div_ceil(1_000),
        };
        Path {
            rate_bps: path.rate_bps.min(link.rate_bps),
            round_trip_ns: path.round_trip_ns.saturating_add(link_ns + switches),
            queues_ns: path.queues_ns.saturating_add(queue_ns),
        }
    }

    /// Limits of a sender whose link has `own_bps` bits per second, with these paths. `shared` is its share of the most loaded link, if
    /// flows share one.
    fn limits(&self, own_bps: u64, path: Path, shared: Option<Shared>) -> SendLimits {
        let rate_bps = path.rate_bps.min(own_bps);
        let pipe = self.packets_in(path.round_trip_ns, rate_bps) + 1;
        let comfort = COMFORT_PACKETS.min(self.packets_in(COMFORT_NS, rate_bps));
        let needed = (pipe + self.ack_gap).saturating_mul(5) / 4;
        let window = needed.max(comfort);
        let is_paced = rate_bps < own_bps;
        let most = shared.map(|shared| shared.packets.max(MIN_WINDOW));
        let window = most.map_or(window, |most| window.min(most));
        // Packets that may be queued before a packet: the windows of its own flow and of those that share the link.
        let flows = shared.map_or(1, |shared| shared.flows);
        let ahead = self.packets_ns(window.saturating_mul(flows), rate_bps);
        let waits = match is_paced || shared.is_some() {
            true => ahead.min(path.queues_ns.saturating_mul(2)),
            false => 0,
        };
        let pace_bps = match shared {
            Some(shared) if shared.packets < MIN_WINDOW => Some(shared.rate_bps.min(rate_bps)),
            _ => is_paced.then_some(rate_bps),
        };
        let answer = path.round_trip_ns.saturating_add(waits);
        SendLimits {
            rate_bps,
            round_trip_ns: path.round_trip_ns,
            pace_bps: pace_bps.and_then(NonZeroU64::new),
            window: u32::try_from(window).unwrap_or(u32::MAX),
            max_window: most.map(|most| u32::try_from(most).unwrap_or(u32::MAX)),
            longest_answer_ns: answer.saturating_add(self.packets_ns(self.ack_gap, rate_bps)),
        }
    }
}

/// Figures of a path from a sender to a receiver, or the worst of several.
#[derive(Debug, Clone, Copy)]
struct Path {
    rate_bps: u64,
    /// Round trip of a full packet and its acknowledgement with empty queues, in nanoseconds.
    round_trip_ns: u64,
    /// Time to drain all queues of switches on the path in nanoseconds, if they are full.
    queues_ns: u64,
}

impl Path {
    /// Combines two paths: for each figure, the worse one.
    fn or(self, other: Path) -> Path {
        Path {
            rate_bps: self.rate_bps.min(other.rate_bps),
            round_trip_ns: self.round_trip_ns.max(other.round_trip_ns),
            queues_ns: self.queues_ns.max(other.queues_ns),
        }
    }
}

/// Share of one flow of a link that several flows load.
#[derive(Debug, Clone, Copy)]
struct Shared {
    /// Packets that the flow may have on the link and in its queue.
    packets: u64,
    /// Number of flows on the link.
    flows: u64,
    rate_bps: u64,
}

impl Shared {
    /// Combines the shares of two links: for each figure, the one that leaves less to the flow.
    fn or(self, other: Shared) -> Shared {
        Shared {
            packets: self.packets.min(other.packets),
            flows: self.flows.max(other.flows),
            rate_bps: self.rate_bps.min(other.rate_bps),
        }
    }
}

/// Whether all links have equal attributes.
fn is_uniform(topology: &Topology) -> bool {
    let mut links = topology.links().iter().map(|link| link.attributes);
    let first = links.next();
    links.all(|link| {
        first.is_some_and(|first| {
            (link.rate_bps, link.delay_ns, link.queue_bytes)
                == (first.rate_bps, first.delay_ns, first.queue_bytes)
        })
    })
}

/// Equal limits for all members, from the number of links between them, with the worst link's attributes.
fn by_hops(topology: &Topology, members: &[HostIndex], scale: &Scale) -> SendLimits {
    let distances = distances(topology, topology.attachment(members[0]).0);
    let farthest = |host: &HostIndex| distances[topology.attachment(*host).0 .0];
    // The distance of two members is at most the sum of their distances to the first one.
    let mut hops: Vec<u32> = members.iter().map(farthest).collect();
    hops.sort_unstable();
    let between = hops.iter().rev().take(2).sum::<u32>();
    let worst = topology
        .links()
        .iter()
        .fold(None, |worst: Option<LinkAttributes>, link| {
            let link = link.attributes;
            Some(worst.map_or(link, |worst| LinkAttributes {
                rate_bps: worst.rate_bps.min(link.rate_bps),
                delay_ns: worst.delay_ns.max(link.delay_ns),
                queue_bytes: worst.queue_bytes.max(link.queue_bytes),
                ..worst
            }))
        });
    let worst = worst.unwrap_or_default();
    let mut path = scale.over(scale.start(), &worst, true);
    for _ in 0..=between.max(1) {
        path = scale.over(path, &worst, false);
    }
    scale.limits(worst.rate_bps, path, None)
}

/// Number of links between one switch and every other.
fn distances(topology: &Topology, from: SwitchIndex) -> Vec<u32> {
    let mut distances = vec![u32::MAX; topology.switches().len()];
    distances[from.0] = 0;
    let mut queue = std::collections::VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        for neighbour in topology.neighbours(at) {
            if let Node::Switch(next) = neighbour.peer.node {
                if distances[next.0] == u32::MAX {
                    distances[next.0] = distances[at.0] + 1;
                    queue.push_back(next);
                }
            }
        }
    }
    distances
}

/// Packet streams over the tree of the group, one from each of the first `senders` members.
fn streams_of_group(
    network: &Network<'_>,
    job: &Job,
    senders: usize,
    scale: &Scale,
) -> Vec<Stream> {
    let topology = network.topology;
    let view = View {
        topology,
        paths: network.paths(),
        loads: &PortLoads::default(),
    };
    // Tree policies were checked before; the default one supports every network.
    let planner = Planner::new(job.tree_policy, topology).unwrap_or(Planner::ReuseLeastLoaded);
    let tree = Tree::grow(&planner, &view, &job.members);
    let of = |&host: &HostIndex| {
        let own = topology.link(topology.uplink(host).link).attributes;
        let first = scale.over(scale.start(), &own, true);
        let (leaf, port) = topology.attachment(host);
        let mut worst: Option<Path> = None;
        let mut links = Vec::new();
        let mut todo = vec![(leaf, port, first)];
        while let Some((at, came_by, path)) = todo.pop() {
            for port in tree.ports_on(at).filter(|port| *port != came_by) {
                let Some(next) = topology.behind(at, port) else {
                    continue;
                };
                links.push((direction(topology, next), 1.0));
                let path = scale.over(path, &topology.link(next.link).attributes, false);
                match next.peer.node {
                    Node::Host(_) => worst = Some(worst.map_or(path, |worst| worst.or(path))),
                    Node::Switch(switch) => todo.push((switch, next.peer.port, path)),
                }
            }
        }
        Stream {
            sender: host,
            receiver: None,
            path: worst.unwrap_or(first),
            links,
        }
    };
    let senders = senders.clamp(1, job.members.len());
    job.members[..senders].iter().map(of).collect()
}

/// Limits for traffic between all pairs of members.
fn of_all_pairs(network: &Network<'_>, members: &[HostIndex], scale: &Scale) -> SendLimits {
    let topology = network.topology;
    let mut worst: Option<Path> = None;
    for &to in members {
        for &from in members.iter().filter(|from| **from != to) {
            let path = Stream::between(network, scale, from, to).path;
            worst = Some(worst.map_or(path, |worst| worst.or(path)));
        }
    }
    let fastest = members.iter().map(|&host| own_bps(topology, host));
    let own = fastest.max().unwrap_or(u64::MAX);
    scale.limits(own, worst.unwrap_or_else(|| scale.start()), None)
}

/// A direction of a link: the link, and the index of the sending end (0 or 1).
type Direction = (LinkIndex, usize);

/// Direction of the link to a neighbour.
fn direction(topology: &Topology, next: Neighbour) -> Direction {
    let ends = topology.link(next.link).ends;
    (next.link, usize::from(ends[0] == next.peer))
}

/// Maximum number of shortest paths between two hosts that are considered.
const MAX_PATHS: usize = 256;

/// Walks the shortest paths between two hosts. `link` gets each link of a switch, with the share of packets on it if all ports are
/// equally likely; `path` gets the links of each path.
fn walk(
    topology: &Topology,
    paths: &Paths,
    from: HostIndex,
    to: HostIndex,
    link: &mut dyn FnMut(Direction, f64),
    path: &mut dyn FnMut(&[Direction]),
) {
    let mut todo = vec![(topology.attachment(from).0, 1.0, Vec::new())];
    let mut seen = 0;
    while let Some((at, share, links)) = todo.pop() {
        let ports = paths.next_hops(at, to);
        for port in ports {
            let Some(next) = topology.behind(at, *port) else {
                continue;
            };
            let direction = direction(topology, next);
            let share = share / ports.len() as f64;
            link(direction, share);
            let mut links: Vec<Direction> = links.clone();
            links.push(direction);
            match next.peer.node {
                Node::Host(_) => {
                    seen += 1;
                    path(&links);
                }
                Node::Switch(switch) if seen < MAX_PATHS => todo.push((switch, share, links)),
                Node::Switch(_) => {}
            }
        }
    }
}

/// Packets from one member to another, or to all of a group, and their links.
struct Stream {
    sender: HostIndex,
    /// The receiver; `None` for all members of a group.
    receiver: Option<HostIndex>,
    path: Path,
    /// Each link of a switch, with the share of the packets on it.
    links: Vec<(Direction, f64)>,
}

impl Stream {
    /// A stream over all shortest paths, of which the worst figures apply.
    fn between(network: &Network<'_>, scale: &Scale, from: HostIndex, to: HostIndex) -> Stream {
        let (topology, paths) = (network.topology, network.paths());
        let own = topology.link(topology.uplink(from).link).attributes;
        let mut links = Vec::new();
        let mut worst: Option<Path> = None;
        let mut link = |direction, share| links.push((direction, share));
        let mut path = |links: &[Direction]| {
            let first = scale.over(scale.start(), &own, true);
            let path = links.iter().fold(first, |path, (link, _)| {
                scale.over(path, &topology.link(*link).attributes, false)
            });
            worst = Some(worst.map_or(path, |worst| worst.or(path)));
        };
        walk(topology, paths, from, to, &mut link, &mut path);
        Stream {
            sender: from,
            receiver: Some(to),
            path: worst.unwrap_or_else(|| scale.start()),
            links,
        }
    }
}

/// Links that cannot carry the combined demand of all senders of one or several jobs, with the number of streams on each.
#[derive(Debug, Default)]
pub(crate) struct Contention(BTreeMap<Direction, u64>);

impl Contention {
    /// Contended links of jobs that run at the same time, each with its algorithm.
    pub(crate) fn of<'j>(
        network: &Network<'_>,
        jobs: impl Iterator<Item = (&'j Job, Algorithm, Racks)>,
    ) -> Contention {
        let mut streams = Vec::new();
        for (job, algorithm, racks) in jobs {
            if can_overflow(network.topology) && !algorithm.needs_datagrams() {
                let scale = Scale::new(job.mtu, network.processing);
                let of_job = streams_of(network, job, algorithm, &racks, 1, &scale);
                streams.extend(of_job.into_iter().flatten());
            }
        }
        Contention::among(network.topology, streams.iter())
    }

    fn among<'s>(
        topology: &Topology,
        streams: impl Iterator<Item = &'s Stream> + Clone,
    ) -> Contention {
        let mut wanted: BTreeMap<HostIndex, f64> = BTreeMap::new();
        for stream in streams.clone() {
            *wanted.entry(stream.sender).or_default() += stream.path.rate_bps as f64;
        }
        // Demand in bits per second, and number of streams.
        let mut load: BTreeMap<Direction, (f64, f64)> = BTreeMap::new();
        for stream in streams {
            // The sender's own link limits the sum of its streams.
            let own = own_bps(topology, stream.sender) as f64;
            let divided = (own / wanted[&stream.sender].max(1.0)).min(1.0);
            let rate = stream.path.rate_bps as f64 * divided;
            for (direction, share) in &stream.links {
                let (bits, count) = load.entry(*direction).or_default();
                *bits += rate * share;
                *count += share;
            }
        }
        let too_much = load.into_iter().filter(|((link, _), (bits, _))| {
            *bits > SLACK * topology.link(*link).attributes.rate_bps as f64
        });
        let counts =
            too_much.map(|(direction, (_, count))| (direction, count.ceil().max(2.0) as u64));
        Contention(counts.collect())
    }

    /// Share of a stream of the contended links on its path; `None` if there are none.
    fn share(&self, topology: &Topology, scale: &Scale, stream: &Stream) -> Option<Shared> {
        let links = stream.links.iter();
        let shares = links.filter_map(|(direction, _)| {
            let count = *self.0.get(direction)?;
            let link = topology.link(direction.0).attributes;
            let room = scale.packets_in(stream.path.round_trip_ns, link.rate_bps)
                + link.queue_bytes / scale.packet;
            Some(Shared {
                packets: room / count,
                flows: count,
                rate_bps: (link.rate_bps / count).max(1),
            })
        });
        shares.reduce(Shared::or)
    }
}

/// Whether full queues drop packets: not with flow control.
fn can_overflow(topology: &Topology) -> bool {
    topology.switching().pfc.is_none()
}

fn own_bps(topology: &Topology, host: HostIndex) -> u64 {
    topology
        .link(topology.uplink(host).link)
        .attributes
        .rate_bps
}

/// Streams of each member, by rank; in a group only those of the first `senders` members.
fn streams_of(
    network: &Network<'_>,
    job: &Job,
    algorithm: Algorithm,
    racks: &Racks,
    senders: usize,
    scale: &Scale,
) -> Vec<Vec<Stream>> {
    if algorithm.needs_group() {
        let streams = streams_of_group(network, job, senders, scale);
        return streams.into_iter().map(|stream| vec![stream]).collect();
    }
    let members = &job.members;
    let count = members.len() as u32;
    let size = job.data.bytes().len() as u64;
    let shape = Shape {
        members: count,
        slices: algorithm.slices_for(job.collective, size, count),
        racks,
    };
    let of = |rank: u32| {
        let plan = algorithm.plan_for(job.collective, shape, rank);
        let peers = plan.outgoing.iter().filter_map(|flow| match flow.edge {
            EdgeId::Pair { from, to } => Some(if from == rank { to } else { from }),
            EdgeId::Group { .. } | EdgeId::Datagrams { .. } => None,
        });
        let peers: BTreeSet<u32> = peers.collect();
        let from = members[rank as usize];
        let stream = |to: u32| Stream::between(network, scale, from, members[to as usize]);
        peers.into_iter().map(stream).collect()
    };
    (0..count).map(of).collect()
}

/// Limits of each member towards single other members, if it sends to several over different paths; else empty.
fn to_members_of(
    network: &Network<'_>,
    streams: &[Vec<Stream>],
    contended: &Contention,
    scale: &Scale,
) -> Vec<Vec<(HostIndex, SendLimits)>> {
    let topology = network.topology;
    let of = |streams: &Vec<Stream>| {
        let limits = streams.iter().filter_map(|stream| {
            let own = own_bps(topology, stream.sender);
            let share = contended.share(topology, scale, stream);
            Some((stream.receiver?, scale.limits(own, stream.path, share)))
        });
        let limits: Vec<(HostIndex, SendLimits)> = limits.collect();
        match limits.windows(2).any(|pair| pair[0].1 != pair[1].1) {
            true => limits,
            false => Vec::new(),
        }
    };
    streams.iter().map(of).collect()
}

/// Limits of each member over all streams that it sends.
fn of_streams(
    network: &Network<'_>,
    job: &Job,
    streams: &[Vec<Stream>],
    contended: &Contention,
    scale: &Scale,
) -> Vec<SendLimits> {
    let topology = network.topology;
    let of = |(rank, streams): (usize, &Vec<Stream>)| {
        let host = job.members[rank];
        let worst = streams.iter().map(|stream| stream.path).reduce(Path::or);
        let own = topology.link(topology.uplink(host).link).attributes;
        let worst = worst.unwrap_or_else(|| scale.over(scale.start(), &own, true));
        let shares = streams.iter();
        let shares = shares.filter_map(|stream| contended.share(topology, scale, stream));
        scale.limits(own.rate_bps, worst, shares.reduce(Shared::or))
    };
    streams.iter().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use alfirk_ctrl::topology::{fat_tree, leaf_spine, Alpha, Pfc, SharedBuffer, Switching};
    use alfirk_roce::collective::Collective;

    use super::*;

    const PROCESSING: Processing = Processing {
        switch_ns: 400,
        host_ns: 1_250,
    };

    /// Two switches, connected by 1 Gbit/s with a queue of 1 MiB, and three hosts at 10 Gbit/s.
    const SLOW_LINK: &str = r#"
name: mylab
defaults: {rate: 10Gbps, delay: 1us}
switches: [{name: s1, id: 1}, {name: s2, id: 2}]
hosts:
  - {name: h1, ip: 10.0.0.1/8, mac: "02:00:00:00:00:01"}
  - {name: h2, ip: 10.0.0.2/8, mac: "02:00:00:00:00:02"}
  - {name: h3, ip: 10.0.0.3/8, mac: "02:00:00:00:00:03"}
links:
  - {ends: [h1, "s1:1"]}
  - {ends: [h2, "s1:2"]}
  - {ends: [h3, "s2:1"]}
  - {ends: ["s1:3", "s2:3"], rate: 1Gbps}
"#;

    fn job(topology: &Topology) -> Job {
        let members = topology.host_indexes().collect();
        Job::new(members, Arc::from([0; 1_000]))
    }

    fn limits(topology: &Topology, job: &Job, algorithm: Algorithm) -> Limits {
        let network = Network {
            topology,
            paths: &OnceCell::new(),
            processing: PROCESSING,
        };
        let racks = job
            .members
            .iter()
            .map(|host| topology.attachment(*host).0 .0 as u32);
        Limits::new(&network, job, algorithm, &racks.collect(), 1, None)
    }

    fn slow_link() -> Topology {
        Topology::from_yaml("mylab.yaml", SLOW_LINK).unwrap()
    }

    #[test]
    fn fast_uniform_fabrics_keep_the_defaults() {
        let topology = fat_tree(4).unwrap();
        let job = job(&topology);
        let rc = RcConfig {
            ack_timeout: AckTimeout::new(6),
            ..RcConfig::new(PathMtu::B4096)
        };
        for algorithm in [Algorithm::Alfirk, Algorithm::Chain, Algorithm::Unicast] {
            let limits = limits(&topology, &job, algorithm);
            for rank in 0..job.members.len() {
                assert_eq!(limits.of(rank).apply(rc), rc, "{algorithm}, rank {rank}");
            }
        }
    }

    #[test]
    fn group_is_paced_at_its_slowest_link() {
        let topology = slow_link();
        let job = job(&topology);
        let of = limits(&topology, &job, Algorithm::Alfirk).of(0);
        assert_eq!(of.pace_bps, NonZeroU64::new(1_000_000_000));
        // 4,198 bytes with all headers take 33.6 us on the slow link and 3.4 us on each other link.
        assert!((45_000..60_000).contains(&of.round_trip_ns), "{of:?}");
        let outstanding_ns = u64::from(of.window) * 33_600;
        assert!(
            outstanding_ns > of.round_trip_ns,
            "the path is kept busy: {of:?}"
        );
        assert!(
            of.longest_answer_ns > outstanding_ns,
            "all that is outstanding may queue: {of:?}"
        );
        // Without the member behind it, the link is not on a path.
        let near = Job {
            members: job.members[..2].to_vec(),
            ..job
        };
        let of = limits(&topology, &near, Algorithm::Alfirk).of(0);
        assert_eq!((of.rate_bps, of.pace_bps), (10_000_000_000, None));
    }

    #[test]
    fn overlay_members_are_limited_by_their_own_edges() {
        let topology = slow_link();
        let job = job(&topology);
        let limits = limits(&topology, &job, Algorithm::Chain);
        // h1 sends to h2 on the same switch, h2 to h3 over the slow link.
        assert_eq!(limits.of(0).pace_bps, None);
        assert_eq!(limits.of(1).pace_bps, NonZeroU64::new(1_000_000_000));
    }

    #[test]
    fn a_slow_path_to_one_member_does_not_slow_the_others_down() {
        let topology = slow_link();
        let job = job(&topology);
        let limits = limits(&topology, &job, Algorithm::Unicast);
        let paces: Vec<(HostIndex, Option<NonZeroU64>)> = limits
            .to_members(0)
            .iter()
            .map(|(host, limits)| (*host, limits.pace_bps))
            .collect();
        let slow = NonZeroU64::new(1_000_000_000);
        assert_eq!(paces, [(job.members[1], None), (job.members[2], slow)]);
        assert!(limits.to_members(1).is_empty(), "it sends nothing");
    }

    #[test]
    fn sharing_streams_do_not_overflow_a_queue() {
        // Eight hosts of each of two leaves share one spine, whose links are as fast as a host's.
        let topology = leaf_spine(2, 1, 8).unwrap();
        let members: Vec<HostIndex> = topology.host_indexes().collect();
        let job = Job {
            collective: Collective::Allgather,
            ..Job::new(members, Arc::from([0; 1_600]))
        };
        let network = Network {
            topology: &topology,
            paths: &OnceCell::new(),
            processing: PROCESSING,
        };
        // Every host of one leaf sends to a host of the other.
        let jobs: Vec<Job> = (0..8)
            .map(|n| Job {
                members: vec![job.members[n], job.members[8 + n]],
                collective: Collective::Broadcast,
                ..job.clone()
            })
            .collect();
        let with = |job| (job, Algorithm::Unicast, Racks::default());
        let contended = Contention::of(&network, jobs.iter().map(with));
        let scale = Scale::new(job.mtu, PROCESSING);
        let mut outstanding = 0;
        for job in &jobs {
            let racks = Racks::default();
            let limits = Limits::new(
                &network,
                job,
                Algorithm::Unicast,
                &racks,
                1,
                Some(&contended),
            );
            let of = limits.of(0);
            outstanding += u64::from(of.max_window.expect("they meet")) * scale.packet;
            assert!(
                of.longest_answer_ns > 80_000,
                "a full queue of 1 MiB takes 84 us: {of:?}"
            );
        }
        let queue = topology.links()[0].attributes.queue_bytes;
        assert!(outstanding > queue / 2, "they fill it: {outstanding}");
        assert!(
            outstanding < queue + queue / 8,
            "{outstanding} bytes, and what is on the way"
        );
        // With flow control, senders are not limited to a share.
        let switching = Switching {
            pfc: Some(Pfc::default()),
            buffer: Some(SharedBuffer {
                bytes: 16 << 20,
                alpha: Alpha::ONE,
            }),
            ..Switching::default()
        };
        let lossless = topology.clone().with_switching(switching).unwrap();
        let network = Network {
            topology: &lossless,
            ..network
        };
        assert!(Contention::of(&network, jobs.iter().map(with)).0.is_empty());
    }

    #[test]
    fn queue_too_small_for_all_windows_reduces_rates() {
        let yaml = SLOW_LINK.replace("rate: 1Gbps", "rate: 1Gbps, queue: 8KiB");
        let topology = Topology::from_yaml("mylab.yaml", &yaml).unwrap();
        let hosts: Vec<HostIndex> = topology.host_indexes().collect();
        let network = Network {
            topology: &topology,
            paths: &OnceCell::new(),
            processing: PROCESSING,
        };
        let to_h3 = |from: HostIndex| Job::new(vec![from, hosts[2]], Arc::from([0; 1_000]));
        let jobs = [to_h3(hosts[0]), to_h3(hosts[1])];
        let with = |job| (job, Algorithm::Unicast, Racks::default());
        let contended = Contention::of(&network, jobs.iter().map(with));
        let racks = Racks::default();
        let limits = Limits::new(
            &network,
            &jobs[0],
            Algorithm::Unicast,
            &racks,
            1,
            Some(&contended),
        );
        let of = limits.of(0);
        assert_eq!(of.pace_bps, NonZeroU64::new(500_000_000), "{of:?}");
    }
}
