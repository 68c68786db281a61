//! P4Runtime requests in BfRuntime, the control interface of Tofino's own driver.
//!
//! The controller speaks P4Runtime. [`Translation`] converts its Writes and Reads for a switch that is controlled by
//! BfRuntime, and converts the replies back. It does no I/O. Objects have the same names in both interfaces, so ids are
//! looked up by name: in P4Info, and in the schemas of the program and of the device (`bf-rt.json`).
//!
//! | P4Runtime | BfRuntime |
//! |---|---|
//! | `TableEntry` | the table of the same name |
//! | `MulticastGroupEntry` | `$pre.mgid`, and one `$pre.node` for each replication id (instance) |
//! | `CloneSessionEntry` | `$mirror.cfg` |
//! | `MeterEntry`, `CounterEntry`, `RegisterEntry` | the table of the same name, with the index as key |
//!
//! BfRuntime has no PacketIn and PacketOut: packets of the CPU port are frames of that port.

mod arrays;
mod engine;
mod fields;
mod tables;

use std::collections::BTreeMap;

use alfirk_bf_rt_json::{Schema, Table};
use alfirk_p4runtime::bfrt_proto::{
    self as bfrt, entity::Entity as BfKind, table_entry::Value as BfKey, write_request::Atomicity,
};
use alfirk_p4runtime::p4::config::v1::P4Info;
use alfirk_p4runtime::p4::v1::{
    self, entity::Entity as Kind, packet_replication_engine_entry::Type as Pre, update, Entity,
};
use alfirk_p4runtime::{pack, Code, Message, Status};

use arrays::{Array, ArrayKind};
pub use engine::DEFAULT_MAX_MIRRORED_LEN;
pub use tables::reversed_priority;

use engine::Engine;
use tables::MatchTable;

/// Direction, pipe and parser that stand for all.
const ALL_PIPES: u32 = 0xffff;
const ALL: u32 = 0xff;

/// The schemas do not have an object that P4Info has, or that every device has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the BfRuntime schema has no {kind} `{name}`; write it with `alfirk p4c --bf-rt-schema` from the program of P4Info")]
pub struct TranslationError {
    /// Kind of the missing object, such as `table`.
    pub kind: &'static str,
    /// Name of the object, with its owner as prefix.
    pub name: String,
}

/// Converts the requests for one switch. It remembers the multicast nodes that the switch has.
#[derive(Clone, Debug)]
pub struct Translation {
    /// Match-action tables by their P4Info ids.
    tables: BTreeMap<u32, MatchTable>,
    /// Counter, meter and register arrays by their P4Info ids.
    arrays: BTreeMap<u32, Array>,
    engine: Engine,
    client: u32,
    p4_name: String,
}

/// A Write in BfRuntime, and how its updates belong to those of P4Runtime.
#[derive(Clone, Debug)]
pub struct Written {
    /// The request for the switch.
    pub request: bfrt::WriteRequest,
    /// For each update of P4Runtime: the number of its updates in `request`, or why it has none.
    parts: Vec<Result<usize, Status>>,
}

impl Translation {
    /// Creates the translation for a program. `program` and `device` are the schemas that the switch reports. `client`
    /// is the id with which the client has subscribed, `p4_name` the name of the program to which it is bound.
    ///
    /// # Errors
    /// The schemas do not have an object of P4Info, or lack the replication engine or mirror sessions.
    pub fn new(
        p4info: &P4Info,
        program: &Schema,
        device: &Schema,
        client: u32,
        p4_name: &str,
    ) -> Result<Translation, TranslationError> {
        Ok(Translation {
            tables: MatchTable::all(p4info, program)?,
            arrays: Array::all(p4info, program)?,
            engine: Engine::new(device)?,
            client,
            p4_name: p4_name.to_owned(),
        })
    }

    /// Converts a Write. The result of the request must be passed to [`Translation::written`] before the next Write.
    pub fn write(&self, request: &v1::WriteRequest) -> Written {
        let mut updates = Vec::new();
        let mut engine = self.engine.clone();
        let parts = request.updates.iter().map(|update| {
            let before = updates.len();
            let converted = self.update(&mut engine, update)?;
            updates.extend(converted);
            Ok(updates.len() - before)
        });
        let parts = parts.collect();
        Written {
            request: bfrt::WriteRequest {
                target: Some(all_pipes()),
                client_id: self.client,
                updates,
                atomicity: Atomicity::ContinueOnError.into(),
                p4_name: self.p4_name.clone(),
            },
            parts,
        }
    }

    fn update(
        &self,
        engine: &mut Engine,
        update: &v1::Update,
    ) -> Result<Vec<bfrt::Update>, Status> {
        use update::Type as From;
        let kind = match update.r#type() {
            From::Insert => bfrt::update::Type::Insert,
            From::Modify => bfrt::update::Type::Modify,
            From::Delete => bfrt::update::Type::Delete,
            From::Unspecified => return Err(invalid("the update has no type")),
        };
        let entity = update
            .entity
            .as_ref()
            .and_then(|entity| entity.entity.as_ref());
        match entity {
            Some(Kind::TableEntry(entry)) => {
                let table = self.tables.get(&entry.table_id);
                let table = table.ok_or_else(|| unknown("table", entry.table_id))?;
                Ok(vec![entry_update(kind, table.entry(kind, entry)?)])
            }
            Some(Kind::PacketReplicationEngineEntry(entry)) => match &entry.r#type {
                Some(Pre::MulticastGroupEntry(group)) => engine.write_group(kind, group),
                Some(Pre::CloneSessionEntry(session)) => engine.write_session(kind, session),
                None => Err(invalid("the replication entry is empty")),
            },
            Some(Kind::MeterEntry(entry)) => {
                let array = self.array(entry.meter_id, ArrayKind::Meter)?;
                Ok(vec![entry_update(
                    bfrt::update::Type::Modify,
                    array.meter(entry)?,
                )])
            }
            Some(Kind::RegisterEntry(entry)) => {
                let array = self
                    .arrays
                    .get(&entry.register_id)
                    .filter(|array| matches!(array.kind, ArrayKind::Register | ArrayKind::Wred));
                let array = array.ok_or_else(|| unknown("array", entry.register_id))?;
                Ok(vec![entry_update(
                    bfrt::update::Type::Modify,
                    array.register(entry)?,
                )])
            }
            _ => Err(unsupported("entities of this kind cannot be written")),
        }
    }

    fn array(&self, id: u32, kind: ArrayKind) -> Result<&Array, Status> {
        let array = self.arrays.get(&id).filter(|array| array.kind == kind);
        array.ok_or_else(|| unknown("array", id))
    }

    /// Converts the result of a Write.
    ///
    /// # Errors
    /// An update failed; the status has an error for each update of the P4Runtime request, as a server of P4Runtime
    /// returns. Or the whole call failed.
    pub fn written(
        &mut self,
        written: &Written,
        result: Result<bfrt::WriteResponse, Status>,
    ) -> Result<(), Status> {
        let errors = match result {
            Ok(response) => response.status,
            Err(status) => {
                let errors = errors_of(&status);
                if errors.len() != written.request.updates.len() {
                    return Err(status);
                }
                errors
            }
        };
        for (at, update) in written.request.updates.iter().enumerate() {
            let has_failed = errors
                .get(at)
                .is_some_and(|error| error.canonical_code != 0);
            if !has_failed {
                self.engine.applied(update);
            }
        }
        let mut rest = errors.as_slice();
        let mut results = Vec::with_capacity(written.parts.len());
        for part in &written.parts {
            results.push(match part {
                Err(status) => v1::Error {
                    canonical_code: status.code,
                    message: status.message.clone(),
                    ..v1::Error::default()
                },
                Ok(count) => {
                    let (own, others) = rest.split_at((*count).min(rest.len()));
                    rest = others;
                    let failed = own.iter().find(|error| error.canonical_code != 0);
                    failed.map_or_else(v1::Error::default, |error| v1::Error {
                        canonical_code: error.canonical_code,
                        message: error.message.clone(),
                        ..v1::Error::default()
                    })
                }
            });
        }
        let failed = results.iter().find(|error| error.canonical_code != 0);
        match failed {
            None => Ok(()),
            Some(first) => Err(Status {
                code: Code::Unknown.into(),
                message: format!("updates failed: {}", first.message),
                details: results.iter().map(pack).collect(),
            }),
        }
    }

    /// Converts a Read.
    ///
    /// # Errors
    /// An entity of the request cannot be read by BfRuntime.
    pub fn read(&self, request: &v1::ReadRequest) -> Result<bfrt::ReadRequest, Status> {
        let mut entities = Vec::new();
        for entity in &request.entities {
            match &entity.entity {
                Some(Kind::TableEntry(entry)) if entry.r#match.is_empty() => {
                    let table = self.tables.get(&entry.table_id);
                    let table = table.ok_or_else(|| unknown("table", entry.table_id))?;
                    entities.push(fields::all_entries(table.id));
                }
                Some(Kind::PacketReplicationEngineEntry(entry)) => {
                    entities.extend(self.engine.read(entry)?);
                }
                Some(Kind::MeterEntry(entry)) => {
                    let array = self.array(entry.meter_id, ArrayKind::Meter)?;
                    entities.push(array.read(entry.index.as_ref())?);
                }
                Some(Kind::CounterEntry(entry)) => {
                    let array = self.array(entry.counter_id, ArrayKind::Counter)?;
                    entities.push(array.read(entry.index.as_ref())?);
                }
                Some(Kind::RegisterEntry(entry)) => {
                    let array = self.array(entry.register_id, ArrayKind::Register)?;
                    entities.push(array.read(entry.index.as_ref())?);
                }
                _ => return Err(unsupported("entities of this kind cannot be read")),
            }
        }
        Ok(bfrt::ReadRequest {
            target: Some(all_pipes()),
            client_id: self.client,
            entities,
            p4_name: self.p4_name.clone(),
        })
    }

    /// Converts the responses of a Read to entities of P4Runtime, in the order of the responses; multicast groups are
    /// last. Entries that P4Runtime does not show, such as those of other tables, are left out.
    pub fn entities(&mut self, responses: &[bfrt::ReadResponse]) -> Vec<Entity> {
        let entries = responses.iter().flat_map(|response| &response.entities);
        let mut found = Vec::new();
        let mut engine = engine::Found::default();
        for entity in entries {
            let Some(BfKind::TableEntry(entry)) = &entity.entity else {
                continue;
            };
            let id = entry.table_id;
            let kind = if let Some(table) = self.tables.values().find(|table| table.id == id) {
                table.parse(entry).map(Kind::TableEntry)
            } else if let Some((own, array)) = self.arrays.iter().find(|(_, array)| array.id == id)
            {
                array.parse(*own, entry)
            } else {
                self.engine.parse(entry, &mut engine)
            };
            found.extend(kind);
        }
        found.extend(self.engine.found(engine));
        let entities = found.into_iter().map(|kind| Entity { entity: Some(kind) });
        entities.collect()
    }
}

/// An update of one entry.
fn entry_update(kind: bfrt::update::Type, entry: bfrt::TableEntry) -> bfrt::Update {
    bfrt::Update {
        r#type: kind.into(),
        entity: Some(bfrt::Entity {
            entity: Some(BfKind::TableEntry(entry)),
        }),
    }
}

/// The key of an entry.
fn key_of(entry: &bfrt::TableEntry) -> Option<&bfrt::TableKey> {
    match entry.value.as_ref()? {
        BfKey::Key(key) => Some(key),
        BfKey::HandleId(_) => None,
    }
}

/// The target of all requests: all pipes of the first device.
fn all_pipes() -> bfrt::TargetDevice {
    bfrt::TargetDevice {
        device_id: 0,
        pipe_id: ALL_PIPES,
        direction: ALL,
        prsr_id: ALL,
    }
}

/// The errors of all updates in the details of a status.
fn errors_of(status: &Status) -> Vec<bfrt::Error> {
    let details = status.details.iter();
    let errors = details.map(|any| bfrt::Error::decode(&*any.value));
    errors.collect::<Result<_, _>>().unwrap_or_default()
}

/// The table of the program with this P4Info name: BfRuntime puts the name of the pipe in front of it.
fn table_named<'s>(
    schema: &'s Schema,
    kind: &'static str,
    name: &str,
) -> Result<&'s Table, TranslationError> {
    let own = |table: &&Table| {
        table
            .name
            .split_once('.')
            .is_some_and(|(_, own)| own == name)
    };
    schema
        .tables
        .iter()
        .find(own)
        .ok_or_else(|| missing(kind, name))
}

fn missing(kind: &'static str, name: &str) -> TranslationError {
    TranslationError {
        kind,
        name: name.to_owned(),
    }
}

fn invalid(why: impl Into<String>) -> Status {
    Status::new(Code::InvalidArgument, why)
}

fn unsupported(why: impl Into<String>) -> Status {
    Status::new(Code::Unimplemented, why)
}

fn unknown(kind: &str, id: u32) -> Status {
    Status::new(
        Code::NotFound,
        format!("the program has no {kind} with the P4Info id {id:#x}"),
    )
}
