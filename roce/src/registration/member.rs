//! A member of groups: consents to registrations and confirms them.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::host::HostEvent;
use crate::verbs::Verbs;
use crate::wire::mrp::{Kind, Node, Repr, View, PORT};
use crate::wire::{Psn, QpNum};

/// An event that a member reports to the program that uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberEvent {
    /// A queue pair of this host is registered in a group. It connects to the remote end (`mcst_id`, `remote_qpn`) and
    /// starts at `initial_psn`.
    Registered {
        /// Number of the local queue pair.
        qpn: QpNum,
        /// IPv4 address of the group (McstID).
        mcst_id: Ipv4Addr,
        /// Virtual queue pair number of the group.
        remote_qpn: QpNum,
        /// PSN of the group's next packet, in both directions.
        initial_psn: Psn,
        /// Address of the host that has registered the group.
        leader: Ipv4Addr,
    },
}

/// A group in which its leader may register a queue pair of this host. The leader has announced it to the host over another
/// channel than the registration protocol (MRP).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedGroup {
    /// IPv4 address of the group (McstID).
    pub mcst_id: Ipv4Addr,
    /// Virtual queue pair number of the group.
    pub virtual_qpn: QpNum,
    /// Address of the host that registers the group.
    pub leader: Ipv4Addr,
}

/// A queue pair that may be registered, and its group.
#[derive(Debug)]
struct ExpectedQueuePair {
    group: ExpectedGroup,
    /// Initial PSN of its last registration; `None` before the first.
    registered: Option<Psn>,
    /// Whether [`Member::poll`] has not yet reported the last registration of the queue pair.
    is_unreported: bool,
}

/// State machine that confirms registrations of a host's queue pairs, for all groups of the host.
///
/// Its memory is bounded by the queue pairs that the user expects to be registered: packets of other hosts add nothing.
#[derive(Debug)]
pub struct Member {
    /// The queue pairs that may be registered, by number.
    expected: BTreeMap<QpNum, ExpectedQueuePair>,
    ignored: u64,
}

impl Member {
    /// Creates a member without queue pairs.
    pub fn new(host: &mut dyn Verbs) -> Member {
        host.bind_udp(PORT);
        Member {
            expected: BTreeMap::new(),
            ignored: 0,
        }
    }

    /// Allows a queue pair to be registered in one group by its leader; replaces an earlier call for the queue pair.
    /// The host neither consents to nor confirms any other group, queue pair or leader.
    pub fn expect(&mut self, qpn: QpNum, group: ExpectedGroup) {
        let is_same = |known: &ExpectedQueuePair| known.group == group;
        if !self.expected.get(&qpn).is_some_and(is_same) {
            let expected = ExpectedQueuePair {
                group,
                registered: None,
                is_unreported: false,
            };
            self.expected.insert(qpn, expected);
        }
    }

    /// Rejects registrations of this queue pair from now on.
    pub fn remove(&mut self, qpn: QpNum) {
        self.expected.remove(&qpn);
    }

    /// Number of queue pairs that may be registered.
    pub fn expected_count(&self) -> usize {
        self.expected.len()
    }

    /// Handles an event of the host. Returns whether it is an invitation or a registration.
    ///
    /// A repeated registration is confirmed again, because the confirmation may have been lost.
    pub fn handle_event(&mut self, now: u64, host: &mut dyn Verbs, event: &HostEvent) -> bool {
        let HostEvent::Udp {
            source,
            destination_port: PORT,
            payload,
            ..
        } = event
        else {
            return false;
        };
        let Ok(view) = View::new_checked(payload) else {
            self.ignored += 1;
            return false;
        };
        let packet = Repr::parse(&view);
        if !matches!(packet.kind, Kind::Register | Kind::Invite) {
            return false;
        }
        if self.reply(now, host, *source, &packet).is_none() {
            self.ignored += 1;
        }
        true
    }

    /// Sends the consent or confirmation. `None` if the packet has an unexpected source, group or queue pair.
    fn reply(
        &mut self,
        now: u64,
        host: &mut dyn Verbs,
        source: Ipv4Addr,
        packet: &Repr,
    ) -> Option<()> {
        let own = host.ip();
        let node = *packet.members().find(|node| node.ip == own)?;
        let group = *packet.group()?;
        let expected = self.expected.get_mut(&node.qpn)?;
        let ExpectedGroup {
            mcst_id,
            virtual_qpn,
            leader,
        } = expected.group;
        if (group.ip, group.qpn) != (mcst_id, virtual_qpn) {
            return None;
        }
        // An invitation is sent from the group's address and contains its leader; a registration is sent from the
        // leader's address.
        let is_right_leader = match packet.kind {
            Kind::Invite => source == mcst_id && packet.leader().is_some_and(|n| n.ip == leader),
            _ => source == leader,
        };
        if !is_right_leader {
            return None;
        }
        let mut reply = Repr {
            kind: Kind::Confirm,
            seq: 0,
            total: 1,
            initial_psn: packet.initial_psn,
            flags: 0,
            nodes: vec![node, group],
        };
        if packet.kind == Kind::Invite {
            reply.kind = Kind::Agree;
            reply.nodes.push(Node::leader(leader));
            host.send_udp(now, mcst_id, PORT, PORT, reply.to_bytes());
            return Some(());
        }
        if expected.registered != Some(packet.initial_psn) {
            expected.registered = Some(packet.initial_psn);
            expected.is_unreported = true;
        }
        host.send_udp(now, leader, PORT, PORT, reply.to_bytes());
        Some(())
    }

    /// Reports to the fabric that a group to which this host sends makes no progress, see
    /// [`Leader::stalled`](super::Leader::stalled). Has no effect for groups in which the host was not registered.
    pub fn stalled(&self, host: &mut dyn Verbs, now: u64, mcst_id: Ipv4Addr) {
        let mut registered = self.expected.iter();
        let known = registered.find_map(|(qpn, expected)| {
            let psn = expected.registered?;
            (expected.group.mcst_id == mcst_id).then_some((*qpn, psn))
        });
        let Some((qpn, initial_psn)) = known else {
            return;
        };
        let node = Node {
            ip: host.ip(),
            qpn,
            flags: 0,
            region: None,
        };
        let packet = Repr {
            kind: Kind::Stalled,
            seq: 0,
            total: 1,
            initial_psn,
            flags: 0,
            nodes: vec![node],
        };
        host.send_udp(now, mcst_id, PORT, PORT, packet.to_bytes());
    }

    /// Removes and returns the next event for the user: the newest registration of each queue pair.
    pub fn poll(&mut self) -> Option<MemberEvent> {
        let mut all = self.expected.iter_mut();
        let (qpn, expected) = all.find(|(_, expected)| expected.is_unreported)?;
        expected.is_unreported = false;
        let ExpectedGroup {
            mcst_id,
            virtual_qpn,
            leader,
        } = expected.group;
        Some(MemberEvent::Registered {
            qpn: *qpn,
            mcst_id,
            remote_qpn: virtual_qpn,
            initial_psn: expected.registered?,
            leader,
        })
    }

    /// Number of invitations and registrations for an unexpected queue pair, group or leader.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }
}
