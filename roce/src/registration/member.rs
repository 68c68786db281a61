//! A member's side.

use std::collections::{BTreeSet, VecDeque};
use std::net::Ipv4Addr;

use crate::host::HostEvent;
use crate::verbs::Verbs;
use crate::wire::mrp::{Kind, Node, Repr, View, PORT};
use crate::wire::{Psn, QpNum};

/// What a member reports to its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberEvent {
    /// A queue pair of this host is in a group: it connects to (`mcst_id`, `remote_qpn`) and starts with `initial_psn`.
    Registered {
        qpn: QpNum,
        mcst_id: Ipv4Addr,
        remote_qpn: QpNum,
        initial_psn: Psn,
        leader: Ipv4Addr,
    },
}

/// Confirms registrations of a host's queue pairs. One serves all groups of the host.
#[derive(Debug)]
pub struct Member {
    /// Queue pairs that may be registered.
    expected: BTreeSet<QpNum>,
    /// Registrations that the user knows of.
    known: BTreeSet<(Ipv4Addr, QpNum, u32)>,
    events: VecDeque<MemberEvent>,
    ignored: u64,
}

impl Member {
    /// A member without queue pairs.
    pub fn new(host: &mut dyn Verbs) -> Member {
        host.bind_udp(PORT);
        Member {
            expected: BTreeSet::new(),
            known: BTreeSet::new(),
            events: VecDeque::new(),
            ignored: 0,
        }
    }

    /// Allows a queue pair to be registered; for others the host does not agree, and they are not confirmed.
    pub fn expect(&mut self, qpn: QpNum) {
        self.expected.insert(qpn);
    }

    /// Has nothing more to do with a queue pair.
    pub fn forget(&mut self, qpn: QpNum) {
        self.expected.remove(&qpn);
        self.known.retain(|(_, known, _)| *known != qpn);
    }

    /// Takes a datagram; says whether it was a registration, or the question before it.
    ///
    /// A registration that came before is confirmed again, because its confirmation may have been lost.
    pub fn handle_event(&mut self, now: u64, host: &mut dyn Verbs, event: &HostEvent) -> bool {
        let HostEvent::Udp {
            source: leader,
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
        let own = host.ip();
        let node = packet.members().find(|node| node.ip == own);
        let (Some(group), Some(node)) = (packet.group().copied(), node.copied()) else {
            self.ignored += 1;
            return true;
        };
        if !self.expected.contains(&node.qpn) {
            self.ignored += 1;
            return true;
        }
        let mut answer = Repr {
            kind: Kind::Agree,
            seq: 0,
            total: 1,
            initial_psn: packet.initial_psn,
            flags: 0,
            nodes: vec![node, group],
        };
        if packet.kind == Kind::Invite {
            host.send_udp(now, group.ip, PORT, PORT, answer.to_bytes());
            return true;
        }
        if self
            .known
            .insert((group.ip, node.qpn, packet.initial_psn.get()))
        {
            self.events.push_back(MemberEvent::Registered {
                qpn: node.qpn,
                mcst_id: group.ip,
                remote_qpn: group.qpn,
                initial_psn: packet.initial_psn,
                leader: *leader,
            });
        }
        answer.kind = Kind::Confirm;
        host.send_udp(now, *leader, PORT, PORT, answer.to_bytes());
        true
    }

    /// Says that a group which this host sends to makes no progress, see [`Leader::stalled`](super::Leader::stalled); nothing
    /// is said about groups that it was not registered in.
    pub fn stalled(&self, host: &mut dyn Verbs, now: u64, mcst_id: Ipv4Addr) {
        let known = self.known.iter().rev().find(|(of, ..)| *of == mcst_id);
        let Some((_, qpn, psn)) = known else { return };
        let node = Node {
            ip: host.ip(),
            qpn: *qpn,
            flags: 0,
            region: None,
        };
        let packet = Repr {
            kind: Kind::Stalled,
            seq: 0,
            total: 1,
            initial_psn: Psn::new(*psn),
            flags: 0,
            nodes: vec![node],
        };
        host.send_udp(now, mcst_id, PORT, PORT, packet.to_bytes());
    }

    /// The next thing the user should know.
    pub fn poll(&mut self) -> Option<MemberEvent> {
        self.events.pop_front()
    }

    /// Registrations that were for no queue pair of this host.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }
}
