//! Multicast groups of unreliable datagrams: members, trees and switch entries.
//!
//! A group is an address of 224.0.0.0/4 and the hosts that have joined. It needs no registration, and any host may send to it.
//! The tree policy builds its tree from the member with the lowest index in the topology. Switches outside the tree
//! forward towards that member's switch, and so to the tree. There is no state in registers: when members or paths change,
//! the difference of entries is written in any order, and datagrams may be lost meanwhile.
//!
//! Only this controller stores the members, and only while it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use alfirk_p4runtime::p4::v1::Update;

use super::error::{GroupError, SwitchError};
use super::event::{ApiReply, Tag};
use super::network::Network;
use super::session::{Task, TaskId};
use super::switches::Owner;
use crate::tables::{DatagramGroupKey, MulticastGroup, Program, Replica, Snapshot, Table};
use crate::topology::{HostIndex, SwitchIndex};
use crate::tree::Tree;

/// All datagram groups, and the pending requests to change them.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    groups: BTreeMap<Ipv4Addr, DatagramGroup>,
    requests: BTreeMap<Tag, Request>,
}

#[derive(Clone, Debug)]
struct DatagramGroup {
    /// Group index, the same on all switches.
    index: u16,
    members: BTreeSet<HostIndex>,
    tree: Tree,
    /// For switches outside the tree: the port that leads to the tree.
    ports_to_tree: BTreeMap<SwitchIndex, u32>,
}

/// A client's pending request to add or remove a host, and the writes to switches that it waits for.
#[derive(Debug)]
struct Request {
    group: Ipv4Addr,
    pending: BTreeSet<TaskId>,
    error: Option<SwitchError>,
}

impl DatagramGroup {
    /// Builds the tree of the reachable members. For switches outside the tree, selects the port that leads to it.
    fn build(network: &Network, index: u16, members: BTreeSet<HostIndex>) -> DatagramGroup {
        let reached_from = |first: HostIndex| -> Vec<HostIndex> {
            let (root, _) = network.topology().attachment(first);
            let rest = members.iter().copied().filter(|host| *host != first);
            [first]
                .into_iter()
                .chain(rest)
                .filter(|host| network.paths().reaches(root, *host))
                .collect()
        };
        // Failed links may have isolated the first member. Members at one switch reach the same others.
        let mut roots = BTreeSet::new();
        let firsts = members
            .iter()
            .filter(|first| roots.insert(network.topology().attachment(**first).0));
        let trees = firsts.map(|first| reached_from(*first));
        let reached =
            trees.max_by_key(|hosts| (hosts.len(), std::cmp::Reverse(hosts.first().copied())));
        let reached = reached.filter(|hosts| !hosts.is_empty());
        let mut group = DatagramGroup {
            index,
            members,
            tree: Tree::from_ports(BTreeMap::new()),
            ports_to_tree: BTreeMap::new(),
        };
        if let Some(hosts) = reached {
            group.tree = network.grow_tree(&hosts);
            for switch in network.topology().switch_indexes() {
                let is_outside = group.tree.ports_on(switch).next().is_none();
                if is_outside && network.paths().reaches(switch, hosts[0]) {
                    // Each hop is nearer to that member, and its switch is in the tree.
                    let port = network.paths().next_hops(switch, hosts[0])[0];
                    group.ports_to_tree.insert(switch, port);
                }
            }
        }
        group
    }

    /// Entries of the group on a switch: first the PRE group, then the entries that refer to it.
    fn entries(&self, program: &Program, group_ip: Ipv4Addr, switch: SwitchIndex) -> Vec<Update> {
        let on_tree = self.tree.ports_on(switch);
        let ports: BTreeSet<u32> = on_tree
            .chain(self.ports_to_tree.get(&switch).copied())
            .collect();
        if ports.is_empty() {
            return Vec::new();
        }
        // Numbers of these PRE groups follow those of reliable groups.
        let Some(table) = &program.datagram_groups else {
            return Vec::new();
        };
        let behind = u16::try_from(program.sizes.groups).expect("checked when it was resolved");
        let copies = MulticastGroup {
            group_index: behind + self.index,
            replicas: ports
                .into_iter()
                .map(|port| Replica {
                    port,
                    path_index: 0,
                })
                .collect(),
        };
        let key = DatagramGroupKey { group_ip };
        vec![copies.insert(), table.insert(&key, &self.index)]
    }
}

impl Datagrams {
    /// Adds a host to a datagram group, or removes it. A request without effect succeeds at once.
    pub(super) fn change(
        &mut self,
        now: u64,
        network: &mut Network,
        tag: Tag,
        group: Ipv4Addr,
        host: Ipv4Addr,
        is_join: bool,
    ) {
        match self.plan(network, group, host, is_join) {
            Err(error) => network.reply(ApiReply::Failed { tag, error }),
            Ok(next) => {
                let pending = self.replace(now, network, group, next, Owner::Datagrams(tag));
                let request = Request {
                    group,
                    pending,
                    error: None,
                };
                self.requests.insert(tag, request);
                self.reply(network, tag);
            }
        }
    }

    fn plan(
        &self,
        network: &Network,
        group: Ipv4Addr,
        host: Ipv4Addr,
        is_join: bool,
    ) -> Result<Option<DatagramGroup>, GroupError> {
        if !group.is_multicast() {
            return Err(GroupError::NotMulticast(group));
        }
        if network.program().datagram_groups.is_none() {
            return Err(GroupError::NoDatagrams);
        }
        let index = network.topology().host_with_ip(host);
        let index = index.ok_or(GroupError::UnknownHost(host))?;
        let known = self.groups.get(&group);
        let mut members = known.map_or_else(BTreeSet::new, |known| known.members.clone());
        match is_join {
            true => members.insert(index),
            false => members.remove(&index),
        };
        if members.is_empty() {
            return Ok(None);
        }
        let index = match known {
            Some(known) => known.index,
            None => self.free_index(network)?,
        };
        Ok(Some(DatagramGroup::build(network, index, members)))
    }

    fn free_index(&self, network: &Network) -> Result<u16, GroupError> {
        let taken: BTreeSet<u16> = self.groups.values().map(|g| g.index).collect();
        let capacity = network.program().sizes.datagram_groups;
        let mut all = (0..=u16::MAX).take(capacity as usize);
        all.find(|index| !taken.contains(index))
            .ok_or(GroupError::DatagramGroupsFull(capacity))
    }

    /// Replaces the state of a group, and returns the tasks that write it to the switches that are ready.
    fn replace(
        &mut self,
        now: u64,
        network: &mut Network,
        group: Ipv4Addr,
        next: Option<DatagramGroup>,
        owner: Owner,
    ) -> BTreeSet<TaskId> {
        let old = match next.clone() {
            Some(next) => self.groups.insert(group, next),
            None => self.groups.remove(&group),
        };
        if let Some(old) = &old {
            network.remove_load(&old.tree);
        }
        if let Some(next) = &next {
            network.add_load(&next.tree);
        }
        let mut tasks = BTreeSet::new();
        for switch in network.ready_switches() {
            let entries = |state: &Option<DatagramGroup>| {
                let state = state.as_ref();
                state.map_or_else(Vec::new, |s| s.entries(network.program(), group, switch))
            };
            let (before, after) = (entries(&old), entries(&next));
            let held = Snapshot::of_updates(&before);
            let Some(table) = &network.program().datagram_groups else {
                continue;
            };
            let surplus =
                held.surplus_deletions(&Snapshot::of_updates(&after), table.id(), |_| false);
            let mut updates = held.missing(after);
            updates.extend(surplus);
            if !updates.is_empty() {
                tasks.insert(network.submit(now, switch, owner, Task::Write(updates)));
            }
        }
        tasks
    }

    /// Rebuilds the trees of all datagram groups after paths in the network have changed.
    pub(super) fn reroute(&mut self, now: u64, network: &mut Network) {
        for group in self.groups.keys().copied().collect::<Vec<_>>() {
            if let Some(known) = self.groups.get(&group) {
                let next = DatagramGroup::build(network, known.index, known.members.clone());
                self.replace(now, network, group, Some(next), Owner::Detached);
            }
        }
    }

    /// Entries of all datagram groups on a switch, in two lists. The second is written after the first, because its
    /// entries refer to those of the first.
    pub(super) fn entries(
        &self,
        program: &Program,
        switch: SwitchIndex,
    ) -> (Vec<Update>, Vec<Update>) {
        let groups = self.groups.iter();
        let entries = groups.flat_map(|(ip, group)| group.entries(program, *ip, switch));
        entries.partition(|update| program.is_replication(update))
    }

    /// Processes the result of a write that a request waits for.
    pub(super) fn write_done(
        &mut self,
        network: &mut Network,
        tag: Tag,
        task: TaskId,
        result: Result<u64, SwitchError>,
    ) {
        if let Some(request) = self.requests.get_mut(&tag) {
            request.pending.remove(&task);
            if let Err(error) = result {
                request.error.get_or_insert(error);
            }
            self.reply(network, tag);
        }
    }

    fn reply(&mut self, network: &mut Network, tag: Tag) {
        let is_done = |request: &Request| request.pending.is_empty();
        if !self.requests.get(&tag).is_some_and(is_done) {
            return;
        }
        let Some(request) = self.requests.remove(&tag) else {
            return;
        };
        let group = request.group;
        network.reply(match request.error {
            Some(error) => ApiReply::Failed {
                tag,
                error: GroupError::Switch(error),
            },
            None => ApiReply::DatagramGroup {
                tag,
                group,
                members: self
                    .groups
                    .get(&group)
                    .map_or(0, |known| known.members.len()),
            },
        });
    }
}
