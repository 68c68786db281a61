//! Updates and reads of multicast groups and clone sessions (P4Runtime § 9.5).

use std::collections::BTreeSet;

use alfirk_p4runtime::{
    bytestring,
    p4::v1::{
        entity::Entity as Kind, packet_replication_engine_entry::Type as Pre, replica::PortKind,
        update::Type, CloneSessionEntry, MulticastGroupEntry, PacketReplicationEngineEntry,
        Replica as ReplicaMessage, SdnPort,
    },
};

use super::{
    device::Device,
    error::{core_error, exhausted, exists, invalid, not_found, UpdateResult},
    scope::{EntityVisitor, Scope, View},
};
use alfirk_bmv2::{CloneSession, PreError, Replica, MAX_SESSION};

/// Maximum number of a multicast group, and of a replica's instance: v1model's `mcast_grp` and `egress_rid` have 16
/// bits.
const MAX_GROUP: u32 = 0xffff;
/// Maximum class of service of a clone session: v1model's `priority` has 3 bits.
const MAX_CLASS: u32 = 7;

pub fn write_group(scope: &mut Scope<'_>, kind: Type, group: &MulticastGroupEntry) -> UpdateResult {
    let id = group.multicast_group_id;
    let name = format!("multicast group {id}");
    if id == 0 || id > MAX_GROUP {
        return Err(invalid(format!("{name}: ids are from 1 to {MAX_GROUP}")));
    }
    let is_there = pre_mut(scope)?.replicas(id).is_some();
    check_presence(kind, is_there, &name)?;
    if kind == Type::Delete {
        scope.pipeline.pre.groups.remove(&id);
        let pre = pre_mut(scope)?;
        // Removes the group's nodes, too.
        let emptied = pre.set_group(id, &[]);
        return emptied
            .and_then(|()| pre.delete_group(id))
            .map_err(|e| not_found(e.to_string()));
    }
    let cpu_port = scope.switch.options().cpu_port;
    let down = &scope.pipeline.pre.down;
    let replicas = replicas(cpu_port, down, &name, &group.replicas)?;
    pre_mut(scope)?
        .set_group(id, &replicas)
        .map_err(pre_error)?;
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
    let is_there = pre_mut(scope)?.session(id).is_some();
    check_presence(kind, is_there, &name)?;
    if kind == Type::Delete {
        scope.pipeline.pre.sessions.remove(&id);
        return pre_mut(scope)?
            .delete_session(id)
            .map_err(|e| not_found(e.to_string()));
    }
    let cpu_port = scope.switch.options().cpu_port;
    let clone = core_session(cpu_port, &scope.pipeline.pre.down, &name, session)?;
    pre_mut(scope)?
        .set_session(id, clone)
        .map_err(|e| invalid(e.to_string()))?;
    scope.pipeline.pre.sessions.insert(id, session.clone());
    Ok(())
}

pub fn read_groups(
    view: View<'_>,
    filter: &MulticastGroupEntry,
    found: EntityVisitor<'_>,
) -> UpdateResult {
    let wanted = filter.multicast_group_id;
    for group in view.pipeline.pre.groups.values() {
        if wanted == 0 || wanted == group.multicast_group_id {
            found(wrap(Pre::MulticastGroupEntry(group.clone())));
        }
    }
    // Groups created or changed from outside P4Runtime.
    let pre = view.switch.pre().map_err(core_error)?;
    let written = &view.pipeline.pre.groups;
    for id in pre
        .groups()
        .into_iter()
        .filter(|id| !written.contains_key(id))
    {
        if wanted == 0 || wanted == id {
            found(wrap(Pre::MulticastGroupEntry(MulticastGroupEntry {
                multicast_group_id: id,
                replicas: shown(pre.replicas(id).unwrap_or_default()),
                ..Default::default()
            })));
        }
    }
    Ok(())
}

pub fn read_sessions(
    view: View<'_>,
    filter: &CloneSessionEntry,
    found: EntityVisitor<'_>,
) -> UpdateResult {
    let wanted = filter.session_id;
    for session in view.pipeline.pre.sessions.values() {
        if wanted == 0 || wanted == session.session_id {
            found(wrap(Pre::CloneSessionEntry(session.clone())));
        }
    }
    // Sessions created or changed from outside P4Runtime.
    let pre = view.switch.pre().map_err(core_error)?;
    let written = &view.pipeline.pre.sessions;
    for id in pre
        .sessions()
        .into_iter()
        .filter(|id| !written.contains_key(id))
    {
        let Some(session) = pre.session(id).filter(|_| wanted == 0 || wanted == id) else {
            continue;
        };
        let of_group = session.group.and_then(|group| pre.replicas(group));
        let mut replicas = session.replicas.clone();
        replicas.extend_from_slice(of_group.unwrap_or_default());
        found(wrap(Pre::CloneSessionEntry(CloneSessionEntry {
            session_id: id,
            replicas: shown(&replicas),
            class_of_service: session.class_of_service,
            packet_length_bytes: i32::try_from(session.truncate_bytes).unwrap_or(i32::MAX),
        })));
    }
    Ok(())
}

/// Converts replicas from the switch core's form to P4Runtime messages.
fn shown(replicas: &[Replica]) -> Vec<ReplicaMessage> {
    let replica = |replica: &Replica| ReplicaMessage {
        port_kind: Some(PortKind::Port(
            bytestring::canonical(&replica.port.to_be_bytes()).to_vec(),
        )),
        instance: replica.rid.into(),
        ..Default::default()
    };
    replicas.iter().map(replica).collect()
}

fn pre_mut<'a>(scope: &'a mut Scope<'_>) -> UpdateResult<&'a mut alfirk_bmv2::Pre> {
    scope.switch.pre_mut().map_err(core_error)
}

fn pre_error(error: PreError) -> alfirk_p4runtime::Status {
    match error {
        PreError::Full { .. } => exhausted(error.to_string()),
        _ => invalid(error.to_string()),
    }
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

/// Checks a clone session and converts it to the switch core's form.
fn core_session(
    cpu_port: Option<u32>,
    down: &BTreeSet<u32>,
    name: &str,
    session: &CloneSessionEntry,
) -> UpdateResult<CloneSession> {
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
    Ok(CloneSession {
        replicas: replicas(cpu_port, down, name, &session.replicas)?,
        group: None,
        truncate_bytes,
        class_of_service: session.class_of_service,
    })
}

/// Returns the copies that a multicast group makes while the ports `down` are down. A replica gives one copy, at the
/// first port that is up: its own, or one of its backups. If all are down, the copy is sent to the replica's own port
/// and lost there.
fn replicas(
    cpu_port: Option<u32>,
    down: &BTreeSet<u32>,
    name: &str,
    messages: &[ReplicaMessage],
) -> UpdateResult<Vec<Replica>> {
    let mut seen = BTreeSet::new();
    messages
        .iter()
        .map(|message| {
            let port = match message.port_kind.as_ref() {
                Some(PortKind::EgressPort(port)) => real_port(cpu_port, name, *port)?,
                Some(PortKind::Port(bytes)) => port_of(cpu_port, name, bytes)?,
                None => return Err(invalid(format!("{name}: a replica has no port"))),
            };
            let replica = Replica {
                port,
                rid: rid_of(name, message.instance)?,
            };
            if !seen.insert(replica) {
                return Err(invalid(format!(
                    "{name}: port {port} with instance {} occurs twice",
                    replica.rid
                )));
            }
            let mut ports = BTreeSet::from([port]);
            let mut active = (!down.contains(&port)).then_some(replica);
            for backup in &message.backup_replicas {
                let port = port_of(cpu_port, name, &backup.port)?;
                let rid = rid_of(name, backup.instance)?;
                if !ports.insert(port) {
                    return Err(invalid(format!(
                        "{name}: port {port} occurs twice in a replica with its backups"
                    )));
                }
                if active.is_none() && !down.contains(&port) {
                    active = Some(Replica { port, rid });
                }
            }
            Ok(active.unwrap_or(replica))
        })
        .collect()
}

fn port_of(cpu_port: Option<u32>, name: &str, bytes: &[u8]) -> UpdateResult<u32> {
    let port = bytestring::decode(bytes, 32)
        .map_err(|error| invalid(format!("{name}: replica port: {error}")))?;
    real_port(cpu_port, name, port as u32)
}

/// Converts a port number of a request to that of the switch: SDN_PORT_CPU becomes the CPU port.
fn real_port(cpu_port: Option<u32>, name: &str, port: u32) -> UpdateResult<u32> {
    if port != SdnPort::Cpu as i32 as u32 {
        return Ok(port);
    }
    cpu_port.ok_or_else(|| invalid(format!("{name}: the switch has no CPU port")))
}

fn rid_of(name: &str, instance: u32) -> UpdateResult<u16> {
    u16::try_from(instance)
        .map_err(|_| invalid(format!("{name}: instance {instance} is above 65535")))
}

impl Device {
    /// Updates multicast groups and clone sessions after a link change of a port: replaces replicas by their backups,
    /// or restores them.
    pub(super) fn refresh_replicas(&mut self, down: &BTreeSet<u32>) {
        let Some(pipeline) = &mut self.pipeline else {
            return;
        };
        let cpu_port = self.switch.options().cpu_port;
        let metadata = &mut pipeline.pre;
        metadata.down.clone_from(down);
        let Ok(pre) = self.switch.pre_mut() else {
            return;
        };
        let has_backups =
            |replicas: &[ReplicaMessage]| replicas.iter().any(|r| !r.backup_replicas.is_empty());
        let groups = metadata
            .groups
            .iter()
            .filter(|(_, g)| has_backups(&g.replicas));
        for (&id, group) in groups {
            let result = replicas(cpu_port, down, "group", &group.replicas).and_then(|copies| {
                pre.set_group(id, &copies)
                    .map_err(|e| invalid(e.to_string()))
            });
            if let Err(status) = result {
                tracing::error!("multicast group {id}: cannot apply a port change: {status}");
            }
        }
        let sessions = metadata.sessions.iter();
        for (&id, session) in sessions.filter(|(_, s)| has_backups(&s.replicas)) {
            let result = core_session(cpu_port, down, "session", session).and_then(|clone| {
                pre.set_session(id, clone)
                    .map_err(|e| invalid(e.to_string()))
            });
            if let Err(status) = result {
                tracing::error!("clone session {id}: cannot apply a port change: {status}");
            }
        }
    }
}
