//! Runner of procedures: sequences of tasks on several switches, with undo.
//!
//! A procedure is a list of steps. A step submits tasks to switches concurrently, and is complete when all of them are; then
//! the next step begins. If a task fails, the procedure turns back: the failed step and all before it are undone, in
//! reverse order.
//!
//! ```text
//!  step 1 ──▶ step 2 ──▶ ... ──▶ step n ──▶ done
//!    │          │                  │
//!    ▼          ▼                  ▼
//!  undo 1 ◀── undo 2 ◀── ... ◀── undo n        undone
//! ```
//!
//! A step that cannot be undone is firm: its failures are recorded, as are failures while undoing, and the procedure
//! continues. So a [`Run`] always ends, done or undone, with a list of switches that may have leftover state.
//!
//! | procedure | steps | subject |
//! |---|---|---|
//! | [`Boot`](super::boot) | entries and groups of one switch | a switch that has connected |
//! | [`Creation`](super::creation) | registers, entries, publication | a group, or an agent's part of it |
//! | [`Change`](super::change) | new parts beside the old ones, then in their place | a group in use |
//! | [`Removal`](super::removal) | withdrawal, entries | a group in use |

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::error::{GroupError, SwitchError};
use super::session::{Task, TaskId};
use super::{Controller, Owner};
use crate::topology::SwitchIndex;

/// A procedure: its steps, and how the controller finds a running instance.
pub(super) trait Procedure: Sized + 'static {
    /// Identifies a running instance.
    type Key: Copy;
    /// Identifies the value that a task reads.
    type Reading: Copy + fmt::Debug;
    /// Error because of which the procedure turns back.
    type Failure: From<SwitchError> + fmt::Debug;

    const NAME: &'static str;
    /// Steps in order.
    const STEPS: &'static [Step<Self>];

    fn find(controller: &Controller, key: Self::Key) -> Option<&Run<Self>>;

    fn find_mut(controller: &mut Controller, key: Self::Key) -> Option<&mut Run<Self>>;

    /// Owner under which the tasks of the instance `key` are submitted. The controller passes the tasks' results to it.
    fn owner(key: Self::Key) -> Owner;

    /// Records the value that a task has read, or its error. An error does not fail the step.
    fn record_reading(
        &mut self,
        switch: SwitchIndex,
        reading: Self::Reading,
        result: Result<u64, SwitchError>,
    );

    /// Called when a step has failed or the procedure is cancelled, before the completed steps are undone.
    fn turned_back(_controller: &mut Controller, _now: u64, _place: Self::Key) {}

    /// Called when the procedure is done or undone; see [`Run::is_done`].
    fn ended(controller: &mut Controller, now: u64, key: Self::Key);
}

/// A task for one switch. With a `reading`, its result is recorded, and an error does not fail the step.
#[derive(Debug)]
pub(super) struct Order<R> {
    switch: SwitchIndex,
    task: Task,
    reading: Option<R>,
}

impl<R> Order<R> {
    pub(super) fn new(switch: SwitchIndex, task: Task) -> Order<R> {
        Order {
            switch,
            task,
            reading: None,
        }
    }

    /// Creates an order for a task whose result is recorded under `reading`.
    pub(super) fn read(switch: SwitchIndex, task: Task, reading: R) -> Order<R> {
        Order {
            switch,
            task,
            reading: Some(reading),
        }
    }
}

type Orders<P> = fn(&P, &Controller) -> Vec<Order<<P as Procedure>::Reading>>;
type Completion<P> =
    fn(&mut Controller, <P as Procedure>::Key) -> Result<(), <P as Procedure>::Failure>;

/// One step of a procedure.
pub(super) struct Step<P: Procedure> {
    pub(super) name: &'static str,
    tasks: Orders<P>,
    undo: Orders<P>,
    complete: Completion<P>,
    is_firm: bool,
}

impl<P: Procedure> Step<P> {
    /// Creates a step whose tasks need no undo.
    pub(super) const fn new(name: &'static str, tasks: Orders<P>) -> Step<P> {
        Step {
            name,
            tasks,
            undo: |_, _| Vec::new(),
            complete: |_, _| Ok(()),
            is_firm: false,
        }
    }

    /// Sets the tasks that undo this step, no matter which of its tasks failed.
    pub(super) const fn undone_by(self, undo: Orders<P>) -> Step<P> {
        Step { undo, ..self }
    }

    /// Sets the function that is called when all tasks of this step have succeeded; the step fails if the function does.
    pub(super) const fn then(self, complete: Completion<P>) -> Step<P> {
        Step { complete, ..self }
    }

    /// Makes this step firm: its failures are recorded, but do not turn the procedure back.
    pub(super) const fn firm(self) -> Step<P> {
        Step {
            is_firm: true,
            ..self
        }
    }
}

/// A running or ended procedure.
#[derive(Debug)]
pub(super) struct Run<P: Procedure> {
    pub(super) procedure: P,
    at: Progress,
    waits_for: BTreeMap<TaskId, (SwitchIndex, Option<P::Reading>)>,
    /// First failure, because of which the procedure turns back; `None` without one.
    failure: Option<P::Failure>,
    /// Whether the procedure was cancelled.
    is_cancelled: bool,
    /// First error of each switch in firm steps or while undoing.
    left: BTreeMap<SwitchIndex, SwitchError>,
    /// Switches that may have leftover state, now or after a delayed reply.
    doubtful: BTreeSet<SwitchIndex>,
}

/// Current step of a procedure; all steps before it have begun.
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
            at: Progress::Step(0),
            waits_for: BTreeMap::new(),
            failure: None,
            is_cancelled: false,
            left: BTreeMap::new(),
            doubtful: BTreeSet::new(),
        }
    }

    /// Whether every step is complete.
    pub(super) fn is_done(&self) -> bool {
        self.at == Progress::Done
    }

    /// Whether every step that had begun is undone.
    pub(super) fn is_undone(&self) -> bool {
        self.at == Progress::Undone
    }

    /// Failure because of which the procedure has turned back; `None` without one.
    pub(super) fn failure(&self) -> Option<&P::Failure> {
        self.failure.as_ref()
    }

    /// Returns the state of the procedure, and how it has ended.
    pub(super) fn end(self) -> (P, Ending<P::Failure>) {
        // A disconnected switch is not a failure, as it is read and repaired when it reconnects.
        let left = self.left.into_values();
        let left = left.filter(|error| !matches!(error, SwitchError::Lost { .. }));
        let ending = Ending {
            failure: self.failure,
            left: left.collect(),
            doubtful: self.doubtful,
        };
        (self.procedure, ending)
    }

    /// Records that a switch has failed, so that the procedure's state there is unreliable.
    pub(super) fn switch_failed(&mut self, switch: SwitchIndex, error: SwitchError) {
        match self.at {
            Progress::Done | Progress::Undone => {
                self.doubtful.insert(switch);
            }
            Progress::Step(_) | Progress::Undo(_) => self.note(switch, error),
        }
    }

    fn note(&mut self, switch: SwitchIndex, error: SwitchError) {
        let may_turn_back = matches!(self.at, Progress::Step(n) if !P::STEPS[n].is_firm);
        if !may_turn_back || !error.is_definite() {
            self.doubtful.insert(switch);
        }
        if may_turn_back {
            self.failure.get_or_insert_with(|| error.into());
        } else {
            self.left.entry(switch).or_insert(error);
        }
    }

    fn enter_next_step(&mut self) {
        self.at = match self.at {
            Progress::Step(n) if self.failure.is_some() || self.is_cancelled => Progress::Undo(n),
            Progress::Step(n) if n + 1 < P::STEPS.len() => Progress::Step(n + 1),
            Progress::Step(_) => Progress::Done,
            Progress::Undo(n) if n > 0 => Progress::Undo(n - 1),
            Progress::Undo(_) => Progress::Undone,
            over => over,
        };
    }
}

/// How a procedure has ended.
#[derive(Debug)]
pub(super) struct Ending<F> {
    /// Failure because of which the procedure has turned back; `None` if it did not, or was cancelled.
    pub(super) failure: Option<F>,
    /// Errors of firm steps or while undoing, one per switch.
    pub(super) left: Vec<SwitchError>,
    /// Switches that may have leftover state.
    pub(super) doubtful: BTreeSet<SwitchIndex>,
}

impl Ending<GroupError> {
    /// Error for the requester: the reason to turn back, and errors while undoing. `None` if the procedure did not turn back.
    pub(super) fn error(self) -> Option<GroupError> {
        let initial = self.failure?;
        Some(match self.left.is_empty() {
            true => initial,
            false => GroupError::Unwind {
                initial: Box::new(initial),
                unwind: self.left,
            },
        })
    }
}

impl Controller {
    /// Begins or continues a procedure, up to the next step with tasks.
    pub(super) fn begin<P: Procedure>(&mut self, now: u64, key: P::Key) {
        while let Some(run) = P::find(self, key) {
            let orders = match run.at {
                Progress::Step(n) => (P::STEPS[n].tasks)(&run.procedure, self),
                Progress::Undo(n) => (P::STEPS[n].undo)(&run.procedure, self),
                Progress::Done | Progress::Undone => return P::ended(self, now, key),
            };
            let is_waiting = !orders.is_empty();
            for order in orders {
                let id = self.submit(now, order.switch, P::owner(key), order.task);
                if let Some(run) = P::find_mut(self, key) {
                    run.waits_for.insert(id, (order.switch, order.reading));
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
        let Some(run) = P::find_mut(self, key) else {
            return;
        };
        // Otherwise the task belongs to an earlier instance with this key.
        let Some((switch, reading)) = run.waits_for.remove(&task) else {
            return;
        };
        match (reading, result) {
            (Some(reading), result) => run.procedure.record_reading(switch, reading, result),
            (None, Ok(_)) => {}
            (None, Err(error)) => run.note(switch, error),
        }
        if run.waits_for.is_empty() {
            self.complete_step::<P>(now, key);
            self.begin::<P>(now, key);
        }
    }

    /// Cancels a procedure: it turns back once the current step is complete.
    pub(super) fn cancel<P: Procedure>(&mut self, now: u64, key: P::Key) {
        let Some(run) = P::find_mut(self, key) else {
            return;
        };
        run.is_cancelled = true;
        if run.is_done() {
            run.at = Progress::Undo(P::STEPS.len() - 1);
            self.begin::<P>(now, key);
        }
    }

    fn complete_step<P: Procedure>(&mut self, now: u64, key: P::Key) {
        let Some(run) = P::find_mut(self, key) else {
            return;
        };
        let mut result = Ok(());
        if let (Progress::Step(n), None) = (run.at, &run.failure) {
            result = (P::STEPS[n].complete)(self, key);
        }
        if let Some(run) = P::find_mut(self, key) {
            if let Err(failure) = result {
                run.failure = Some(failure);
            }
            let before = run.at;
            run.enter_next_step();
            if let (Progress::Step(n), Progress::Undo(_)) = (before, run.at) {
                let (step, failure) = (P::STEPS[n].name, &run.failure);
                tracing::debug!(procedure = P::NAME, step, ?failure, "turns back");
                P::turned_back(self, now, key);
            }
        }
    }
}

#[cfg(test)]
impl<P: Procedure> Run<P> {
    /// Name of the current step, and whether it is being undone; `None` if the procedure has ended.
    pub(super) fn step(&self) -> Option<(&'static str, bool)> {
        match self.at {
            Progress::Step(n) => Some((P::STEPS[n].name, false)),
            Progress::Undo(n) => Some((P::STEPS[n].name, true)),
            Progress::Done | Progress::Undone => None,
        }
    }
}
