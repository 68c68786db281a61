//! Multicast trees: which ports of which switches carry a group.
//!
//! A [`Tree`] spans the members of a group and has no root: every member may send, and a packet leaves a switch through every
//! port of the tree except its ingress port. A [`Policy`] chooses among equal-cost ports; [`PortLoads`] has the number of
//! groups that use each port.

mod cyclic_multicast;
mod load;
mod policy;
mod spanning;
mod walk;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::topology::{HostIndex, Node, SwitchIndex, Topology};

pub use load::PortLoads;
pub use policy::{Planner, Policy, UnfitPolicy, UnknownPolicy};

/// The switches of a group and, for each, the ports that belong to its tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    ports: BTreeMap<SwitchIndex, BTreeSet<u32>>,
}

impl Tree {
    /// Builds a tree over `members`; the first one is the leader.
    ///
    /// Panics if `members` is empty.
    pub fn grow(planner: &Planner, view: &View, members: &[HostIndex]) -> Tree {
        let root = planner.root(view, members);
        let mut tree = Tree::new(root);
        for member in members {
            tree.reach(planner, view, root, members[0], *member);
        }
        tree
    }

    /// Adds the missing links of a path from the leader's switch to a new member.
    pub fn extend(&mut self, planner: &Planner, view: &View, leader: HostIndex, member: HostIndex) {
        let (from, _) = view.topology.attachment(leader);
        self.reach(planner, view, from, leader, member);
    }

    fn reach(
        &mut self,
        planner: &Planner,
        view: &View,
        from: SwitchIndex,
        leader: HostIndex,
        member: HostIndex,
    ) {
        walk::reach(view, self, from, |tree, at| {
            planner.port(view, at, leader, member, |port| tree.has_port(at, port))
        });
    }

    /// For each host of the tree, the port of switch `at` that leads to it along the tree.
    pub fn ports_to_hosts(&self, topology: &Topology, at: SwitchIndex) -> BTreeMap<HostIndex, u32> {
        let mut found = BTreeMap::new();
        for first in self.ports_on(at) {
            let mut todo = vec![(at, first)];
            while let Some((switch, port)) = todo.pop() {
                let Some(peer) = topology.neighbour_at(switch, port).map(|n| n.peer) else {
                    continue;
                };
                match peer.node {
                    Node::Host(host) => {
                        found.insert(host, first);
                    }
                    Node::Switch(next) => {
                        let onward = self.ports_on(next).filter(|port| *port != peer.port);
                        todo.extend(onward.map(|port| (next, port)));
                    }
                }
            }
        }
        found
    }

    /// Maximum latency in nanoseconds between two hosts of the tree, with full queues at all links.
    pub fn longest_ns(&self, topology: &Topology) -> u64 {
        // The farthest node from any start is an end of a longest path in a tree.
        let Some(&start) = self.ports.keys().next() else {
            return 0;
        };
        let (end, _) = self.farthest(topology, Node::Switch(start));
        self.farthest(topology, end).1
    }

    /// The node with the highest latency from `start`, and this latency in nanoseconds.
    fn farthest(&self, topology: &Topology, start: Node) -> (Node, u64) {
        let mut farthest = (start, 0);
        let mut todo = vec![(start, None, 0u64)];
        while let Some((at, came_by, ns)) = todo.pop() {
            if ns > farthest.1 {
                farthest = (at, ns);
            }
            let links: Vec<_> = match at {
                Node::Switch(switch) => self
                    .ports_on(switch)
                    .filter_map(|port| topology.neighbour_at(switch, port))
                    .collect(),
                Node::Host(host) => vec![topology.uplink(host)],
            };
            for next in links.iter().filter(|next| came_by != Some(next.link)) {
                let takes = topology.link(next.link).attributes.longest_ns();
                todo.push((next.peer.node, Some(next.link), ns.saturating_add(takes)));
            }
        }
        farthest
    }

    /// Returns a copy of the tree without `hosts`, and without branches that lead only to them.
    pub fn without(&self, topology: &Topology, hosts: &[HostIndex]) -> Tree {
        let mut ports = self.ports.clone();
        for host in hosts {
            let (switch, port) = topology.attachment(*host);
            if let Some(ports) = ports.get_mut(&switch) {
                ports.remove(&port);
            }
        }
        // A switch whose only port leads to the rest of the tree is a dead end.
        let dead_end = |ports: &BTreeMap<SwitchIndex, BTreeSet<u32>>| {
            ports.iter().find_map(|(switch, here)| {
                let peer = |port: &u32| topology.neighbour_at(*switch, *port).map(|n| n.peer);
                match (here.first(), here.len()) {
                    (None, _) => Some((*switch, None)),
                    (Some(port), 1) => match peer(port)?.node {
                        Node::Switch(_) => Some((*switch, peer(port))),
                        Node::Host(_) => None,
                    },
                    _ => None,
                }
            })
        };
        while let Some((switch, peer)) = dead_end(&ports) {
            ports.remove(&switch);
            if let Some((Node::Switch(next), port)) = peer.map(|peer| (peer.node, peer.port)) {
                if let Some(ports) = ports.get_mut(&next) {
                    ports.remove(&port);
                }
            }
        }
        Tree { ports }
    }

    /// All switches of the tree with their ports, both in ascending order.
    pub fn switches(&self) -> impl Iterator<Item = (SwitchIndex, &BTreeSet<u32>)> {
        self.ports.iter().map(|(switch, ports)| (*switch, ports))
    }

    /// Every port of the tree, at both ends of every link.
    pub fn ports(&self) -> impl Iterator<Item = (SwitchIndex, u32)> + '_ {
        self.ports
            .iter()
            .flat_map(|(switch, ports)| ports.iter().map(|port| (*switch, *port)))
    }

    /// Creates a tree of these ports without checking that they form one; see [`Tree::spans`].
    pub fn from_ports(ports: BTreeMap<SwitchIndex, BTreeSet<u32>>) -> Tree {
        Tree { ports }
    }

    /// Adds the ports of another tree.
    pub fn join(&mut self, part: &Tree) {
        for (switch, ports) in &part.ports {
            self.ports.entry(*switch).or_default().extend(ports);
        }
    }

    /// The ports of one switch, in ascending order.
    pub fn ports_on(&self, switch: SwitchIndex) -> impl Iterator<Item = u32> + Clone + '_ {
        self.ports.get(&switch).into_iter().flatten().copied()
    }

    /// Whether the ports form a tree that connects exactly these hosts.
    pub fn spans(&self, topology: &Topology, hosts: &[HostIndex]) -> bool {
        let mut found = BTreeSet::new();
        let mut link_ends = 0;
        let mut reached = BTreeSet::new();
        let mut todo: Vec<_> = self.ports.keys().next().copied().into_iter().collect();
        while let Some(switch) = todo.pop() {
            if !reached.insert(switch) {
                continue;
            }
            for port in self.ports_on(switch) {
                match topology.neighbour_at(switch, port).map(|n| n.peer) {
                    None => return false,
                    Some(peer) => match peer.node {
                        Node::Host(host) => {
                            found.insert(host);
                        }
                        Node::Switch(next) if self.has_port(next, peer.port) => {
                            link_ends += 1;
                            todo.push(next);
                        }
                        Node::Switch(_) => return false,
                    },
                }
            }
        }
        // A connected graph with one link less than switches is a tree.
        reached.len() == self.ports.len()
            && link_ends == 2 * reached.len().saturating_sub(1)
            && found == hosts.iter().copied().collect()
    }

    fn new(leaf: SwitchIndex) -> Tree {
        Tree {
            ports: BTreeMap::from([(leaf, BTreeSet::new())]),
        }
    }

    fn contains(&self, switch: SwitchIndex) -> bool {
        self.ports.contains_key(&switch)
    }

    fn has_port(&self, switch: SwitchIndex, port: u32) -> bool {
        self.ports
            .get(&switch)
            .is_some_and(|ports| ports.contains(&port))
    }

    /// Adds the link behind a port: the port, and the port at the far end if that is a switch.
    fn add_link(&mut self, topology: &Topology, switch: SwitchIndex, port: u32) {
        self.ports.entry(switch).or_default().insert(port);
        if let Some(neighbour) = topology.neighbour_at(switch, port) {
            if let Node::Switch(next) = neighbour.peer.node {
                self.ports
                    .entry(next)
                    .or_default()
                    .insert(neighbour.peer.port);
            }
        }
    }
}

impl View<'_> {
    /// Next hop of `at` towards `member` (Gleam, algorithm 4): a port of the tree if there is one, then the port with the fewest
    /// groups, then the lowest number.
    fn least_loaded(
        &self,
        at: SwitchIndex,
        member: HostIndex,
        has_port: impl Fn(u32) -> bool,
    ) -> u32 {
        let ports = self.paths.next_hops(at, member).iter().copied();
        // Ports of the tree come before all others.
        let rank = |port: &u32| (!has_port(*port), self.loads.groups(at, *port), *port);
        ports
            .min_by_key(rank)
            .expect("every switch has a way to every host")
    }
}

/// Input of tree policies: the network, its usable paths, and the load of its ports.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The network in which the tree is built.
    pub topology: &'a Topology,
    /// Shortest paths of the network, without failed links and switches.
    pub paths: &'a crate::topology::Paths,
    /// Number of groups per port.
    pub loads: &'a PortLoads,
}
