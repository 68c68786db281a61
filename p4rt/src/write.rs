//! Writes: single updates, and batches with their atomicity (P4Runtime § 12).

use std::mem;

use alfirk_p4runtime::{
    p4::v1::{
        entity::Entity as Kind, packet_replication_engine_entry::Type as Pre, update::Type,
        write_request::Atomicity, Error, Update, WriteRequest, WriteResponse,
    },
    Code, Status,
};

use super::{
    arbitration::RoleKey,
    arrays,
    device::{no_pipeline, Device},
    direct,
    error::{invalid, unimplemented, UpdateResult},
    pre, profiles, read,
    scope::{entity, Scope},
    tables, translation, value_sets, Server,
};

/// A batch of updates in progress. [`Server::begin_write`] starts it, and [`Server::continue_write`] applies its next
/// updates; packets can be processed in between.
#[derive(Debug)]
pub struct PendingWrite {
    request: WriteRequest,
    progress: Progress,
}

/// Progress of a batch of updates.
#[derive(Debug)]
struct Progress {
    atomicity: Atomicity,
    /// Number of updates processed so far, including failed ones.
    done: usize,
    /// One status per update of the batch; empty while no update has failed.
    errors: Vec<Error>,
    /// Updates that undo those applied so far. They must be applied from last to first.
    undo: Vec<Update>,
}

impl Server {
    /// Applies updates in order (§ 12). No packet is processed between them, so every batch is atomic to the data
    /// plane. The atomicity mode determines the result when an update fails.
    ///
    /// # Errors
    /// One status per request, with an error per update in its details when updates were tried.
    pub fn write(&mut self, request: &WriteRequest, now: u64) -> Result<WriteResponse, Status> {
        let mut progress = self.admit_write(request)?;
        let whole = progress.step(self.target_mut(), &request.updates, usize::MAX, now);
        whole.unwrap_or(Ok(WriteResponse {}))
    }

    /// Checks the client's right to write and that a pipeline is set, without applying an update. Until
    /// [`Server::continue_write`] has finished the batch, no other request may be handled. Packets may be
    /// processed, and see the updates applied so far.
    ///
    /// # Errors
    /// One status for the whole request.
    pub fn begin_write(&self, request: WriteRequest) -> Result<PendingWrite, Status> {
        let progress = self.admit_write(&request)?;
        Ok(PendingWrite { request, progress })
    }

    /// Applies the next `max` updates of a batch, or all of them if the batch must be atomic to the data plane
    /// (DATAPLANE_ATOMIC). Returns `None` while updates remain.
    ///
    /// # Errors
    /// As [`Server::write`].
    pub fn continue_write(
        &mut self,
        batch: &mut PendingWrite,
        max: usize,
        now: u64,
    ) -> Option<Result<WriteResponse, Status>> {
        let PendingWrite { request, progress } = batch;
        progress.step(self.target_mut(), &request.updates, max, now)
    }

    fn admit_write(&self, request: &WriteRequest) -> Result<Progress, Status> {
        self.check_device(request.device_id)?;
        let role = RoleKey::new(&request.role, request.role_id);
        self.arbitration
            .authorize(&role, request.election_id.as_ref())?;
        let atomicity = Atomicity::try_from(request.atomicity)
            .map_err(|_| invalid(format!("atomicity {} is unknown", request.atomicity)))?;
        if self.target().pipeline.is_none() {
            return Err(no_pipeline());
        }
        Ok(Progress {
            atomicity,
            done: 0,
            errors: Vec::new(),
            undo: Vec::new(),
        })
    }
}

impl Progress {
    fn step(
        &mut self,
        device: &mut Device,
        updates: &[Update],
        max: usize,
        now: u64,
    ) -> Option<Result<WriteResponse, Status>> {
        let max = match self.atomicity {
            Atomicity::DataplaneAtomic => usize::MAX,
            Atomicity::ContinueOnError | Atomicity::RollbackOnError => max,
        };
        for update in updates.iter().skip(self.done).take(max) {
            let before = match self.atomicity {
                Atomicity::ContinueOnError => Vec::new(),
                _ => read::undo_updates(device, update, now),
            };
            match apply_update(device, update, now) {
                Ok(()) => {
                    self.undo.extend(before);
                    if !self.errors.is_empty() {
                        self.errors.push(Error::ok());
                    }
                }
                Err(status) => {
                    self.errors.resize(self.done, Error::ok());
                    self.errors.push(Error::from(status));
                    if self.atomicity != Atomicity::ContinueOnError {
                        roll_back(device, mem::take(&mut self.undo), now);
                        return Some(Err(abort(mem::take(&mut self.errors), updates.len())));
                    }
                }
            }
            self.done += 1;
        }
        if self.done < updates.len() {
            None
        } else if self.errors.is_empty() {
            Some(Ok(WriteResponse {}))
        } else {
            Some(Err(Status::of_updates(&self.errors)))
        }
    }
}

/// Applies updates that restore the state before the batch, the last one first. They cannot fail, since that state was
/// valid.
fn roll_back(device: &mut Device, undo: Vec<Update>, now: u64) {
    for update in undo.iter().rev() {
        if let Err(status) = apply_update(device, update, now) {
            tracing::error!("cannot roll back an update: {status}");
        }
    }
}

/// Builds the status of an aborted batch: ABORTED for all updates but the failed one.
fn abort(mut errors: Vec<Error>, updates: usize) -> Status {
    let aborted = || {
        Error::from(Status::new(
            alfirk_p4runtime::Code::Aborted,
            "rolled back or not applied, because another update of the batch failed",
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

/// Applies one update. If a translated type has run out of data plane values, frees unused ones and tries again.
pub(super) fn apply_update(device: &mut Device, update: &Update, now: u64) -> UpdateResult {
    let result = try_update(device, update, now);
    let is_exhausted =
        (result.as_ref()).is_err_and(|status| status.canonical_code() == Code::ResourceExhausted);
    match is_exhausted && translation::collect::collect(device) {
        true => try_update(device, update, now),
        false => result,
    }
}

fn try_update(device: &mut Device, update: &Update, now: u64) -> UpdateResult {
    let pipeline = device.pipeline.as_mut().ok_or_else(no_pipeline)?;
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
