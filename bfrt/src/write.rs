//! Write requests.

use std::sync::Arc;

use alfirk_bf_rt_json::{Table, TableType};
use alfirk_bmv2::{Switch, TableId};
use alfirk_p4runtime::bfrt_proto::{
    entity::Entity as Kind, table_attribute::Attribute, table_entry::Value as Key, update::Type,
    TableAttribute, TableData, TableEntry, TableKey, TableOperation, Update,
};
use alfirk_p4runtime::Code;

use crate::arrays::Array;
use crate::device;
use crate::error::{core, invalid, not_found, unsupported, Outcome};
use crate::match_table::MatchTable;
use crate::pktgen;
use crate::ports;
use crate::pre::Write;
use crate::profiles::Profile;
use crate::program::{own_name, table_of};
use crate::values::requested_key;
use crate::{Attributes, Device, Port, Program};

/// Everything that an update may change or need.
pub(crate) struct Target<'a> {
    pub switch: &'a mut Switch,
    pub program: &'a Program,
    pub device: &'a mut Device,
    pub ports: &'a [Port],
    pub now: u64,
}

impl Target<'_> {
    /// Executes an update.
    pub fn update(&mut self, update: &Update) -> Outcome {
        let kind = Type::try_from(update.r#type).unwrap_or(Type::Unspecified);
        let entity = update.entity.as_ref().and_then(|it| it.entity.as_ref());
        match entity {
            Some(Kind::TableEntry(entry)) => self.entry(kind, entry),
            Some(Kind::TableAttribute(attribute)) => self.attribute(attribute),
            Some(Kind::TableOperation(operation)) => self.operation(operation),
            Some(_) => Err(invalid(
                "only entries, attributes and operations can be written",
            )),
            None => Err(invalid("the update has no entity")),
        }
    }

    fn entry(&mut self, kind: Type, entry: &TableEntry) -> Outcome {
        let of_device = Arc::clone(&self.device.schema);
        let table = table_of(self.program, &of_device, entry.table_id)?;
        let nothing = TableData::default();
        let data = entry.data.as_ref().unwrap_or(&nothing);
        if table.table_type.is_match_action() {
            return self.match_entry(kind, table, entry, data);
        }
        let key = requested_key(table, entry)?;
        if device::is_configuration(table) {
            return Err(unsupported(
                "the configuration of the device cannot be changed",
            ));
        }
        match (kind, key) {
            (Type::Delete | Type::Reset, None) => self.clear(table),
            (_, None) if !table.key.is_empty() => Err(invalid(format!(
                "table {}: the request has no key",
                table.name
            ))),
            (kind, key) => self.keyed(kind, table, key, data, entry),
        }
    }

    fn match_entry(
        &mut self,
        kind: Type,
        table: &Table,
        entry: &TableEntry,
        data: &TableData,
    ) -> Outcome {
        let found = MatchTable::new(table, self.switch)?;
        if entry.is_default_entry {
            return match kind {
                Type::Insert | Type::Modify | Type::InsertOrModify => {
                    found.set_default(self.switch, data)
                }
                Type::Delete | Type::Reset => self.switch.reset_default(found.id).map_err(core),
                _ => Err(invalid(
                    "this type of update is not allowed for a default entry",
                )),
            };
        }
        if table
            .attributes
            .iter()
            .any(|attribute| attribute == "ConstTable")
        {
            return Err(invalid(format!(
                "table {}: its entries are const in the program",
                table.name
            )));
        }
        let handle = match &entry.value {
            Some(Key::Key(key)) => {
                if kind == Type::Insert {
                    found.insert(self.switch, key, data, self.now)?;
                    return Ok(());
                }
                match found.find(self.switch, key) {
                    Ok(handle) => handle,
                    Err(status)
                        if kind == Type::InsertOrModify
                            && status.canonical_code() == Code::NotFound =>
                    {
                        found.insert(self.switch, key, data, self.now)?;
                        return Ok(());
                    }
                    Err(status) => return Err(status),
                }
            }
            Some(Key::HandleId(handle)) => found.with_handle(self.switch, *handle)?,
            None if matches!(kind, Type::Delete | Type::Reset) => {
                return self.switch.clear_table(found.id).map_err(core);
            }
            None if found.table.key.is_empty() => {
                return found.set_default(self.switch, data);
            }
            None => {
                return Err(invalid(format!(
                    "table {}: the request has no key",
                    table.name
                )))
            }
        };
        match kind {
            Type::Modify | Type::InsertOrModify | Type::ModifyInc => {
                found.modify(self.switch, handle, data, self.now)
            }
            Type::Delete => self.switch.delete_entry(found.id, handle).map_err(core),
            _ => Err(invalid("this type of update is not allowed for this entry")),
        }
    }

    /// Writes an entry of a table that is not a match-action table.
    fn keyed(
        &mut self,
        kind: Type,
        table: &Table,
        key: Option<&TableKey>,
        data: &TableData,
        entry: &TableEntry,
    ) -> Outcome {
        let (nothing, no_data) = (TableKey::default(), TableData::default());
        let named = key.unwrap_or(&nothing);
        let removes = entry
            .table_flags
            .as_ref()
            .is_some_and(|flags| flags.mod_del);
        let write = match (kind, removes) {
            (Type::Insert, _) => Write::Insert,
            (Type::ModifyInc, true) => Write::Remove,
            (Type::ModifyInc, false) => Write::Add,
            _ => Write::Modify,
        };
        let is_delete = kind == Type::Delete;
        let is_new = kind == Type::Insert;
        let program = self.program;
        let switch = &mut *self.switch;
        let pre = &mut self.device.pre;
        match table.table_type {
            TableType::Action => {
                let profile = Profile::new(program, table, switch)?;
                let id = profile.number(named)?;
                match is_delete {
                    true => profile.delete_member(switch, id),
                    false => profile.write_member(switch, id, data, is_new),
                }
            }
            TableType::Selector => {
                let profile = Profile::new(program, table, switch)?;
                let id = profile.number(named)?;
                match is_delete {
                    true => profile.delete_group(switch, id),
                    false => profile.write_group(switch, id, data, write),
                }
            }
            TableType::PreMgid if is_delete => pre.delete_group(switch, table, named),
            TableType::PreMgid => pre.write_group(switch, table, named, data, write),
            TableType::PreNode if is_delete => pre.delete_node(switch, table, named),
            TableType::PreNode => pre.write_node(switch, table, named, data, write),
            TableType::PreLag if is_delete => pre.delete_lag(switch, table, named),
            TableType::PreLag => pre.write_lag(switch, table, named, data, write),
            TableType::PrePrune => {
                let (data, write) = match is_delete {
                    true => (&no_data, Write::Modify),
                    false => (data, write),
                };
                pre.write_prune(switch, table, named, data, write)
            }
            TableType::MirrorCfg if is_delete => pre.delete_mirror(switch, table, named),
            TableType::MirrorCfg => pre.write_mirror(switch, table, named, data, is_new),
            _ if ports::is_of_ports(table) => {
                let own = &mut self.device.ports;
                match is_delete {
                    true => own.delete(table, key, self.ports)?,
                    false => own.write(table, named, data, self.ports, is_new)?,
                }
                self.switch.set_port_modes(self.device.ports.modes());
                Ok(())
            }
            _ if pktgen::is_of_generator(table) => {
                let generator = &mut self.device.generator;
                match is_delete {
                    true => generator.reset(table, key),
                    false => generator.write(table, named, data, self.now),
                }
            }
            TableType::ParserValueSet => self.value_set(table, named, is_delete),
            _ => {
                let array = Array::new(table);
                let index = array.index(key)?;
                match is_delete {
                    true => Err(invalid(format!(
                        "table {}: a cell cannot be deleted",
                        table.name
                    ))),
                    false => array.write(switch, index, data, self.now),
                }
            }
        }
    }

    /// Adds a value to a parser value set, or removes it. Only values with full masks are supported.
    fn value_set(&mut self, table: &Table, key: &TableKey, is_delete: bool) -> Outcome {
        let value = crate::read::set_value(table, key)?;
        let name = own_name(&table.name);
        let mut all = self.switch.value_set(name).map_err(core)?;
        let number = crate::values::number(&value);
        let at = all
            .iter()
            .position(|own| crate::values::number(own) == number);
        match (is_delete, at) {
            (true, Some(at)) => drop(all.remove(at)),
            (true, None) => return Err(not_found("the parser value set has no such value")),
            (false, Some(_)) => {
                return Err(crate::error::exists("the parser value set has this value"))
            }
            (false, None) => all.push(value),
        }
        self.switch.set_value_set(name, &all).map_err(core)
    }

    /// Deletes all entries of a table, or resets all cells.
    fn clear(&mut self, table: &Table) -> Outcome {
        let program = self.program;
        let switch = &mut *self.switch;
        let pre = &mut self.device.pre;
        let key_of = |id: u32| {
            let bits = table.key.first().and_then(|field| field.ty.bits());
            let bytes = crate::values::bytes_of(u64::from(id), bits.unwrap_or(32));
            crate::values::exact_key(device::KEY, bytes)
        };
        match table.table_type {
            TableType::Action => {
                let profile = Profile::new(program, table, switch)?;
                for id in profile.members(switch)? {
                    profile.delete_member(switch, id)?;
                }
                Ok(())
            }
            TableType::Selector => {
                let profile = Profile::new(program, table, switch)?;
                for id in profile.groups(switch)? {
                    profile.delete_group(switch, id)?;
                }
                Ok(())
            }
            TableType::PreMgid => {
                let ids = pre.group_ids().into_iter();
                let mut all = ids.map(|id| pre.delete_group(switch, table, &key_of(id)));
                all.try_for_each(|outcome| outcome)
            }
            TableType::PreNode => {
                let ids = pre.node_ids().into_iter();
                let mut all = ids.map(|id| pre.delete_node(switch, table, &key_of(id)));
                all.try_for_each(|outcome| outcome)
            }
            TableType::PreLag => {
                let ids = pre.lag_ids(switch)?.into_iter();
                let mut all = ids.map(|id| pre.delete_lag(switch, table, &key_of(id)));
                all.try_for_each(|outcome| outcome)
            }
            TableType::MirrorCfg => {
                let ids = pre.mirror_ids().into_iter();
                let mut all = ids.map(|id| pre.delete_mirror(switch, table, &key_of(id)));
                all.try_for_each(|outcome| outcome)
            }
            _ if ports::is_of_ports(table) => {
                self.device.ports.delete(table, None, self.ports)?;
                self.switch.set_port_modes(self.device.ports.modes());
                Ok(())
            }
            _ if pktgen::is_of_generator(table) => self.device.generator.reset(table, None),
            TableType::ParserValueSet => switch
                .set_value_set(own_name(&table.name), &[])
                .map_err(core),
            _ => Array::new(table).clear(switch, self.now),
        }
    }

    fn attribute(&mut self, attribute: &TableAttribute) -> Outcome {
        let id = attribute.table_id;
        let of_device = Arc::clone(&self.device.schema);
        let table = table_of(self.program, &of_device, id)?;
        let name = &table.name;
        let has = |wanted: &str| table.attributes.iter().any(|own| own == wanted);
        let Some(value) = &attribute.attribute else {
            return Err(invalid(format!("table {name}: the attribute has no value")));
        };
        let refused = |what: &str| {
            Err(invalid(format!(
                "table {name} does not support the attribute {what}"
            )))
        };
        let own: &mut Attributes = self.device.attributes.entry(id).or_default();
        match value {
            Attribute::EntryScope(scope) if has("EntryScope") => {
                own.entry_scope = Some(*scope);
                Ok(())
            }
            Attribute::EntryScope(_) => refused("EntryScope"),
            Attribute::IdleTable(idle) if has("IdleTimeout") => {
                own.idle_table = Some(*idle);
                Ok(())
            }
            Attribute::IdleTable(_) => refused("IdleTimeout"),
            Attribute::PortStatusNotify(status) if has("port_status_notif_cb") => {
                own.port_status = status.enable;
                Ok(())
            }
            Attribute::PortStatusNotify(_) => refused("port_status_notif_cb"),
            _ => Err(unsupported(format!(
                "table {name}: this switch does not support the attribute"
            ))),
        }
    }

    /// Executes an operation. State that the operations synchronise with the hardware is always current here.
    fn operation(&mut self, operation: &TableOperation) -> Outcome {
        let table = self.program.table(operation.table_id);
        let table = table
            .ok_or_else(|| not_found(format!("no table has the id {}", operation.table_id)))?;
        let wanted = &operation.table_operations_type;
        // Clients name the synchronisation of a counter or register in the same way in all tables.
        let is_supported = table
            .supported_operations
            .iter()
            .any(|own| own == wanted || (own == "Sync" && wanted.starts_with("Sync")));
        match is_supported {
            true => Ok(()),
            false => Err(invalid(format!(
                "table {} does not support the operation {wanted}",
                table.name
            ))),
        }
    }
}

/// The table of the switch for a table of the program; `None` for other tables.
pub(crate) fn table_id(switch: &Switch, table: &Table) -> Option<TableId> {
    switch.table(own_name(&table.name)).ok()
}
