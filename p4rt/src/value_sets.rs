//! Updates and reads of parser value sets (P4Runtime § 9.6).

use alfirk_p4runtime::{
    bytestring,
    p4::v1::{entity::Entity as Kind, update::Type, ValueSetEntry, ValueSetMember},
};

use super::{
    error::{core_error, exhausted, exists, invalid, unimplemented, UpdateResult},
    keys,
    schema::{MatchKind, ValueSet},
    scope::{only_modify, EntityVisitor, Scope, View},
    translation::Use,
};
use alfirk_bmv2::KeyMatch;

pub fn write(scope: &mut Scope<'_>, kind: Type, entry: &ValueSetEntry) -> UpdateResult {
    only_modify(kind, "value sets")?;
    let id = entry.value_set_id;
    let schema = scope.pipeline.schema.clone();
    let set = schema
        .value_sets
        .get(&id)
        .ok_or_else(|| invalid(format!("no value set has id {id:#010x}")))?;
    let name = &set.name;
    if !set.present {
        return Err(unimplemented(format!(
            "value set {name} is not in the device config"
        )));
    }
    if entry.members.len() as u64 > set.size {
        return Err(exhausted(format!(
            "value set {name}: the limit is {} members",
            set.size
        )));
    }
    let mut values: Vec<Vec<u8>> = Vec::with_capacity(entry.members.len());
    let mut members = Vec::with_capacity(entry.members.len());
    for member in &entry.members {
        let key = keys::parse(name, &set.fields, &member.r#match, Use::Write)?;
        let value = concatenate(set, &key)?;
        if values.contains(&value) {
            return Err(exists(format!("value set {name}: a member occurs twice")));
        }
        values.push(value);
        members.push(ValueSetMember {
            r#match: keys::print(&set.fields, &key),
        });
    }
    scope
        .switch
        .set_value_set(name, &values)
        .map_err(core_error)?;
    scope.pipeline.value_sets.insert(id, members);
    Ok(())
}

pub fn read(view: View<'_>, filter: &ValueSetEntry, found: EntityVisitor<'_>) -> UpdateResult {
    let id = filter.value_set_id;
    let sets = &view.pipeline.schema.value_sets;
    if id != 0 && !sets.contains_key(&id) {
        return Err(invalid(format!("no value set has id {id:#010x}")));
    }
    for &value_set_id in sets.keys().filter(|&&set| id == 0 || id == set) {
        let members = match view.pipeline.value_sets.get(&value_set_id) {
            Some(members) => members.clone(),
            None => external_members(view, &sets[&value_set_id]),
        };
        found(Kind::ValueSetEntry(ValueSetEntry {
            value_set_id,
            members,
        }));
    }
    Ok(())
}

/// Returns the members of a parser value set that another service than P4Runtime has written.
fn external_members(view: View<'_>, set: &ValueSet) -> Vec<ValueSetMember> {
    let values = view.switch.value_set(&set.name).unwrap_or_default();
    let member = |value: &Vec<u8>| {
        // Starts with the last field, which ends with the last bit.
        let mut end = 0;
        let mut key: Vec<KeyMatch> = Vec::new();
        for field in set.fields.iter().rev() {
            key.push(KeyMatch::Exact {
                value: bits(value, end, field.bits),
            });
            end += field.bits;
        }
        key.reverse();
        ValueSetMember {
            r#match: keys::print(&set.fields, &key),
        }
    };
    values.iter().map(member).collect()
}

/// Extracts `count` bits of a big-endian number. Bit `end`, counted from the least significant bit 0, is the lowest of
/// them. The result is in canonical form.
fn bits(value: &[u8], end: usize, count: usize) -> Vec<u8> {
    let mut taken = vec![0; count.div_ceil(8).max(1)];
    for bit in 0..count {
        let from = end + bit;
        let Some(byte) = value.len().checked_sub(1 + from / 8) else {
            break;
        };
        let last = taken.len() - 1;
        taken[last - bit / 8] |= (value[byte] >> (from % 8) & 1) << (bit % 8);
    }
    bytestring::canonical(&taken).to_vec()
}

/// Concatenates the values of all fields of a member to one number, which the parser compares.
fn concatenate(set: &ValueSet, key: &[KeyMatch]) -> UpdateResult<Vec<u8>> {
    let total: usize = set.fields.iter().map(|field| field.bits).sum();
    let mut bytes = vec![0; total.div_ceil(8)];
    let mut end = total;
    // From the last field, which ends with the last bit.
    for (field, key) in set.fields.iter().zip(key).rev() {
        let (MatchKind::Exact, KeyMatch::Exact { value }) = (field.kind, key) else {
            return Err(unimplemented(format!(
                "value set {}: field {}: only exact matches are supported",
                set.name, field.name
            )));
        };
        let padded = bytestring::pad(value, field.bits)
            .map_err(|error| invalid(format!("value set {}: {error}", set.name)))?;
        for bit in 0..field.bits {
            let set = padded[padded.len() - 1 - bit / 8] >> (bit % 8) & 1;
            let at = total - end + bit;
            let byte = bytes.len() - 1 - at / 8;
            bytes[byte] |= set << (at % 8);
        }
        end -= field.bits;
    }
    Ok(bytes)
}
