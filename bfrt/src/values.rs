//! Values of key and data fields.

use std::collections::BTreeMap;

use alfirk_bf_rt_json::{FieldContent, FieldType, Table, TypeName};
use alfirk_p4runtime::bfrt_proto::{
    data_field::{BoolArray, IntArray, Value},
    key_field::{self, MatchType as Match},
    table_entry::Value as Requested,
    DataField, KeyField, TableData, TableEntry, TableKey,
};

use crate::error::{invalid, Outcome};

/// The key in a request for an entry of a table that is not a match-action table; `None` for all entries.
pub(crate) fn requested_key<'r>(
    table: &Table,
    request: &'r TableEntry,
) -> Outcome<Option<&'r TableKey>> {
    match &request.value {
        Some(Requested::Key(key)) => Ok(Some(key)),
        Some(Requested::HandleId(_)) => Err(invalid(format!(
            "table {}: entries have no handles",
            table.name
        ))),
        None => Ok(None),
    }
}

/// A number as big-endian bytes in the width of a type of `bits` bits.
pub(crate) fn bytes_of(value: u64, bits: u32) -> Vec<u8> {
    padded(&value.to_be_bytes(), bits)
}

/// Bytes with zeros in front, or without leading zeros, in the number of bytes of `bits` bits.
pub(crate) fn padded(value: &[u8], bits: u32) -> Vec<u8> {
    let length = (bits as usize).div_ceil(8).max(1);
    let skip = value.len().saturating_sub(length);
    let mut bytes = vec![0; length.saturating_sub(value.len())];
    bytes.extend(&value[skip..]);
    bytes
}

/// The number in big-endian bytes; `None` if it has more than 64 bits.
pub(crate) fn number(bytes: &[u8]) -> Option<u64> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let rest = &bytes[zeros..];
    (rest.len() <= 8).then(|| rest.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))
}

/// The bits of a big-endian number from position `low` on, as big-endian bytes in the width of `bits` bits.
pub(crate) fn bits_of(number: &[u8], low: u32, bits: u32) -> Vec<u8> {
    let length = (bits as usize).div_ceil(8).max(1);
    let mut part = vec![0; length];
    for bit in 0..bits {
        let at = low + bit;
        let byte = number.len().checked_sub(1 + (at / 8) as usize);
        let is_set = byte.is_some_and(|byte| number[byte] >> (at % 8) & 1 == 1);
        if is_set {
            part[length - 1 - (bit / 8) as usize] |= 1 << (bit % 8);
        }
    }
    part
}

/// The concatenation of numbers, each with its width in bits, the first most significant.
pub(crate) fn joined<'n>(
    parts: impl DoubleEndedIterator<Item = (u32, &'n [u8])> + Clone,
) -> Vec<u8> {
    let total: u32 = parts.clone().map(|(bits, _)| bits).sum();
    let length = (total as usize).div_ceil(8).max(1);
    let mut number = vec![0; length];
    let mut low = 0;
    for (bits, part) in parts.rev() {
        for bit in 0..bits {
            let byte = part.len().checked_sub(1 + (bit / 8) as usize);
            if byte.is_some_and(|byte| part[byte] >> (bit % 8) & 1 == 1) {
                let at = low + bit;
                number[length - 1 - (at / 8) as usize] |= 1 << (at % 8);
            }
        }
        low += bits;
    }
    number
}

/// The concatenation of numbers, each with its width in bits, the first most significant.
pub(crate) fn joined_values(parts: &[(u32, Vec<u8>)]) -> Vec<u8> {
    joined(parts.iter().map(|(bits, value)| (*bits, &value[..])))
}

/// Checks the number of bytes of a value, and that it has no ones beyond its width.
pub(crate) fn check_width(value: &[u8], bits: u32, what: &str) -> Outcome {
    let length = (bits as usize).div_ceil(8).max(1);
    if value.len() != length {
        let have = value.len();
        return Err(invalid(format!(
            "{what}: the value has {have} bytes, expected {length}"
        )));
    }
    let unused = (length * 8) as u32 - bits.max(1);
    match u32::from(value[0]).checked_shr(8 - unused.min(8)) {
        Some(0) => Ok(()),
        _ if unused == 0 => Ok(()),
        _ => Err(invalid(format!(
            "{what}: the value does not fit {bits} bits"
        ))),
    }
}

/// The fields of a key by their ids.
pub(crate) fn key_fields(key: &TableKey) -> BTreeMap<u32, &KeyField> {
    key.fields
        .iter()
        .map(|field| (field.field_id, field))
        .collect()
}

/// The number of the exact key field `id` of a table that is not a match-action table.
pub(crate) fn key_number(table: &Table, key: &TableKey, id: u32) -> Outcome<u64> {
    let fields = key_fields(key);
    let name = || format!("table {}: key field {id}", table.name);
    let field = fields
        .get(&id)
        .ok_or_else(|| invalid(format!("{} is missing", name())))?;
    match &field.match_type {
        Some(Match::Exact(exact)) => number(&exact.value)
            .ok_or_else(|| invalid(format!("{}: the value is too wide", name()))),
        _ => Err(invalid(format!("{}: expected an exact value", name()))),
    }
}

/// A key of one exact field.
pub(crate) fn exact_key(id: u32, value: Vec<u8>) -> TableKey {
    exact_keys([(id, value)])
}

/// A key of exact fields, each with its id.
pub(crate) fn exact_keys(fields: impl IntoIterator<Item = (u32, Vec<u8>)>) -> TableKey {
    let fields = fields.into_iter().map(|(field_id, value)| KeyField {
        field_id,
        match_type: Some(Match::Exact(key_field::Exact { value })),
    });
    TableKey {
        fields: fields.collect(),
    }
}

/// Sets data fields of an entry: those that it has are replaced, others added.
pub(crate) fn set_fields<'f>(
    fields: &mut Vec<DataField>,
    new: impl IntoIterator<Item = &'f DataField>,
) {
    for field in new {
        fields.retain(|old| old.field_id != field.field_id);
        fields.push(field.clone());
    }
}

/// Whether data has the truth value `true` in the field `id`.
pub(crate) fn is_true(data: &TableData, id: u32) -> bool {
    let mut fields = data.fields.iter();
    let field = fields.find(|field| field.field_id == id);
    field.is_some_and(|field| field.value == Some(Value::BoolVal(true)))
}

/// Data with a value for the fields that it does not have: 0, false, or the first choice.
pub(crate) fn with_defaults(table: &Table, data: &TableData) -> TableData {
    let mut all = data.clone();
    for (_, field) in table.data_fields() {
        let FieldContent::Type(ty) = &field.content else {
            continue;
        };
        if all.fields.iter().any(|set| set.field_id == field.id) {
            continue;
        }
        let value = match (ty.bits(), ty.name) {
            (_, TypeName::Bool) => Value::BoolVal(false),
            (Some(bits), _) => Value::Stream(bytes_of(0, bits)),
            (None, _) => {
                let choice = ty.choices.as_ref().and_then(|choices| choices.first());
                Value::StrVal(choice.cloned().unwrap_or_default())
            }
        };
        all.fields.push(self::field(field.id, value));
    }
    all
}

/// The data fields of a request by their ids, after a check of their types.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values<'r> {
    values: BTreeMap<u32, &'r Value>,
}

impl<'r> Values<'r> {
    /// Checks data of an entry. `params` has ids, names and types of the fields of the entry's action.
    pub fn new(
        table: &Table,
        params: &[(u32, &str, &FieldType)],
        data: &'r TableData,
    ) -> Outcome<Values<'r>> {
        let mut values = BTreeMap::new();
        for DataField { field_id, value } in &data.fields {
            let param = params.iter().find(|(id, ..)| id == field_id);
            let (name, ty, repeated) = match param {
                Some((_, name, ty)) => (*name, Some(*ty), false),
                None => {
                    let field = table.data_fields().find(|(_, field)| field.id == *field_id);
                    let Some((_, field)) = field else {
                        return Err(invalid(format!(
                            "table {}: no data field has the id {field_id} with this action",
                            table.name
                        )));
                    };
                    let ty = match &field.content {
                        FieldContent::Type(ty) => Some(ty),
                        FieldContent::Container(_) => None,
                    };
                    (&*field.name, ty, field.repeated)
                }
            };
            let Some(value) = value else {
                continue;
            };
            let what = format!("table {}, field {name}", table.name);
            if let Some(ty) = ty {
                check_type(value, ty, repeated, &what)?;
            }
            // A register has a value for each pipe; this switch has one pipe.
            values.entry(*field_id).or_insert(value);
        }
        Ok(Values { values })
    }

    /// Whether the request has the field.
    pub fn has(&self, id: u32) -> bool {
        self.values.contains_key(&id)
    }

    /// The bytes of a field.
    pub fn bytes(&self, id: u32) -> Option<&'r [u8]> {
        match self.values.get(&id)? {
            Value::Stream(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The number of a field, from its bytes.
    pub fn number(&self, id: u32) -> Option<u64> {
        number(self.bytes(id)?)
    }

    /// The truth value of a field.
    pub fn boolean(&self, id: u32) -> Option<bool> {
        match self.values.get(&id)? {
            Value::BoolVal(value) => Some(*value),
            _ => None,
        }
    }

    /// The string of a field.
    pub fn string(&self, id: u32) -> Option<&'r str> {
        match self.values.get(&id)? {
            Value::StrVal(value) => Some(value),
            _ => None,
        }
    }

    /// The floating-point number of a field.
    pub fn float(&self, id: u32) -> Option<f32> {
        match self.values.get(&id)? {
            Value::FloatVal(value) => Some(*value),
            _ => None,
        }
    }

    /// The numbers of a repeated field; empty without the field.
    pub fn numbers(&self, id: u32) -> &'r [u32] {
        match self.values.get(&id) {
            Some(Value::IntArrVal(list)) => &list.val,
            _ => &[],
        }
    }

    /// The truth values of a repeated field; empty without the field.
    pub fn booleans(&self, id: u32) -> &'r [bool] {
        match self.values.get(&id) {
            Some(Value::BoolArrVal(list)) => &list.val,
            _ => &[],
        }
    }
}

fn check_type(value: &Value, ty: &FieldType, repeated: bool, what: &str) -> Outcome {
    let fits = match (value, ty.name, repeated) {
        (Value::FloatVal(_), TypeName::Float, false)
        | (Value::BoolVal(_), TypeName::Bool, false)
        | (Value::BoolArrVal(_), TypeName::Bool, true)
        | (Value::StrArrVal(_), TypeName::String, true)
        // A list of bytes is one value, such as a packet.
        | (Value::Stream(_), TypeName::Bytes, true)
        | (Value::ContainerArrVal(_), _, true) => true,
        (Value::StrVal(text), TypeName::String, false) => {
            let choices = ty.choices.as_ref();
            if choices.is_some_and(|choices| !choices.contains(text)) {
                return Err(invalid(format!(
                    "{what}: {text:?} is not one of its choices"
                )));
            }
            true
        }
        (Value::IntArrVal(_), ..) if repeated => ty.bits().is_some(),
        (Value::Stream(bytes), ..) => match ty.bits() {
            Some(bits) => return check_width(bytes, bits, what),
            None => false,
        },
        _ => false,
    };
    match fits {
        true => Ok(()),
        false => Err(invalid(format!("{what}: the value has the wrong type"))),
    }
}

/// A data field with bytes.
pub(crate) fn stream(id: u32, bytes: Vec<u8>) -> DataField {
    field(id, Value::Stream(bytes))
}

/// A data field with a number of `bits` bits.
pub(crate) fn number_field(id: u32, value: u64, bits: u32) -> DataField {
    stream(id, bytes_of(value, bits))
}

/// A data field.
pub(crate) fn field(id: u32, value: Value) -> DataField {
    DataField {
        field_id: id,
        value: Some(value),
    }
}

/// A repeated data field of numbers.
pub(crate) fn numbers_field(id: u32, values: impl IntoIterator<Item = u32>) -> DataField {
    let val = values.into_iter().collect();
    field(id, Value::IntArrVal(IntArray { val }))
}

/// A repeated data field of truth values.
pub(crate) fn booleans_field(id: u32, values: impl IntoIterator<Item = bool>) -> DataField {
    let val = values.into_iter().collect();
    field(id, Value::BoolArrVal(BoolArray { val }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_joined_and_split() {
        let parts: [(u32, &[u8]); 3] = [(9, &[1, 0x23]), (1, &[1]), (32, &[1, 2, 3, 4])];
        let cell = joined(parts.into_iter());
        assert_eq!(bits_of(&cell, 0, 32), [1, 2, 3, 4]);
        assert_eq!(bits_of(&cell, 32, 1), [1]);
        assert_eq!(bits_of(&cell, 33, 9), [1, 0x23]);
    }

    #[test]
    fn bytes_have_the_width_of_their_type() {
        assert_eq!(bytes_of(0x1ff, 9), [1, 0xff]);
        assert_eq!(padded(&[0, 0, 7], 8), [7]);
        assert_eq!(number(&[0, 0, 1, 2]), Some(0x102));
        assert_eq!(number(&[1, 0, 0, 0, 0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn values_that_are_too_wide_are_refused() {
        assert!(check_width(&[1, 0xff], 9, "f").is_ok());
        assert!(check_width(&[2, 0], 9, "f").is_err());
        assert!(check_width(&[1], 9, "f").is_err());
        assert!(check_width(&[0xff], 8, "f").is_ok());
        assert!(check_width(&[1], 1, "f").is_ok());
        assert!(check_width(&[2], 1, "f").is_err());
    }
}
