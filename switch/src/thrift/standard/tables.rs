//! Thrift requests for tables whose entries have actions.

use alfirk_thrift::standard::*;

use super::{find_table, handle, of_kind, TableRef, TableResult, DIRECT};
use crate::thrift::{
    codes, keys,
    runtime::{Ports, Runtime},
};
use alfirk_bmv2::{EntryTarget, ManageError};

/// Valid priorities of requests. A priority p corresponds to the P4Runtime priority 2^31 - 1 - p, which must be at
/// least 1.
const PRIORITIES: std::ops::RangeInclusive<i32> = 0..=i32::MAX - 1;

impl<P: Ports> Runtime<'_, P> {
    pub(super) fn insert(
        &mut self,
        table: &TableRef,
        key: &[BmMatchParam],
        options: &BmAddEntryOptions,
        target: &EntryTarget,
    ) -> TableResult<i32> {
        let now = self.now;
        let mut switch = self.switch_mut();
        if table.info.const_entries {
            return Err(TableOperationErrorCode::ImmutableTableEntries.into());
        }
        switch
            .check_entry_target(table.id, target)
            .map_err(codes::table)?;
        if table.info.keys.is_empty() {
            return Err(TableOperationErrorCode::NoTableKey.into());
        }
        let Some(key) = keys::from_wire(&table.info, key) else {
            return Err(TableOperationErrorCode::BadMatchKey.into());
        };
        let priority = options.priority.unwrap_or(0);
        if table.info.has_priorities && !PRIORITIES.contains(&priority) {
            tracing::error!(
                "table {}: priority {priority} is not from 0 to {}",
                table.info.name,
                PRIORITIES.end()
            );
            return Err(TableOperationErrorCode::Error.into());
        }
        let entry = switch.insert_entry(table.id, &key, priority, target, 0, now);
        Ok(entry.map_err(codes::table)?.0 as i32)
    }

    pub(super) fn modify(
        &mut self,
        table: &TableRef,
        entry: i32,
        target: &EntryTarget,
    ) -> TableResult<()> {
        let mut switch = self.switch_mut();
        let modified = switch.modify_entry(table.id, handle(entry), target);
        modified.map_err(codes::table)?;
        Ok(())
    }

    pub(super) fn set_default(
        &mut self,
        table: &TableRef,
        target: &EntryTarget,
    ) -> TableResult<()> {
        let result = self.switch_mut().set_default(table.id, target);
        result.map_err(|error| match error {
            ManageError::ConstDefault { .. } if !table.info.const_default => {
                TableOperationErrorCode::DefaultActionIsConst.into()
            }
            error => codes::table(error),
        })?;
        Ok(())
    }

    pub(super) fn reset_default(&mut self, table: &TableRef) -> TableResult<()> {
        let mut switch = self.switch_mut();
        switch.reset_default(table.id).map_err(codes::table)?;
        Ok(())
    }

    pub(super) fn delete(&mut self, table: &TableRef, entry: i32) -> TableResult<()> {
        let mut switch = self.switch_mut();
        let deleted = switch.delete_entry(table.id, handle(entry));
        deleted.map_err(codes::table)?;
        Ok(())
    }

    pub(super) fn set_ttl(&mut self, table: &str, entry: i32, timeout_ms: i32) -> TableResult<()> {
        let now = self.now;
        let table = find_table(self.switch(), table)?;
        let timeout = u64::from(timeout_ms as u32) * 1_000_000;
        let mut switch = self.switch_mut();
        let set = switch.set_idle_timeout(table.id, handle(entry), timeout, now);
        set.map_err(codes::table)?;
        Ok(())
    }
}

impl<P: Ports> TableCalls for Runtime<'_, P> {
    fn bm_mt_get_num_entries(&mut self, _: i32, table: String) -> TableResult<i64> {
        let id = self.switch().table(&table).map_err(codes::table)?;
        let count = self.switch().entry_count(id).map_err(codes::table)?;
        Ok(i64::try_from(count).unwrap_or(i64::MAX))
    }

    fn bm_mt_clear_entries(
        &mut self,
        _: i32,
        table: String,
        reset_default_entry: bool,
    ) -> TableResult<()> {
        let table = find_table(self.switch(), &table)?;
        let cleared = self.switch_mut().reset_table(table.id);
        cleared.map_err(codes::table)?;
        match reset_default_entry {
            true => self.reset_default(&table),
            false => Ok(()),
        }
    }

    fn bm_mt_add_entry(
        &mut self,
        _: i32,
        table: String,
        match_key: Vec<BmMatchParam>,
        name: String,
        args: Vec<Vec<u8>>,
        options: BmAddEntryOptions,
    ) -> TableResult<i32> {
        let table = of_kind(self.switch(), &table, DIRECT)?;
        let target = EntryTarget::Action { name, args };
        self.insert(&table, &match_key, &options, &target)
    }

    fn bm_mt_set_default_action(
        &mut self,
        _: i32,
        table: String,
        name: String,
        args: Vec<Vec<u8>>,
    ) -> TableResult<()> {
        let table = of_kind(self.switch(), &table, DIRECT)?;
        self.set_default(&table, &EntryTarget::Action { name, args })
    }

    fn bm_mt_reset_default_entry(&mut self, _: i32, table: String) -> TableResult<()> {
        let table = of_kind(self.switch(), &table, DIRECT)?;
        self.reset_default(&table)
    }

    fn bm_mt_delete_entry(&mut self, _: i32, table: String, entry: i32) -> TableResult<()> {
        let table = of_kind(self.switch(), &table, DIRECT)?;
        self.delete(&table, entry)
    }

    fn bm_mt_modify_entry(
        &mut self,
        _: i32,
        table: String,
        entry: i32,
        name: String,
        args: Vec<Vec<u8>>,
    ) -> TableResult<()> {
        let table = of_kind(self.switch(), &table, DIRECT)?;
        self.modify(&table, entry, &EntryTarget::Action { name, args })
    }

    fn bm_mt_set_entry_ttl(
        &mut self,
        _: i32,
        table: String,
        entry: i32,
        ms: i32,
    ) -> TableResult<()> {
        self.set_ttl(&table, entry, ms)
    }
}
