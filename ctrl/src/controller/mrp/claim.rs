//! Claims: registrations that a host has begun, before anything is written to switches.
//!
//! The agent of the leader's leaf (the switch to which the leader is attached) collects the leader's packets, then invites
//! every member in them. The group gets its address, indexes and entries only once all have agreed. So hosts that begin to
//! register the same address do not block each other: the first one whose members agree gets it.
//!
//! The number of claims per host is limited by [`groups_per_host`](crate::ControllerConfig::groups_per_host) and
//! [`MAX_CLAIMS`], the number of nodes by the hosts of the topology, and invitations by [`Limits`](super::limits::Limits).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use alfirk_roce::wire::mrp::{Node, Refusal, Repr};

use super::agent::{Agent, PacketKind};
use crate::topology::SwitchIndex;

/// Maximum number of unfinished registrations per host, independent of the number of groups that it may lead.
pub(super) const MAX_CLAIMS: usize = 128;

/// Key of a claim (a registration that not all members have agreed to): the group address, and the leader.
pub(super) type ClaimKey = (Ipv4Addr, Ipv4Addr);

/// A registration in band that not all members have agreed to.
#[derive(Debug)]
pub(super) struct Claim {
    /// Leaf switch of the leader: the one to which it is attached.
    pub(super) switch: SwitchIndex,
    /// Agent that collects the packets; becomes the agent of the leaf switch once all members have agreed.
    pub(super) agent: Agent,
    /// Members that have not agreed yet; `None` while packets are missing.
    pub(super) missing: Option<BTreeMap<Ipv4Addr, Node>>,
}

impl Claim {
    pub(super) fn new(switch: SwitchIndex, agent: Agent) -> Claim {
        Claim {
            switch,
            agent,
            missing: None,
        }
    }

    /// Adds a packet of the leader; fails if the claim then has more than `most_nodes` nodes, including that of the group.
    pub(super) fn add_packet(
        &mut self,
        packet: &Repr,
        most_nodes: usize,
    ) -> Result<PacketKind, Refusal> {
        let part = self.agent.add_packet(packet);
        match self.agent.node_count() <= most_nodes {
            true => Ok(part),
            false => Err(Refusal::BadNodes),
        }
    }

    /// Members named in `packet` that have not agreed yet.
    pub(super) fn missing_members(&self, packet: &Repr) -> Vec<Node> {
        let missing = self.missing.iter();
        let named = |node: &&Node| packet.members().any(|n| n.ip == node.ip);
        missing
            .flat_map(BTreeMap::values)
            .filter(named)
            .copied()
            .collect()
    }

    /// Records an agreement if queue pair and memory match the invitation. Returns true if it was the last missing one.
    pub(super) fn record_agreement(&mut self, node: &Node, group: &Node) -> bool {
        let Some(missing) = &mut self.missing else {
            return false;
        };
        let is_asked = |asked: &Node| is_same_endpoint(asked, node);
        let is_same_group = |own: &Node| (own.ip, own.qpn) == (group.ip, group.qpn);
        if !self.agent.group_node().is_some_and(is_same_group)
            || !missing.get(&node.ip).is_some_and(is_asked)
        {
            return false;
        }
        missing.remove(&node.ip);
        missing.is_empty()
    }
}

/// Whether both nodes describe the same member: address, queue pair number and memory region are equal.
pub(super) fn is_same_endpoint(a: &Node, b: &Node) -> bool {
    (a.ip, a.qpn, a.region) == (b.ip, b.qpn, b.region)
}
