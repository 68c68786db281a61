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
//! of the tree that the controller builds ([`alfirk_ctrl::tree::Tree`]).

mod contention;
mod scale;
mod streams;

use std::cell::OnceCell;
use std::num::NonZeroU64;

use alfirk_ctrl::topology::{HostIndex, LinkAttributes, Node, Paths, SwitchIndex, Topology};
use alfirk_roce::collective::{Algorithm, Racks};
use alfirk_roce::rc::{AckTimeout, RcConfig};

pub(crate) use self::contention::Contention;
use self::scale::{LinkShare, PathFigures, Scale};
use self::streams::{own_bps, streams_of, Stream};
use super::spec::Job;

/// Number of members above which the paths of overlays are not computed individually. An overlay is an algorithm that
/// uses only unicast connections between members.
const MAX_MEMBERS: usize = 1_024;

/// Time that switches and hosts take for a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessingTimes {
    /// Latency of a switch in nanoseconds, from the last bit of a received packet until the packet is in its output
    /// queue.
    pub switch_ns: u64,
    /// Time in nanoseconds that the two NICs and the application take for a packet and its reply.
    pub host_ns: u64,
}

/// Rate, window and timeout limits of one sender, derived from the paths to its receivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendLimits {
    /// Rate of the slowest link to any receiver, in bits per second.
    pub rate_bps: u64,
    /// Round trip of a packet and its acknowledgement to the farthest receiver, with empty queues, in nanoseconds.
    pub round_trip_ns: u64,
    /// Pacing rate in bits per second on the wire; `None` if the sender's own link is the slowest.
    pub pace_bps: Option<NonZeroU64>,
    /// Window in packets that keeps the slowest path busy: the bandwidth-delay product plus the packets between two
    /// acknowledgements.
    pub window: u32,
    /// Largest window in packets with which no queue on the path overflows; `None` if the flow shares no overloaded
    /// link.
    pub max_window: Option<u32>,
    /// Maximum time in nanoseconds from a packet to its acknowledgement, if nothing is lost.
    pub max_ack_delay_ns: u64,
}

impl SendLimits {
    /// Combines the limits of two sets of paths, so that the result suits both: for example the lower rate and the
    /// larger window.
    fn combine(self, other: SendLimits) -> SendLimits {
        let least = |a: Option<u32>, b: Option<u32>| a.into_iter().chain(b).min();
        SendLimits {
            rate_bps: self.rate_bps.min(other.rate_bps),
            round_trip_ns: self.round_trip_ns.max(other.round_trip_ns),
            pace_bps: self.pace_bps.into_iter().chain(other.pace_bps).min(),
            window: self.window.max(other.window),
            max_window: least(self.max_window, other.max_window),
            max_ack_delay_ns: self.max_ack_delay_ns.max(other.max_ack_delay_ns),
        }
    }

    /// Returns the settings `rc` with the window and rate of these limits, and with an ACK timeout of at least twice
    /// [`SendLimits::max_ack_delay_ns`].
    #[must_use]
    pub fn apply(&self, rc: RcConfig) -> RcConfig {
        // The default window suits 10 Gb/s and more, and would fill the queues of slower paths; with selective repeat it is a multiple.
        let more = rc.window / RcConfig::new(rc.mtu).window.max(1);
        let window = self.window.saturating_mul(more.max(1));
        let timeout = self.max_ack_delay_ns.saturating_mul(2);
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

/// Send limits of all members of a job, by rank.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Send limits of each rank. The last entry applies to all further ranks.
    of_rank: Vec<SendLimits>,
    /// Send limits of each rank towards single members. Empty for a rank whose paths do not differ; further ranks have
    /// no entry.
    to_members: Vec<Vec<(HostIndex, SendLimits)>>,
}

impl Limits {
    /// Returns the send limits of the member with this rank.
    pub fn of(&self, rank: usize) -> SendLimits {
        self.of_rank[rank.min(self.of_rank.len() - 1)]
    }

    /// Returns the send limits of the member with this rank towards single other members; empty if they do not differ.
    pub fn to_members(&self, rank: usize) -> &[(HostIndex, SendLimits)] {
        self.to_members.get(rank).map_or(&[], Vec::as_slice)
    }

    /// Combines the limits of two algorithms for `members` members, so that each member's limits suit both algorithms.
    pub fn combine(&self, other: &Limits, members: usize) -> Limits {
        let of_rank = (0..members).map(|rank| self.of(rank).combine(other.of(rank)));
        Limits {
            of_rank: of_rank.collect(),
            to_members: Vec::new(),
        }
    }

    /// Derives the limits of `algorithm`. Of a group, only the first `senders` members send. `contended` are links
    /// shared with jobs that run at the same time; if `None`, only the streams of this algorithm are considered.
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
        let is_alone = contended.is_none_or(Contention::is_empty);
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
                true => Contention::of_streams(topology, streams.iter().flatten()),
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

/// The network for which limits are derived: topology, paths and processing times.
pub(crate) struct Network<'a> {
    pub(crate) topology: &'a Topology,
    /// Shortest paths of the topology, computed on first use.
    pub(crate) paths: &'a OnceCell<Paths>,
    pub(crate) processing: ProcessingTimes,
}

impl Network<'_> {
    fn paths(&self) -> &Paths {
        self.paths.get_or_init(|| Paths::new(self.topology))
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

/// Derives equal limits for all members, from the largest number of links between two of them and the attributes of the
/// worst link.
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
    let mut path = scale.extended(scale.empty_path(), &worst, true);
    for _ in 0..=between.max(1) {
        path = scale.extended(path, &worst, false);
    }
    scale.limits(worst.rate_bps, path, None)
}

/// Number of links from switch `from` to every switch, by switch index.
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

/// Derives one set of limits that suits the traffic between every two members.
fn of_all_pairs(network: &Network<'_>, members: &[HostIndex], scale: &Scale) -> SendLimits {
    let topology = network.topology;
    let mut worst: Option<PathFigures> = None;
    for &to in members {
        for &from in members.iter().filter(|from| **from != to) {
            let path = Stream::between(network, scale, from, to).path;
            worst = Some(worst.map_or(path, |worst| worst.combine(path)));
        }
    }
    let fastest = members.iter().map(|&host| own_bps(topology, host));
    let own = fastest.max().unwrap_or(u64::MAX);
    scale.limits(own, worst.unwrap_or_else(|| scale.empty_path()), None)
}

/// Whether full queues of this network drop packets, which they do unless it uses flow control.
fn can_overflow(topology: &Topology) -> bool {
    topology.switching().pfc.is_none()
}

/// Computes, for each member, its limit of the sending rate towards each other member. Empty for a member that sends to
/// one member only, or whose limits are all equal.
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

/// Derives the limits of each member, which suit all streams that it sends.
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
        let worst = streams
            .iter()
            .map(|stream| stream.path)
            .reduce(PathFigures::combine);
        let own = topology.link(topology.uplink(host).link).attributes;
        let worst = worst.unwrap_or_else(|| scale.extended(scale.empty_path(), &own, true));
        let shares = streams.iter();
        let shares = shares.filter_map(|stream| contended.share(topology, scale, stream));
        scale.limits(own.rate_bps, worst, shares.reduce(LinkShare::combine))
    };
    streams.iter().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use alfirk_ctrl::topology::{fat_tree, leaf_spine, Alpha, Pfc, SharedBuffer, Switching};
    use alfirk_roce::collective::Collective;
    use alfirk_roce::rc::PathMtu;

    use super::*;

    const PROCESSING: ProcessingTimes = ProcessingTimes {
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
            of.max_ack_delay_ns > outstanding_ns,
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
                of.max_ack_delay_ns > 80_000,
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
        assert!(Contention::of(&network, jobs.iter().map(with)).is_empty());
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
