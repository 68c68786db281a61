//! Multicast groups of the packet replication engine: the ports of a group's tree.

use alfirk_p4runtime::bytestring;
use alfirk_p4runtime::p4::v1::{
    self, entity, packet_replication_engine_entry, replica, update, MulticastGroupEntry,
    PacketReplicationEngineEntry, Update,
};

use super::entity_update;

/// One copy that the replication engine makes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Replica {
    /// Egress port of the copy.
    pub port: u32,
    /// Path index of the port in the group; egress reads it as the replication id (instance).
    pub path_index: u8,
}

/// A multicast group: the copies made of each data packet of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MulticastGroup {
    /// Index of the group on this switch. The engine's multicast group id is one more, as id 0 means no multicast.
    pub group_index: u16,
    /// Copies, ordered by path index.
    pub replicas: Vec<Replica>,
}

impl MulticastGroup {
    /// Update that inserts the group; the switch rejects it if the group exists.
    pub fn insert(&self) -> Update {
        self.update(update::Type::Insert)
    }

    /// Update that replaces the copies; the switch rejects it if the group does not exist.
    pub fn modify(&self) -> Update {
        self.update(update::Type::Modify)
    }

    /// Update that deletes the group; the switch rejects it if the group does not exist.
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

/// Creates a replica with its port as a number: servers older than P4Runtime 1.4 support only this form, and newer ones
/// accept it.
#[allow(deprecated)]
pub(crate) fn replica(port: u32, instance: u32) -> v1::Replica {
    v1::Replica {
        port_kind: Some(replica::PortKind::EgressPort(port)),
        instance,
        ..v1::Replica::default()
    }
}

/// Port of a replica in either form; `None` without a port of at most 32 bits.
#[allow(deprecated)]
pub(crate) fn port(replica: &v1::Replica) -> Option<u32> {
    match &replica.port_kind {
        Some(replica::PortKind::EgressPort(port)) => Some(*port),
        Some(replica::PortKind::Port(bytes)) => {
            let port = bytestring::decode(bytes, 32).ok()?;
            u32::try_from(port).ok()
        }
        None => None,
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

/// Group index of a multicast group entry; `None` for a clone session.
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
