//! Recognition of m-port n-trees: derives the labels of nodes from the linked ports.

use std::collections::BTreeMap;

use super::{HostLabel, Shape, SwitchLabel};
use crate::topology::{End, HostIndex, Node, SwitchIndex, Topology};

/// A topology that is an m-port n-tree, with the labels of its nodes.
///
/// Labels are derived from the linked ports, not from node names or the order in a file.
#[derive(Clone, Debug)]
pub struct NTree {
    shape: Shape,
    hosts: Vec<HostLabel>,
    switches: Vec<SwitchLabel>,
}

/// Error: the topology is not an m-port n-tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("topology {topology} is not an m-port n-tree ({why}); `alfirk topology n-tree --ports M --levels N` makes one")]
pub struct NotAnNTree {
    /// Name of the topology.
    pub topology: String,
    /// The first difference from an m-port n-tree.
    pub why: String,
}

impl NTree {
    /// Derives the labels of all nodes, in time linear in the number of links.
    ///
    /// # Errors
    ///
    /// The topology is not an m-port n-tree, or its ports are numbered differently.
    pub fn recognise(topology: &Topology) -> Result<NTree, NotAnNTree> {
        let found = shape_of(topology).and_then(|shape| {
            let hosts = host_labels(topology, shape)?;
            let switches = switch_labels(topology, shape, &hosts)?;
            Ok(NTree {
                shape,
                hosts,
                switches,
            })
        });
        found.map_err(|why| NotAnNTree {
            topology: topology.name().to_owned(),
            why,
        })
    }

    /// The parameters m and n of the tree.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// A host's label.  Panics on an index of another topology.
    pub fn host(&self, host: HostIndex) -> &HostLabel {
        &self.hosts[host.0]
    }

    /// A switch's label.  Panics on an index of another topology.
    pub fn switch(&self, switch: SwitchIndex) -> &SwitchLabel {
        &self.switches[switch.0]
    }
}

/// Finds the m-port n-tree that has the topology's numbers of ports, switches, hosts and links.
fn shape_of(topology: &Topology) -> Result<Shape, String> {
    let ports = topology
        .switch_indexes()
        .flat_map(|switch| topology.neighbours(switch))
        .map(|neighbour| neighbour.port);
    let ports = ports.max().unwrap_or(0);
    let (switches, hosts, links) = (
        topology.switches().len(),
        topology.hosts().len(),
        topology.links().len(),
    );
    (1..=16)
        .filter_map(|levels| Shape::new(ports, levels).ok())
        .find(|shape| {
            shape.switch_count() == switches as u64
                && shape.host_count() as usize == hosts
                && shape.link_count() == links as u64
        })
        .ok_or_else(|| {
            format!(
                "no n-tree has {hosts} hosts, {links} links and {switches} switches of {ports} ports"
            )
        })
}

/// Labels of all hosts. A host's digits are the ports on the path down to it from any top switch; they are collected on the
/// way up from the host, always by the first upward port.
fn host_labels(topology: &Topology, shape: Shape) -> Result<Vec<HostLabel>, String> {
    let label = |host| {
        let (mut switch, port) = topology.attachment(host);
        let mut digits = vec![port - 1];
        for _ in 1..shape.levels() {
            let up = topology
                .neighbour_at(switch, shape.half() + 1)
                .map(|n| n.peer);
            match up.map(|peer| (peer.node, peer.port)) {
                Some((Node::Switch(upper), port)) => {
                    digits.push(port - 1);
                    switch = upper;
                }
                _ => return Err(wrong_far_end(topology, switch, shape.half() + 1)),
            }
        }
        digits.reverse();
        let label = HostLabel(digits);
        match shape.has_host(&label) {
            true => Ok(label),
            false => Err(format!(
                "host {} is attached to a port that an n-tree does not use for hosts",
                topology.host(host).name
            )),
        }
    };
    topology.host_indexes().map(label).collect()
}

/// Labels of all switches, from the leaves upwards. Every upward port must lead to the switch that [`Shape::above`] computes.
fn switch_labels(
    topology: &Topology,
    shape: Shape,
    hosts: &[HostLabel],
) -> Result<Vec<SwitchLabel>, String> {
    let mut labels = Labels {
        topology,
        by_switch: vec![None; topology.switches().len()],
        taken: BTreeMap::new(),
        todo: Vec::new(),
    };
    for (host, label) in topology.host_indexes().zip(hosts) {
        let (switch, _) = topology.attachment(host);
        labels.set_label(switch, shape.leaf(label).0)?;
    }
    while let Some((switch, label)) = labels.todo.pop() {
        for port in shape.half() + 1..=shape.ports() {
            let Some(above) = shape.above(&label, port) else {
                continue;
            };
            match topology.neighbour_at(switch, port).map(|n| n.peer) {
                Some(peer) if peer.port == above.port => match peer.node {
                    Node::Switch(upper) => labels.set_label(upper, above.switch)?,
                    Node::Host(_) => return Err(wrong_far_end(topology, switch, port)),
                },
                _ => return Err(wrong_far_end(topology, switch, port)),
            }
        }
    }
    let switches = labels.by_switch.into_iter().zip(topology.switches());
    let all = switches.map(|(label, switch)| {
        label.ok_or_else(|| format!("switch {} has no hosts below it", switch.name))
    });
    all.collect()
}

struct Labels<'a> {
    topology: &'a Topology,
    by_switch: Vec<Option<SwitchLabel>>,
    taken: BTreeMap<SwitchLabel, SwitchIndex>,
    /// Labelled switches whose upper neighbours are not labelled yet.
    todo: Vec<(SwitchIndex, SwitchLabel)>,
}

impl Labels<'_> {
    /// Labels a switch. Fails if the switch has another label already, or another switch has this label.
    fn set_label(&mut self, switch: SwitchIndex, label: SwitchLabel) -> Result<(), String> {
        let taken = *self.taken.entry(label.clone()).or_insert(switch);
        let known = &mut self.by_switch[switch.0];
        match known {
            None if taken == switch => {
                *known = Some(label.clone());
                self.todo.push((switch, label));
                Ok(())
            }
            Some(known) if taken == switch && *known == label => Ok(()),
            _ => Err(format!(
                "switch {} is not linked like any switch of an n-tree",
                self.topology.switch(switch).name
            )),
        }
    }
}

fn wrong_far_end(topology: &Topology, switch: SwitchIndex, port: u32) -> String {
    let end = topology.show_end(End::switch(switch, port));
    format!("{end} does not lead to the expected port")
}
