//! Streams: the packets that a member sends to another member or to a group, and the links that they use.

use std::collections::BTreeSet;

use alfirk_ctrl::topology::{HostIndex, LinkIndex, Neighbour, Node, Paths, Topology};
use alfirk_ctrl::tree::{Planner, PortLoads, Tree, View};
use alfirk_roce::collective::{Algorithm, EdgeId, Racks, Shape};

use super::scale::{PathFigures, Scale};
use super::Network;
use crate::job::spec::Job;

/// Packets that one member sends to another member, or to all members of a group, and the links that they use.
pub(super) struct Stream {
    pub(super) sender: HostIndex,
    /// The receiver; `None` for all members of a group.
    pub(super) receiver: Option<HostIndex>,
    pub(super) path: PathFigures,
    /// Each link direction on which a switch forwards packets of the stream, with the share of packets on it.
    pub(super) links: Vec<(Direction, f64)>,
}

impl Stream {
    /// Creates the stream between two hosts over all shortest paths, with the worst figures of these paths.
    pub(super) fn between(
        network: &Network<'_>,
        scale: &Scale,
        from: HostIndex,
        to: HostIndex,
    ) -> Stream {
        let (topology, paths) = (network.topology, network.paths());
        let own = topology.link(topology.uplink(from).link).attributes;
        let mut links = Vec::new();
        let mut worst: Option<PathFigures> = None;
        let mut link = |direction, share| links.push((direction, share));
        let mut path = |links: &[Direction]| {
            let first = scale.extended(scale.empty_path(), &own, true);
            let path = links.iter().fold(first, |path, (link, _)| {
                scale.extended(path, &topology.link(*link).attributes, false)
            });
            worst = Some(worst.map_or(path, |worst| worst.combine(path)));
        };
        walk_shortest_paths(topology, paths, from, to, &mut link, &mut path);
        Stream {
            sender: from,
            receiver: Some(to),
            path: worst.unwrap_or_else(|| scale.empty_path()),
            links,
        }
    }
}

/// A direction of a link: the link, and the index of the sending end (0 or 1).
pub(super) type Direction = (LinkIndex, usize);

/// Direction of the link to a neighbour.
fn direction(topology: &Topology, next: Neighbour) -> Direction {
    let ends = topology.link(next.link).ends;
    (next.link, usize::from(ends[0] == next.peer))
}

/// Maximum number of shortest paths between two hosts that [`walk_shortest_paths`] follows.
const MAX_PATHS: usize = 256;

/// Visits the shortest paths between two hosts. Calls `link` for each link that a switch sends on, with the share of
/// the packets on that link if all next hops are equally likely; calls `path` with the links of each path.
fn walk_shortest_paths(
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
            let Some(next) = topology.neighbour_at(at, *port) else {
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

/// Returns the streams that each member sends, by rank. In a group, only the first `senders` members send.
pub(super) fn streams_of(
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

/// Returns the packet streams of a group along its tree: one stream from each of the first `senders` members to all
/// others.
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
        let first = scale.extended(scale.empty_path(), &own, true);
        let (leaf, port) = topology.attachment(host);
        let mut worst: Option<PathFigures> = None;
        let mut links = Vec::new();
        let mut todo = vec![(leaf, port, first)];
        while let Some((at, came_by, path)) = todo.pop() {
            for port in tree.ports_on(at).filter(|port| *port != came_by) {
                let Some(next) = topology.neighbour_at(at, port) else {
                    continue;
                };
                links.push((direction(topology, next), 1.0));
                let path = scale.extended(path, &topology.link(next.link).attributes, false);
                match next.peer.node {
                    Node::Host(_) => worst = Some(worst.map_or(path, |worst| worst.combine(path))),
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

pub(super) fn own_bps(topology: &Topology, host: HostIndex) -> u64 {
    topology
        .link(topology.uplink(host).link)
        .attributes
        .rate_bps
}
