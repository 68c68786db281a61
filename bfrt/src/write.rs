//! Write requests.

use std::sync::Arc;

use alfirk_bf_rt_json::{Table, TableType};
use alfirk_bmv2::{EntryHandle, Switch};
use alfirk_p4runtime::bfrt_proto::{
    entity::Entity as Kind, table_entry::Value as Key, update::Type, TableAttribute, TableData,
    TableEntry, TableKey, TableOperation, TargetDevice, Update,
};
use alfirk_p4runtime::Code;

use crate::arrays::Array;
use crate::attributes::Owner;
use crate::copies;
use crate::device;
use crate::error::{core, invalid, not_found, unsupported, Outcome};
use crate::match_table::MatchTable;
use crate::pktgen;
use crate::port_metadata::PortMetadata;
use crate::ports;
use crate::pre::Write;
use crate::profiles::Profile;
use crate::program::table_of;
use crate::scope::pipe_of;
use crate::value_sets::ValueSet;
use crate::values::{bytes_of, exact_key, requested_key};
use crate::{Device, Port, Program};

/// Operation of tables whose hit states are polled.
const UPDATE_HIT_STATE: &str = "UpdateHitState";

/// Everything that an update may change or need.
pub(crate) struct Target<'a> {
    pub switch: &'a mut Switch,
    pub program: &'a Program,
    pub device: &'a mut Device,
    pub ports: &'a [Port],
    pub now: u64,
    /// Target of the whole request.
    pub target: Option<&'a TargetDevice>,
}

/// Whether an update that fails has changed nothing: one of a match-action table, or of a cell of an array.
pub(crate) fn is_atomic(program: &Program, update: &Update) -> bool {
    let entity = update.entity.as_ref().and_then(|it| it.entity.as_ref());
    let Some(Kind::TableEntry(entry)) = entity else {
        return false;
    };
    let table = program.table(entry.table_id);
    table.is_some_and(|table| {
        let is_array = matches!(
            table.table_type,
            TableType::Counter | TableType::Meter | TableType::Register
        );
        is_array || table.table_type.is_match_action()
    })
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
        let scopes = self.device.scopes_of(table.id)?;
        scopes.check_write(pipe_of(entry.entry_tgt.as_ref(), self.target))?;
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
                    return self.insert(&found, key, data);
                }
                match found.find(self.switch, key) {
                    Ok(handle) => handle,
                    Err(status)
                        if kind == Type::InsertOrModify
                            && status.canonical_code() == Code::NotFound =>
                    {
                        return self.insert(&found, key, data);
                    }
                    Err(status) => return Err(status),
                }
            }
            Some(Key::HandleId(handle)) => found.with_handle(self.switch, *handle)?,
            None if matches!(kind, Type::Delete | Type::Reset) => {
                self.device.copies.clear(table.id);
                if let Some(ageing) = self.device.ageing.get_mut(&table.id) {
                    ageing.clear();
                }
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
                found.modify(self.switch, handle, data, self.now)?;
                if found.sets_time_to_live(data) {
                    let ageing = self.device.ageing.entry(table.id).or_default();
                    ageing.restart(handle, self.now);
                }
                if let Some(was_hit) = found.hit_state(data)? {
                    let ageing = self.device.ageing.entry(table.id).or_default();
                    ageing.set_hit(handle, was_hit, self.now);
                }
                self.copy_written(&found, handle, data)
            }
            Type::Delete => {
                self.device.copies.remove(table.id, u64::from(handle.0));
                if let Some(ageing) = self.device.ageing.get_mut(&table.id) {
                    ageing.remove(handle);
                }
                self.switch.delete_entry(found.id, handle).map_err(core)
            }
            _ => Err(invalid("this type of update is not allowed for this entry")),
        }
    }

    fn insert(&mut self, found: &MatchTable, key: &TableKey, data: &TableData) -> Outcome {
        let handle = found.insert(self.switch, key, data, self.now)?;
        if found.can_age() {
            let ageing = self.device.ageing.entry(found.table.id).or_default();
            ageing.restart(handle, self.now);
        }
        self.copy_written(found, handle, data)
    }

    /// Copies the counter and registers of an entry, if a request has written them.
    fn copy_written(
        &mut self,
        found: &MatchTable,
        handle: EntryHandle,
        written: &TableData,
    ) -> Outcome {
        match copies::has_volatile(found.table, written) {
            true => self.copy_entry(found, handle),
            false => Ok(()),
        }
    }

    fn copy_entry(&mut self, found: &MatchTable, handle: EntryHandle) -> Outcome {
        let entry = self.switch.entry(found.id, handle).map_err(core)?;
        let view = self.device.view(found.table.id, self.now, true);
        let (_, data) = found.describe(self.switch, &entry, &[], &view);
        let copies = &mut self.device.copies;
        copies.update(found.table, u64::from(handle.0), &data);
        Ok(())
    }

    fn copy_cell(&mut self, array: &Array, index: u64) -> Outcome {
        if copies::has_volatile_fields(array.table) {
            let (_, data) = array.read(self.switch, index, self.device.generation)?;
            self.device.copies.update(array.table, index, &data);
        }
        Ok(())
    }

    /// Copies the hit states of all entries to the driver, and clears them in the chip.
    fn update_hits(&mut self, table: &Table) -> Outcome {
        let found = MatchTable::new(table, self.switch)?;
        let ageing = self.device.ageing.entry(table.id).or_default();
        for handle in self.switch.entry_handles(found.id).map_err(core)? {
            let entry = self.switch.entry(found.id, handle).map_err(core)?;
            ageing.update_hit(&entry, self.now);
        }
        Ok(())
    }

    /// Copies all counters and registers of a table, as of now.
    fn copy_all(&mut self, table: &Table) -> Outcome {
        if !copies::has_volatile_fields(table) {
            return Ok(());
        }
        if table.table_type.is_match_action() {
            let found = MatchTable::new(table, self.switch)?;
            let handles = self.switch.entry_handles(found.id).map_err(core)?;
            let mut handles = handles.into_iter();
            return handles.try_for_each(|handle| self.copy_entry(&found, handle));
        }
        let array = Array::new(table);
        (0..array.size()).try_for_each(|index| self.copy_cell(&array, index))
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
            TableType::PreEcmp if is_delete => pre.delete_ecmp(switch, table, named),
            TableType::PreEcmp => pre.write_ecmp(switch, table, named, data, write),
            TableType::PrePort if !is_delete => pre.write_port(switch, table, named, data),
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
            TableType::ParserValueSet => ValueSet::new(table).write(switch, named, is_delete),
            TableType::PortMetadata if is_delete => PortMetadata::new(table).delete(switch, key),
            TableType::PortMetadata => PortMetadata::new(table).write(switch, named, data, is_new),
            _ => {
                let array = Array::new(table);
                let index = array.index(key)?;
                match is_delete {
                    true => Err(invalid(format!(
                        "table {}: a cell cannot be deleted",
                        table.name
                    ))),
                    false => {
                        array.write(switch, index, data, self.now)?;
                        self.copy_cell(&array, index)
                    }
                }
            }
        }
    }

    /// Deletes all entries of a table, or resets all cells.
    fn clear(&mut self, table: &Table) -> Outcome {
        let (program, switch, pre) = (self.program, &*self.switch, &self.device.pre);
        let ids = match table.table_type {
            TableType::Action => Profile::new(program, table, switch)?.members(switch)?,
            TableType::Selector => Profile::new(program, table, switch)?.groups(switch)?,
            TableType::PreMgid => pre.group_ids(),
            TableType::PreNode => pre.node_ids(),
            TableType::PreEcmp => pre.ecmp_ids(),
            TableType::PreLag => pre.lag_ids(switch)?,
            TableType::MirrorCfg => pre.mirror_ids(),
            TableType::PortMetadata => return self.delete(table, None),
            _ if ports::is_of_ports(table) || pktgen::is_of_generator(table) => {
                return self.delete(table, None)
            }
            TableType::ParserValueSet => return ValueSet::new(table).clear(self.switch),
            _ => {
                self.device.copies.clear(table.id);
                return Array::new(table).clear(self.switch, self.now);
            }
        };
        let field = table.key.first();
        let (field, bits) = field.map_or((device::KEY, 32), |field| {
            (field.id, field.ty.bits().unwrap_or(32))
        });
        ids.into_iter().try_for_each(|id| {
            let key = exact_key(field, bytes_of(u64::from(id), bits));
            self.delete(table, Some(&key))
        })
    }

    /// Deletes the entry with a key, of a table that is not a match-action table; without a key, all entries.
    fn delete(&mut self, table: &Table, key: Option<&TableKey>) -> Outcome {
        let (data, entry) = (TableData::default(), TableEntry::default());
        self.keyed(Type::Delete, table, key, &data, &entry)
    }

    fn attribute(&mut self, request: &TableAttribute) -> Outcome {
        let of_device = Arc::clone(&self.device.schema);
        let table = table_of(self.program, &of_device, request.table_id)?;
        let owner = Owner {
            table,
            is_of_device: self.program.table(table.id).is_none(),
            pipe: pipe_of(None, self.target),
        };
        owner.set(request, self.switch, self.device, self.now)
    }

    /// Executes an operation, which updates the driver's copies of counters and registers.
    fn operation(&mut self, operation: &TableOperation) -> Outcome {
        let program = self.program;
        let table = program.table(operation.table_id);
        let table = table
            .ok_or_else(|| not_found(format!("no table has the id {}", operation.table_id)))?;
        let wanted = &operation.table_operations_type;
        // Clients name the synchronisation of a counter or register in the same way in all tables.
        let is_supported = table
            .supported_operations
            .iter()
            .any(|own| own == wanted || (own == "Sync" && wanted.starts_with("Sync")));
        match is_supported {
            true if wanted == UPDATE_HIT_STATE => self.update_hits(table),
            true => self.copy_all(table),
            false => Err(invalid(format!(
                "table {} does not support the operation {wanted}",
                table.name
            ))),
        }
    }
}
