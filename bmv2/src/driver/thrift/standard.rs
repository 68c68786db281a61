//! The service "standard".

use std::sync::Arc;

use alfirk_thrift::standard::*;

use super::{
    codes, config, keys,
    runtime::{Ports, Runtime},
    serialize,
};
use crate::{
    Counter, CrcParams, EntryHandle, EntryTarget, GroupMember, LoadedProgram, ManageError,
    MeterConfig, ProfileGroup, ProfileId, ProfileMember, Switch, TableEntry, TableId, TableInfo,
};
use alfirk_bmv2_json::TableType;

type TableResult<T> = Result<T, InvalidTableOperation>;

/// A table that a request names.
pub struct Named {
    pub(super) id: TableId,
    pub(super) info: TableInfo,
}

pub(super) fn named(switch: &Switch, table: &str) -> TableResult<Named> {
    let id = switch.table(table).map_err(codes::table)?;
    let info = switch.table_info(id).map_err(codes::table)?;
    Ok(Named { id, info })
}

/// The same, when entries are to be what `kinds` says.
fn of_kind(switch: &Switch, table: &str, kinds: &[TableType]) -> TableResult<Named> {
    let table = named(switch, table)?;
    match kinds.contains(&table.info.kind) {
        true => Ok(table),
        false => Err(TableOperationErrorCode::WrongTableType.into()),
    }
}

const DIRECT: &[TableType] = &[TableType::Simple];
const INDIRECT: &[TableType] = &[TableType::Indirect, TableType::IndirectWs];
const WITH_SELECTOR: &[TableType] = &[TableType::IndirectWs];

fn handle(entry: i32) -> EntryHandle {
    EntryHandle(entry as u32)
}

/// A number that clients have as a signed one.
fn id(number: i32) -> u32 {
    number as u32
}

/// Priorities of tables that have none.
const NO_PRIORITY: i32 = -1;

fn action_entry(target: EntryTarget) -> BmActionEntry {
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

/// An entry as clients read it.
pub(super) fn shown(table: &TableInfo, entry: TableEntry, now: u64) -> BmMtEntry {
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

fn counter_value(counter: Counter) -> BmCounterValue {
    BmCounterValue {
        bytes: counter.bytes as i64,
        packets: counter.packets as i64,
    }
}

fn counter(value: &BmCounterValue) -> Counter {
    Counter {
        bytes: value.bytes as u64,
        packets: value.packets as u64,
    }
}

/// Why rates are none.
fn meter_config(rates: &[BmMeterRateConfig]) -> Result<MeterConfig, MeterOperationErrorCode> {
    let [committed, peak] = rates else {
        return Err(MeterOperationErrorCode::BadRatesList);
    };
    // Rates are whole numbers per second here.
    let per_second = |rate: &BmMeterRateConfig| {
        let rate = rate.units_per_micros * 1e6;
        (rate >= 0.0 && rate.is_finite()).then(|| rate.round() as u64)
    };
    let burst = |rate: &BmMeterRateConfig| u64::try_from(rate.burst_size).ok();
    let (Some(cir), Some(pir)) = (per_second(committed), per_second(peak)) else {
        return Err(MeterOperationErrorCode::InvalidInfoRateValue);
    };
    let (Some(cburst), Some(pburst)) = (burst(committed), burst(peak)) else {
        return Err(MeterOperationErrorCode::InvalidBurstSizeValue);
    };
    Ok(MeterConfig {
        cir,
        cburst,
        pir,
        pburst,
    })
}

/// Nothing for a meter without rates, as in BMv2.
fn meter_rates(config: Option<MeterConfig>) -> Vec<BmMeterRateConfig> {
    let rate = |per_second: u64, burst: u64| BmMeterRateConfig {
        units_per_micros: per_second as f64 / 1e6,
        burst_size: i32::try_from(burst).unwrap_or(i32::MAX),
    };
    let rates = config.map(|c| [rate(c.cir, c.cburst), rate(c.pir, c.pburst)]);
    rates.into_iter().flatten().collect()
}

/// A cell of any width; values beyond a client's signed 64 bits are shown as the greatest, as in BMv2.
pub(super) fn register_value(bytes: &[u8]) -> i64 {
    let mut value: u64 = 0;
    for &byte in bytes {
        if value >> 56 != 0 {
            return i64::MAX;
        }
        value = value << 8 | u64::from(byte);
    }
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn member_shown(member: ProfileMember) -> BmMtActProfMember {
    BmMtActProfMember {
        mbr_handle: member.id as i32,
        action_name: member.action,
        action_data: member.args,
    }
}

fn group_shown(group: ProfileGroup) -> BmMtActProfGroup {
    let mut members: Vec<i32> = group.members.iter().map(|m| m.id as i32).collect();
    members.sort_unstable();
    BmMtActProfGroup {
        grp_handle: group.id as i32,
        mbr_handles: members,
    }
}

impl<P: Ports> Runtime<'_, P> {
    fn profile(&self, name: &str) -> TableResult<ProfileId> {
        self.switch().profile(name).map_err(codes::table)
    }

    fn group(&self, profile: &str, group: i32) -> TableResult<(ProfileId, ProfileGroup)> {
        let profile = self.profile(profile)?;
        let group = self.switch().group(profile, id(group));
        Ok((profile, group.map_err(codes::table)?))
    }

    /// Groups behind entries may not be empty.
    fn check_filled(&self, table: &Named, group: i32) -> TableResult<()> {
        let Some(profile) = table.info.profile else {
            return Err(TableOperationErrorCode::Error.into());
        };
        let group = self.switch().group(profile, id(group));
        match group.map_err(codes::table)?.members.is_empty() {
            true => Err(TableOperationErrorCode::EmptyGrp.into()),
            false => Ok(()),
        }
    }

    fn insert(
        &mut self,
        table: &Named,
        key: &[BmMatchParam],
        options: &BmAddEntryOptions,
        target: &EntryTarget,
    ) -> TableResult<i32> {
        let now = self.now;
        let switch = self.switch_mut();
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
        let entry = switch.insert_entry(table.id, &key, priority, target, 0, now);
        Ok(entry.map_err(codes::table)?.0 as i32)
    }

    fn modify(&mut self, table: &Named, entry: i32, target: &EntryTarget) -> TableResult<()> {
        let switch = self.switch_mut();
        let modified = switch.modify_entry(table.id, handle(entry), target);
        modified.map_err(codes::table)?;
        self.server.forget_entry(&table.info.name, handle(entry));
        Ok(())
    }

    fn set_default(&mut self, table: &Named, target: &EntryTarget) -> TableResult<()> {
        let result = self.switch_mut().set_default(table.id, target);
        result.map_err(|error| match error {
            ManageError::ConstDefault { .. } if !table.info.const_default => {
                TableOperationErrorCode::DefaultActionIsConst.into()
            }
            error => codes::table(error),
        })?;
        self.server.default_was_set(&table.info.name, true);
        Ok(())
    }

    fn reset_default(&mut self, table: &Named) -> TableResult<()> {
        let switch = self.switch_mut();
        switch.reset_default(table.id).map_err(codes::table)?;
        self.server.default_was_set(&table.info.name, false);
        Ok(())
    }

    fn delete(&mut self, table: &Named, entry: i32) -> TableResult<()> {
        let switch = self.switch_mut();
        let deleted = switch.delete_entry(table.id, handle(entry));
        deleted.map_err(codes::table)?;
        self.server.forget_entry(&table.info.name, handle(entry));
        Ok(())
    }

    fn set_ttl(&mut self, table: &str, entry: i32, timeout_ms: i32) -> TableResult<()> {
        let now = self.now;
        let table = named(self.switch(), table)?;
        let timeout = u64::from(timeout_ms as u32) * 1_000_000;
        let switch = self.switch_mut();
        let set = switch.set_idle_timeout(table.id, handle(entry), timeout, now);
        set.map_err(codes::table)?;
        self.server.check_idle_entries(now);
        Ok(())
    }

    fn set_crc(&mut self, name: &str, params: CrcParams) -> Result<(), InvalidCrcOperation> {
        let result = self.switch_mut().set_crc(name, params);
        result.map_err(|error| {
            let code = match error {
                ManageError::NotCustom { .. } => CrcErrorCode::WrongTypeCalculation,
                _ => CrcErrorCode::InvalidCalculationName,
            };
            code.into()
        })
    }

    fn learn_list(&self, list: i32) -> Result<u32, InvalidLearnOperation> {
        match self.switch().learn_list(id(list)) {
            Some(_) => Ok(id(list)),
            None => Err(LearnOperationErrorCode::InvalidListId.into()),
        }
    }

    /// A value as long as its set's; BMv2 takes any length, of which others never match.
    fn change_value_set(
        &mut self,
        set: &str,
        change: impl FnOnce(&mut Vec<Vec<u8>>),
    ) -> Result<(), InvalidParseVSetOperation> {
        let switch = self.switch_mut();
        let mut members = switch.value_set(set).map_err(codes::value_set)?;
        change(&mut members);
        let changed = switch.set_value_set(set, &members);
        changed.map_err(codes::value_set)?;
        self.server.forget_value_set(set);
        Ok(())
    }

    /// Where a program's JSON text is to be had.
    pub(super) fn config_text(&self) -> Arc<str> {
        let from_p4runtime = self.server.device_config();
        let text = from_p4runtime.map(|text| Arc::from(&*text));
        text.or_else(|| self.config.clone())
            .unwrap_or_else(|| Arc::from(""))
    }

    /// Loads a program beside the running one; requests mean its tables from now on.
    pub(super) fn load_beside(
        &mut self,
        program: Arc<LoadedProgram>,
        text: Arc<str>,
    ) -> Result<(), InvalidSwapOperation> {
        self.check_swap()?;
        if !self.server.load_beside(program) {
            return Err(SwapOperationErrorCode::OngoingSwap.into());
        }
        *self.config = Some(text);
        Ok(())
    }

    pub(super) fn check_swap(&self) -> Result<(), InvalidSwapOperation> {
        match self.settings.may_swap {
            true => Ok(()),
            false => Err(SwapOperationErrorCode::ConfigSwapDisabled.into()),
        }
    }
}

impl<P: Ports> Handler for Runtime<'_, P> {
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
        let table = named(self.switch(), &table)?;
        let switch = self.switch_mut();
        switch.reset_table(table.id).map_err(codes::table)?;
        self.server.forget_entries(&table.info.name);
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

    fn bm_mt_act_prof_add_member(
        &mut self,
        _: i32,
        profile: String,
        action: String,
        args: Vec<Vec<u8>>,
    ) -> TableResult<i32> {
        let profile = self.profile(&profile)?;
        let switch = self.switch_mut();
        let id = switch.free_member(profile).map_err(codes::table)?;
        let member = ProfileMember { id, action, args };
        let inserted = switch.insert_member(profile, &member);
        inserted.map_err(codes::table)?;
        Ok(id as i32)
    }

    fn bm_mt_act_prof_delete_member(
        &mut self,
        _: i32,
        profile: String,
        member: i32,
    ) -> TableResult<()> {
        let core = self.profile(&profile)?;
        let deleted = self.switch_mut().delete_member(core, id(member));
        deleted.map_err(codes::table)?;
        self.server.forget_member(&profile, id(member));
        Ok(())
    }

    fn bm_mt_act_prof_modify_member(
        &mut self,
        _: i32,
        profile: String,
        member: i32,
        action: String,
        args: Vec<Vec<u8>>,
    ) -> TableResult<()> {
        let core = self.profile(&profile)?;
        let new = ProfileMember {
            id: id(member),
            action,
            args,
        };
        let modified = self.switch_mut().modify_member(core, &new);
        modified.map_err(codes::table)?;
        self.server.forget_member(&profile, id(member));
        Ok(())
    }

    fn bm_mt_act_prof_create_group(&mut self, _: i32, profile: String) -> TableResult<i32> {
        let profile = self.profile(&profile)?;
        let switch = self.switch_mut();
        let id = switch.free_group(profile).map_err(codes::table)?;
        let group = ProfileGroup {
            id,
            ..ProfileGroup::default()
        };
        let inserted = switch.insert_group(profile, &group);
        inserted.map_err(codes::table)?;
        Ok(id as i32)
    }

    fn bm_mt_act_prof_delete_group(
        &mut self,
        _: i32,
        profile: String,
        group: i32,
    ) -> TableResult<()> {
        let core = self.profile(&profile)?;
        let deleted = self.switch_mut().delete_group(core, id(group));
        deleted.map_err(codes::table)?;
        self.server.forget_group(&profile, id(group));
        Ok(())
    }

    fn bm_mt_act_prof_add_member_to_group(
        &mut self,
        _: i32,
        profile: String,
        member: i32,
        group: i32,
    ) -> TableResult<()> {
        let core = self.profile(&profile)?;
        let found = self.switch().member(core, id(member));
        found.map_err(codes::table)?;
        let (core, mut changed) = self.group(&profile, group)?;
        if changed.members.iter().any(|m| m.id == id(member)) {
            return Err(TableOperationErrorCode::MbrAlreadyInGrp.into());
        }
        changed.members.push(GroupMember {
            id: id(member),
            weight: 1,
            active: true,
        });
        let modified = self.switch_mut().modify_group(core, &changed);
        modified.map_err(codes::table)?;
        self.server.forget_group(&profile, id(group));
        Ok(())
    }

    fn bm_mt_act_prof_remove_member_from_group(
        &mut self,
        _: i32,
        profile: String,
        member: i32,
        group: i32,
    ) -> TableResult<()> {
        let core = self.profile(&profile)?;
        let found = self.switch().member(core, id(member));
        found.map_err(codes::table)?;
        let (core, mut changed) = self.group(&profile, group)?;
        let before = changed.members.len();
        changed.members.retain(|m| m.id != id(member));
        if changed.members.len() == before {
            return Err(TableOperationErrorCode::MbrNotInGrp.into());
        }
        let modified = self.switch_mut().modify_group(core, &changed);
        modified.map_err(codes::table)?;
        self.server.forget_group(&profile, id(group));
        Ok(())
    }

    fn bm_mt_act_prof_get_members(
        &mut self,
        _: i32,
        profile: String,
    ) -> TableResult<Vec<BmMtActProfMember>> {
        // BMv2 finds no members in profiles that there are not.
        let Ok(profile) = self.profile(&profile) else {
            return Ok(Vec::new());
        };
        let members = self.switch().members(profile).map_err(codes::table)?;
        Ok(members.into_iter().map(member_shown).collect())
    }

    fn bm_mt_act_prof_get_member(
        &mut self,
        _: i32,
        profile: String,
        member: i32,
    ) -> TableResult<BmMtActProfMember> {
        let profile = self.profile(&profile)?;
        let member = self.switch().member(profile, id(member));
        Ok(member_shown(member.map_err(codes::table)?))
    }

    fn bm_mt_act_prof_get_groups(
        &mut self,
        _: i32,
        profile: String,
    ) -> TableResult<Vec<BmMtActProfGroup>> {
        let Ok(profile) = self.profile(&profile) else {
            return Ok(Vec::new());
        };
        let groups = self.switch().groups(profile).map_err(codes::table)?;
        Ok(groups.into_iter().map(group_shown).collect())
    }

    fn bm_mt_act_prof_get_group(
        &mut self,
        _: i32,
        profile: String,
        group: i32,
    ) -> TableResult<BmMtActProfGroup> {
        let (_, group) = self.group(&profile, group)?;
        Ok(group_shown(group))
    }

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

    fn bm_mt_read_counter(
        &mut self,
        _: i32,
        table: String,
        entry: i32,
    ) -> TableResult<BmCounterValue> {
        let table = named(self.switch(), &table)?;
        if !table.info.direct_counter {
            return Err(TableOperationErrorCode::CountersDisabled.into());
        }
        let entry = self.switch().entry(table.id, handle(entry));
        let counter = entry.map_err(codes::table)?.counter;
        Ok(counter_value(counter.unwrap_or_default()))
    }

    fn bm_mt_reset_counters(&mut self, _: i32, table: String) -> TableResult<()> {
        let table = named(self.switch(), &table)?;
        let cleared = self.switch_mut().clear_direct_counters(table.id);
        cleared.map_err(codes::table)
    }

    fn bm_mt_write_counter(
        &mut self,
        _: i32,
        table: String,
        entry: i32,
        value: BmCounterValue,
    ) -> TableResult<()> {
        let table = named(self.switch(), &table)?;
        let switch = self.switch_mut();
        let set = switch.set_direct_counter(table.id, handle(entry), counter(&value));
        set.map_err(codes::table)
    }

    fn bm_mt_set_meter_rates(
        &mut self,
        _: i32,
        table: String,
        entry: i32,
        rates: Vec<BmMeterRateConfig>,
    ) -> TableResult<()> {
        let now = self.now;
        let table = named(self.switch(), &table)?;
        if !table.info.direct_meter {
            return Err(TableOperationErrorCode::MetersDisabled.into());
        }
        let config = meter_config(&rates).map_err(|_| TableOperationErrorCode::Error)?;
        let switch = self.switch_mut();
        let set = switch.set_direct_meter(table.id, handle(entry), Some(config), now);
        set.map_err(codes::table)
    }

    fn bm_mt_get_meter_rates(
        &mut self,
        _: i32,
        table: String,
        entry: i32,
    ) -> TableResult<Vec<BmMeterRateConfig>> {
        let table = named(self.switch(), &table)?;
        if !table.info.direct_meter {
            return Err(TableOperationErrorCode::MetersDisabled.into());
        }
        let entry = self.switch().entry(table.id, handle(entry));
        Ok(meter_rates(entry.map_err(codes::table)?.meter))
    }

    fn bm_mt_get_entries(&mut self, _: i32, table: String) -> TableResult<Vec<BmMtEntry>> {
        // As BMv2, whose tables that there are not have no entries.
        let Ok(table) = named(self.switch(), &table) else {
            return Ok(Vec::new());
        };
        let mut entries = self.switch().entries(table.id).map_err(codes::table)?;
        entries.sort_by_key(|entry| entry.handle.place());
        let entries = entries.into_iter();
        Ok(entries.map(|e| shown(&table.info, e, self.now)).collect())
    }

    fn bm_mt_get_entry(&mut self, _: i32, table: String, entry: i32) -> TableResult<BmMtEntry> {
        let Ok(table) = named(self.switch(), &table) else {
            return Ok(BmMtEntry::default());
        };
        let entry = self.switch().entry(table.id, handle(entry));
        Ok(shown(&table.info, entry.map_err(codes::table)?, self.now))
    }

    fn bm_mt_get_default_entry(&mut self, _: i32, table: String) -> TableResult<BmActionEntry> {
        let Ok(table) = named(self.switch(), &table) else {
            return Ok(BmActionEntry::default());
        };
        let target = self.switch().default_entry(table.id);
        let target = target.map_err(codes::table)?;
        // An indirect table's own default action is no member.
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
        let Ok(table) = named(self.switch(), &table) else {
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
        Ok(shown(&table.info, entry, self.now))
    }

    fn bm_counter_read(
        &mut self,
        _: i32,
        counter: String,
        index: i32,
    ) -> Result<BmCounterValue, InvalidCounterOperation> {
        let value = self.switch().read_counter(&counter, index as u64);
        value.map(counter_value).map_err(codes::counter)
    }

    fn bm_counter_reset_all(
        &mut self,
        _: i32,
        counter: String,
    ) -> Result<(), InvalidCounterOperation> {
        let cleared = self.switch_mut().clear_counter(&counter);
        cleared.map_err(codes::counter)
    }

    fn bm_counter_write(
        &mut self,
        _: i32,
        name: String,
        index: i32,
        value: BmCounterValue,
    ) -> Result<(), InvalidCounterOperation> {
        let switch = self.switch_mut();
        let written = switch.write_counter(&name, index as u64, counter(&value));
        written.map_err(codes::counter)
    }

    fn bm_learning_ack(
        &mut self,
        _: i32,
        list: i32,
        buffer: i64,
        samples: Vec<i32>,
    ) -> Result<(), InvalidLearnOperation> {
        let list = self.learn_list(list)?;
        let samples = samples.iter().filter_map(|s| usize::try_from(*s).ok());
        let samples: Vec<usize> = samples.collect();
        self.server
            .acknowledge_digests(list, buffer as u64, Some(&samples));
        Ok(())
    }

    fn bm_learning_ack_buffer(
        &mut self,
        _: i32,
        list: i32,
        buffer: i64,
    ) -> Result<(), InvalidLearnOperation> {
        let list = self.learn_list(list)?;
        self.server.acknowledge_digests(list, buffer as u64, None);
        Ok(())
    }

    fn bm_learning_set_timeout(
        &mut self,
        _: i32,
        list: i32,
        timeout_ms: i32,
    ) -> Result<(), InvalidLearnOperation> {
        let list = self.learn_list(list)?;
        self.server
            .set_digest_timeout(list, i64::from(timeout_ms) * 1_000_000);
        Ok(())
    }

    fn bm_learning_set_buffer_size(
        &mut self,
        _: i32,
        list: i32,
        samples: i32,
    ) -> Result<(), InvalidLearnOperation> {
        let list = self.learn_list(list)?;
        self.server.set_digest_list_size(list, samples);
        Ok(())
    }

    fn bm_load_new_config(&mut self, config: String) -> Result<(), InvalidSwapOperation> {
        self.check_swap()?;
        match LoadedProgram::from_json(&config) {
            Ok(program) => self.load_beside(Arc::new(program), config.into()),
            Err(error) => {
                tracing::error!("bm_load_new_config: {error}");
                Err(SwapOperationErrorCode::NoOngoingSwap.into())
            }
        }
    }

    fn bm_swap_configs(&mut self) -> Result<(), InvalidSwapOperation> {
        self.check_swap()?;
        match self.server.swap() {
            true => Ok(()),
            false => Err(SwapOperationErrorCode::NoOngoingSwap.into()),
        }
    }

    fn bm_meter_array_set_rates(
        &mut self,
        _: i32,
        meter: String,
        rates: Vec<BmMeterRateConfig>,
    ) -> Result<(), InvalidMeterOperation> {
        let now = self.now;
        let config = self.rates_of(&meter, &rates)?;
        let filled = self.switch_mut().fill_meter(&meter, Some(config), now);
        filled.map_err(codes::meter)
    }

    fn bm_meter_set_rates(
        &mut self,
        _: i32,
        meter: String,
        index: i32,
        rates: Vec<BmMeterRateConfig>,
    ) -> Result<(), InvalidMeterOperation> {
        let now = self.now;
        let config = self.rates_of(&meter, &rates)?;
        let switch = self.switch_mut();
        let written = switch.write_meter(&meter, index as u64, Some(config), now);
        written.map_err(codes::meter)
    }

    fn bm_meter_get_rates(
        &mut self,
        _: i32,
        meter: String,
        index: i32,
    ) -> Result<Vec<BmMeterRateConfig>, InvalidMeterOperation> {
        let config = self.switch().read_meter(&meter, index as u64);
        config.map(meter_rates).map_err(codes::meter)
    }

    fn bm_register_read(
        &mut self,
        _: i32,
        register: String,
        index: i32,
    ) -> Result<i64, InvalidRegisterOperation> {
        let value = self.switch().read_register(&register, index as u64);
        let value = value.map_err(codes::register)?;
        Ok(register_value(&value))
    }

    fn bm_register_read_all(
        &mut self,
        _: i32,
        register: String,
    ) -> Result<Vec<i64>, InvalidRegisterOperation> {
        let switch = self.switch();
        let size = switch.register_size(&register).map_err(codes::register)?;
        let cells = (0..size as u64).map(|index| {
            let value = switch.read_register(&register, index);
            value.map(|value| register_value(&value))
        });
        cells.collect::<Result<_, _>>().map_err(codes::register)
    }

    fn bm_register_write(
        &mut self,
        _: i32,
        register: String,
        index: i32,
        value: i64,
    ) -> Result<(), InvalidRegisterOperation> {
        let index = index as u64;
        let range = index..index.saturating_add(1);
        let filled = self.switch_mut().fill_register(&register, range, value);
        filled.map_err(codes::register)
    }

    fn bm_register_write_range(
        &mut self,
        _: i32,
        register: String,
        start: i32,
        end: i32,
        value: i64,
    ) -> Result<(), InvalidRegisterOperation> {
        let range = start as u64..end as u64;
        let filled = self.switch_mut().fill_register(&register, range, value);
        filled.map_err(codes::register)
    }

    fn bm_register_reset(
        &mut self,
        _: i32,
        register: String,
    ) -> Result<(), InvalidRegisterOperation> {
        let cleared = self.switch_mut().clear_register(&register);
        cleared.map_err(codes::register)
    }

    fn bm_parse_vset_add(
        &mut self,
        _: i32,
        set: String,
        value: Vec<u8>,
    ) -> Result<(), InvalidParseVSetOperation> {
        self.change_value_set(&set, |members| {
            if !members.contains(&value) {
                members.push(value);
            }
        })
    }

    fn bm_parse_vset_remove(
        &mut self,
        _: i32,
        set: String,
        value: Vec<u8>,
    ) -> Result<(), InvalidParseVSetOperation> {
        self.change_value_set(&set, |members| members.retain(|member| *member != value))
    }

    fn bm_parse_vset_get(
        &mut self,
        _: i32,
        set: String,
    ) -> Result<Vec<Vec<u8>>, InvalidParseVSetOperation> {
        self.switch().value_set(&set).map_err(codes::value_set)
    }

    fn bm_parse_vset_clear(
        &mut self,
        _: i32,
        set: String,
    ) -> Result<(), InvalidParseVSetOperation> {
        self.change_value_set(&set, Vec::clear)
    }

    fn bm_dev_mgr_add_port(
        &mut self,
        interface: String,
        port: i32,
        pcap_path: String,
    ) -> Result<(), InvalidDevMgrOperation> {
        let added = self.ports.add(&interface, id(port), &pcap_path);
        added.map_err(|error| {
            tracing::error!("bm_dev_mgr_add_port: {port}@{interface}: {error}");
            DevMgrErrorCode::Error.into()
        })
    }

    fn bm_dev_mgr_remove_port(&mut self, port: i32) -> Result<(), InvalidDevMgrOperation> {
        match self.ports.remove(id(port)) {
            true => Ok(()),
            false => Err(DevMgrErrorCode::Error.into()),
        }
    }

    fn bm_dev_mgr_show_ports(&mut self) -> Result<Vec<DevMgrPortInfo>, InvalidDevMgrOperation> {
        Ok(self.ports.list())
    }

    fn bm_mgmt_get_info(&mut self) -> BmConfig {
        BmConfig {
            device_id: self.server.switch().options().device_id as i64,
            thrift_port: self.settings.address.port().into(),
            ..BmConfig::default()
        }
    }

    fn bm_set_crc16_custom_parameters(
        &mut self,
        _: i32,
        calculation: String,
        config: BmCrc16Config,
    ) -> Result<(), InvalidCrcOperation> {
        let word = |value: i16| u64::from(value as u16);
        let params = CrcParams {
            bits: 16,
            polynomial: word(config.polynomial),
            initial: word(config.initial_remainder),
            final_xor: word(config.final_xor_value),
            reflect_data: config.data_reflected,
            reflect_remainder: config.remainder_reflected,
        };
        self.set_crc(&calculation, params)
    }

    fn bm_set_crc32_custom_parameters(
        &mut self,
        _: i32,
        calculation: String,
        config: BmCrc32Config,
    ) -> Result<(), InvalidCrcOperation> {
        let word = |value: i32| u64::from(value as u32);
        let params = CrcParams {
            bits: 32,
            polynomial: word(config.polynomial),
            initial: word(config.initial_remainder),
            final_xor: word(config.final_xor_value),
            reflect_data: config.data_reflected,
            reflect_remainder: config.remainder_reflected,
        };
        self.set_crc(&calculation, params)
    }

    fn bm_set_toeplitz_hash_key(
        &mut self,
        _: i32,
        calculation: String,
        _key: Vec<u8>,
    ) -> Result<(), InvalidToeplitzHashOperation> {
        // No architecture that the switch runs has this hash, so no calculation is of its type.
        Err(match self.switch().has_calculation(&calculation) {
            true => ToeplitzHashErrorCode::WrongTypeCalculation,
            false => ToeplitzHashErrorCode::InvalidCalculationName,
        }
        .into())
    }

    fn bm_reset_state(&mut self) {
        // Without a program there is nothing to reset.
        if self.switch_mut().reset_state().is_ok() {
            self.server.forget_all();
        }
    }

    fn bm_get_config(&mut self) -> String {
        self.config_text().to_string()
    }

    fn bm_get_config_md5(&mut self) -> Vec<u8> {
        config::md5(&self.config_text())
    }

    fn bm_get_id_from_name(
        &mut self,
        _: i32,
        kind: BmResourceType,
        name: String,
    ) -> Result<i32, InvalidIdLookup> {
        config::id_of(&self.config_text(), kind, &name)
    }

    fn bm_serialize_state(&mut self) -> String {
        serialize::state(self)
    }
}

impl<P: Ports> Runtime<'_, P> {
    /// Rates for an array, whose name is looked at first.
    fn rates_of(
        &self,
        meter: &str,
        rates: &[BmMeterRateConfig],
    ) -> Result<MeterConfig, InvalidMeterOperation> {
        let known = self.switch().meters().iter().any(|m| m.name == meter);
        if !known {
            return Err(MeterOperationErrorCode::InvalidMeterName.into());
        }
        meter_config(rates).map_err(Into::into)
    }
}
