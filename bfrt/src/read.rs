//! Read requests.

use alfirk_bf_rt_json::{ActionData, Table, TableType};
use alfirk_bmv2::{Switch, TableEntry as CoreEntry};
use alfirk_p4runtime::bfrt_proto::{
    entity::Entity as Kind, handle_id, object_id::Object, table_entry::Value as Key, Entity,
    HandleId, ObjectId, TableAttribute, TableData, TableEntry, TableKey, TableUsage, TargetDevice,
};

use crate::arrays::Array;
use crate::attributes::Owner;
use crate::copies::has_volatile_fields;
use crate::device;
use crate::error::{core, invalid, not_found, unsupported, Outcome};
use crate::match_table::{handle_of, MatchTable, DEFAULT_HANDLE};
use crate::pktgen;
use crate::port_metadata::PortMetadata;
use crate::ports;
use crate::pre::{key_u32, Entry};
use crate::profiles::Profile;
use crate::program::{own_name, table_of};
use crate::scope::pipe_of;
use crate::value_sets::ValueSet;
use crate::values::requested_key;
use crate::{Device, Port, Program};

/// Everything that a read needs.
pub(crate) struct Source<'a> {
    pub switch: &'a Switch,
    pub program: &'a Program,
    pub device: &'a Device,
    pub ports: &'a [Port],
    pub now: u64,
    /// Target of the whole request.
    pub target: Option<&'a TargetDevice>,
}

impl<'a> Source<'a> {
    fn table(&self, id: u32) -> Outcome<&'a Table> {
        table_of(self.program, &self.device.schema, id)
    }

    /// Reads an entity; a wildcard has several results.
    pub fn entity(&self, entity: &Entity, results: &mut Vec<Entity>) -> Outcome {
        match &entity.entity {
            Some(Kind::TableEntry(entry)) => self.entry(entry, results),
            Some(Kind::TableUsage(usage)) => {
                let usage = TableUsage {
                    table_id: usage.table_id,
                    usage: self.usage(usage.table_id)?,
                    ..TableUsage::default()
                };
                push(results, Kind::TableUsage(usage));
                Ok(())
            }
            Some(Kind::TableAttribute(attribute)) => {
                let attribute = self.attribute(attribute)?;
                push(results, Kind::TableAttribute(attribute));
                Ok(())
            }
            Some(Kind::Handle(handle)) => {
                let handle = self.handle(handle)?;
                push(results, Kind::Handle(handle));
                Ok(())
            }
            Some(Kind::ObjectId(object)) => {
                let object = self.object(object)?;
                push(results, Kind::ObjectId(object));
                Ok(())
            }
            Some(Kind::TableOperation(_)) => Err(invalid("an operation cannot be read")),
            None => Err(invalid("the entity is empty")),
        }
    }

    fn entry(&self, request: &TableEntry, results: &mut Vec<Entity>) -> Outcome {
        let table = self.table(request.table_id)?;
        let flags = request.table_flags.as_ref();
        let key_only = flags.is_some_and(|flags| flags.key_only);
        let only: Vec<u32> = request
            .data
            .iter()
            .flat_map(|data| data.fields.iter().map(|field| field.field_id))
            .collect();
        let from_hardware = flags.is_some_and(|flags| flags.from_hw);
        let pipe = pipe_of(request.entry_tgt.as_ref(), self.target);
        let scopes = self.device.scopes_of(table.id)?;
        let mut add = |(key, mut data): (Option<TableKey>, TableData), is_default: bool| {
            data.fields
                .retain(|field| only.is_empty() || only.contains(&field.field_id));
            let entry = TableEntry {
                table_id: table.id,
                value: key.map(Key::Key),
                data: (!key_only).then_some(data),
                is_default_entry: is_default,
                entry_tgt: request.entry_tgt,
                ..TableEntry::default()
            };
            push(results, Kind::TableEntry(entry));
        };
        if device::is_configuration(table) {
            let data = device::configuration(self.device.generation, self.ports);
            add((None, data), true);
            return Ok(());
        }
        if table.table_type.is_match_action() {
            let found = MatchTable::new(table, self.switch)?;
            let handle = match &request.value {
                Some(Key::HandleId(handle)) => Some(*handle),
                _ => None,
            };
            if request.is_default_entry || handle == Some(DEFAULT_HANDLE) {
                scopes.check_default(pipe)?;
                let data = found.default_data(self.switch)?;
                add((None, data), request.is_default_entry);
                return Ok(());
            }
            let handles = match &request.value {
                Some(Key::Key(key)) => vec![found.find(self.switch, key)?],
                Some(Key::HandleId(handle)) => vec![found.with_handle(self.switch, *handle)?],
                None => self.switch.entry_handles(found.id).map_err(core)?,
            };
            if request.value.is_some() {
                scopes.check_read(pipe, handle.is_none(), from_hardware)?;
            } else if scopes.check_read(pipe, true, from_hardware).is_err() {
                // No entry is in the scope of the pipe.
                return Ok(());
            }
            let action = request.data.as_ref().map_or(0, |data| data.action_id);
            let view = self.device.view(table.id, self.now, from_hardware);
            let initial = match from_hardware {
                true => Vec::new(),
                false => found.initial_cells(self.switch),
            };
            for handle in handles {
                let entry: CoreEntry = self.switch.entry(found.id, handle).map_err(core)?;
                let (key, mut data) = found.describe(self.switch, &entry, &only, &view);
                if action != 0 && data.action_id != action {
                    if request.value.is_none() {
                        continue;
                    }
                    return Err(not_found(format!(
                        "table {}: the entry has another action",
                        table.name
                    )));
                }
                if !from_hardware {
                    let copies = &self.device.copies;
                    copies.apply(table, u64::from(handle.0), &mut data, &initial);
                }
                add((Some(key), data), false);
            }
            return Ok(());
        }
        if request.is_default_entry && !table.key.is_empty() {
            return Err(invalid(format!(
                "table {} has no default entry",
                table.name
            )));
        }
        let key = requested_key(table, request)?;
        let is_copied = !from_hardware && has_volatile_fields(table);
        let initial = match is_copied {
            true => Array::new(table).initial(self.switch)?,
            false => Vec::new(),
        };
        for (key, mut data) in self.keyed(table, key)? {
            let key = (!table.key.is_empty()).then_some(key);
            if is_copied {
                let index = Array::new(table).index(key.as_ref())?;
                self.device.copies.apply(table, index, &mut data, &initial);
            }
            add((key, data), request.is_default_entry);
        }
        Ok(())
    }

    /// The entry with a key, or all entries, of a table that is not a match-action table.
    fn keyed(&self, table: &Table, key: Option<&TableKey>) -> Outcome<Vec<Entry>> {
        let pre = &self.device.pre;
        let switch = self.switch;
        let ids = |all: Outcome<Vec<u32>>| match key {
            Some(key) => Ok(vec![key_u32(table, key)?]),
            None => all,
        };
        match table.table_type {
            TableType::Action => {
                let profile = Profile::new(self.program, table, switch)?;
                let ids = match key {
                    Some(key) => vec![profile.number(key)?],
                    None => profile.members(switch)?,
                };
                let all = ids.into_iter().map(|id| profile.read_member(switch, id));
                all.collect()
            }
            TableType::Selector => {
                let profile = Profile::new(self.program, table, switch)?;
                let ids = match key {
                    Some(key) => vec![profile.number(key)?],
                    None => profile.groups(switch)?,
                };
                let all = ids.into_iter().map(|id| profile.read_group(switch, id));
                all.collect()
            }
            TableType::PreMgid => {
                let ids = ids(Ok(pre.group_ids()))?.into_iter();
                ids.map(|id| pre.read_group(id)).collect()
            }
            TableType::PreNode => {
                let ids = ids(Ok(pre.node_ids()))?.into_iter();
                ids.map(|id| pre.read_node(switch, id)).collect()
            }
            TableType::PreLag => {
                let ids = ids(pre.lag_ids(switch))?.into_iter();
                ids.map(|id| pre.read_lag(switch, id)).collect()
            }
            TableType::PreEcmp => {
                let ids = ids(Ok(pre.ecmp_ids()))?.into_iter();
                ids.map(|id| pre.read_ecmp(id)).collect()
            }
            TableType::PrePort => {
                let ids = ids(Ok(pre.port_ids()))?.into_iter();
                Ok(ids.map(|id| pre.read_port(table, id)).collect())
            }
            TableType::PrePrune => {
                let ids = ids(Ok(pre.prune_ids(table)))?.into_iter();
                Ok(ids.map(|id| pre.read_prune(id)).collect())
            }
            TableType::MirrorCfg => {
                let ids = ids(Ok(pre.mirror_ids()))?.into_iter();
                ids.map(|id| pre.read_mirror(table, id)).collect()
            }
            TableType::PortMetadata => PortMetadata::new(table).read(switch, key),
            _ if pktgen::is_of_generator(table) => self.device.generator.read(table, key),
            _ if ports::is_of_ports(table) => self.device.ports.read(table, key, self.ports),
            TableType::ParserValueSet => ValueSet::new(table).read(switch, key),
            _ => {
                let array = Array::new(table);
                let chip = self.device.generation;
                match key {
                    Some(_) => {
                        let index = array.index(key)?;
                        Ok(vec![array.read(switch, index, chip)?])
                    }
                    None => (0..array.size())
                        .map(|index| array.read(switch, index, chip))
                        .collect(),
                }
            }
        }
    }

    fn usage(&self, id: u32) -> Outcome<u32> {
        let table = self.table(id)?;
        let count = match &table.table_type {
            kind if kind.is_match_action() => {
                let found = MatchTable::new(table, self.switch)?;
                self.switch.entry_count(found.id).map_err(core)?
            }
            TableType::Action | TableType::Selector | TableType::ParserValueSet => {
                self.keyed(table, None)?.len()
            }
            _ => {
                return Err(unsupported(format!(
                    "table {}: its usage is not known",
                    table.name
                )))
            }
        };
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    fn handle(&self, handle: &HandleId) -> Outcome<HandleId> {
        let table = self.table(handle.table_id)?;
        let Some(handle_id::Value::Key(key)) = &handle.value else {
            return Err(invalid("the request for a handle has no key"));
        };
        let found = MatchTable::new(table, self.switch)?;
        let entry = found.find(self.switch, key)?;
        Ok(HandleId {
            table_id: table.id,
            value: Some(handle_id::Value::HandleId(handle_of(entry))),
        })
    }

    fn attribute(&self, request: &TableAttribute) -> Outcome<TableAttribute> {
        let table = self.table(request.table_id)?;
        let owner = Owner {
            table,
            is_of_device: self.program.table(table.id).is_none(),
            pipe: pipe_of(None, self.target),
        };
        owner.get(request, self.switch, self.device)
    }

    /// The id of an object that the request names.
    fn object(&self, request: &ObjectId) -> Outcome<ObjectId> {
        use alfirk_p4runtime::bfrt_proto::object_id::table_object::Names;
        let id = match &request.object {
            Some(Object::TableObject(object)) => {
                let name = &object.table_name;
                let own = self.program.schema.tables.iter();
                let table = own
                    .chain(&self.device.schema.tables)
                    .find(|table| table.name == *name || own_name(&table.name) == name);
                let table =
                    table.ok_or_else(|| not_found(format!("no table has the name {name}")))?;
                let specs = table.action_specs.iter().flatten();
                let missing = |what: &str, name: &str| {
                    not_found(format!("table {} has no {what} {name}", table.name))
                };
                match &object.names {
                    None => table.id,
                    Some(Names::ActionName(action)) => {
                        let mut specs = specs.into_iter();
                        let spec = specs.find(|spec| spec.name == action.action);
                        spec.ok_or_else(|| missing("action", &action.action))?.id
                    }
                    Some(Names::KeyFieldName(key)) => {
                        let field = table.key.iter().find(|field| field.name == key.field);
                        field.ok_or_else(|| missing("key field", &key.field))?.id
                    }
                    Some(Names::DataFieldName(data)) => {
                        let mut specs = specs.into_iter();
                        let spec = specs.find(|spec| spec.name == data.action);
                        let params = spec.iter().flat_map(|spec| &spec.data);
                        let param = params.filter_map(|param| match param {
                            ActionData::Param(param) => Some((param.id, &param.name)),
                            ActionData::Data(_) => None,
                        });
                        let fields = table.data_fields();
                        let fields = fields.map(|(_, field)| (field.id, &field.name));
                        let mut all = param.chain(fields);
                        let found = all.find(|(_, name)| **name == data.field);
                        found.ok_or_else(|| missing("data field", &data.field))?.0
                    }
                }
            }
            Some(Object::LearnObject(object)) => {
                let name = &object.learn_name;
                let mut filters = self.program.schema.learn_filters.iter();
                let filter = filters.find(|filter| filter.name == *name);
                let filter =
                    filter.ok_or_else(|| not_found(format!("no digest has the name {name}")))?;
                match &object.data_field_name {
                    None => filter.id,
                    Some(data) => {
                        let field = filter.fields.iter().find(|field| field.name == data.field);
                        field
                            .ok_or_else(|| {
                                not_found(format!("the digest {name} has no field {}", data.field))
                            })?
                            .id
                    }
                }
            }
            None => return Err(invalid("the request for an id names no object")),
        };
        Ok(ObjectId {
            object: request.object.clone(),
            id,
        })
    }
}

fn push(results: &mut Vec<Entity>, kind: Kind) {
    results.push(Entity { entity: Some(kind) });
}
