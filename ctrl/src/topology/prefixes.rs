//! Aggregation of host routes into prefixes: the minimum set of routes of a switch.
//!
//! Hosts are the leaves of a binary tree over their addresses. Every inner node is the longest common prefix of the hosts
//! below it, and is forwarded like its representative, the first of these hosts. So a node needs a route of its own only if
//! its action differs from that of its parent:
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
//! This is correct for any addresses and networks; the number of entries depends on both.
//!
//! Packets to an address without a host follow the representative of the longest prefix that contains it, the same one at
//! every switch. They are dropped at that host's switch, and so cannot loop.

use std::net::Ipv4Addr;

use super::{HostIndex, Paths, SwitchIndex, Topology};

/// A prefix of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    /// The first address of the prefix.
    pub network: Ipv4Addr,
    /// Prefix length in bits, 0 to 32.
    pub len: u8,
}

impl Prefix {
    /// Creates a prefix of `len` bits, 0 to 32; the other bits of `address` are cleared.
    pub fn new(address: Ipv4Addr, len: u8) -> Prefix {
        Prefix {
            network: Ipv4Addr::from(u32::from(address) & mask(len)),
            len,
        }
    }

    /// Whether the prefix contains the address.
    pub fn contains(self, address: Ipv4Addr) -> bool {
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

/// Destination of the addresses in a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A host: packets are forwarded to it.
    Host(HostIndex),
    /// Several hosts: packets are forwarded to the switch of this one, which drops them unless a longer prefix matches.
    Towards(HostIndex),
    /// No destination: packets are dropped.
    Nowhere,
}

/// Binary tree of prefixes over the addresses of all hosts.
#[derive(Clone, Debug)]
pub struct PrefixTree {
    nodes: Vec<Node>,
    root: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    prefix: Prefix,
    place: Destination,
    /// The switch to which all hosts below are attached; `None` if they are attached to several, or if one of them cannot be
    /// reached.
    switch: Option<SwitchIndex>,
    below: Option<[usize; 2]>,
}

impl PrefixTree {
    /// Builds the tree for the hosts of a topology. Hosts whose link or switch is excluded from `paths` have no destination.
    ///
    /// `reserved`: a prefix without routes, such as the range of group addresses. Hosts inside it are not reachable.
    pub fn new(topology: &Topology, paths: &Paths, reserved: Prefix) -> PrefixTree {
        let mut leaves: Vec<Node> = topology
            .host_indexes()
            .filter(|host| !reserved.contains(topology.host(*host).ip))
            .map(|host| {
                let switch = paths.last_switch(host);
                Node {
                    prefix: Prefix::new(topology.host(host).ip, 32),
                    place: switch.map_or(Destination::Nowhere, |_| Destination::Host(host)),
                    switch,
                    below: None,
                }
            })
            .collect();
        leaves.push(Node {
            prefix: reserved,
            place: Destination::Nowhere,
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

    /// Adds the subtree over these leaves (hosts), which are sorted by address, and returns the index of its root. The
    /// recursion depth is at most 32.
    fn grow(&mut self, leaves: &[Node], reserved: Prefix) -> Option<usize> {
        let node = match leaves {
            [] => return None,
            [leaf] => *leaf,
            [first, .., last] => {
                let prefix = first.prefix.common(last.prefix);
                // The first bit in which the addresses differ.
                let bit = 1u32 << (31 - prefix.len);
                let is_left = |leaf: &Node| u32::from(leaf.prefix.network) & bit == 0;
                let (left, right) = leaves.split_at(leaves.partition_point(is_left));
                let below = [self.grow(left, reserved)?, self.grow(right, reserved)?];
                let [left, right] = below.map(|node| &self.nodes[node]);
                let place = match left.place {
                    // A prefix of 0 bits needs no entry, as the default action drops, too.
                    _ if prefix.len == 0 || prefix.common(reserved) == prefix => {
                        Destination::Nowhere
                    }
                    Destination::Host(host) => Destination::Towards(host),
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

    /// Minimum list of prefixes with actions for a switch, to be matched by the longest prefix.
    ///
    /// `action`: action of the switch for a destination; it must be equal for all hosts attached to the same other switch. `default_action`:
    /// action for addresses outside all prefixes. A prefix precedes the longer prefixes that it contains.
    pub fn entries<A: Copy + PartialEq>(
        &self,
        switch: SwitchIndex,
        default_action: A,
        action: impl Fn(Destination) -> A,
    ) -> Vec<(Prefix, A)> {
        let mut entries = Vec::new();
        let mut todo: Vec<(usize, A)> = self
            .root
            .map(|root| (root, default_action))
            .into_iter()
            .collect();
        while let Some((node, above)) = todo.pop() {
            let node = &self.nodes[node];
            let action = action(node.place);
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
