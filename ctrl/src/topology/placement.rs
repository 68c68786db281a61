//! Placement of nodes on machines, for networks too large for one machine.
//!
//! Links between machines are slower than links within one. So the placement minimises their number, and puts hosts on the
//! machine of their switch. It is deterministic.

use std::collections::BTreeMap;

use super::{HostIndex, LinkIndex, Node, SwitchIndex, Topology};

/// Maximum number of switches of a topology for which the search also swaps the machines of two switches. The number of
/// pairs grows with the square of the number of switches.
const MAX_SWAP_SWITCHES: usize = 400;
/// Maximum number of start switches from which a placement is computed; the best result is used.
const MAX_STARTS: usize = 16;

/// Assignment of every node to a machine; machines are numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    machines: usize,
    switches: Vec<usize>,
    hosts: Vec<usize>,
}

/// Error: there is no placement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// There are more machines than switches, so that one would have no switch.
    #[error(
        "{machines} machines for {switches} switches: each needs at least one; name fewer machines"
    )]
    TooManyMachines {
        /// Number of machines.
        machines: usize,
        /// Number of switches of the topology.
        switches: usize,
    },
    /// The topology assigns a node to a machine that does not exist.
    #[error("{node} is assigned to machine {number}, but there are {machines} machines")]
    NoSuchMachine {
        /// Name of the node.
        node: String,
        /// The machine's number, from 1.
        number: u32,
        /// Number of machines.
        machines: usize,
    },
}

impl Placement {
    /// Assigns every node to one of `machines` machines.
    ///
    /// Nodes in `fixed` go to the machine given there (from 0), nodes with a machine number in the topology to that machine. The
    /// others are placed so that machines have about equal numbers of nodes, and few links cross machines.
    ///
    /// # Errors
    /// There are more machines than switches, or the topology has a machine number above `machines`.
    pub fn new(
        topology: &Topology,
        machines: usize,
        fixed: &BTreeMap<Node, usize>,
    ) -> Result<Placement, PlacementError> {
        let switches = topology.switches().len();
        if machines > switches {
            return Err(PlacementError::TooManyMachines { machines, switches });
        }
        let mut places = BTreeMap::new();
        for (node, number) in topology.stated_machines() {
            let place = (number as usize).checked_sub(1);
            let place = place.filter(|place| *place < machines);
            let place = place.ok_or_else(|| PlacementError::NoSuchMachine {
                node: topology.name_of(node).to_owned(),
                number,
                machines,
            })?;
            places.insert(node, place);
        }
        places.extend(fixed.iter().map(|(node, place)| (*node, *place)));
        let search = Search::new(topology, machines, &places);
        let switches = search.best();
        let hosts = topology.host_indexes().map(|host| {
            let with = switches[topology.attachment(host).0 .0];
            places.get(&Node::Host(host)).copied().unwrap_or(with)
        });
        Ok(Placement {
            machines,
            hosts: hosts.collect(),
            switches,
        })
    }

    /// Number of machines.
    pub fn machines(&self) -> usize {
        self.machines
    }

    /// Machine of a node, from 0.
    pub fn machine_of(&self, node: Node) -> usize {
        match node {
            Node::Switch(SwitchIndex(index)) => self.switches[index],
            Node::Host(HostIndex(index)) => self.hosts[index],
        }
    }

    /// The nodes of a machine: switches, then hosts, each in the order of the topology.
    pub fn nodes_of(&self, machine: usize) -> impl Iterator<Item = Node> + '_ {
        let on = move |places: &'_ [usize]| {
            let numbered = places.iter().enumerate();
            let here: Vec<usize> = numbered
                .filter(|(_, place)| **place == machine)
                .map(|(index, _)| index)
                .collect();
            here.into_iter()
        };
        let switches = on(&self.switches).map(|index| Node::Switch(SwitchIndex(index)));
        let hosts = on(&self.hosts).map(|index| Node::Host(HostIndex(index)));
        switches.chain(hosts)
    }

    /// Links between different machines, in the order of the topology, each with the machines of both ends.
    pub fn crossing<'a>(
        &'a self,
        topology: &'a Topology,
    ) -> impl Iterator<Item = (LinkIndex, [usize; 2])> + 'a {
        let links = topology.links().iter().enumerate();
        links.filter_map(|(index, link)| {
            let machines = link.ends.map(|end| self.machine_of(end.node));
            (machines[0] != machines[1]).then_some((LinkIndex(index), machines))
        })
    }
}

/// Input of the search for a placement of switches.
struct Search {
    machines: usize,
    /// Per switch: number of nodes that are placed together: the switch itself and its hosts.
    weight: Vec<usize>,
    /// Per switch: the switches at the other ends of its links.
    links: Vec<Vec<usize>>,
    /// Per switch: the machine of each attached host that is fixed on a machine.
    fixed_host_machines: Vec<Vec<usize>>,
    fixed: Vec<Option<usize>>,
    /// Per machine: number of hosts that are fixed on it.
    fixed_hosts: Vec<usize>,
    /// Average number of nodes per machine, rounded up.
    share: usize,
    /// Maximum number of nodes per machine.
    limit: usize,
}

type MachineBySwitch = Vec<usize>;
const UNPLACED: usize = usize::MAX;

impl Search {
    fn new(topology: &Topology, machines: usize, fixed: &BTreeMap<Node, usize>) -> Search {
        let (mut fixed_hosts, mut weight, mut links, mut fixed_host_machines) =
            (vec![0; machines], Vec::new(), Vec::new(), Vec::new());
        for switch in topology.switch_indexes() {
            let (mut own, mut peers, mut machines_of_hosts) = (1, Vec::new(), Vec::new());
            for neighbour in topology.neighbours(switch) {
                match (neighbour.peer.node, fixed.get(&neighbour.peer.node)) {
                    (Node::Switch(SwitchIndex(peer)), _) => peers.push(peer),
                    (Node::Host(_), Some(machine)) => {
                        machines_of_hosts.push(*machine);
                        fixed_hosts[*machine] += 1;
                    }
                    (Node::Host(_), None) => own += 1,
                }
            }
            weight.push(own);
            links.push(peers);
            fixed_host_machines.push(machines_of_hosts);
        }
        let all = weight.iter().sum::<usize>() + fixed_hosts.iter().sum::<usize>();
        let share = all.div_ceil(machines);
        let largest = weight.iter().max().copied().unwrap_or(0);
        let of = |switch: SwitchIndex| fixed.get(&Node::Switch(switch)).copied();
        Search {
            machines,
            links,
            fixed_host_machines,
            fixed: topology.switch_indexes().map(of).collect(),
            fixed_hosts,
            share,
            limit: share + largest / 2,
            weight,
        }
    }

    /// The best of the placements that are computed from several start switches.
    fn best(&self) -> MachineBySwitch {
        let count = self.weight.len();
        let step = count.div_ceil(MAX_STARTS).max(1);
        let tried = (0..count).step_by(step).map(|first| {
            let mut places = self.place_greedily(first);
            self.refine(&mut places);
            places
        });
        let best = tried.min_by_key(|places| self.cost(places));
        best.expect("a topology has a switch")
    }

    /// Cost of a placement, in lexicographic order: machines without a switch, nodes above the limit, links between machines,
    /// nodes of the fullest machine.
    fn cost(&self, places: &MachineBySwitch) -> (usize, usize, usize, usize) {
        let loads = self.loads(places);
        let empty = (0..self.machines).filter(|machine| !places.contains(machine));
        let beyond = loads.iter().map(|load| load.saturating_sub(self.limit));
        let crossing: usize = (0..places.len())
            .map(|switch| {
                let peers = &self.links[switch];
                // Each link between switches is counted at both ends, so links to hosts count twice, too.
                let out = peers
                    .iter()
                    .filter(|p| places[**p] != places[switch])
                    .count();
                let fixed = self.fixed_host_machines[switch].iter();
                out + 2 * fixed.filter(|m| **m != places[switch]).count()
            })
            .sum();
        let fullest = loads.iter().max().copied().unwrap_or(0);
        (empty.count(), beyond.sum(), crossing / 2, fullest)
    }

    fn loads(&self, places: &MachineBySwitch) -> Vec<usize> {
        let mut loads = self.fixed_hosts.clone();
        for (switch, &place) in places.iter().enumerate().filter(|(_, p)| **p != UNPLACED) {
            loads[place] += self.weight[switch];
        }
        loads
    }

    /// Number of links from a switch to nodes on a machine.
    fn links_to_machine(&self, places: &MachineBySwitch, switch: usize, machine: usize) -> usize {
        let peers = self.links[switch].iter();
        let fixed = self.fixed_host_machines[switch].iter();
        peers.filter(|peer| places[**peer] == machine).count()
            + fixed.filter(|m| **m == machine).count()
    }

    /// MachineBySwitch switches greedily: fills one machine after the other with the switches that have the most links to it.
    /// `first`: start switch, which is preferred among equals.
    fn place_greedily(&self, first: usize) -> MachineBySwitch {
        let mut places: MachineBySwitch =
            self.fixed.iter().map(|f| f.unwrap_or(UNPLACED)).collect();
        let before = self.loads(&places);
        for (machine, mut load) in before.into_iter().enumerate() {
            let is_last = machine + 1 == self.machines;
            loop {
                // Leave a switch for each remaining empty machine.
                let rest = places.iter().filter(|p| **p == UNPLACED).count();
                let empty = (machine + 1..self.machines).filter(|m| !places.contains(m));
                let has = places.contains(&machine);
                if rest == 0 || (has && !is_last && rest <= empty.count()) {
                    break;
                }
                let waiting = (0..places.len()).filter(|switch| places[*switch] == UNPLACED);
                let next = waiting.max_by_key(|&switch| {
                    let links_to_machine = self.links_to_machine(&places, switch, machine);
                    let out = self.links_to_machine(&places, switch, UNPLACED);
                    let from_first = (switch + places.len() - first) % places.len();
                    (links_to_machine, usize::MAX - out, usize::MAX - from_first)
                });
                let next = next.expect("some are nowhere");
                let would = load + self.weight[next];
                // Stop when another switch would exceed the share by more than half of what is missing now.
                let fits = would.saturating_sub(self.share) <= self.share.saturating_sub(load) / 2;
                if has && !is_last && !fits {
                    break;
                }
                places[next] = machine;
                load = would;
            }
        }
        places
    }

    /// Local search: moves and swaps switches until the cost does not decrease any more.
    fn refine(&self, places: &mut MachineBySwitch) {
        let movable: Vec<usize> = (0..places.len())
            .filter(|switch| self.fixed[*switch].is_none())
            .collect();
        loop {
            let before = self.cost(places);
            for &switch in &movable {
                self.apply_best_change(places, |trial| {
                    let here = trial[switch];
                    (0..self.machines)
                        .filter(move |machine| *machine != here)
                        .map(move |machine| vec![(switch, machine)])
                        .collect()
                });
            }
            if movable.len() <= MAX_SWAP_SWITCHES && self.cost(places) == before {
                for (nth, &one) in movable.iter().enumerate() {
                    let others = movable[nth + 1..].iter();
                    // A switch without links to other machines gains nothing by a swap.
                    if self.links_to_machine(places, one, places[one]) == self.links[one].len() {
                        continue;
                    }
                    for &other in others.clone() {
                        if self.swap_helps(places, one, other) {
                            self.apply_best_change(places, |trial| {
                                vec![vec![(one, trial[other]), (other, trial[one])]]
                            });
                        }
                    }
                }
            }
            if self.cost(places) >= before {
                return;
            }
        }
    }

    /// Whether swapping the machines of two switches reduces the number of links between machines.
    fn swap_helps(&self, places: &MachineBySwitch, one: usize, other: usize) -> bool {
        let (here, there) = (places[one], places[other]);
        if here == there {
            return false;
        }
        let won =
            self.links_to_machine(places, one, there) + self.links_to_machine(places, other, here);
        let lost =
            self.links_to_machine(places, one, here) + self.links_to_machine(places, other, there);
        // Links between the two switches cross before and after, but were counted twice as gained.
        let between = self.links[one].iter().filter(|peer| **peer == other);
        won > lost + 2 * between.count()
    }

    /// Applies the change with the lowest cost, if it reduces the cost.
    fn apply_best_change(
        &self,
        places: &mut MachineBySwitch,
        changes: impl Fn(&MachineBySwitch) -> Vec<Vec<(usize, usize)>>,
    ) {
        let mut best = (self.cost(places), None);
        for change in changes(places) {
            let mut trial = places.clone();
            for &(switch, machine) in &change {
                trial[switch] = machine;
            }
            let cost = self.cost(&trial);
            if cost < best.0 {
                best = (cost, Some(trial));
            }
        }
        if let (_, Some(better)) = best {
            *places = better;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{fat_tree, leaf_spine, testbed};
    use super::*;

    fn place(topology: &Topology, machines: usize) -> Placement {
        Placement::new(topology, machines, &BTreeMap::new()).unwrap()
    }

    fn loads(placement: &Placement) -> Vec<usize> {
        let machines = 0..placement.machines();
        machines
            .map(|machine| placement.nodes_of(machine).count())
            .collect()
    }

    #[test]
    fn hosts_stay_with_their_switches_and_machines_are_balanced() {
        for (topology, machines, most_crossing) in [
            (fat_tree(4).unwrap(), 2, 8),
            (fat_tree(4).unwrap(), 3, 12),
            (fat_tree(4).unwrap(), 4, 12),
            (leaf_spine(4, 2, 4).unwrap(), 2, 4),
            (fat_tree(8).unwrap(), 3, 90),
        ] {
            let placement = place(&topology, machines);
            for host in topology.host_indexes() {
                let switch = topology.attachment(host).0;
                assert_eq!(
                    placement.machine_of(Node::Host(host)),
                    placement.machine_of(Node::Switch(switch))
                );
            }
            let loads = loads(&placement);
            let nodes = topology.switches().len() + topology.hosts().len();
            assert_eq!(loads.iter().sum::<usize>(), nodes);
            let share = nodes.div_ceil(machines);
            let name = topology.name();
            assert!(
                loads.iter().all(|load| *load <= share + 2),
                "{name}: {loads:?}"
            );
            let crossing = placement.crossing(&topology).count();
            assert!(
                crossing <= most_crossing,
                "{name} on {machines}: {crossing}"
            );
            assert_eq!(place(&topology, machines), placement);
        }
    }

    #[test]
    fn one_machine_has_everything() {
        let topology = fat_tree(4).unwrap();
        let placement = place(&topology, 1);
        assert_eq!(placement.crossing(&topology).count(), 0);
        assert_eq!(loads(&placement), [36]);
    }

    #[test]
    fn fixed_nodes_stay_on_their_machines() {
        let topology = leaf_spine(2, 1, 2).unwrap();
        let node = |name| topology.node_named(name).unwrap();
        let (first, host) = (Node::Switch(SwitchIndex(0)), node("h1"));
        let fixed = BTreeMap::from([(first, 1), (host, 0)]);
        let placement = Placement::new(&topology, 2, &fixed).unwrap();
        assert_eq!(
            (placement.machine_of(first), placement.machine_of(host)),
            (1, 0)
        );
        let crossing: Vec<[usize; 2]> = placement.crossing(&topology).map(|(_, m)| m).collect();
        assert!(crossing.iter().all(|[a, b]| a != b) && !crossing.is_empty());
    }

    #[test]
    fn machine_numbers_of_the_file_count_from_one_and_are_overridden_by_fixed_ones() {
        let text = leaf_spine(2, 1, 1).unwrap().to_yaml();
        let text = text.replace("switches:\n", "machines: {2: [h1], 1: [h2]}\nswitches:\n");
        let topology = Topology::from_yaml("t.yaml", &text).unwrap();
        assert_eq!(
            Topology::from_yaml("t.yaml", &topology.to_yaml()).unwrap(),
            topology
        );
        let [h1, h2] = ["h1", "h2"].map(|name| topology.node_named(name).unwrap());
        let placement = place(&topology, 2);
        assert_eq!([placement.machine_of(h1), placement.machine_of(h2)], [1, 0]);
        let fixed = BTreeMap::from([(h1, 0)]);
        let placement = Placement::new(&topology, 2, &fixed).unwrap();
        assert_eq!([placement.machine_of(h1), placement.machine_of(h2)], [0, 0]);
        let error = Placement::new(&topology, 1, &BTreeMap::new()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "h1 is assigned to machine 2, but there are 1 machines"
        );
    }

    #[test]
    fn more_machines_than_switches_are_refused() {
        let error = Placement::new(&testbed(), 2, &BTreeMap::new()).unwrap_err();
        assert!(
            error.to_string().starts_with("2 machines for 1 switches"),
            "{error}"
        );
    }
}
