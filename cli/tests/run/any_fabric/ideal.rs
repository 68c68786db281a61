//! Lower bound of a message's time to all members of a group, from the group's tree.

use std::collections::BTreeSet;

use alfirk_ctrl::topology::{HostIndex, LinkAttributes, LinkIndex, Node, Paths, Topology};
use alfirk_ctrl::tree::{Planner, Policy, PortLoads, Tree, View};
use alfirk_packet_io::wire::wire_bytes;
use alfirk_roce::rc::PathMtu;
use alfirk_sim::network::Model;

/// Bytes around the payload of a packet: Ethernet, IPv4, UDP, BTH, ICRC.
const HEADERS: usize = 14 + 20 + 8 + 12 + 4;

/// Bytes of an ACK: the same with an AETH.
const ACK: usize = HEADERS + 4;

/// Figures of the slowest and the longest path of a group's tree.
#[derive(Debug, Clone, Copy)]
pub struct Ideal {
    /// Bit/s of the slowest link.
    pub bottleneck_bps: u64,
    /// Nanoseconds from the post of a full packet until its ACK is back from the farthest member, in an empty fabric.
    pub round_trip_ns: u64,
    /// Bytes of payload in a packet.
    pub mtu: usize,
}

impl Ideal {
    /// Figures of a group of all hosts, whose source is the first one.
    pub fn of(topology: &Topology) -> Ideal {
        let smallest = topology.links().iter().map(|link| link.attributes.mtu);
        let mtu = smallest.min().expect("there is a link");
        let mtu = PathMtu::for_ip_mtu(mtu).expect("packets fit").bytes();
        let members: Vec<HostIndex> = topology.host_indexes().collect();
        let planner = Planner::new(Policy::default(), topology).expect("it takes any network");
        let view = View {
            topology,
            paths: &Paths::new(topology),
            loads: &PortLoads::default(),
        };
        let tree = Tree::grow(&planner, &view, &members);
        let mut ideal = Ideal {
            bottleneck_bps: u64::MAX,
            round_trip_ns: 0,
            mtu,
        };
        let uplink = topology.uplink(members[0]);
        ideal.walk(topology, &tree, uplink.peer.node, uplink.link, 0);
        ideal
    }

    /// Visits `node` and the nodes after it; packets and their ACKs have spent `so_far` nanoseconds on the links before.
    fn walk(&mut self, topology: &Topology, tree: &Tree, node: Node, over: LinkIndex, so_far: u64) {
        let link = topology.link(over).attributes;
        self.bottleneck_bps = self.bottleneck_bps.min(link.rate_bps);
        let there = on_link(&link, self.mtu + HEADERS);
        let so_far = so_far + there + on_link(&link, ACK);
        let model = Model::default();
        match node {
            Node::Host(_) => {
                let ends = model.post_delay + 2 * model.nic_delay + model.completion_delay;
                self.round_trip_ns = self.round_trip_ns.max(so_far + ends);
            }
            Node::Switch(switch) => {
                let neighbours: BTreeSet<u32> = tree.ports_on(switch).collect();
                for neighbour in topology.neighbours(switch) {
                    if neighbour.link != over && neighbours.contains(&neighbour.port) {
                        let so_far = so_far + 2 * model.pipeline_latency;
                        self.walk(topology, tree, neighbour.peer.node, neighbour.link, so_far);
                    }
                }
            }
        }
    }

    /// Minimum of outstanding bytes with which the bottleneck is never idle.
    pub fn bandwidth_delay_product(&self) -> u64 {
        let bits = u128::from(self.bottleneck_bps) * u128::from(self.round_trip_ns);
        (bits / 8_000_000_000) as u64
    }

    /// Packets of a message.
    pub fn packets(&self, size: u64) -> u64 {
        size.div_ceil(self.mtu as u64).max(1)
    }

    /// Lower bound in nanoseconds: the message with its headers at the bottleneck, and the longest round trip.
    pub fn completion_ns(&self, size: u64) -> f64 {
        let last = size - (self.packets(size) - 1) * self.mtu as u64;
        let bytes = (self.packets(size) - 1) * wire_bytes(self.mtu + HEADERS)
            + wire_bytes(last as usize + HEADERS);
        bytes as f64 * 8e9 / self.bottleneck_bps as f64 + self.round_trip_ns as f64
    }
}

/// Transmission time in nanoseconds of a frame of `bytes` on a link.
fn on_link(link: &LinkAttributes, bytes: usize) -> u64 {
    let bits = u128::from(wire_bytes(bytes)) * 8_000_000_000;
    (bits / u128::from(link.rate_bps)) as u64 + link.delay_ns
}
