//! Registration packets that the controller sends on behalf of groups and agents.

use std::net::Ipv4Addr;

use alfirk_roce::wire::mrp::{Kind, Node, Refusal, Repr, MAX_NODES};
use alfirk_roce::wire::{Psn, QpNum};

use super::agent::Downstream;
use super::frame;
use crate::constants::VIRTUAL_MAC;
use crate::controller::Controller;
use crate::topology::SwitchIndex;

impl Controller {
    /// Sends the registration packets of a switch's agent to its neighbours: those that contain a node for which
    /// `is_wanted` is true.
    pub(super) fn mrp_forward(
        &mut self,
        switch: SwitchIndex,
        mcst_id: Ipv4Addr,
        is_wanted: impl Fn(&Node) -> bool,
    ) {
        let Some(agent) = self.mrp.agents.get(&(mcst_id, switch)) else {
            return;
        };
        let (leader, initial_psn) = (agent.leader, agent.initial_psn);
        let mut frames = Vec::new();
        for (port, downstream) in &agent.downstream {
            match downstream {
                Downstream::Member(nodes) => {
                    let nodes = nodes.iter().filter(|node| is_wanted(node));
                    frames.extend(nodes.map(|node| {
                        let (register, psn) = (Kind::Register, initial_psn);
                        let frame = self.mrp_member_frame(register, mcst_id, leader, psn, node);
                        (*port, frame)
                    }));
                }
                Downstream::Switch(packets) => {
                    let packets = packets.iter().filter(|p| p.nodes.iter().any(&is_wanted));
                    frames.extend(packets.map(|packet| {
                        let frame = frame::build(VIRTUAL_MAC, leader, mcst_id, packet);
                        (*port, frame)
                    }));
                }
            }
        }
        for (port, frame) in frames {
            self.send_frame(switch, port, frame);
        }
    }

    /// Builds the packet that notifies a host of its membership.
    pub(in crate::controller) fn mrp_member_frame(
        &self,
        kind: Kind,
        mcst_id: Ipv4Addr,
        source: Ipv4Addr,
        initial_psn: Psn,
        node: &Node,
    ) -> Vec<u8> {
        let packet = Repr {
            kind,
            seq: 0,
            total: 1,
            initial_psn,
            flags: 0,
            nodes: vec![*node, self.group_node(mcst_id)],
        };
        let host = self.topology.host_with_ip(node.ip);
        let mac = host.map_or(VIRTUAL_MAC, |host| self.topology.host(host).mac);
        frame::build(mac, source, node.ip, &packet)
    }

    pub(in crate::controller) fn mrp_refuse(
        &mut self,
        mcst_id: Ipv4Addr,
        leader: Ipv4Addr,
        refusal: Refusal,
    ) {
        self.mrp.stats.refused += 1;
        tracing::info!(%mcst_id, %leader, "registration refused: {refusal}");
        self.mrp_reply(mcst_id, leader, Kind::Refuse, refusal.bits());
    }

    /// Sends a packet without members to a leader, with the group's address as the source.
    pub(in crate::controller) fn mrp_reply(
        &mut self,
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
        self.mrp_send(mcst_id, leader, packet);
    }

    /// Sends packets about members to a leader, as many as needed.
    pub(in crate::controller) fn mrp_report_members(
        &mut self,
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
            self.mrp_send(mcst_id, leader, packet);
        }
    }

    /// Describes a group as a node of a registration packet; only the address is set if the group does not exist.
    pub(super) fn group_node(&self, mcst_id: Ipv4Addr) -> Node {
        let virtual_qpn = self.groups.get(&mcst_id).map(|r| r.group().virtual_qpn);
        Node::group(mcst_id, virtual_qpn.unwrap_or(QpNum::new(0)))
    }

    fn mrp_send(&mut self, mcst_id: Ipv4Addr, leader: Ipv4Addr, mut packet: Repr) {
        packet.nodes.push(self.group_node(mcst_id));
        let Some(host) = self.topology.host_with_ip(leader) else {
            return;
        };
        let mac = self.topology.host(host).mac;
        let frame = frame::build(mac, mcst_id, leader, &packet);
        let (switch, port) = self.topology.attachment(host);
        self.send_frame(switch, port, frame);
    }

    pub(in crate::controller) fn send_frame(
        &mut self,
        switch: SwitchIndex,
        port: u32,
        frame: Vec<u8>,
    ) {
        self.with_session(switch, |session, context| {
            session.send_frame(context, port, frame);
        });
    }
}
