//! Procedure that removes a group in use: withdraws it on all switches, then deletes its entries.

use std::convert::Infallible;
use std::net::Ipv4Addr;

use super::command::Ended;
use super::error::{GroupError, SwitchError};
use super::event::Tag;
use super::group::{Group, GroupPart};
use super::procedure::{Holders, Parts, Procedure, Run, Step, SwitchTask};
use super::session::Task;
use super::switches::Owner;
use crate::topology::SwitchIndex;

/// State of the procedure that removes a group: the group, and the reason.
#[derive(Clone, Copy, Debug)]
pub(super) struct Removal {
    pub(super) mcst_id: Ipv4Addr,
    pub(super) reason: Reason,
}

/// Reason for the removal of a group.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reason {
    /// Request through the control service.
    Request(Tag),
    /// In-band request of the group's leader.
    Dissolved(Ipv4Addr),
    /// The lease of the group has expired.
    Expired,
}

impl Procedure for Removal {
    type Key = Ipv4Addr;
    type Reading = Infallible;
    type Failure = GroupError;

    const NAME: &'static str = "removal";
    const STEPS: &'static [Step<Removal>] = &[
        Step::new("withdrawal", Removal::withdrawal).irreversible(),
        Step::new("entries", Removal::entries).irreversible(),
    ];

    fn find<'a>(parts: &Parts<'a>, mcst_id: Ipv4Addr) -> Option<&'a Run<Removal>> {
        parts.groups.get(mcst_id)?.removal()
    }

    fn find_mut(holders: Holders<'_>, mcst_id: Ipv4Addr) -> Option<&mut Run<Removal>> {
        holders.groups.get_mut(mcst_id)?.removal_mut()
    }

    fn owner(mcst_id: Ipv4Addr) -> Owner {
        Owner::Removal(mcst_id)
    }

    fn record_reading(&mut self, _: SwitchIndex, reading: Infallible, _: Result<u64, SwitchError>) {
        match reading {}
    }

    fn ended(mcst_id: Ipv4Addr) -> Ended {
        Ended::Removal(mcst_id)
    }
}

impl Removal {
    fn withdrawal(&self, parts: &Parts) -> Vec<SwitchTask<Infallible>> {
        self.switch_tasks(parts, |group, _| {
            Task::Write(vec![group.withdrawal(parts.network.program())])
        })
    }

    fn entries(&self, parts: &Parts) -> Vec<SwitchTask<Infallible>> {
        self.switch_tasks(parts, |group, on| {
            Task::Write(group.removal(parts.network.program(), on))
        })
    }

    fn switch_tasks(
        &self,
        parts: &Parts,
        task: impl Fn(&Group, &GroupPart) -> Task,
    ) -> Vec<SwitchTask<Infallible>> {
        let group = parts.groups.group(self.mcst_id);
        let parts = group.iter().flat_map(|group| {
            let parts = group.parts.iter();
            parts.map(|on| SwitchTask::new(on.switch, task(group, on)))
        });
        parts.collect()
    }
}
