//! Garbage collection for translated types: frees data plane values that no object uses any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{
    device::Device,
    schema::{Action, Field, Schema, Table},
    translation::{Translation, Use},
};
use alfirk_bmv2::{EntryTarget, KeyMatch};

/// Data plane values that objects use, by the name of the translated type.
#[derive(Default)]
struct UsedValues<'a>(BTreeMap<&'a str, BTreeSet<Vec<u8>>>);

impl<'a> UsedValues<'a> {
    fn value(&mut self, of: Option<&'a Arc<Translation>>, value: &[u8]) {
        if let Some(of) = of {
            let values = self.0.entry(&of.name).or_default();
            values.insert(alfirk_p4runtime::bytestring::canonical(value).to_vec());
        }
    }

    fn args(&mut self, action: Option<&'a Action>, args: &[Vec<u8>]) {
        let params = action.into_iter().flat_map(|action| &action.params);
        for (param, value) in params.zip(args) {
            self.value(param.translation.as_ref(), value);
        }
    }

    fn key(&mut self, fields: &'a [Field], key: &[KeyMatch]) {
        for (field, key) in fields.iter().zip(key) {
            if let KeyMatch::Exact { value } | KeyMatch::Ternary { value, .. } = key {
                self.value(field.translation.as_ref(), value);
            }
        }
    }
}

/// Frees the unused data plane values of translated types, if one of the types has run out of values since the last
/// collection. Returns whether it did.
pub fn collect(device: &Device) -> bool {
    let Some(pipeline) = &device.pipeline else {
        return false;
    };
    let schema = &pipeline.schema;
    if !schema.translations.values().any(|of| of.is_exhausted()) {
        return false;
    }
    let mut used = UsedValues::default();
    for table in schema.tables.values() {
        of_table(device, schema, table, &mut used);
    }
    for profile in schema.profiles.values() {
        let members = profile
            .core
            .and_then(|core| device.switch.members(core).ok());
        for member in members.into_iter().flatten() {
            used.args(schema.action_named(&member.action), &member.args);
        }
    }
    for (id, members) in &pipeline.value_sets {
        let Some(set) = schema.value_sets.get(id) else {
            continue;
        };
        for member in members {
            if let Ok(key) = crate::keys::parse(&set.name, &set.fields, &member.r#match, Use::Find)
            {
                used.key(&set.fields, &key);
            }
        }
    }
    for (name, translation) in &schema.translations {
        let values = used.0.get(name.as_str());
        translation.retain(|data| values.is_some_and(|values| values.contains(data)));
    }
    true
}

fn of_table<'a>(device: &Device, schema: &'a Schema, table: &'a Table, used: &mut UsedValues<'a>) {
    let Some(core) = table.core.filter(|_| schema.translates(table)) else {
        return;
    };
    for handle in device.switch.entry_handles(core).unwrap_or_default() {
        let Ok(entry) = device.switch.entry(core, handle) else {
            continue;
        };
        used.key(&table.fields, &entry.key);
        if let EntryTarget::Action { name, args } = &entry.target {
            used.args(schema.action_named(name), args);
        }
    }
    if let Ok(Some(EntryTarget::Action { name, args })) = device.switch.default_entry(core) {
        used.args(schema.action_named(&name), &args);
    }
}

/// Reserves the data plane values that the program's own entries use, so that they are not allocated for controllers'
/// values.
pub fn reserve(device: &Device) {
    let Some(pipeline) = &device.pipeline else {
        return;
    };
    let schema = &pipeline.schema;
    if schema.translations.is_empty() {
        return;
    }
    let mut used = UsedValues::default();
    for table in schema.tables.values() {
        of_table(device, schema, table, &mut used);
    }
    for (name, values) in used.0 {
        if let Some(translation) = schema.translations.get(name) {
            values.iter().for_each(|value| translation.reserve(value));
        }
    }
}
