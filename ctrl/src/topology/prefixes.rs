//! Aggregation of host routes into prefixes: the minimum set of routes of a switch.
//!
//! Hosts are the leaves of a binary tree over their addresses.  Every inner node is the longest prefix of the hosts
//! below it and goes where its representative goes, its first host; so a node needs an entry of its own only where it
//! goes another way than the node above:
//!
//! ```text
//!   10.0.0.0/14 ── up                      an edge switch with the hosts 10.2.1.1 and 10.2.1.2 needs
//!     ├─ 10.0.0.0/15 ── up                   10.0.0.0/14  up
//!     └─ 10.2.0.0/15 ── up                   10.2.1.0/30  nowhere
//!          ├─ 10.2.0.0/30 ── up              10.2.1.1/32  to the first host
//!          └─ 10.2.1.0/30 ── nowhere         10.2.1.2/32  to the second host
//!               ├─ 10.2.1.1 ── to the first host
//!               └─ 10.2.1.2 ── to the second host
//! ```
//!
//! That holds for any addresses on any network; how few entries there are depends on both.
//!
//! An address that no host has goes the way of the representative of the longest prefix around it, at every switch of
//! the same, and ends at that host's switch.  So it goes in no circle either.

use std::net::Ipv4Addr;

use super::{HostIndex, Paths, SwitchIndex, Topology};

/// A prefix of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    /// The first address.
    pub network: Ipv4Addr,
    /// Fixed bits, 0 to 32.
    pub len: u8,
}

impl Prefix {
    /// A prefix of 0 to 32 fixed bits; the others of `address` are cleared.
    pub fn new(address: Ipv4Addr, len: u8) -> Prefix {
        Prefix {
            network: Ipv4Addr::from(u32::from(address) & mask(len)),
            len,
        }
    }

    /// Whether the address lies in the prefix.
    pub fn holds(self, address: Ipv4Addr) -> bool {
        Prefix::new(address, self.len) == self
    }

    fn common(self, other: Prefix) -> Prefix {
        let differing = u32::from(self.network) ^ u32::from(other.network);
        let len = (differing.leading_zeros() as u8)
            .min(self.len)
            .min(other.len);
        Prefix::new(self.network, len)
    }
}

fn mask(len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
}

/// Where the addresses of a prefix go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// To a host.
    Host(HostIndex),
    /// As far as the switch that a host is on.
    Towards(HostIndex),
    /// Nowhere.
    Nowhere,
}

/// The tree of all hosts' addresses.
#[derive(Clone, Debug)]
pub struct PrefixTree {
    nodes: Vec<Node>,
    root: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    prefix: Prefix,
    place: Place,
    /// The switch of all hosts below; `None` if there are several, or none that can be reached.
    switch: Option<SwitchIndex>,
    below: Option<[usize; 2]>,
}

impl PrefixTree {
    /// The tree for the hosts of a topology, of which those that have lost their link or switch go nowhere.
    ///
    /// No prefix that leads anywhere holds an address of `reserved`, and no host in it is reached.
    pub fn new(topology: &Topology, paths: &Paths, reserved: Prefix) -> PrefixTree {
        let mut leaves: Vec<Node> = topology
            .host_indexes()
            .filter(|host| !reserved.holds(topology.host(*host).ip))
            .map(|host| {
                let switch = paths.last_switch(host);
                Node {
                    prefix: Prefix::new(topology.host(host).ip, 32),
                    place: switch.map_or(Place::Nowhere, |_| Place::Host(host)),
                    switch,
                    below: None,
                }
            })
            .collect();
        leaves.push(Node {
            prefix: reserved,
            place: Place::Nowhere,
            switch: None,
            below: None,
        });
        leaves.sort_unstable_by_key(|leaf| leaf.prefix);
        let mut tree = PrefixTree {
            nodes: Vec::with_capacity(2 * leaves.len()),
            root: None,
        };
        tree.root = tree.grow(&leaves, reserved);
        tree
    }

    /// Adds the node of some leaves, in the order of their addresses; recurses at most 32 times.
    fn grow(&mut self, leaves: &[Node], reserved: Prefix) -> Option<usize> {
        let node = match leaves {
            [] => return None,
            [leaf] => *leaf,
            [first, .., last] => {
                let prefix = first.prefix.common(last.prefix);
                // The first bit in which they differ.
                let bit = 1u32 << (31 - prefix.len);
                let is_left = |leaf: &Node| u32::from(leaf.prefix.network) & bit == 0;
                let (left, right) = leaves.split_at(leaves.partition_point(is_left));
                let below = [self.grow(left, reserved)?, self.grow(right, reserved)?];
                let [left, right] = below.map(|node| &self.nodes[node]);
                let place = match left.place {
                    // A switch's default is nowhere, too, and no entry can be that wide.
                    _ if prefix.len == 0 || prefix.common(reserved) == prefix => Place::Nowhere,
                    Place::Host(host) => Place::Towards(host),
                    place => place,
                };
                Node {
                    prefix,
                    place,
                    switch: left.switch.filter(|switch| right.switch == Some(*switch)),
                    below: Some(below),
                }
            }
        };
        self.nodes.push(node);
        Some(self.nodes.len() - 1)
    }

    /// What `switch` has to tell apart if it does `act` with each place, and `nothing` with addresses outside all
    /// prefixes: the longest prefix that holds an address says what is done with it.  Longer prefixes come behind those that
    /// hold them.
    ///
    /// `act` does the same with all hosts of one other switch.
    pub fn entries<A: Copy + PartialEq>(
        &self,
        switch: SwitchIndex,
        nothing: A,
        act: impl Fn(Place) -> A,
    ) -> Vec<(Prefix, A)> {
        let mut entries = Vec::new();
        let mut todo: Vec<(usize, A)> = self.root.map(|root| (root, nothing)).into_iter().collect();
        while let Some((node, above)) = todo.pop() {
            let node = &self.nodes[node];
            let action = act(node.place);
            if action != above {
                entries.push((node.prefix, action));
            }
            let is_one = node.switch.is_some_and(|only| only != switch);
            if let (Some([left, right]), false) = (node.below, is_one) {
                todo.extend([(right, action), (left, action)]);
            }
        }
        entries
    }
}
