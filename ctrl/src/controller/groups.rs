//! All groups of the controller, and the resources that they use.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::bridge::{Bridges, GroupMember};
use super::capacity::TableFull;
use super::group::{resource_demand, Group, GroupPart};
use super::network::Network;
use super::punt::PartIndex;
use super::recovery::PartKey;
use super::registration::Registration;
use super::resources::Resources;
use crate::topology::{SwitchIndex, Topology};

/// All groups, by address, and the resources that they use.
pub(super) struct Groups {
    registrations: BTreeMap<Ipv4Addr, Registration>,
    resources: Resources,
}

impl Groups {
    /// Creates the state of a network without groups.
    pub(super) fn new(network: &Network) -> Groups {
        let switches = network.topology().switches().len();
        Groups {
            registrations: BTreeMap::new(),
            resources: Resources::new(network.config(), &network.program().sizes, switches),
        }
    }

    /// The resources that groups use.
    pub(super) fn resources(&self) -> &Resources {
        &self.resources
    }

    pub(super) fn resources_mut(&mut self) -> &mut Resources {
        &mut self.resources
    }

    /// Allocates the resources of a group's part on a switch with these ports. `kept`: receiver slots that hosts already
    /// have there, by port.
    pub(super) fn allocate_part<P>(
        &mut self,
        topology: &Topology,
        (switch, ports): (SwitchIndex, P),
        kept: BTreeMap<u32, u32>,
        bridges: &Bridges,
    ) -> Result<GroupPart, TableFull>
    where
        P: Iterator<Item = u32> + Clone,
    {
        let wanted = resource_demand(topology, switch, ports.clone(), kept);
        let allocation = self.resources.allocate(switch, &wanted)?;
        Ok(GroupPart::new(
            topology,
            switch,
            &allocation,
            ports,
            bridges,
        ))
    }

    /// Registration of a group; `None` if there is no group with this address.
    pub(super) fn get(&self, mcst_id: Ipv4Addr) -> Option<&Registration> {
        self.registrations.get(&mcst_id)
    }

    pub(super) fn get_mut(&mut self, mcst_id: Ipv4Addr) -> Option<&mut Registration> {
        self.registrations.get_mut(&mcst_id)
    }

    pub(super) fn contains(&self, mcst_id: Ipv4Addr) -> bool {
        self.registrations.contains_key(&mcst_id)
    }

    /// Adds a group, whose resources are allocated already.
    pub(super) fn insert(&mut self, registration: Registration) {
        let mcst_id = registration.group().mcst_id;
        self.registrations.insert(mcst_id, registration);
    }

    /// Removes a group, whose resources remain allocated.
    pub(super) fn remove_registration(&mut self, mcst_id: Ipv4Addr) -> Option<Registration> {
        self.registrations.remove(&mcst_id)
    }

    /// All groups, in the order of addresses.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Registration> {
        self.registrations.values()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Registration> {
        self.registrations.values_mut()
    }

    /// Addresses of all groups.
    #[cfg(test)]
    pub(super) fn addresses(&self) -> Vec<Ipv4Addr> {
        self.registrations.keys().copied().collect()
    }

    /// The group with this address; `None` if there is none.
    pub(super) fn group(&self, mcst_id: Ipv4Addr) -> Option<&Group> {
        self.get(mcst_id).map(Registration::group)
    }

    /// The group and its part on a switch; `None` if there is no such part.
    pub(super) fn part(&self, (mcst_id, switch): PartKey) -> Option<(&Group, &GroupPart)> {
        let group = self.group(mcst_id)?;
        Some((group, group.part_on(switch)?))
    }

    /// Whether a group is in use, also while it is being changed.
    pub(super) fn is_ready(&self, mcst_id: Ipv4Addr) -> bool {
        self.get(mcst_id).is_some_and(Registration::is_ready)
    }

    /// Leader of a group: the first member, or the host that registers the group in band.
    pub(super) fn leader_of(&self, mcst_id: Ipv4Addr) -> Option<Ipv4Addr> {
        let registration = self.get(mcst_id)?;
        match registration.growth() {
            Some(growth) => Some(growth.leader),
            None => registration.group().members.first().map(|m| m.spec.ip),
        }
    }

    /// Groups in use with a part on a switch, each with this part.
    pub(super) fn on_switch(
        &self,
        switch: SwitchIndex,
    ) -> impl Iterator<Item = (&Group, &GroupPart)> {
        let groups = self.iter().filter(|r| r.is_ready());
        groups.filter_map(move |registration| {
            let group = registration.group();
            Some((group, group.part_on(switch)?))
        })
    }

    /// Parts of a group on a switch: the current one, and during a change the one that replaces it.
    pub(super) fn parts_on(
        &self,
        mcst_id: Ipv4Addr,
        switch: SwitchIndex,
    ) -> impl Iterator<Item = &GroupPart> {
        let registration = self.get(mcst_id);
        let now = registration.and_then(|r| r.group().part_on(switch));
        let next = registration.and_then(|r| r.new_part_on(switch));
        now.into_iter().chain(next)
    }

    /// Part of a group on a switch that has this index, also if a change is about to publish it.
    pub(super) fn indexed_part(
        &self,
        mcst_id: Ipv4Addr,
        (switch, group): PartIndex,
    ) -> Option<&GroupPart> {
        let mut parts = self.parts_on(mcst_id, switch);
        parts.find(|on| on.group_index == group)
    }

    /// Member of a group at a port of a switch; `None` if there is none.
    pub(super) fn member_at_port(
        &self,
        mcst_id: Ipv4Addr,
        switch: SwitchIndex,
        port: u32,
    ) -> Option<GroupMember> {
        let mut parts = self.parts_on(mcst_id, switch);
        parts.find_map(|on| {
            let path = on.paths.iter().find(|path| path.port == port)?;
            path.member().copied()
        })
    }
}
