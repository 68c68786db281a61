//! Thrift requests that read table entries.

use alfirk_thrift::standard::*;

use super::{find_table, handle, TableResult};
use crate::thrift::{
    codes, keys,
    runtime::{Ports, Runtime},
};
use alfirk_bmv2::{EntryTarget, TableEntry, TableInfo};

/// Priority that is reported for an entry of a table without priorities.
const NO_PRIORITY: i32 = -1;

pub(super) fn action_entry(target: EntryTarget) -> BmActionEntry {
    match target {
        EntryTarget::Action { name, args } => BmActionEntry {
            action_type: BmActionEntryType::ActionData,
            action_name: Some(name),
            action_data: Some(args),
            ..Default::default()
        },
        EntryTarget::Member(member) => BmActionEntry {
            action_type: BmActionEntryType::MbrHandle,
            mbr_handle: Some(member as i32),
            ..Default::default()
        },
        EntryTarget::Group(group) => BmActionEntry {
            action_type: BmActionEntryType::GrpHandle,
            grp_handle: Some(group as i32),
            ..Default::default()
        },
    }
}

/// Converts a table entry to Thrift's form. `now`: time in nanoseconds, for the time since the entry's last hit.
pub(in super::super) fn entry_to_wire(table: &TableInfo, entry: TableEntry, now: u64) -> BmMtEntry {
    let ms = |ns: u64| i32::try_from(ns / 1_000_000).unwrap_or(i32::MAX);
    let life = (entry.idle_timeout > 0).then(|| BmMtEntryLife {
        timeout_ms: ms(entry.idle_timeout),
        time_since_hit_ms: ms(now.saturating_sub(entry.last_hit)),
    });
    let priority = match table.has_priorities {
        true => entry.priority,
        false => NO_PRIORITY,
    };
    BmMtEntry {
        match_key: keys::to_wire(table, &entry.key),
        options: BmAddEntryOptions {
            priority: Some(priority),
        },
        entry_handle: entry.handle.0 as i32,
        action_entry: action_entry(entry.target),
        life,
    }
}

impl<P: Ports> EntryCalls for Runtime<'_, P> {
    fn bm_mt_get_entries(&mut self, _: i32, table: String) -> TableResult<Vec<BmMtEntry>> {
        // As in BMv2, an unknown table has no entries.
        let Ok(table) = find_table(self.switch(), &table) else {
            return Ok(Vec::new());
        };
        let mut entries = self.switch().entries(table.id).map_err(codes::table)?;
        entries.sort_by_key(|entry| entry.handle.slot());
        let entries = entries.into_iter();
        Ok(entries
            .map(|e| entry_to_wire(&table.info, e, self.now))
            .collect())
    }

    fn bm_mt_get_entry(&mut self, _: i32, table: String, entry: i32) -> TableResult<BmMtEntry> {
        let Ok(table) = find_table(self.switch(), &table) else {
            return Ok(BmMtEntry::default());
        };
        let entry = self.switch().entry(table.id, handle(entry));
        Ok(entry_to_wire(
            &table.info,
            entry.map_err(codes::table)?,
            self.now,
        ))
    }

    fn bm_mt_get_default_entry(&mut self, _: i32, table: String) -> TableResult<BmActionEntry> {
        let Ok(table) = find_table(self.switch(), &table) else {
            return Ok(BmActionEntry::default());
        };
        let target = self.switch().default_entry(table.id);
        let target = target.map_err(codes::table)?;
        // The default action of an indirect table is not a member.
        let is_own =
            matches!(&target, Some(EntryTarget::Action { .. }) if table.info.profile.is_some());
        let target = target.filter(|_| !is_own);
        Ok(target.map_or_else(BmActionEntry::default, action_entry))
    }

    fn bm_mt_get_entry_from_key(
        &mut self,
        context: i32,
        table: String,
        match_key: Vec<BmMatchParam>,
        options: BmAddEntryOptions,
    ) -> TableResult<BmMtEntry> {
        if match_key.is_empty() {
            return Ok(BmMtEntry {
                action_entry: self.bm_mt_get_default_entry(context, table)?,
                ..BmMtEntry::default()
            });
        }
        let Ok(table) = find_table(self.switch(), &table) else {
            return Ok(BmMtEntry::default());
        };
        let key = keys::from_wire(&table.info, &match_key);
        let key = key.ok_or(TableOperationErrorCode::BadMatchKey)?;
        let priority = options.priority.unwrap_or(0);
        let switch = self.switch();
        let entry = switch
            .find_entry(table.id, &key, priority)
            .and_then(|entry| switch.entry(table.id, entry))
            .map_err(|_| TableOperationErrorCode::BadMatchKey)?;
        Ok(entry_to_wire(&table.info, entry, self.now))
    }
}
