//! Entries read from a switch, and the difference to the desired entries.
//!
//! Servers may return other forms of an entity: padded numbers, fields and replicas in any order, counters. All entities are
//! normalised before they are compared.

use std::collections::BTreeMap;

use alfirk_p4runtime::p4::v1::{
    self, entity, field_match::FieldMatchType, packet_replication_engine_entry as engine,
    table_action, update, Entity, PacketReplicationEngineEntry, TableEntry, Update,
};
use alfirk_p4runtime::{bytestring, Message};

use super::{entity_update, multicast_groups};

/// Entities of a switch by identity: table and key, kind and id of a replication entry, or cell of a meter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot(BTreeMap<Vec<u8>, entity::Entity>);

impl Snapshot {
    /// Creates a snapshot of entities read from a switch, without default actions and kinds that the controller does not write.
    pub fn new(entities: impl IntoIterator<Item = Entity>) -> Snapshot {
        let entities = entities.into_iter().filter_map(|e| normalised(&e.entity?));
        Snapshot(entities.map(|entity| (identity(&entity), entity)).collect())
    }

    /// Creates the snapshot of an empty switch after these insertions.
    pub fn of_updates<'a>(updates: impl IntoIterator<Item = &'a Update>) -> Snapshot {
        Snapshot::new(updates.into_iter().filter_map(|u| u.entity.clone()))
    }

    /// Whether the snapshot has no entities.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All table entries, ordered by table and key.
    pub fn table_entries(&self) -> impl Iterator<Item = &TableEntry> {
        self.0.values().filter_map(|entity| match entity {
            entity::Entity::TableEntry(entry) => Some(entry),
            _ => None,
        })
    }

    /// Ids of all multicast groups of the replication engine.
    pub fn multicast_groups(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.values().filter_map(|entity| match entity {
            entity::Entity::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
                r#type: Some(engine::Type::MulticastGroupEntry(group)),
            }) => Some(group.multicast_group_id),
            _ => None,
        })
    }

    /// Whether the snapshot contains exactly the entity that this update inserts.
    pub fn contains(&self, insertion: &Update) -> bool {
        let entity = insertion.entity.as_ref().and_then(|e| e.entity.as_ref());
        entity
            .and_then(normalised)
            .is_some_and(|wanted| self.0.get(&identity(&wanted)) == Some(&wanted))
    }

    /// Returns those of `insertions` whose entity is not in the snapshot. An insertion is converted to a modification if
    /// the snapshot has an entity with the same key but another action.
    pub fn missing(&self, insertions: Vec<Update>) -> Vec<Update> {
        if self.is_empty() {
            return insertions;
        }
        let needed = insertions.into_iter().filter_map(|mut insertion| {
            let entity = insertion.entity.as_ref()?.entity.as_ref()?;
            let wanted = normalised(entity)?;
            match self.0.get(&identity(&wanted)) {
                Some(there) if *there == wanted => None,
                Some(_) => {
                    insertion.set_type(update::Type::Modify);
                    Some(insertion)
                }
                None => Some(insertion),
            }
        });
        needed.collect()
    }

    /// Deletions of all entities whose identity is not in `wanted`, except those for which `is_kept` is true.
    ///
    /// Entries of the table with id `first` are deleted first, replication entries last. Meter cells are reset instead.
    pub fn surplus_deletions(
        &self,
        wanted: &Snapshot,
        first: u32,
        is_kept: impl Fn(&entity::Entity) -> bool,
    ) -> Vec<Update> {
        let surplus = self
            .0
            .iter()
            .filter(|(key, entity)| !wanted.0.contains_key(*key) && !is_kept(entity));
        let mut deletions: Vec<_> = surplus.map(|(_, entity)| deletion(entity)).collect();
        deletions.sort_by_key(|update| match update.entity.as_ref().map(|e| &e.entity) {
            Some(Some(entity::Entity::TableEntry(entry))) => u8::from(entry.table_id != first),
            _ => 2,
        });
        deletions
    }
}

fn deletion(entity: &entity::Entity) -> Update {
    let mut entity = entity.clone();
    match &mut entity {
        entity::Entity::TableEntry(entry) => entry.action = None,
        entity::Entity::PacketReplicationEngineEntry(entry) => match &mut entry.r#type {
            Some(engine::Type::MulticastGroupEntry(group)) => group.replicas.clear(),
            Some(engine::Type::CloneSessionEntry(session)) => session.replicas.clear(),
            None => {}
        },
        entity::Entity::MeterEntry(entry) => {
            // A meter cell cannot be deleted; without a configuration it has no limit.
            entry.config = None;
            return entity_update(update::Type::Modify, entity);
        }
        _ => {}
    }
    entity_update(update::Type::Delete, entity)
}

/// Normalises an entity to the form in which the controller writes it; `None` for kinds that it never writes.
fn normalised(entity: &entity::Entity) -> Option<entity::Entity> {
    match entity {
        entity::Entity::TableEntry(entry) if entry.is_default_action => None,
        entity::Entity::TableEntry(entry) => {
            let mut matches: Vec<_> = entry.r#match.iter().map(normalised_match).collect();
            matches.sort_by_key(|field| field.field_id);
            Some(entity::Entity::TableEntry(TableEntry {
                table_id: entry.table_id,
                r#match: matches,
                action: entry.action.as_ref().map(normalised_action),
                priority: entry.priority,
                ..TableEntry::default()
            }))
        }
        entity::Entity::PacketReplicationEngineEntry(entry) => {
            let entry = match entry.r#type.as_ref()? {
                engine::Type::MulticastGroupEntry(group) => {
                    engine::Type::MulticastGroupEntry(v1::MulticastGroupEntry {
                        multicast_group_id: group.multicast_group_id,
                        replicas: normalised_replicas(&group.replicas),
                        ..v1::MulticastGroupEntry::default()
                    })
                }
                engine::Type::CloneSessionEntry(session) => {
                    engine::Type::CloneSessionEntry(v1::CloneSessionEntry {
                        session_id: session.session_id,
                        replicas: normalised_replicas(&session.replicas),
                        class_of_service: session.class_of_service,
                        packet_length_bytes: session.packet_length_bytes,
                    })
                }
            };
            Some(entity::Entity::PacketReplicationEngineEntry(
                PacketReplicationEngineEntry {
                    r#type: Some(entry),
                },
            ))
        }
        entity::Entity::MeterEntry(entry) => {
            entry.config.as_ref()?;
            Some(entity::Entity::MeterEntry(v1::MeterEntry {
                meter_id: entry.meter_id,
                index: Some(entry.index.unwrap_or_default()),
                config: entry.config,
                ..v1::MeterEntry::default()
            }))
        }
        _ => None,
    }
}

fn normalised_match(field: &v1::FieldMatch) -> v1::FieldMatch {
    let mut field = field.clone();
    let shorten = |bytes: &mut Vec<u8>| *bytes = bytestring::canonical(bytes).to_vec();
    match &mut field.field_match_type {
        Some(FieldMatchType::Exact(exact)) => shorten(&mut exact.value),
        Some(FieldMatchType::Lpm(lpm)) => shorten(&mut lpm.value),
        _ => {}
    }
    field
}

fn normalised_action(action: &v1::TableAction) -> v1::TableAction {
    let mut action = action.clone();
    if let Some(table_action::Type::Action(call)) = &mut action.r#type {
        for param in &mut call.params {
            param.value = bytestring::canonical(&param.value).to_vec();
        }
        call.params.sort_by_key(|param| param.param_id);
    }
    action
}

fn normalised_replicas(replicas: &[v1::Replica]) -> Vec<v1::Replica> {
    let number = |replica| multicast_groups::port(replica).unwrap_or(u32::MAX);
    let mut all: Vec<_> = replicas.iter().map(|r| (r.instance, number(r))).collect();
    all.sort_unstable();
    all.into_iter()
        .map(|(instance, port)| multicast_groups::replica(port, instance))
        .collect()
}

/// Identity of an entity: its protobuf encoding without action, replicas and rate.
fn identity(entity: &entity::Entity) -> Vec<u8> {
    deletion(entity).entity.unwrap_or_default().encode_to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{CloneSession, MulticastGroup, Replica};

    fn table_entry(key: &[u8], port: &[u8], extra: bool) -> Entity {
        let mut params = vec![
            v1::action::Param {
                param_id: 1,
                value: port.to_vec(),
            },
            v1::action::Param {
                param_id: 2,
                value: vec![9],
            },
        ];
        if extra {
            params.reverse();
        }
        Entity {
            entity: Some(entity::Entity::TableEntry(TableEntry {
                table_id: 7,
                r#match: vec![v1::FieldMatch {
                    field_id: 1,
                    field_match_type: Some(FieldMatchType::Exact(v1::field_match::Exact {
                        value: key.to_vec(),
                    })),
                }],
                action: Some(v1::TableAction {
                    r#type: Some(table_action::Type::Action(v1::Action {
                        action_id: 3,
                        params,
                    })),
                }),
                counter_data: extra.then(v1::CounterData::default),
                ..TableEntry::default()
            })),
        }
    }

    fn insertion(entity: Entity) -> Update {
        Update {
            r#type: update::Type::Insert.into(),
            entity: Some(entity),
        }
    }

    #[test]
    fn equivalent_encodings_are_equal() {
        let there = Snapshot::new([table_entry(&[0, 0, 5], &[0, 1], true)]);
        assert!(there.contains(&insertion(table_entry(&[5], &[1], false))));
        assert!(there
            .missing(vec![insertion(table_entry(&[5], &[1], false))])
            .is_empty());
    }

    #[test]
    fn a_changed_action_is_modified_and_a_new_key_inserted() {
        let there = Snapshot::new([table_entry(&[5], &[1], false)]);
        let wanted = [
            table_entry(&[5], &[2], false),
            table_entry(&[6], &[1], false),
        ];
        let updates = there.missing(wanted.map(insertion).to_vec());
        let kinds: Vec<_> = updates.iter().map(Update::r#type).collect();
        assert_eq!(kinds, [update::Type::Modify, update::Type::Insert]);
    }

    #[test]
    fn surplus_entries_of_the_first_table_are_deleted_first() {
        let group = MulticastGroup {
            group_index: 4,
            replicas: vec![Replica {
                port: 1,
                path_index: 0,
            }],
        };
        let all = [group.insert(), CloneSession { port: 2 }.insert()];
        let mut all: Vec<_> = all.into_iter().filter_map(|u| u.entity).collect();
        all.push(table_entry(&[5], &[1], false));
        let there = Snapshot::new(all);
        let wanted = Snapshot::of_updates([&CloneSession { port: 2 }.insert()]);
        let deletions = there.surplus_deletions(&wanted, 7, |_| false);
        assert_eq!(deletions.len(), 2);
        assert!(matches!(
            deletions[0].entity.as_ref().unwrap().entity,
            Some(entity::Entity::TableEntry(_))
        ));
        assert_eq!(deletions[1], MulticastGroup::delete(4));
    }
}
