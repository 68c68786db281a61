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

use super::command::{Command, Ended};
use super::error::{GroupError, SwitchError};
use super::group::{Group, GroupPart};
use super::procedure::{Holders, Parts, Procedure, Run, Step, SwitchTask};
use super::session::Task;
use super::switches::Owner;
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

    fn find<'a>(parts: &Parts<'a>, key: Creation) -> Option<&'a Run<Creation>> {
        match key.agent {
            None => parts.groups.get(key.mcst_id)?.creation(),
            Some(switch) => parts.mrp.creation(key.mcst_id, switch),
        }
    }

    fn find_mut(holders: Holders<'_>, key: Creation) -> Option<&mut Run<Creation>> {
        match key.agent {
            None => holders.groups.get_mut(key.mcst_id)?.creation_mut(),
            Some(switch) => holders.mrp.creation_mut(key.mcst_id, switch),
        }
    }

    fn owner(key: Creation) -> Owner {
        Owner::Creation(key)
    }

    fn record_reading(&mut self, _: SwitchIndex, reading: Infallible, _: Result<u64, SwitchError>) {
        match reading {}
    }

    fn undo_started(key: Creation) -> Option<Command> {
        let switch = key.agent?;
        Some(Command::PartFailed(switch, key.mcst_id))
    }

    fn ended(key: Creation) -> Ended {
        Ended::Creation(key)
    }
}

impl Creation {
    fn registers(&self, parts: &Parts) -> Vec<SwitchTask<Infallible>> {
        self.switch_tasks(parts, |group, on| {
            group.registers(parts.network.topology(), on, &BTreeMap::new())
        })
    }

    fn entries(&self, parts: &Parts) -> Vec<SwitchTask<Infallible>> {
        self.switch_tasks(parts, |group, on| {
            vec![Task::Write(group.entries(parts.network.program(), on))]
        })
    }

    fn publication(&self, parts: &Parts) -> Vec<SwitchTask<Infallible>> {
        self.switch_tasks(parts, |group, on| {
            vec![Task::Write(vec![
                group.publication(parts.network.program(), on)
            ])]
        })
    }

    fn withdrawal(&self, parts: &Parts) -> Vec<SwitchTask<Infallible>> {
        self.switch_tasks(parts, |group, _| {
            vec![Task::Write(vec![group.withdrawal(parts.network.program())])]
        })
    }

    fn removal(&self, parts: &Parts) -> Vec<SwitchTask<Infallible>> {
        self.switch_tasks(parts, |group, on| {
            vec![Task::Write(group.removal(parts.network.program(), on))]
        })
    }

    /// Builds the tasks of one step, for each part of the group that this procedure creates.
    fn switch_tasks(
        &self,
        parts: &Parts,
        tasks: impl Fn(&Group, &GroupPart) -> Vec<Task>,
    ) -> Vec<SwitchTask<Infallible>> {
        let Some(group) = parts.groups.group(self.mcst_id) else {
            return Vec::new();
        };
        let is_ours = |on: &&GroupPart| self.agent.is_none_or(|switch| switch == on.switch);
        let parts = group.parts.iter().filter(is_ours);
        let switch_tasks = parts.flat_map(|on| {
            let tasks = tasks(group, on).into_iter();
            tasks.map(|task| SwitchTask::new(on.switch, task))
        });
        switch_tasks.collect()
    }
}
