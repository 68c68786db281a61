//! Multicast groups of the packet replication engine: the ports of a group's tree.

use alfirk_p4runtime::p4::v1::{
    self, entity, packet_replication_engine_entry, replica, update, MulticastGroupEntry,
    PacketReplicationEngineEntry, Update,
};

use super::entity_update;

/// One copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Replica {
    /// The port it leaves by.
    pub port: u32,
    /// Its path index, which egress sees as the replication id.
    pub path_index: u8,
}

/// The copies made of a group's data packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MulticastGroup {
    /// The group on this switch; the engine's id is one more, for 0 means none to it.
    pub group_index: u16,
    /// Ordered by path.
    pub replicas: Vec<Replica>,
}

impl MulticastGroup {
    /// Adds the group; refused by the switch when it is there.
    pub fn insert(&self) -> Update {
        self.update(update::Type::Insert)
    }

    /// Replaces the copies; refused by the switch when the group is not there.
    pub fn modify(&self) -> Update {
        self.update(update::Type::Modify)
    }

    /// Removes the group; refused by the switch when it is not there.
    pub fn delete(group_index: u16) -> Update {
        let group = MulticastGroup {
            group_index,
            replicas: Vec::new(),
        };
        group.update(update::Type::Delete)
    }

    fn update(&self, kind: update::Type) -> Update {
        let replicas = self
            .replicas
            .iter()
            .map(|copy| replica(copy.port, copy.path_index.into()));
        let entry = MulticastGroupEntry {
            multicast_group_id: u32::from(self.group_index) + 1,
            replicas: replicas.collect(),
            ..MulticastGroupEntry::default()
        };
        pre_update(
            kind,
            packet_replication_engine_entry::Type::MulticastGroupEntry(entry),
        )
    }
}

/// Ports are written as numbers: switches older than P4Runtime 1.4 know nothing else, and newer ones still take it.
#[allow(deprecated)]
pub(super) fn replica(port: u32, instance: u32) -> v1::Replica {
    v1::Replica {
        port_kind: Some(replica::PortKind::EgressPort(port)),
        instance,
        ..v1::Replica::default()
    }
}

pub(super) fn pre_update(
    kind: update::Type,
    entry: packet_replication_engine_entry::Type,
) -> Update {
    let entry = PacketReplicationEngineEntry {
        r#type: Some(entry),
    };
    entity_update(kind, entity::Entity::PacketReplicationEngineEntry(entry))
}

/// The group index of a multicast group entry.
pub(super) fn group_index(entry: &PacketReplicationEngineEntry) -> Option<u16> {
    match &entry.r#type {
        Some(packet_replication_engine_entry::Type::MulticastGroupEntry(group)) => {
            u16::try_from(group.multicast_group_id.checked_sub(1)?).ok()
        }
        _ => None,
    }
}

pub(super) fn describe(entry: &PacketReplicationEngineEntry) -> String {
    match &entry.r#type {
        Some(packet_replication_engine_entry::Type::MulticastGroupEntry(group)) => {
            format!("multicast group {}", group.multicast_group_id)
        }
        Some(packet_replication_engine_entry::Type::CloneSessionEntry(session)) => {
            format!("clone session {}", session.session_id)
        }
        None => "packet replication entry".to_owned(),
    }
}
