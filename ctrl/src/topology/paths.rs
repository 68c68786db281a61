//! Shortest paths: per destination host, the ports of every switch that lead one hop nearer.

use std::collections::VecDeque;

use super::{HostIndex, Node, SwitchIndex, Topology};

/// All shortest paths of a topology, counted in links.
///
/// The ports towards a destination form a directed graph without cycles: each of them leads to a switch that is
/// one link nearer.  Following any port at each switch is therefore a shortest path.
#[derive(Clone, Debug)]
pub struct Paths {
    /// Per host: its row in `rows`, its switch's port to it, and its switch.
    hosts: Vec<(usize, u32, SwitchIndex)>,
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
        let mut row_of = vec![None; topology.switches().len()];
        let mut rows = Vec::new();
        let hosts = topology
            .host_indexes()
            .map(|host| {
                let (switch, port) = topology.attachment(host);
                let row = *row_of[switch.0].get_or_insert_with(|| {
                    rows.push(towards(topology, switch));
                    rows.len() - 1
                });
                (row, port, switch)
            })
            .collect();
        Paths { hosts, rows }
    }

    /// The ports of `switch` on shortest paths to `host`, in rising order, never empty.
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

    /// Links between `switch` and `host`: 1 on the host's own switch.
    pub fn distance(&self, switch: SwitchIndex, host: HostIndex) -> u32 {
        let (row, _, _) = self.hosts[host.0];
        self.rows[row][switch.0].distance + 1
    }
}

/// Distance to `target` and ports towards it, for every switch.
fn towards(topology: &Topology, target: SwitchIndex) -> Vec<Hop> {
    let mut hops: Vec<Option<Hop>> = vec![None; topology.switches().len()];
    hops[target.0] = Some(Hop::default());
    let mut queue = VecDeque::from([target]);
    while let Some(near) = queue.pop_front() {
        let distance = hops[near.0].as_ref().map_or(0, |hop| hop.distance) + 1;
        for neighbour in topology.neighbours(near) {
            let Node::Switch(far) = neighbour.peer.node else {
                continue;
            };
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
            let mut hop = hop.expect("a topology is in one piece");
            hop.ports.sort_unstable();
            hop
        })
        .collect()
}
