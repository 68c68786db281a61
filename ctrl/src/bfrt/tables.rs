//! Entries of match-action tables.

use std::collections::BTreeMap;

use alfirk_bf_rt_json::{ids, ActionData, ActionSpec, Schema};
use alfirk_p4runtime::bfrt_proto::{
    self as bfrt, data_field::Value, key_field, table_entry::Value as Key, KeyField, TableData,
    TableKey,
};
use alfirk_p4runtime::p4::config::v1::{Action, P4Info};
use alfirk_p4runtime::p4::v1::{
    self, action::Param, field_match, table_action, FieldMatch, TableAction,
};
use alfirk_p4runtime::{bytestring, Status};

use super::fields::Field;
use super::{invalid, key_of, missing, table_named, unknown, TranslationError};

/// A table in both interfaces.
#[derive(Clone, Debug)]
pub(super) struct MatchTable {
    /// Id in BfRuntime.
    pub id: u32,
    p4info_id: u32,
    /// Key fields by their P4Info ids.
    keys: BTreeMap<u32, Field>,
    /// Key field `$MATCH_PRIORITY`; `None` if entries have no priority.
    priority: Option<Field>,
    /// Actions by their P4Info ids.
    actions: BTreeMap<u32, ActionPair>,
}

/// An action in both interfaces.
#[derive(Clone, Debug)]
struct ActionPair {
    id: u32,
    /// Parameters by their P4Info ids.
    params: BTreeMap<u32, Field>,
}

/// A priority in the other interface: the largest one wins in P4Runtime, the smallest one in BfRuntime.
pub fn reversed_priority(priority: i32) -> i32 {
    i32::MAX - priority
}

impl MatchTable {
    /// All tables of P4Info, by their ids there.
    pub fn all(
        p4info: &P4Info,
        schema: &Schema,
    ) -> Result<BTreeMap<u32, MatchTable>, TranslationError> {
        let actions: BTreeMap<u32, &Action> = p4info
            .actions
            .iter()
            .filter_map(|action| Some((action.preamble.as_ref()?.id, action)))
            .collect();
        let mut tables = BTreeMap::new();
        for table in &p4info.tables {
            let Some(preamble) = &table.preamble else {
                continue;
            };
            let own = table_named(schema, "table", &preamble.name)?;
            // Some fields have other names, such as the validity of a header.
            let own_keys = own.match_keys();
            if own_keys.clone().count() != table.match_fields.len() {
                return Err(missing("table with the key of", &preamble.name));
            }
            let keys = table.match_fields.iter().zip(own_keys);
            let keys = keys.map(|(field, own)| (field.id, Field::new(own.id, &own.ty)));
            let pairs = table.action_refs.iter().filter_map(|of| {
                // The entries of a table with an action profile have no action of their own.
                let specs = own.action_specs.as_deref()?;
                let action = actions.get(&of.id)?;
                Some(pair(action, specs).map(|pair| (of.id, pair)))
            });
            let priority = own.key.iter().any(|key| key.id == ids::MATCH_PRIORITY);
            let matched = MatchTable {
                id: own.id,
                p4info_id: preamble.id,
                keys: keys.collect(),
                priority: priority.then_some(Field {
                    id: ids::MATCH_PRIORITY,
                    bits: 32,
                }),
                actions: pairs.collect::<Result<_, _>>()?,
            };
            tables.insert(preamble.id, matched);
        }
        Ok(tables)
    }

    /// Converts an entry to write. A deletion has no data.
    pub fn entry(
        &self,
        kind: bfrt::update::Type,
        entry: &v1::TableEntry,
    ) -> Result<bfrt::TableEntry, Status> {
        let data = match kind {
            bfrt::update::Type::Delete => None,
            _ => Some(self.data(entry)?),
        };
        let key = match entry.is_default_action {
            true => None,
            false => Some(Key::Key(self.key(entry)?)),
        };
        Ok(bfrt::TableEntry {
            table_id: self.id,
            value: key,
            data,
            is_default_entry: entry.is_default_action,
            ..bfrt::TableEntry::default()
        })
    }

    fn key(&self, entry: &v1::TableEntry) -> Result<TableKey, Status> {
        let mut fields = Vec::with_capacity(self.keys.len() + 1);
        // Fields without a value match any value in both interfaces.
        for given in &entry.r#match {
            let field = self.keys.get(&given.field_id);
            let field = field.ok_or_else(|| unknown("match field", given.field_id))?;
            fields.push(KeyField {
                field_id: field.id,
                match_type: Some(key_value(*field, given)?),
            });
        }
        if let Some(field) = self.priority {
            let priority = u64::try_from(reversed_priority(entry.priority)).unwrap_or(0);
            fields.push(field.exact(priority)?);
        }
        Ok(TableKey { fields })
    }

    fn data(&self, entry: &v1::TableEntry) -> Result<TableData, Status> {
        let action = entry
            .action
            .as_ref()
            .and_then(|action| action.r#type.as_ref());
        let Some(table_action::Type::Action(action)) = action else {
            return Err(invalid("the entry has no action"));
        };
        let pair = self.actions.get(&action.action_id);
        let pair = pair.ok_or_else(|| unknown("action", action.action_id))?;
        let fields = action.params.iter().map(|param| {
            let field = pair.params.get(&param.param_id);
            let field = field.ok_or_else(|| unknown("parameter", param.param_id))?;
            Ok(field.with(Value::Stream(field.padded(&param.value)?)))
        });
        Ok(TableData {
            action_id: pair.id,
            fields: fields.collect::<Result<_, Status>>()?,
        })
    }

    /// Converts an entry that was read; `None` for the default entry, and for an entry without an action.
    pub fn parse(&self, entry: &bfrt::TableEntry) -> Option<v1::TableEntry> {
        let key = key_of(entry).filter(|_| !entry.is_default_entry)?;
        let data = entry.data.as_ref()?;
        let matches = self.keys.iter().filter_map(|(id, field)| {
            let given = key.fields.iter().find(|given| given.field_id == field.id)?;
            let value = parsed_key(given)?;
            Some(FieldMatch {
                field_id: *id,
                field_match_type: Some(value),
            })
        });
        let priority = self.priority.and_then(|field| field.number_in_key(key));
        let priority = priority.and_then(|priority| i32::try_from(priority).ok());
        let mut actions = self.actions.iter();
        let (action_id, pair) = actions.find(|(_, pair)| pair.id == data.action_id)?;
        let params = pair.params.iter().filter_map(|(id, field)| {
            let Value::Stream(bytes) = field.value(Some(data))? else {
                return None;
            };
            Some(Param {
                param_id: *id,
                value: bytestring::canonical(bytes).to_vec(),
            })
        });
        Some(v1::TableEntry {
            table_id: self.p4info_id,
            r#match: matches.collect(),
            action: Some(TableAction {
                r#type: Some(table_action::Type::Action(v1::Action {
                    action_id: *action_id,
                    params: params.collect(),
                })),
            }),
            priority: priority.map_or(0, reversed_priority),
            ..v1::TableEntry::default()
        })
    }
}

fn pair(action: &Action, specs: &[ActionSpec]) -> Result<ActionPair, TranslationError> {
    let name = action.preamble.as_ref().map_or("", |own| &own.name);
    let spec = specs.iter().find(|spec| spec.name == name);
    let spec = spec.ok_or_else(|| missing("action", name))?;
    let params = action.params.iter().map(|param| {
        let own = spec.data.iter().find_map(|data| match data {
            ActionData::Param(own) if own.name == param.name => Some(own),
            _ => None,
        });
        let own = own.ok_or_else(|| missing("parameter", &format!("{name}.{}", param.name)))?;
        let bits = own.ty.bits().unwrap_or(0);
        Ok((param.id, Field { id: own.id, bits }))
    });
    Ok(ActionPair {
        id: spec.id,
        params: params.collect::<Result<_, _>>()?,
    })
}

fn key_value(field: Field, given: &FieldMatch) -> Result<key_field::MatchType, Status> {
    use field_match::FieldMatchType as From;
    use key_field::MatchType as To;
    Ok(match given.field_match_type.as_ref() {
        Some(From::Exact(exact)) => To::Exact(key_field::Exact {
            value: field.padded(&exact.value)?,
        }),
        Some(From::Ternary(ternary)) => To::Ternary(key_field::Ternary {
            value: field.padded(&ternary.value)?,
            mask: field.padded(&ternary.mask)?,
        }),
        Some(From::Lpm(lpm)) => To::Lpm(key_field::Lpm {
            value: field.padded(&lpm.value)?,
            prefix_len: lpm.prefix_len,
        }),
        Some(From::Range(range)) => To::Range(key_field::Range {
            low: field.padded(&range.low)?,
            high: field.padded(&range.high)?,
        }),
        Some(From::Optional(optional)) => To::Optional(key_field::Optional {
            value: field.padded(&optional.value)?,
            is_valid: true,
        }),
        Some(From::Other(_)) | None => return Err(invalid("the match field has no value")),
    })
}

/// Converts a key field that was read; `None` if it matches any value, since P4Runtime then omits it.
fn parsed_key(given: &KeyField) -> Option<field_match::FieldMatchType> {
    use field_match::FieldMatchType as To;
    use key_field::MatchType as From;
    let short = |bytes: &[u8]| bytestring::canonical(bytes).to_vec();
    Some(match given.match_type.as_ref()? {
        From::Exact(exact) => To::Exact(field_match::Exact {
            value: short(&exact.value),
        }),
        From::Ternary(ternary) if ternary.mask.iter().all(|byte| *byte == 0) => return None,
        From::Ternary(ternary) => To::Ternary(field_match::Ternary {
            value: short(&ternary.value),
            mask: short(&ternary.mask),
        }),
        From::Lpm(lpm) if lpm.prefix_len == 0 => return None,
        From::Lpm(lpm) => To::Lpm(field_match::Lpm {
            value: short(&lpm.value),
            prefix_len: lpm.prefix_len,
        }),
        From::Range(range) => To::Range(field_match::Range {
            low: short(&range.low),
            high: short(&range.high),
        }),
        From::Optional(optional) if !optional.is_valid => return None,
        From::Optional(optional) => To::Optional(field_match::Optional {
            value: short(&optional.value),
        }),
    })
}
