//! Generates a P4Info from the BMv2 JSON of a program.
//!
//! A compiler's P4Info has the controller's names and widths, and omits objects that controllers need not see. A test
//! uses the names of the JSON, and the JSON may have no P4Info at all.

use alfirk_bmv2::{ActionInfo, ManageError, Switch, TableId};
use alfirk_bmv2_json::{MatchType, TableType};
use alfirk_p4runtime::p4::config::v1::{
    action, match_field, p4_bitstring_like_type_spec, p4_data_type_spec, table, Action,
    ActionProfile, ActionRef, Counter, DirectCounter, DirectMeter, MatchField, Meter, MeterSpec,
    P4BitTypeSpec, P4BitstringLikeTypeSpec, P4DataTypeSpec, P4Info, Preamble, Register, Table,
};

/// Most significant byte of P4Info ids, by kind of object (P4Runtime § 6.3).
mod prefix {
    pub const ACTION: u32 = 0x01 << 24;
    pub const TABLE: u32 = 0x02 << 24;
    pub const ACTION_PROFILE: u32 = 0x11 << 24;
    pub const COUNTER: u32 = 0x12 << 24;
    pub const DIRECT_COUNTER: u32 = 0x13 << 24;
    pub const METER: u32 = 0x14 << 24;
    pub const DIRECT_METER: u32 = 0x15 << 24;
    pub const REGISTER: u32 = 0x16 << 24;
}

/// Generates the P4Info of the program that a switch runs.
///
/// # Errors
/// When the switch has no program.
pub fn program_info(switch: &Switch) -> Result<P4Info, ManageError> {
    let mut info = P4Info::default();
    let mut actions = Actions::default();
    let profiles = switch.profiles();
    for (at, &profile) in profiles.iter().enumerate() {
        info.action_profiles.push(ActionProfile {
            preamble: preamble(prefix::ACTION_PROFILE, at, switch.profile_name(profile)?),
            ..ActionProfile::default()
        });
    }
    for (at, core) in switch.tables().into_iter().enumerate() {
        let known = switch.table_info(core)?;
        let mut refs = Vec::new();
        for &action in &known.actions {
            refs.push(ActionRef {
                id: actions.id(switch.action_info(action)?),
                ..ActionRef::default()
            });
        }
        let id = id(prefix::TABLE, at);
        let profile = profiles.iter().position(|p| Some(*p) == known.profile);
        if let Some(profile) = profile {
            let profile = &mut info.action_profiles[profile];
            profile.table_ids.push(id);
            profile.with_selector |= known.kind == TableType::IndirectWs;
            profile.size = i64::try_from(known.size).unwrap_or(i64::MAX);
        }
        let first_action = refs.first().map_or(0, |action| action.id);
        let keys = (1..).zip(&known.keys).map(|(id, key)| MatchField {
            id,
            name: key.name.clone(),
            bitwidth: bits(key.bits.max(1)),
            r#match: Some(match_field::Match::MatchType(
                match_type(key.match_type).into(),
            )),
            ..MatchField::default()
        });
        info.tables.push(Table {
            preamble: preamble(prefix::TABLE, at, &known.name),
            match_fields: keys.collect(),
            // The id only marks the default action as const; its value is not used.
            const_default_action_id: if known.const_default { first_action } else { 0 },
            action_refs: refs,
            implementation_id: profile.map_or(0, |at| self::id(prefix::ACTION_PROFILE, at)),
            size: i64::try_from(known.size).unwrap_or(i64::MAX),
            idle_timeout_behavior: match known.idle_timeout {
                true => table::IdleTimeoutBehavior::NotifyControl.into(),
                false => table::IdleTimeoutBehavior::NoTimeout.into(),
            },
            is_const_table: known.const_entries,
            ..Table::default()
        });
    }
    info.actions = actions.all;
    counters(switch, &mut info);
    meters(switch, &mut info);
    for (at, register) in switch.registers().iter().enumerate() {
        info.registers.push(Register {
            preamble: preamble(prefix::REGISTER, at, &register.name),
            type_spec: Some(bit_type(register.bits)),
            size: i32::try_from(register.size).unwrap_or(i32::MAX),
            ..Register::default()
        });
    }
    Ok(info)
}

fn counters(switch: &Switch, info: &mut P4Info) {
    let tables = switch.tables();
    for (at, counter) in switch.counters().iter().enumerate() {
        match counter.table {
            Some(table) => {
                let preamble = preamble(prefix::DIRECT_COUNTER, at, &counter.name);
                let direct_table_id =
                    add_to_table(&tables, info, table, id(prefix::DIRECT_COUNTER, at));
                info.direct_counters.push(DirectCounter {
                    preamble,
                    direct_table_id,
                    ..DirectCounter::default()
                });
            }
            None => info.counters.push(Counter {
                preamble: preamble(prefix::COUNTER, at, &counter.name),
                size: i64::try_from(counter.size).unwrap_or(i64::MAX),
                ..Counter::default()
            }),
        }
    }
}

fn meters(switch: &Switch, info: &mut P4Info) {
    // Two rates, three colours; any rates are valid.
    let spec = Some(MeterSpec::default());
    let tables = switch.tables();
    for (at, meter) in switch.meters().iter().enumerate() {
        match meter.table {
            Some(table) => {
                let preamble = preamble(prefix::DIRECT_METER, at, &meter.name);
                let direct_table_id =
                    add_to_table(&tables, info, table, id(prefix::DIRECT_METER, at));
                info.direct_meters.push(DirectMeter {
                    preamble,
                    spec,
                    direct_table_id,
                });
            }
            None => info.meters.push(Meter {
                preamble: preamble(prefix::METER, at, &meter.name),
                spec,
                size: i64::try_from(meter.size).unwrap_or(i64::MAX),
                ..Meter::default()
            }),
        }
    }
}

/// Adds a direct counter or meter to the table that it belongs to. Returns the table's P4Info id.
fn add_to_table(tables: &[TableId], info: &mut P4Info, table: TableId, resource: u32) -> u32 {
    let at = tables.iter().position(|known| *known == table);
    match at.and_then(|at| info.tables.get_mut(at)) {
        Some(table) => {
            table.direct_resource_ids.push(resource);
            table.preamble.as_ref().map_or(0, |preamble| preamble.id)
        }
        None => 0,
    }
}

/// Actions that have P4Info ids, by name and parameters. Actions of different tables may have the same name but
/// different parameters.
#[derive(Default)]
struct Actions {
    all: Vec<Action>,
    known: Vec<ActionInfo>,
}

impl Actions {
    fn id(&mut self, action: ActionInfo) -> u32 {
        let known = self.known.iter().position(|known| *known == action);
        let at = known.unwrap_or(self.known.len());
        if known.is_none() {
            let params = (1..).zip(&action.params).map(|(id, param)| action::Param {
                id,
                name: param.name.clone(),
                bitwidth: bits(param.bits.max(1)),
                ..action::Param::default()
            });
            self.all.push(Action {
                preamble: preamble(prefix::ACTION, at, &action.name),
                params: params.collect(),
            });
            self.known.push(action);
        }
        id(prefix::ACTION, at)
    }
}

fn id(prefix: u32, at: usize) -> u32 {
    prefix + 1 + at as u32
}

fn preamble(prefix: u32, at: usize, name: &str) -> Option<Preamble> {
    Some(Preamble {
        id: id(prefix, at),
        name: name.to_owned(),
        ..Preamble::default()
    })
}

fn bits(bits: u32) -> i32 {
    i32::try_from(bits).unwrap_or(i32::MAX)
}

fn match_type(kind: MatchType) -> match_field::MatchType {
    match kind {
        MatchType::Exact | MatchType::Valid => match_field::MatchType::Exact,
        MatchType::Lpm => match_field::MatchType::Lpm,
        MatchType::Ternary => match_field::MatchType::Ternary,
        MatchType::Range => match_field::MatchType::Range,
        MatchType::Optional => match_field::MatchType::Optional,
    }
}

fn bit_type(width: u32) -> P4DataTypeSpec {
    let bit = P4BitTypeSpec {
        bitwidth: bits(width),
    };
    let bits = P4BitstringLikeTypeSpec {
        type_spec: Some(p4_bitstring_like_type_spec::TypeSpec::Bit(bit)),
        ..P4BitstringLikeTypeSpec::default()
    };
    P4DataTypeSpec {
        type_spec: Some(p4_data_type_spec::TypeSpec::Bitstring(bits)),
    }
}
