//! Shortest paths: per destination host, the ports of every switch that lead one hop nearer.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::{HostIndex, LinkIndex, Node, SwitchIndex, Topology};

/// All shortest paths of a topology, counted in links.
///
/// The ports towards a destination form a directed graph without cycles: each of them leads to a switch that is
/// one link nearer.  Following any port at each switch is therefore a shortest path.
///
/// Hosts of one switch share what leads there.
#[derive(Clone, Debug)]
pub struct Paths {
    /// Per host: its row in `rows`, its switch's port to it, and its switch.
    hosts: Vec<(usize, u32, SwitchIndex)>,
    /// Per host: whether its link and its switch are usable.
    alive: Vec<bool>,
    /// Per switch with hosts: what each switch does to come nearer to it.
    rows: Vec<Vec<Hop>>,
    /// Every set of ports that is in some row, each once; the first is empty.
    sets: Vec<Box<[u32]>>,
}

/// Few switches have more than a few sets of ports, so each is kept once for all rows.
#[derive(Clone, Copy, Debug, Default)]
struct Hop {
    distance: u32,
    set: u32,
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

    /// Whether there is a way from `switch` to `host`.
    pub fn reaches(&self, switch: SwitchIndex, host: HostIndex) -> bool {
        let (row, _, own) = self.hosts[host.0];
        self.alive[host.0] && (own == switch || !self.towards(row, switch).is_empty())
    }

    /// The ports of `switch` on shortest paths to `host`, in rising order; empty only when nothing leads there.
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

    /// The sets of two or more ports of `switch` that are equally near to some hosts.
    pub fn equal_costs(&self, switch: SwitchIndex) -> BTreeSet<&[u32]> {
        let sets: BTreeSet<u32> = self.rows.iter().map(|row| row[switch.0].set).collect();
        let sets = sets.into_iter().map(|set| &*self.sets[set as usize]);
        sets.filter(|ports| ports.len() > 1).collect()
    }

    /// The switch that a host is on; `None` when it or the host's link is not usable.
    pub fn last_switch(&self, host: HostIndex) -> Option<SwitchIndex> {
        let (_, _, own) = self.hosts[host.0];
        self.alive[host.0].then_some(own)
    }

    /// Links between `switch` and `host`: 1 on the host's own switch.  Only for hosts that it reaches.
    pub fn distance(&self, switch: SwitchIndex, host: HostIndex) -> u32 {
        let (row, _, _) = self.hosts[host.0];
        self.rows[row][switch.0].distance + 1
    }

    fn towards(&self, row: usize, switch: SwitchIndex) -> &[u32] {
        &self.sets[self.rows[row][switch.0].set as usize]
    }
}

/// Breadth-first searches over one topology, with what they have in common.
struct Search {
    /// Per switch: the switches next to it, each with its port that leads back.
    next: Vec<Vec<(SwitchIndex, u32)>>,
    sets: Vec<Box<[u32]>>,
    /// Where each of them is.
    known: HashMap<Box<[u32]>, u32>,
    /// Of the search under way, per switch: its distance once it is found, and the ports that lead nearer.
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

    /// Distance to `target` and ports towards it, for every switch.
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
