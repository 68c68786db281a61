//! Lookup of ids by name in P4Info.

use std::collections::BTreeMap;

use alfirk_p4runtime::bytestring;
use alfirk_p4runtime::p4::config::v1::{
    match_field::{Match, MatchType},
    Action, ControllerPacketMetadata, P4Info, Register, Table,
};
use alfirk_p4runtime::p4::v1::{
    action, field_match, table_action, Action as ActionMessage, FieldMatch, TableAction, TableEntry,
};

use super::constraints::AnnotationError;

/// Error: the P4 program does not have the tables, actions or headers that this controller needs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// P4Info has no object of this kind and name.
    #[error(
        "P4Info has no {kind} `{name}`; compile p4src/ of the same version as this controller"
    )]
    Missing {
        /// Kind of the missing object: `table`, `action`, `match field`, ...
        kind: &'static str,
        /// Full name of the object. Parts have their owner as prefix, as in `table.key`.
        name: String,
    },
    /// A field or parameter has an unexpected width.
    #[error("P4Info: {name} has {given} bits, not {expected}; compile p4src/ of the same version as this controller")]
    Width {
        /// Name of the field or parameter, with its owner as prefix.
        name: String,
        /// Width in P4Info, in bits.
        given: i32,
        /// Width that the controller expects, in bits.
        expected: i32,
    },
    /// A match field has an unexpected match kind.
    #[error("P4Info: the match kind of {name} is not {expected}; compile p4src/ of the same version as this controller")]
    MatchKind {
        /// Name of the field or parameter, with its owner as prefix.
        name: String,
        /// Match kind that the controller uses: `exact` or `lpm`.
        expected: &'static str,
    },
    /// A table, action, header or meter has an unexpected number of parts.
    #[error("P4Info: {name} has {given} {parts}, not {expected}; compile p4src/ of the same version as this controller")]
    Count {
        /// Kind and name of the object, such as `action NAME`.
        name: String,
        /// Kind of the parts: `match fields`, `parameters`, `metadata fields` or `cells`.
        parts: &'static str,
        /// Number of parts in P4Info.
        given: usize,
        /// Number of parts that the controller expects.
        expected: usize,
    },
    /// A constraint annotation cannot be parsed.
    #[error(transparent)]
    Annotation(#[from] AnnotationError),
    /// The number of groups or of paths for which the program was compiled is out of range.
    #[error("P4Info: {groups} groups with {paths} paths each; this controller handles 1 to 32768 groups with 1 to 128 paths")]
    Sizes {
        /// Number of groups per switch, from P4Info.
        groups: u32,
        /// Number of paths per group and switch, from P4Info.
        paths: u32,
    },
}

/// Lookup of P4Info objects (tables, actions, counters, registers) by name.
pub(super) struct Schema<'a> {
    p4info: &'a P4Info,
}

/// Names of tables by id, for messages.
#[derive(Clone, Debug)]
pub(super) struct TableNames(BTreeMap<u32, String>);

impl TableNames {
    pub(super) fn table(&self, id: u32) -> Option<&str> {
        self.0.get(&id).map(String::as_str)
    }
}

impl<'a> Schema<'a> {
    pub(super) fn new(p4info: &'a P4Info) -> Schema<'a> {
        Schema { p4info }
    }

    pub(super) fn names(&self) -> TableNames {
        let names = self.p4info.tables.iter().filter_map(|table| {
            let preamble = table.preamble.as_ref()?;
            Some((preamble.id, preamble.name.clone()))
        });
        TableNames(names.collect())
    }

    pub(super) fn table(&self, name: &str) -> Result<TableSchema<'a>, ProgramError> {
        let table = self
            .p4info
            .tables
            .iter()
            .find(|t| t.preamble.as_ref().is_some_and(|p| p.name == name))
            .ok_or_else(|| missing("table", name))?;
        Ok(TableSchema {
            name: name.to_owned(),
            table,
        })
    }

    /// Looks up an action and all its parameters (name and width in bits); ids are returned in the given order.
    pub(super) fn action<const N: usize>(
        &self,
        name: &str,
        params: [(&str, i32); N],
    ) -> Result<ActionIds<N>, ProgramError> {
        let action: &Action = self
            .p4info
            .actions
            .iter()
            .find(|a| a.preamble.as_ref().is_some_and(|p| p.name == name))
            .ok_or_else(|| missing("action", name))?;
        if action.params.len() != N {
            return Err(ProgramError::Count {
                name: format!("action {name}"),
                parts: "parameters",
                given: action.params.len(),
                expected: N,
            });
        }
        let mut ids = [0; N];
        for (id, (param, width)) in ids.iter_mut().zip(params) {
            let full = || format!("{name}.{param}");
            let found = action
                .params
                .iter()
                .find(|p| p.name == param)
                .ok_or_else(|| missing("parameter", &full()))?;
            check_width(full, found.bitwidth, width)?;
            *id = found.id;
        }
        Ok(ActionIds {
            id: action.preamble.as_ref().map_or(0, |p| p.id),
            params: ids,
        })
    }

    /// Id of a counter array.
    pub(super) fn counter(&self, name: &str) -> Result<u32, ProgramError> {
        let mut preambles = self
            .p4info
            .counters
            .iter()
            .filter_map(|c| c.preamble.as_ref());
        let preamble = preambles.find(|p| p.name == name);
        preamble
            .map(|p| p.id)
            .ok_or_else(|| missing("counter", name))
    }

    /// Id of a meter array, which must have the given number of cells.
    pub(super) fn meter(&self, name: &str, cells: u32) -> Result<u32, ProgramError> {
        let mut meters = self.p4info.meters.iter();
        let meter = meters
            .find(|m| m.preamble.as_ref().is_some_and(|p| p.name == name))
            .ok_or_else(|| missing("meter", name))?;
        match meter.size == i64::from(cells) {
            true => Ok(meter.preamble.as_ref().map_or(0, |p| p.id)),
            false => Err(ProgramError::Count {
                name: format!("meter {name}"),
                parts: "cells",
                given: usize::try_from(meter.size).unwrap_or(0),
                expected: cells as usize,
            }),
        }
    }

    /// Number of cells of a register array.
    pub(super) fn register_size(&self, name: &str) -> Result<u32, ProgramError> {
        Ok(u32::try_from(self.find_register(name)?.size).unwrap_or(0))
    }

    /// Id of a register array.
    pub(super) fn register(&self, name: &str) -> Result<u32, ProgramError> {
        let register = self.find_register(name)?;
        Ok(register.preamble.as_ref().map_or(0, |p| p.id))
    }

    fn find_register(&self, name: &str) -> Result<&'a Register, ProgramError> {
        let mut registers = self.p4info.registers.iter();
        registers
            .find(|r| r.preamble.as_ref().is_some_and(|p| p.name == name))
            .ok_or_else(|| missing("register", name))
    }

    /// Looks up a controller header and all its fields (name and width in bits); ids are returned in the given order.
    pub(super) fn packet_header<const N: usize>(
        &self,
        name: &str,
        fields: [(&str, i32); N],
    ) -> Result<[u32; N], ProgramError> {
        let header: &ControllerPacketMetadata = self
            .p4info
            .controller_packet_metadata
            .iter()
            .find(|h| h.preamble.as_ref().is_some_and(|p| p.name == name))
            .ok_or_else(|| missing("controller header", name))?;
        if header.metadata.len() != N {
            return Err(ProgramError::Count {
                name: format!("controller header {name}"),
                parts: "metadata fields",
                given: header.metadata.len(),
                expected: N,
            });
        }
        let mut ids = [0; N];
        for (id, (field, width)) in ids.iter_mut().zip(fields) {
            let full = || format!("{name}.{field}");
            let found = header
                .metadata
                .iter()
                .find(|m| m.name == field)
                .ok_or_else(|| missing("metadata field", &full()))?;
            check_width(full, found.bitwidth, width)?;
            *id = found.id;
        }
        Ok(ids)
    }
}

/// Result of a lookup of an object that a program may lack: `None` if it is missing.
pub(super) fn optional<T>(found: Result<T, ProgramError>) -> Result<Option<T>, ProgramError> {
    match found {
        Err(ProgramError::Missing { .. }) => Ok(None),
        found => found.map(Some),
    }
}

fn missing(kind: &'static str, name: &str) -> ProgramError {
    ProgramError::Missing {
        kind,
        name: name.to_owned(),
    }
}

fn check_width(name: impl Fn() -> String, given: i32, expected: i32) -> Result<(), ProgramError> {
    match given == expected {
        true => Ok(()),
        false => Err(ProgramError::Width {
            name: name(),
            given,
            expected,
        }),
    }
}

/// One table of P4Info.
pub(super) struct TableSchema<'a> {
    name: String,
    table: &'a Table,
}

impl TableSchema<'_> {
    /// Number of entries that the table can hold, at least 1.
    pub(super) fn size(&self) -> Result<u32, ProgramError> {
        match u32::try_from(self.table.size) {
            Ok(size) if size > 0 => Ok(size),
            _ => Err(ProgramError::Missing {
                kind: "size of table",
                name: self.name.clone(),
            }),
        }
    }

    /// Looks up all match fields (name, match kind, width in bits); ids are returned in the given order.
    pub(super) fn key<const N: usize>(
        &self,
        fields: [(&str, MatchType, i32); N],
    ) -> Result<KeyIds<N>, ProgramError> {
        if self.table.match_fields.len() != N {
            return Err(ProgramError::Count {
                name: format!("table {}", self.name),
                parts: "match fields",
                given: self.table.match_fields.len(),
                expected: N,
            });
        }
        let mut ids = [0; N];
        for (id, (field, kind, width)) in ids.iter_mut().zip(fields) {
            let full = || format!("{}.{field}", self.name);
            let found = self
                .table
                .match_fields
                .iter()
                .find(|m| m.name == field)
                .ok_or_else(|| missing("match field", &full()))?;
            if found.r#match != Some(Match::MatchType(kind.into())) {
                return Err(ProgramError::MatchKind {
                    name: full(),
                    expected: match kind {
                        MatchType::Lpm => "lpm",
                        _ => "exact",
                    },
                });
            }
            check_width(full, found.bitwidth, width)?;
            *id = found.id;
        }
        Ok(KeyIds {
            table: self.table.preamble.as_ref().map_or(0, |p| p.id),
            fields: ids,
        })
    }
}

/// Ids of a table and of its match fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyIds<const N: usize> {
    table: u32,
    fields: [u32; N],
}

impl<const N: usize> KeyIds<N> {
    /// Creates an entry, without an action, that matches all fields exactly.
    pub(super) fn exact(&self, values: [u64; N]) -> TableEntry {
        let fields = self.fields.iter().zip(values);
        let matches = fields.map(|(id, value)| FieldMatch {
            field_id: *id,
            field_match_type: Some(field_match::FieldMatchType::Exact(field_match::Exact {
                value: bytestring::encode(value),
            })),
        });
        TableEntry {
            table_id: self.table,
            r#match: matches.collect(),
            ..TableEntry::default()
        }
    }
}

impl<const N: usize> KeyIds<N> {
    /// Id of the table.
    pub(super) fn table(&self) -> u32 {
        self.table
    }

    /// Values of the exact match fields of an entry; `None` if the entry is of another table or lacks a field.
    pub(super) fn values(&self, entry: &TableEntry) -> Option<[u64; N]> {
        if entry.table_id != self.table {
            return None;
        }
        let mut values = [0; N];
        for (value, id) in values.iter_mut().zip(self.fields) {
            let field = entry.r#match.iter().find(|m| m.field_id == id)?;
            *value = match field.field_match_type.as_ref()? {
                field_match::FieldMatchType::Exact(exact) => number(&exact.value)?,
                _ => return None,
            };
        }
        Some(values)
    }
}

fn number(bytes: &[u8]) -> Option<u64> {
    u64::try_from(bytestring::decode(bytes, 64).ok()?).ok()
}

impl KeyIds<1> {
    /// Value and prefix length of the LPM field of an entry; `None` if the entry is of another table.
    pub(super) fn prefix(&self, entry: &TableEntry) -> Option<(u32, u8)> {
        if entry.table_id != self.table {
            return None;
        }
        let Some(field) = entry.r#match.first() else {
            return Some((0, 0));
        };
        match field.field_match_type.as_ref()? {
            field_match::FieldMatchType::Lpm(lpm) if field.field_id == self.fields[0] => Some((
                u32::try_from(number(&lpm.value)?).ok()?,
                u8::try_from(lpm.prefix_len).ok()?,
            )),
            _ => None,
        }
    }

    /// Creates an entry, without an action, that matches a prefix; bits beyond the prefix are cleared. A prefix of 0 bits is an
    /// omitted match field, P4Runtime's form of "don't care".
    pub(super) fn lpm(&self, value: u32, prefix_len: u8) -> TableEntry {
        let mask = u32::MAX
            .checked_shl(32 - u32::from(prefix_len.min(32)))
            .unwrap_or(0);
        let field = FieldMatch {
            field_id: self.fields[0],
            field_match_type: Some(field_match::FieldMatchType::Lpm(field_match::Lpm {
                value: bytestring::encode(value & mask),
                prefix_len: i32::from(prefix_len),
            })),
        };
        TableEntry {
            table_id: self.table,
            r#match: match prefix_len {
                0 => Vec::new(),
                _ => vec![field],
            },
            ..TableEntry::default()
        }
    }
}

/// Ids of an action and of its parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct ActionIds<const N: usize> {
    id: u32,
    params: [u32; N],
}

impl<const N: usize> ActionIds<N> {
    /// Creates a call of the action with these arguments.
    pub(super) fn call(&self, values: [u64; N]) -> TableAction {
        let params = self.params.iter().zip(values);
        let action = ActionMessage {
            action_id: self.id,
            params: params
                .map(|(id, value)| action::Param {
                    param_id: *id,
                    value: bytestring::encode(value),
                })
                .collect(),
        };
        TableAction {
            r#type: Some(table_action::Type::Action(action)),
        }
    }

    /// Arguments of an entry's action; `None` if the entry has another action.
    pub(super) fn arguments(&self, entry: &TableEntry) -> Option<[u64; N]> {
        let call = match entry.action.as_ref()?.r#type.as_ref()? {
            table_action::Type::Action(call) if call.action_id == self.id => call,
            _ => return None,
        };
        let mut values = [0; N];
        for (value, id) in values.iter_mut().zip(self.params) {
            let param = call.params.iter().find(|p| p.param_id == id)?;
            *value = number(&param.value)?;
        }
        Some(values)
    }
}
