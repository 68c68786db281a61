//! Registration of groups in band, by their leader.

use std::net::Ipv4Addr;

use alfirk_ctrl::controller::{MemberSpec, RegisterGroup};
use alfirk_roce::registration::{GroupSpec, LeaderEvent, Patience};
use alfirk_roce::wire::mrp::Node;

use super::fabric::FabricError;

/// Converts a registration into the request of its leader, and the other members.
pub fn group(group: &RegisterGroup) -> Result<(GroupSpec, Vec<Node>), FabricError> {
    let refuse = |why: &str| Err(FabricError::Registration(why.to_string()));
    let Some(mcst_id) = group.mcst_id else {
        return refuse(
            "the group needs an address: in band, the leader chooses it, not the controller",
        );
    };
    if let Some(member) = group
        .members
        .iter()
        .find(|member| member.region.is_some() && member.node().region.is_none())
    {
        let ip = member.ip;
        return refuse(&format!(
            "member {ip}: its packets announce memory regions from 1 byte to 2^63"
        ));
    }
    let mut nodes = group.members.iter().map(MemberSpec::node);
    let Some(leader) = nodes.next() else {
        return refuse("a group has at least two members");
    };
    let nodes: Vec<Node> = nodes.collect();
    let Some(virtual_qpn) = group.virtual_qpn else {
        return refuse("the group needs a queue pair number: in band, the leader chooses it");
    };
    let spec = GroupSpec {
        mcst_id,
        virtual_qpn,
        initial_psn: group.initial_psn,
        leader,
        members: nodes.iter().map(|node| node.ip).collect(),
        patience: Patience::UNKNOWN,
    };
    Ok((spec, nodes))
}

/// Converts the leader's event into the result of a registration.
pub fn registered(event: LeaderEvent) -> Result<(), FabricError> {
    let why = match event {
        LeaderEvent::Registered => return Ok(()),
        LeaderEvent::Refused { reason } => reason.to_string(),
        LeaderEvent::GaveUp { missing } => {
            let names: Vec<String> = missing.iter().map(Ipv4Addr::to_string).collect();
            format!("no confirmation from {}", names.join(", "))
        }
        other => format!("unexpected event {other:?}"),
    };
    Err(FabricError::Registration(why))
}

/// Error for a member that is not a host of the topology.
pub fn not_a_host(ip: Ipv4Addr) -> FabricError {
    FabricError::Registration(format!("{ip} is not a host of the topology"))
}
