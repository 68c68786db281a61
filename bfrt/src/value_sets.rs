//! Parser value sets.

use alfirk_bf_rt_json::{KeyField as KeySpec, Table};
use alfirk_bmv2::{Switch, ValueSetMember};
use alfirk_p4runtime::bfrt_proto::{
    key_field::{MatchType as Match, Ternary},
    KeyField, TableData, TableKey,
};

use crate::error::{core, exists, invalid, not_found, Outcome};
use crate::match_table::prefix_mask;
use crate::pre::Entry;
use crate::program::own_name;
use crate::values::{self, bits_of, check_width, joined_values};

/// A parser value set of the schema and of the switch.
pub(crate) struct ValueSet<'p> {
    table: &'p Table,
    name: &'p str,
}

impl<'p> ValueSet<'p> {
    pub fn new(table: &'p Table) -> ValueSet<'p> {
        ValueSet {
            name: own_name(&table.name),
            table,
        }
    }

    fn key_fields(&self) -> impl DoubleEndedIterator<Item = (&'p KeySpec, u32)> {
        let fields = self.table.match_keys();
        fields.map(|field| (field, field.ty.bits().unwrap_or(8)))
    }

    /// Adds a member, or removes it.
    pub fn write(&self, switch: &mut Switch, key: &TableKey, is_delete: bool) -> Outcome {
        let member = self.member(key)?;
        let mut all = switch.value_set_members(self.name).map_err(core)?.to_vec();
        let at = all.iter().position(|own| is_same(own, &member));
        match (is_delete, at) {
            (true, Some(at)) => drop(all.remove(at)),
            (true, None) => return Err(self.absent()),
            (false, Some(_)) => return Err(exists("the parser value set has this value")),
            (false, None) => all.push(member),
        }
        switch.set_value_set_members(self.name, all).map_err(core)
    }

    /// Removes all members.
    pub fn clear(&self, switch: &mut Switch) -> Outcome {
        switch.set_value_set(self.name, &[]).map_err(core)
    }

    /// The member with a key; `None`: all members.
    pub fn read(&self, switch: &Switch, key: Option<&TableKey>) -> Outcome<Vec<Entry>> {
        let wanted = key.map(|key| self.member(key)).transpose()?;
        let all = switch.value_set_members(self.name).map_err(core)?.iter();
        let all = all.filter(|own| wanted.as_ref().is_none_or(|wanted| is_same(own, wanted)));
        let all: Vec<Entry> = all
            .map(|member| (self.key(member), TableData::default()))
            .collect();
        match all.is_empty() && wanted.is_some() {
            true => Err(self.absent()),
            false => Ok(all),
        }
    }

    fn absent(&self) -> alfirk_p4runtime::Status {
        not_found("the parser value set has no such value")
    }

    /// The member that a key describes. It has no mask if all bits are compared.
    fn member(&self, key: &TableKey) -> Outcome<ValueSetMember> {
        let fields = values::key_fields(key);
        let (mut parts, mut masks) = (Vec::new(), Vec::new());
        for (field, bits) in self.key_fields() {
            let given = fields.get(&field.id);
            let (value, mask) = match given.and_then(|given| given.match_type.as_ref()) {
                Some(Match::Ternary(ternary)) => {
                    check_width(&ternary.value, bits, &field.name)?;
                    check_width(&ternary.mask, bits, &field.name)?;
                    let masked = ternary.value.iter().zip(&ternary.mask);
                    (masked.map(|(v, m)| v & m).collect(), ternary.mask.clone())
                }
                Some(Match::Exact(exact)) => {
                    check_width(&exact.value, bits, &field.name)?;
                    (exact.value.clone(), prefix_mask(bits, bits))
                }
                _ => {
                    return Err(invalid(format!(
                        "parser value set {}: the field {} is missing",
                        self.table.name, field.name
                    )))
                }
            };
            parts.push((bits, value));
            masks.push((bits, mask));
        }
        let is_full = masks
            .iter()
            .all(|(bits, mask)| *mask == prefix_mask(*bits, *bits));
        Ok(ValueSetMember {
            value: joined_values(&parts),
            mask: (!is_full).then(|| joined_values(&masks)),
        })
    }

    /// The key that describes a member.
    fn key(&self, member: &ValueSetMember) -> TableKey {
        let mut low = 0;
        let fields = self.key_fields().rev().map(|(field, bits)| {
            let value = bits_of(&member.value, low, bits);
            let mask = match &member.mask {
                Some(mask) => bits_of(mask, low, bits),
                None => prefix_mask(bits, bits),
            };
            low += bits;
            KeyField {
                field_id: field.id,
                match_type: Some(Match::Ternary(Ternary { value, mask })),
            }
        });
        let mut fields: Vec<KeyField> = fields.collect();
        fields.reverse();
        TableKey { fields }
    }
}

/// Whether two members are equal. Other control planes write values without leading zeros.
fn is_same(a: &ValueSetMember, b: &ValueSetMember) -> bool {
    let number = |bytes: &[u8]| {
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        bytes[zeros..].to_vec()
    };
    let mask = |member: &ValueSetMember| member.mask.as_deref().map(number);
    number(&a.value) == number(&b.value) && mask(a) == mask(b)
}
