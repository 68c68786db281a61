//! Tables of the replication engine and of mirror sessions.

use std::collections::BTreeMap;
use std::fmt::Display;

use alfirk_bf_rt_json::Table;
use alfirk_bmv2::{CloneSession, NodeHandle, Pre, Replica, Switch, ECMP_PLACES};
use alfirk_p4runtime::bfrt_proto::{DataField, PreDeviceConfig, TableData, TableKey};
use alfirk_p4runtime::Status;

use crate::device;
use crate::error::{core, exists, invalid, not_found, pre, unsupported, Outcome};
use crate::values::{self, bytes_of, exact_key, Values};

/// What BfRuntime adds to the replication engine of the switch.
#[derive(Clone, Debug, Default)]
pub(crate) struct PreState {
    /// Nodes by the ids that clients chose.
    nodes: BTreeMap<u32, NodeHandle>,
    /// Exclusion ids that groups set for their nodes, which the switch has at the nodes.
    groups: BTreeMap<u32, Members>,
    prunes: BTreeMap<u16, Vec<u32>>,
    /// Nodes of ECMP groups, each at its place.
    ecmps: BTreeMap<u32, [Option<u32>; ECMP_PLACES]>,
    /// Settings of ports, which clients wrote.
    ports: BTreeMap<u32, TableData>,
    /// Mirror sessions with all their data, of which the switch has a part.
    mirrors: BTreeMap<u32, TableData>,
}

/// Members of a multicast group.
#[derive(Clone, Debug, Default)]
struct Members {
    nodes: Vec<Member>,
    ecmps: Vec<Member>,
}

/// A node or ECMP group of a multicast group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    id: u32,
    xid: Option<u16>,
}

/// How a request changes an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Insert,
    Modify,
    /// Adds the members of the request to those of the entry.
    Add,
    /// Removes the members of the request.
    Remove,
}

/// An entry that is read: its key and data.
pub(crate) type Entry = (TableKey, TableData);

/// The entry with this id, a key of `bits` bits, and data without an action.
fn entry(id: u32, bits: u32, fields: Vec<DataField>) -> Entry {
    let data = TableData {
        action_id: 0,
        fields,
    };
    (exact_key(device::KEY, bytes_of(u64::from(id), bits)), data)
}

/// The error for an object that does not exist.
fn absent(what: &str, id: impl Display) -> Status {
    not_found(format!("{what} {id} does not exist"))
}

impl PreState {
    /// Sets properties of the whole replication engine. Those of how the chip schedules its copies have no effect here.
    pub fn configure(&mut self, switch: &mut Switch, config: &PreDeviceConfig) -> Outcome {
        if let Some(global) = &config.pre_global_rid {
            let rid = u16::try_from(global.global_rid).map_err(|_| {
                invalid(format!("the global rid {} is too large", global.global_rid))
            })?;
            switch.pre_mut().map_err(core)?.set_global_rid(Some(rid));
        }
        Ok(())
    }

    fn handle(&self, node: u32) -> Outcome<NodeHandle> {
        let handle = self.nodes.get(&node).copied();
        handle.ok_or_else(|| absent("multicast node", node))
    }

    /// Writes an entry of `$pre.node`.
    pub fn write_node(
        &mut self,
        switch: &mut Switch,
        table: &Table,
        key: &TableKey,
        data: &TableData,
        write: Write,
    ) -> Outcome {
        let id = key_u32(table, key)?;
        let values = Values::new(table, &[], data)?;
        let rid = values.number(device::NODE_RID);
        let ports = values.numbers(device::NODE_PORTS);
        let lags: Vec<u16> = small(values.numbers(device::NODE_LAGS), table)?;
        let engine = switch.pre_mut().map_err(core)?;
        match write {
            Write::Insert => {
                if self.nodes.contains_key(&id) {
                    return Err(exists(format!("multicast node {id} exists already")));
                }
                let rid = rid.and_then(|rid| u16::try_from(rid).ok());
                let rid = rid.ok_or_else(|| invalid("a multicast node needs $MULTICAST_RID"))?;
                let handle = engine.create_node(rid, ports, &lags).map_err(pre)?;
                self.nodes.insert(id, handle);
                Ok(())
            }
            _ => {
                let handle = self.handle(id)?;
                let old = engine.nodes().find(|(own, _)| *own == handle);
                let (mut all, mut groups) = old.map_or_else(Default::default, |(_, node)| {
                    (node.ports.clone(), node.lags.clone())
                });
                match write {
                    Write::Add => {
                        all.extend(ports);
                        groups.extend(&lags);
                    }
                    Write::Remove => {
                        all.retain(|port| !ports.contains(port));
                        groups.retain(|lag| !lags.contains(lag));
                    }
                    _ => {
                        if values.has(device::NODE_PORTS) {
                            all = ports.to_vec();
                        }
                        if values.has(device::NODE_LAGS) {
                            groups = lags;
                        }
                    }
                }
                engine.update_node(handle, &all, &groups).map_err(pre)
            }
        }
    }

    /// Deletes a node, which leaves its group.
    pub fn delete_node(&mut self, switch: &mut Switch, table: &Table, key: &TableKey) -> Outcome {
        let id = key_u32(table, key)?;
        let handle = self.handle(id)?;
        let mut ecmps = self.ecmps.iter();
        if let Some((ecmp, _)) = ecmps.find(|(_, nodes)| nodes.contains(&Some(id))) {
            return Err(invalid(format!(
                "multicast node {id} is in ECMP group {ecmp}"
            )));
        }
        let engine = switch.pre_mut().map_err(core)?;
        engine.delete_node(handle).map_err(pre)?;
        for members in self.groups.values_mut() {
            members.nodes.retain(|member| member.id != id);
        }
        self.nodes.remove(&id);
        Ok(())
    }

    /// Ids of all nodes.
    pub fn node_ids(&self) -> Vec<u32> {
        self.nodes.keys().copied().collect()
    }

    /// A node.
    pub fn read_node(&self, switch: &Switch, id: u32) -> Outcome<Entry> {
        let handle = self.handle(id)?;
        let engine = switch.pre().map_err(core)?;
        let node = engine.nodes().find(|(own, _)| *own == handle);
        let (_, node) = node.ok_or_else(|| absent("multicast node", id))?;
        let lags = node.lags.iter().map(|lag| u32::from(*lag));
        let fields = vec![
            values::number_field(device::NODE_RID, u64::from(node.rid), 16),
            values::numbers_field(device::NODE_LAGS, lags),
            values::numbers_field(device::NODE_PORTS, node.ports.iter().copied()),
        ];
        Ok(entry(id, 32, fields))
    }

    /// Writes an entry of `$pre.mgid`.
    pub fn write_group(
        &mut self,
        switch: &mut Switch,
        table: &Table,
        key: &TableKey,
        data: &TableData,
        write: Write,
    ) -> Outcome {
        let id = key_u32(table, key)?;
        let values = Values::new(table, &[], data)?;
        let engine = switch.pre_mut().map_err(core)?;
        let old = match (write, self.groups.get(&id)) {
            (Write::Insert, Some(_)) => {
                return Err(exists(format!("multicast group {id} exists already")))
            }
            (Write::Insert, None) => Members::default(),
            (_, Some(members)) => members.clone(),
            (_, None) => return Err(absent("multicast group", id)),
        };
        let new = Members {
            nodes: changed(&old.nodes, &values, &NODE_FIELDS, write)?,
            ecmps: changed(&old.ecmps, &values, &ECMP_FIELDS, write)?,
        };
        // Everything is checked before the first change.
        for member in &new.nodes {
            let handle = self.handle(member.id)?;
            let node = engine.nodes().find(|(own, _)| *own == handle);
            let other = node.and_then(|(_, node)| node.group);
            if other.is_some_and(|other| other != id) {
                let node = member.id;
                return Err(invalid(format!(
                    "multicast node {node} is in another group"
                )));
            }
        }
        for member in &new.ecmps {
            if !self.ecmps.contains_key(&member.id) {
                return Err(absent("ECMP group", member.id));
            }
        }
        if write == Write::Insert {
            engine.create_group(id).map_err(pre)?;
        }
        for member in &old.nodes {
            let handle = self.handle(member.id)?;
            engine.dissociate(id, handle).map_err(pre)?;
        }
        for member in &new.nodes {
            let handle = self.handle(member.id)?;
            engine.set_exclusion_id(handle, member.xid).map_err(pre)?;
            engine.associate(id, handle).map_err(pre)?;
        }
        let ecmps = new.ecmps.iter().map(|member| (member.id, member.xid));
        engine.set_ecmps_of(id, ecmps.collect());
        self.groups.insert(id, new);
        Ok(())
    }

    /// Writes an entry of `$pre.ecmp`: an ECMP group, whose nodes have places in the order in which they were added.
    pub fn write_ecmp(
        &mut self,
        switch: &mut Switch,
        table: &Table,
        key: &TableKey,
        data: &TableData,
        write: Write,
    ) -> Outcome {
        let id = key_u32(table, key)?;
        let values = Values::new(table, &[], data)?;
        let given = values.numbers(device::ECMP_NODES);
        let mut nodes = match (write, self.ecmps.get(&id)) {
            (Write::Insert, Some(_)) => {
                return Err(exists(format!("ECMP group {id} exists already")))
            }
            (Write::Insert, None) => [None; ECMP_PLACES],
            (Write::Modify, Some(_)) => [None; ECMP_PLACES],
            (_, Some(old)) => *old,
            (_, None) => return Err(absent("ECMP group", id)),
        };
        for node in given {
            self.handle(*node)?;
            let wanted = match write {
                Write::Remove => Some(*node),
                _ => None,
            };
            let place = nodes.iter_mut().find(|place| **place == wanted);
            let place = place.ok_or_else(|| match write {
                Write::Remove => absent("node of the ECMP group", *node),
                _ => invalid(format!("ECMP group {id} has {ECMP_PLACES} nodes already")),
            })?;
            *place = match write {
                Write::Remove => None,
                _ => Some(*node),
            };
        }
        let handles = nodes.map(|node| node.and_then(|node| self.nodes.get(&node).copied()));
        let engine = switch.pre_mut().map_err(core)?;
        engine.set_ecmp(id, Some(handles));
        self.ecmps.insert(id, nodes);
        Ok(())
    }

    /// Deletes an ECMP group.
    pub fn delete_ecmp(&mut self, switch: &mut Switch, table: &Table, key: &TableKey) -> Outcome {
        let id = key_u32(table, key)?;
        if !self.ecmps.contains_key(&id) {
            return Err(absent("ECMP group", id));
        }
        let in_group = self.groups.iter().find(|(_, members)| {
            let mut ecmps = members.ecmps.iter();
            ecmps.any(|member| member.id == id)
        });
        if let Some((group, _)) = in_group {
            return Err(invalid(format!(
                "ECMP group {id} is in multicast group {group}"
            )));
        }
        switch.pre_mut().map_err(core)?.set_ecmp(id, None);
        self.ecmps.remove(&id);
        Ok(())
    }

    /// Ids of all ECMP groups.
    pub fn ecmp_ids(&self) -> Vec<u32> {
        self.ecmps.keys().copied().collect()
    }

    /// An ECMP group.
    pub fn read_ecmp(&self, id: u32) -> Outcome<Entry> {
        let nodes = self.ecmps.get(&id);
        let nodes = nodes.ok_or_else(|| absent("ECMP group", id))?;
        let nodes = nodes.iter().flatten().copied();
        let fields = vec![values::numbers_field(device::ECMP_NODES, nodes)];
        Ok(entry(id, 32, fields))
    }

    /// Writes an entry of `$pre.port`: settings of a port. Each port has an entry. The port to which packets are copied for the
    /// CPU changes; links of a software switch have no other port that protects them.
    pub fn write_port(
        &mut self,
        switch: &mut Switch,
        table: &Table,
        key: &TableKey,
        data: &TableData,
    ) -> Outcome {
        let port = key_u32(table, key)?;
        let values = Values::new(table, &[], data)?;
        if let Some(copies) = values.boolean(device::PRE_PORT_COPY_TO_CPU) {
            match copies {
                true => switch.set_copy_to_cpu_port(Some(port)).map_err(core)?,
                false if switch.copy_to_cpu_port().map_err(core)? == Some(port) => {
                    switch.set_copy_to_cpu_port(None).map_err(core)?;
                }
                false => {}
            }
        }
        let own = self.ports.entry(port).or_default();
        values::set_fields(&mut own.fields, &data.fields);
        Ok(())
    }

    /// Ports with settings.
    pub fn port_ids(&self) -> Vec<u32> {
        self.ports.keys().copied().collect()
    }

    /// The settings of a port.
    pub fn read_port(&self, table: &Table, port: u32) -> Entry {
        let data = self.ports.get(&port).cloned().unwrap_or_default();
        entry(port, 32, values::with_defaults(table, &data).fields)
    }

    /// Deletes a group.
    pub fn delete_group(&mut self, switch: &mut Switch, table: &Table, key: &TableKey) -> Outcome {
        let id = key_u32(table, key)?;
        if !self.groups.contains_key(&id) {
            return Err(absent("multicast group", id));
        }
        let engine = switch.pre_mut().map_err(core)?;
        engine.delete_group(id).map_err(pre)?;
        self.groups.remove(&id);
        Ok(())
    }

    /// Ids of all groups.
    pub fn group_ids(&self) -> Vec<u32> {
        self.groups.keys().copied().collect()
    }

    /// A group.
    pub fn read_group(&self, id: u32) -> Outcome<Entry> {
        let members = self.groups.get(&id);
        let members = members.ok_or_else(|| absent("multicast group", id))?;
        let of = |members: &[Member], [ids, valid, xids]: [u32; 3]| {
            let members = members.iter();
            let xid = |member: &Member| u32::from(member.xid.unwrap_or(0));
            [
                values::numbers_field(ids, members.clone().map(|member| member.id)),
                values::booleans_field(valid, members.clone().map(|member| member.xid.is_some())),
                values::numbers_field(xids, members.map(xid)),
            ]
        };
        let fields = [
            of(&members.nodes, NODE_FIELDS),
            of(&members.ecmps, ECMP_FIELDS),
        ];
        Ok(entry(id, 16, fields.concat()))
    }

    /// Writes an entry of `$pre.lag`.
    pub fn write_lag(
        &self,
        switch: &mut Switch,
        table: &Table,
        key: &TableKey,
        data: &TableData,
        write: Write,
    ) -> Outcome {
        let id = key_u16(table, key)?;
        let values = Values::new(table, &[], data)?;
        let given = values.numbers(device::LAG_PORTS);
        let engine = switch.pre_mut().map_err(core)?;
        let old = lag_of(engine, id);
        let ports = match (write, old) {
            // Each id has a group, which is empty at first.
            (Write::Insert | Write::Modify, _) => given.to_vec(),
            (Write::Add, old) => [old.unwrap_or_default(), given.to_vec()].concat(),
            (Write::Remove, old) => {
                let mut ports = old.unwrap_or_default();
                ports.retain(|port| !given.contains(port));
                ports
            }
        };
        engine.set_lag(id, &ports);
        let (mut before, mut after) = engine.remote_ports(id);
        let number = |field| values.number(field).and_then(|n| u32::try_from(n).ok());
        after = number(device::LAG_REMOTE_MSB).unwrap_or(after);
        before = number(device::LAG_REMOTE_LSB).unwrap_or(before);
        engine.set_remote_ports(id, before, after);
        Ok(())
    }

    /// Deletes a link aggregation group.
    pub fn delete_lag(&self, switch: &mut Switch, table: &Table, key: &TableKey) -> Outcome {
        let id = key_u16(table, key)?;
        let engine = switch.pre_mut().map_err(core)?;
        if lag_of(engine, id).is_none() {
            return Err(absent("link aggregation group", id));
        }
        engine.set_lag(id, &[]);
        Ok(())
    }

    /// Ids of all link aggregation groups.
    pub fn lag_ids(&self, switch: &Switch) -> Outcome<Vec<u32>> {
        let engine = switch.pre().map_err(core)?;
        Ok(engine.lags().map(|(id, _)| u32::from(id)).collect())
    }

    /// A link aggregation group.
    pub fn read_lag(&self, switch: &Switch, id: u32) -> Outcome<Entry> {
        let engine = switch.pre().map_err(core)?;
        let found = u16::try_from(id).ok().and_then(|id| {
            let ports = lag_of(engine, id)?;
            Some((ports, engine.remote_ports(id)))
        });
        let found = found.ok_or_else(|| absent("link aggregation group", id))?;
        let (ports, (before, after)) = found;
        let fields = vec![
            values::numbers_field(device::LAG_PORTS, ports),
            values::number_field(device::LAG_REMOTE_MSB, u64::from(after), 32),
            values::number_field(device::LAG_REMOTE_LSB, u64::from(before), 32),
        ];
        Ok(entry(id, 8, fields))
    }

    /// Writes an entry of `$pre.prune`. Each id has an entry, which is empty at first.
    pub fn write_prune(
        &mut self,
        switch: &mut Switch,
        table: &Table,
        key: &TableKey,
        data: &TableData,
        write: Write,
    ) -> Outcome {
        let id = key_u16(table, key)?;
        let values = Values::new(table, &[], data)?;
        let given = values.numbers(device::PRUNE_PORTS);
        let ports = self.prunes.entry(id).or_default();
        match write {
            Write::Insert | Write::Modify => *ports = given.to_vec(),
            Write::Add => ports.extend(given),
            Write::Remove => ports.retain(|port| !given.contains(port)),
        }
        let engine = switch.pre_mut().map_err(core)?;
        engine.prune(id, ports);
        Ok(())
    }

    /// All ids for excluded ports. Each has an entry.
    pub fn prune_ids(&self, table: &Table) -> Vec<u32> {
        (0..u32::try_from(table.size).unwrap_or(0)).collect()
    }

    /// The ports excluded for an id.
    pub fn read_prune(&self, id: u32) -> Entry {
        let ports = u16::try_from(id).ok().and_then(|id| self.prunes.get(&id));
        let ports = ports.into_iter().flatten().copied();
        let fields = vec![values::numbers_field(device::PRUNE_PORTS, ports)];
        entry(id, 16, fields)
    }

    /// Writes an entry of `$mirror.cfg`.
    pub fn write_mirror(
        &mut self,
        switch: &mut Switch,
        table: &Table,
        key: &TableKey,
        data: &TableData,
        is_new: bool,
    ) -> Outcome {
        let id = key_u32(table, key)?;
        if data.action_id == device::MIRROR_COALESCING {
            return Err(unsupported(
                "this switch does not coalesce mirrored packets",
            ));
        }
        Values::new(table, &[], data)?;
        let mut all = match (is_new, self.mirrors.get(&id)) {
            (true, Some(_)) => return Err(exists(format!("mirror session {id} exists already"))),
            (true, None) => TableData {
                action_id: data.action_id,
                fields: Vec::new(),
            },
            (false, Some(old)) => old.clone(),
            (false, None) => return Err(absent("mirror session", id)),
        };
        values::set_fields(&mut all.fields, &data.fields);
        let values = Values::new(table, &[], &all)?;
        let is_enabled = values.boolean(device::MIRROR_ENABLE).unwrap_or(false);
        let is_valid = |id| values.boolean(id).unwrap_or(false);
        let number = |id| values.number(id).and_then(|n| u32::try_from(n).ok());
        let port = number(device::MIRROR_PORT).filter(|_| is_valid(device::MIRROR_PORT_VALID));
        let group =
            number(device::MIRROR_GROUP_A).filter(|_| is_valid(device::MIRROR_GROUP_A_VALID));
        let group_b =
            number(device::MIRROR_GROUP_B).filter(|_| is_valid(device::MIRROR_GROUP_B_VALID));
        if group.is_some() && group_b.is_some() {
            return Err(unsupported("this switch mirrors to one multicast group"));
        }
        let rid = number(device::MIRROR_RID).and_then(|rid| u16::try_from(rid).ok());
        let session = CloneSession {
            replicas: port
                .map(|port| Replica {
                    port,
                    rid: rid.unwrap_or(0),
                })
                .into_iter()
                .collect(),
            group: group.or(group_b),
            truncate_bytes: number(device::MIRROR_LENGTH).unwrap_or(0),
            class_of_service: number(device::MIRROR_COS).unwrap_or(0),
        };
        let engine = switch.pre_mut().map_err(core)?;
        if is_enabled {
            engine.set_session(id, session).map_err(pre)?;
        } else {
            // A session that was never enabled does not exist in the switch.
            let _ = engine.delete_session(id);
        }
        self.mirrors.insert(id, all);
        Ok(())
    }

    /// Deletes a mirror session.
    pub fn delete_mirror(&mut self, switch: &mut Switch, table: &Table, key: &TableKey) -> Outcome {
        let id = key_u32(table, key)?;
        if self.mirrors.remove(&id).is_none() {
            return Err(absent("mirror session", id));
        }
        let engine = switch.pre_mut().map_err(core)?;
        // A session that is not enabled does not exist in the switch.
        let _ = engine.delete_session(id);
        Ok(())
    }

    /// Ids of all mirror sessions.
    pub fn mirror_ids(&self) -> Vec<u32> {
        self.mirrors.keys().copied().collect()
    }

    /// A mirror session, with defaults for what clients did not set.
    pub fn read_mirror(&self, table: &Table, id: u32) -> Outcome<Entry> {
        let data = self.mirrors.get(&id);
        let data = data.ok_or_else(|| absent("mirror session", id))?;
        let all = values::with_defaults(table, data);
        Ok((exact_key(device::KEY, bytes_of(u64::from(id), 16)), all))
    }
}

/// Fields of a multicast group with the ids of its nodes, whether each has an exclusion id, and this id.
const NODE_FIELDS: [u32; 3] = [
    device::GROUP_NODES,
    device::GROUP_XID_VALID,
    device::GROUP_XID,
];
/// The same for ECMP groups.
const ECMP_FIELDS: [u32; 3] = [
    device::GROUP_ECMPS,
    device::GROUP_ECMP_XID_VALID,
    device::GROUP_ECMP_XID,
];

/// Members of a multicast group after a request.
fn changed(
    old: &[Member],
    values: &Values,
    fields: &[u32; 3],
    write: Write,
) -> Outcome<Vec<Member>> {
    let given = members_of(values, fields)?;
    let mut others = old.to_vec();
    others.retain(|member| given.iter().all(|new| new.id != member.id));
    Ok(match write {
        Write::Insert => given,
        Write::Modify if values.has(fields[0]) => given,
        Write::Modify => old.to_vec(),
        Write::Add => [others, given].concat(),
        Write::Remove => others,
    })
}

fn lag_of(engine: &Pre, id: u16) -> Option<Vec<u32>> {
    let mut lags = engine.lags();
    let lag = lags.find(|(own, _)| *own == id);
    lag.map(|(_, ports)| ports.to_vec())
}

/// The number in the key of a table of the device.
pub(crate) fn key_u32(table: &Table, key: &TableKey) -> Outcome<u32> {
    let number = values::key_number(table, key, device::KEY)?;
    u32::try_from(number)
        .map_err(|_| invalid(format!("table {}: the key is too large", table.name)))
}

fn key_u16(table: &Table, key: &TableKey) -> Outcome<u16> {
    let number = key_u32(table, key)?;
    u16::try_from(number)
        .map_err(|_| invalid(format!("table {}: the key is too large", table.name)))
}

fn small(numbers: &[u32], table: &Table) -> Outcome<Vec<u16>> {
    let small = numbers.iter().map(|number| u16::try_from(*number));
    let small: Result<Vec<u16>, _> = small.collect();
    small.map_err(|_| invalid(format!("table {}: a number is too large", table.name)))
}

/// The members in a request for a group, with their exclusion ids.
fn members_of(values: &Values, [members, valid, xids]: &[u32; 3]) -> Outcome<Vec<Member>> {
    let nodes = values.numbers(*members);
    let valid = values.booleans(*valid);
    let ids = values.numbers(*xids);
    let is_odd = |length: usize| length != 0 && length != nodes.len();
    if is_odd(valid.len()) || is_odd(ids.len()) {
        return Err(invalid(
            "a multicast group needs an exclusion id for each of its nodes",
        ));
    }
    let members = nodes.iter().enumerate().map(|(at, node)| {
        let is_valid = valid.get(at).copied().unwrap_or(false);
        let xid = ids.get(at).and_then(|xid| u16::try_from(*xid).ok());
        Member {
            id: *node,
            xid: xid.filter(|_| is_valid),
        }
    });
    let members: Vec<Member> = members.collect();
    let twice = |(at, member): (usize, &Member)| members[..at].iter().any(|m| m.id == member.id);
    if members.iter().enumerate().any(twice) {
        return Err(invalid("a multicast group has a member twice"));
    }
    Ok(members)
}
