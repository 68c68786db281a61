//! Membership: requests to the manager, lists of members, and the manager's tasks.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use super::{Endpoint, EndpointEvent, MANAGER};
use crate::binomial_ack::membership::{Manager, Membership};
use crate::binomial_ack::node::Node;
use crate::binomial_ack::suspects::SuspectAction;
use crate::binomial_ack::wire::ManagementDatagram;
use crate::verbs::Verbs;
use crate::wire::QpNum;

/// The state of this host in the group.
pub(super) enum Role {
    NonMember,
    Manager(ManagerState),
    /// The host has requested to join. It becomes a member when a list of members contains it. Holds the time in
    /// nanoseconds at which the request is repeated.
    Joining(u64),
    Member,
    /// The member has requested to leave. It stays a member until a list of members does not contain it. Holds the time
    /// in nanoseconds at which the request is repeated.
    Leaving(u64),
}

/// State of the manager, the member that changes the membership.
#[derive(Default)]
pub(super) struct ManagerState {
    pub(super) manager: Manager,
    /// Time in nanoseconds at which the next list of members is sent; `None` if the list has not changed.
    pub(super) due: Option<u64>,
    /// Members that have left since the last list. The next list is sent to them, too.
    pub(super) leaving: BTreeSet<u32>,
}

impl Endpoint {
    pub(super) fn record_address(&mut self, number: u32, address: (Ipv4Addr, QpNum)) {
        self.addresses.insert(number, address);
        self.numbers.insert(address, number);
    }

    pub(super) fn request_from_manager(&mut self, host: &mut dyn Verbs, now: u64) {
        let again = now + self.config.connect_interval;
        let manage = match &mut self.role {
            Role::Joining(at) => {
                *at = again;
                ManagementDatagram::Join
            }
            Role::Leaving(at) => {
                *at = again;
                ManagementDatagram::Leave
            }
            Role::NonMember | Role::Manager(_) | Role::Member => return,
        };
        self.send_datagram(host, now, MANAGER, manage.emit());
    }

    /// Processes a list of members from the manager: records the addresses, becomes a member if the list contains this host
    /// and ceases to be one if it does not, and destroys the connections to hosts that are not in the list. An older list
    /// only adds addresses.
    pub(super) fn handle_list(&mut self, host: &mut dyn Verbs, now: u64, list: Membership) {
        for member in &list.members {
            self.record_address(member.number, (member.ip, member.qpn));
        }
        let (ip, qpn) = (host.ip(), self.ud_qpn);
        let own = list
            .members
            .iter()
            .find(|m| (m.ip, m.qpn) == (ip, qpn))
            .map(|m| m.number);
        let is_older = self.node.as_ref().and_then(Node::version) > Some(list.version);
        match (&self.role, own) {
            _ if is_older => {}
            (Role::Joining(_), Some(number)) => {
                self.node = Some(Node::new(number, self.config.node));
                self.role = Role::Member;
            }
            (Role::Leaving(_) | Role::Member, None) => self.role = Role::NonMember,
            _ => {}
        }
        if !is_older {
            self.release_departed(host, &list);
        }
        if let Some(node) = &mut self.node {
            node.handle_membership(now, list);
        }
    }

    /// Destroys the connections to members that `list` does not contain. The manager keeps its connections, because members
    /// that leave still receive the list over them.
    pub(super) fn release_departed(&mut self, host: &mut dyn Verbs, list: &Membership) {
        let is_there = |number: u32| list.place(number).is_some();
        let numbers: Vec<u32> = self.addresses.keys().copied().collect();
        for number in numbers.into_iter().filter(|number| !is_there(*number)) {
            self.suspects.clear(number);
            if !matches!(self.role, Role::Manager(_)) && number != MANAGER {
                self.drop_outgoing(host, number);
                self.drop_incoming(host, number, |_| true);
            }
        }
    }

    /// Reports to the application that a member does not respond. Adds the member to the suspects if it is in the list of
    /// members.
    pub(super) fn suspect(&mut self, now: u64, member: u32) {
        self.events.push_back(EndpointEvent::Silent { member });
        let knows_list = self.is_member();
        if knows_list && self.members().contains(&member) {
            self.suspects.add(now, member);
        }
    }

    /// Executes an action that is due for a suspected member. The manager probes the member, or removes it. Other
    /// members report it to the manager, or report to the application that the manager has failed.
    pub(super) fn send_inquiry(&mut self, host: &mut dyn Verbs, now: u64, due: SuspectAction) {
        let is_manager = matches!(self.role, Role::Manager(_));
        match (due, is_manager) {
            (SuspectAction::Inquire(number), true) => {
                self.send_datagram(host, now, number, ManagementDatagram::Probe.emit())
            }
            (SuspectAction::Inquire(number), false) => {
                let suspicion = ManagementDatagram::Suspect { number };
                self.send_datagram(host, now, MANAGER, suspicion.emit());
            }
            (SuspectAction::GiveUp(number), true) => self.expel(host, now, number),
            (SuspectAction::GiveUp(_), false) => {
                self.suspects.clear_all();
                self.events.push_back(EndpointEvent::ManagerFailed);
            }
        }
    }

    /// At the manager: adds a host to the group, so that the next list of members contains it.
    pub(super) fn admit(&mut self, host: &mut dyn Verbs, now: u64, address: (Ipv4Addr, QpNum)) {
        let Role::Manager(manager_state) = &mut self.role else {
            return;
        };
        let list = manager_state.manager.membership();
        let known = self.numbers.get(&address).copied();
        if let Some(number) = known.filter(|number| list.place(*number).is_some()) {
            // The host has not received the list, or was not sent it: its connection may have failed.
            if manager_state.due.is_none() && !self.outgoing.contains_key(&number) {
                self.send(host, now, number, list.emit());
            }
            return;
        }
        if list.members.len() >= self.config.max_members as usize {
            return;
        }
        // A new queue pair of a host in the list means that the host has restarted.
        let before = list.members.iter().find(|member| member.ip == address.0);
        if let Some(before) = before {
            // The number was found in the list.
            let _ = manager_state.manager.leave(before.number);
        }
        let Ok((number, _)) = manager_state.manager.join(address.0, address.1) else {
            return;
        };
        let due = now + self.config.connect_interval;
        manager_state.due.get_or_insert(due);
        self.record_address(number, address);
    }

    /// At the manager: removes a member from the group, so that the next list of members does not contain it.
    pub(super) fn dismiss(&mut self, now: u64, number: u32) {
        let Role::Manager(manager_state) = &mut self.role else {
            return;
        };
        if number == MANAGER || !self.addresses.contains_key(&number) {
            return;
        }
        // A member that is not in the list has only missed the last list.
        let _ = manager_state.manager.leave(number);
        manager_state.leaving.insert(number);
        manager_state.due = Some(now);
    }

    /// At the manager: sends the present list of members to all of them, and to the members that have left since the
    /// last list.
    pub(super) fn publish(&mut self, host: &mut dyn Verbs, now: u64) {
        let Role::Manager(manager_state) = &mut self.role else {
            return;
        };
        manager_state.due = None;
        let leaving = std::mem::take(&mut manager_state.leaving);
        let list = manager_state.manager.membership();
        let packet = list.emit();
        let members = list.members.iter().map(|member| member.number);
        let others: BTreeSet<u32> = members.chain(leaving).filter(|n| *n != MANAGER).collect();
        self.handle_list(host, now, list);
        for number in others {
            self.send(host, now, number, packet.clone());
        }
    }
}
