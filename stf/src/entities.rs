//! Constructors of P4Runtime messages, and lookup of P4Info objects by name.

use alfirk_bmv2::KeyMatch;
use alfirk_bmv2_json::MatchType;
use alfirk_p4runtime::p4::config::v1::{self as info};
use alfirk_p4runtime::p4::v1::{self as p4, field_match::FieldMatchType};

use crate::keys::{by_suffix, trimmed};
use crate::parse::MeterRates;

/// Returns the P4Info id in an object's preamble; 0 if there is no preamble.
pub fn id(preamble: &Option<info::Preamble>) -> u32 {
    preamble.as_ref().map_or(0, |preamble| preamble.id)
}

/// Returns the full name in an object's preamble; empty if there is no preamble.
pub fn name(preamble: &Option<info::Preamble>) -> &str {
    preamble.as_ref().map_or("", |preamble| &preamble.name)
}

/// Returns the id of the object with this full name or unique suffix. `what`: kind of the object, for error messages.
pub fn find<'i>(
    preambles: impl Iterator<Item = &'i Option<info::Preamble>> + Clone,
    wanted: &str,
    what: &str,
) -> Result<u32, String> {
    let names = preambles.clone().map(|preamble| name(preamble).to_owned());
    let full = by_suffix(names, wanted, what)?;
    let found = preambles
        .into_iter()
        .find(|preamble| name(preamble) == full);
    Ok(found.map_or(0, id))
}

/// Returns the match kind of a key field; exact for an unknown kind.
pub fn match_type(field: &info::MatchField) -> MatchType {
    use info::match_field::MatchType as Kind;
    match &field.r#match {
        Some(info::match_field::Match::MatchType(kind)) => match Kind::try_from(*kind) {
            Ok(Kind::Lpm) => MatchType::Lpm,
            Ok(Kind::Ternary) => MatchType::Ternary,
            Ok(Kind::Range) => MatchType::Range,
            Ok(Kind::Optional) => MatchType::Optional,
            _ => MatchType::Exact,
        },
        _ => MatchType::Exact,
    }
}

/// Builds the P4Runtime match of a key field; `None` for a key that matches every value.
pub fn field_match(
    kind: MatchType,
    bits: u32,
    value: KeyMatch,
) -> Result<Option<FieldMatchType>, String> {
    use p4::field_match::{Exact, Lpm, Optional, Range, Ternary};
    let all = |mask: &[u8]| mask.iter().map(|byte| byte.count_ones()).sum::<u32>() == bits;
    Ok(Some(match value {
        KeyMatch::Exact { value } => FieldMatchType::Exact(Exact {
            value: canonical(&value),
        }),
        KeyMatch::Valid { value } => FieldMatchType::Exact(Exact {
            value: vec![u8::from(value)],
        }),
        KeyMatch::Lpm { prefix_len: 0, .. } => return Ok(None),
        KeyMatch::Lpm { value, prefix_len } => FieldMatchType::Lpm(Lpm {
            value: canonical(&value),
            prefix_len: i32::try_from(prefix_len).unwrap_or(i32::MAX),
        }),
        KeyMatch::Ternary { mask, .. } if trimmed(&mask).is_empty() => return Ok(None),
        KeyMatch::Ternary { value, mask } if kind == MatchType::Optional => {
            match all(&mask) {
                true => FieldMatchType::Optional(Optional {
                    value: canonical(&value),
                }),
                false => return Err(
                    "an optional key matches one value or every value, so a mask is not allowed"
                        .to_owned(),
                ),
            }
        }
        KeyMatch::Ternary { value, mask } => FieldMatchType::Ternary(Ternary {
            value: canonical(&value),
            mask: canonical(&mask),
        }),
        KeyMatch::Range { low, high } if trimmed(&low).is_empty() && all(&high) => return Ok(None),
        KeyMatch::Range { low, high } => FieldMatchType::Range(Range {
            low: canonical(&low),
            high: canonical(&high),
        }),
    }))
}

/// Returns the canonical form of a number: the shortest byte string, but at least one byte (P4Runtime § 8.4.1).
pub fn canonical(value: &[u8]) -> Vec<u8> {
    match trimmed(value) {
        [] => vec![0],
        value => value.to_vec(),
    }
}

/// Wraps a table entry as an entity.
pub fn entity_of(entry: p4::TableEntry) -> p4::entity::Entity {
    p4::entity::Entity::TableEntry(entry)
}

/// Wraps a multicast group or clone session as an entity.
pub fn replication(entry: p4::packet_replication_engine_entry::Type) -> p4::entity::Entity {
    p4::entity::Entity::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry {
        r#type: Some(entry),
    })
}

/// Builds the entity of a multicast group.
pub fn group_entity(group: u32, replicas: Vec<p4::Replica>) -> p4::entity::Entity {
    let entry = p4::MulticastGroupEntry {
        multicast_group_id: group,
        replicas,
        ..Default::default()
    };
    replication(p4::packet_replication_engine_entry::Type::MulticastGroupEntry(entry))
}

/// Builds a replica with the deprecated port field, which older switches also accept.
pub fn replica(port: u32, instance: u32) -> p4::Replica {
    p4::Replica {
        port_kind: Some(p4::replica::PortKind::EgressPort(port)),
        instance,
        ..Default::default()
    }
}

/// Returns the port and the replication id of a replica that [`replica`] has built.
pub fn port_and_rid(replica: &p4::Replica) -> (u32, u16) {
    let port = match replica.port_kind {
        Some(p4::replica::PortKind::EgressPort(port)) => port,
        _ => 0,
    };
    (port, u16::try_from(replica.instance).unwrap_or(u16::MAX))
}

/// Builds one replica for each port, all with the replication id `rid`.
pub fn replicas(rid: u32, ports: &[u32]) -> Vec<p4::Replica> {
    ports.iter().map(|port| replica(*port, rid)).collect()
}

/// Returns the entry without its action. This form identifies the entry in requests for its direct counter or meter.
pub fn without_action(entry: &p4::TableEntry) -> p4::TableEntry {
    p4::TableEntry {
        action: None,
        ..entry.clone()
    }
}

/// Builds the P4Runtime configuration of a meter.
pub fn meter_config(rates: MeterRates) -> Result<p4::MeterConfig, String> {
    Ok(p4::MeterConfig {
        cir: to_i64(rates.cir)?,
        cburst: to_i64(rates.cburst)?,
        pir: to_i64(rates.pir)?,
        pburst: to_i64(rates.pburst)?,
        ..Default::default()
    })
}

/// Returns the error message for a multicast node that does not exist.
pub fn no_node(node: u32) -> String {
    format!("node {node} does not exist; create it with mc_node_create")
}

/// Returns the error message for a multicast group that does not exist.
pub fn no_group(group: u32) -> String {
    format!("multicast group {group} does not exist; create it with mc_mgrp_create")
}

/// Builds the P4Runtime index of an array element.
pub fn index_of(index: u64) -> Result<p4::Index, String> {
    Ok(p4::Index {
        index: to_i64(index)?,
    })
}

/// Converts a number to the signed type that P4Runtime uses; fails if it is too large.
pub fn to_i64(number: u64) -> Result<i64, String> {
    i64::try_from(number).map_err(|_| format!("{number} is too large for P4Runtime"))
}
