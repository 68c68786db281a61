//! Registration packets that the controller sends on behalf of groups and agents.

use std::net::Ipv4Addr;

use alfirk_roce::wire::mrp::{Kind, Node, Repr, MAX_NODES};
use alfirk_roce::wire::{Psn, QpNum};

use super::frame;
use crate::constants::VIRTUAL_MAC;
use crate::controller::bridge::GroupMember;
use crate::controller::groups::Groups;
use crate::controller::network::Network;
use crate::topology::Topology;

/// Builds the packet that notifies a host of its membership in a group. `source`: sender address, that of the leader.
/// `node`: the host; `group`: the group.
pub(super) fn member_frame(
    topology: &Topology,
    source: Ipv4Addr,
    initial_psn: Psn,
    node: &Node,
    group: Node,
) -> Vec<u8> {
    let packet = Repr {
        kind: Kind::Register,
        seq: 0,
        total: 1,
        initial_psn,
        flags: 0,
        nodes: vec![*node, group],
    };
    let host = topology.host_with_ip(node.ip);
    let mac = host.map_or(VIRTUAL_MAC, |host| topology.host(host).mac);
    frame::build(mac, source, node.ip, &packet)
}

/// Sends a packet without members to a leader, with the group's address as the source.
pub(in crate::controller) fn reply(
    network: &mut Network,
    groups: &Groups,
    mcst_id: Ipv4Addr,
    leader: Ipv4Addr,
    kind: Kind,
    flags: u8,
) {
    let packet = Repr {
        kind,
        seq: 0,
        total: 1,
        initial_psn: Psn::new(0),
        flags,
        nodes: Vec::new(),
    };
    send(network, groups, mcst_id, leader, packet);
}

/// Sends packets about members to a leader, as many as needed.
pub(in crate::controller) fn report_members(
    network: &mut Network,
    groups: &Groups,
    mcst_id: Ipv4Addr,
    leader: Ipv4Addr,
    kind: Kind,
    flags: u8,
    members: &[Ipv4Addr],
) {
    let nodes = members.iter().map(|ip| Node {
        ip: *ip,
        qpn: QpNum::new(0),
        flags: 0,
        region: None,
    });
    let nodes: Vec<Node> = nodes.collect();
    // Each packet also contains the node of the group.
    let parts = nodes.chunks(MAX_NODES - 1);
    // A group has at most as many members as 255 packets hold.
    let total = u8::try_from(parts.len()).unwrap_or(u8::MAX);
    for (seq, part) in (0..total).zip(parts) {
        let packet = Repr {
            kind,
            seq,
            total,
            initial_psn: Psn::new(0),
            flags,
            nodes: part.to_vec(),
        };
        send(network, groups, mcst_id, leader, packet);
    }
}

/// Notifies a member that it has joined, with its initial PSN. The member confirms to the leader.
pub(in crate::controller) fn notify_joined(
    network: &mut Network,
    groups: &Groups,
    mcst_id: Ipv4Addr,
    member: &GroupMember,
    psn: Psn,
) {
    let Some(leader) = groups.leader_of(mcst_id) else {
        return;
    };
    let node = member.spec.node();
    let group = group_node(groups, mcst_id);
    let frame = member_frame(network.topology(), leader, psn, &node, group);
    let (switch, port) = network.topology().attachment(member.host);
    network.send_frame(switch, port, frame);
}

/// Describes a group as a node of a registration packet; only the address is set if the group does not exist.
pub(super) fn group_node(groups: &Groups, mcst_id: Ipv4Addr) -> Node {
    let virtual_qpn = groups.group(mcst_id).map(|group| group.virtual_qpn);
    Node::group(mcst_id, virtual_qpn.unwrap_or(QpNum::new(0)))
}

fn send(
    network: &mut Network,
    groups: &Groups,
    mcst_id: Ipv4Addr,
    leader: Ipv4Addr,
    mut packet: Repr,
) {
    packet.nodes.push(group_node(groups, mcst_id));
    let Some(host) = network.topology().host_with_ip(leader) else {
        return;
    };
    let mac = network.topology().host(host).mac;
    let frame = frame::build(mac, mcst_id, leader, &packet);
    let (switch, port) = network.topology().attachment(host);
    network.send_frame(switch, port, frame);
}
