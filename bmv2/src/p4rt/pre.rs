//! Multicast groups and clone sessions (P4Runtime § 9.5).

use std::collections::{BTreeMap, BTreeSet};

use alfirk_p4runtime::{
    bytestring,
    p4::v1::{
        entity::Entity as Kind, packet_replication_engine_entry::Type as Pre, replica::PortKind,
        update::Type, CloneSessionEntry, MulticastGroupEntry, PacketReplicationEngineEntry,
        Replica as ReplicaMessage, SdnPort,
    },
};

use super::{
    error::{core_error, exists, invalid, not_found, unimplemented, UpdateResult},
    read::{Found, View},
    write::Scope,
};
use crate::{CloneSession, Replica, MAX_SESSION};

/// v1model's `mcast_grp` and `egress_rid` have 16 bits.
const MAX_GROUP: u32 = 0xffff;
/// v1model's `priority` has 3 bits.
const MAX_CLASS: u32 = 7;

/// Groups and sessions as they were written.
#[derive(Clone, Debug, Default)]
pub struct PreBook {
    groups: BTreeMap<u32, MulticastGroupEntry>,
    sessions: BTreeMap<u32, CloneSessionEntry>,
}

pub fn write_group(scope: &mut Scope<'_>, kind: Type, group: &MulticastGroupEntry) -> UpdateResult {
    let id = group.multicast_group_id;
    let name = format!("multicast group {id}");
    if id == 0 || id > MAX_GROUP {
        return Err(invalid(format!("{name}: ids are from 1 to {MAX_GROUP}")));
    }
    let book = &mut scope.pipeline.pre.groups;
    check_presence(kind, book.contains_key(&id), &name)?;
    if kind == Type::Delete {
        book.remove(&id);
        return pre_mut(scope)?
            .delete_group(id)
            .map_err(|e| not_found(e.to_string()));
    }
    let replicas = replicas(scope, &name, &group.replicas)?;
    pre_mut(scope)?
        .set_group(id, &replicas)
        .map_err(|e| invalid(e.to_string()))?;
    scope.pipeline.pre.groups.insert(id, group.clone());
    Ok(())
}

pub fn write_session(
    scope: &mut Scope<'_>,
    kind: Type,
    session: &CloneSessionEntry,
) -> UpdateResult {
    let id = session.session_id;
    let name = format!("clone session {id}");
    if id == 0 || id > MAX_SESSION {
        return Err(invalid(format!("{name}: ids are from 1 to {MAX_SESSION}")));
    }
    let book = &mut scope.pipeline.pre.sessions;
    check_presence(kind, book.contains_key(&id), &name)?;
    if kind == Type::Delete {
        book.remove(&id);
        return pre_mut(scope)?
            .delete_session(id)
            .map_err(|e| not_found(e.to_string()));
    }
    if session.class_of_service > MAX_CLASS {
        return Err(invalid(format!(
            "{name}: class of service {} is above {MAX_CLASS}",
            session.class_of_service
        )));
    }
    let truncate_bytes = u32::try_from(session.packet_length_bytes).map_err(|_| {
        invalid(format!(
            "{name}: packet length {} is negative",
            session.packet_length_bytes
        ))
    })?;
    let clone = CloneSession {
        replicas: replicas(scope, &name, &session.replicas)?,
        group: None,
        truncate_bytes,
        class_of_service: session.class_of_service,
    };
    pre_mut(scope)?
        .set_session(id, clone)
        .map_err(|e| invalid(e.to_string()))?;
    scope.pipeline.pre.sessions.insert(id, session.clone());
    Ok(())
}

pub fn read_groups(view: View<'_>, filter: &MulticastGroupEntry, found: Found<'_>) -> UpdateResult {
    let wanted = filter.multicast_group_id;
    for group in view.pipeline.pre.groups.values() {
        if wanted == 0 || wanted == group.multicast_group_id {
            found(wrap(Pre::MulticastGroupEntry(group.clone())));
        }
    }
    Ok(())
}

pub fn read_sessions(view: View<'_>, filter: &CloneSessionEntry, found: Found<'_>) -> UpdateResult {
    let wanted = filter.session_id;
    for session in view.pipeline.pre.sessions.values() {
        if wanted == 0 || wanted == session.session_id {
            found(wrap(Pre::CloneSessionEntry(session.clone())));
        }
    }
    Ok(())
}

fn pre_mut<'a>(scope: &'a mut Scope<'_>) -> UpdateResult<&'a mut crate::Pre> {
    scope.switch.pre_mut().map_err(core_error)
}

fn wrap(entry: Pre) -> Kind {
    Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
        r#type: Some(entry),
    })
}

fn check_presence(kind: Type, present: bool, name: &str) -> UpdateResult {
    match (kind, present) {
        (Type::Insert, true) => Err(exists(format!("{name} exists already"))),
        (Type::Modify | Type::Delete, false) => Err(not_found(format!("{name} does not exist"))),
        _ => Ok(()),
    }
}

fn replicas(
    scope: &Scope<'_>,
    name: &str,
    messages: &[ReplicaMessage],
) -> UpdateResult<Vec<Replica>> {
    let mut seen = BTreeSet::new();
    messages
        .iter()
        .map(|message| {
            if !message.backup_replicas.is_empty() {
                return Err(unimplemented(format!(
                    "{name}: backup replicas are not supported"
                )));
            }
            let port = match message.port_kind.as_ref() {
                Some(PortKind::EgressPort(port)) => *port,
                Some(PortKind::Port(bytes)) => bytestring::decode(bytes, 32)
                    .map_err(|error| invalid(format!("{name}: replica port: {error}")))?
                    as u32,
                None => return Err(invalid(format!("{name}: a replica has no port"))),
            };
            let port = if port == SdnPort::Cpu as i32 as u32 {
                let cpu_port = scope.switch.options().cpu_port;
                cpu_port.ok_or_else(|| invalid(format!("{name}: the switch has no CPU port")))?
            } else {
                port
            };
            let rid = u16::try_from(message.instance).map_err(|_| {
                invalid(format!(
                    "{name}: instance {} is above 65535",
                    message.instance
                ))
            })?;
            let replica = Replica { port, rid };
            if !seen.insert(replica) {
                return Err(invalid(format!(
                    "{name}: port {port} with instance {rid} is given twice"
                )));
            }
            Ok(replica)
        })
        .collect()
}
