//! Bringing a switch to the desired state after its pipeline was loaded: the fabric's entries, then its groups.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use super::error::SwitchError;
use super::session::{Task, TaskId};
use super::{fabric, ApiReply, Controller, Owner};
use crate::topology::SwitchIndex;

/// How far a switch is.
#[derive(Debug)]
pub(super) struct Boot {
    step: Step,
    pending: BTreeSet<TaskId>,
}

/// Each step starts when every task of the one before is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Not connected, or without pipeline.
    Off,
    /// Next hops, ARP, clone sessions.
    Base,
    /// Routes, which refer to next hops.
    Routes,
    /// Registers of the groups that the switch is to have.
    GroupRegisters,
    /// Their entries.
    GroupEntries,
    /// The entries that make them visible.
    GroupPublication,
    /// In use.
    Ready,
}

impl Boot {
    pub(super) fn new() -> Boot {
        Boot {
            step: Step::Off,
            pending: BTreeSet::new(),
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.step == Step::Ready
    }
}

impl Controller {
    /// The switch runs the pipeline and holds no entry.
    pub(super) fn start_boot(&mut self, now: u64, switch: SwitchIndex) {
        self.forget_leftovers(switch);
        self.boot_step(now, switch, Step::Base);
    }

    pub(super) fn switch_failed(&mut self, switch: SwitchIndex, error: SwitchError) {
        self.switches[switch.0].boot = Boot::new();
        self.fail_registrations(switch, &error);
        self.say(ApiReply::SwitchFailed { switch, error });
    }

    pub(super) fn boot_done(
        &mut self,
        now: u64,
        switch: SwitchIndex,
        task: TaskId,
        result: Result<(), SwitchError>,
    ) {
        let boot = &mut self.switches[switch.0].boot;
        if !boot.pending.remove(&task) {
            return;
        }
        if let Err(error) = result {
            // A lost connection is reported by the session itself.
            boot.pending.clear();
            if !matches!(error, SwitchError::Lost { .. }) {
                self.with_session(switch, |session, _| session.fail(error));
            }
        } else if boot.pending.is_empty() {
            let next = match boot.step {
                Step::Off => return,
                Step::Base => Step::Routes,
                Step::Routes => Step::GroupRegisters,
                Step::GroupRegisters => Step::GroupEntries,
                Step::GroupEntries => Step::GroupPublication,
                Step::GroupPublication | Step::Ready => Step::Ready,
            };
            self.boot_step(now, switch, next);
        }
    }

    /// Starts a step, or the first one after it that has something to do.
    fn boot_step(&mut self, now: u64, switch: SwitchIndex, step: Step) {
        self.switches[switch.0].boot.step = step;
        let tasks = match step {
            Step::Off => return,
            Step::Base => vec![Task::Write(self.fabric(switch).first)],
            Step::Routes => vec![Task::Write(self.fabric(switch).second)],
            Step::Ready => {
                self.say(ApiReply::SwitchReady { switch });
                return;
            }
            _ => self.group_tasks(switch, step),
        };
        // An empty Write is done at once, so that a step without tasks ends like any other.
        let tasks = match tasks.is_empty() {
            true => vec![Task::Write(Vec::new())],
            false => tasks,
        };
        for task in tasks {
            let id = self.submit(now, Owner::Boot(switch), task);
            self.switches[switch.0].boot.pending.insert(id);
        }
    }

    fn fabric(&self, switch: SwitchIndex) -> fabric::FabricEntries {
        fabric::entries(
            &self.program,
            &self.topology,
            &self.paths,
            self.config.group_range,
            switch,
        )
    }

    /// One step for every group that is in use and has the switch in its tree.
    ///
    /// Groups are looked up anew in each step: one that is removed meanwhile is left out.
    fn group_tasks(&self, switch: SwitchIndex, step: Step) -> Vec<Task> {
        let groups = self.groups.values().filter(|r| r.is_ready());
        let here = groups.filter_map(|registration| {
            let group = registration.group();
            let on = group.switches.iter().find(|on| on.switch == switch)?;
            Some((group, on))
        });
        let task = here.filter_map(|(group, on)| match step {
            Step::GroupRegisters => Some(group.registers(on)),
            // Solved once already, when the group was made.
            Step::GroupEntries => Some(Task::Write(group.entries(&self.program, on).ok()?)),
            Step::GroupPublication => Some(Task::Write(vec![group.publication(&self.program, on)])),
            Step::Off | Step::Base | Step::Routes | Step::Ready => None,
        });
        task.collect()
    }

    /// Indexes and addresses that waited for this switch to start anew are free again.
    fn forget_leftovers(&mut self, switch: SwitchIndex) {
        let control = &mut self.switches[switch.0];
        control.indexes.clean();
        for (_, mcst_id) in std::mem::take(&mut control.leftovers) {
            self.release_address(mcst_id);
        }
    }

    /// Makes an address usable again, unless a switch may still know it.
    pub(super) fn release_address(&mut self, mcst_id: Ipv4Addr) {
        let is_left = |control: &super::SwitchControl| {
            control.leftovers.iter().any(|(_, left)| *left == mcst_id)
        };
        if !self.switches.iter().any(is_left) {
            self.addresses.release(u32::from(mcst_id));
        }
    }
}
