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
use super::procedure::{Order, Procedure, Run, Step};
use super::session::Task;
use super::{Controller, Owner};
use crate::topology::SwitchIndex;

/// The group, and the switch of the agent if it is registered in band.
#[derive(Clone, Copy, Debug)]
pub(super) struct Making {
    pub(super) mcst_id: Ipv4Addr,
    pub(super) agent: Option<SwitchIndex>,
}

impl Procedure for Making {
    type Place = Making;
    type Reading = Infallible;
    type Failure = GroupError;

    const NAME: &'static str = "making";
    const STEPS: &'static [Step<Making>] = &[
        Step::new("registers", Making::registers),
        Step::new("entries", Making::entries).undone_by(Making::removal),
        Step::new("publication", Making::publication).undone_by(Making::withdrawal),
    ];

    fn find(controller: &Controller, place: Making) -> Option<&Run<Making>> {
        match place.agent {
            None => controller.groups.get(&place.mcst_id)?.making(),
            Some(switch) => controller.mrp.making(place.mcst_id, switch),
        }
    }

    fn find_mut(controller: &mut Controller, place: Making) -> Option<&mut Run<Making>> {
        match place.agent {
            None => controller.groups.get_mut(&place.mcst_id)?.making_mut(),
            Some(switch) => controller.mrp.making_mut(place.mcst_id, switch),
        }
    }

    fn owner(place: Making) -> Owner {
        Owner::Making(place)
    }

    fn record_reading(&mut self, _: SwitchIndex, reading: Infallible, _: Result<u64, SwitchError>) {
        match reading {}
    }

    fn turned_back(controller: &mut Controller, now: u64, place: Making) {
        if let Some(switch) = place.agent {
            controller.part_failed(now, switch, place.mcst_id);
        }
    }

    fn over(controller: &mut Controller, now: u64, place: Making) {
        match place.agent {
            None => controller.group_made(now, place.mcst_id),
            Some(switch) => controller.part_made(now, switch, place.mcst_id),
        }
    }
}

impl Making {
    fn registers(&self, controller: &Controller) -> Vec<Order<Infallible>> {
        self.orders(controller, |group, on| {
            group.registers(&controller.topology, on, &BTreeMap::new())
        })
    }

    fn entries(&self, controller: &Controller) -> Vec<Order<Infallible>> {
        self.orders(controller, |group, on| {
            vec![Task::Write(group.entries(&controller.program, on))]
        })
    }

    fn publication(&self, controller: &Controller) -> Vec<Order<Infallible>> {
        self.orders(controller, |group, on| {
            vec![Task::Write(
                vec![group.publication(&controller.program, on)],
            )]
        })
    }

    fn withdrawal(&self, controller: &Controller) -> Vec<Order<Infallible>> {
        self.orders(controller, |group, _| {
            vec![Task::Write(vec![group.withdrawal(&controller.program)])]
        })
    }

    fn removal(&self, controller: &Controller) -> Vec<Order<Infallible>> {
        self.orders(controller, |group, on| {
            vec![Task::Write(group.removal(&controller.program, on))]
        })
    }

    /// Tasks for each part of the group.
    fn orders(
        &self,
        controller: &Controller,
        tasks: impl Fn(&Group, &GroupPart) -> Vec<Task>,
    ) -> Vec<Order<Infallible>> {
        let Some(registration) = controller.groups.get(&self.mcst_id) else {
            return Vec::new();
        };
        let group = registration.group();
        let is_ours = |on: &&GroupPart| self.agent.is_none_or(|switch| switch == on.switch);
        let parts = group.switches.iter().filter(is_ours);
        let orders = parts.flat_map(|on| {
            let tasks = tasks(group, on).into_iter();
            tasks.map(|task| Order::new(on.switch, task))
        });
        orders.collect()
    }
}
