//! Execution of test commands by P4Runtime requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use alfirk_bmv2_json::MatchType;
use alfirk_p4runtime::p4::config::v1::{self as info, P4Info};
use alfirk_p4runtime::p4::v1::{self as p4};
use alfirk_p4runtime::{Code, Status};

use crate::entities::{
    canonical, entity_of, field_match, find, group_entity, id, index_of, match_type, meter_config,
    name, no_group, no_node, port_and_rid, replica, replicas, replication, to_i64, without_action,
};
use crate::keys::{
    by_suffix, counter_of_other_table, hex, key_match, keys_in_order, no_handle, trimmed,
};
use crate::names::did_you_mean;
use crate::parse::{Call, Command, CounterIndex, KeyValue};
use crate::target::{Target, DEVICE_ID};

/// The primary P4Runtime controller of a switch under test, which executes the commands of a test.
pub struct Control<T> {
    target: T,
    info: Arc<P4Info>,
    /// Table entries by the handles that the test has given them.
    handles: BTreeMap<String, p4::TableEntry>,
    /// Multicast nodes, indexed by their numbers, which follow the order of creation.
    nodes: Vec<Node>,
    /// Numbers of the nodes of each multicast group.
    groups: BTreeMap<u32, Vec<usize>>,
    sessions: BTreeMap<u32, Session>,
}

/// A multicast node, which makes one copy for each of its ports, all with the same replication id.
#[derive(Clone)]
struct Node {
    rid: u32,
    replicas: Vec<p4::Replica>,
    /// Level 1 exclusion id: packets that have this id get no copies from the node (Tofino).
    xid: Option<u16>,
}

/// Destinations of a clone session.
#[derive(Clone, Default)]
struct Session {
    replicas: Vec<p4::Replica>,
    /// Multicast group whose copies are made in addition to those of `replicas`.
    group: Option<u32>,
}

/// Returns the election id of all requests of a test.
fn election_id() -> Option<p4::Uint128> {
    Some(p4::Uint128 { high: 0, low: 1 })
}

/// Returns the message by which a client requests to be the primary controller.
pub fn arbitration() -> p4::StreamMessageRequest {
    let arbitration = p4::MasterArbitrationUpdate {
        device_id: DEVICE_ID,
        election_id: election_id(),
        ..Default::default()
    };
    p4::StreamMessageRequest {
        update: Some(p4::stream_message_request::Update::Arbitration(arbitration)),
    }
}

/// Returns the request that loads a program.
pub fn pipeline_config(info: &P4Info, json: &str) -> p4::SetForwardingPipelineConfigRequest {
    let config = p4::ForwardingPipelineConfig {
        p4info: Some(info.clone()),
        p4_device_config: json.as_bytes().to_vec().into(),
        ..Default::default()
    };
    let action = p4::set_forwarding_pipeline_config_request::Action::VerifyAndCommit;
    p4::SetForwardingPipelineConfigRequest {
        device_id: DEVICE_ID,
        election_id: election_id(),
        action: action.into(),
        config: Some(config),
        ..Default::default()
    }
}

impl<T: Target> Control<T> {
    /// Creates the controller of a switch that runs its program and has accepted this client as primary.
    pub fn new(target: T, info: P4Info) -> Control<T> {
        Control {
            target,
            info: Arc::new(info),
            handles: BTreeMap::new(),
            nodes: Vec::new(),
            groups: BTreeMap::new(),
            sessions: BTreeMap::new(),
        }
    }

    /// Returns the P4Info of the program.
    pub fn info(&self) -> &P4Info {
        &self.info
    }

    /// Returns a controller in the same state, of another switch in the same state.
    pub fn with_target<U: Target>(&self, target: U) -> Control<U> {
        Control {
            target,
            info: self.info.clone(),
            handles: self.handles.clone(),
            nodes: self.nodes.clone(),
            groups: self.groups.clone(),
            sessions: self.sessions.clone(),
        }
    }

    /// Returns the switch.
    pub fn target_ref(&self) -> &T {
        &self.target
    }

    /// Returns the switch, to send packets and requests to it.
    pub fn target(&mut self) -> &mut T {
        &mut self.target
    }

    /// Executes a command, except those about packets.
    pub async fn apply(&mut self, command: &Command) -> Result<(), String> {
        use p4::update::Type::{Delete, Insert, Modify};
        match command {
            // Executed by the runner.
            Command::Packet { .. }
            | Command::Expect { .. }
            | Command::NoPacket
            | Command::Or
            | Command::Wait => Ok(()),
            Command::MirroringGet { .. } | Command::Dump => Ok(()),
            Command::MirroringDelete { session } => {
                self.sessions.remove(session);
                if *session == 0 {
                    return self.target.clone_session_0(None);
                }
                let entry = p4::CloneSessionEntry {
                    session_id: *session,
                    ..Default::default()
                };
                let entry = p4::packet_replication_engine_entry::Type::CloneSessionEntry(entry);
                self.write(Delete, replication(entry)).await
            }
            Command::Add {
                table,
                priority,
                keys,
                actions,
                handle,
            } => {
                let table = self.table(table)?;
                let entry = self.entry(table, *priority, keys, actions)?;
                self.write(Insert, entity_of(entry.clone())).await?;
                if let Some(handle) = handle {
                    self.handles.insert(handle.clone(), entry);
                }
                Ok(())
            }
            Command::SetDefault { table, action } => {
                let table = self.table(table)?;
                let entry = p4::TableEntry {
                    table_id: id(&table.preamble),
                    action: Some(self.actions(table, std::slice::from_ref(action))?),
                    is_default_action: true,
                    ..Default::default()
                };
                self.write(Modify, entity_of(entry)).await
            }
            Command::RemoveAll => self.remove_all().await,
            Command::Remove { handle } => {
                let entry = self
                    .handles
                    .remove(handle)
                    .ok_or_else(|| no_handle(handle))?;
                self.write(Delete, entity_of(entry)).await
            }
            Command::MirroringAdd { session, port } => {
                let more = replica(*port, 0);
                self.mirror(*session, |session| session.replicas.push(more))
                    .await
            }
            Command::MirroringAddMc { session, group } => {
                self.mirror(*session, |session| session.group = Some(*group))
                    .await
            }
            Command::GroupCreate { group } => {
                self.groups.insert(*group, Vec::new());
                self.write_group(Insert, *group).await
            }
            Command::NodeCreate { rid, ports } => {
                let rid = u32::from(*rid);
                self.nodes.push(Node {
                    rid,
                    replicas: replicas(rid, ports),
                    xid: None,
                });
                Ok(())
            }
            Command::NodeUpdate { node, ports } => {
                let existing = self.node(*node)?;
                existing.replicas = replicas(existing.rid, ports);
                for group in self.groups_of(*node) {
                    self.write_group(Modify, group).await?;
                }
                Ok(())
            }
            Command::NodeAssociate { group, node } => {
                self.node(*node)?;
                let nodes = self.groups.get_mut(group);
                nodes.ok_or_else(|| no_group(*group))?.push(*node as usize);
                self.write_group(Modify, *group).await
            }
            Command::NodeExclude { node, xid } => {
                self.node(*node)?.xid = Some(*xid);
                for group in self.groups_of(*node) {
                    self.exclude(group)?;
                }
                Ok(())
            }
            Command::ExcludePorts { yid, ports } => self.target.prune(*yid, ports),
            Command::RegisterRead { name, index, value } => {
                let found = self.read_register(name, *index).await?;
                match value {
                    Some(value) if trimmed(&found) != trimmed(value) => Err(format!(
                        "register {name}[{index}] is 0x{}, not 0x{}",
                        hex(trimmed(&found)),
                        hex(trimmed(value))
                    )),
                    _ => Ok(()),
                }
            }
            Command::RegisterWrite { name, index, value } => {
                let entity = self.register(name, Some(*index), Some(canonical(value)))?;
                self.write(Modify, entity).await
            }
            Command::RegisterReset { name } => {
                let entity = self.register(name, None, Some(vec![0]))?;
                self.write(Modify, entity).await
            }
            Command::CounterRead { name, index } => {
                let index = CounterIndex::Cell(*index);
                self.count(name, &index).await.map(drop)
            }
            Command::CounterWrite {
                name,
                index,
                packets,
                bytes,
            } => {
                let data = p4::CounterData {
                    packet_count: to_i64(*packets)?,
                    byte_count: to_i64(*bytes)?,
                };
                let index = CounterIndex::Cell(*index);
                let entity = self.counter(name, &index, Some(data)).await?;
                self.write(Modify, entity).await
            }
            Command::MeterGetRates { name, index } => {
                let entity = self.meter(name, Some(*index), None).await?;
                self.read(entity).await.map(drop)
            }
            Command::MeterSetRates { name, index, rates } => {
                let config = Some(meter_config(*rates)?);
                let entity = self.meter(name, Some(*index), config).await?;
                self.write(Modify, entity).await
            }
            Command::MeterArraySetRates { name, rates } => {
                let entity = self.meter(name, None, Some(meter_config(*rates)?)).await?;
                self.write(Modify, entity).await
            }
            Command::CheckCounter {
                name,
                index,
                unit,
                comparison,
                value,
            } => {
                let data = self.count(name, index).await?;
                let counted = [data.packet_count, data.byte_count];
                let [packets, bytes] = counted.map(|count| u64::try_from(count).unwrap_or(0));
                unit.check((packets, bytes), *comparison, *value)
                    .map_err(|found| format!("counter {name}[{index}] has {found}"))
            }
        }
    }

    async fn write(
        &mut self,
        kind: p4::update::Type,
        entity: p4::entity::Entity,
    ) -> Result<(), String> {
        let update = p4::Update {
            r#type: kind.into(),
            entity: Some(p4::Entity {
                entity: Some(entity),
            }),
        };
        let request = p4::WriteRequest {
            device_id: DEVICE_ID,
            election_id: election_id(),
            updates: vec![update],
            ..Default::default()
        };
        self.target
            .write(request)
            .await
            .map_err(|status| rejection_message(&status))
    }

    async fn read(
        &mut self,
        entity: p4::entity::Entity,
    ) -> Result<Vec<p4::entity::Entity>, String> {
        let request = p4::ReadRequest {
            device_id: DEVICE_ID,
            entities: vec![p4::Entity {
                entity: Some(entity),
            }],
            ..Default::default()
        };
        let found = self.target.read(request).await;
        let found = found.map_err(|status| rejection_message(&status))?;
        Ok(found.into_iter().filter_map(|e| e.entity).collect())
    }

    /// Finds a table by its full name, or by a suffix that no other table has.
    fn table(&self, wanted: &str) -> Result<&info::Table, String> {
        let names = self
            .info
            .tables
            .iter()
            .map(|table| name(&table.preamble).to_owned());
        let full = by_suffix(names, wanted, "table")?;
        let mut tables = self.info.tables.iter();
        tables
            .find(|table| name(&table.preamble) == full)
            .ok_or_else(|| format!("there is no table `{wanted}`"))
    }

    fn entry(
        &self,
        table: &info::Table,
        priority: Option<i32>,
        keys: &[(String, KeyValue)],
        calls: &[Call],
    ) -> Result<p4::TableEntry, String> {
        let table_name = name(&table.preamble);
        let names: Vec<&str> = table
            .match_fields
            .iter()
            .map(|field| &*field.name)
            .collect();
        let values = keys_in_order(table_name, &names, keys)?;
        let mut matches = Vec::new();
        let mut prioritized = false;
        for (field, value) in table.match_fields.iter().zip(values) {
            let kind = match_type(field);
            prioritized |= matches!(
                kind,
                MatchType::Ternary | MatchType::Range | MatchType::Optional
            );
            let bits = u32::try_from(field.bitwidth).unwrap_or(0);
            let wrong = |what: String| format!("key {} of table {table_name}: {what}", field.name);
            let value = key_match(kind, bits, value).map_err(wrong)?;
            if let Some(value) = field_match(kind, bits, value).map_err(wrong)? {
                matches.push(p4::FieldMatch {
                    field_id: field.id,
                    field_match_type: Some(value),
                });
            }
        }
        Ok(p4::TableEntry {
            table_id: id(&table.preamble),
            r#match: matches,
            action: Some(self.actions(table, calls)?),
            // In P4Runtime, as in the test, the largest priority wins; the smallest is 1.
            priority: match prioritized {
                true => priority.unwrap_or(0).saturating_add(1).max(1),
                false => 0,
            },
            ..Default::default()
        })
    }

    /// Builds the action of an entry. Several actions need a table with an action selector.
    fn actions(&self, table: &info::Table, calls: &[Call]) -> Result<p4::TableAction, String> {
        let actions: Result<Vec<p4::Action>, String> =
            calls.iter().map(|call| self.action(table, call)).collect();
        let mut actions = actions?;
        let action = match (table.implementation_id, actions.len()) {
            (0, 1) => p4::table_action::Type::Action(actions.remove(0)),
            (0, _) => {
                return Err(format!(
                    "table `{}` has no action selector: an entry of it has one action",
                    name(&table.preamble)
                ))
            }
            // An entry of an indirect table gets action profile members of its own.
            _ => p4::table_action::Type::ActionProfileActionSet(p4::ActionProfileActionSet {
                action_profile_actions: actions
                    .into_iter()
                    .map(|action| p4::ActionProfileAction {
                        action: Some(action),
                        weight: 1,
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            }),
        };
        Ok(p4::TableAction {
            r#type: Some(action),
        })
    }

    /// Builds an action of a table with its arguments.
    fn action(&self, table: &info::Table, call: &Call) -> Result<p4::Action, String> {
        let actions = table.action_refs.iter().filter_map(|reference| {
            let mut actions = self.info.actions.iter();
            actions.find(|action| id(&action.preamble) == reference.id)
        });
        let actions: Vec<&info::Action> = actions.collect();
        let mut found: Option<&info::Action> = None;
        for &action in &actions {
            let full = name(&action.preamble);
            // The full name takes precedence over a suffix.
            if full == call.name || (found.is_none() && full.ends_with(&format!(".{}", call.name)))
            {
                found = Some(action);
            }
        }
        let action = found.ok_or_else(|| {
            let names = actions.iter().map(|action| name(&action.preamble));
            let near = did_you_mean(&call.name, names);
            let table = name(&table.preamble);
            format!("table `{table}` has no action `{}`{near}", call.name)
        })?;
        let params = params(action, call)?;
        Ok(p4::Action {
            action_id: id(&action.preamble),
            params,
        })
    }

    async fn remove_all(&mut self) -> Result<(), String> {
        let tables: Vec<u32> = self
            .info
            .tables
            .iter()
            .filter(|table| !table.is_const_table)
            .map(|table| id(&table.preamble))
            .collect();
        for table_id in tables {
            let all = p4::TableEntry {
                table_id,
                ..Default::default()
            };
            for found in self.read(entity_of(all)).await? {
                if let p4::entity::Entity::TableEntry(entry) = found {
                    if !entry.is_const && !entry.is_default_action {
                        self.write(p4::update::Type::Delete, entity_of(entry))
                            .await?;
                    }
                }
            }
        }
        self.handles.clear();
        Ok(())
    }

    /// Changes a clone session, and creates it if necessary.
    async fn mirror(
        &mut self,
        session: u32,
        change: impl FnOnce(&mut Session),
    ) -> Result<(), String> {
        let kind = match self.sessions.contains_key(&session) {
            true => p4::update::Type::Modify,
            false => p4::update::Type::Insert,
        };
        change(self.sessions.entry(session).or_default());
        self.write_session(kind, session).await
    }

    /// Writes a clone session. The sessions of P4Runtime list replicas, so the current replicas of the session's
    /// multicast group are copied into it.
    async fn write_session(&mut self, kind: p4::update::Type, id: u32) -> Result<(), String> {
        let Some(session) = self.sessions.get(&id) else {
            return Ok(());
        };
        let mut replicas = session.replicas.clone();
        let of_group = session.group.and_then(|group| self.members(group).ok());
        replicas.extend(of_group.unwrap_or_default());
        if id == 0 {
            let copies: Vec<(u32, u16)> = replicas.iter().map(port_and_rid).collect();
            return self.target.clone_session_0(Some(&copies));
        }
        let entry = p4::CloneSessionEntry {
            session_id: id,
            replicas,
            ..Default::default()
        };
        let entry = p4::packet_replication_engine_entry::Type::CloneSessionEntry(entry);
        self.write(kind, replication(entry)).await
    }

    /// Writes a multicast group with the current ports of its nodes, and the sessions that use the group.
    async fn write_group(&mut self, kind: p4::update::Type, group: u32) -> Result<(), String> {
        let entity = group_entity(group, self.members(group)?);
        self.write(kind, entity).await?;
        self.exclude(group)?;
        let of_group = self.sessions.iter().filter(|(_, s)| s.group == Some(group));
        let of_group: Vec<u32> = of_group.map(|(id, _)| *id).collect();
        for session in of_group {
            self.write_session(p4::update::Type::Modify, session)
                .await?;
        }
        Ok(())
    }

    /// Sets the exclusion ids of a group's nodes on the switch. P4Runtime has no request for this.
    fn exclude(&mut self, group: u32) -> Result<(), String> {
        for node in self.groups.get(&group).into_iter().flatten() {
            let node = &self.nodes[*node];
            if let Some(xid) = node.xid {
                self.target.exclude(group, node.rid, xid)?;
            }
        }
        Ok(())
    }

    fn node(&mut self, node: u32) -> Result<&mut Node, String> {
        self.nodes
            .get_mut(node as usize)
            .ok_or_else(|| no_node(node))
    }

    fn groups_of(&self, node: u32) -> Vec<u32> {
        let groups = self.groups.iter();
        let with_it = groups.filter(|(_, nodes)| nodes.contains(&(node as usize)));
        with_it.map(|(group, _)| *group).collect()
    }

    fn register(
        &self,
        wanted: &str,
        index: Option<u64>,
        value: Option<Vec<u8>>,
    ) -> Result<p4::entity::Entity, String> {
        let registers = &self.info.registers;
        let register_id = find(
            registers.iter().map(|register| &register.preamble),
            wanted,
            "register",
        )?;
        Ok(p4::entity::Entity::RegisterEntry(p4::RegisterEntry {
            register_id,
            index: index.map(index_of).transpose()?,
            data: value.map(|value| p4::P4Data {
                data: Some(p4::p4_data::Data::Bitstring(value)),
            }),
        }))
    }

    /// Reads the value of a register.
    pub(crate) async fn read_register(
        &mut self,
        name: &str,
        index: u64,
    ) -> Result<Vec<u8>, String> {
        let entity = self.register(name, Some(index), None)?;
        let found = self.read(entity).await?.into_iter().next();
        match found {
            Some(p4::entity::Entity::RegisterEntry(p4::RegisterEntry {
                data:
                    Some(p4::P4Data {
                        data: Some(p4::p4_data::Data::Bitstring(value)),
                    }),
                ..
            })) => Ok(value),
            _ => Err(format!(
                "the switch does not report register {name}[{index}]"
            )),
        }
    }

    /// Returns the replicas of all nodes of a group.
    fn members(&self, group: u32) -> Result<Vec<p4::Replica>, String> {
        let nodes = self.groups.get(&group).ok_or_else(|| no_group(group))?;
        let nodes = nodes.iter().filter_map(|node| self.nodes.get(*node));
        Ok(nodes.flat_map(|node| node.replicas.clone()).collect())
    }

    /// Builds the entity of a counter. In a direct counter, `index` selects the table entry by its position or by its
    /// handle.
    async fn counter(
        &mut self,
        wanted: &str,
        index: &CounterIndex,
        data: Option<p4::CounterData>,
    ) -> Result<p4::entity::Entity, String> {
        let (arrays, direct) = (&self.info.counters, &self.info.direct_counters);
        let preambles = arrays.iter().map(|counter| &counter.preamble);
        let preambles = preambles.chain(direct.iter().map(|counter| &counter.preamble));
        let counter_id = find(preambles, wanted, "counter")?;
        let mut direct = direct.iter();
        let direct = direct.find(|counter| id(&counter.preamble) == counter_id);
        let entry = match (direct, index) {
            (None, CounterIndex::Cell(index)) => {
                return Ok(p4::entity::Entity::CounterEntry(p4::CounterEntry {
                    counter_id,
                    index: Some(index_of(*index)?),
                    data,
                }));
            }
            (Some(direct), CounterIndex::Cell(index)) => {
                let table_id = direct.direct_table_id;
                self.entry_at(table_id, *index).await?
            }
            (direct, CounterIndex::Entry(handle)) => {
                let existing = self.handles.get(handle).ok_or_else(|| no_handle(handle))?;
                match direct {
                    Some(direct) if direct.direct_table_id == existing.table_id => existing.clone(),
                    _ => return Err(counter_of_other_table(wanted, handle)),
                }
            }
        };
        Ok(p4::entity::Entity::DirectCounterEntry(
            p4::DirectCounterEntry {
                table_entry: Some(without_action(&entry)),
                data,
            },
        ))
    }

    /// Builds the entity of a meter, or of all meters of the array if `index` is `None`. In a direct meter, `index`
    /// selects a table entry by its position.
    async fn meter(
        &mut self,
        wanted: &str,
        index: Option<u64>,
        config: Option<p4::MeterConfig>,
    ) -> Result<p4::entity::Entity, String> {
        let (arrays, direct) = (&self.info.meters, &self.info.direct_meters);
        let preambles = arrays.iter().map(|meter| &meter.preamble);
        let preambles = preambles.chain(direct.iter().map(|meter| &meter.preamble));
        let meter_id = find(preambles, wanted, "meter")?;
        let mut direct = direct.iter();
        match direct.find(|meter| id(&meter.preamble) == meter_id) {
            None => Ok(p4::entity::Entity::MeterEntry(p4::MeterEntry {
                meter_id,
                index: index.map(index_of).transpose()?,
                config,
                ..Default::default()
            })),
            Some(direct) => {
                let index = index.ok_or_else(|| {
                    format!("meter {wanted} is direct: its rates are set entry by entry")
                })?;
                let table_id = direct.direct_table_id;
                let entry = self.entry_at(table_id, index).await?;
                let entry = p4::DirectMeterEntry {
                    table_entry: Some(without_action(&entry)),
                    config,
                    ..Default::default()
                };
                Ok(p4::entity::Entity::DirectMeterEntry(entry))
            }
        }
    }

    /// Returns the entry at this position of the table's read order, counted from 0.
    async fn entry_at(&mut self, table_id: u32, index: u64) -> Result<p4::TableEntry, String> {
        let all = p4::TableEntry {
            table_id,
            ..Default::default()
        };
        let entries = self.read(entity_of(all)).await?.into_iter();
        let mut entries = entries.filter_map(|entity| match entity {
            p4::entity::Entity::TableEntry(entry) if !entry.is_default_action => Some(entry),
            _ => None,
        });
        let entry = usize::try_from(index).ok().and_then(|i| entries.nth(i));
        entry.ok_or_else(|| {
            let mut tables = self.info.tables.iter();
            let table = tables.find(|table| id(&table.preamble) == table_id);
            let table = table.map_or("", |table| name(&table.preamble));
            format!("table `{table}` has no entry {index}")
        })
    }

    /// Reads the value of a counter.
    pub(crate) async fn count(
        &mut self,
        name: &str,
        index: &CounterIndex,
    ) -> Result<p4::CounterData, String> {
        let entity = self.counter(name, index, None).await?;
        let found = self.read(entity).await?.into_iter().next();
        let data = match found {
            Some(p4::entity::Entity::CounterEntry(entry)) => entry.data,
            Some(p4::entity::Entity::DirectCounterEntry(entry)) => entry.data,
            _ => None,
        };
        data.ok_or_else(|| format!("the switch does not report counter {name}[{index}]"))
    }
}

/// Returns the arguments of an action call, in the order of the action's parameters.
fn params(action: &info::Action, call: &Call) -> Result<Vec<p4::action::Param>, String> {
    let of = name(&action.preamble);
    let mut values = vec![None; action.params.len()];
    for (at, (argument, value)) in call.args.iter().enumerate() {
        let position = match argument {
            None => at,
            Some(argument) => {
                let mut params = action.params.iter();
                params
                    .position(|param| param.name == *argument)
                    .ok_or_else(|| {
                        let names = action.params.iter().map(|param| &*param.name);
                        let near = did_you_mean(argument, names);
                        format!("action `{of}` has no parameter `{argument}`{near}")
                    })?
            }
        };
        let count = values.len();
        match values.get_mut(position) {
            None => {
                return Err(format!(
                    "action `{of}` has {count} parameters; the call has {} arguments",
                    call.args.len()
                ))
            }
            Some(Some(_)) => {
                let param = &action.params[position].name;
                return Err(format!("parameter `{param}` of action `{of}` occurs twice"));
            }
            Some(empty) => *empty = Some(canonical(value)),
        }
    }
    let params = action.params.iter().zip(values).map(|(param, value)| {
        let value = value
            .ok_or_else(|| format!("parameter `{}` of action `{of}` is missing", param.name))?;
        Ok(p4::action::Param {
            param_id: param.id,
            value,
        })
    });
    params.collect()
}

/// Returns the error message of a rejected request. If the status has details, it is the message of the first update
/// that failed.
pub fn rejection_message(status: &Status) -> String {
    if status.canonical_code() == Code::Unimplemented {
        return format!(
            "this switch does not support the request over P4Runtime: {}",
            status.message
        );
    }
    let updates = status.update_errors();
    match updates.iter().find(|update| update.canonical_code != 0) {
        Some(update) if update.canonical_code == Code::Unimplemented as i32 => format!(
            "this switch does not support the request over P4Runtime: {}",
            update.message
        ),
        Some(update) => update.to_status().to_string(),
        None => status.to_string(),
    }
}
