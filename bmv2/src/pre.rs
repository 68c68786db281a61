//! The packet replication engine (PRE): multicast groups of nodes, and clone sessions.
//!
//! A node (BMv2: level 1) has a replication id and a set of ports (level 2). A group is a list of nodes. Copies are
//! made node by node in the order of their association. Within a node they are ordered by port, and those of its
//! link aggregation groups follow. This is the order of BMv2's `simple_pre_lag`.

mod tofino;

use crate::manage::{Change, Changes};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use tofino::TofinoPre;
pub use tofino::{Ecmp, Selection, ECMP_PLACES};

/// A copy of a packet that the replication engine creates: its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Replica {
    /// Egress port of the copy.
    pub port: u32,
    /// Replication id of the copy: `egress_rid` in v1model, `instance` in P4Runtime.
    pub rid: u16,
}

/// Identifies a multicast node until it is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeHandle(pub u32);

/// Error of a change of multicast groups or clone sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PreError {
    /// The multicast group cannot be created, since it exists already.
    #[error("multicast group {0} exists already")]
    GroupExists(u32),
    /// The multicast group does not exist.
    #[error("multicast group {0} does not exist")]
    NoGroup(u32),
    /// Group 0 cannot be set, since 0 in `mcast_grp` means unicast.
    #[error("multicast group 0 is reserved: it means no multicast, and cannot be set")]
    GroupZero,
    /// The multicast node with this handle does not exist.
    #[error("multicast node {} does not exist", .0 .0)]
    NoNode(NodeHandle),
    /// The node is in a group, and a node can be in one group only.
    #[error("multicast node {} is in a group already; dissociate it first", .0 .0)]
    Associated(NodeHandle),
    /// The multicast node is not in the group from which it is to be removed.
    #[error("multicast node {} is not in group {group}", .node.0)]
    NotAssociated {
        /// Handle of the node.
        node: NodeHandle,
        /// Number of the group.
        group: u32,
    },
    /// The number of the clone session is above [`MAX_SESSION`].
    #[error("clone session {0} is above 32767")]
    SessionOutOfRange(u32),
    /// The clone session does not exist.
    #[error("clone session {0} does not exist")]
    NoSession(u32),
    /// A limit of [`PreLimits`] is reached.
    #[error("the limit of {limit} {what} is reached")]
    Full {
        /// Kind of the limited objects.
        what: &'static str,
        /// Maximum number of objects of this kind.
        limit: usize,
    },
}

/// A multicast node: the copies of one replication id within a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Replication id of the copies.
    pub rid: u16,
    /// Egress ports of the node's copies, in ascending order.
    pub ports: Vec<u32>,
    /// Link aggregation groups, in ascending order; one port of each gets a copy.
    pub lags: Vec<u16>,
    /// Number of the group that the node is in, if any.
    pub group: Option<u32>,
    /// Tofino: packets with this `level1_exclusion_id` get no copies from the node; `None` to exclude no packets.
    pub xid: Option<u16>,
}

/// A clone session: destinations and length of clones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloneSession {
    /// Clones to create, each with its egress port.
    pub replicas: Vec<Replica>,
    /// Multicast group whose copies are made in addition (`mirroring_add_mc`), if any.
    pub group: Option<u32>,
    /// Maximum length of clones in bytes; 0 for no limit.
    pub truncate_bytes: u32,
    /// Priority of the queue for clones; the highest is served first.
    pub class_of_service: u32,
}

/// Limits of the replication engine, as simple_switch's `--max-mc-groups` and the related options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreLimits {
    /// Maximum number of multicast groups.
    pub groups: usize,
    /// Maximum number of multicast nodes.
    pub nodes: usize,
}

impl Default for PreLimits {
    /// Returns limits that are never reached.
    fn default() -> PreLimits {
        PreLimits {
            groups: usize::MAX,
            nodes: usize::MAX,
        }
    }
}

/// The packet replication engine: multicast groups, nodes, link aggregation groups and clone sessions.
#[derive(Clone, Debug, Default)]
pub struct Pre {
    pub(crate) limits: PreLimits,
    /// Multicast groups by their number.
    groups: FxHashMap<u32, Group>,
    nodes: BTreeMap<NodeHandle, Node>,
    /// Handles below `next_node` that no node uses.
    free_nodes: BinaryHeap<Reverse<u32>>,
    next_node: u32,
    /// Ports of link aggregation groups by their number.
    lags: BTreeMap<u16, Vec<u32>>,
    tofino: TofinoPre,
    /// Clone sessions by their number.
    sessions: FxHashMap<u32, CloneSession>,
    pub(crate) changes: Changes,
}

/// A multicast group.
#[derive(Clone, Debug, Default)]
struct Group {
    /// Handles of the group's nodes, in the order in which they were added.
    nodes: Vec<NodeHandle>,
    /// All copies of the group, computed when it changes.
    replicas: Vec<Replica>,
}

/// Maximum number of a clone session; BMv2 uses 15 bits.
pub const MAX_SESSION: u32 = 0x7fff;

/// Hash value by which a port of a link aggregation group is chosen; BMv2 uses this constant, too.
const LAG_HASH: usize = 0xff;

impl Pre {
    /// Returns the copies of a group; `None` for an unknown group.
    #[inline]
    pub fn replicas(&self, group: u32) -> Option<&[Replica]> {
        self.groups.get(&group).map(|g| &g.replicas[..])
    }

    fn copies_of<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = Replica> + 'a {
        let lags = node.lags.iter().filter_map(|lag| self.lags.get(lag));
        let of_lags = lags.filter_map(|ports| ports.get(LAG_HASH.checked_rem(ports.len())?));
        let ports = node.ports.iter().chain(of_lags);
        ports.map(|&port| Replica {
            port,
            rid: node.rid,
        })
    }

    /// Creates an empty group. Group 0 can be created, but packets never use it.
    ///
    /// # Errors
    /// When it exists already, or the limit is reached.
    pub fn create_group(&mut self, group: u32) -> Result<(), PreError> {
        if self.groups.contains_key(&group) {
            return Err(PreError::GroupExists(group));
        }
        check_limit(
            "multicast groups",
            self.groups.len() + 1,
            self.limits.groups,
        )?;
        self.groups.insert(group, Group::default());
        Ok(())
    }

    /// Removes a group. Its nodes remain, without a group.
    ///
    /// # Errors
    /// When there is no such group.
    pub fn delete_group(&mut self, group: u32) -> Result<(), PreError> {
        let old = self.groups.remove(&group).ok_or(PreError::NoGroup(group))?;
        for node in old.nodes {
            if let Some(node) = self.nodes.get_mut(&node) {
                node.group = None;
            }
        }
        self.set_ecmps_of(group, Vec::new());
        self.changes.record(|| Change::MulticastGroup(group));
        Ok(())
    }

    /// Creates a node without a group. Its handle is the lowest unused one.
    ///
    /// # Errors
    /// When the limit is reached.
    pub fn create_node(
        &mut self,
        rid: u16,
        ports: &[u32],
        lags: &[u16],
    ) -> Result<NodeHandle, PreError> {
        check_limit("multicast nodes", self.nodes.len() + 1, self.limits.nodes)?;
        let handle = match self.free_nodes.pop() {
            Some(Reverse(handle)) => handle,
            None => {
                self.next_node += 1;
                self.next_node - 1
            }
        };
        let node = Node {
            rid,
            ports: sorted(ports),
            lags: sorted(lags),
            group: None,
            xid: None,
        };
        self.nodes.insert(NodeHandle(handle), node);
        Ok(NodeHandle(handle))
    }

    /// Changes the ports of a node.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn update_node(
        &mut self,
        node: NodeHandle,
        ports: &[u32],
        lags: &[u16],
    ) -> Result<(), PreError> {
        let at = self.nodes.get_mut(&node).ok_or(PreError::NoNode(node))?;
        at.ports = sorted(ports);
        at.lags = sorted(lags);
        if let Some(group) = at.group {
            self.refresh(group);
        }
        Ok(())
    }

    /// Removes a node, also from its group.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn delete_node(&mut self, node: NodeHandle) -> Result<(), PreError> {
        let old = self.take_node(node).ok_or(PreError::NoNode(node))?;
        if let Some(group) = old.group {
            if let Some(g) = self.groups.get_mut(&group) {
                g.nodes.retain(|n| *n != node);
            }
            self.refresh(group);
        }
        Ok(())
    }

    /// Adds a node to a group.
    ///
    /// # Errors
    /// When there is no such node or group, or the node is in a group already.
    pub fn associate(&mut self, group: u32, node: NodeHandle) -> Result<(), PreError> {
        let at = self.nodes.get_mut(&node).ok_or(PreError::NoNode(node))?;
        let g = self
            .groups
            .get_mut(&group)
            .ok_or(PreError::NoGroup(group))?;
        if at.group.is_some() {
            return Err(PreError::Associated(node));
        }
        at.group = Some(group);
        g.nodes.push(node);
        self.refresh(group);
        Ok(())
    }

    /// Removes a node from a group.
    ///
    /// # Errors
    /// When there is no such node or group, or the node is not in the group.
    pub fn dissociate(&mut self, group: u32, node: NodeHandle) -> Result<(), PreError> {
        let at = self.nodes.get_mut(&node).ok_or(PreError::NoNode(node))?;
        let g = self
            .groups
            .get_mut(&group)
            .ok_or(PreError::NoGroup(group))?;
        if at.group != Some(group) {
            return Err(PreError::NotAssociated { node, group });
        }
        at.group = None;
        g.nodes.retain(|n| *n != node);
        self.refresh(group);
        Ok(())
    }

    /// Sets all copies of a group, and creates the group if necessary. Each replication id becomes a node, in the
    /// order of the first occurrence.
    ///
    /// # Errors
    /// For group 0, or when a limit is reached; nothing has changed then.
    pub fn set_group(&mut self, group: u32, replicas: &[Replica]) -> Result<(), PreError> {
        if group == 0 {
            return Err(PreError::GroupZero);
        }
        let mut by_rid: Vec<(u16, Vec<u32>)> = Vec::new();
        for replica in replicas {
            match by_rid.iter_mut().find(|(rid, _)| *rid == replica.rid) {
                Some((_, ports)) => ports.push(replica.port),
                None => by_rid.push((replica.rid, vec![replica.port])),
            }
        }
        let old = self.groups.get(&group);
        let before = old.map_or(0, |old| old.nodes.len());
        let groups = self.groups.len() + usize::from(old.is_none());
        check_limit("multicast groups", groups, self.limits.groups)?;
        let nodes = self.nodes.len() - before + by_rid.len();
        check_limit("multicast nodes", nodes, self.limits.nodes)?;
        if let Some(old) = self.groups.insert(group, Group::default()) {
            for node in old.nodes {
                self.take_node(node);
            }
        }
        for (rid, ports) in by_rid {
            let node = self.create_node(rid, &ports, &[])?;
            self.associate(group, node)?;
        }
        self.changes.record(|| Change::MulticastGroup(group));
        Ok(())
    }

    /// Returns the numbers of all multicast groups, in ascending order.
    pub fn groups(&self) -> Vec<u32> {
        let mut groups: Vec<_> = self.groups.keys().copied().collect();
        groups.sort_unstable();
        groups
    }

    /// Returns the nodes of a group in the order of their association; `None` when there is no such group.
    pub fn nodes_of(&self, group: u32) -> Option<&[NodeHandle]> {
        self.groups.get(&group).map(|g| &g.nodes[..])
    }

    /// Iterates over all multicast nodes, in the order of their handles.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = (NodeHandle, &Node)> {
        self.nodes.iter().map(|(&handle, node)| (handle, node))
    }

    /// Sets the ports of a link aggregation group.
    pub fn set_lag(&mut self, lag: u16, ports: &[u32]) {
        self.lags.insert(lag, sorted(ports));
        let members = self.nodes.values().filter(|node| node.lags.contains(&lag));
        let mut groups: Vec<u32> = members.filter_map(|node| node.group).collect();
        groups.dedup();
        for group in groups {
            self.refresh(group);
        }
    }

    /// Iterates over the link aggregation groups, with their ports in ascending order.
    pub fn lags(&self) -> impl Iterator<Item = (u16, &[u32])> {
        self.lags.iter().map(|(&lag, ports)| (lag, &ports[..]))
    }

    fn take_node(&mut self, node: NodeHandle) -> Option<Node> {
        let old = self.nodes.remove(&node)?;
        self.free_nodes.push(Reverse(node.0));
        Some(old)
    }

    /// Recomputes the list of copies of a group after a change of its nodes.
    fn refresh(&mut self, group: u32) {
        let Some(g) = self.groups.get(&group) else {
            return;
        };
        let nodes = g.nodes.iter().filter_map(|node| self.nodes.get(node));
        let replicas = nodes.flat_map(|node| self.copies_of(node)).collect();
        if let Some(g) = self.groups.get_mut(&group) {
            g.replicas = replicas;
        }
        self.changes.record(|| Change::MulticastGroup(group));
    }

    /// Removes all groups, nodes and link aggregation groups. Clone sessions remain, as in BMv2.
    pub fn clear_groups(&mut self) {
        *self = Pre {
            limits: self.limits,
            sessions: std::mem::take(&mut self.sessions),
            changes: std::mem::take(&mut self.changes),
            ..Pre::default()
        };
    }

    /// Sets a clone session, and creates it if necessary.
    ///
    /// # Errors
    /// When the number is above [`MAX_SESSION`].
    pub fn set_session(&mut self, id: u32, session: CloneSession) -> Result<(), PreError> {
        if id > MAX_SESSION {
            return Err(PreError::SessionOutOfRange(id));
        }
        self.sessions.insert(id, session);
        self.changes.record(|| Change::CloneSession(id));
        Ok(())
    }

    /// Removes a clone session.
    ///
    /// # Errors
    /// When there is no such session.
    pub fn delete_session(&mut self, id: u32) -> Result<(), PreError> {
        self.sessions.remove(&id).ok_or(PreError::NoSession(id))?;
        self.changes.record(|| Change::CloneSession(id));
        Ok(())
    }

    /// Returns the clone session of this number.
    pub fn session(&self, id: u32) -> Option<&CloneSession> {
        self.sessions.get(&id)
    }

    /// Returns the numbers of all clone sessions, in ascending order.
    pub fn sessions(&self) -> Vec<u32> {
        let mut sessions: Vec<_> = self.sessions.keys().copied().collect();
        sessions.sort_unstable();
        sessions
    }
}

/// Checks that `need` objects of a kind do not exceed the limit.
fn check_limit(what: &'static str, need: usize, limit: usize) -> Result<(), PreError> {
    match need > limit {
        true => Err(PreError::Full { what, limit }),
        false => Ok(()),
    }
}

fn sorted<T: Ord + Copy>(numbers: &[T]) -> Vec<T> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(pre: &Pre, group: u32) -> Vec<(u32, u16)> {
        pre.replicas(group)
            .unwrap()
            .iter()
            .map(|r| (r.port, r.rid))
            .collect()
    }

    #[test]
    fn copies_are_ordered_by_node_then_port() {
        let mut pre = Pre::default();
        pre.create_group(1).unwrap();
        let a = pre.create_node(10, &[5, 2], &[]).unwrap();
        let b = pre.create_node(20, &[1], &[]).unwrap();
        pre.associate(1, b).unwrap();
        pre.associate(1, a).unwrap();
        assert_eq!(ports(&pre, 1), [(1, 20), (2, 10), (5, 10)]);
        pre.update_node(a, &[7], &[]).unwrap();
        assert_eq!(ports(&pre, 1), [(1, 20), (7, 10)]);
        pre.dissociate(1, b).unwrap();
        assert_eq!(ports(&pre, 1), [(7, 10)]);
        pre.delete_node(a).unwrap();
        assert_eq!(ports(&pre, 1), []);
    }

    #[test]
    fn setting_a_group_replaces_its_nodes() {
        let mut pre = Pre::default();
        for _ in 0..3 {
            let replicas = [(1, 1), (2, 1), (1, 2)].map(|(port, rid)| Replica { port, rid });
            pre.set_group(4, &replicas).unwrap();
        }
        assert_eq!(ports(&pre, 4), [(1, 1), (2, 1), (1, 2)]);
        assert_eq!(pre.nodes.len(), 2);
        pre.delete_group(4).unwrap();
        assert_eq!(pre.replicas(4), None);
        assert_eq!(pre.set_group(0, &[]), Err(PreError::GroupZero));
    }

    #[test]
    fn a_new_node_gets_the_lowest_free_handle() {
        let mut pre = Pre::default();
        let handles: Vec<_> = (0..3)
            .map(|_| pre.create_node(0, &[], &[]).unwrap().0)
            .collect();
        assert_eq!(handles, [0, 1, 2]);
        pre.delete_node(NodeHandle(2)).unwrap();
        pre.delete_node(NodeHandle(0)).unwrap();
        let handles: Vec<_> = (0..3)
            .map(|_| pre.create_node(0, &[], &[]).unwrap().0)
            .collect();
        assert_eq!(handles, [0, 2, 3]);
    }

    #[test]
    fn one_port_of_a_link_aggregation_group_gets_a_copy() {
        let mut pre = Pre::default();
        pre.create_group(1).unwrap();
        let node = pre.create_node(7, &[9], &[4, 5]).unwrap();
        pre.associate(1, node).unwrap();
        assert_eq!(ports(&pre, 1), [(9, 7)]);
        // 255 % 2 is 1, 255 % 3 is 0.
        pre.set_lag(4, &[2, 1]);
        pre.set_lag(5, &[6, 7, 8]);
        assert_eq!(ports(&pre, 1), [(9, 7), (2, 7), (6, 7)]);
        pre.set_lag(4, &[]);
        assert_eq!(ports(&pre, 1), [(9, 7), (6, 7)]);
    }

    #[test]
    fn invalid_requests_are_rejected() {
        let mut pre = Pre::default();
        let node = pre.create_node(1, &[1], &[]).unwrap();
        assert_eq!(pre.associate(9, node), Err(PreError::NoGroup(9)));
        pre.create_group(9).unwrap();
        assert_eq!(pre.create_group(9), Err(PreError::GroupExists(9)));
        pre.associate(9, node).unwrap();
        assert_eq!(pre.associate(9, node), Err(PreError::Associated(node)));
        assert_eq!(pre.dissociate(8, node), Err(PreError::NoGroup(8)));
        let session = CloneSession::default();
        assert_eq!(
            pre.set_session(0x8000, session),
            Err(PreError::SessionOutOfRange(0x8000))
        );
        assert_eq!(pre.delete_session(1), Err(PreError::NoSession(1)));
    }
}
