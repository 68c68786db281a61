//! Multicast groups and mirror sessions.
//!
//! A multicast group of BfRuntime has nodes, each with one replication id and any number of ports. Here a node belongs
//! to one group, and its id consists of the group's id and the replication id.

use std::collections::{BTreeMap, BTreeSet};

use alfirk_bf_rt_json::{Schema, Table, TableType};
use alfirk_p4runtime::bfrt_proto::{
    self as bfrt,
    data_field::{BoolArray, IntArray, Value},
    entity::Entity as BfKind,
    update::Type as Verb,
    TableEntry,
};
use alfirk_p4runtime::p4::v1::{
    entity::Entity as Kind, packet_replication_engine_entry::Type as Pre, CloneSessionEntry,
    MulticastGroupEntry, PacketReplicationEngineEntry, Replica,
};
use alfirk_p4runtime::{Code, Status};

use super::fields::{self, Field};
use super::{entry_update, invalid, key_of, missing, unsupported, TranslationError};
use crate::tables::multicast_groups::{port, replica};

/// Maximum length of a mirrored packet in bytes, for clone sessions that set no limit.
pub const DEFAULT_MAX_MIRRORED_LEN: u16 = 16_384;

/// The tables of the replication engine, and what the switch has in them.
#[derive(Clone, Debug)]
pub(super) struct Engine {
    nodes: Nodes,
    groups: Groups,
    mirrors: Mirrors,
    /// Ids of the nodes that the switch has.
    known_nodes: BTreeSet<u32>,
    /// Ids of the groups that the switch has.
    known_groups: BTreeSet<u32>,
}

/// Table `$pre.node`.
#[derive(Clone, Debug)]
struct Nodes {
    table: u32,
    key: Field,
    rid: Field,
    lags: Field,
    ports: Field,
}

/// Table `$pre.mgid`.
#[derive(Clone, Debug)]
struct Groups {
    table: u32,
    key: Field,
    nodes: Field,
    has_xids: Field,
    xids: Field,
}

/// Table `$mirror.cfg`.
#[derive(Clone, Debug)]
struct Mirrors {
    table: u32,
    key: Field,
    /// Action `$normal`.
    action: u32,
    enable: Field,
    direction: Field,
    port: Field,
    is_port_valid: Field,
    class_of_service: Field,
    rid: Field,
    max_length: Field,
}

/// Nodes and groups that a Read has returned.
#[derive(Default)]
pub(super) struct Found {
    /// Replication id and ports of each node.
    nodes: BTreeMap<u32, (u32, Vec<u32>)>,
    /// Nodes of each group.
    groups: BTreeMap<u32, Vec<u32>>,
}

/// Id of the node of a group with a replication id.
fn node_id(group: u32, rid: u16) -> u32 {
    group << 16 | u32::from(rid)
}

/// The ids of all possible nodes of a group.
fn nodes_of(group: u32) -> std::ops::RangeInclusive<u32> {
    node_id(group, 0)..=node_id(group, u16::MAX)
}

impl Engine {
    pub fn new(device: &Schema) -> Result<Engine, TranslationError> {
        let find = |kind: TableType, name: &'static str| {
            let table = device.tables.iter().find(|table| table.table_type == kind);
            table.ok_or_else(|| missing("table", name))
        };
        Ok(Engine {
            nodes: Nodes::new(find(TableType::PreNode, "$pre.node")?)?,
            groups: Groups::new(find(TableType::PreMgid, "$pre.mgid")?)?,
            mirrors: Mirrors::new(find(TableType::MirrorCfg, "$mirror.cfg")?)?,
            known_nodes: BTreeSet::new(),
            known_groups: BTreeSet::new(),
        })
    }

    /// Converts a multicast group to write: its nodes before the group that refers to them. Nodes that the group no
    /// longer has are deleted after it.
    pub fn write_group(
        &mut self,
        verb: Verb,
        group: &MulticastGroupEntry,
    ) -> Result<Vec<bfrt::Update>, Status> {
        let id = group.multicast_group_id;
        // The key of the table has 16 bits.
        let key = self.groups.key.exact(u64::from(id))?;
        let is_known = self.known_groups.contains(&id);
        match verb {
            Verb::Insert if is_known => {
                let why = format!("multicast group {id} exists already");
                return Err(Status::new(Code::AlreadyExists, why));
            }
            Verb::Modify | Verb::Delete if !is_known => {
                let why = format!("multicast group {id} does not exist");
                return Err(Status::new(Code::NotFound, why));
            }
            _ => {}
        }
        let mut copies: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
        if verb != Verb::Delete {
            for replica in &group.replicas {
                let rid = u16::try_from(replica.instance)
                    .map_err(|_| invalid("a replication id has 16 bits"))?;
                copies.entry(rid).or_default().push(port_of(replica)?);
            }
        }
        let ids: Vec<u32> = copies.keys().map(|rid| node_id(id, *rid)).collect();
        let old: Vec<u32> = self.known_nodes.range(nodes_of(id)).copied().collect();
        let mut updates = Vec::new();
        for (rid, ports) in copies {
            let node = node_id(id, rid);
            let verb = match old.contains(&node) {
                true => Verb::Modify,
                false => Verb::Insert,
            };
            updates.push(entry_update(verb, self.nodes.entry(node, rid, ports)?));
        }
        let entry = match verb {
            Verb::Delete => fields::key_entry(self.groups.table, key),
            _ => fields::entry(self.groups.table, key, self.groups.data(&ids)),
        };
        updates.push(entry_update(verb, entry));
        for node in old.into_iter().filter(|node| !ids.contains(node)) {
            updates.push(entry_update(Verb::Delete, self.nodes.key_entry(node)?));
        }
        // Later updates of the same Write see this one.
        for update in &updates {
            self.applied(update);
        }
        Ok(updates)
    }

    /// Records that the switch has executed an update.
    pub fn applied(&mut self, update: &bfrt::Update) {
        let entity = update.entity.as_ref().and_then(|own| own.entity.as_ref());
        let Some(BfKind::TableEntry(entry)) = entity else {
            return;
        };
        let (field, known) = match entry.table_id {
            id if id == self.nodes.table => (self.nodes.key, &mut self.known_nodes),
            id if id == self.groups.table => (self.groups.key, &mut self.known_groups),
            _ => return,
        };
        let id = key_of(entry).and_then(|key| field.number_in_key(key));
        let Some(id) = id.and_then(|id| u32::try_from(id).ok()) else {
            return;
        };
        match update.r#type() {
            Verb::Delete => known.remove(&id),
            _ => known.insert(id),
        };
    }

    /// Converts a clone session to write.
    pub fn write_session(
        &self,
        verb: Verb,
        session: &CloneSessionEntry,
    ) -> Result<Vec<bfrt::Update>, Status> {
        let mirrors = &self.mirrors;
        let key = mirrors.key.exact(u64::from(session.session_id))?;
        let entry = fields::key_entry(mirrors.table, key);
        let data = match verb {
            Verb::Delete => None,
            _ => Some(mirrors.data(session)?),
        };
        Ok(vec![entry_update(verb, TableEntry { data, ..entry })])
    }

    /// The entities that read all groups, or all sessions.
    pub fn read(&self, entry: &PacketReplicationEngineEntry) -> Result<Vec<bfrt::Entity>, Status> {
        match &entry.r#type {
            Some(Pre::MulticastGroupEntry(group)) if group.multicast_group_id == 0 => {
                let tables = [self.nodes.table, self.groups.table];
                Ok(tables.map(fields::all_entries).to_vec())
            }
            Some(Pre::CloneSessionEntry(session)) if session.session_id == 0 => {
                Ok(vec![fields::all_entries(self.mirrors.table)])
            }
            _ => Err(unsupported("a single replication entry cannot be read")),
        }
    }

    /// Converts a mirror session that was read, and adds nodes and groups to `found`.
    pub fn parse(&self, entry: &TableEntry, found: &mut Found) -> Option<Kind> {
        let key = key_of(entry)?;
        let data = entry.data.as_ref();
        let id = |field: Field| u32::try_from(field.number_in_key(key)?).ok();
        if entry.table_id == self.nodes.table {
            let nodes = &self.nodes;
            let rid = u32::try_from(nodes.rid.number_in(data)?).ok()?;
            let ports = numbers(nodes.ports, data);
            found.nodes.insert(id(nodes.key)?, (rid, ports));
        } else if entry.table_id == self.groups.table {
            let nodes = numbers(self.groups.nodes, data);
            found.groups.insert(id(self.groups.key)?, nodes);
        } else if entry.table_id == self.mirrors.table {
            let session = self.mirrors.parse(id(self.mirrors.key)?, data)?;
            return Some(replication(Pre::CloneSessionEntry(session)));
        }
        None
    }

    /// Records the nodes and groups of the switch, and converts the groups.
    pub fn found(&mut self, found: Found) -> Vec<Kind> {
        self.known_nodes.extend(found.nodes.keys());
        self.known_groups.extend(found.groups.keys());
        let groups = found.groups.iter().map(|(id, nodes)| {
            let nodes = nodes.iter().filter_map(|node| found.nodes.get(node));
            let replicas = nodes.flat_map(|(rid, ports)| {
                let copies = ports.iter().map(|port| replica(*port, *rid));
                copies.collect::<Vec<_>>()
            });
            replication(Pre::MulticastGroupEntry(MulticastGroupEntry {
                multicast_group_id: *id,
                replicas: replicas.collect(),
                ..MulticastGroupEntry::default()
            }))
        });
        groups.collect()
    }
}

impl Nodes {
    fn new(table: &Table) -> Result<Nodes, TranslationError> {
        Ok(Nodes {
            table: table.id,
            key: Field::key(table, "$MULTICAST_NODE_ID")?,
            rid: Field::data(table, "$MULTICAST_RID")?,
            lags: Field::data(table, "$MULTICAST_LAG_ID")?,
            ports: Field::data(table, "$DEV_PORT")?,
        })
    }

    fn key_entry(&self, node: u32) -> Result<TableEntry, Status> {
        let key = self.key.exact(u64::from(node))?;
        Ok(fields::key_entry(self.table, key))
    }

    fn entry(&self, node: u32, rid: u16, ports: Vec<u32>) -> Result<TableEntry, Status> {
        let key = self.key.exact(u64::from(node))?;
        let fields = vec![
            self.rid.number(u64::from(rid))?,
            self.lags.with(Value::IntArrVal(IntArray::default())),
            self.ports.with(Value::IntArrVal(IntArray { val: ports })),
        ];
        Ok(fields::entry(self.table, key, fields))
    }
}

impl Groups {
    fn new(table: &Table) -> Result<Groups, TranslationError> {
        Ok(Groups {
            table: table.id,
            key: Field::key(table, "$MGID")?,
            nodes: Field::data(table, "$MULTICAST_NODE_ID")?,
            has_xids: Field::data(table, "$MULTICAST_NODE_L1_XID_VALID")?,
            xids: Field::data(table, "$MULTICAST_NODE_L1_XID")?,
        })
    }

    fn data(&self, nodes: &[u32]) -> Vec<bfrt::DataField> {
        let none = vec![false; nodes.len()];
        let zeros = vec![0; nodes.len()];
        let val = nodes.to_vec();
        vec![
            self.nodes.with(Value::IntArrVal(IntArray { val })),
            self.has_xids
                .with(Value::BoolArrVal(BoolArray { val: none })),
            self.xids.with(Value::IntArrVal(IntArray { val: zeros })),
        ]
    }
}

impl Mirrors {
    fn new(table: &Table) -> Result<Mirrors, TranslationError> {
        let mut actions = table.action_specs.iter().flatten();
        let action = actions.find(|action| action.name == "$normal");
        let action = action.ok_or_else(|| missing("action", "$mirror.cfg.$normal"))?;
        Ok(Mirrors {
            table: table.id,
            key: Field::key(table, "$sid")?,
            action: action.id,
            enable: Field::data(table, "$session_enable")?,
            direction: Field::data(table, "$direction")?,
            port: Field::data(table, "$ucast_egress_port")?,
            is_port_valid: Field::data(table, "$ucast_egress_port_valid")?,
            class_of_service: Field::data(table, "$ingress_cos")?,
            rid: Field::data(table, "$mcast_rid")?,
            max_length: Field::data(table, "$max_pkt_len")?,
        })
    }

    fn data(&self, session: &CloneSessionEntry) -> Result<bfrt::TableData, Status> {
        let [replica] = &session.replicas[..] else {
            return Err(unsupported("a clone session has one replica here"));
        };
        let length = match session.packet_length_bytes {
            0 => u64::from(DEFAULT_MAX_MIRRORED_LEN),
            bytes => u64::try_from(bytes).map_err(|_| invalid("a length is negative"))?,
        };
        let class = u64::from(session.class_of_service);
        let fields = vec![
            self.enable.with(Value::BoolVal(true)),
            self.direction.with(Value::StrVal("BOTH".to_owned())),
            self.port.number(u64::from(port_of(replica)?))?,
            self.is_port_valid.with(Value::BoolVal(true)),
            self.class_of_service.number(class)?,
            self.rid.number(u64::from(replica.instance))?,
            self.max_length.number(length)?,
        ];
        Ok(bfrt::TableData {
            action_id: self.action,
            fields,
        })
    }

    fn parse(&self, id: u32, data: Option<&bfrt::TableData>) -> Option<CloneSessionEntry> {
        let number = |field: Field| u32::try_from(field.number_in(data)?).ok();
        let is_enabled = self.enable.value(data) == Some(&Value::BoolVal(true));
        let copy = replica(number(self.port)?, number(self.rid).unwrap_or(0));
        let length = number(self.max_length)?;
        is_enabled.then(|| CloneSessionEntry {
            session_id: id,
            replicas: vec![copy],
            class_of_service: number(self.class_of_service).unwrap_or(0),
            packet_length_bytes: match length == u32::from(DEFAULT_MAX_MIRRORED_LEN) {
                true => 0,
                false => length as i32,
            },
        })
    }
}

fn replication(entry: Pre) -> Kind {
    Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
        r#type: Some(entry),
    })
}

fn port_of(replica: &Replica) -> Result<u32, Status> {
    port(replica).ok_or_else(|| invalid("a replica has no port"))
}

/// The numbers of a repeated data field.
fn numbers(field: Field, data: Option<&bfrt::TableData>) -> Vec<u32> {
    match field.value(data) {
        Some(Value::IntArrVal(all)) => all.val.clone(),
        _ => Vec::new(),
    }
}
