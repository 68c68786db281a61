//! Queue of updates for a switch, sent in batches, one Write at a time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::vec;

use alfirk_p4runtime::p4::v1::{update, Update, WriteRequest};
use alfirk_p4runtime::{Code, Status};

use super::TaskId;
use crate::controller::error::{SwitchError, SwitchRequest, UpdateKind};
use crate::controller::event::{RequestId, Response};
use crate::tables::Program;

/// Ended tasks with their results.
pub(super) type EndedTasks = Vec<(TaskId, Result<(), SwitchError>)>;

/// Queue of updates for a switch.
#[derive(Debug, Default)]
pub(super) struct Writes {
    /// Updates of each task that are not sent yet, at least one.
    queue: VecDeque<(TaskId, vec::IntoIter<Update>)>,
    in_flight: Option<InFlight>,
    tasks: BTreeMap<TaskId, WriteTask>,
}

/// The pending Write call.
#[derive(Debug)]
pub(super) struct InFlight {
    request: RequestId,
    /// Time at which the call fails.
    deadline: u64,
    /// Task of each update of the call.
    tasks: Vec<TaskId>,
    body: Arc<WriteRequest>,
}

/// State of a task that has updates without a result.
#[derive(Debug)]
struct WriteTask {
    remaining: usize,
    error: Option<SwitchError>,
}

impl Writes {
    /// Queues a task with at least one update.
    pub(super) fn push(&mut self, id: TaskId, updates: Vec<Update>) {
        let task = WriteTask {
            remaining: updates.len(),
            error: None,
        };
        self.tasks.insert(id, task);
        self.queue.push_back((id, updates.into_iter()));
    }

    /// Returns the next call, if none is pending and updates are queued. `body`: the call without updates.
    pub(super) fn next(
        &mut self,
        request: RequestId,
        deadline: u64,
        limit: usize,
        body: impl FnOnce() -> WriteRequest,
    ) -> Option<Arc<WriteRequest>> {
        if self.in_flight.is_some() || self.queue.is_empty() {
            return None;
        }
        let limit = limit.max(1);
        let (mut tasks, mut updates) = (Vec::new(), Vec::new());
        while let Some((task, mut queued)) = self.queue.pop_front() {
            let free = limit - updates.len();
            if queued.len() > free {
                updates.extend(queued.by_ref().take(free));
                tasks.resize(updates.len(), task);
                self.queue.push_front((task, queued));
                break;
            }
            if updates.is_empty() {
                // Reuses the memory of the first task's list.
                updates = queued.collect();
            } else {
                updates.extend(queued);
            }
            tasks.resize(updates.len(), task);
        }
        let body = Arc::new(WriteRequest { updates, ..body() });
        self.in_flight = Some(InFlight {
            request,
            deadline,
            tasks,
            body: Arc::clone(&body),
        });
        Some(body)
    }

    /// Deadline of the pending call; `None` without one.
    pub(super) fn deadline(&self) -> Option<u64> {
        self.in_flight.as_ref().map(|write| write.deadline)
    }

    /// Takes the pending call, if its id is `request`.
    pub(super) fn take_replied(&mut self, request: RequestId) -> Option<InFlight> {
        self.in_flight.take_if(|write| write.request == request)
    }

    /// Takes the pending call, if its deadline has passed.
    pub(super) fn take_expired(&mut self, now: u64) -> Option<InFlight> {
        self.in_flight.take_if(|write| write.deadline <= now)
    }

    /// Fails all updates of a call, and returns the tasks that have thus ended.
    pub(super) fn fail(&mut self, write: InFlight, error: &SwitchError) -> EndedTasks {
        let tasks = write.tasks.into_iter();
        tasks
            .filter_map(|task| self.update_done(task, Err(error.clone())))
            .collect()
    }

    /// Processes the reply to a call, and returns the tasks that have thus ended.
    pub(super) fn finish(
        &mut self,
        write: InFlight,
        result: Result<Response, Status>,
        switch: &str,
        program: &Program,
    ) -> EndedTasks {
        let Err(status) = result else {
            let tasks = write.tasks.into_iter();
            return tasks
                .filter_map(|task| self.update_done(task, Ok(())))
                .collect();
        };
        let errors = status.update_errors();
        if errors.len() != write.tasks.len() {
            let error = SwitchError::Call {
                switch: switch.to_owned(),
                call: SwitchRequest::Write,
                status,
            };
            return self.fail(write, &error);
        }
        let mut done = Vec::new();
        let updates = write.tasks.into_iter().zip(&write.body.updates);
        for ((task, update), error) in updates.zip(errors) {
            let code = Code::try_from(error.canonical_code).unwrap_or(Code::Unknown);
            let verb = UpdateKind::from(update.r#type());
            if verb == UpdateKind::Insert && code == Code::AlreadyExists {
                // The entry exists with other content: some servers keep replication entries when a pipeline is loaded.
                let mut update = update.clone();
                update.set_type(update::Type::Modify);
                self.queue.push_front((task, vec![update].into_iter()));
                continue;
            }
            let gone = verb == UpdateKind::Delete && code == Code::NotFound;
            let result = match code == Code::Ok || gone {
                true => Ok(()),
                false => Err(SwitchError::Refused {
                    switch: switch.to_owned(),
                    entity: program.describe(update),
                    verb,
                    code,
                    message: error.message,
                }),
            };
            done.extend(self.update_done(task, result));
        }
        done
    }

    /// Returns all unfinished tasks, when the session has failed.
    pub(super) fn into_tasks(self) -> impl Iterator<Item = TaskId> {
        self.tasks.into_keys()
    }

    /// Records the result of one update, and returns its task if it has ended. A task reports one error: the first, or
    /// one after which the update may still be applied.
    fn update_done(
        &mut self,
        id: TaskId,
        result: Result<(), SwitchError>,
    ) -> Option<(TaskId, Result<(), SwitchError>)> {
        let task = self.tasks.get_mut(&id)?;
        task.remaining -= 1;
        if let Err(error) = result {
            let before = task.error.as_ref();
            // An indefinite error takes precedence over a definite one.
            if before.is_none_or(|before| before.is_definite() && !error.is_definite()) {
                task.error = Some(error);
            }
        }
        if task.remaining > 0 {
            return None;
        }
        let error = self.tasks.remove(&id)?.error;
        Some((id, error.map_or(Ok(()), Err)))
    }
}
