//! Procedure that creates a group, or its part on one switch.
//!
//! Registers are written first, then egress, replication and ingress entries. The entries that publish the group are written
//! once all others are on every switch, so that no packet is processed by a partial group.
//!
//! A group of the control service is created on all switches of its tree at once. For a group registered in band, each
//! switch's agent creates its own part.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::Ipv4Addr;

use super::error::{GroupError, SwitchError};
use super::group::{Group, GroupPart};
use super::procedure::{Procedure, Run, Step, SwitchTask};
use super::session::Task;
use super::{Controller, Owner};
use crate::topology::SwitchIndex;

/// Procedure that creates a group on all switches of its tree, or its part on one switch if it is registered in band.
#[derive(Clone, Copy, Debug)]
pub(super) struct Creation {
    pub(super) mcst_id: Ipv4Addr,
    /// Switch whose agent creates its part of the group; `None` if the parts of all switches are created.
    pub(super) agent: Option<SwitchIndex>,
}

impl Procedure for Creation {
    type Key = Creation;
    type Reading = Infallible;
    type Failure = GroupError;

    const NAME: &'static str = "creation";
    const STEPS: &'static [Step<Creation>] = &[
        Step::new("registers", Creation::registers),
        Step::new("entries", Creation::entries).undone_by(Creation::removal),
        Step::new("publication", Creation::publication).undone_by(Creation::withdrawal),
    ];

    fn find(controller: &Controller, key: Creation) -> Option<&Run<Creation>> {
        match key.agent {
            None => controller.groups.get(&key.mcst_id)?.creation(),
            Some(switch) => controller.mrp.creation(key.mcst_id, switch),
        }
    }

    fn find_mut(controller: &mut Controller, key: Creation) -> Option<&mut Run<Creation>> {
        match key.agent {
            None => controller.groups.get_mut(&key.mcst_id)?.creation_mut(),
            Some(switch) => controller.mrp.creation_mut(key.mcst_id, switch),
        }
    }

    fn owner(key: Creation) -> Owner {
        Owner::Creation(key)
    }

    fn record_reading(&mut self, _: SwitchIndex, reading: Infallible, _: Result<u64, SwitchError>) {
        match reading {}
    }

    fn undo_started(controller: &mut Controller, now: u64, key: Creation) {
        if let Some(switch) = key.agent {
            controller.part_failed(now, switch, key.mcst_id);
        }
    }

    fn ended(controller: &mut Controller, now: u64, key: Creation) {
        match key.agent {
            None => controller.group_created(now, key.mcst_id),
            Some(switch) => controller.part_created(now, switch, key.mcst_id),
        }
    }
}

impl Creation {
    fn registers(&self, controller: &Controller) -> Vec<SwitchTask<Infallible>> {
        self.switch_tasks(controller, |group, on| {
            group.registers(&controller.topology, on, &BTreeMap::new())
        })
    }

    fn entries(&self, controller: &Controller) -> Vec<SwitchTask<Infallible>> {
        self.switch_tasks(controller, |group, on| {
            vec![Task::Write(group.entries(&controller.program, on))]
        })
    }

    fn publication(&self, controller: &Controller) -> Vec<SwitchTask<Infallible>> {
        self.switch_tasks(controller, |group, on| {
            vec![Task::Write(
                vec![group.publication(&controller.program, on)],
            )]
        })
    }

    fn withdrawal(&self, controller: &Controller) -> Vec<SwitchTask<Infallible>> {
        self.switch_tasks(controller, |group, _| {
            vec![Task::Write(vec![group.withdrawal(&controller.program)])]
        })
    }

    fn removal(&self, controller: &Controller) -> Vec<SwitchTask<Infallible>> {
        self.switch_tasks(controller, |group, on| {
            vec![Task::Write(group.removal(&controller.program, on))]
        })
    }

    /// Builds the tasks of one step, for each part of the group that this procedure creates.
    fn switch_tasks(
        &self,
        controller: &Controller,
        tasks: impl Fn(&Group, &GroupPart) -> Vec<Task>,
    ) -> Vec<SwitchTask<Infallible>> {
        let Some(registration) = controller.groups.get(&self.mcst_id) else {
            return Vec::new();
        };
        let group = registration.group();
        let is_ours = |on: &&GroupPart| self.agent.is_none_or(|switch| switch == on.switch);
        let parts = group.parts.iter().filter(is_ours);
        let switch_tasks = parts.flat_map(|on| {
            let tasks = tasks(group, on).into_iter();
            tasks.map(|task| SwitchTask::new(on.switch, task))
        });
        switch_tasks.collect()
    }
}
