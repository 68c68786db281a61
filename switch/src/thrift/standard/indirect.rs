//! Thrift requests about tables whose entries refer to members or groups of an action profile.

use alfirk_thrift::standard::*;

use super::{id, of_kind, TableRef, TableResult, INDIRECT, WITH_SELECTOR};
use crate::thrift::{
    codes,
    runtime::{Ports, Runtime},
};
use alfirk_bmv2::EntryTarget;

impl<P: Ports> Runtime<'_, P> {
    /// Fails if a group has no members; an entry must not refer to such a group.
    pub(super) fn check_filled(&self, table: &TableRef, group: i32) -> TableResult<()> {
        let Some(profile) = table.info.profile else {
            return Err(TableOperationErrorCode::Error.into());
        };
        let group = self.switch().group(profile, id(group));
        match group.map_err(codes::table)?.members.is_empty() {
            true => Err(TableOperationErrorCode::EmptyGrp.into()),
            false => Ok(()),
        }
    }
}

impl<P: Ports> IndirectTableCalls for Runtime<'_, P> {
    fn bm_mt_indirect_add_entry(
        &mut self,
        _: i32,
        table: String,
        match_key: Vec<BmMatchParam>,
        member: i32,
        options: BmAddEntryOptions,
    ) -> TableResult<i32> {
        let table = of_kind(self.switch(), &table, INDIRECT)?;
        let target = EntryTarget::Member(id(member));
        self.insert(&table, &match_key, &options, &target)
    }

    fn bm_mt_indirect_modify_entry(
        &mut self,
        _: i32,
        table: String,
        entry: i32,
        member: i32,
    ) -> TableResult<()> {
        let table = of_kind(self.switch(), &table, INDIRECT)?;
        self.modify(&table, entry, &EntryTarget::Member(id(member)))
    }

    fn bm_mt_indirect_delete_entry(
        &mut self,
        _: i32,
        table: String,
        entry: i32,
    ) -> TableResult<()> {
        let table = of_kind(self.switch(), &table, INDIRECT)?;
        self.delete(&table, entry)
    }

    fn bm_mt_indirect_set_entry_ttl(
        &mut self,
        _: i32,
        table: String,
        entry: i32,
        ms: i32,
    ) -> TableResult<()> {
        self.set_ttl(&table, entry, ms)
    }

    fn bm_mt_indirect_set_default_member(
        &mut self,
        _: i32,
        table: String,
        member: i32,
    ) -> TableResult<()> {
        let table = of_kind(self.switch(), &table, INDIRECT)?;
        self.set_default(&table, &EntryTarget::Member(id(member)))
    }

    fn bm_mt_indirect_reset_default_entry(&mut self, _: i32, table: String) -> TableResult<()> {
        let table = of_kind(self.switch(), &table, INDIRECT)?;
        self.reset_default(&table)
    }

    fn bm_mt_indirect_ws_add_entry(
        &mut self,
        _: i32,
        table: String,
        match_key: Vec<BmMatchParam>,
        group: i32,
        options: BmAddEntryOptions,
    ) -> TableResult<i32> {
        let table = of_kind(self.switch(), &table, WITH_SELECTOR)?;
        self.check_filled(&table, group)?;
        let target = EntryTarget::Group(id(group));
        self.insert(&table, &match_key, &options, &target)
    }

    fn bm_mt_indirect_ws_modify_entry(
        &mut self,
        _: i32,
        table: String,
        entry: i32,
        group: i32,
    ) -> TableResult<()> {
        let table = of_kind(self.switch(), &table, WITH_SELECTOR)?;
        self.check_filled(&table, group)?;
        self.modify(&table, entry, &EntryTarget::Group(id(group)))
    }

    fn bm_mt_indirect_ws_set_default_group(
        &mut self,
        _: i32,
        table: String,
        group: i32,
    ) -> TableResult<()> {
        let table = of_kind(self.switch(), &table, WITH_SELECTOR)?;
        self.set_default(&table, &EntryTarget::Group(id(group)))
    }
}
