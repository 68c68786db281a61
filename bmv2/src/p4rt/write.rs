//! Updates, one by one and in batches (P4Runtime § 12).

use alfirk_p4runtime::{
    p4::v1::{
        entity::Entity as Kind, packet_replication_engine_entry::Type as Pre, update::Type,
        write_request::Atomicity, Entity, Error, Update, WriteRequest,
    },
    Status,
};

use super::{
    arrays, direct,
    error::{invalid, unimplemented, UpdateResult},
    pipeline::Pipeline,
    pre, profiles, read, stream, tables, value_sets, Device, Server,
};
use crate::Switch;

/// What one update works on.
pub struct Scope<'a> {
    pub switch: &'a mut Switch,
    pub pipeline: &'a mut Pipeline,
    pub now: u64,
}

impl Server {
    pub(super) fn apply(&mut self, request: &WriteRequest, now: u64) -> Result<(), Status> {
        let atomicity = Atomicity::try_from(request.atomicity)
            .map_err(|_| invalid(format!("atomicity {} is unknown", request.atomicity)))?;
        let device = self.target_mut();
        if device.pipeline.is_none() {
            return Err(stream::no_pipeline());
        }
        let mut errors = Vec::new();
        let mut undo = Vec::new();
        for (i, update) in request.updates.iter().enumerate() {
            let before = match atomicity {
                Atomicity::ContinueOnError => Vec::new(),
                _ => read::before(device, update, now),
            };
            match apply_update(device, update, now) {
                Ok(()) => {
                    undo.extend(before);
                    if !errors.is_empty() {
                        errors.push(Error::ok());
                    }
                }
                Err(status) => {
                    // Most batches have no errors and need no list of them.
                    errors.resize(i, Error::ok());
                    errors.push(Error::from(status));
                    if atomicity != Atomicity::ContinueOnError {
                        roll_back(device, undo, now);
                        return Err(abort(errors, request.updates.len()));
                    }
                }
            }
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Status::of_updates(&errors))
        }
    }
}

/// Undoes updates, the last one first. What was there a moment ago fits again.
fn roll_back(device: &mut Device, undo: Vec<Update>, now: u64) {
    for update in undo.iter().rev() {
        if let Err(status) = apply_update(device, update, now) {
            tracing::error!("cannot roll back an update: {status}");
        }
    }
}

/// All updates but the failed one get ABORTED: none of them is in effect.
fn abort(mut errors: Vec<Error>, updates: usize) -> Status {
    let aborted = || {
        Error::from(Status::new(
            alfirk_p4runtime::Code::Aborted,
            "rolled back or not tried, because another update of the batch failed",
        ))
    };
    for error in &mut errors {
        if error.canonical_code == 0 {
            *error = aborted();
        }
    }
    let failed = errors.len() - 1;
    let mut status = {
        errors.resize_with(updates, aborted);
        Status::of_updates(&errors)
    };
    status.message = format!(
        "no update was applied, because update {failed} failed: {}",
        errors[failed].message
    );
    status
}

/// Applies one update.
pub(super) fn apply_update(device: &mut Device, update: &Update, now: u64) -> UpdateResult {
    let pipeline = device.pipeline.as_mut().ok_or_else(stream::no_pipeline)?;
    let scope = &mut Scope {
        switch: &mut device.switch,
        pipeline,
        now,
    };
    let kind = update.r#type();
    if kind == Type::Unspecified {
        return Err(invalid("update: type is unset or of an unknown kind"));
    }
    match entity(update.entity.as_ref())? {
        Kind::TableEntry(entry) => tables::write(scope, kind, entry),
        Kind::ActionProfileMember(member) => profiles::write_member(scope, kind, member),
        Kind::ActionProfileGroup(group) => profiles::write_group(scope, kind, group),
        Kind::MeterEntry(entry) => arrays::write_meter(scope, kind, entry),
        Kind::DirectMeterEntry(entry) => direct::write_meter(scope, kind, entry),
        Kind::CounterEntry(entry) => arrays::write_counter(scope, kind, entry),
        Kind::DirectCounterEntry(entry) => direct::write_counter(scope, kind, entry),
        Kind::PacketReplicationEngineEntry(entry) => match entry.r#type.as_ref() {
            Some(Pre::MulticastGroupEntry(group)) => pre::write_group(scope, kind, group),
            Some(Pre::CloneSessionEntry(session)) => pre::write_session(scope, kind, session),
            None => Err(invalid("packet replication engine entry: type is unset")),
        },
        Kind::ValueSetEntry(entry) => value_sets::write(scope, kind, entry),
        Kind::RegisterEntry(entry) => arrays::write_register(scope, kind, entry),
        Kind::DigestEntry(entry) => arrays::write_digest(scope, kind, entry),
        Kind::ExternEntry(_) => Err(unimplemented("v1model has no externs of this kind")),
    }
}

/// The entity itself; unset ones are wrong everywhere.
pub(super) fn entity(entity: Option<&Entity>) -> UpdateResult<&Kind> {
    entity
        .and_then(|entity| entity.entity.as_ref())
        .ok_or_else(|| invalid("entity is unset or of an unknown kind"))
}

/// Objects that always exist can only be modified.
pub(super) fn only_modify(kind: Type, what: &str) -> UpdateResult {
    if kind == Type::Modify {
        Ok(())
    } else {
        Err(invalid(format!(
            "{what} always exist: they can be modified only"
        )))
    }
}
