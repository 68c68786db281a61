//! Who is in the group: what a member asks the manager for, the lists, and what only the manager does.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use super::{Endpoint, EndpointEvent, MANAGER};
use crate::binomial_ack::membership::{Manager, Membership};
use crate::binomial_ack::node::Node;
use crate::binomial_ack::suspects::Due;
use crate::binomial_ack::wire::Manage;
use crate::verbs::Verbs;
use crate::wire::QpNum;

/// What this host is to the group.
pub(super) enum Role {
    Stranger,
    Manager(Office),
    /// In the group as soon as a list says so; to be asked for again at that time.
    Joining(u64),
    Member,
    /// Out of the group as soon as a list says so.
    Leaving(u64),
}

/// What the manager has to do.
#[derive(Default)]
pub(super) struct Office {
    pub(super) manager: Manager,
    /// When the next list is to go out.
    pub(super) due: Option<u64>,
    /// Who is to learn from it that it is no longer in.
    pub(super) leaving: BTreeSet<u32>,
}

impl Endpoint {
    pub(super) fn know(&mut self, number: u32, address: (Ipv4Addr, QpNum)) {
        self.addresses.insert(number, address);
        self.numbers.insert(address, number);
    }

    pub(super) fn ask_manager(&mut self, host: &mut dyn Verbs, now: u64) {
        let again = now + self.config.connect_interval;
        let manage = match &mut self.role {
            Role::Joining(at) => {
                *at = again;
                Manage::Join
            }
            Role::Leaving(at) => {
                *at = again;
                Manage::Leave
            }
            Role::Stranger | Role::Manager(_) | Role::Member => return,
        };
        self.send_datagram(host, now, MANAGER, manage.emit());
    }

    /// Takes a list of members.
    pub(super) fn take_list(&mut self, host: &mut dyn Verbs, now: u64, list: Membership) {
        for member in &list.members {
            self.know(member.number, (member.ip, member.qpn));
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
            (Role::Leaving(_) | Role::Member, None) => self.role = Role::Stranger,
            _ => {}
        }
        if !is_older {
            self.forget_the_gone(host, &list);
        }
        if let Some(node) = &mut self.node {
            node.handle_membership(now, list);
        }
    }

    /// Gives up what is for members that a list does not name. The manager keeps those that leave until they know.
    pub(super) fn forget_the_gone(&mut self, host: &mut dyn Verbs, list: &Membership) {
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

    /// Nothing is received from a member.
    pub(super) fn suspect(&mut self, now: u64, member: u32) {
        self.events.push_back(EndpointEvent::Silent { member });
        let knows_list = self.is_member();
        if knows_list && self.members().contains(&member) {
            self.suspects.add(now, member);
        }
    }

    /// Asks for a sign of life: the manager the suspect, others the manager.
    pub(super) fn inquire(&mut self, host: &mut dyn Verbs, now: u64, due: Due) {
        let is_manager = matches!(self.role, Role::Manager(_));
        match (due, is_manager) {
            (Due::Ask(number), true) => self.send_datagram(host, now, number, Manage::Probe.emit()),
            (Due::Ask(number), false) => {
                let suspicion = Manage::Suspect { number };
                self.send_datagram(host, now, MANAGER, suspicion.emit());
            }
            (Due::GiveUp(number), true) => self.expel(host, now, number),
            (Due::GiveUp(_), false) => {
                self.suspects.clear_all();
                self.events.push_back(EndpointEvent::Abandoned);
            }
        }
    }

    /// At the manager: somebody wants to be in the next list.
    pub(super) fn let_in(&mut self, host: &mut dyn Verbs, now: u64, address: (Ipv4Addr, QpNum)) {
        let Role::Manager(office) = &mut self.role else {
            return;
        };
        let list = office.manager.membership();
        let known = self.numbers.get(&address).copied();
        if let Some(number) = known.filter(|number| list.place(*number).is_some()) {
            // It has not received that yet, or not been sent the list: its connection may have failed.
            if office.due.is_none() && !self.outgoing.contains_key(&number) {
                self.send(host, now, number, list.emit());
            }
            return;
        }
        if list.members.len() >= self.config.max_members as usize {
            return;
        }
        // Another queue pair of a host that is in is that host started anew.
        let before = list.members.iter().find(|member| member.ip == address.0);
        if let Some(before) = before {
            // It is in the list.
            let _ = office.manager.leave(before.number);
        }
        let Ok((number, _)) = office.manager.join(address.0, address.1) else {
            return;
        };
        let due = now + self.config.connect_interval;
        office.due.get_or_insert(due);
        self.know(number, address);
    }

    /// At the manager: somebody is to be in no list any more.
    pub(super) fn let_go(&mut self, now: u64, number: u32) {
        let Role::Manager(office) = &mut self.role else {
            return;
        };
        if number == MANAGER || !self.addresses.contains_key(&number) {
            return;
        }
        // Who is out already has not received that.
        let _ = office.manager.leave(number);
        office.leaving.insert(number);
        office.due = Some(now);
    }

    /// Sends the list as it is to everybody.
    pub(super) fn publish(&mut self, host: &mut dyn Verbs, now: u64) {
        let Role::Manager(office) = &mut self.role else {
            return;
        };
        office.due = None;
        let leaving = std::mem::take(&mut office.leaving);
        let list = office.manager.membership();
        let packet = list.emit();
        let members = list.members.iter().map(|member| member.number);
        let others: BTreeSet<u32> = members.chain(leaving).filter(|n| *n != MANAGER).collect();
        self.take_list(host, now, list);
        for number in others {
            self.send(host, now, number, packet.clone());
        }
    }
}
