//! Key and data fields of BfRuntime entries.

use alfirk_bf_rt_json::{FieldContent, FieldType, Table};
use alfirk_p4runtime::bfrt_proto::{
    self as bfrt, data_field::Value, entity::Entity as BfKind, key_field,
    table_entry::Value as Key, DataField, KeyField, TableData, TableEntry, TableKey,
};
use alfirk_p4runtime::{bytestring, Status};

use super::{invalid, missing, TranslationError};

/// Id and width in bits of a field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub id: u32,
    pub bits: u32,
}

impl Field {
    pub fn new(id: u32, ty: &FieldType) -> Field {
        Field {
            id,
            // Strings have no width.
            bits: ty.bits().unwrap_or(0),
        }
    }

    /// The key field of a table.
    pub fn key(table: &Table, name: &str) -> Result<Field, TranslationError> {
        let field = table.key.iter().find(|field| field.name == name);
        let field = field.map(|field| Field::new(field.id, &field.ty));
        field.ok_or_else(|| missing("key field", &format!("{}.{name}", table.name)))
    }

    /// The data field of a table, outside actions.
    pub fn data(table: &Table, name: &str) -> Result<Field, TranslationError> {
        let field = table.data_fields().find(|(_, field)| field.name == name);
        let field = field.and_then(|(_, field)| match &field.content {
            FieldContent::Type(ty) => Some(Field::new(field.id, ty)),
            FieldContent::Container(_) => None,
        });
        field.ok_or_else(|| missing("data field", &format!("{}.{name}", table.name)))
    }

    /// The value with a number of bytes that fits the width of the field.
    pub fn padded(self, value: &[u8]) -> Result<Vec<u8>, Status> {
        let padded = bytestring::pad(value, self.bits as usize);
        padded.map_err(|error| invalid(error.to_string()))
    }

    /// The key field with an exact value.
    pub fn exact(self, value: u64) -> Result<KeyField, Status> {
        let value = self.padded(&value.to_be_bytes())?;
        Ok(KeyField {
            field_id: self.id,
            match_type: Some(key_field::MatchType::Exact(key_field::Exact { value })),
        })
    }

    /// The data field with a number.
    pub fn number(self, value: u64) -> Result<DataField, Status> {
        let value = self.padded(&value.to_be_bytes())?;
        Ok(self.with(Value::Stream(value)))
    }

    /// The data field with a value.
    pub fn with(self, value: Value) -> DataField {
        DataField {
            field_id: self.id,
            value: Some(value),
        }
    }

    /// The value of this field in the data of an entry.
    pub fn value(self, data: Option<&TableData>) -> Option<&Value> {
        let fields = &data?.fields;
        let field = fields.iter().find(|field| field.field_id == self.id)?;
        field.value.as_ref()
    }

    /// The number in this field of the data of an entry.
    pub fn number_in(self, data: Option<&TableData>) -> Option<u64> {
        match self.value(data)? {
            Value::Stream(bytes) => number(bytes),
            _ => None,
        }
    }

    /// The number in this exact field of a key.
    pub fn number_in_key(self, key: &TableKey) -> Option<u64> {
        let field = key.fields.iter().find(|field| field.field_id == self.id)?;
        match field.match_type.as_ref()? {
            key_field::MatchType::Exact(exact) => number(&exact.value),
            _ => None,
        }
    }
}

/// A big-endian number; `None` if it has more than 64 bits.
fn number(bytes: &[u8]) -> Option<u64> {
    let value = bytestring::decode(bytes, 64).ok()?;
    u64::try_from(value).ok()
}

/// An entry with a key, and with data without an action.
pub(super) fn entry(table: u32, key: KeyField, fields: Vec<DataField>) -> TableEntry {
    TableEntry {
        data: Some(TableData {
            action_id: 0,
            fields,
        }),
        ..key_entry(table, key)
    }
}

/// An entry with a key alone, as deletions and reads need it.
pub(super) fn key_entry(table: u32, key: KeyField) -> TableEntry {
    TableEntry {
        table_id: table,
        value: Some(Key::Key(TableKey { fields: vec![key] })),
        ..TableEntry::default()
    }
}

/// The entity that reads all entries of a table.
pub(super) fn all_entries(table: u32) -> bfrt::Entity {
    to_read(TableEntry {
        table_id: table,
        ..TableEntry::default()
    })
}

/// The entity that reads an entry. Counters and registers are read from the chip, not from the driver's copy.
pub(super) fn to_read(entry: TableEntry) -> bfrt::Entity {
    bfrt::Entity {
        entity: Some(BfKind::TableEntry(TableEntry {
            table_flags: Some(bfrt::TableFlags {
                from_hw: true,
                ..bfrt::TableFlags::default()
            }),
            ..entry
        })),
    }
}
