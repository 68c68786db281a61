//! State of the agent of one switch for one registration in band. The agent is the part of the controller that acts for a
//! switch when a leader host registers a group by packets on the network.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use alfirk_roce::wire::mrp::{Node, Refusal, Repr};
use alfirk_roce::wire::Psn;

use crate::controller::creation::Creation;
use crate::controller::procedure::Run;

/// State of a registration in band at one switch. It holds the packets received from the leader, then those to send to the
/// switch's neighbours.
#[derive(Debug)]
pub(in crate::controller) struct Agent {
    pub(super) leader: Ipv4Addr,
    /// Port of the switch that leads to the leader.
    pub(super) port: u32,
    pub(super) initial_psn: Psn,
    /// ACK timeout and retry count of the members' queue pairs ([`alfirk_roce::registration::RetryTimeout::bits`]).
    pub(super) flags: u8,
    /// Number of packets of the registration.
    packet_count: u8,
    /// Nodes of each received packet, by its number in the registration.
    received: BTreeMap<u8, Vec<Node>>,
    pub(super) stage: Stage,
    /// Earliest time at which each packet, if repeated, is processed again.
    repeats: BTreeMap<u8, u64>,
    /// Neighbours of the switch, by port, except at the leader's port.
    pub(super) downstream: BTreeMap<u32, Downstream>,
}

/// A neighbour of the switch to which packets are sent once the switch's part of the group is created.
#[derive(Debug)]
pub(super) enum Downstream {
    /// A member host, as the nodes (entries of registration packets) that describe it.
    Member(Vec<Node>),
    /// A switch, with the packets for its agent.
    Switch(Vec<Repr>),
}

/// Stage of a registration at one switch.
#[derive(Debug)]
pub(in crate::controller) enum Stage {
    /// Waiting for packets of the leader.
    Gathering,
    /// The switch's part is being created or undone. The neighbours get their packets once it is created.
    Creation(Box<Run<Creation>>),
}

/// How a received packet relates to the registration that an agent processes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PacketKind {
    /// The last missing packet.
    Last,
    /// A new packet; others are missing.
    New,
    /// A repeated packet.
    Repeated,
    /// A packet of another registration.
    Foreign,
}

impl Agent {
    pub(super) fn new(leader: Ipv4Addr, port: u32, packet: &Repr) -> Agent {
        Agent {
            leader,
            port,
            initial_psn: packet.initial_psn,
            flags: packet.flags,
            packet_count: packet.total,
            received: BTreeMap::new(),
            stage: Stage::Gathering,
            repeats: BTreeMap::new(),
            downstream: BTreeMap::new(),
        }
    }

    /// Whether the switch's part of the group is created.
    pub(super) fn is_done(&self) -> bool {
        matches!(&self.stage, Stage::Creation(run) if run.is_done())
    }

    /// Whether the creation of the switch's part failed and has been undone.
    pub(super) fn is_undone(&self) -> bool {
        matches!(&self.stage, Stage::Creation(run) if run.is_undone())
    }

    /// Stores the nodes of a packet of the leader.
    pub(super) fn add_packet(&mut self, packet: &Repr) -> PacketKind {
        let same = packet.initial_psn == self.initial_psn && packet.total == self.packet_count;
        match self.received.get(&packet.seq) {
            _ if !same => PacketKind::Foreign,
            Some(nodes) if *nodes == packet.nodes => PacketKind::Repeated,
            Some(_) => PacketKind::Foreign,
            None => {
                self.received.insert(packet.seq, packet.nodes.clone());
                match self.received.len() == usize::from(self.packet_count) {
                    true => PacketKind::Last,
                    false => PacketKind::New,
                }
            }
        }
    }

    /// Whether a repeated packet is processed again: once per `interval` nanoseconds.
    pub(super) fn may_repeat(&mut self, now: u64, seq: u8, interval: u64) -> bool {
        let is_due = self.repeats.get(&seq).is_none_or(|at| *at <= now);
        if is_due {
            self.repeats.insert(seq, now + interval);
        }
        is_due
    }

    /// Records that all packets were processed at the time `now`, so that repetitions are ignored for `interval`
    /// nanoseconds.
    pub(super) fn note_processed(&mut self, now: u64, interval: u64) {
        self.repeats = (0..self.packet_count)
            .map(|seq| (seq, now + interval))
            .collect();
    }

    /// Number of nodes (descriptions of members) received, including the node of the group.
    pub(super) fn node_count(&self) -> usize {
        self.received.values().map(Vec::len).sum()
    }

    /// Nodes that describe members, in the order of the leader's packets.
    pub(super) fn members(&self) -> impl Iterator<Item = &Node> {
        self.nodes().filter(|node| !node.is_group())
    }

    /// The node that describes the group; `None` until its packet is received.
    pub(super) fn group_node(&self) -> Option<&Node> {
        self.nodes().find(|node| node.is_group())
    }

    fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.received.values().flatten()
    }

    /// Builds the registration packets for a downstream switch. They carry `nodes`, and the node of the group.
    pub(super) fn packets_of(&self, nodes: &[Node]) -> Result<Vec<Repr>, Refusal> {
        let nodes: Vec<Node> = nodes.iter().chain(self.group_node()).copied().collect();
        let kind = alfirk_roce::wire::mrp::Kind::Register;
        Repr::split(kind, self.initial_psn, self.flags, &nodes).map_err(|_| Refusal::BadNodes)
    }
}
