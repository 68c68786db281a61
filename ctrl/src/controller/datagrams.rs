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
use super::session::{Task, TaskId};
use super::{Controller, Owner};
use crate::tables::{DatagramGroupKey, MulticastGroup, Program, Replica, Snapshot, Table};
use crate::topology::{HostIndex, SwitchIndex};
use crate::tree::Tree;

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
        vec![
            copies.insert(),
            program.datagram_groups.insert(&key, &self.index),
        ]
    }
}

impl Controller {
    /// Adds a host to a datagram group, or removes it. A request without effect succeeds at once.
    pub(super) fn change_datagram_group(
        &mut self,
        now: u64,
        tag: Tag,
        group: Ipv4Addr,
        host: Ipv4Addr,
        is_join: bool,
    ) {
        match self.plan_datagram_group(group, host, is_join) {
            Err(error) => self.queue_reply(ApiReply::Failed { tag, error }),
            Ok(next) => {
                let pending = self.replace_datagram_group(now, group, next, Owner::Datagrams(tag));
                let request = Request {
                    group,
                    pending,
                    error: None,
                };
                self.datagrams.requests.insert(tag, request);
                self.reply_to_datagram_request(tag);
            }
        }
    }

    fn plan_datagram_group(
        &self,
        group: Ipv4Addr,
        host: Ipv4Addr,
        is_join: bool,
    ) -> Result<Option<DatagramGroup>, GroupError> {
        if !group.is_multicast() {
            return Err(GroupError::NotMulticast(group));
        }
        let index = self.topology.host_with_ip(host);
        let index = index.ok_or(GroupError::UnknownHost(host))?;
        let known = self.datagrams.groups.get(&group);
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
            None => self.free_datagram_index()?,
        };
        Ok(Some(self.build_datagram_group(index, members)))
    }

    fn free_datagram_index(&self) -> Result<u16, GroupError> {
        let taken: BTreeSet<u16> = self.datagrams.groups.values().map(|g| g.index).collect();
        let capacity = self.program.sizes.datagram_groups;
        let mut all = (0..=u16::MAX).take(capacity as usize);
        all.find(|index| !taken.contains(index))
            .ok_or(GroupError::DatagramGroupsFull(capacity))
    }

    /// Builds the tree of the reachable members. For switches outside the tree, selects the port that leads to it.
    fn build_datagram_group(&self, index: u16, members: BTreeSet<HostIndex>) -> DatagramGroup {
        let reached_from = |first: HostIndex| -> Vec<HostIndex> {
            let (root, _) = self.topology.attachment(first);
            let rest = members.iter().copied().filter(|host| *host != first);
            [first]
                .into_iter()
                .chain(rest)
                .filter(|host| self.paths().reaches(root, *host))
                .collect()
        };
        // Failed links may have isolated the first member. Members at one switch reach the same others.
        let mut roots = BTreeSet::new();
        let firsts = members
            .iter()
            .filter(|first| roots.insert(self.topology.attachment(**first).0));
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
            group.tree = Tree::grow(&self.planner, &self.view(), &hosts);
            for switch in self.topology.switch_indexes() {
                let is_outside = group.tree.ports_on(switch).next().is_none();
                if is_outside && self.paths().reaches(switch, hosts[0]) {
                    // Each hop is nearer to that member, and its switch is in the tree.
                    let port = self.paths().next_hops(switch, hosts[0])[0];
                    group.ports_to_tree.insert(switch, port);
                }
            }
        }
        group
    }

    /// Replaces the state of a group, and returns the tasks that write it to the switches that are ready.
    fn replace_datagram_group(
        &mut self,
        now: u64,
        group: Ipv4Addr,
        next: Option<DatagramGroup>,
        owner: Owner,
    ) -> BTreeSet<TaskId> {
        let old = match next.clone() {
            Some(next) => self.datagrams.groups.insert(group, next),
            None => self.datagrams.groups.remove(&group),
        };
        if let Some(old) = &old {
            self.loads.remove(&old.tree);
        }
        if let Some(next) = &next {
            self.loads.add(&next.tree);
        }
        let mut tasks = BTreeSet::new();
        for switch in self.topology.switch_indexes() {
            if !self.switches[switch.0].boot.is_ready() {
                continue;
            }
            let entries = |state: &Option<DatagramGroup>| {
                let state = state.as_ref();
                state.map_or_else(Vec::new, |s| s.entries(&self.program, group, switch))
            };
            let (before, after) = (entries(&old), entries(&next));
            let held = Snapshot::of_updates(&before);
            let table = self.program.datagram_groups.id();
            let surplus = held.surplus_deletions(&Snapshot::of_updates(&after), table, |_| false);
            let mut updates = held.missing(after);
            updates.extend(surplus);
            if !updates.is_empty() {
                tasks.insert(self.submit(now, switch, owner, Task::Write(updates)));
            }
        }
        tasks
    }

    /// Rebuilds the trees of all datagram groups after paths in the network have changed.
    pub(super) fn reroute_datagrams(&mut self, now: u64) {
        for group in self.datagrams.groups.keys().copied().collect::<Vec<_>>() {
            if let Some(known) = self.datagrams.groups.get(&group) {
                let next = self.build_datagram_group(known.index, known.members.clone());
                self.replace_datagram_group(now, group, Some(next), Owner::Detached);
            }
        }
    }

    /// Entries of all datagram groups on a switch, in two lists. The second is written after the first, because its
    /// entries refer to those of the first.
    pub(super) fn datagram_entries(&self, switch: SwitchIndex) -> (Vec<Update>, Vec<Update>) {
        let groups = self.datagrams.groups.iter();
        let entries = groups.flat_map(|(ip, group)| group.entries(&self.program, *ip, switch));
        entries.partition(|update| self.program.is_replication(update))
    }

    pub(super) fn datagram_write_done(
        &mut self,
        tag: Tag,
        task: TaskId,
        result: Result<u64, SwitchError>,
    ) {
        if let Some(request) = self.datagrams.requests.get_mut(&tag) {
            request.pending.remove(&task);
            if let Err(error) = result {
                request.error.get_or_insert(error);
            }
            self.reply_to_datagram_request(tag);
        }
    }

    fn reply_to_datagram_request(&mut self, tag: Tag) {
        let is_done = |request: &Request| request.pending.is_empty();
        if !self.datagrams.requests.get(&tag).is_some_and(is_done) {
            return;
        }
        let Some(request) = self.datagrams.requests.remove(&tag) else {
            return;
        };
        let group = request.group;
        self.queue_reply(match request.error {
            Some(error) => ApiReply::Failed {
                tag,
                error: GroupError::Switch(error),
            },
            None => ApiReply::DatagramGroup {
                tag,
                group,
                members: self
                    .datagrams
                    .groups
                    .get(&group)
                    .map_or(0, |known| known.members.len()),
            },
        });
    }
}
