//! In-band registration of multicast groups: the group's leader, its first member, sends registration packets (MRP) to
//! the switches.

use std::net::Ipv4Addr;

use alfirk_ctrl::controller::{MemberSpec, RegisterGroup};
use alfirk_roce::registration::{GroupSpec, LeaderEvent, RetryTimeout};
use alfirk_roce::wire::mrp::Node;

use super::fabric::FabricError;

/// Converts a registration request into the in-band request that its leader sends, and the entries of the other
/// members.
pub fn leader_request(group: &RegisterGroup) -> Result<(GroupSpec, Vec<Node>), FabricError> {
    let refuse = |why: &str| Err(FabricError::Registration(why.to_string()));
    let Some(mcst_id) = group.mcst_id else {
        return refuse(
            "the request has no group address; in band it needs one, because the controller chooses none",
        );
    };
    if let Some(member) = group
        .members
        .iter()
        .find(|member| member.region.is_some() && member.node().region.is_none())
    {
        let (ip, len) = (member.ip, member.region.map_or(0, |region| region.len));
        return refuse(&format!(
            "member {ip}: a memory region of {len} bytes; in band, it must have 1 byte to 2^63"
        ));
    }
    let mut nodes = group.members.iter().map(MemberSpec::node);
    let Some(leader) = nodes.next() else {
        return refuse("the request has no members; a group needs at least two");
    };
    let nodes: Vec<Node> = nodes.collect();
    let Some(virtual_qpn) = group.virtual_qpn else {
        return refuse("the request has no virtual queue pair number; in band it needs one, because the controller chooses none");
    };
    let spec = GroupSpec {
        mcst_id,
        virtual_qpn,
        initial_psn: group.initial_psn,
        leader,
        members: nodes.iter().map(|node| node.ip).collect(),
        retry_timeout: RetryTimeout::UNKNOWN,
    };
    Ok((spec, nodes))
}

/// Converts the event that ends the leader's in-band registration into a result.
pub fn registration_result(event: LeaderEvent) -> Result<(), FabricError> {
    let why = match event {
        LeaderEvent::Registered => return Ok(()),
        LeaderEvent::Refused { reason } => reason.to_string(),
        LeaderEvent::GaveUp { missing } => {
            let names: Vec<String> = missing.iter().map(Ipv4Addr::to_string).collect();
            format!(
                "no confirmation from {}; check that these hosts run and are reachable",
                names.join(", ")
            )
        }
        other => format!("unexpected event {other:?}"),
    };
    Err(FabricError::Registration(why))
}

/// Returns the error for a group member whose address is not that of a host of the topology.
pub fn not_a_host(ip: Ipv4Addr) -> FabricError {
    FabricError::Registration(format!("{ip} is not a host of the topology"))
}
