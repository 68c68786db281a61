//! Reads, and the snapshots of state that rollback and reconciliation need (P4Runtime § 13).

use std::mem;

use alfirk_p4runtime::{
    p4::v1::{
        entity::Entity as Kind, packet_replication_engine_entry::Type as Pre, update::Type,
        ActionProfileGroup, ActionProfileMember, CloneSessionEntry, CounterData, CounterEntry,
        DigestEntry, Entity, Error, MeterConfig, MeterEntry, MulticastGroupEntry,
        PacketReplicationEngineEntry, ReadRequest, ReadResponse, RegisterEntry, TableEntry, Update,
        ValueSetEntry,
    },
    Message, Status,
};

use super::{
    arrays,
    device::{Device, Pipeline},
    direct,
    error::{invalid, unimplemented, UpdateResult},
    pre, profiles,
    scope::{entity, EntityVisitor, View},
    tables, value_sets, Server,
};
use alfirk_bmv2::EntryHandle;

/// Size from which on a part of a response is passed on, in bytes. gRPC clients reject messages above 4 MiB.
const PART_BYTES: usize = 256 << 10;

/// A read in progress. [`Server::begin_read`] starts it, and [`Server::continue_read`] processes its next entities;
/// packets can be processed in between.
#[derive(Debug)]
pub struct PendingRead {
    request: ReadRequest,
    progress: Progress,
}

/// Progress of a read.
#[derive(Debug, Default)]
struct Progress {
    /// One status for each filter (entity of the request) processed so far.
    errors: Vec<Error>,
    failed: bool,
    /// Table entries that the current filter selects, and the number of them that were processed. `None` if the filter
    /// does not select table entries.
    walk: Option<(Vec<(u32, EntryHandle)>, usize)>,
    /// Entities that were read and not yet passed to the caller.
    part: ReadResponse,
    bytes: usize,
}

impl Server {
    /// Reads entities, and passes them to `take` in parts that are below the message limit of gRPC clients.
    ///
    /// # Errors
    /// One status per request, with an error per entity in its details when some could be read.
    pub fn read_parts(
        &self,
        request: &ReadRequest,
        now: u64,
        take: &mut dyn FnMut(ReadResponse),
    ) -> Result<(), Status> {
        self.admit_read(request)?;
        let mut progress = Progress::default();
        let whole = progress.step(self.view(now)?, &request.entities, usize::MAX, take);
        whole.unwrap_or(Ok(()))
    }

    /// Checks a read request without reading. Until [`Server::continue_read`] has finished, no other request may be
    /// handled. Packets may be processed, and counters change meanwhile.
    ///
    /// # Errors
    /// One status for the whole request.
    pub fn begin_read(&self, request: ReadRequest) -> Result<PendingRead, Status> {
        self.admit_read(&request)?;
        Ok(PendingRead {
            request,
            progress: Progress::default(),
        })
    }

    /// Processes about `max` more entities, and passes them to `take` as [`Server::read_parts`] does. Returns
    /// `None` while entities remain.
    ///
    /// # Errors
    /// As [`Server::read_parts`].
    pub fn continue_read(
        &self,
        read: &mut PendingRead,
        max: usize,
        now: u64,
        take: &mut dyn FnMut(ReadResponse),
    ) -> Option<Result<(), Status>> {
        let PendingRead { request, progress } = read;
        match self.view(now) {
            Ok(view) => progress.step(view, &request.entities, max, take),
            Err(status) => Some(Err(status)),
        }
    }

    fn admit_read(&self, request: &ReadRequest) -> Result<(), Status> {
        self.check_device(request.device_id)?;
        self.target().configured().map(|_| ())
    }

    fn view(&self, now: u64) -> Result<View<'_>, Status> {
        let (switch, pipeline) = self.target().configured()?;
        Ok(View {
            switch,
            pipeline,
            now,
        })
    }
}

impl Progress {
    fn step(
        &mut self,
        view: View<'_>,
        filters: &[Entity],
        mut max: usize,
        take: &mut dyn FnMut(ReadResponse),
    ) -> Option<Result<(), Status>> {
        while let Some(filter) = filters.get(self.errors.len()) {
            if max == 0 {
                return None;
            }
            let result = self.advance_filter(view, filter, &mut max, take);
            if self.walk.is_none() || result.is_err() {
                self.walk = None;
                self.failed |= result.is_err();
                let error = result.map_or_else(Error::from, |()| Error::ok());
                self.errors.push(error);
            }
        }
        if !self.part.entities.is_empty() {
            take(mem::take(&mut self.part));
        }
        if self.failed {
            return Some(Err(Status::of_requests(&self.errors)));
        }
        Some(Ok(()))
    }

    /// Processes one filter of a read: up to `max` of its table entries, or all other entities. Subtracts the number of
    /// processed entities from `max`.
    fn advance_filter(
        &mut self,
        view: View<'_>,
        filter: &Entity,
        max: &mut usize,
        take: &mut dyn FnMut(ReadResponse),
    ) -> UpdateResult {
        let filter = entity(Some(filter))?;
        if let (Kind::TableEntry(entry), None) = (filter, &self.walk) {
            self.walk = tables::walk(view, entry)?.map(|entries| (entries, 0));
        }
        let walk = self.walk.take();
        let mut looked_at = 1;
        let Progress { part, bytes, .. } = self;
        let found = &mut |found| {
            looked_at += 1;
            let entity = Entity {
                entity: Some(found),
            };
            *bytes += entity.encoded_len();
            part.entities.push(entity);
            if *bytes >= PART_BYTES {
                *bytes = 0;
                take(mem::take(part));
            }
        };
        match (filter, walk) {
            (Kind::TableEntry(entry), Some((entries, seen))) => {
                let end = seen.saturating_add(*max).min(entries.len());
                tables::read_entries(view, entry, &entries[seen..end], found)?;
                *max -= end - seen;
                self.walk = (end < entries.len()).then_some((entries, end));
            }
            (filter, _) => {
                find(view, filter, found)?;
                *max = max.saturating_sub(looked_at);
            }
        }
        Ok(())
    }
}

fn find(view: View<'_>, filter: &Kind, found: EntityVisitor<'_>) -> UpdateResult {
    match filter {
        Kind::TableEntry(entry) => tables::read(view, entry, found),
        Kind::ActionProfileMember(member) => profiles::read_members(view, member, found),
        Kind::ActionProfileGroup(group) => profiles::read_groups(view, group, found),
        Kind::MeterEntry(entry) => arrays::read_meters(view, entry, found),
        Kind::DirectMeterEntry(entry) => direct::read_meters(view, entry, found),
        Kind::CounterEntry(entry) => arrays::read_counters(view, entry, found),
        Kind::DirectCounterEntry(entry) => direct::read_counters(view, entry, found),
        Kind::PacketReplicationEngineEntry(entry) => match entry.r#type.as_ref() {
            Some(Pre::MulticastGroupEntry(group)) => pre::read_groups(view, group, found),
            Some(Pre::CloneSessionEntry(session)) => pre::read_sessions(view, session, found),
            None => Err(invalid("packet replication engine entry: type is unset")),
        },
        Kind::ValueSetEntry(entry) => value_sets::read(view, entry, found),
        Kind::RegisterEntry(entry) => arrays::read_registers(view, entry, found),
        Kind::DigestEntry(entry) => arrays::read_digests(view, entry, found),
        Kind::ExternEntry(_) => Err(unimplemented("v1model has no externs of this kind")),
    }
}

/// Returns the updates that would undo `update`, to be applied from last to first.
pub(super) fn undo_updates(device: &Device, update: &Update, now: u64) -> Vec<Update> {
    let (Ok((switch, pipeline)), Ok(kind)) = (device.configured(), entity(update.entity.as_ref()))
    else {
        return Vec::new();
    };
    let undo_type = match update.r#type() {
        Type::Insert => {
            return vec![Update {
                r#type: Type::Delete.into(),
                entity: update.entity.clone(),
            }]
        }
        Type::Modify => Type::Modify,
        Type::Delete => Type::Insert,
        Type::Unspecified => return Vec::new(),
    };
    let view = View {
        switch,
        pipeline,
        now,
    };
    let mut entities = Vec::new();
    let found = &mut |found| entities.push(found);
    // An entity that cannot be read cannot be updated either; the update reports the error.
    let _ = match kind {
        Kind::TableEntry(entry) => tables::read_exactly(view, entry, found),
        Kind::DirectMeterEntry(entry) => match &entry.table_entry {
            Some(entry) => tables::read_exactly(view, entry, found),
            None => Ok(()),
        },
        Kind::DirectCounterEntry(entry) => match &entry.table_entry {
            Some(entry) => tables::read_exactly(view, entry, found),
            None => Ok(()),
        },
        other => find(view, other, found),
    };
    // A read returns the whole entity, with its direct resources.
    entities
        .into_iter()
        .map(|mut entity| {
            if let Kind::TableEntry(entry) = &mut entity {
                // Only the direct resources of a const entry can have changed.
                if mem::take(&mut entry.is_const) {
                    entry.action = None;
                }
            }
            to_update(undo_type, entity)
        })
        .collect()
}

/// Returns updates that delete, from a fresh pipeline, the initial entries that a controller has deleted.
pub(super) fn deletions(device: &Device, now: u64) -> UpdateResult<Vec<Update>> {
    let (switch, pipeline) = device.configured()?;
    let view = View {
        switch,
        pipeline,
        now,
    };
    let deleted = tables::deleted_initial_entries(view)?.into_iter();
    let updates = deleted.map(|entry| to_update(Type::Delete, Kind::TableEntry(entry)));
    Ok(updates.collect())
}

/// Returns everything that controllers have written, as updates that would write the same to a fresh pipeline.
pub(super) fn snapshot(device: &Device, now: u64) -> UpdateResult<Vec<Update>> {
    let (switch, pipeline) = device.configured()?;
    let view = View {
        switch,
        pipeline,
        now,
    };
    let pre = |entry| {
        Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
            r#type: Some(entry),
        })
    };
    let inserted = [
        Kind::ActionProfileMember(ActionProfileMember::default()),
        Kind::ActionProfileGroup(ActionProfileGroup::default()),
        Kind::TableEntry(TableEntry {
            meter_config: Some(MeterConfig::default()),
            counter_data: Some(CounterData::default()),
            ..Default::default()
        }),
        pre(Pre::MulticastGroupEntry(MulticastGroupEntry::default())),
        pre(Pre::CloneSessionEntry(CloneSessionEntry::default())),
        Kind::DigestEntry(DigestEntry::default()),
    ];
    let modified = [
        Kind::TableEntry(TableEntry {
            is_default_action: true,
            ..Default::default()
        }),
        Kind::MeterEntry(MeterEntry::default()),
        Kind::CounterEntry(CounterEntry::default()),
        Kind::ValueSetEntry(ValueSetEntry::default()),
        Kind::RegisterEntry(RegisterEntry::default()),
    ];
    let mut updates = Vec::new();
    for (kind, filters) in [(Type::Insert, &inserted[..]), (Type::Modify, &modified[..])] {
        for filter in filters {
            let result = find(view, filter, &mut |found| {
                if is_written(&found, pipeline) {
                    updates.push(to_update(kind, found));
                }
            });
            result?;
        }
    }
    Ok(updates)
}

/// Returns whether an entity was written by a controller and not by the program. Register cells and counters that are
/// zero do not count, since they need not be written.
fn is_written(kind: &Kind, pipeline: &Pipeline) -> bool {
    match kind {
        Kind::TableEntry(entry) if entry.is_default_action => {
            !pipeline.tables.is_initial_default(entry.table_id)
        }
        Kind::TableEntry(entry) => !entry.is_const,
        Kind::CounterEntry(entry) => entry
            .data
            .is_some_and(|data| data != CounterData::default()),
        Kind::MeterEntry(entry) => entry.config.is_some(),
        Kind::ValueSetEntry(entry) => !entry.members.is_empty(),
        Kind::RegisterEntry(entry) => entry
            .data
            .as_ref()
            .is_some_and(|data| !arrays::is_zero(data)),
        _ => true,
    }
}

fn to_update(kind: Type, entity: Kind) -> Update {
    Update {
        r#type: kind.into(),
        entity: Some(Entity {
            entity: Some(entity),
        }),
    }
}
