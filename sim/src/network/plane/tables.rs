//! Table entries that the controller has written, in maps for fast lookup.
//!
//! A *path* of a group is a port of the switch that leads to members. A *delivery* is the rewrite of packets for the
//! receiver at a port.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use alfirk_aggregation::Port;
use alfirk_bmv2::Switch;
use alfirk_ctrl::strategy::{IcrcMode, MinPsn};
use alfirk_ctrl::tables::{
    GroupEntry, GroupKey, GroupName, HostPort, Marking, MarkingPort, Member, MemberKey, MftKey,
    NextHop, NextHopKey, PathEntry, Program, ReceiverKey, ReceiverRewrite, Route, RouteKey, Table,
};
use alfirk_p4runtime::p4::v1::{
    entity, packet_replication_engine_entry as engine, replica, update, TableEntry, Update,
};
use alfirk_roce::rc::Recovery;

use super::fast_group::{BridgeExit, GroupEntries, GroupPath};
use super::registers;

/// The controller's table entries of one switch, as maps.
#[derive(Default)]
pub(super) struct Tables {
    /// IPv4 address of the host at each port, which is the only valid source there (source guard).
    owners: BTreeMap<u32, Ipv4Addr>,
    markings: BTreeMap<u32, Marking>,
    /// Routes by prefix length, the longest first, and network address.
    routes: Vec<(u8, BTreeMap<u32, Route>)>,
    /// Egress port of each next hop, by ECMP group and index in that group.
    next_hops: BTreeMap<(u16, u16), u32>,
    groups: BTreeMap<Ipv4Addr, GroupEntry>,
    /// Multicast forwarding table: path of each group at each port, by group index and port.
    mft: BTreeMap<(u16, u32), PathEntry>,
    members: BTreeMap<(u16, u32, Ipv4Addr), Member>,
    /// Rewrites of packets for receivers, by group index and port.
    receivers: BTreeMap<(u16, u32), ReceiverRewrite>,
    /// Copies that the switch makes of a packet of each group, as port and path number, by group index.
    replication: BTreeMap<u16, Vec<(u32, u32)>>,
}

impl Tables {
    /// Applies an update of a table that the switch has accepted.
    pub(super) fn apply(&mut self, program: &Program, update: &Update) {
        let is_deleted = update.r#type() == update::Type::Delete;
        let entity = update.entity.as_ref().and_then(|e| e.entity.as_ref());
        match entity {
            Some(entity::Entity::TableEntry(entry)) if !entry.is_default_action => {
                if is_deleted {
                    self.remove(program, entry);
                } else {
                    self.insert(program, entry);
                }
            }
            Some(entity::Entity::PacketReplicationEngineEntry(entry)) => {
                if let Some(engine::Type::MulticastGroupEntry(group)) = &entry.r#type {
                    let index = group.multicast_group_id.checked_sub(1);
                    let Some(index) = index.and_then(|index| u16::try_from(index).ok()) else {
                        return;
                    };
                    if is_deleted {
                        self.replication.remove(&index);
                        return;
                    }
                    #[allow(deprecated)]
                    let copies = group.replicas.iter().map(|replica| {
                        let port = match &replica.port_kind {
                            Some(replica::PortKind::EgressPort(port)) => *port,
                            _ => u32::MAX,
                        };
                        (port, replica.instance)
                    });
                    self.replication.insert(index, copies.collect());
                }
            }
            _ => {}
        }
    }

    fn insert(&mut self, program: &Program, entry: &TableEntry) {
        let id = entry.table_id;
        if id == program.routes.id() {
            if let Some((
                RouteKey {
                    network,
                    prefix_len,
                },
                route,
            )) = program.routes.parse(entry)
            {
                let place = self.routes.iter().position(|(len, _)| *len == prefix_len);
                let place = place.unwrap_or_else(|| {
                    let place = self.routes.partition_point(|(len, _)| *len > prefix_len);
                    self.routes.insert(place, (prefix_len, BTreeMap::new()));
                    place
                });
                self.routes[place].1.insert(network.into(), route);
            }
        } else if id == program.next_hops.id() {
            if let Some((NextHopKey { group, index }, NextHop { port })) =
                program.next_hops.parse(entry)
            {
                self.next_hops.insert((group, index), port);
            }
        } else if id == program.groups.id() {
            if let Some((GroupKey { mcst_id }, group)) = program.groups.parse(entry) {
                self.groups.insert(mcst_id, group);
            }
        } else if id == program.mft.id() {
            let parsed = program.mft.parse(entry);
            if let Some((
                MftKey {
                    group: GroupName::Index(group_index),
                    port,
                },
                path,
            )) = parsed
            {
                self.mft.insert((group_index, port), path);
            }
        } else if id == program.members.id() {
            if let Some((key, member)) = program.members.parse(entry) {
                let MemberKey {
                    group,
                    port,
                    src_ip,
                } = key;
                if let GroupName::Index(group_index) = group {
                    self.members.insert((group_index, port, src_ip), member);
                }
            }
        } else if id == program.receivers.id() {
            if let Some((ReceiverKey { group_index, port }, to)) = program.receivers.parse(entry) {
                self.receivers.insert((group_index, port), to);
            }
        } else if id == program.source_guard.id() {
            if let Some((HostPort { port }, owner)) = program.source_guard.parse(entry) {
                self.owners.insert(port, owner);
            }
        } else if let Some((MarkingPort { port }, Some(marking))) = marking_of(program, entry) {
            self.markings.insert(port, marking);
        }
    }

    /// Removes the entry that has the key of `entry`; the action of `entry` is not set.
    fn remove(&mut self, program: &Program, entry: &TableEntry) {
        let is =
            |other: TableEntry| other.table_id == entry.table_id && other.r#match == entry.r#match;
        let id = entry.table_id;
        if id == program.routes.id() {
            for (prefix_len, routes) in &mut self.routes {
                routes.retain(|network, _| {
                    let network = Ipv4Addr::from(*network);
                    !is(program.routes.pattern(&RouteKey {
                        network,
                        prefix_len: *prefix_len,
                    }))
                });
            }
        } else if id == program.next_hops.id() {
            self.next_hops.retain(|&(group, index), _| {
                !is(program.next_hops.pattern(&NextHopKey { group, index }))
            });
        } else if id == program.groups.id() {
            self.groups
                .retain(|&mcst_id, _| !is(program.groups.pattern(&GroupKey { mcst_id })));
        } else if id == program.mft.id() {
            self.mft.retain(|&(group_index, port), _| {
                let group = GroupName::Index(group_index);
                !is(program.mft.pattern(&MftKey { group, port }))
            });
        } else if id == program.members.id() {
            self.members.retain(|&(group_index, port, src_ip), _| {
                !is(program.members.pattern(&MemberKey {
                    group: GroupName::Index(group_index),
                    port,
                    src_ip,
                }))
            });
        } else if id == program.receivers.id() {
            self.receivers.retain(|&(group_index, port), _| {
                !is(program
                    .receivers
                    .pattern(&ReceiverKey { group_index, port }))
            });
        } else if id == program.source_guard.id() {
            self.owners
                .retain(|&port, _| !is(program.source_guard.pattern(&HostPort { port })));
        } else if let Some((MarkingPort { port }, _)) = marking_of(program, entry) {
            self.markings.remove(&port);
        }
    }

    /// IPv4 address of the host at a port; `None` if the port does not lead to a host.
    pub(super) fn owner(&self, port: u32) -> Option<Ipv4Addr> {
        self.owners.get(&port).copied()
    }

    pub(super) fn marking(&self, port: u32) -> Option<Marking> {
        self.markings.get(&port).copied()
    }

    pub(super) fn route(&self, to: Ipv4Addr) -> Option<Route> {
        let to = u32::from(to);
        self.routes.iter().find_map(|(len, routes)| {
            let mask = u32::MAX.checked_shl(32 - u32::from(*len)).unwrap_or(0);
            routes.get(&(to & mask)).copied()
        })
    }

    pub(super) fn next_hop(&self, group: u16, index: u16) -> Option<u32> {
        self.next_hops.get(&(group, index)).copied()
    }

    /// Index of the group with this address; `None` if there is no such group.
    pub(super) fn group(&self, mcst_id: Ipv4Addr) -> Option<u16> {
        self.groups.get(&mcst_id).map(|group| group.group_index)
    }

    pub(super) fn group_addresses(&self) -> impl Iterator<Item = Ipv4Addr> + '_ {
        self.groups.keys().copied()
    }

    /// Returns all entries of a group. `None` if they are incomplete, or if the group has strategies other than `tree`
    /// and `neutral`.
    pub(super) fn group_entries(&self, index: u16) -> Option<GroupEntries> {
        let mut entries = self
            .groups
            .iter()
            .filter(|(_, group)| group.group_index == index);
        let (&mcst_id, group) = entries.next()?;
        let is_known = group.strategies.min_psn == MinPsn::Tree
            && group.strategies.icrc == IcrcMode::Neutral
            && entries.next().is_none();
        let mut paths: Vec<(u8, Port, PathEntry)> = self
            .mft
            .range((index, 0)..=(index, u32::MAX))
            .map(|(&(_, port), path)| (path.path_index, port, *path))
            .collect();
        paths.sort_unstable_by_key(|(path, ..)| *path);
        let is_dense = paths
            .iter()
            .enumerate()
            .all(|(at, (path, ..))| usize::from(*path) == at);
        let copies: Vec<(u32, u32)> = paths
            .iter()
            .map(|(path, port, _)| (*port, u32::from(*path)))
            .collect();
        let is_whole = is_dense
            && paths.len() == usize::from(group.paths)
            && !paths.is_empty()
            && self.replication.get(&index) == Some(&copies);
        if !is_known || !is_whole {
            return None;
        }
        let path = |&(_, port, entry): &(u8, Port, PathEntry)| GroupPath {
            port,
            is_host: entry.is_host,
            members: self
                .members
                .range((index, port, Ipv4Addr::UNSPECIFIED)..=(index, port, Ipv4Addr::BROADCAST))
                .map(|(&(_, _, source), member)| (source, *member))
                .collect(),
            delivery: self.receivers.get(&(index, port)).copied(),
        };
        Some(GroupEntries {
            mcst_id,
            virtual_qpn: group.virtual_qpn,
            window: group.strategies.window.get(),
            is_selective: group.strategies.recovery == Recovery::SelectiveRepeat,
            paths: paths.iter().map(path).collect(),
        })
    }

    /// Returns the rewrite for the receiver at a port; `None` if the port does not lead to a receiver.
    pub(super) fn delivery(&self, switch: &Switch, index: u16, port: u32) -> Option<BridgeExit> {
        let delivery = self.receivers.get(&(index, port))?;
        Some(registers::exit(switch, delivery))
    }
}

/// Port and ECN profile of a table entry; `None` if it is of another table.
fn marking_of(program: &Program, entry: &TableEntry) -> Option<(MarkingPort, Option<Marking>)> {
    program.ecn_marking.as_ref()?.parse(entry)
}
