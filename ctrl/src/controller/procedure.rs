//! How several things get done on several switches: the one runner of all procedures.
//!
//! A procedure is a list of steps.  A step gives tasks to switches, all at once, and is complete when every one of them is
//! answered; then the next one begins.  When something of a step fails, the procedure turns back: the step that failed and
//! all before it are undone, last one first.
//!
//! ```text
//!  step 1 ──▶ step 2 ──▶ ... ──▶ step n ──▶ done
//!    │          │                  │
//!    ▼          ▼                  ▼
//!  undo 1 ◀── undo 2 ◀── ... ◀── undo n        undone
//! ```
//!
//! A step behind which there is no way back is firm: what fails in it is noted, as is what fails while undoing, and the
//! procedure goes on.  So a [`Run`] always ends: done, or undone, and it knows on which switches something may be left.
//!
//! | procedure | steps | of what |
//! |---|---|---|
//! | [`Boot`](super::boot) | entries and groups of one switch | a switch that has connected |
//! | [`Making`](super::making) | registers, entries, publication | a group, or an agent's part of it |
//! | [`Change`](super::change) | new parts beside the old ones, then in their place | a group in use |
//! | [`Removal`](super::removal) | withdrawal, entries | a group in use |

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::error::{GroupError, SwitchError};
use super::session::{Task, TaskId};
use super::{Controller, Owner};
use crate::topology::SwitchIndex;

/// What is done, and where in the controller it stands.
pub(super) trait Procedure: Sized + 'static {
    /// Names one of them that is under way.
    type Place: Copy;
    /// What a task reads that is more than done or failed.
    type Reading: Copy + fmt::Debug;
    /// Why it turned back.
    type Failure: From<SwitchError> + fmt::Debug;

    const NAME: &'static str;
    /// In order.
    const STEPS: &'static [Step<Self>];

    fn find(controller: &Controller, place: Self::Place) -> Option<&Run<Self>>;

    fn find_mut(controller: &mut Controller, place: Self::Place) -> Option<&mut Run<Self>>;

    /// Who waits for its tasks.
    fn owner(place: Self::Place) -> Owner;

    /// Takes in what a task has read, or why it could not; no failure of the step.
    fn record_reading(
        &mut self,
        switch: SwitchIndex,
        reading: Self::Reading,
        result: Result<u64, SwitchError>,
    );

    /// A step has failed, or it is called off: what is done so far will be undone.
    fn turned_back(_controller: &mut Controller, _now: u64, _place: Self::Place) {}

    /// It is done or undone; see [`Run::is_done`].
    fn over(controller: &mut Controller, now: u64, place: Self::Place);
}

/// One thing to do on one switch.
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

    /// A task whose answer matters.
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
    fn(&mut Controller, <P as Procedure>::Place) -> Result<(), <P as Procedure>::Failure>;

/// One step of a procedure.
pub(super) struct Step<P: Procedure> {
    pub(super) name: &'static str,
    tasks: Orders<P>,
    undo: Orders<P>,
    complete: Completion<P>,
    is_firm: bool,
}

impl<P: Procedure> Step<P> {
    /// A step of these tasks, which leave nothing to undo.
    pub(super) const fn new(name: &'static str, tasks: Orders<P>) -> Step<P> {
        Step {
            name,
            tasks,
            undo: |_, _| Vec::new(),
            complete: |_, _| Ok(()),
            is_firm: false,
        }
    }

    /// What takes back all that the tasks may have done, whichever of them failed.
    pub(super) const fn undone_by(self, undo: Orders<P>) -> Step<P> {
        Step { undo, ..self }
    }

    /// What follows from the answers; the step fails if this does.
    pub(super) const fn then(self, complete: Completion<P>) -> Step<P> {
        Step { complete, ..self }
    }

    /// There is no way back from here.
    pub(super) const fn firm(self) -> Step<P> {
        Step {
            is_firm: true,
            ..self
        }
    }
}

/// A procedure under way or at its end.
#[derive(Debug)]
pub(super) struct Run<P: Procedure> {
    pub(super) procedure: P,
    at: At,
    waits_for: BTreeMap<TaskId, (SwitchIndex, Option<P::Reading>)>,
    /// What failed first.
    failure: Option<P::Failure>,
    /// Somebody does not want it any more.
    is_called_off: bool,
    /// What failed with no way back: the first error of each switch.
    left: BTreeMap<SwitchIndex, SwitchError>,
    /// Switches that may hold something that they should not, or may still come to.
    doubtful: BTreeSet<SwitchIndex>,
}

/// How far a procedure is; all steps before have begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Step(usize),
    Undo(usize),
    Done,
    Undone,
}

impl<P: Procedure> Run<P> {
    /// A procedure that is about to [begin](Controller::begin).
    pub(super) fn new(procedure: P) -> Run<P> {
        Run {
            procedure,
            at: At::Step(0),
            waits_for: BTreeMap::new(),
            failure: None,
            is_called_off: false,
            left: BTreeMap::new(),
            doubtful: BTreeSet::new(),
        }
    }

    /// Whether every step is complete.
    pub(super) fn is_done(&self) -> bool {
        self.at == At::Done
    }

    /// Whether every step that had begun is undone.
    pub(super) fn is_undone(&self) -> bool {
        self.at == At::Undone
    }

    /// Why it turned back.
    pub(super) fn failure(&self) -> Option<&P::Failure> {
        self.failure.as_ref()
    }

    /// What it was about, and how it ended.
    pub(super) fn end(self) -> (P, Ending<P::Failure>) {
        // A switch that is away is read and repaired when it comes back; that is no failure.
        let left = self.left.into_values();
        let left = left.filter(|error| !matches!(error, SwitchError::Lost { .. }));
        let ending = Ending {
            failure: self.failure,
            left: left.collect(),
            doubtful: self.doubtful,
        };
        (self.procedure, ending)
    }

    /// A switch has failed: what the procedure did there is not to be relied on.
    pub(super) fn lose(&mut self, switch: SwitchIndex, error: SwitchError) {
        match self.at {
            At::Done | At::Undone => {
                self.doubtful.insert(switch);
            }
            At::Step(_) | At::Undo(_) => self.note(switch, error),
        }
    }

    fn note(&mut self, switch: SwitchIndex, error: SwitchError) {
        let may_turn_back = matches!(self.at, At::Step(n) if !P::STEPS[n].is_firm);
        if !may_turn_back || !error.is_definite() {
            self.doubtful.insert(switch);
        }
        if may_turn_back {
            self.failure.get_or_insert_with(|| error.into());
        } else {
            self.left.entry(switch).or_insert(error);
        }
    }

    fn turn(&mut self) {
        self.at = match self.at {
            At::Step(n) if self.failure.is_some() || self.is_called_off => At::Undo(n),
            At::Step(n) if n + 1 < P::STEPS.len() => At::Step(n + 1),
            At::Step(_) => At::Done,
            At::Undo(n) if n > 0 => At::Undo(n - 1),
            At::Undo(_) => At::Undone,
            over => over,
        };
    }
}

/// How a procedure ended.
#[derive(Debug)]
pub(super) struct Ending<F> {
    /// Why it turned back.
    pub(super) failure: Option<F>,
    /// What failed with no way back, one error per switch.
    pub(super) left: Vec<SwitchError>,
    /// Switches on which something may be left.
    pub(super) doubtful: BTreeSet<SwitchIndex>,
}

impl Ending<GroupError> {
    /// Why the procedure turned back, and what failed while undoing; `None` when it did not.
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
    /// Begins a procedure whose run is in its place, or goes on with it: to the first step that has something to do.
    pub(super) fn begin<P: Procedure>(&mut self, now: u64, place: P::Place) {
        while let Some(run) = P::find(self, place) {
            let orders = match run.at {
                At::Step(n) => (P::STEPS[n].tasks)(&run.procedure, self),
                At::Undo(n) => (P::STEPS[n].undo)(&run.procedure, self),
                At::Done | At::Undone => return P::over(self, now, place),
            };
            let is_waiting = !orders.is_empty();
            for order in orders {
                let id = self.submit(now, order.switch, P::owner(place), order.task);
                if let Some(run) = P::find_mut(self, place) {
                    run.waits_for.insert(id, (order.switch, order.reading));
                }
            }
            if is_waiting {
                return;
            }
            self.complete_step::<P>(now, place);
        }
    }

    /// A task of a procedure is done.
    pub(super) fn advance<P: Procedure>(
        &mut self,
        now: u64,
        place: P::Place,
        task: TaskId,
        result: Result<u64, SwitchError>,
    ) {
        let Some(run) = P::find_mut(self, place) else {
            return;
        };
        // Else it was of a procedure that stood here before.
        let Some((switch, reading)) = run.waits_for.remove(&task) else {
            return;
        };
        match (reading, result) {
            (Some(reading), result) => run.procedure.record_reading(switch, reading, result),
            (None, Ok(_)) => {}
            (None, Err(error)) => run.note(switch, error),
        }
        if run.waits_for.is_empty() {
            self.complete_step::<P>(now, place);
            self.begin::<P>(now, place);
        }
    }

    /// Has a procedure turn back: at once if it is done, else when the present step is.
    pub(super) fn call_off<P: Procedure>(&mut self, now: u64, place: P::Place) {
        let Some(run) = P::find_mut(self, place) else {
            return;
        };
        run.is_called_off = true;
        if run.is_done() {
            run.at = At::Undo(P::STEPS.len() - 1);
            self.begin::<P>(now, place);
        }
    }

    fn complete_step<P: Procedure>(&mut self, now: u64, place: P::Place) {
        let Some(run) = P::find_mut(self, place) else {
            return;
        };
        let mut result = Ok(());
        if let (At::Step(n), None) = (run.at, &run.failure) {
            result = (P::STEPS[n].complete)(self, place);
        }
        if let Some(run) = P::find_mut(self, place) {
            if let Err(failure) = result {
                run.failure = Some(failure);
            }
            let before = run.at;
            run.turn();
            if let (At::Step(n), At::Undo(_)) = (before, run.at) {
                let (step, failure) = (P::STEPS[n].name, &run.failure);
                tracing::debug!(procedure = P::NAME, step, ?failure, "turns back");
                P::turned_back(self, now, place);
            }
        }
    }
}

#[cfg(test)]
impl<P: Procedure> Run<P> {
    /// The step under way, and whether it is being undone; `None` when it is over.
    pub(super) fn step(&self) -> Option<(&'static str, bool)> {
        match self.at {
            At::Step(n) => Some((P::STEPS[n].name, false)),
            At::Undo(n) => Some((P::STEPS[n].name, true)),
            At::Done | At::Undone => None,
        }
    }
}
