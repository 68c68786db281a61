//! The table entries of a program, as P4Runtime write requests (P4Runtime § 9.1).

use alfirk_p4runtime::p4::config::v1::p4_ids::Prefix;
use alfirk_p4runtime::p4::v1 as p4;
use num_bigint::BigInt;
use p4::field_match::{self, FieldMatchType};

use super::order::Listing;
use super::types::byte_string;
use super::{ids::field_ids, symbols_of};
use crate::ir::{Entry, EntryKey, Key, MatchKind, ObjectKind, Objects, Table};

/// A write request with one insertion for each entry of the tables that are visible to the control plane, in source
/// order.
///
/// Values have as many bytes as their type, as p4c writes them. Priorities are those of the program; if the program has
/// none, the first entry has the largest. Only tables that need priorities have them: P4Runtime rejects them elsewhere.
pub fn entries(program: &Objects) -> p4::WriteRequest {
    let mut symbols = symbols_of(program);
    // Duplicate ids are reported when the P4Info is generated.
    symbols.assign();
    let tables =
        Listing::of(program).sorted(ObjectKind::Table, &program.tables, |table| &table.meta);
    let updates = tables.into_iter().flat_map(|table| {
        let table_id = symbols.id(Prefix::Table, &table.meta.name);
        let ids = ids_of(table.keys.iter().map(|key| key.id));
        let prioritized = table.needs_priority();
        let symbols = &symbols;
        table.entries.iter().map(move |entry| {
            let action = program.action(entry.action);
            let params = ids_of(action.params.iter().map(|param| param.id))
                .into_iter()
                .zip(&action.params)
                .zip(&entry.args)
                .map(|((param_id, param), value)| p4::action::Param {
                    param_id,
                    value: byte_string(value, param.control_width),
                })
                .collect();
            let action = p4::Action {
                action_id: symbols.id(Prefix::Action, &action.meta.name),
                params,
            };
            insertion(p4::TableEntry {
                table_id,
                r#match: matches(&ids, table, entry),
                action: Some(p4::TableAction {
                    r#type: Some(p4::table_action::Type::Action(action)),
                }),
                priority: if prioritized {
                    entry.control_priority
                } else {
                    0
                },
                is_const: entry.constant,
                ..Default::default()
            })
        })
    });
    p4::WriteRequest {
        updates: updates.collect(),
        ..Default::default()
    }
}

fn insertion(entry: p4::TableEntry) -> p4::Update {
    p4::Update {
        r#type: p4::update::Type::Insert.into(),
        entity: Some(p4::Entity {
            entity: Some(p4::entity::Entity::TableEntry(entry)),
        }),
    }
}

/// Ids of keys or parameters; duplicates are reported when the P4Info is generated.
fn ids_of(explicit: impl Iterator<Item = Option<u32>>) -> Vec<u32> {
    field_ids(&explicit.collect::<Vec<_>>()).unwrap_or_default()
}

/// The match fields of an entry. Keys that match every value are omitted.
fn matches(ids: &[u32], table: &Table, entry: &Entry) -> Vec<p4::FieldMatch> {
    ids.iter()
        .zip(&table.keys)
        .zip(&entry.keys)
        .filter_map(|((id, key), value)| {
            Some(p4::FieldMatch {
                field_id: *id,
                field_match_type: Some(field_match(key, value)?),
            })
        })
        .collect()
}

fn field_match(key: &Key, value: &EntryKey) -> Option<FieldMatchType> {
    let bytes = |value: &BigInt| byte_string(value, key.control_width);
    Some(match value {
        EntryKey::Exact(value) => FieldMatchType::Exact(field_match::Exact {
            value: bytes(value),
        }),
        EntryKey::Lpm(_, 0) => return None,
        EntryKey::Lpm(value, length) => FieldMatchType::Lpm(field_match::Lpm {
            value: bytes(value),
            prefix_len: i32::try_from(*length).unwrap_or(i32::MAX),
        }),
        EntryKey::Ternary(_, mask) if *mask == BigInt::ZERO => return None,
        EntryKey::Ternary(value, _) if key.kind == MatchKind::Optional => {
            FieldMatchType::Optional(field_match::Optional {
                value: bytes(value),
            })
        }
        EntryKey::Ternary(value, mask) => FieldMatchType::Ternary(field_match::Ternary {
            value: bytes(value),
            mask: bytes(mask),
        }),
        EntryKey::Range(low, high)
            if *low == BigInt::ZERO && high.bits() == u64::from(key.width) && all_ones(high) =>
        {
            return None
        }
        EntryKey::Range(low, high) => FieldMatchType::Range(field_match::Range {
            low: bytes(low),
            high: bytes(high),
        }),
    })
}

fn all_ones(value: &BigInt) -> bool {
    let next = value + 1;
    (&next & value) == BigInt::ZERO
}
