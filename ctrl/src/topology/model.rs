//! Validated topology, and queries on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;

use super::switching::SwitchingProblem;
use super::{MacAddr, SharedBuffer, Switching};

/// A switch by its position in [`Topology::switches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchIndex(pub usize);

/// A host by its position in [`Topology::hosts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostIndex(pub usize);

/// A link by its position in [`Topology::links`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkIndex(pub usize);

/// A node of the topology: a switch or a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// A P4 switch.
    Switch(SwitchIndex),
    /// A host with one network port.
    Host(HostIndex),
}

/// A P4 switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Name, unique among all switches and hosts.
    pub name: String,
    /// The P4Runtime device id, 1 or more, unique among switches.
    pub device_id: u64,
}

/// A host with one network port and one IPv4 address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Name, unique among all switches and hosts.
    pub name: String,
    /// The IPv4 address, unique among hosts.
    pub ip: Ipv4Addr,
    /// Prefix length of the host's subnet in bits, 1 to 30. The host resolves addresses of the subnet by ARP.
    pub prefix_len: u8,
    /// The Ethernet address, unique among hosts.
    pub mac: MacAddr,
}

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// Switch or host at this end of the link.
    pub node: Node,
    /// The port of a switch, 1 to [`End::MAX_PORT`]; 0 for a host, which has one port only.
    pub port: u32,
}

impl End {
    /// The highest port number of a switch. v1model ports have 9 bits; 510 is the CPU port and 511 the drop port.
    pub const MAX_PORT: u32 = 509;

    /// The network port of a host.
    pub fn host(host: HostIndex) -> End {
        End {
            node: Node::Host(host),
            port: 0,
        }
    }

    /// A port of a switch.
    pub fn switch(switch: SwitchIndex, port: u32) -> End {
        End {
            node: Node::Switch(switch),
            port,
        }
    }
}

/// Rate, delay, MTU and queue of a link; the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkAttributes {
    /// Serialisation rate in bits per second, above 0.
    pub rate_bps: u64,
    /// Propagation delay in nanoseconds.
    pub delay_ns: u64,
    /// Maximum size of an IP packet in bytes, without Ethernet header and trailer.
    pub mtu: u32,
    /// Capacity in bytes of the drop-tail queue at each end, at least one full frame.
    pub queue_bytes: u64,
}

impl LinkAttributes {
    /// Maximum latency of the link in nanoseconds: draining a full queue, serialisation of a full packet, and propagation.
    pub fn longest_ns(&self) -> u64 {
        let bits = (u128::from(self.queue_bytes) + u128::from(self.mtu)) * 8;
        let drain = bits * 1_000_000_000 / u128::from(self.rate_bps.max(1));
        u64::try_from(drain)
            .unwrap_or(u64::MAX)
            .saturating_add(self.delay_ns)
    }
}

impl Default for LinkAttributes {
    /// 100 Gbit/s, 500 ns, 4,200 bytes (a path MTU of 4,096 and its headers), 1 MiB.
    fn default() -> LinkAttributes {
        LinkAttributes {
            rate_bps: 100_000_000_000,
            delay_ns: 500,
            mtu: 4_200,
            queue_bytes: 1 << 20,
        }
    }
}

/// A full-duplex link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Both ends, in the order of the topology file.
    pub ends: [End; 2],
    /// Rate, delay, MTU and queue.
    pub attributes: LinkAttributes,
}

impl Link {
    /// The end of the link opposite to `end`.
    pub fn other(&self, end: End) -> End {
        if self.ends[0] == end {
            self.ends[1]
        } else {
            self.ends[0]
        }
    }
}

/// A neighbour of a node, seen from one of the node's ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Port of the node to which the neighbour is connected.
    pub port: u32,
    /// The far end of the link: the neighbour and its port.
    pub peer: End,
    /// Index of the link between the node and its neighbour.
    pub link: LinkIndex,
}

/// A valid network: unique names, ids and addresses, every host linked to exactly one switch, and all switches connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    pub(super) name: String,
    pub(super) defaults: LinkAttributes,
    pub(super) switching: Switching,
    pub(super) switches: Vec<Switch>,
    pub(super) hosts: Vec<Host>,
    pub(super) links: Vec<Link>,
    pub(super) by_name: BTreeMap<String, Node>,
    pub(super) by_ip: BTreeMap<Ipv4Addr, HostIndex>,
    /// Machine number, from 1, of each node that the file assigns to a machine.
    pub(super) machines: BTreeMap<Node, u32>,
    /// Neighbours of each switch, ordered by port.
    pub(super) switch_neighbours: Vec<Vec<Neighbour>>,
    /// The neighbour of each host: its switch.
    pub(super) host_neighbours: Vec<Neighbour>,
}

impl Topology {
    /// The name given in the file or by the generator.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Attributes of links that do not state their own.
    pub fn defaults(&self) -> LinkAttributes {
        self.defaults
    }

    /// Queueing, buffers and flow control of all switches.
    pub fn switching(&self) -> Switching {
        self.switching
    }

    /// The same network with other queueing, buffers or flow control.
    pub fn with_switching(self, switching: Switching) -> Result<Topology, SwitchingProblem> {
        let topology = Topology { switching, ..self };
        topology.check_switching()?;
        Ok(topology)
    }

    /// The same network with another rate of one link, in bits per second, above 0.
    pub fn with_rate(mut self, link: LinkIndex, rate_bps: u64) -> Topology {
        self.links[link.0].attributes.rate_bps = rate_bps;
        self
    }

    pub(super) fn check_switching(&self) -> Result<(), SwitchingProblem> {
        self.switching.check()?;
        for index in self.switch_indexes() {
            let ports = self.neighbours(index).iter().map(|neighbour| {
                let end = self.show_end(End::switch(index, neighbour.port));
                (end.to_string(), self.link(neighbour.link).attributes)
            });
            let name = &self.switch(index).name;
            let ports: Vec<_> = ports.collect();
            self.switching.check_switch(name, &ports)?;
        }
        Ok(())
    }

    /// The shared buffer of a switch; `None` if each port has its own queue.
    pub fn buffer_of(&self, switch: SwitchIndex) -> Option<SharedBuffer> {
        let ports = self.neighbours(switch).iter();
        let links = ports.map(|neighbour| &self.link(neighbour.link).attributes);
        self.switching.buffer_of(links)
    }

    /// The nodes that the topology file assigns to a machine, and the machine's number, from 1.
    pub fn stated_machines(&self) -> impl Iterator<Item = (Node, u32)> + '_ {
        self.machines.iter().map(|(node, number)| (*node, *number))
    }

    /// All switches, in the order of the file.
    pub fn switches(&self) -> &[Switch] {
        &self.switches
    }

    /// All hosts, in the order of the file.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// All links, in the order of the file.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Indexes of all switches, in order.
    pub fn switch_indexes(&self) -> impl Iterator<Item = SwitchIndex> + use<> {
        (0..self.switches.len()).map(SwitchIndex)
    }

    /// Indexes of all hosts, in order.
    pub fn host_indexes(&self) -> impl Iterator<Item = HostIndex> + use<> {
        (0..self.hosts.len()).map(HostIndex)
    }

    /// A switch.  Panics on an index of another topology.
    pub fn switch(&self, index: SwitchIndex) -> &Switch {
        &self.switches[index.0]
    }

    /// A host.  Panics on an index of another topology.
    pub fn host(&self, index: HostIndex) -> &Host {
        &self.hosts[index.0]
    }

    /// A link.  Panics on an index of another topology.
    pub fn link(&self, index: LinkIndex) -> &Link {
        &self.links[index.0]
    }

    /// A node by its name.
    pub fn node_named(&self, name: &str) -> Option<Node> {
        self.by_name.get(name).copied()
    }

    /// A switch by its name.
    pub fn switch_named(&self, name: &str) -> Option<SwitchIndex> {
        match self.node_named(name)? {
            Node::Switch(index) => Some(index),
            Node::Host(_) => None,
        }
    }

    /// A host by its name.
    pub fn host_named(&self, name: &str) -> Option<HostIndex> {
        match self.node_named(name)? {
            Node::Host(index) => Some(index),
            Node::Switch(_) => None,
        }
    }

    /// A host by its address.
    pub fn host_with_ip(&self, ip: Ipv4Addr) -> Option<HostIndex> {
        self.by_ip.get(&ip).copied()
    }

    /// The links that join two nodes directly, in the order of the file.
    pub fn links_between(&self, a: Node, b: Node) -> impl Iterator<Item = LinkIndex> + '_ {
        let joins = move |link: &Link| {
            let [one, other] = link.ends.map(|end| end.node);
            (one, other) == (a, b) || (one, other) == (b, a)
        };
        let links = self.links.iter().enumerate();
        links
            .filter(move |(_, link)| joins(link))
            .map(|(index, _)| LinkIndex(index))
    }

    /// Name of a node.
    pub fn name_of(&self, node: Node) -> &str {
        match node {
            Node::Switch(index) => &self.switch(index).name,
            Node::Host(index) => &self.host(index).name,
        }
    }

    /// Displays an end as in topology files: `h1`, `s1:2`.
    pub fn show_end(&self, end: End) -> impl fmt::Display + '_ {
        ShowEnd {
            name: self.name_of(end.node),
            port: matches!(end.node, Node::Switch(_)).then_some(end.port),
        }
    }

    /// Neighbours of a switch, ordered by port.
    pub fn neighbours(&self, switch: SwitchIndex) -> &[Neighbour] {
        &self.switch_neighbours[switch.0]
    }

    /// The neighbour of a host: its switch.
    pub fn uplink(&self, host: HostIndex) -> Neighbour {
        self.host_neighbours[host.0]
    }

    /// The switch to which a host is attached, and the switch's port.
    pub fn attachment(&self, host: HostIndex) -> (SwitchIndex, u32) {
        let peer = self.uplink(host).peer;
        match peer.node {
            Node::Switch(switch) => (switch, peer.port),
            Node::Host(_) => unreachable!("the builder refuses links between hosts"),
        }
    }

    /// Neighbour behind one port of a switch; `None` for an unused port.
    pub fn neighbour_at(&self, switch: SwitchIndex, port: u32) -> Option<Neighbour> {
        let ports = self.neighbours(switch);
        let at = ports.binary_search_by_key(&port, |n| n.port).ok()?;
        Some(ports[at])
    }

    /// All links of the switches farthest from hosts: the core switches of a fat-tree, the spines of a leaf-spine network.
    pub fn core_links(&self) -> BTreeSet<LinkIndex> {
        let is_edge = |switch: &SwitchIndex| self.hosts_on(*switch).next().is_some();
        let mut layer: BTreeSet<SwitchIndex> = self.switch_indexes().filter(is_edge).collect();
        let mut seen = layer.clone();
        loop {
            let peers = layer.iter().flat_map(|switch| self.neighbours(*switch));
            let farther = peers.filter_map(|neighbour| match neighbour.peer.node {
                Node::Switch(switch) if !seen.contains(&switch) => Some(switch),
                _ => None,
            });
            let farther: BTreeSet<SwitchIndex> = farther.collect();
            if farther.is_empty() {
                break;
            }
            seen.extend(&farther);
            layer = farther;
        }
        let of_core = layer.iter().flat_map(|switch| self.neighbours(*switch));
        of_core.map(|neighbour| neighbour.link).collect()
    }

    /// The hosts attached to a switch, with the switch's ports, ordered by port.
    pub fn hosts_on(&self, switch: SwitchIndex) -> impl Iterator<Item = (u32, HostIndex)> + '_ {
        self.neighbours(switch)
            .iter()
            .filter_map(|n| match n.peer.node {
                Node::Host(host) => Some((n.port, host)),
                Node::Switch(_) => None,
            })
    }
}

struct ShowEnd<'a> {
    name: &'a str,
    port: Option<u32>,
}

impl fmt::Display for ShowEnd<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.name),
            None => f.write_str(self.name),
        }
    }
}
