//! Tables of the replication engine and of mirror sessions.

use std::collections::BTreeMap;
use std::fmt::Display;

use alfirk_bf_rt_json::Table;
use alfirk_bmv2::{CloneSession, NodeHandle, Pre, Replica, Switch};
use alfirk_p4runtime::bfrt_proto::{data_field::Value, DataField, TableData, TableKey};
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
    groups: BTreeMap<u32, Vec<Member>>,
    prunes: BTreeMap<u16, Vec<u32>>,
    /// Mirror sessions with all their data, of which the switch has a part.
    mirrors: BTreeMap<u32, TableData>,
}

/// A node of a multicast group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    node: u32,
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

    /// Deletes a node.
    pub fn delete_node(&mut self, switch: &mut Switch, table: &Table, key: &TableKey) -> Outcome {
        let id = key_u32(table, key)?;
        let handle = self.handle(id)?;
        let in_group = self.groups.iter().find(|(_, members)| {
            let mut nodes = members.iter().map(|member| member.node);
            nodes.any(|node| node == id)
        });
        if let Some((group, _)) = in_group {
            return Err(invalid(format!("multicast node {id} is in group {group}")));
        }
        let engine = switch.pre_mut().map_err(core)?;
        engine.delete_node(handle).map_err(pre)?;
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
        if !values.numbers(device::GROUP_ECMPS).is_empty() {
            return Err(unsupported(
                "this switch has no ECMP groups of multicast nodes",
            ));
        }
        let given = members_of(&values)?;
        let engine = switch.pre_mut().map_err(core)?;
        let old = match (write, self.groups.get(&id)) {
            (Write::Insert, Some(_)) => {
                return Err(exists(format!("multicast group {id} exists already")))
            }
            (Write::Insert, None) => Vec::new(),
            (_, Some(members)) => members.clone(),
            (_, None) => return Err(absent("multicast group", id)),
        };
        let new = match write {
            Write::Insert => given,
            Write::Modify if values.has(device::GROUP_NODES) => given,
            Write::Modify => old.clone(),
            Write::Add => {
                let mut all = old.clone();
                all.retain(|member| given.iter().all(|new| new.node != member.node));
                all.extend(given);
                all
            }
            Write::Remove => {
                let mut all = old.clone();
                all.retain(|member| given.iter().all(|gone| gone.node != member.node));
                all
            }
        };
        // Everything is checked before the first change.
        for member in &new {
            let handle = self.handle(member.node)?;
            let node = engine.nodes().find(|(own, _)| *own == handle);
            let other = node.and_then(|(_, node)| node.group);
            if other.is_some_and(|other| other != id) {
                let node = member.node;
                return Err(invalid(format!(
                    "multicast node {node} is in another group"
                )));
            }
        }
        if write == Write::Insert {
            engine.create_group(id).map_err(pre)?;
        }
        for member in &old {
            let handle = self.handle(member.node)?;
            engine.dissociate(id, handle).map_err(pre)?;
        }
        for member in &new {
            let handle = self.handle(member.node)?;
            engine.set_exclusion_id(handle, member.xid).map_err(pre)?;
            engine.associate(id, handle).map_err(pre)?;
        }
        self.groups.insert(id, new);
        Ok(())
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
        let members = members.iter();
        let xid = |member: &Member| u32::from(member.xid.unwrap_or(0));
        let fields = vec![
            values::numbers_field(device::GROUP_NODES, members.clone().map(|m| m.node)),
            values::booleans_field(
                device::GROUP_XID_VALID,
                members.clone().map(|m| m.xid.is_some()),
            ),
            values::numbers_field(device::GROUP_XID, members.map(xid)),
            values::numbers_field(device::GROUP_ECMPS, []),
            values::booleans_field(device::GROUP_ECMP_XID_VALID, []),
            values::numbers_field(device::GROUP_ECMP_XID, []),
        ];
        Ok(entry(id, 16, fields))
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
            (Write::Insert, Some(_)) => {
                return Err(exists(format!(
                    "link aggregation group {id} exists already"
                )))
            }
            (Write::Insert, None) | (Write::Modify, _) => given.to_vec(),
            (Write::Add, old) => [old.unwrap_or_default(), given.to_vec()].concat(),
            (Write::Remove, old) => {
                let mut ports = old.unwrap_or_default();
                ports.retain(|port| !given.contains(port));
                ports
            }
        };
        engine.set_lag(id, &ports);
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
        let ports = u16::try_from(id).ok().and_then(|id| lag_of(engine, id));
        let ports = ports.ok_or_else(|| absent("link aggregation group", id))?;
        let fields = vec![
            values::numbers_field(device::LAG_PORTS, ports),
            values::number_field(device::LAG_REMOTE_MSB, 0, 32),
            values::number_field(device::LAG_REMOTE_LSB, 0, 32),
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

    /// Ids with excluded ports.
    pub fn prune_ids(&self) -> Vec<u32> {
        self.prunes.keys().map(|id| u32::from(*id)).collect()
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
        for field in &data.fields {
            all.fields.retain(|old| old.field_id != field.field_id);
            all.fields.push(field.clone());
        }
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
        let mut all = data.clone();
        for (_, field) in table.data_fields() {
            let is_set = |set: &DataField| set.field_id == field.id;
            let alfirk_bf_rt_json::FieldContent::Type(ty) = &field.content else {
                continue;
            };
            if !all.fields.iter().any(is_set) {
                let value = match (ty.bits(), ty.name) {
                    (_, alfirk_bf_rt_json::TypeName::Bool) => Value::BoolVal(false),
                    (Some(bits), _) => Value::Stream(bytes_of(0, bits)),
                    (None, _) => {
                        let choice = ty.choices.as_ref().and_then(|choices| choices.first());
                        Value::StrVal(choice.cloned().unwrap_or_default())
                    }
                };
                all.fields.push(values::field(field.id, value));
            }
        }
        Ok((exact_key(device::KEY, bytes_of(u64::from(id), 16)), all))
    }
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

/// The nodes in a request for a group, with their exclusion ids.
fn members_of(values: &Values) -> Outcome<Vec<Member>> {
    let nodes = values.numbers(device::GROUP_NODES);
    let valid = values.booleans(device::GROUP_XID_VALID);
    let ids = values.numbers(device::GROUP_XID);
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
            node: *node,
            xid: xid.filter(|_| is_valid),
        }
    });
    let members: Vec<Member> = members.collect();
    let twice =
        |(at, member): (usize, &Member)| members[..at].iter().any(|m| m.node == member.node);
    if members.iter().enumerate().any(twice) {
        return Err(invalid("a multicast group has a node twice"));
    }
    Ok(members)
}
