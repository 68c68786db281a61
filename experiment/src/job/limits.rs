//! What the paths of a job allow its senders: rates, windows and timeouts from the topology. Pure.
//!
//! A multicast is as fast as its slowest path, and a sender that is faster only fills the queue before the bottleneck until it overflows, which
//! with go-back-N makes all come again that was behind the lost packet. So a sender
//!
//! - is paced at the rate of the slowest link to any of its receivers, if that is below the rate of its own link,
//! - has a window of that rate times its longest round trip (the bandwidth-delay product), and what is sent between two acknowledgements,
//! - waits for an acknowledgement for twice the longest round trip, and for the queues on the way if those can fill.
//!
//! Where the algorithm's own flows meet at a link that cannot carry them all, none is to have more packets outstanding than its share of the
//! bandwidth-delay product and the queue of that link: then nothing overflows. With flow control (PFC) nothing is dropped, and with
//! congestion control (DCQCN) marks say when to slow down, so there the share does not count.
//!
//! Where there are several shortest paths, the worst of each figure counts, since a switch chooses by a hash. In a group the paths are those
//! of the tree that the controller grows ([`Tree`]).

use std::cell::OnceCell;
use std::collections::HashMap;
use std::num::NonZeroU64;

use alfirk_ctrl::topology::{
    HostIndex, LinkAttributes, LinkIndex, Node, Paths, SwitchIndex, Topology,
};
use alfirk_ctrl::tree::{Planner, PortLoads, Tree, View};
use alfirk_packet_io::wire::{serialisation_ps, wire_bytes};
use alfirk_roce::collective::{Algorithm, EdgeId, Racks, Shape};
use alfirk_roce::rc::{AckTimeout, PathMtu, RcConfig};

use super::spec::{Congestion, Job};

/// Bytes of a frame around the payload of the longest packet of a message: Ethernet 14, IPv4 20, UDP 8, BTH 12, RETH 16, immediate 4, ICRC 4.
const FRAME_OVERHEAD: usize = 78;

/// Bytes of a frame with an acknowledgement: Ethernet 14, IPv4 20, UDP 8, BTH 12, AETH 4, ICRC 4.
const ACK_FRAME: usize = 62;

/// From so many members on the paths of overlays are not looked at one by one.
const MOST_MEMBERS: usize = 1_024;

/// The share of a link's rate that flows may ask for beyond it before they count as too many: sums of shares are not exact.
const SLACK: f64 = 1.01;

/// The window that hides pauses of application and controller, in packets and in time at the bottleneck, whichever is less.
const COMFORT_PACKETS: u64 = 128;
const COMFORT_NS: u64 = 430_000;

/// The least window that keeps a flow going while a packet is at either end.
const LEAST_WINDOW: u64 = 4;

/// Times of equipment that are not its links'.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processing {
    /// Nanoseconds of a switch for a packet, from its last bit in to its output queue.
    pub switch_ns: u64,
    /// Nanoseconds of two NICs and an application for a packet and its answer.
    pub host_ns: u64,
}

/// What a sender keeps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendLimits {
    /// Bits per second of the slowest link to any receiver.
    pub rate_bps: u64,
    /// Nanoseconds of a packet and its acknowledgement to the farthest receiver, in empty queues.
    pub round_trip_ns: u64,
    /// Bits per second of the wire at which it is paced; `None` if its own link is as slow as any.
    pub pace_bps: Option<NonZeroU64>,
    /// Packets that keep the slowest path busy: the bandwidth-delay product and what goes on between acknowledgements.
    pub window: u32,
    /// Packets that never overflow a queue on the way; `None` where nothing can.
    pub most_window: Option<u32>,
    /// Nanoseconds from a packet to its acknowledgement at most, if nothing is lost.
    pub longest_answer_ns: u64,
}

impl SendLimits {
    /// The worse of both in each respect.
    fn or(self, other: SendLimits) -> SendLimits {
        let least = |a: Option<u32>, b: Option<u32>| a.into_iter().chain(b).min();
        SendLimits {
            rate_bps: self.rate_bps.min(other.rate_bps),
            round_trip_ns: self.round_trip_ns.max(other.round_trip_ns),
            pace_bps: self.pace_bps.into_iter().chain(other.pace_bps).min(),
            window: self.window.max(other.window),
            most_window: least(self.most_window, other.most_window),
            longest_answer_ns: self.longest_answer_ns.max(other.longest_answer_ns),
        }
    }

    /// `rc` with the window and the rate of these paths, and a timeout that is no shorter than theirs.
    #[must_use]
    pub fn apply(&self, rc: RcConfig) -> RcConfig {
        // What suits 10 Gb/s and more fills the queues of slower paths; with selective repeat it is more of the same.
        let more = rc.window / RcConfig::new(rc.mtu).window.max(1);
        let window = self.window.saturating_mul(more.max(1));
        let timeout = self.longest_answer_ns.saturating_mul(2);
        RcConfig {
            window: self.most_window.map_or(window, |most| window.min(most)),
            ack_timeout: match rc.ack_timeout.ns() {
                Some(ns) => AckTimeout::at_least(ns.max(timeout)),
                None => rc.ack_timeout,
            },
            pace_bps: self.pace_bps,
            ..rc
        }
    }
}

/// The limits of all members of a job, by rank.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Of each rank; the last one holds for all that follow.
    of_rank: Vec<SendLimits>,
}

impl Limits {
    /// Those of a member.
    pub fn of(&self, rank: usize) -> SendLimits {
        self.of_rank[rank.min(self.of_rank.len() - 1)]
    }

    /// The worse of both in each respect, for so many members.
    pub fn or(&self, other: &Limits, members: usize) -> Limits {
        let of_rank = (0..members).map(|rank| self.of(rank).or(other.of(rank)));
        Limits {
            of_rank: of_rank.collect(),
        }
    }

    /// Of `algorithm` on this network. `senders` is how many of the first members ever send to a group.
    pub(super) fn new(
        network: &Network<'_>,
        job: &Job,
        algorithm: Algorithm,
        racks: &Racks,
        senders: usize,
    ) -> Limits {
        let topology = network.topology;
        let scale = Scale::new(job.mtu, network.processing);
        let is_uniform = is_uniform(topology);
        let of_rank = if algorithm.needs_group() && is_uniform
            || job.members.len() > MOST_MEMBERS && (is_uniform || !algorithm.needs_group())
        {
            vec![by_hops(topology, &job.members, &scale)]
        } else if algorithm.needs_group() {
            of_group(network, job, senders, &scale)
        } else if algorithm.needs_datagrams() {
            vec![of_all_pairs(network, &job.members, &scale)]
        } else {
            of_overlay(network, job, algorithm, racks, &scale)
        };
        Limits { of_rank }
    }
}

/// What limits follow from.
pub(super) struct Network<'a> {
    pub(super) topology: &'a Topology,
    /// Found when they are needed.
    pub(super) paths: &'a OnceCell<Paths>,
    pub(super) processing: Processing,
}

impl Network<'_> {
    fn paths(&self) -> &Paths {
        self.paths.get_or_init(|| Paths::new(self.topology))
    }
}

/// What turns paths into limits.
struct Scale {
    /// Bytes of the wire of a full packet and of an acknowledgement.
    packet: u64,
    ack: u64,
    processing: Processing,
    /// Packets that go on between two acknowledgements, and while the second one is on its way.
    ack_gap: u64,
}

impl Scale {
    fn new(mtu: PathMtu, processing: Processing) -> Scale {
        Scale {
            packet: wire_bytes(mtu.bytes() + FRAME_OVERHEAD),
            ack: wire_bytes(ACK_FRAME),
            processing,
            ack_gap: 2 * u64::from(RcConfig::new(mtu).ack_every),
        }
    }

    /// Nanoseconds of so many full packets at a rate.
    fn packets_ns(&self, packets: u64, rate_bps: u64) -> u64 {
        serialisation_ps(packets.saturating_mul(self.packet), rate_bps).div_ceil(1_000)
    }

    /// Packets that fit into so many nanoseconds at a rate.
    fn packets_in(&self, ns: u64, rate_bps: u64) -> u64 {
        let bits = u128::from(ns) * u128::from(rate_bps) / 1_000_000_000;
        u64::try_from(bits / 8 / u128::from(self.packet)).unwrap_or(u64::MAX)
    }

    /// A path of no link.
    fn start(&self) -> Path {
        Path {
            rate_bps: u64::MAX,
            round_trip_ns: self.processing.host_ns,
            queues_ns: 0,
        }
    }

    /// The path and one link more, which a switch sends over unless it is the first.
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

    /// What a sender keeps to whose link has `own_bps` bits per second, with such paths. `shared`: packets of which nothing overflows, where
    /// flows meet, and the rate that is left to this one if that is less than [`LEAST_WINDOW`].
    fn limits(&self, own_bps: u64, path: Path, shared: Option<Shared>) -> SendLimits {
        let rate_bps = path.rate_bps.min(own_bps);
        let pipe = self.packets_in(path.round_trip_ns, rate_bps) + 1;
        let comfort = COMFORT_PACKETS.min(self.packets_in(COMFORT_NS, rate_bps));
        let needed = (pipe + self.ack_gap).saturating_mul(5) / 4;
        let window = needed.max(comfort);
        let is_paced = rate_bps < own_bps;
        let most = shared.map(|shared| shared.packets.max(LEAST_WINDOW));
        let window = most.map_or(window, |most| window.min(most));
        // What can be before a packet in queues: its own flow's window, and those of others that it meets.
        let flows = shared.map_or(1, |shared| shared.flows);
        let ahead = self.packets_ns(window.saturating_mul(flows), rate_bps);
        let waits = match is_paced || shared.is_some() {
            true => ahead.min(path.queues_ns.saturating_mul(2)),
            false => 0,
        };
        let pace_bps = match shared {
            Some(shared) if shared.packets < LEAST_WINDOW => Some(shared.rate_bps.min(rate_bps)),
            _ => is_paced.then_some(rate_bps),
        };
        let answer = path.round_trip_ns.saturating_add(waits);
        SendLimits {
            rate_bps,
            round_trip_ns: path.round_trip_ns,
            pace_bps: pace_bps.and_then(NonZeroU64::new),
            window: u32::try_from(window).unwrap_or(u32::MAX),
            most_window: most.map(|most| u32::try_from(most).unwrap_or(u32::MAX)),
            longest_answer_ns: answer.saturating_add(self.packets_ns(self.ack_gap, rate_bps)),
        }
    }
}

/// A way from a sender to a receiver, or the worst of several.
#[derive(Debug, Clone, Copy)]
struct Path {
    rate_bps: u64,
    /// Of a full packet and its acknowledgement, in empty queues.
    round_trip_ns: u64,
    /// The time in which all queues of switches on the way empty, if they are full.
    queues_ns: u64,
}

impl Path {
    /// The worst of both in each respect.
    fn or(self, other: Path) -> Path {
        Path {
            rate_bps: self.rate_bps.min(other.rate_bps),
            round_trip_ns: self.round_trip_ns.max(other.round_trip_ns),
            queues_ns: self.queues_ns.max(other.queues_ns),
        }
    }
}

/// What is left to a flow of a link that it shares.
#[derive(Debug, Clone, Copy)]
struct Shared {
    packets: u64,
    /// How many flows there are.
    flows: u64,
    rate_bps: u64,
}

impl Shared {
    fn or(self, other: Option<Shared>) -> Shared {
        other.map_or(self, |other| Shared {
            packets: self.packets.min(other.packets),
            flows: self.flows.max(other.flows),
            rate_bps: self.rate_bps.min(other.rate_bps),
        })
    }
}

/// Whether all links are alike.
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

/// The same for everybody, by the number of links between the members, where the worst link stands for all.
fn by_hops(topology: &Topology, members: &[HostIndex], scale: &Scale) -> SendLimits {
    let distances = distances(topology, topology.attachment(members[0]).0);
    let farthest = |host: &HostIndex| distances[topology.attachment(*host).0 .0];
    // Two members are no farther from each other than both from the first one.
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

/// Links between one switch and each other one.
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

/// Over the tree of the group, from each of the first `senders` members.
fn of_group(network: &Network<'_>, job: &Job, senders: usize, scale: &Scale) -> Vec<SendLimits> {
    let topology = network.topology;
    let view = View {
        topology,
        paths: network.paths(),
        loads: &PortLoads::default(),
    };
    // A policy that does not fit was refused before; the default one fits every network.
    let planner = Planner::new(job.tree_policy, topology).unwrap_or(Planner::ReuseLeastLoaded);
    let tree = Tree::grow(&planner, &view, &job.members);
    let senders = senders.clamp(1, job.members.len());
    let of = |&host: &HostIndex| {
        let own = topology.link(topology.uplink(host).link).attributes;
        let first = scale.over(scale.start(), &own, true);
        let (leaf, port) = topology.attachment(host);
        let mut worst: Option<Path> = None;
        let mut todo = vec![(leaf, port, first)];
        while let Some((at, came_by, path)) = todo.pop() {
            for port in tree.ports_on(at).filter(|port| *port != came_by) {
                let Some(next) = topology.behind(at, port) else {
                    continue;
                };
                let path = scale.over(path, &topology.link(next.link).attributes, false);
                match next.peer.node {
                    Node::Host(_) => worst = Some(worst.map_or(path, |worst| worst.or(path))),
                    Node::Switch(switch) => todo.push((switch, next.peer.port, path)),
                }
            }
        }
        scale.limits(own.rate_bps, worst.unwrap_or(first), None)
    };
    job.members[..senders].iter().map(of).collect()
}

/// Everybody to everybody.
fn of_all_pairs(network: &Network<'_>, members: &[HostIndex], scale: &Scale) -> SendLimits {
    let (topology, paths) = (network.topology, network.paths());
    let mut worst: Option<Path> = None;
    for &to in members {
        for &from in members.iter().filter(|from| **from != to) {
            let path = between(topology, paths, scale, from, to);
            worst = Some(worst.map_or(path, |worst| worst.or(path)));
        }
    }
    let fastest = members.iter().map(|&host| {
        topology
            .link(topology.uplink(host).link)
            .attributes
            .rate_bps
    });
    let own = fastest.max().unwrap_or(u64::MAX);
    scale.limits(own, worst.unwrap_or_else(|| scale.start()), None)
}

/// The worst shortest path.
fn between(
    topology: &Topology,
    paths: &Paths,
    scale: &Scale,
    from: HostIndex,
    to: HostIndex,
) -> Path {
    let own = topology.link(topology.uplink(from).link).attributes;
    let mut worst: Option<Path> = None;
    walk(topology, paths, from, to, &mut |_, _| {}, &mut |links| {
        let first = scale.over(scale.start(), &own, true);
        let path = links.iter().fold(first, |path, (link, _)| {
            scale.over(path, &topology.link(*link).attributes, false)
        });
        worst = Some(worst.map_or(path, |worst| worst.or(path)));
    });
    worst.unwrap_or_else(|| scale.start())
}

/// A link and the end that sends over it: 0 or 1.
type Direction = (LinkIndex, usize);

/// How many shortest paths between two hosts are looked at, at most.
const MOST_PATHS: usize = 256;

/// Goes along the shortest paths between two hosts: `link` takes each link of a switch with the share of packets that goes over it if all
/// ports are equally likely, `path` the links of each path.
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
            let ends = topology.link(next.link).ends;
            let direction = (next.link, usize::from(ends[0] == next.peer));
            let share = share / ports.len() as f64;
            link(direction, share);
            let mut links: Vec<Direction> = links.clone();
            links.push(direction);
            match next.peer.node {
                Node::Host(_) => {
                    seen += 1;
                    path(&links);
                }
                Node::Switch(switch) if seen < MOST_PATHS => todo.push((switch, share, links)),
                Node::Switch(_) => {}
            }
        }
    }
}

/// Along the edges of each member's plan.
fn of_overlay(
    network: &Network<'_>,
    job: &Job,
    algorithm: Algorithm,
    racks: &Racks,
    scale: &Scale,
) -> Vec<SendLimits> {
    let (topology, paths) = (network.topology, network.paths());
    let members = &job.members;
    let size = job.data.bytes().len() as u64;
    let shape = Shape {
        members: members.len() as u32,
        slices: algorithm.slices_for(job.collective, size, members.len() as u32),
        racks,
    };
    let own = |rank: usize| {
        let uplink = topology.uplink(members[rank]).link;
        topology.link(uplink).attributes.rate_bps
    };
    // Where each member sends to, and how fast each path is.
    let mut flows: Vec<Vec<(usize, Path)>> = Vec::with_capacity(members.len());
    for rank in 0..members.len() {
        let plan = algorithm.plan_for(job.collective, shape, rank as u32);
        let peers = plan.outgoing.iter().filter_map(|flow| match flow.edge {
            EdgeId::Pair { from, to } => Some(if from == rank as u32 { to } else { from }),
            EdgeId::Group { .. } | EdgeId::Datagrams { .. } => None,
        });
        let mut peers: Vec<usize> = peers.map(|peer| peer as usize).collect();
        peers.sort_unstable();
        peers.dedup();
        let flow = |to: usize| {
            let path = between(topology, paths, scale, members[rank], members[to]);
            (to, path)
        };
        flows.push(peers.into_iter().map(flow).collect());
    }
    // With flow control nothing overflows, and with congestion control marks come before that.
    let drops = job.congestion == Congestion::None && topology.switching().pfc.is_none();
    let overloaded = match drops {
        true => overloaded(topology, paths, members, &flows, &own),
        false => HashMap::new(),
    };
    let of = |rank: usize| {
        let worst = flows[rank].iter().map(|(_, path)| *path).reduce(Path::or);
        let worst = worst.unwrap_or_else(|| {
            let uplink = topology.uplink(members[rank]).link;
            scale.over(scale.start(), &topology.link(uplink).attributes, true)
        });
        let mut shared = None;
        for (to, path) in &flows[rank] {
            let mut link = |direction: Direction, _| {
                let Some(&count) = overloaded.get(&direction) else {
                    return;
                };
                let link = topology.link(direction.0).attributes;
                let room = scale.packets_in(path.round_trip_ns, link.rate_bps)
                    + link.queue_bytes / scale.packet;
                let here = Shared {
                    packets: room / count,
                    flows: count,
                    rate_bps: (link.rate_bps / count).max(1),
                };
                shared = Some(here.or(shared));
            };
            if !overloaded.is_empty() {
                walk(
                    topology,
                    paths,
                    members[rank],
                    members[*to],
                    &mut link,
                    &mut |_| {},
                );
            }
        }
        scale.limits(own(rank), worst, shared)
    };
    (0..members.len()).map(of).collect()
}

/// The links that cannot carry what the flows of all members would send together, and how many flows there are on each.
fn overloaded(
    topology: &Topology,
    paths: &Paths,
    members: &[HostIndex],
    flows: &[Vec<(usize, Path)>],
    own: &dyn Fn(usize) -> u64,
) -> HashMap<Direction, u64> {
    let mut load: HashMap<Direction, (f64, f64)> = HashMap::new();
    for (rank, of_rank) in flows.iter().enumerate() {
        let wanted: f64 = of_rank.iter().map(|(_, path)| path.rate_bps as f64).sum();
        // The sender's own link divides what is more than its rate among its flows.
        let divided = (own(rank) as f64 / wanted.max(1.0)).min(1.0);
        for (to, path) in of_rank {
            let rate = path.rate_bps as f64 * divided;
            let mut link = |direction, share| {
                let (bits, count) = load.entry(direction).or_default();
                *bits += rate * share;
                *count += share;
            };
            walk(
                topology,
                paths,
                members[rank],
                members[*to],
                &mut link,
                &mut |_| {},
            );
        }
    }
    let too_much = load.into_iter().filter(|((link, _), (bits, _))| {
        *bits > SLACK * topology.link(*link).attributes.rate_bps as f64
    });
    too_much
        .map(|(direction, (_, count))| (direction, count.ceil().max(2.0) as u64))
        .collect()
}
