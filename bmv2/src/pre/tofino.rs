//! Tofino's replication: exclusion of nodes and ports, groups of nodes of which a packet selects one, and link
//! aggregation groups by a hash of the packet.

use std::collections::BTreeMap;

use super::{Node, NodeHandle, Pre, PreError, Replica};

/// Number of places for nodes in an ECMP group.
pub const ECMP_PLACES: usize = 32;
/// Bits of a hash of multicast packets.
const HASH_MASK: u16 = 0x1fff;

/// Values of a packet by which copies are selected and excluded: fields of the intrinsic metadata for the traffic
/// manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// `level1_exclusion_id`: nodes with this id get no copies.
    pub xid: u16,
    /// `rid`: nodes with this replication id have no copies for excluded ports.
    pub rid: u16,
    /// `level2_exclusion_id`: selects the excluded ports.
    pub yid: u16,
    /// `level1_mcast_hash`: selects a node of each ECMP group.
    pub hash1: u16,
    /// `level2_mcast_hash`: selects a port of each link aggregation group.
    pub hash2: u16,
    /// Whether the node's replication id is part of the latter hash, as on Tofino 2.
    pub hashes_rid: bool,
}

/// A group of nodes of which a packet selects one.
pub type Ecmp = [Option<NodeHandle>; ECMP_PLACES];

/// Settings of Tofino's replication engine.
#[derive(Clone, Debug, Default)]
pub(super) struct TofinoPre {
    /// Ports excluded for packets of a `level2_exclusion_id`, at nodes with their `rid`.
    pruned: BTreeMap<u16, Vec<u32>>,
    /// `rid` of packets whose excluded ports count at all nodes; `None` if there is none.
    global_rid: Option<u16>,
    /// Nodes of ECMP groups by the numbers of the groups.
    ecmps: BTreeMap<u32, Ecmp>,
    /// ECMP groups of multicast groups, each with its `level1_exclusion_id`.
    members: BTreeMap<u32, Vec<(u32, Option<u16>)>>,
    /// Numbers of ports of link aggregation groups on other chips, which come before the group's ports in its order and after them.
    remote: BTreeMap<u16, (u32, u32)>,
}

impl Pre {
    /// Returns the copies of a group, except those excluded for a packet. `None` for an unknown group.
    pub fn copies_for(&self, group: u32, packet: Selection) -> Option<Vec<Replica>> {
        let nodes = self.nodes_of(group)?.iter().copied();
        let of_ecmps = self.tofino.members.get(&group).into_iter().flatten();
        let of_ecmps = of_ecmps
            .filter(|(_, xid)| *xid != Some(packet.xid))
            .filter_map(|(ecmp, _)| choose(self.tofino.ecmps.get(ecmp)?, packet.hash1));
        let mut copies = Vec::new();
        for node in nodes.chain(of_ecmps) {
            let node = self.nodes.get(&node);
            if let Some(node) = node.filter(|node| node.xid != Some(packet.xid)) {
                self.copies_of_node(node, packet, &mut copies);
            }
        }
        Some(copies)
    }

    fn copies_of_node(&self, node: &Node, packet: Selection, copies: &mut Vec<Replica>) {
        let prunes = node.rid == packet.rid || self.tofino.global_rid == Some(packet.rid);
        let pruned = self.tofino.pruned.get(&packet.yid).filter(|_| prunes);
        let hash = match packet.hashes_rid {
            true => (packet.hash2 ^ node.rid) & HASH_MASK,
            false => packet.hash2,
        };
        let of_lags = node.lags.iter();
        let of_lags = of_lags.filter_map(|lag| self.port_of_lag(*lag, hash));
        let ports = node.ports.iter().copied().chain(of_lags);
        let ports = ports.filter(|port| pruned.is_none_or(|pruned| !pruned.contains(port)));
        copies.extend(ports.map(|port| Replica {
            port,
            rid: node.rid,
        }));
    }

    /// The port of a link aggregation group for a hash; `None` if it is one of another chip.
    fn port_of_lag(&self, lag: u16, hash: u16) -> Option<u32> {
        let ports = self.lags.get(&lag)?;
        let (before, after) = self.remote_ports(lag);
        let total = before as usize + ports.len() + after as usize;
        let at = usize::from(hash).checked_rem(total)?;
        ports.get(at.checked_sub(before as usize)?).copied()
    }

    /// Sets the ports excluded for packets of a `level2_exclusion_id`, at nodes with the packet's `rid`.
    pub fn prune(&mut self, yid: u16, ports: &[u32]) {
        match ports.is_empty() {
            true => self.tofino.pruned.remove(&yid),
            false => self.tofino.pruned.insert(yid, super::sorted(ports)),
        };
    }

    /// Sets the `rid` of packets whose excluded ports count at all nodes; `None` for none.
    pub fn set_global_rid(&mut self, rid: Option<u16>) {
        self.tofino.global_rid = rid;
    }

    /// Sets or removes the `level1_exclusion_id` of a node: packets with this id get no copies from the node.
    ///
    /// # Errors
    /// When the node is unknown.
    pub fn set_exclusion_id(&mut self, node: NodeHandle, xid: Option<u16>) -> Result<(), PreError> {
        let node_of = self.nodes.get_mut(&node).ok_or(PreError::NoNode(node))?;
        node_of.xid = xid;
        Ok(())
    }

    /// Sets the nodes of an ECMP group, of which each packet selects one; `None` removes the group.
    pub fn set_ecmp(&mut self, ecmp: u32, nodes: Option<Ecmp>) {
        match nodes {
            Some(nodes) => self.tofino.ecmps.insert(ecmp, nodes),
            None => self.tofino.ecmps.remove(&ecmp),
        };
    }

    /// Sets the ECMP groups of a multicast group, each with its `level1_exclusion_id`.
    pub fn set_ecmps_of(&mut self, group: u32, ecmps: Vec<(u32, Option<u16>)>) {
        match ecmps.is_empty() {
            true => self.tofino.members.remove(&group),
            false => self.tofino.members.insert(group, ecmps),
        };
    }

    /// Sets the numbers of ports that a link aggregation group has on other chips: those before its own ports in the order by which a
    /// hash selects, and those after them.
    pub fn set_remote_ports(&mut self, lag: u16, before: u32, after: u32) {
        match (before, after) {
            (0, 0) => self.tofino.remote.remove(&lag),
            counts => self.tofino.remote.insert(lag, counts),
        };
    }

    /// Returns the numbers that [`Pre::set_remote_ports`] has set.
    pub fn remote_ports(&self, lag: u16) -> (u32, u32) {
        self.tofino.remote.get(&lag).copied().unwrap_or_default()
    }
}

/// The node of an ECMP group for a hash: that at its place, or if the place is empty, one of the nodes in their order.
fn choose(nodes: &Ecmp, hash: u16) -> Option<NodeHandle> {
    let at_place = nodes[usize::from(hash) % ECMP_PLACES];
    at_place.or_else(|| {
        let mut live = nodes.iter().flatten();
        let at = usize::from(hash).checked_rem(live.clone().count())?;
        live.nth(at).copied()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies(pre: &Pre, packet: Selection) -> Vec<(u32, u16)> {
        let copies = pre.copies_for(1, packet).unwrap();
        copies.iter().map(|copy| (copy.port, copy.rid)).collect()
    }

    fn of(xid: u16, rid: u16, yid: u16) -> Selection {
        Selection {
            xid,
            rid,
            yid,
            ..Selection::default()
        }
    }

    #[test]
    fn excluded_nodes_and_ports_get_no_copy() {
        let mut pre = Pre::default();
        pre.create_group(1).unwrap();
        let a = pre.create_node(10, &[1, 2], &[]).unwrap();
        let b = pre.create_node(20, &[2, 3], &[]).unwrap();
        pre.associate(1, a).unwrap();
        pre.associate(1, b).unwrap();
        pre.set_exclusion_id(a, Some(7)).unwrap();
        pre.prune(5, &[2]);
        let all = [(1, 10), (2, 10), (2, 20), (3, 20)];
        assert_eq!(copies(&pre, of(0, 0, 0)), all);
        // Level 1 excludes whole nodes.
        assert_eq!(copies(&pre, of(7, 0, 0)), [(2, 20), (3, 20)]);
        // Level 2 excludes ports of the nodes with the packet's rid.
        assert_eq!(copies(&pre, of(0, 10, 5)), [(1, 10), (2, 20), (3, 20)]);
        assert_eq!(copies(&pre, of(7, 20, 5)), [(3, 20)]);
        assert_eq!(copies(&pre, of(0, 30, 5)), all);
        // The global rid excludes ports of all nodes.
        pre.set_global_rid(Some(30));
        assert_eq!(copies(&pre, of(0, 30, 5)), [(1, 10), (3, 20)]);
        pre.set_exclusion_id(a, None).unwrap();
        pre.prune(5, &[]);
        assert_eq!(copies(&pre, of(7, 10, 5)), all);
        assert_eq!(pre.copies_for(2, of(0, 0, 0)), None);
        assert_eq!(
            pre.set_exclusion_id(NodeHandle(9), None),
            Err(PreError::NoNode(NodeHandle(9)))
        );
    }

    #[test]
    fn a_packet_selects_one_node_of_an_ecmp_group() {
        let mut pre = Pre::default();
        pre.create_group(1).unwrap();
        let nodes = [(10, 1), (20, 2)].map(|(rid, port)| pre.create_node(rid, &[port], &[]));
        let mut ecmp: Ecmp = [None; ECMP_PLACES];
        for (place, node) in ecmp.iter_mut().zip(nodes) {
            *place = Some(node.unwrap());
        }
        pre.set_ecmp(3, Some(ecmp));
        pre.set_ecmps_of(1, vec![(3, Some(9))]);
        let hashed = |hash1| Selection {
            hash1,
            ..Selection::default()
        };
        assert_eq!(copies(&pre, hashed(1)), [(2, 20)]);
        // The place is empty: one of the two nodes.
        assert_eq!(copies(&pre, hashed(4)), [(1, 10)]);
        assert_eq!(copies(&pre, of(9, 0, 0)), []);
        pre.set_ecmp(3, None);
        assert_eq!(copies(&pre, hashed(1)), []);
    }

    #[test]
    fn a_hash_selects_a_port_of_a_link_aggregation_group() {
        let mut pre = Pre::default();
        pre.create_group(1).unwrap();
        pre.set_lag(2, &[5, 6]);
        let node = pre.create_node(3, &[], &[2]).unwrap();
        pre.associate(1, node).unwrap();
        let hashed = |hash2, hashes_rid| Selection {
            hash2,
            hashes_rid,
            ..Selection::default()
        };
        assert_eq!(copies(&pre, hashed(4, false)), [(5, 3)]);
        assert_eq!(copies(&pre, hashed(4, true)), [(6, 3)]);
        // The first of four ports is on another chip, and so is the last.
        pre.set_remote_ports(2, 1, 1);
        assert_eq!(copies(&pre, hashed(4, false)), []);
        assert_eq!(copies(&pre, hashed(6, false)), [(6, 3)]);
        assert_eq!(copies(&pre, hashed(7, false)), []);
    }
}
