//! Attributes of tables: settings that are not entries.

use std::collections::BTreeMap;

use alfirk_bf_rt_json::{Table, TableType};
use alfirk_bmv2::Switch;
use alfirk_p4runtime::bfrt_proto::{
    idle_table::IdleTableMode,
    mode::{PredefinedMode, Scope},
    table_attribute::Attribute,
    ByteCountAdj, DynKeyMask, EntryScope, IdleTable, KeyFieldMask, Mode, PortStatusChg,
    SelectorUpdateCb, StatePullIntvl, TableAttribute,
};

use crate::arrays::Array;
use crate::device::is_configuration;
use crate::error::{core, invalid, unsupported, Outcome};
use crate::match_table::{prefix_mask, MatchTable};
use crate::scope::Scopes;
use crate::values::{check_width, padded};
use crate::Device;

/// Attributes of a table that clients have set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes {
    pub scope: Option<EntryScope>,
    pub idle_table: Option<IdleTable>,
    pub port_status: bool,
    /// Interval in milliseconds in which the driver reads port counters. They are always current here.
    pull_interval: u32,
    selector_updates: bool,
    /// Number of bytes that meters add to the length of a packet, by pipe; the key of all pipes is [`crate::scope::ALL_PIPES`].
    byte_adjustments: BTreeMap<u32, i32>,
}

/// Whether a table has the attribute. Scopes exist for all tables of a program, although the schema does not name them
/// for arrays.
fn has(table: &Table, attribute: &Attribute, is_of_device: bool) -> bool {
    match attribute {
        Attribute::EntryScope(_) => !is_of_device && !is_configuration(table),
        _ => {
            let name = name_of(attribute);
            table.attributes.iter().any(|own| own == name)
        }
    }
}

/// A table whose attribute a request sets or reads.
pub(crate) struct Owner<'a> {
    pub table: &'a Table,
    pub is_of_device: bool,
    /// Pipe of the request.
    pub pipe: u32,
}

impl Owner<'_> {
    fn check<'r>(&self, request: &'r TableAttribute) -> Outcome<&'r Attribute> {
        let name = &self.table.name;
        let Some(attribute) = &request.attribute else {
            return Err(invalid(format!("table {name}: the attribute has no value")));
        };
        match has(self.table, attribute, self.is_of_device) {
            true => Ok(attribute),
            false => Err(invalid(format!(
                "table {name} does not support the attribute {}",
                name_of(attribute)
            ))),
        }
    }

    /// Sets an attribute.
    pub fn set(
        &self,
        request: &TableAttribute,
        switch: &mut Switch,
        device: &mut Device,
        now: u64,
    ) -> Outcome {
        let table = self.table;
        let attribute = self.check(request)?;
        if let Attribute::DynKeyMask(mask) = attribute {
            return set_key_mask(table, mask, switch);
        }
        if let Attribute::PreDeviceConfig(config) = attribute {
            return device.pre.configure(switch, config);
        }
        let own = device.attributes.entry(table.id).or_default();
        match attribute {
            Attribute::EntryScope(scope) => {
                Scopes::new(Some(scope))?;
                own.scope = Some(*scope);
            }
            Attribute::IdleTable(idle) => {
                own.idle_table = Some(settings_of(idle));
                device
                    .ageing
                    .entry(table.id)
                    .or_default()
                    .configure(idle, now);
            }
            Attribute::PortStatusNotify(status) => own.port_status = status.enable,
            Attribute::IntvlMs(interval) => own.pull_interval = interval.intvl_val,
            Attribute::SelectorUpdateNotify(notify) => own.selector_updates = notify.enable,
            Attribute::ByteCountAdj(adjustment) => {
                let bytes = adjustment.byte_count_adjust;
                own.byte_adjustments.insert(self.pipe, bytes);
                if Scopes::is_here(self.pipe) {
                    adjust_meter(table, switch, bytes)?;
                }
            }
            Attribute::DynKeyMask(_) | Attribute::PreDeviceConfig(_) | Attribute::DynHashing(_) => {
                return Err(unsupported(format!(
                    "table {}: this switch does not support the attribute {}",
                    table.name,
                    name_of(attribute)
                )))
            }
        }
        Ok(())
    }

    /// Reads an attribute; the value in the request only says which one.
    pub fn get(
        &self,
        request: &TableAttribute,
        switch: &Switch,
        device: &Device,
    ) -> Outcome<TableAttribute> {
        let table = self.table;
        let nothing = Attributes::default();
        let own = device.attributes.get(&table.id).unwrap_or(&nothing);
        let attribute = match self.check(request)? {
            Attribute::EntryScope(_) => {
                let whole = whole_device();
                let own = own.scope.unwrap_or_default();
                Attribute::EntryScope(EntryScope {
                    gress_scope: own.gress_scope.or(whole.gress_scope),
                    pipe_scope: own.pipe_scope.or(whole.pipe_scope),
                    prsr_scope: own.prsr_scope.or(whole.prsr_scope),
                })
            }
            Attribute::IdleTable(_) => Attribute::IdleTable(own.idle_table.unwrap_or(IdleTable {
                ttl_query_interval: 0,
                max_ttl: 0,
                min_ttl: 0,
                idle_table_mode: 0,
                enable: false,
            })),
            Attribute::PortStatusNotify(_) => Attribute::PortStatusNotify(PortStatusChg {
                enable: own.port_status,
            }),
            Attribute::IntvlMs(_) => Attribute::IntvlMs(StatePullIntvl {
                intvl_val: own.pull_interval,
            }),
            Attribute::SelectorUpdateNotify(_) => {
                Attribute::SelectorUpdateNotify(SelectorUpdateCb {
                    enable: own.selector_updates,
                })
            }
            Attribute::ByteCountAdj(_) => {
                let of_pipe = own.byte_adjustments.get(&self.pipe);
                let of_all = own.byte_adjustments.get(&crate::scope::ALL_PIPES);
                Attribute::ByteCountAdj(ByteCountAdj {
                    byte_count_adjust: of_pipe.or(of_all).copied().unwrap_or(0),
                })
            }
            Attribute::DynKeyMask(_) => Attribute::DynKeyMask(key_mask(table, switch)?),
            other @ (Attribute::PreDeviceConfig(_) | Attribute::DynHashing(_)) => {
                return Err(unsupported(format!(
                    "table {}: this switch cannot read the attribute {}",
                    table.name,
                    name_of(other)
                )))
            }
        };
        Ok(TableAttribute {
            table_id: table.id,
            attribute: Some(attribute),
        })
    }
}

/// The settings of an idle table that have a meaning: a table that is polled has no intervals.
fn settings_of(idle: &IdleTable) -> IdleTable {
    match idle.idle_table_mode() {
        IdleTableMode::IdleTableNotifyMode => *idle,
        IdleTableMode::IdleTablePollMode => IdleTable {
            ttl_query_interval: 0,
            max_ttl: 0,
            min_ttl: 0,
            ..*idle
        },
    }
}

/// Name of an attribute in the schema.
fn name_of(attribute: &Attribute) -> &'static str {
    match attribute {
        Attribute::EntryScope(_) => "EntryScope",
        Attribute::IdleTable(_) => "IdleTimeout",
        Attribute::DynKeyMask(_) => "DynamicKeyMask",
        Attribute::DynHashing(_) => "DynamicHashing",
        Attribute::ByteCountAdj(_) => "MeterByteCountAdjust",
        Attribute::PortStatusNotify(_) => "port_status_notif_cb",
        Attribute::IntvlMs(_) => "poll_intvl_ms",
        Attribute::PreDeviceConfig(_) => "pre_device_config",
        Attribute::SelectorUpdateNotify(_) => "selector_update_cb",
    }
}

fn adjust_meter(table: &Table, switch: &mut Switch, bytes: i32) -> Outcome {
    match table.table_type {
        TableType::Meter => Array::new(table).adjust(switch, bytes),
        _ => {
            let found = MatchTable::new(table, switch)?;
            switch.adjust_direct_meter(found.id, bytes).map_err(core)
        }
    }
}

/// Sets the compared bits of each key field. Fields that the request does not have keep all their bits.
fn set_key_mask(table: &Table, request: &DynKeyMask, switch: &mut Switch) -> Outcome {
    let found = MatchTable::new(table, switch)?;
    let masks = table.match_keys().map(|field| {
        let bits = field.ty.bits().unwrap_or(1);
        let own = request.fields.iter().find(|mask| mask.field_id == field.id);
        let Some(own) = own else {
            return Ok(prefix_mask(bits, bits));
        };
        let what = format!("table {}, mask of key field {}", table.name, field.name);
        check_width(&own.mask, bits, &what)?;
        Ok(own.mask.clone())
    });
    let masks: Vec<Vec<u8>> = masks.collect::<Outcome<_>>()?;
    switch.set_key_mask(found.id, &masks).map_err(core)
}

fn key_mask(table: &Table, switch: &Switch) -> Outcome<DynKeyMask> {
    let found = MatchTable::new(table, switch)?;
    let masks = switch.key_mask(found.id).map_err(core)?;
    let fields = table.match_keys().enumerate().map(|(at, field)| {
        let bits = field.ty.bits().unwrap_or(1);
        let mask = match &masks {
            Some(masks) => padded(&masks[at], bits),
            None => prefix_mask(bits, bits),
        };
        KeyFieldMask {
            field_id: field.id,
            mask,
        }
    });
    Ok(DynKeyMask {
        fields: fields.collect(),
    })
}

/// The scope of a table without a setting: one for all pipes.
fn whole_device() -> EntryScope {
    let all = || {
        Some(Mode {
            scope: Some(Scope::Predef(PredefinedMode::All.into())),
            args: 0,
        })
    };
    EntryScope {
        gress_scope: all(),
        pipe_scope: all(),
        prsr_scope: all(),
    }
}
