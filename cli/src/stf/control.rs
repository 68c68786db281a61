//! The commands of a test as P4Runtime requests.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use alfirk_bmv2::KeyMatch;
use alfirk_bmv2_json::MatchType;
use alfirk_compiler::driver::Compiled;
use alfirk_p4runtime::p4::config::v1::{self as info, P4Info};
use alfirk_p4runtime::p4::v1::{
    self as p4, field_match::FieldMatchType, p4_runtime_client::P4RuntimeClient,
};
use alfirk_p4runtime::Status;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::Code;

use super::process::Process;
use crate::exit::Failure;
use crate::stf::keys::{by_suffix, hex, key_match, keys_in_order, no_handle, not_counted, trimmed};
use crate::stf::parse::{Call, Command, CounterIndex, KeyValue, MeterRates};

/// The switch's number, as it is started.
const DEVICE: u64 = 0;

/// How long a switch may take until it answers.
const START_LIMIT: Duration = Duration::from_secs(20);

/// The primary controller of the switch.
pub struct Control {
    client: P4RuntimeClient<Channel>,
    /// The stream of the primary is open as long as this.
    _requests: mpsc::Sender<p4::StreamMessageRequest>,
    info: P4Info,
    /// Entries that were added, in order.
    added: Vec<p4::TableEntry>,
    /// Entries that a test has named.
    handles: BTreeMap<String, p4::TableEntry>,
    /// Replication id and replicas of each node that was made, nodes of each group, replicas of each session.
    nodes: Vec<(u32, Vec<p4::Replica>)>,
    groups: BTreeMap<u32, Vec<usize>>,
    sessions: BTreeMap<u32, Vec<p4::Replica>>,
}

fn election_id() -> Option<p4::Uint128> {
    Some(p4::Uint128 { high: 0, low: 1 })
}

impl Control {
    /// Waits for the server, becomes its primary, and loads the program.
    pub async fn connect(
        address: &str,
        process: &mut Process,
        program: &Compiled,
    ) -> Result<Control, Failure> {
        let refused =
            |error: tonic::Status| Failure::failed(format_args!("--switch: {}", told(error)));
        let endpoint =
            Endpoint::from_shared(format!("http://{address}")).map_err(Failure::failed)?;
        let start = Instant::now();
        let channel = loop {
            match endpoint.connect().await {
                Ok(channel) => break channel,
                Err(error) if start.elapsed() > START_LIMIT => {
                    return Err(Failure::failed(format_args!(
                        "--switch: no P4Runtime server at {address}: {error}"
                    )));
                }
                Err(_) => process.is_alive()?,
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        let mut client = P4RuntimeClient::new(channel).max_decoding_message_size(usize::MAX);
        let (requests, stream) = mpsc::channel(1);
        let arbitration = p4::MasterArbitrationUpdate {
            device_id: DEVICE,
            election_id: election_id(),
            ..Default::default()
        };
        let update = p4::stream_message_request::Update::Arbitration(arbitration);
        let first = p4::StreamMessageRequest {
            update: Some(update),
        };
        requests.send(first).await.map_err(Failure::failed)?;
        let stream = client
            .stream_channel(ReceiverStream::new(stream))
            .await
            .map_err(refused)?;
        let mut messages = stream.into_inner();
        messages.message().await.map_err(refused)?;
        // Digests and notifications that no test asks for.
        tokio::spawn(async move { while let Ok(Some(_)) = messages.message().await {} });
        let config = p4::ForwardingPipelineConfig {
            p4info: Some(program.p4info.clone()),
            p4_device_config: program.json.to_text().into_bytes().into(),
            ..Default::default()
        };
        let action = p4::set_forwarding_pipeline_config_request::Action::VerifyAndCommit;
        client
            .set_forwarding_pipeline_config(p4::SetForwardingPipelineConfigRequest {
                device_id: DEVICE,
                election_id: election_id(),
                action: action.into(),
                config: Some(config),
                ..Default::default()
            })
            .await
            .map_err(refused)?;
        Ok(Control {
            client,
            _requests: requests,
            info: program.p4info.clone(),
            added: Vec::new(),
            handles: BTreeMap::new(),
            nodes: Vec::new(),
            groups: BTreeMap::new(),
            sessions: BTreeMap::new(),
        })
    }

    /// Does what a command says, packets left alone.
    pub async fn apply(&mut self, command: &Command) -> Result<(), String> {
        use p4::update::Type::{Delete, Insert, Modify};
        match command {
            Command::Packet { .. } | Command::Expect { .. } | Command::NoPacket => Ok(()),
            Command::Wait => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(())
            }
            Command::MirroringGet { .. } | Command::Dump => Ok(()),
            Command::MirroringDelete { session } => {
                self.sessions.remove(session);
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
                action,
                handle,
            } => {
                let table = self.table(table)?;
                let entry = self.entry(table, *priority, keys, action)?;
                self.write(Insert, entity_of(entry.clone())).await?;
                self.added.push(entry.clone());
                if let Some(handle) = handle {
                    self.handles.insert(handle.clone(), entry);
                }
                Ok(())
            }
            Command::SetDefault { table, action } => {
                let table = self.table(table)?;
                let entry = p4::TableEntry {
                    table_id: id(&table.preamble),
                    action: Some(self.action(table, action)?),
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
                self.added.retain(|known| *known != entry);
                self.write(Delete, entity_of(entry)).await
            }
            Command::MirroringAdd { session, port } => {
                let replica = replica(*port, 0);
                self.mirror(*session, vec![replica]).await
            }
            Command::MirroringAddMc { session, group } => {
                // Sessions of P4Runtime list their replicas: those that the group has by now.
                let replicas = self.members(*group).map_err(|missing| {
                    format!("{missing}; over P4Runtime it must be made first")
                })?;
                self.mirror(*session, replicas).await
            }
            Command::GroupCreate { group } => {
                self.groups.insert(*group, Vec::new());
                self.write(Insert, group_entity(*group, Vec::new())).await
            }
            Command::NodeCreate { rid, ports } => {
                let rid = u32::from(*rid);
                self.nodes.push((rid, replicas(rid, ports)));
                Ok(())
            }
            Command::NodeUpdate { node, ports } => {
                let index = *node as usize;
                let (rid, of_node) = self.nodes.get_mut(index).ok_or_else(|| no_node(*node))?;
                *of_node = replicas(*rid, ports);
                let with_it = self
                    .groups
                    .iter()
                    .filter(|(_, nodes)| nodes.contains(&index));
                let changed: Vec<u32> = with_it.map(|(group, _)| *group).collect();
                for group in changed {
                    let entity = group_entity(group, self.members(group)?);
                    self.write(Modify, entity).await?;
                }
                Ok(())
            }
            Command::NodeAssociate { group, node } => {
                let index = *node as usize;
                if index >= self.nodes.len() {
                    return Err(no_node(*node));
                }
                let nodes = self.groups.get_mut(group);
                nodes.ok_or_else(|| no_group(*group))?.push(index);
                let entity = group_entity(*group, self.members(*group)?);
                self.write(Modify, entity).await
            }
            Command::NodeExclude { .. } | Command::ExcludePorts { .. } => Err(
                "P4Runtime has no exclusions of replication; run the test without --switch"
                    .to_owned(),
            ),
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
                    packet_count: signed(*packets)?,
                    byte_count: signed(*bytes)?,
                };
                let index = CounterIndex::Cell(*index);
                let entity = self.counter(name, &index, Some(data))?;
                self.write(Modify, entity).await
            }
            Command::MeterGetRates { name, index } => {
                let entity = self.meter(name, Some(*index), None)?;
                self.read(entity).await.map(drop)
            }
            Command::MeterSetRates { name, index, rates } => {
                let entity = self.meter(name, Some(*index), Some(config(*rates)?))?;
                self.write(Modify, entity).await
            }
            Command::MeterArraySetRates { name, rates } => {
                let entity = self.meter(name, None, Some(config(*rates)?))?;
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
            device_id: DEVICE,
            election_id: election_id(),
            updates: vec![update],
            ..Default::default()
        };
        self.client.write(request).await.map(drop).map_err(told)
    }

    async fn read(
        &mut self,
        entity: p4::entity::Entity,
    ) -> Result<Vec<p4::entity::Entity>, String> {
        let request = p4::ReadRequest {
            device_id: DEVICE,
            entities: vec![p4::Entity {
                entity: Some(entity),
            }],
            ..Default::default()
        };
        let mut responses = self.client.read(request).await.map_err(told)?.into_inner();
        let mut entities = Vec::new();
        while let Some(response) = responses.message().await.map_err(told)? {
            entities.extend(
                response
                    .entities
                    .into_iter()
                    .filter_map(|entity| entity.entity),
            );
        }
        Ok(entities)
    }

    /// A table by its full name, or by a suffix that only it has.
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
            .ok_or_else(|| format!("there is no table {wanted}"))
    }

    fn entry(
        &self,
        table: &info::Table,
        priority: Option<i32>,
        given: &[(String, KeyValue)],
        call: &Call,
    ) -> Result<p4::TableEntry, String> {
        let table_name = name(&table.preamble);
        let names: Vec<&str> = table
            .match_fields
            .iter()
            .map(|field| &*field.name)
            .collect();
        let values = keys_in_order(table_name, &names, given)?;
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
            action: Some(self.action(table, call)?),
            // The largest wins, as in the test; the smallest there is is 1.
            priority: match prioritized {
                true => priority.unwrap_or(0).saturating_add(1).max(1),
                false => 0,
            },
            ..Default::default()
        })
    }

    /// An action of a table with its arguments.
    fn action(&self, table: &info::Table, call: &Call) -> Result<p4::TableAction, String> {
        let actions = table.action_refs.iter().filter_map(|reference| {
            let mut actions = self.info.actions.iter();
            actions.find(|action| id(&action.preamble) == reference.id)
        });
        let mut found: Option<&info::Action> = None;
        for action in actions {
            let full = name(&action.preamble);
            // The full name wins over a suffix.
            if full == call.name || (found.is_none() && full.ends_with(&format!(".{}", call.name)))
            {
                found = Some(action);
            }
        }
        let action = found.ok_or_else(|| {
            format!(
                "table {} has no action {}",
                name(&table.preamble),
                call.name
            )
        })?;
        if call.args.len() > action.params.len() {
            return Err(format!(
                "action {} has only {} parameters",
                name(&action.preamble),
                action.params.len()
            ));
        }
        let mut params = Vec::new();
        for (position, param) in action.params.iter().enumerate() {
            let mut args = call.args.iter();
            let named = args.find(|(name, _)| name.as_deref() == Some(param.name.as_str()));
            let unnamed = call.args.get(position).filter(|(name, _)| name.is_none());
            let (_, value) = named.or(unnamed).ok_or_else(|| {
                format!(
                    "action {} needs parameter {}",
                    name(&action.preamble),
                    param.name
                )
            })?;
            params.push(p4::action::Param {
                param_id: param.id,
                value: canonical(value),
            });
        }
        let action = p4::Action {
            action_id: id(&action.preamble),
            params,
        };
        let action = match table.implementation_id {
            0 => p4::table_action::Type::Action(action),
            // A member of its own.
            _ => p4::table_action::Type::ActionProfileActionSet(p4::ActionProfileActionSet {
                action_profile_actions: vec![p4::ActionProfileAction {
                    action: Some(action),
                    weight: 1,
                    ..Default::default()
                }],
                ..Default::default()
            }),
        };
        Ok(p4::TableAction {
            r#type: Some(action),
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
        self.added.clear();
        self.handles.clear();
        Ok(())
    }

    async fn mirror(&mut self, session: u32, more: Vec<p4::Replica>) -> Result<(), String> {
        let kind = match self.sessions.contains_key(&session) {
            true => p4::update::Type::Modify,
            false => p4::update::Type::Insert,
        };
        let replicas = self.sessions.entry(session).or_default();
        replicas.extend(more);
        let entry = p4::CloneSessionEntry {
            session_id: session,
            replicas: replicas.clone(),
            ..Default::default()
        };
        let entry = p4::packet_replication_engine_entry::Type::CloneSessionEntry(entry);
        self.write(kind, replication(entry)).await
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

    async fn read_register(&mut self, name: &str, index: u64) -> Result<Vec<u8>, String> {
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
            _ => Err(format!("the switch does not tell register {name}[{index}]")),
        }
    }

    /// What a group's nodes have by now.
    fn members(&self, group: u32) -> Result<Vec<p4::Replica>, String> {
        let nodes = self.groups.get(&group).ok_or_else(|| no_group(group))?;
        let replicas = nodes.iter().filter_map(|node| self.nodes.get(*node));
        Ok(replicas
            .flat_map(|(_, replicas)| replicas.clone())
            .collect())
    }

    /// A cell of a counter, or of a direct counter an entry: the one that was added in that place, or by that name.
    fn counter(
        &self,
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
                self.added_at(direct.direct_table_id, *index)?
            }
            (direct, CounterIndex::Entry(handle)) => {
                let known = self.handles.get(handle).ok_or_else(|| no_handle(handle))?;
                match direct {
                    Some(direct) if direct.direct_table_id == known.table_id => known,
                    _ => return Err(not_counted(wanted, handle)),
                }
            }
        };
        Ok(p4::entity::Entity::DirectCounterEntry(
            p4::DirectCounterEntry {
                table_entry: Some(without_action(entry)),
                data,
            },
        ))
    }

    /// A cell of a meter, all of them, or of a direct meter the entry that was added in that place.
    fn meter(
        &self,
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
                let entry = self.added_at(direct.direct_table_id, index)?;
                let entry = p4::DirectMeterEntry {
                    table_entry: Some(without_action(entry)),
                    config,
                    ..Default::default()
                };
                Ok(p4::entity::Entity::DirectMeterEntry(entry))
            }
        }
    }

    /// The entry that was added to a table in that place.
    fn added_at(&self, table_id: u32, index: u64) -> Result<&p4::TableEntry, String> {
        let mut entries = self.added.iter().filter(|e| e.table_id == table_id);
        let entry = usize::try_from(index).ok().and_then(|i| entries.nth(i));
        entry.ok_or_else(|| format!("the table has no entry {index}"))
    }

    async fn count(&mut self, name: &str, index: &CounterIndex) -> Result<p4::CounterData, String> {
        let entity = self.counter(name, index, None)?;
        let found = self.read(entity).await?.into_iter().next();
        let data = match found {
            Some(p4::entity::Entity::CounterEntry(entry)) => entry.data,
            Some(p4::entity::Entity::DirectCounterEntry(entry)) => entry.data,
            _ => None,
        };
        data.ok_or_else(|| format!("the switch does not tell counter {name}[{index}]"))
    }
}

/// What the switch says of a request that it refuses: of the update in it, if it says that much.
fn told(error: tonic::Status) -> String {
    if error.code() == Code::Unimplemented {
        return format!(
            "this switch does not do that over P4Runtime: {}",
            error.message()
        );
    }
    let status = Status::from(error);
    let updates = status.update_errors();
    match updates.iter().find(|update| update.canonical_code != 0) {
        Some(update) if update.canonical_code == Code::Unimplemented as i32 => format!(
            "this switch does not do that over P4Runtime: {}",
            update.message
        ),
        Some(update) => update.to_status().to_string(),
        None => status.to_string(),
    }
}

fn id(preamble: &Option<info::Preamble>) -> u32 {
    preamble.as_ref().map_or(0, |preamble| preamble.id)
}

fn name(preamble: &Option<info::Preamble>) -> &str {
    preamble.as_ref().map_or("", |preamble| &preamble.name)
}

fn find<'i>(
    preambles: impl Iterator<Item = &'i Option<info::Preamble>> + Clone,
    wanted: &str,
    what: &str,
) -> Result<u32, String> {
    let names = preambles.clone().map(|preamble| name(preamble).to_owned());
    let full = by_suffix(names, wanted, what)?;
    let found = preambles
        .into_iter()
        .find(|preamble| name(preamble) == full);
    Ok(found.map_or(0, id))
}

fn match_type(field: &info::MatchField) -> MatchType {
    use info::match_field::MatchType as Kind;
    match &field.r#match {
        Some(info::match_field::Match::MatchType(kind)) => match Kind::try_from(*kind) {
            Ok(Kind::Lpm) => MatchType::Lpm,
            Ok(Kind::Ternary) => MatchType::Ternary,
            Ok(Kind::Range) => MatchType::Range,
            Ok(Kind::Optional) => MatchType::Optional,
            _ => MatchType::Exact,
        },
        _ => MatchType::Exact,
    }
}

/// The value of a key; none for one that takes anything.
fn field_match(
    kind: MatchType,
    bits: u32,
    value: KeyMatch,
) -> Result<Option<FieldMatchType>, String> {
    use p4::field_match::{Exact, Lpm, Optional, Range, Ternary};
    let all = |mask: &[u8]| mask.iter().map(|byte| byte.count_ones()).sum::<u32>() == bits;
    Ok(Some(match value {
        KeyMatch::Exact { value } => FieldMatchType::Exact(Exact {
            value: canonical(&value),
        }),
        KeyMatch::Valid { value } => FieldMatchType::Exact(Exact {
            value: vec![u8::from(value)],
        }),
        KeyMatch::Lpm { prefix_len: 0, .. } => return Ok(None),
        KeyMatch::Lpm { value, prefix_len } => FieldMatchType::Lpm(Lpm {
            value: canonical(&value),
            prefix_len: i32::try_from(prefix_len).unwrap_or(i32::MAX),
        }),
        KeyMatch::Ternary { mask, .. } if trimmed(&mask).is_empty() => return Ok(None),
        KeyMatch::Ternary { value, mask } if kind == MatchType::Optional => match all(&mask) {
            true => FieldMatchType::Optional(Optional {
                value: canonical(&value),
            }),
            false => return Err("an optional key takes one value or any, no mask".to_owned()),
        },
        KeyMatch::Ternary { value, mask } => FieldMatchType::Ternary(Ternary {
            value: canonical(&value),
            mask: canonical(&mask),
        }),
        KeyMatch::Range { low, high } if trimmed(&low).is_empty() && all(&high) => return Ok(None),
        KeyMatch::Range { low, high } => FieldMatchType::Range(Range {
            low: canonical(&low),
            high: canonical(&high),
        }),
    }))
}

/// The shortest form, at least one byte (P4Runtime § 8.4.1).
fn canonical(value: &[u8]) -> Vec<u8> {
    match trimmed(value) {
        [] => vec![0],
        value => value.to_vec(),
    }
}

fn entity_of(entry: p4::TableEntry) -> p4::entity::Entity {
    p4::entity::Entity::TableEntry(entry)
}

fn replication(entry: p4::packet_replication_engine_entry::Type) -> p4::entity::Entity {
    p4::entity::Entity::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry {
        r#type: Some(entry),
    })
}

fn group_entity(group: u32, replicas: Vec<p4::Replica>) -> p4::entity::Entity {
    let entry = p4::MulticastGroupEntry {
        multicast_group_id: group,
        replicas,
        ..Default::default()
    };
    replication(p4::packet_replication_engine_entry::Type::MulticastGroupEntry(entry))
}

/// In the form that older switches read too.
fn replica(port: u32, instance: u32) -> p4::Replica {
    p4::Replica {
        port_kind: Some(p4::replica::PortKind::EgressPort(port)),
        instance,
        ..Default::default()
    }
}

fn replicas(rid: u32, ports: &[u32]) -> Vec<p4::Replica> {
    ports.iter().map(|port| replica(*port, rid)).collect()
}

/// What names an entry.
fn without_action(entry: &p4::TableEntry) -> p4::TableEntry {
    p4::TableEntry {
        action: None,
        ..entry.clone()
    }
}

fn config(rates: MeterRates) -> Result<p4::MeterConfig, String> {
    Ok(p4::MeterConfig {
        cir: signed(rates.cir)?,
        cburst: signed(rates.cburst)?,
        pir: signed(rates.pir)?,
        pburst: signed(rates.pburst)?,
        ..Default::default()
    })
}

fn no_node(node: u32) -> String {
    format!("node {node} was not made")
}

fn no_group(group: u32) -> String {
    format!("there is no multicast group {group}")
}

fn index_of(index: u64) -> Result<p4::Index, String> {
    Ok(p4::Index {
        index: signed(index)?,
    })
}

fn signed(number: u64) -> Result<i64, String> {
    i64::try_from(number).map_err(|_| format!("{number} is too large for P4Runtime"))
}
