//! Runner of procedures: sequences of tasks on several switches, with undo.
//!
//! A procedure is a list of steps. A step submits tasks to switches concurrently, and is complete when all of them are; then
//! the next step begins. If a task fails, the procedure is undone: first the failed step, then all steps before it, in
//! reverse order.
//!
//! ```text
//!  step 1 ──▶ step 2 ──▶ ... ──▶ step n ──▶ done
//!    │          │                  │
//!    ▼          ▼                  ▼
//!  undo 1 ◀── undo 2 ◀── ... ◀── undo n        undone
//! ```
//!
//! If a task of a step that cannot be undone fails, or a task that undoes a step, the failure is recorded, and the
//! procedure continues. So a [`Run`] always ends, done or undone, with a list of switches on which entries may remain.
//!
//! | procedure | steps | subject |
//! |---|---|---|
//! | [`Boot`](super::boot) | entries and groups of one switch | a switch that has connected |
//! | [`Creation`](super::creation) | registers, entries, publication | a group, or an agent's part of it |
//! | [`Change`](super::change) | new parts beside the old ones, then in their place | a group in use |
//! | [`Removal`](super::removal) | withdrawal, entries | a group in use |

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::adoption::Adoption;
use super::command::{Command, Ended};
use super::datagrams::Datagrams;
use super::error::{GroupError, SwitchError};
use super::groups::Groups;
use super::health::Health;
use super::mrp::Mrp;
use super::network::Network;
use super::recovery::Recoveries;
use super::session::{Task, TaskId};
use super::switches::Owner;
use super::Controller;
use crate::topology::SwitchIndex;

/// State of the controller from which the tasks of steps are built.
pub(super) struct Parts<'a> {
    pub(super) network: &'a Network,
    pub(super) groups: &'a Groups,
    pub(super) adoption: &'a Adoption,
    pub(super) mrp: &'a Mrp,
    pub(super) health: &'a Health,
    pub(super) recoveries: &'a Recoveries,
    pub(super) datagrams: &'a Datagrams,
}

/// Parts of the controller that store the running procedures.
pub(super) struct Holders<'a> {
    pub(super) network: &'a mut Network,
    pub(super) groups: &'a mut Groups,
    pub(super) mrp: &'a mut Mrp,
}

/// A procedure: its steps, and where a running instance is stored.
pub(super) trait Procedure: Sized + 'static {
    /// Key that identifies a running instance of the procedure.
    type Key: Copy;
    /// Identification of a value that a task reads from a switch.
    type Reading: Copy + fmt::Debug;
    /// Type of the error that makes the controller undo the procedure.
    type Failure: From<SwitchError> + fmt::Debug;

    /// Name of the procedure in log messages.
    const NAME: &'static str;
    /// Steps of the procedure, in order.
    const STEPS: &'static [Step<Self>];

    /// Running instance with this key; `None` if there is none.
    fn find<'a>(parts: &Parts<'a>, key: Self::Key) -> Option<&'a Run<Self>>;

    /// Running instance with this key; `None` if there is none.
    fn find_mut(holders: Holders<'_>, key: Self::Key) -> Option<&mut Run<Self>>;

    /// Owner under which the tasks of the instance `key` are submitted. The controller passes the tasks' results to it.
    fn owner(key: Self::Key) -> Owner;

    /// Records the value that a task has read, or its error. An error does not fail the step.
    fn record_reading(
        &mut self,
        switch: SwitchIndex,
        reading: Self::Reading,
        result: Result<u64, SwitchError>,
    );

    /// Command that is executed when a step has failed or the procedure is cancelled, before the completed steps are undone.
    fn undo_started(_key: Self::Key) -> Option<Command> {
        None
    }

    /// Identification of the ended procedure for the part that continues when it is done or undone; see [`Run::is_done`].
    fn ended(key: Self::Key) -> Ended;
}

/// A task of a step, for one switch. If `reading` is set, its result is recorded, and an error does not fail the step.
#[derive(Debug)]
pub(super) struct SwitchTask<R> {
    switch: SwitchIndex,
    task: Task,
    reading: Option<R>,
}

impl<R> SwitchTask<R> {
    pub(super) fn new(switch: SwitchIndex, task: Task) -> SwitchTask<R> {
        SwitchTask {
            switch,
            task,
            reading: None,
        }
    }

    /// Creates a task whose result is recorded as the value of `reading`.
    pub(super) fn read(switch: SwitchIndex, task: Task, reading: R) -> SwitchTask<R> {
        SwitchTask {
            switch,
            task,
            reading: Some(reading),
        }
    }
}

type TasksOfStep<P> = fn(&P, &Parts<'_>) -> Vec<SwitchTask<<P as Procedure>::Reading>>;
type Completion<P> = fn(
    &mut Network,
    &mut Groups,
    <P as Procedure>::Key,
) -> Result<Option<Command>, <P as Procedure>::Failure>;

/// One step of a procedure.
pub(super) struct Step<P: Procedure> {
    pub(super) name: &'static str,
    tasks: TasksOfStep<P>,
    undo: TasksOfStep<P>,
    complete: Completion<P>,
    is_irreversible: bool,
}

impl<P: Procedure> Step<P> {
    /// Creates a step whose tasks need no undo.
    pub(super) const fn new(name: &'static str, tasks: TasksOfStep<P>) -> Step<P> {
        Step {
            name,
            tasks,
            undo: |_, _| Vec::new(),
            complete: |_, _, _| Ok(None),
            is_irreversible: false,
        }
    }

    /// Sets the tasks that undo this step, no matter which of its tasks failed.
    pub(super) const fn undone_by(self, undo: TasksOfStep<P>) -> Step<P> {
        Step { undo, ..self }
    }

    /// Sets the function that is called when all tasks of this step have succeeded; the step fails if the function does.
    pub(super) const fn then(self, complete: Completion<P>) -> Step<P> {
        Step { complete, ..self }
    }

    /// Makes this step one that cannot be undone: its failures are recorded, but the procedure continues.
    pub(super) const fn irreversible(self) -> Step<P> {
        Step {
            is_irreversible: true,
            ..self
        }
    }
}

/// A running or ended procedure.
#[derive(Debug)]
pub(super) struct Run<P: Procedure> {
    pub(super) procedure: P,
    progress: Progress,
    pending: BTreeMap<TaskId, (SwitchIndex, Option<P::Reading>)>,
    /// First failure, after which the steps are undone; `None` without a failure.
    failure: Option<P::Failure>,
    /// Whether the procedure was cancelled.
    is_cancelled: bool,
    /// First error of each switch in steps that cannot be undone, or while steps are undone.
    errors: BTreeMap<SwitchIndex, SwitchError>,
    /// Switches on which entries of the procedure may remain, because it is unknown whether a write was or will be
    /// executed.
    possible_leftovers: BTreeSet<SwitchIndex>,
}

/// Progress of a procedure: the number of the step that is executed or undone, or how it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Step(usize),
    Undo(usize),
    Done,
    Undone,
}

impl<P: Procedure> Run<P> {
    /// Creates a run of a procedure, before it [begins](Controller::begin).
    pub(super) fn new(procedure: P) -> Run<P> {
        Run {
            procedure,
            progress: Progress::Step(0),
            pending: BTreeMap::new(),
            failure: None,
            is_cancelled: false,
            errors: BTreeMap::new(),
            possible_leftovers: BTreeSet::new(),
        }
    }

    /// Whether every step is complete.
    pub(super) fn is_done(&self) -> bool {
        self.progress == Progress::Done
    }

    /// Whether every step that had begun is undone.
    pub(super) fn is_undone(&self) -> bool {
        self.progress == Progress::Undone
    }

    /// First failure, after which the steps are undone; `None` without a failure.
    pub(super) fn failure(&self) -> Option<&P::Failure> {
        self.failure.as_ref()
    }

    /// Returns the state of the ended procedure, and its result.
    pub(super) fn into_outcome(self) -> (P, Outcome<P::Failure>) {
        // A disconnected switch is not a failure, as it is read and repaired when it reconnects.
        let errors = self.errors.into_values();
        let errors = errors.filter(|error| !matches!(error, SwitchError::Lost { .. }));
        let outcome = Outcome {
            failure: self.failure,
            errors: errors.collect(),
            possible_leftovers: self.possible_leftovers,
        };
        (self.procedure, outcome)
    }

    /// Records that a switch has failed, so that the procedure's state there is unreliable.
    pub(super) fn switch_failed(&mut self, switch: SwitchIndex, error: SwitchError) {
        match self.progress {
            Progress::Done | Progress::Undone => {
                self.possible_leftovers.insert(switch);
            }
            Progress::Step(_) | Progress::Undo(_) => self.record_error(switch, error),
        }
    }

    fn record_error(&mut self, switch: SwitchIndex, error: SwitchError) {
        let may_turn_back =
            matches!(self.progress, Progress::Step(n) if !P::STEPS[n].is_irreversible);
        if !may_turn_back || !error.is_definite() {
            self.possible_leftovers.insert(switch);
        }
        if may_turn_back {
            self.failure.get_or_insert_with(|| error.into());
        } else {
            self.errors.entry(switch).or_insert(error);
        }
    }

    fn enter_next_step(&mut self) {
        self.progress = match self.progress {
            Progress::Step(n) if self.failure.is_some() || self.is_cancelled => Progress::Undo(n),
            Progress::Step(n) if n + 1 < P::STEPS.len() => Progress::Step(n + 1),
            Progress::Step(_) => Progress::Done,
            Progress::Undo(n) if n > 0 => Progress::Undo(n - 1),
            Progress::Undo(_) => Progress::Undone,
            ended => ended,
        };
    }
}

/// Result of an ended procedure.
#[derive(Debug)]
pub(super) struct Outcome<F> {
    /// Failure because of which the steps were undone; `None` if the procedure succeeded or was cancelled.
    pub(super) failure: Option<F>,
    /// Errors of steps that cannot be undone, and errors while steps were undone, one per switch.
    pub(super) errors: Vec<SwitchError>,
    /// Switches on which entries of the procedure may remain.
    pub(super) possible_leftovers: BTreeSet<SwitchIndex>,
}

impl Outcome<GroupError> {
    /// Error for the requester: the failure because of which the steps were undone, and errors while they were undone.
    /// `None` without such a failure.
    pub(super) fn into_group_error(self) -> Option<GroupError> {
        let initial = self.failure?;
        Some(match self.errors.is_empty() {
            true => initial,
            false => GroupError::Unwind {
                initial: Box::new(initial),
                unwind: self.errors,
            },
        })
    }
}

impl Controller {
    pub(super) fn parts(&self) -> Parts<'_> {
        Parts {
            network: &self.network,
            groups: &self.groups,
            adoption: &self.adoption,
            mrp: &self.mrp,
            health: &self.health,
            recoveries: &self.recoveries,
            datagrams: &self.datagrams,
        }
    }

    fn run_mut<P: Procedure>(&mut self, key: P::Key) -> Option<&mut Run<P>> {
        let holders = Holders {
            network: &mut self.network,
            groups: &mut self.groups,
            mrp: &mut self.mrp,
        };
        P::find_mut(holders, key)
    }

    /// Begins or continues a procedure: executes its steps up to one that waits for tasks.
    pub(super) fn begin<P: Procedure>(&mut self, now: u64, key: P::Key) {
        loop {
            let parts = self.parts();
            let Some(run) = P::find(&parts, key) else {
                return;
            };
            let switch_tasks = match run.progress {
                Progress::Step(n) => (P::STEPS[n].tasks)(&run.procedure, &parts),
                Progress::Undo(n) => (P::STEPS[n].undo)(&run.procedure, &parts),
                Progress::Done | Progress::Undone => {
                    return self.procedure_ended(now, P::ended(key))
                }
            };
            let is_waiting = !switch_tasks.is_empty();
            for SwitchTask {
                switch,
                task,
                reading,
            } in switch_tasks
            {
                let id = self.network.submit(now, switch, P::owner(key), task);
                if let Some(run) = self.run_mut::<P>(key) {
                    run.pending.insert(id, (switch, reading));
                }
            }
            if is_waiting {
                return;
            }
            self.complete_step::<P>(now, key);
        }
    }

    /// Processes the result of a procedure's task.
    pub(super) fn advance<P: Procedure>(
        &mut self,
        now: u64,
        key: P::Key,
        task: TaskId,
        result: Result<u64, SwitchError>,
    ) {
        let Some(run) = self.run_mut::<P>(key) else {
            return;
        };
        // Otherwise the task belongs to an earlier instance with this key.
        let Some((switch, reading)) = run.pending.remove(&task) else {
            return;
        };
        match (reading, result) {
            (Some(reading), result) => run.procedure.record_reading(switch, reading, result),
            (None, Ok(_)) => {}
            (None, Err(error)) => run.record_error(switch, error),
        }
        if run.pending.is_empty() {
            self.complete_step::<P>(now, key);
            self.begin::<P>(now, key);
        }
    }

    /// Cancels a procedure: its steps are undone once the current step is complete.
    pub(super) fn cancel<P: Procedure>(&mut self, now: u64, key: P::Key) {
        let Some(run) = self.run_mut::<P>(key) else {
            return;
        };
        run.is_cancelled = true;
        if run.is_done() {
            run.progress = Progress::Undo(P::STEPS.len() - 1);
            self.begin::<P>(now, key);
        }
    }

    fn complete_step<P: Procedure>(&mut self, now: u64, key: P::Key) {
        let Some(run) = self.run_mut::<P>(key) else {
            return;
        };
        let mut result = Ok(None);
        if let (Progress::Step(n), None) = (run.progress, &run.failure) {
            result = (P::STEPS[n].complete)(&mut self.network, &mut self.groups, key);
        }
        let failure = match result {
            Ok(command) => {
                self.execute(now, command);
                None
            }
            Err(failure) => Some(failure),
        };
        let Some(run) = self.run_mut::<P>(key) else {
            return;
        };
        if failure.is_some() {
            run.failure = failure;
        }
        let before = run.progress;
        run.enter_next_step();
        if let (Progress::Step(n), Progress::Undo(_)) = (before, run.progress) {
            let (step, failure) = (P::STEPS[n].name, &run.failure);
            tracing::debug!(procedure = P::NAME, step, ?failure, "undoing the procedure");
            self.execute(now, P::undo_started(key));
        }
    }
}

#[cfg(test)]
impl<P: Procedure> Run<P> {
    /// Name of the current step, and whether it is being undone; `None` if the procedure has ended.
    pub(super) fn step(&self) -> Option<(&'static str, bool)> {
        match self.progress {
            Progress::Step(n) => Some((P::STEPS[n].name, false)),
            Progress::Undo(n) => Some((P::STEPS[n].name, true)),
            Progress::Done | Progress::Undone => None,
        }
    }
}
