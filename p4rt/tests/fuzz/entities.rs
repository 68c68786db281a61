//! Random entities as a controller would write them, generated from a P4Info; most of them are valid.

use alfirk_p4runtime::p4::{
    config::v1::{match_field, p4_data_type_spec::TypeSpec, MatchField, P4Info, Preamble, Table},
    v1::{
        action_profile_action, digest_entry, entity::Entity as Kind, field_match as fm,
        field_match::FieldMatchType, p4_data::Data, packet_replication_engine_entry::Type as Pre,
        replica::PortKind, table_action::Type as Target, *,
    },
};

use crate::chance::Chance;

/// Number of ports that frames enter and leave.
pub const PORTS: usize = 8;
/// Ports that have queues. Packets for others pass egress directly after ingress.
pub const QUEUED_PORTS: [u32; 2] = [0, 3];
/// Upper bound of the ids of members, groups and sessions.
const IDS: usize = 6;

/// Returns an entity of any kind that the program has or that every program has.
pub fn entity(info: &P4Info, chance: &mut Chance) -> Entity {
    let kind = loop {
        if let Some(kind) = some_kind(info, chance) {
            break kind;
        }
    };
    Entity { entity: Some(kind) }
}

fn some_kind(info: &P4Info, chance: &mut Chance) -> Option<Kind> {
    Some(match chance.below(16) {
        0..=5 => Kind::TableEntry(table_entry(info, chance)?),
        6 => Kind::ActionProfileMember(ActionProfileMember {
            action_profile_id: id_of(info.action_profiles.iter().map(|p| &p.preamble), chance)?,
            member_id: small(chance),
            action: some_action(info, chance),
        }),
        7 => Kind::ActionProfileGroup(ActionProfileGroup {
            action_profile_id: id_of(info.action_profiles.iter().map(|p| &p.preamble), chance)?,
            group_id: small(chance),
            members: (0..chance.below(4)).map(|_| group_member(chance)).collect(),
            max_size: chance.below(5) as i32,
        }),
        8 => Kind::MeterEntry(MeterEntry {
            meter_id: id_of(info.meters.iter().map(|m| &m.preamble), chance)?,
            index: index(chance),
            config: meter_config(chance),
            counter_data: None,
        }),
        9 => Kind::DirectMeterEntry(DirectMeterEntry {
            table_entry: table_entry(info, chance),
            config: meter_config(chance),
            counter_data: None,
        }),
        10 => Kind::CounterEntry(CounterEntry {
            counter_id: id_of(info.counters.iter().map(|c| &c.preamble), chance)?,
            index: index(chance),
            data: counter_data(chance),
        }),
        11 => Kind::DirectCounterEntry(DirectCounterEntry {
            table_entry: table_entry(info, chance),
            data: counter_data(chance),
        }),
        12 => Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
            r#type: Some(replication(chance)),
        }),
        13 => Kind::ValueSetEntry(value_set(info, chance)?),
        14 => Kind::RegisterEntry(RegisterEntry {
            register_id: id_of(info.registers.iter().map(|r| &r.preamble), chance)?,
            index: index(chance),
            data: register_data(info, chance),
        }),
        _ => Kind::DigestEntry(DigestEntry {
            digest_id: id_of(info.digests.iter().map(|d| &d.preamble), chance)?,
            config: (!chance.one_in(8)).then(|| digest_entry::Config {
                max_timeout_ns: chance.below(1_000_000) as i64,
                max_list_size: chance.below(4) as i32,
                ack_timeout_ns: chance.below(1_000_000) as i64,
            }),
        }),
    })
}

fn small(chance: &mut Chance) -> u32 {
    chance.below(IDS) as u32
}

fn id_of<'a>(
    preambles: impl Iterator<Item = &'a Option<Preamble>>,
    chance: &mut Chance,
) -> Option<u32> {
    let ids: Vec<u32> = preambles.flatten().map(|preamble| preamble.id).collect();
    (!ids.is_empty()).then(|| *chance.pick(&ids))
}

fn index(chance: &mut Chance) -> Option<Index> {
    (!chance.one_in(8)).then(|| Index {
        index: chance.below(8) as i64,
    })
}

fn counter_data(chance: &mut Chance) -> Option<CounterData> {
    (!chance.one_in(3)).then(|| CounterData {
        byte_count: chance.edgy() as i64,
        packet_count: chance.below(100) as i64,
    })
}

fn meter_config(chance: &mut Chance) -> Option<MeterConfig> {
    (!chance.one_in(3)).then(|| {
        let (cir, burst) = (chance.edgy() as i64 & i64::MAX, chance.below(5000) as i64);
        MeterConfig {
            cir,
            cburst: burst,
            pir: cir.saturating_add(chance.below(5000) as i64),
            pburst: burst,
            eburst: 0,
        }
    })
}

fn port(chance: &mut Chance) -> Vec<u8> {
    vec![chance.below(PORTS) as u8]
}

fn group_member(chance: &mut Chance) -> action_profile_group::Member {
    action_profile_group::Member {
        member_id: small(chance),
        weight: chance.below(3) as i32,
        watch_kind: chance
            .one_in(2)
            .then(|| action_profile_group::member::WatchKind::WatchPort(port(chance))),
    }
}

fn replication(chance: &mut Chance) -> Pre {
    let replicas = (0..chance.below(5)).map(|_| Replica {
        port_kind: Some(match chance.one_in(2) {
            true => PortKind::EgressPort(chance.below(PORTS) as u32),
            false => PortKind::Port(port(chance)),
        }),
        instance: small(chance),
        backup_replicas: Vec::new(),
    });
    let replicas = replicas.collect();
    let id = small(chance);
    if chance.one_in(2) {
        return Pre::MulticastGroupEntry(MulticastGroupEntry {
            multicast_group_id: id,
            replicas,
            metadata: Vec::new(),
        });
    }
    Pre::CloneSessionEntry(CloneSessionEntry {
        session_id: id,
        replicas,
        class_of_service: small(chance),
        packet_length_bytes: chance.below(200) as i32,
    })
}

/// Returns a value of `bits` bits in its shortest form, or a string of a translated type.
fn value(bits: i32, chance: &mut Chance) -> Vec<u8> {
    let bits = usize::try_from(bits).unwrap_or(0);
    let len = bits.div_ceil(8);
    let mut bytes = match chance.below(3) {
        0 => {
            let mut bytes = vec![0; len];
            if let Some(last) = bytes.last_mut() {
                *last = chance.below(10) as u8;
            }
            bytes
        }
        1 => vec![0xff; len],
        _ => chance.bytes(len),
    };
    if let (Some(first), true) = (bytes.first_mut(), bits % 8 != 0) {
        *first &= (1 << (bits % 8)) - 1;
    }
    canonical(bytes)
}

fn canonical(bytes: Vec<u8>) -> Vec<u8> {
    match bytes.iter().position(|&byte| byte != 0) {
        Some(first) => bytes[first..].to_vec(),
        None => vec![0],
    }
}

/// Clears all but the first `prefix` bits of a value that is as wide as the field or shorter.
fn masked(value: &[u8], bits: usize, prefix: usize) -> Vec<u8> {
    let len = bits.div_ceil(8);
    let mut wide = vec![0; len.saturating_sub(value.len())];
    wide.extend(value);
    let keep_from_right = bits - prefix;
    for bit in 0..keep_from_right {
        let byte = len - 1 - bit / 8;
        wide[byte] &= !(1 << (bit % 8));
    }
    canonical(wide)
}

/// Returns a field match; `None` to omit the field.
fn field_match(field: &MatchField, chance: &mut Chance) -> Option<FieldMatch> {
    use match_field::{Match, MatchType};
    let Some(Match::MatchType(kind)) = field.r#match else {
        return None;
    };
    let kind = MatchType::try_from(kind).ok()?;
    if kind != MatchType::Exact && chance.one_in(4) {
        return None;
    }
    let bits = field.bitwidth;
    let matched = value(bits, chance);
    let field_match_type = match kind {
        MatchType::Exact => FieldMatchType::Exact(fm::Exact { value: matched }),
        MatchType::Lpm => {
            let bits = usize::try_from(bits).unwrap_or(0);
            let prefix = chance.below(bits.max(1)) + 1;
            FieldMatchType::Lpm(fm::Lpm {
                value: masked(&matched, bits, prefix.min(bits)),
                prefix_len: prefix as i32,
            })
        }
        MatchType::Ternary => {
            let mask = value(bits, chance);
            let len = mask.len().min(matched.len());
            let both = matched[matched.len() - len..]
                .iter()
                .zip(&mask[mask.len() - len..]);
            let value = canonical(both.map(|(value, mask)| value & mask).collect());
            FieldMatchType::Ternary(fm::Ternary { value, mask })
        }
        MatchType::Range => {
            let other = value(bits, chance);
            let as_number = |bytes: &Vec<u8>| (bytes.len(), bytes.clone());
            let (low, high) = match as_number(&matched) <= as_number(&other) {
                true => (matched, other),
                false => (other, matched),
            };
            FieldMatchType::Range(fm::Range { low, high })
        }
        MatchType::Optional => FieldMatchType::Optional(fm::Optional { value: matched }),
        MatchType::Unspecified => return None,
    };
    Some(FieldMatch {
        field_id: field.id,
        field_match_type: Some(field_match_type),
    })
}

fn action(info: &P4Info, id: u32, chance: &mut Chance) -> Option<Action> {
    let known = info.actions.iter().find(|action| {
        let preamble = action.preamble.as_ref();
        preamble.is_some_and(|preamble| preamble.id == id)
    })?;
    let params = known.params.iter().map(|param| action::Param {
        param_id: param.id,
        value: value(param.bitwidth, chance),
    });
    Some(Action {
        action_id: id,
        params: params.collect(),
    })
}

fn some_action(info: &P4Info, chance: &mut Chance) -> Option<Action> {
    let id = id_of(info.actions.iter().map(|a| &a.preamble), chance)?;
    action(info, id, chance)
}

fn target(info: &P4Info, table: &Table, chance: &mut Chance) -> Option<TableAction> {
    let ids: Vec<u32> = table
        .action_refs
        .iter()
        .map(|reference| reference.id)
        .collect();
    if ids.is_empty() {
        return None;
    }
    let one = |chance: &mut Chance| action(info, *chance.pick(&ids), chance);
    let target = if table.implementation_id == 0 {
        Target::Action(one(chance)?)
    } else {
        match chance.below(3) {
            0 => Target::ActionProfileMemberId(small(chance)),
            1 => Target::ActionProfileGroupId(small(chance)),
            _ => {
                let actions = (0..chance.below(3) + 1).map(|_| ActionProfileAction {
                    action: one(chance),
                    weight: chance.below(3) as i32 + 1,
                    watch_kind: chance
                        .one_in(2)
                        .then(|| action_profile_action::WatchKind::WatchPort(port(chance))),
                });
                let set = ActionProfileActionSet {
                    action_profile_actions: actions.collect(),
                    ..Default::default()
                };
                Target::ActionProfileActionSet(set)
            }
        }
    };
    Some(TableAction {
        r#type: Some(target),
    })
}

fn table_entry(info: &P4Info, chance: &mut Chance) -> Option<TableEntry> {
    if info.tables.is_empty() {
        return None;
    }
    let table = chance.pick(&info.tables);
    let is_default_action = chance.one_in(8);
    let needs_priority = table.match_fields.iter().any(|field| {
        use match_field::{Match, MatchType};
        let Some(Match::MatchType(kind)) = field.r#match else {
            return false;
        };
        [MatchType::Ternary, MatchType::Range, MatchType::Optional]
            .contains(&MatchType::try_from(kind).unwrap_or_default())
    });
    let mut entry = TableEntry {
        table_id: table.preamble.as_ref().map_or(0, |preamble| preamble.id),
        action: target(info, table, chance),
        is_default_action,
        ..Default::default()
    };
    if !is_default_action {
        entry.r#match = table
            .match_fields
            .iter()
            .filter_map(|field| field_match(field, chance))
            .collect();
        entry.priority = if needs_priority {
            chance.below(20) as i32 + 1
        } else {
            0
        };
    }
    if chance.one_in(6) {
        entry.idle_timeout_ns = chance.below(1_000_000) as i64;
    }
    if chance.one_in(6) {
        entry.counter_data = counter_data(chance);
        entry.meter_config = meter_config(chance);
    }
    Some(entry)
}

fn value_set(info: &P4Info, chance: &mut Chance) -> Option<ValueSetEntry> {
    if info.value_sets.is_empty() {
        return None;
    }
    let set = chance.pick(&info.value_sets);
    let members = (0..chance.below(4)).map(|_| ValueSetMember {
        r#match: set
            .r#match
            .iter()
            .filter_map(|field| field_match(field, chance))
            .collect(),
    });
    Some(ValueSetEntry {
        value_set_id: set.preamble.as_ref().map_or(0, |preamble| preamble.id),
        members: members.collect(),
    })
}

fn register_data(info: &P4Info, chance: &mut Chance) -> Option<P4Data> {
    let spec = info.registers.first()?.type_spec.as_ref()?;
    let data = match &spec.type_spec {
        Some(TypeSpec::Bool(_)) => Data::Bool(chance.one_in(2)),
        _ => Data::Bitstring(value(32, chance)),
    };
    Some(P4Data { data: Some(data) })
}
