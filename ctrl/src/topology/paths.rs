//! Shortest paths: per destination host, the ports of every switch that lead one hop nearer.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::{HostIndex, LinkIndex, Node, SwitchIndex, Topology};

/// All shortest paths of a topology, by number of links.
///
/// The ports towards a destination form a directed acyclic graph: each leads to a switch that is one link nearer. So any
/// choice of ports is a shortest path. Hosts attached to the same switch share one table.
#[derive(Clone, Debug)]
pub struct Paths {
    /// Per host: index of its switch in `rows`, the switch's port to it, and its switch.
    hosts: Vec<(usize, u32, SwitchIndex)>,
    /// Per host: whether neither its link nor its switch is excluded.
    alive: Vec<bool>,
    /// Per destination switch (one with hosts): the next hops of every switch towards it.
    rows: Vec<Vec<Hop>>,
    /// Distinct sets of ports that occur in `rows`; the first is empty.
    sets: Vec<Box<[u32]>>,
}

/// Next hops of a switch: distance in links, and index of the set of ports. Sets are shared, as switches have few distinct
/// ones.
#[derive(Clone, Copy, Debug, Default)]
struct Hop {
    distance: u32,
    set: u32,
}

impl Paths {
    /// Computes the shortest paths by one breadth-first search per switch with hosts.
    pub fn new(topology: &Topology) -> Paths {
        Paths::without(topology, &BTreeSet::new(), &BTreeSet::new())
    }

    /// Computes the shortest paths without these links and switches.
    pub fn without(
        topology: &Topology,
        links: &BTreeSet<LinkIndex>,
        switches: &BTreeSet<SwitchIndex>,
    ) -> Paths {
        let mut search = Search::new(topology, |from, link, to| {
            !links.contains(&link) && !switches.contains(&from) && !switches.contains(&to)
        });
        let mut row_of = vec![None; topology.switches().len()];
        let mut rows = Vec::new();
        let hosts = topology
            .host_indexes()
            .map(|host| {
                let (switch, port) = topology.attachment(host);
                let row = *row_of[switch.0].get_or_insert_with(|| {
                    rows.push(search.towards(switch));
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
        Paths {
            hosts,
            alive,
            rows,
            sets: search.sets,
        }
    }

    /// Whether there is a path from `switch` to `host`.
    pub fn reaches(&self, switch: SwitchIndex, host: HostIndex) -> bool {
        let (row, _, own) = self.hosts[host.0];
        self.alive[host.0] && (own == switch || !self.towards(row, switch).is_empty())
    }

    /// Ports of `switch` on shortest paths to `host`, in ascending order; empty if there is no path.
    ///
    /// On the host's own switch this is the one port of the host.
    pub fn next_hops(&self, switch: SwitchIndex, host: HostIndex) -> &[u32] {
        let (row, port, own) = &self.hosts[host.0];
        if *own == switch {
            std::slice::from_ref(port)
        } else {
            self.towards(*row, switch)
        }
    }

    /// Sets of two or more equal-cost ports of `switch`, towards any hosts.
    pub fn equal_cost_port_sets(&self, switch: SwitchIndex) -> BTreeSet<&[u32]> {
        let sets: BTreeSet<u32> = self.rows.iter().map(|row| row[switch.0].set).collect();
        let sets = sets.into_iter().map(|set| &*self.sets[set as usize]);
        sets.filter(|ports| ports.len() > 1).collect()
    }

    /// The switch to which a host is attached; `None` if it or the host's link is excluded.
    pub fn last_switch(&self, host: HostIndex) -> Option<SwitchIndex> {
        let (_, _, own) = self.hosts[host.0];
        self.alive[host.0].then_some(own)
    }

    /// Number of links from `switch` to `host`: 1 on the host's own switch. Only valid if the host is reachable.
    pub fn distance(&self, switch: SwitchIndex, host: HostIndex) -> u32 {
        let (row, _, _) = self.hosts[host.0];
        self.rows[row][switch.0].distance + 1
    }

    fn towards(&self, row: usize, switch: SwitchIndex) -> &[u32] {
        &self.sets[self.rows[row][switch.0].set as usize]
    }
}

/// State shared by breadth-first searches over one topology.
struct Search {
    /// Per switch: adjacent switches, each with its port back to this switch.
    next: Vec<Vec<(SwitchIndex, u32)>>,
    sets: Vec<Box<[u32]>>,
    /// Index of each set of ports in `sets`.
    known: HashMap<Box<[u32]>, u32>,
    /// Current search, per switch: its distance once it is reached, and the ports that lead nearer to the target.
    found: Vec<(Option<u32>, Vec<u32>)>,
}

impl Search {
    fn new(
        topology: &Topology,
        usable: impl Fn(SwitchIndex, LinkIndex, SwitchIndex) -> bool,
    ) -> Search {
        let next = topology.switch_indexes().map(|near| {
            let neighbours = topology.neighbours(near).iter();
            let switches = neighbours.filter_map(|neighbour| match neighbour.peer.node {
                Node::Switch(far) if usable(near, neighbour.link, far) => {
                    Some((far, neighbour.peer.port))
                }
                _ => None,
            });
            switches.collect()
        });
        Search {
            next: next.collect(),
            sets: vec![Box::default()],
            known: HashMap::from([(Box::default(), 0)]),
            found: vec![(None, Vec::new()); topology.switches().len()],
        }
    }

    /// Computes the distance to `target` and the ports towards it, for every switch.
    fn towards(&mut self, target: SwitchIndex) -> Vec<Hop> {
        for (distance, ports) in &mut self.found {
            *distance = None;
            ports.clear();
        }
        self.found[target.0].0 = Some(0);
        let mut queue = VecDeque::from([(target, 0)]);
        while let Some((near, so_far)) = queue.pop_front() {
            for (far, port) in &self.next[near.0] {
                let (distance, ports) = &mut self.found[far.0];
                let distance = *distance.get_or_insert_with(|| {
                    queue.push_back((*far, so_far + 1));
                    so_far + 1
                });
                if distance == so_far + 1 {
                    ports.push(*port);
                }
            }
        }
        let (sets, known) = (&mut self.sets, &mut self.known);
        let found = self.found.iter_mut().map(|(distance, ports)| {
            ports.sort_unstable();
            let set = known.get(&ports[..]).copied().unwrap_or_else(|| {
                let number = u32::try_from(sets.len()).expect("fewer sets than rows have places");
                sets.push(ports[..].into());
                known.insert(ports[..].into(), number);
                number
            });
            Hop {
                distance: distance.unwrap_or(0),
                set,
            }
        });
        found.collect()
    }
}
