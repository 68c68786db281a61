//! Control plane requests for tables: entries, default actions, direct counters and meters.

use super::error::unknown;
use super::{ActionId, Change, ManageError, ProfileId, RegisterInfo, TableId};
use crate::exec::words::param_words;
use crate::externs::counter::Counter;
use crate::externs::meter::MeterConfig;
use crate::numbers::{shortest, to_words};
use crate::program::{LoadedProgram, Table};
use crate::state::State;
use crate::switch::{Loaded, Switch};
use crate::tables::{
    ActionRef, EntryHandle, EntryTarget, KeyMatch, NewEntry, NewKey, TableEntry, TableState,
    Target, MAX_ENTRIES,
};
use alfirk_bmv2_json::{MatchType, TableType};

/// Properties of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// Full name of the table.
    pub name: String,
    /// Key fields; empty for a table without a key.
    pub keys: Vec<KeyInfo>,
    /// Actions that entries may have.
    pub actions: Vec<ActionId>,
    /// Maximum number of entries of the table.
    pub size: u64,
    /// Whether entries have priorities: a key field is ternary, range or optional.
    pub has_priorities: bool,
    /// Whether the control plane can neither add, change nor delete entries.
    pub const_entries: bool,
    /// Maximum priority of the program's entries, if their priorities are ranks counted from 1; else `None`.
    pub greatest_rank: Option<i32>,
    /// Whether the control plane cannot change the default action.
    pub const_default: bool,
    /// Whether entries hold actions, or refer to an action profile.
    pub kind: TableType,
    /// Action profile of an indirect table; `None` for a simple one.
    pub profile: Option<ProfileId>,
    /// Whether the table has a direct counter: one for each entry.
    pub direct_counter: bool,
    /// Whether the table has a direct meter: one for each entry.
    pub direct_meter: bool,
    /// The direct registers, which have a cell for each entry.
    pub direct_registers: Vec<RegisterInfo>,
    /// Whether entries may have an idle timeout.
    pub idle_timeout: bool,
}

/// Properties of a key field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// Name of the key field in BMv2 JSON.
    pub name: String,
    /// Width of the key field in bits; 1 for a header's validity.
    pub bits: u32,
    /// Match kind of the key field.
    pub match_type: MatchType,
}

/// Properties of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionInfo {
    /// Full name of the action.
    pub name: String,
    /// Parameters in declaration order.
    pub params: Vec<ParamInfo>,
}

/// Properties of an action parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamInfo {
    /// Name of the parameter in the P4 source.
    pub name: String,
    /// Width of the parameter in bits.
    pub bits: u32,
}

type Result<T> = std::result::Result<T, ManageError>;

impl Switch {
    /// Returns the loaded program and its state; an error if no program is loaded.
    pub(super) fn parts(&self) -> Result<(&LoadedProgram, &State)> {
        let Loaded { program, state } = self.loaded.as_ref().ok_or(ManageError::NoProgram)?;
        Ok((program, state))
    }

    /// Returns the loaded program and its mutable state; an error if no program is loaded.
    pub(super) fn parts_mut(&mut self) -> Result<(&LoadedProgram, &mut State)> {
        let Loaded { program, state } = self.loaded.as_mut().ok_or(ManageError::NoProgram)?;
        Ok((program, state))
    }

    /// Returns all tables of the program, including hidden ones of the compiler.
    pub fn tables(&self) -> Vec<TableId> {
        let count = self.parts().map_or(0, |(program, _)| program.tables.len());
        (0..count as u16).map(TableId).collect()
    }

    /// Finds a table by its full name.
    ///
    /// # Errors
    /// When the program has none of that name.
    pub fn table(&self, name: &str) -> Result<TableId> {
        let (program, _) = self.parts()?;
        program.table(name).ok_or_else(|| unknown("table", name))
    }

    /// Finds an action by its full name.
    ///
    /// # Errors
    /// When the program has none of that name.
    pub fn action(&self, name: &str) -> Result<ActionId> {
        let (program, _) = self.parts()?;
        program.action(name).ok_or_else(|| unknown("action", name))
    }

    /// Describes a table.
    ///
    /// # Errors
    /// When the number is from another program.
    pub fn table_info(&self, table: TableId) -> Result<TableInfo> {
        let (program, _) = self.parts()?;
        program
            .table_info(table)
            .ok_or_else(|| unknown("table", &table.0.to_string()))
    }

    /// Describes an action.
    ///
    /// # Errors
    /// When the number is from another program.
    pub fn action_info(&self, action: ActionId) -> Result<ActionInfo> {
        let (program, _) = self.parts()?;
        program
            .action_info(action)
            .ok_or_else(|| unknown("action", &action.0.to_string()))
    }

    /// Adds an entry and returns its handle.
    ///
    /// `priority` is used only in tables with priorities; the smallest number wins. `idle_timeout` is in
    /// nanoseconds, 0 for none. `now` is in nanoseconds since the switch started.
    ///
    /// # Errors
    /// See [`ManageError`].
    pub fn insert_entry(
        &mut self,
        table: TableId,
        key: &[KeyMatch],
        priority: i32,
        target: &EntryTarget,
        idle_timeout: u64,
        now: u64,
    ) -> Result<EntryHandle> {
        let (program, state) = self.parts_mut()?;
        let t = table_of(program, table)?;
        let entries = &state.tables[usize::from(table.0)];
        check_changeable(t, entries)?;
        if t.keys.is_empty() {
            return Err(ManageError::NoKey {
                table: t.name.clone(),
            });
        }
        let keys = entries.masked(check_key(t, key)?);
        let target = check_target(program, state, t, target, Table::next_on_hit)?;
        let priority = if t.has_priorities() { priority } else { 0 };
        let entries = &state.tables[usize::from(table.0)];
        if entries.find_same(t, &keys, priority).is_some() {
            return Err(ManageError::EntryExists {
                table: t.name.clone(),
            });
        }
        if entries.len() as u64 >= t.max_size.min(MAX_ENTRIES) {
            return Err(ManageError::TableFull {
                table: t.name.clone(),
                size: t.max_size,
            });
        }
        if let Some(profile) = t.profile {
            state.count_use(usize::from(profile), &target, 1);
        }
        let entry = NewEntry {
            keys,
            priority,
            target,
            idle_timeout,
        };
        let handle = state.tables[usize::from(table.0)].insert(t, entry, false, now);
        for cells in &t.direct_registers {
            let array = usize::from(cells.array);
            state.registers[array].write(handle.slot().into(), &program.registers[array].initial);
        }
        Ok(handle)
    }

    /// Sets the bits of each key field that a table compares: Tofino's dynamic key mask. Masks are big-endian bytes, one for
    /// each key field. Of entries and keys of requests, the other bits are ignored, too.
    ///
    /// # Errors
    /// When the table has entries, has a key field that is not exact, or the masks do not fit its key.
    pub fn set_key_mask(&mut self, table: TableId, masks: &[Vec<u8>]) -> Result<()> {
        let (program, state) = self.parts_mut()?;
        let t = table_of(program, table)?;
        if t.match_type != MatchType::Exact {
            return Err(no_resource(t, "dynamic key mask"));
        }
        let exact = |value: &Vec<u8>| KeyMatch::Exact {
            value: value.clone(),
        };
        let masks: Vec<KeyMatch> = masks.iter().map(exact).collect();
        let masks = check_key(t, &masks)?.into_iter().map(|key| key.value);
        let entries = &mut state.tables[usize::from(table.0)];
        if entries.len() > 0 {
            return Err(ManageError::NotEmpty {
                table: t.name.clone(),
            });
        }
        entries.set_masks(masks.collect());
        Ok(())
    }

    /// Returns the mask of each key field that [`Switch::set_key_mask`] has set, in the form that it takes; `None` if
    /// all bits are compared.
    ///
    /// # Errors
    /// When there is no such table.
    pub fn key_mask(&self, table: TableId) -> Result<Option<Vec<Vec<u8>>>> {
        let (program, state) = self.parts()?;
        table_of(program, table)?;
        let masks = state.tables[usize::from(table.0)].masks();
        Ok(masks.map(|masks| masks.iter().map(|mask| shortest(mask)).collect()))
    }

    /// Checks that an entry of the table may have this target.
    ///
    /// # Errors
    /// When the table does not allow it.
    pub fn check_entry_target(&self, table: TableId, target: &EntryTarget) -> Result<()> {
        let (program, state) = self.parts()?;
        let t = table_of(program, table)?;
        check_target(program, state, t, target, Table::next_on_hit).map(|_| ())
    }

    /// Finds an entry by its key and, if the table has priorities, its priority.
    ///
    /// # Errors
    /// When the key is malformed, or there is no such entry.
    pub fn find_entry(
        &self,
        table: TableId,
        key: &[KeyMatch],
        priority: i32,
    ) -> Result<EntryHandle> {
        let (program, state) = self.parts()?;
        let t = table_of(program, table)?;
        let entries = &state.tables[usize::from(table.0)];
        let keys = entries.masked(check_key(t, key)?);
        let priority = if t.has_priorities() { priority } else { 0 };
        entries
            .find_same(t, &keys, priority)
            .ok_or_else(|| ManageError::NoEntry {
                table: t.name.clone(),
            })
    }

    /// Changes the target of an entry. Counters are kept, the idle time restarts.
    ///
    /// # Errors
    /// See [`ManageError`].
    pub fn modify_entry(
        &mut self,
        table: TableId,
        entry: EntryHandle,
        target: &EntryTarget,
    ) -> Result<()> {
        let (program, state) = self.parts_mut()?;
        let t = table_of(program, table)?;
        check_entry_changeable(t, &state.tables[usize::from(table.0)], entry)?;
        let target = check_target(program, state, t, target, Table::next_on_hit)?;
        let entries = &mut state.tables[usize::from(table.0)];
        let Some(old) = entries.modify(entry, target.clone()) else {
            return Err(no_entry(t, entries, entry));
        };
        if let Some(profile) = t.profile.map(usize::from) {
            state.count_use(profile, &target, 1);
            state.count_use(profile, &old, -1);
        }
        state.changes.record(|| Change::Entry { table, entry });
        Ok(())
    }

    /// Sets the idle timeout of an entry in nanoseconds, starting at `now`; 0 for none.
    ///
    /// # Errors
    /// When the table does not support it, or there is no such entry.
    pub fn set_idle_timeout(
        &mut self,
        table: TableId,
        entry: EntryHandle,
        timeout: u64,
        now: u64,
    ) -> Result<()> {
        let (program, state) = self.parts_mut()?;
        let t = table_of(program, table)?;
        if !t.support_timeout {
            return Err(no_resource(t, "idle timeouts"));
        }
        let entries = &mut state.tables[usize::from(table.0)];
        let set = entries.set_idle_timeout(entry, timeout, now);
        set.ok_or_else(|| no_entry(t, entries, entry))?;
        state.changes.record(|| Change::IdleTimeout);
        Ok(())
    }

    /// Returns the entries that had no hit for their idle timeout, and the earliest time at which there can be
    /// more, in nanoseconds. An entry is reported again after every further timeout.
    pub fn idle_entries(&mut self, now: u64) -> (Vec<(TableId, EntryHandle)>, Option<u64>) {
        let Ok((program, state)) = self.parts_mut() else {
            return (Vec::new(), None);
        };
        let (mut idle, mut next) = (Vec::new(), None::<u64>);
        for (i, (t, entries)) in program.tables.iter().zip(&mut state.tables).enumerate() {
            if t.support_timeout {
                let (found, due) = entries.idle(now);
                idle.extend(found.into_iter().map(|entry| (TableId(i as u16), entry)));
                next = next.into_iter().chain(due).min();
            }
        }
        (idle, next)
    }

    /// Returns whether an entry is const, so that only its counter and meter can be changed.
    ///
    /// # Errors
    /// When there is no such entry.
    pub fn is_const_entry(&self, table: TableId, entry: EntryHandle) -> Result<bool> {
        let (program, state) = self.parts()?;
        let t = table_of(program, table)?;
        let entries = &state.tables[usize::from(table.0)];
        let is_const = entries.is_const(entry);
        is_const.ok_or_else(|| no_entry(t, entries, entry))
    }

    /// Makes the program's entries of a table mutable, and allows the control plane to add others.
    ///
    /// BMv2's own format cannot express that entries are not const, so the loader takes them as const. Priorities,
    /// which are ranks in that format, become 2^31 - 1 minus the rank from the end.
    ///
    /// # Errors
    /// When the number is from another program.
    pub fn release_initial_entries(&mut self, table: TableId) -> Result<()> {
        let (program, state) = self.parts_mut()?;
        let t = table_of(program, table)?;
        let entries = &mut state.tables[usize::from(table.0)];
        entries.clear();
        entries.is_fixed = false;
        for (entry, is_const) in initial_entries(t, entries) {
            entries.insert(t, entry, is_const, 0);
        }
        Ok(())
    }

    /// Returns keys and priorities of the program's mutable entries that the control plane has deleted.
    ///
    /// # Errors
    /// When the number is from another program.
    pub fn deleted_initial_entries(&self, table: TableId) -> Result<Vec<(Vec<KeyMatch>, i32)>> {
        let (program, state) = self.parts()?;
        let t = table_of(program, table)?;
        let entries = &state.tables[usize::from(table.0)];
        let initial = initial_entries(t, entries);
        let deleted = initial.iter().filter(|(entry, is_const)| {
            let same = || entries.find_same(t, &entry.keys, entry.priority);
            !is_const && same().is_none()
        });
        let shown = deleted.map(|(entry, _)| {
            let keys = entry.keys.iter().zip(&t.keys);
            let keys = keys.map(|(key, info)| key.to_match(info));
            (keys.collect(), entry.priority)
        });
        Ok(shown.collect())
    }

    /// Removes an entry.
    ///
    /// # Errors
    /// When the table or the entry is const, or there is no such entry.
    pub fn delete_entry(&mut self, table: TableId, entry: EntryHandle) -> Result<()> {
        let (program, state) = self.parts_mut()?;
        let t = table_of(program, table)?;
        check_entry_changeable(t, &state.tables[usize::from(table.0)], entry)?;
        let entries = &mut state.tables[usize::from(table.0)];
        let Some(old) = entries.remove(t, entry) else {
            return Err(no_entry(t, entries, entry));
        };
        if let Some(profile) = t.profile {
            state.count_use(usize::from(profile), &old, -1);
        }
        state.changes.record(|| Change::Entry { table, entry });
        Ok(())
    }

    /// Removes all entries that are not const.
    ///
    /// # Errors
    /// When the table is const.
    pub fn clear_table(&mut self, table: TableId) -> Result<()> {
        let (program, state) = self.parts()?;
        let entries = &state.tables[usize::from(table.0)];
        check_changeable(table_of(program, table)?, entries)?;
        for entry in entries.handles() {
            if !self.is_const_entry(table, entry)? {
                self.delete_entry(table, entry)?;
            }
        }
        Ok(())
    }

    /// Removes all entries, including const ones, and restarts the handles, as BMv2 does when a table's state is reset.
    ///
    /// # Errors
    /// When the number is from another program.
    pub fn reset_table(&mut self, table: TableId) -> Result<()> {
        let (program, state) = self.parts_mut()?;
        let t = table_of(program, table)?;
        let entries = &mut state.tables[usize::from(table.0)];
        for entry in entries.handles() {
            state.changes.record(|| Change::Entry { table, entry });
        }
        let old = entries.clear();
        if let Some(profile) = t.profile.map(usize::from) {
            for target in &old {
                state.count_use(profile, target, -1);
            }
        }
        Ok(())
    }

    /// Returns an entry.
    ///
    /// # Errors
    /// When there is no such entry.
    pub fn entry(&self, table: TableId, entry: EntryHandle) -> Result<TableEntry> {
        let (program, state) = self.parts()?;
        let t = table_of(program, table)?;
        let entries = &state.tables[usize::from(table.0)];
        let found = entries.entry(program, t, entry);
        found.ok_or_else(|| no_entry(t, entries, entry))
    }

    /// Returns the number of entries of a table.
    ///
    /// # Errors
    /// When the number is from another program.
    pub fn entry_count(&self, table: TableId) -> Result<usize> {
        let (program, state) = self.parts()?;
        table_of(program, table)?;
        Ok(state.tables[usize::from(table.0)].len())
    }

    /// Returns the handles of all entries of a table, oldest first.
    ///
    /// # Errors
    /// When the number is from another program.
    pub fn entry_handles(&self, table: TableId) -> Result<Vec<EntryHandle>> {
        let (program, state) = self.parts()?;
        table_of(program, table)?;
        Ok(state.tables[usize::from(table.0)].handles())
    }

    /// Returns all entries of a table, oldest first.
    ///
    /// # Errors
    /// When the number is from another program.
    pub fn entries(&self, table: TableId) -> Result<Vec<TableEntry>> {
        let (program, state) = self.parts()?;
        let t = table_of(program, table)?;
        let entries = &state.tables[usize::from(table.0)];
        Ok(entries
            .handles()
            .into_iter()
            .filter_map(|h| entries.entry(program, t, h))
            .collect())
    }

    /// Sets the default action, which runs on a miss.
    ///
    /// # Errors
    /// When it is const, or the target is invalid for the table.
    pub fn set_default(&mut self, table: TableId, target: &EntryTarget) -> Result<()> {
        let (program, state) = self.parts_mut()?;
        let t = table_of(program, table)?;
        let new = check_target(program, state, t, target, Table::next_on_miss)?;
        if let Some(fixed) = &t.default {
            let other = !matches!(&new, Target::Action(a) if a.action == fixed.action);
            if fixed.entry_const || fixed.action_const && other {
                return Err(ManageError::ConstDefault {
                    table: t.name.clone(),
                });
            }
        }
        self.replace_default(table, Some(new))
    }

    /// Restores the default action that the program defines.
    ///
    /// # Errors
    /// When the number is from another program.
    pub fn reset_default(&mut self, table: TableId) -> Result<()> {
        self.replace_default(table, None)
    }

    fn replace_default(&mut self, table: TableId, new: Option<Target>) -> Result<()> {
        let (program, state) = self.parts_mut()?;
        let t = table_of(program, table)?;
        let at = usize::from(table.0);
        let is_restored = new.is_none();
        let (direct, indirect) = match new {
            Some(Target::Action(action)) => (Some(action), None),
            Some(other) => (None, Some(other)),
            None => (t.initial_default(program), None),
        };
        let default_target = indirect.clone().map(Box::new);
        let old = std::mem::replace(&mut state.tables[at].default_target, default_target);
        state.tables[at].default = direct;
        if let Some(profile) = t.profile.map(usize::from) {
            if let Some(new) = indirect {
                state.count_use(profile, &new, 1);
            }
            if let Some(old) = old {
                state.count_use(profile, &old, -1);
            }
        }
        state
            .changes
            .record(|| Change::Default { table, is_restored });
        Ok(())
    }

    /// Returns the default action; `None` when a miss runs no action.
    ///
    /// # Errors
    /// When the number is from another program.
    pub fn default_entry(&self, table: TableId) -> Result<Option<EntryTarget>> {
        let (program, state) = self.parts()?;
        table_of(program, table)?;
        let entries = &state.tables[usize::from(table.0)];
        let direct = entries.default.clone().map(Target::Action);
        Ok(direct
            .as_ref()
            .or(entries.default_target.as_deref())
            .map(|t| t.to_entry_target(program)))
    }

    /// Sets an entry's direct counter.
    ///
    /// # Errors
    /// When the table has no direct counter, or there is no such entry.
    pub fn set_direct_counter(
        &mut self,
        table: TableId,
        entry: EntryHandle,
        value: Counter,
    ) -> Result<()> {
        let (program, state) = self.parts_mut()?;
        let t = table_of(program, table)?;
        if !t.with_counters {
            return Err(no_resource(t, "direct counter"));
        }
        let entries = &mut state.tables[usize::from(table.0)];
        match entries.counter_mut(entry) {
            Some(counter) => *counter = value,
            None => return Err(no_entry(t, entries, entry)),
        }
        Ok(())
    }

    /// Sets the direct counters of all entries to zero.
    ///
    /// # Errors
    /// When the table has no direct counter.
    pub fn clear_direct_counters(&mut self, table: TableId) -> Result<()> {
        let (program, state) = self.parts_mut()?;
        let t = table_of(program, table)?;
        if !t.with_counters {
            return Err(no_resource(t, "direct counter"));
        }
        state.tables[usize::from(table.0)].clear_counters();
        Ok(())
    }

    /// Sets the rates of an entry's direct meter, or removes them.
    ///
    /// # Errors
    /// When the table has no direct meter, there is no such entry, or the rates contradict each other.
    pub fn set_direct_meter(
        &mut self,
        table: TableId,
        entry: EntryHandle,
        config: Option<MeterConfig>,
        now: u64,
    ) -> Result<()> {
        let (program, state) = self.parts_mut()?;
        let t = table_of(program, table)?;
        if t.direct_meter.is_none() {
            return Err(no_resource(t, "direct meter"));
        }
        super::objects::check_rates(&t.name, config)?;
        let entries = &mut state.tables[usize::from(table.0)];
        match entries.meter_mut(entry) {
            Some(meter) => meter.configure(config, now / 1000),
            None => return Err(no_entry(t, entries, entry)),
        }
        Ok(())
    }

    /// Sets the number of bytes that a table's direct meter adds to the length of each packet.
    ///
    /// # Errors
    /// When the table has no direct meter.
    pub fn adjust_direct_meter(&mut self, table: TableId, bytes: i32) -> Result<()> {
        let (program, state) = self.parts_mut()?;
        let t = table_of(program, table)?;
        if t.direct_meter.is_none() {
            return Err(no_resource(t, "direct meter"));
        }
        state.tables[usize::from(table.0)].adjust_meter(bytes);
        Ok(())
    }
}

fn no_resource(table: &Table, what: &'static str) -> ManageError {
    ManageError::NoSuchResource {
        table: table.name.clone(),
        what,
    }
}

/// Returns the program's own entries of a table, and whether each is const. In a table released by
/// [`Switch::release_initial_entries`] they are not const, and have priorities as P4Runtime's entries do.
fn initial_entries(table: &Table, entries: &TableState) -> Vec<(NewEntry, bool)> {
    let released = table.const_entries && !entries.is_fixed;
    let ranks = table.entries.iter().map(|initial| initial.entry.priority);
    let before_first = i32::MAX - ranks.max().unwrap_or(0).clamp(0, i32::MAX - 1) - 1;
    let initial = table.entries.iter().map(|initial| {
        let mut entry = initial.entry.clone();
        if released && table.ranked && table.has_priorities() {
            entry.priority = before_first.saturating_add(entry.priority);
        }
        (entry, initial.is_const && !released)
    });
    initial.collect()
}

fn no_entry(table: &Table, entries: &TableState, handle: EntryHandle) -> ManageError {
    let table = table.name.clone();
    match entries.is_stale(handle) {
        true => ManageError::StaleEntry { table },
        false => ManageError::NoEntry { table },
    }
}

fn table_of(program: &LoadedProgram, table: TableId) -> Result<&Table> {
    program
        .tables
        .get(usize::from(table.0))
        .ok_or_else(|| unknown("table", &table.0.to_string()))
}

fn check_changeable(table: &Table, entries: &TableState) -> Result<()> {
    match entries.is_fixed {
        true => Err(ManageError::ConstEntries {
            table: table.name.clone(),
        }),
        false => Ok(()),
    }
}

/// Checks that an entry may be changed because it is not const. A handle without an entry passes.
fn check_entry_changeable(table: &Table, entries: &TableState, entry: EntryHandle) -> Result<()> {
    check_changeable(table, entries)?;
    match entries.is_const(entry) {
        Some(true) => Err(ManageError::ConstEntry {
            table: table.name.clone(),
        }),
        _ => Ok(()),
    }
}

fn check_key(table: &Table, key: &[KeyMatch]) -> Result<Vec<NewKey>> {
    if key.len() != table.keys.len() {
        let (expected, got) = (table.keys.len(), key.len());
        return Err(ManageError::KeyCount {
            table: table.name.clone(),
            expected,
            got,
        });
    }
    let check = |(info, value): (&crate::program::Key, &KeyMatch)| {
        NewKey::new(info, value).map_err(|fault| ManageError::Key {
            table: table.name.clone(),
            key: info.name.clone(),
            fault,
        })
    };
    table.keys.iter().zip(key).map(check).collect()
}

fn check_target(
    program: &LoadedProgram,
    state: &State,
    table: &Table,
    target: &EntryTarget,
    next: fn(&Table, u16) -> Option<u32>,
) -> Result<Target> {
    let wrong = |expected| {
        Err(ManageError::WrongTarget {
            table: table.name.clone(),
            expected,
        })
    };
    let profile = table.profile.map(usize::from);
    match (target, profile) {
        (EntryTarget::Action { name, args }, None) => {
            // Several actions may have the same name, since p4c copies actions per use; the table determines the action.
            let named = |a: &&(u16, u32)| program.actions[usize::from(a.0)].name == *name;
            let Some((action, _)) = table.actions.iter().find(named) else {
                let (table, action) = (table.name.clone(), name.clone());
                return Err(ManageError::ActionNotInTable { table, action });
            };
            let mut action = check_action(program, *action, args)?;
            action.next = next(table, action.action).unwrap_or(table.after_miss);
            Ok(Target::Action(action))
        }
        (EntryTarget::Action { .. }, Some(_)) => wrong("a member or group of its action profile"),
        (_, None) => wrong("an action"),
        (EntryTarget::Member(id), Some(profile)) => {
            if !state.profiles[profile].members.contains_key(id) {
                let profile = program.profiles[profile].name.clone();
                return Err(ManageError::NoMember { profile, id: *id });
            }
            Ok(Target::Member(*id))
        }
        (EntryTarget::Group(id), Some(profile)) => {
            if table.kind != TableType::IndirectWs {
                return wrong("a member of its action profile");
            }
            if !state.profiles[profile].groups.contains_key(id) {
                let profile = program.profiles[profile].name.clone();
                return Err(ManageError::NoGroup { profile, id: *id });
            }
            Ok(Target::Group(*id))
        }
    }
}

/// Checks an action and its arguments, and converts them to the form that tables store. The result's `next` is not set.
pub(super) fn check_action(
    program: &LoadedProgram,
    action: u16,
    args: &[Vec<u8>],
) -> Result<ActionRef> {
    let a = &program.actions[usize::from(action)];
    if args.len() != a.params.len() {
        let (expected, got) = (a.params.len(), args.len());
        return Err(ManageError::ArgCount {
            action: a.name.clone(),
            expected,
            got,
        });
    }
    let mut words = smallvec::SmallVec::new();
    for (param, arg) in a.params.iter().zip(args) {
        let value = to_words(arg, param.bits).ok_or_else(|| ManageError::ArgTooWide {
            action: a.name.clone(),
            param: param.name.clone(),
            bits: param.bits,
        })?;
        debug_assert_eq!(value.len(), param_words(param.bits));
        words.extend_from_slice(&value);
    }
    Ok(ActionRef {
        action,
        code: a.code,
        next: 0,
        args: words,
    })
}
