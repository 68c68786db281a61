//! Procedure that removes a group in use: withdraws it on all switches, then deletes its entries.

use std::convert::Infallible;
use std::net::Ipv4Addr;

use super::error::{GroupError, SwitchError};
use super::event::Tag;
use super::group::{Group, GroupPart};
use super::procedure::{Procedure, Run, Step, SwitchTask};
use super::session::Task;
use super::{Controller, Owner};
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

    fn find(controller: &Controller, mcst_id: Ipv4Addr) -> Option<&Run<Removal>> {
        controller.groups.get(&mcst_id)?.removal()
    }

    fn find_mut(controller: &mut Controller, mcst_id: Ipv4Addr) -> Option<&mut Run<Removal>> {
        controller.groups.get_mut(&mcst_id)?.removal_mut()
    }

    fn owner(mcst_id: Ipv4Addr) -> Owner {
        Owner::Removal(mcst_id)
    }

    fn record_reading(&mut self, _: SwitchIndex, reading: Infallible, _: Result<u64, SwitchError>) {
        match reading {}
    }

    fn ended(controller: &mut Controller, _: u64, mcst_id: Ipv4Addr) {
        controller.group_removed(mcst_id);
    }
}

impl Removal {
    fn withdrawal(&self, controller: &Controller) -> Vec<SwitchTask<Infallible>> {
        self.switch_tasks(controller, |group, _| {
            Task::Write(vec![group.withdrawal(&controller.program)])
        })
    }

    fn entries(&self, controller: &Controller) -> Vec<SwitchTask<Infallible>> {
        self.switch_tasks(controller, |group, on| {
            Task::Write(group.removal(&controller.program, on))
        })
    }

    fn switch_tasks(
        &self,
        controller: &Controller,
        task: impl Fn(&Group, &GroupPart) -> Task,
    ) -> Vec<SwitchTask<Infallible>> {
        let registration = controller.groups.get(&self.mcst_id);
        let group = registration.map(|registration| registration.group());
        let parts = group.iter().flat_map(|group| {
            let parts = group.parts.iter();
            parts.map(|on| SwitchTask::new(on.switch, task(group, on)))
        });
        parts.collect()
    }
}
