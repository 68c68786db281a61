//! A member's side.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

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

/// The group that a queue pair of this host is to be registered in, as its leader has announced it outside MRP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedGroup {
    /// The address that stands for the group.
    pub mcst_id: Ipv4Addr,
    /// The queue pair number that the group's members address.
    pub virtual_qpn: QpNum,
    /// The host that registers the group.
    pub leader: Ipv4Addr,
}

/// A queue pair that may be registered.
#[derive(Debug)]
struct Expected {
    group: ExpectedGroup,
    /// The PSN of its last registration; `None` before the first one.
    registered: Option<Psn>,
    /// Whether [`Member::poll`] has yet to report it.
    is_news: bool,
}

/// Confirms registrations of a host's queue pairs. One serves all groups of the host.
///
/// Its memory is bounded by the queue pairs that the user expects to be registered: packets of other hosts add nothing.
#[derive(Debug)]
pub struct Member {
    /// Queue pairs that may be registered.
    expected: BTreeMap<QpNum, Expected>,
    ignored: u64,
}

impl Member {
    /// A member without queue pairs.
    pub fn new(host: &mut dyn Verbs) -> Member {
        host.bind_udp(PORT);
        Member {
            expected: BTreeMap::new(),
            ignored: 0,
        }
    }

    /// Allows a queue pair to be registered in one group by its leader, in place of the group that it was expected in before.
    /// To any other group, queue pair or leader the host does not agree, and it confirms none.
    pub fn expect(&mut self, qpn: QpNum, group: ExpectedGroup) {
        let is_same = |known: &Expected| known.group == group;
        if !self.expected.get(&qpn).is_some_and(is_same) {
            let expected = Expected {
                group,
                registered: None,
                is_news: false,
            };
            self.expected.insert(qpn, expected);
        }
    }

    /// Has nothing more to do with a queue pair.
    pub fn forget(&mut self, qpn: QpNum) {
        self.expected.remove(&qpn);
    }

    /// How many queue pairs may be registered.
    pub fn expects(&self) -> usize {
        self.expected.len()
    }

    /// Takes a datagram; says whether it was a registration, or the question before it.
    ///
    /// A registration that came before is confirmed again, because its confirmation may have been lost.
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
        if self.answer(now, host, *source, &packet).is_none() {
            self.ignored += 1;
        }
        true
    }

    /// Agrees or confirms; `None` when the packet does not come from where it should, or is about another group or queue pair than
    /// the expected ones.
    fn answer(
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
        // An invitation comes in the group's name and says for which leader; a registration comes in the leader's name.
        let is_right_leader = match packet.kind {
            Kind::Invite => source == mcst_id && packet.leader().is_some_and(|n| n.ip == leader),
            _ => source == leader,
        };
        if !is_right_leader {
            return None;
        }
        let mut answer = Repr {
            kind: Kind::Confirm,
            seq: 0,
            total: 1,
            initial_psn: packet.initial_psn,
            flags: 0,
            nodes: vec![node, group],
        };
        if packet.kind == Kind::Invite {
            answer.kind = Kind::Agree;
            answer.nodes.push(Node::leader(leader));
            host.send_udp(now, mcst_id, PORT, PORT, answer.to_bytes());
            return Some(());
        }
        if expected.registered != Some(packet.initial_psn) {
            expected.registered = Some(packet.initial_psn);
            expected.is_news = true;
        }
        host.send_udp(now, leader, PORT, PORT, answer.to_bytes());
        Some(())
    }

    /// Says that a group which this host sends to makes no progress, see [`Leader::stalled`](super::Leader::stalled); nothing
    /// is said about groups that it was not registered in.
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

    /// The next thing the user should know: the newest registration of each queue pair.
    pub fn poll(&mut self) -> Option<MemberEvent> {
        let mut all = self.expected.iter_mut();
        let (qpn, expected) = all.find(|(_, expected)| expected.is_news)?;
        expected.is_news = false;
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

    /// Invitations and registrations that were for no expected queue pair, or of another group or leader.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }
}
