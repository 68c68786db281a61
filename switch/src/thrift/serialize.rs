//! `bm_serialize_state`: entries, action profiles and meters of a switch as text. BMv2 writes its own format, which
//! depends on its memory layout.

use serde_json::{json, Value};

use super::{
    config,
    runtime::{Ports, Runtime},
};
use alfirk_bmv2::{EntryTarget, KeyMatch, MeterConfig, Switch};

/// First line of the text, which identifies its format.
const FORMAT: &str = "alfirk switch state 1";

/// Returns the state of the switch that requests refer to ([`Runtime::switch`]), as text.
pub fn state<P: Ports>(runtime: &Runtime<'_, P>) -> String {
    let switch = runtime.switch();
    let text = json!({
        "format": FORMAT,
        "config_md5": hex(&config::md5(&runtime.config_text())),
        "tables": switch.tables().into_iter().filter_map(|table| self::table(switch, table)).collect::<Vec<_>>(),
        "action_profiles": profiles(switch),
        "meters": meters(switch),
    });
    format!("{text:#}\n")
}

fn table(switch: &Switch, id: alfirk_bmv2::TableId) -> Option<Value> {
    let info = switch.table_info(id).ok()?;
    let entries = switch.entries(id).ok()?.into_iter().map(|entry| {
        json!({
            "handle": entry.handle.0,
            "key": entry.key.iter().map(key).collect::<Vec<_>>(),
            "priority": entry.priority,
            "target": target(&entry.target),
            "timeout_ms": entry.idle_timeout / 1_000_000,
            "meter": entry.meter.map(rates),
        })
    });
    Some(json!({
        "name": info.name,
        "entries": entries.collect::<Vec<_>>(),
        "default": switch.default_entry(id).ok()?.as_ref().map(target),
    }))
}

fn profiles(switch: &Switch) -> Vec<Value> {
    let profile = |id| {
        let members = switch.members(id).ok()?.into_iter().map(|member| {
            json!({ "member": member.id, "action": member.action, "data": list(&member.args) })
        });
        let groups = switch.groups(id).ok()?.into_iter().map(|group| {
            let members: Vec<u32> = group.members.iter().map(|m| m.id).collect();
            json!({ "group": group.id, "members": members })
        });
        Some(json!({
            "name": switch.profile_name(id).ok()?,
            "members": members.collect::<Vec<_>>(),
            "groups": groups.collect::<Vec<_>>(),
        }))
    };
    switch.profiles().into_iter().filter_map(profile).collect()
}

fn meters(switch: &Switch) -> Vec<Value> {
    let indirect = switch.meters().into_iter().filter(|m| m.table.is_none());
    let meter = |meter: alfirk_bmv2::MeterInfo| {
        let cells = (0..meter.size as u64).filter_map(|index| {
            let config = switch.read_meter(&meter.name, index).ok()??;
            Some(json!({ "index": index, "rates": rates(config) }))
        });
        json!({ "name": meter.name, "cells": cells.collect::<Vec<_>>() })
    };
    indirect.map(meter).collect()
}

fn rates(config: MeterConfig) -> Value {
    json!([[config.cir, config.cburst], [config.pir, config.pburst]])
}

fn key(key: &KeyMatch) -> Value {
    match key {
        KeyMatch::Exact { value } => json!({ "exact": hex(value) }),
        KeyMatch::Lpm { value, prefix_len } => json!({ "lpm": hex(value), "prefix": prefix_len }),
        KeyMatch::Ternary { value, mask } => json!({ "ternary": hex(value), "mask": hex(mask) }),
        KeyMatch::Range { low, high } => json!({ "range": [hex(low), hex(high)] }),
        KeyMatch::Valid { value } => json!({ "valid": value }),
    }
}

fn target(target: &EntryTarget) -> Value {
    match target {
        EntryTarget::Action { name, args } => json!({ "action": name, "data": list(args) }),
        EntryTarget::Member(member) => json!({ "member": member }),
        EntryTarget::Group(group) => json!({ "group": group }),
    }
}

fn list(values: &[Vec<u8>]) -> Vec<String> {
    values.iter().map(|value| hex(value)).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
