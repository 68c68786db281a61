//! Shortest paths: per destination host, the ports of every switch that lead one hop nearer.

use std::collections::{BTreeSet, VecDeque};

use super::{HostIndex, LinkIndex, Node, SwitchIndex, Topology};

/// All shortest paths of a topology, counted in links.
///
/// The ports towards a destination form a directed graph without cycles: each of them leads to a switch that is
/// one link nearer.  Following any port at each switch is therefore a shortest path.
#[derive(Clone, Debug)]
pub struct Paths {
    /// Per host: its row in `rows`, its switch's port to it, and its switch.
    hosts: Vec<(usize, u32, SwitchIndex)>,
    /// Per host: whether its link and its switch are usable.
    alive: Vec<bool>,
    /// Per switch with hosts: what each switch does to come nearer to it.
    rows: Vec<Vec<Hop>>,
}

#[derive(Clone, Debug, Default)]
struct Hop {
    distance: u32,
    ports: Vec<u32>,
}

impl Paths {
    /// Finds the shortest paths; one breadth-first search per switch that has hosts.
    pub fn new(topology: &Topology) -> Paths {
        Paths::without(topology, &BTreeSet::new(), &BTreeSet::new())
    }

    /// The shortest paths that use none of these links and switches.
    pub fn without(
        topology: &Topology,
        links: &BTreeSet<LinkIndex>,
        switches: &BTreeSet<SwitchIndex>,
    ) -> Paths {
        let usable = |from: SwitchIndex, link: LinkIndex, to: SwitchIndex| {
            !links.contains(&link) && !switches.contains(&from) && !switches.contains(&to)
        };
        let mut row_of = vec![None; topology.switches().len()];
        let mut rows = Vec::new();
        let hosts = topology
            .host_indexes()
            .map(|host| {
                let (switch, port) = topology.attachment(host);
                let row = *row_of[switch.0].get_or_insert_with(|| {
                    rows.push(towards(topology, switch, &usable));
                    rows.len() - 1
                });
                (row, port, switch)
            })
            .collect();
        let is_alive = |host| {
            let uplink = topology.uplink(host);
            let (switch, _) = topology.attachment(host);
            !links.contains(&uplink.link) && !switches.contains(&switch)
        };
        let alive = topology.host_indexes().map(is_alive).collect();
        Paths { hosts, alive, rows }
    }

    /// Whether there is a way from `switch` to `host`.
    pub fn reaches(&self, switch: SwitchIndex, host: HostIndex) -> bool {
        let (row, _, own) = &self.hosts[host.0];
        self.alive[host.0] && (*own == switch || !self.rows[*row][switch.0].ports.is_empty())
    }

    /// The ports of `switch` on shortest paths to `host`, in rising order; empty only when nothing leads there.
    ///
    /// On the host's own switch this is the one port of the host.
    pub fn next_hops(&self, switch: SwitchIndex, host: HostIndex) -> &[u32] {
        let (row, port, own) = &self.hosts[host.0];
        if *own == switch {
            std::slice::from_ref(port)
        } else {
            &self.rows[*row][switch.0].ports
        }
    }

    /// Links between `switch` and `host`: 1 on the host's own switch.  Only for hosts that it reaches.
    pub fn distance(&self, switch: SwitchIndex, host: HostIndex) -> u32 {
        let (row, _, _) = self.hosts[host.0];
        self.rows[row][switch.0].distance + 1
    }
}

/// Distance to `target` and ports towards it, for every switch.
fn towards(
    topology: &Topology,
    target: SwitchIndex,
    usable: &impl Fn(SwitchIndex, LinkIndex, SwitchIndex) -> bool,
) -> Vec<Hop> {
    let mut hops: Vec<Option<Hop>> = vec![None; topology.switches().len()];
    hops[target.0] = Some(Hop::default());
    let mut queue = VecDeque::from([target]);
    while let Some(near) = queue.pop_front() {
        let distance = hops[near.0].as_ref().map_or(0, |hop| hop.distance) + 1;
        for neighbour in topology.neighbours(near) {
            let Node::Switch(far) = neighbour.peer.node else {
                continue;
            };
            if !usable(near, neighbour.link, far) {
                continue;
            }
            let hop = hops[far.0].get_or_insert_with(|| {
                queue.push_back(far);
                Hop {
                    distance,
                    ports: Vec::new(),
                }
            });
            if hop.distance == distance {
                hop.ports.push(neighbour.peer.port);
            }
        }
    }
    hops.into_iter()
        .map(|hop| {
            let mut hop = hop.unwrap_or_default();
            hop.ports.sort_unstable();
            hop
        })
        .collect()
}
