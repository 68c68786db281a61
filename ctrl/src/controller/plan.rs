//! Planning of a group: its tree, and the resources that it needs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use alfirk_roce::registration::RetryTimeout;

use super::bridge::{BridgeParameters, Bridges, GroupMember};
use super::error::GroupError;
use super::event::{MemberSpec, MemoryRegion, RegisterGroup};
use super::group::{resource_demand, Group};
use super::groups::Groups;
use super::network::Network;
use super::position::Position;
use crate::constants::{RECOMPUTE_MASK, RECOMPUTE_NETWORK};
use crate::strategy::{IcrcMode, Strategies};
use crate::topology::{SwitchIndex, Topology};
use crate::tree::Tree;

impl Groups {
    /// Plans a new group: checks the request, builds the tree, and allocates the address and resources on every switch of
    /// the tree.
    pub(super) fn plan(
        &mut self,
        network: &mut Network,
        request: &RegisterGroup,
    ) -> Result<Group, GroupError> {
        let members = resolve_members(network.topology(), &request.members)?;
        let hosts: Vec<_> = members.iter().map(|member| member.host).collect();
        let (root, _) = network.topology().attachment(hosts[0]);
        let cut_off = members
            .iter()
            .find(|m| !network.paths().reaches(root, m.host));
        if let Some(member) = cut_off {
            return Err(GroupError::Unreachable(member.spec.ip));
        }
        let tree = network.grow_tree(&hosts);
        self.check_switches(network, &tree, |_| BTreeMap::new())?;
        let mcst_id = self.take_address(network, request.mcst_id, request.strategies)?;
        let chosen = self
            .resources_mut()
            .choose_virtual_qpn(mcst_id, request.virtual_qpn);
        let virtual_qpn = match chosen {
            Ok(virtual_qpn) => virtual_qpn,
            Err(error) => {
                self.resources_mut().release_address(mcst_id);
                return Err(error.into());
            }
        };
        let parameters = BridgeParameters::new(mcst_id, virtual_qpn, request.strategies);
        let bridges = match Bridges::solve(&parameters, &members) {
            Ok(bridges) => bridges,
            Err(error) => {
                self.resources_mut().release_address(mcst_id);
                return Err(error.into());
            }
        };
        let mut parts = Vec::new();
        for (switch, ports) in tree.switches() {
            let at = (switch, ports.iter().copied());
            let part = self.allocate_part(network.topology(), at, BTreeMap::new(), &bridges);
            parts.push(part.expect("capacity was checked before"));
        }
        let group = Group {
            mcst_id,
            virtual_qpn,
            initial_psn: request.initial_psn,
            strategies: request.strategies,
            is_in_band: false,
            retry_timeout: RetryTimeout::UNKNOWN,
            position: Position::before(request.initial_psn),
            source: None,
            members,
            tree,
            parts,
        };
        network.add_load(&group.tree);
        if let Err(error) = group.check_constraints(network.program()) {
            self.release_plan(network, &group);
            return Err(error);
        }
        Ok(group)
    }

    /// Checks that every switch of the tree is ready and has free entries. `kept`: receiver slots that hosts already have
    /// on a switch, by port.
    pub(super) fn check_switches(
        &self,
        network: &Network,
        tree: &Tree,
        kept: impl Fn(SwitchIndex) -> BTreeMap<u32, u32>,
    ) -> Result<(), GroupError> {
        let sizes = network.program().sizes;
        for (switch, ports) in tree.switches() {
            let name = || network.name(switch).to_owned();
            if ports.len() > sizes.paths as usize {
                return Err(GroupError::TooManyPaths {
                    switch: name(),
                    paths: ports.len(),
                    limit: sizes.paths,
                });
            }
            if !network.is_ready(switch) {
                let why = network.switches().session(switch).check_open().err();
                return Err(GroupError::SwitchNotReady {
                    switch: name(),
                    why: why.unwrap_or("its entries are being written").to_owned(),
                });
            }
            let ports = ports.iter().copied();
            let wanted = resource_demand(network.topology(), switch, ports, kept(switch));
            if let Err(no) = self.resources().capacity(switch).check_free(&wanted) {
                return Err(GroupError::SwitchFull {
                    switch: name(),
                    table: no.table,
                    needed: no.needed,
                    left: no.left,
                });
            }
        }
        Ok(())
    }

    /// Allocates a group address: the requested one, or any free one that suits the ICRC strategy.
    pub(super) fn take_address(
        &mut self,
        network: &Network,
        wanted: Option<Ipv4Addr>,
        strategies: Strategies,
    ) -> Result<Ipv4Addr, GroupError> {
        network.program().check_strategies(&strategies)?;
        let range = network.config().group_range;
        let recomputes = strategies.icrc == IcrcMode::Recompute;
        match wanted {
            Some(mcst_id) if !range.may_be_group(mcst_id) => Err(GroupError::OutsideRange {
                mcst_id,
                network: range.network(),
                prefix_len: range.prefix_len(),
            }),
            Some(mcst_id) if recomputes && !is_parsed(mcst_id) => {
                Err(GroupError::NotRecomputed { mcst_id })
            }
            Some(mcst_id) => match self.resources_mut().reserve_address(mcst_id) {
                true => Ok(mcst_id),
                false => Err(GroupError::Taken(mcst_id)),
            },
            // Groups that need no payload parsing get addresses outside the range of those that do, which saves time.
            None => {
                let suitable = self
                    .resources_mut()
                    .take_address(|mcst_id| is_parsed(mcst_id) == recomputes);
                suitable
                    .or_else(|| self.resources_mut().take_address(|_| !recomputes))
                    .ok_or(GroupError::NoAddress {
                        network: range.network(),
                        prefix_len: range.prefix_len(),
                    })
            }
        }
    }

    /// Frees the allocations of a plan that was not written to any switch.
    pub(super) fn release_plan(&mut self, network: &mut Network, group: &Group) {
        network.remove_load(&group.tree);
        for on in &group.parts {
            self.resources_mut().release(on.switch, on.group_index);
        }
        self.resources_mut().release_address(group.mcst_id);
    }
}

/// Looks up the hosts of members, and checks their addresses, queue pairs and memory regions.
pub(super) fn resolve_members(
    topology: &Topology,
    specs: &[MemberSpec],
) -> Result<Vec<GroupMember>, GroupError> {
    if specs.len() < 2 {
        return Err(GroupError::TooFewMembers(specs.len()));
    }
    if specs.len() > topology.hosts().len() {
        return Err(GroupError::LargerThanTopology {
            members: specs.len(),
            hosts: topology.hosts().len(),
        });
    }
    let mut seen = BTreeSet::new();
    let resolve = |spec: &MemberSpec| {
        let ip = spec.ip;
        let host = topology
            .host_with_ip(ip)
            .ok_or(GroupError::UnknownHost(ip))?;
        let entry = topology.host(host);
        if !seen.insert(host) {
            return Err(GroupError::MemberTwice {
                host: entry.name.clone(),
                ip,
            });
        }
        if spec.qpn.get() == 0 {
            return Err(GroupError::QueuePair(ip));
        }
        check_region(spec)?;
        Ok(GroupMember {
            host,
            mac: entry.mac,
            spec: *spec,
        })
    };
    specs.iter().map(resolve).collect()
}

/// Whether the pipeline can recompute the ICRCs of a group with this address. Its parser selects such groups by an address
/// range, because parsers have no table of groups.
fn is_parsed(mcst_id: Ipv4Addr) -> bool {
    u32::from(mcst_id) & RECOMPUTE_MASK == RECOMPUTE_NETWORK
}

/// Checks that a region is aligned, because the virtual address of a WRITE is rewritten by XOR.
fn check_region(spec: &MemberSpec) -> Result<(), GroupError> {
    let Some(MemoryRegion { va, len, .. }) = spec.region else {
        return Ok(());
    };
    if len == 0 {
        return Err(GroupError::EmptyRegion(spec.ip));
    }
    let alignment = u128::from(len).next_power_of_two();
    match u128::from(va) % alignment {
        0 => Ok(()),
        _ => Err(GroupError::Region {
            ip: spec.ip,
            va,
            len,
            alignment,
        }),
    }
}
