//! A registration that a host has begun and of which no switch has anything yet.
//!
//! The leader's leaf gathers its packets, then asks every member that they name. Only when all have agreed is there a group, with its
//! address, indexes and entries. So an address is kept by agreement alone: hosts that begin to register the same one do not stand in
//! each other's way, and the first whose members agree gets it.
//!
//! Claims of a host are bounded by [`groups_per_host`](crate::ControllerConfig::groups_per_host) and [`MOST_CLAIMS`], the nodes of each
//! by the hosts of the topology, and what is sent on their behalf by [`Limits`](super::limits::Limits).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use alfirk_roce::wire::mrp::{Node, Refusal, Repr};

use super::agent::{Agent, Part};
use crate::topology::SwitchIndex;

/// Registrations that one host may have begun and not finished, whatever number of groups it may lead.
pub(super) const MOST_CLAIMS: usize = 128;

/// A claim's key: the address, and the host that wants it.
pub(super) type ClaimKey = (Ipv4Addr, Ipv4Addr);

/// See the module's text.
#[derive(Debug)]
pub(super) struct Claim {
    /// The leader's leaf.
    pub(super) switch: SwitchIndex,
    /// Gathers the packets; is put in place when all have agreed.
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

    /// Takes a packet of the leader. `most_nodes`: how many nodes a group can have, itself included.
    pub(super) fn take(&mut self, packet: &Repr, most_nodes: usize) -> Result<Part, Refusal> {
        let part = self.agent.take(packet);
        match self.agent.count() <= most_nodes {
            true => Ok(part),
            false => Err(Refusal::BadNodes),
        }
    }

    /// The members named in a packet that have not agreed yet.
    pub(super) fn missing_of(&self, packet: &Repr) -> Vec<Node> {
        let missing = self.missing.iter();
        let named = |node: &&Node| packet.members().any(|n| n.ip == node.ip);
        missing
            .flat_map(BTreeMap::values)
            .filter(named)
            .copied()
            .collect()
    }

    /// A host agrees, with the queue pair and the memory that it was asked about; says whether it was the last one.
    pub(super) fn agreed(&mut self, node: &Node, group: &Node) -> bool {
        let Some(missing) = &mut self.missing else {
            return false;
        };
        let is_asked = |asked: &Node| is_same_place(asked, node);
        let is_same_group = |own: &Node| (own.ip, own.qpn) == (group.ip, group.qpn);
        if !self.agent.group().is_some_and(is_same_group)
            || !missing.get(&node.ip).is_some_and(is_asked)
        {
            return false;
        }
        missing.remove(&node.ip);
        missing.is_empty()
    }
}

/// Whether both name the same queue pair and memory.
pub(super) fn is_same_place(a: &Node, b: &Node) -> bool {
    (a.ip, a.qpn, a.region) == (b.ip, b.qpn, b.region)
}
