//! Saved state: the desired state as JSON, for a restart of the controller.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use alfirk_roce::registration::RetryTimeout;
use alfirk_roce::wire::{Psn, QpNum};
use serde::{Deserialize, Serialize};

use super::bridge::{BridgeParameters, Bridges};
use super::capacity::Allocation;
use super::event::{MemberSpec, MemoryRegion};
use super::group::{Group, GroupPart};
use super::groups::Groups;
use super::network::Network;
use super::plan::resolve_members;
use super::position::Position;
use super::registration::Registration;
use crate::strategy::Strategies;
use crate::topology::Topology;
use crate::tree::Tree;

const VERSION: u32 = 2;

/// Error in a saved state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The text is not JSON of the expected form.
    #[error("the saved state is not readable: {0}")]
    Unreadable(String),
    /// The version is not supported.
    #[error("the saved state has version {0}, but this program supports only {VERSION}; start without the saved state: the controller adopts the groups that it finds on the switches")]
    Version(u32),
    /// A saved group does not fit this network.
    #[error("the saved group {mcst_id} does not fit this network: {reason}; remove it from the saved state")]
    Group {
        /// IPv4 address of the group (McstID).
        mcst_id: Ipv4Addr,
        /// Reason why the group does not fit.
        reason: String,
    },
}

/// Fields of a saved state that are common to all versions.
#[derive(Deserialize)]
struct Head {
    version: u32,
}

#[derive(Deserialize, Serialize)]
struct State {
    version: u32,
    groups: Vec<SavedGroup>,
    /// Last virtual queue pair number of each address that was used for a group.
    virtual_qpns: BTreeMap<Ipv4Addr, u32>,
}

#[derive(Deserialize, Serialize)]
struct SavedGroup {
    mcst_id: Ipv4Addr,
    virtual_qpn: u32,
    initial_psn: u32,
    position: u32,
    /// MSN of the position.
    #[serde(default)]
    position_msn: u32,
    #[serde(default)]
    strategies: Strategies,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    in_band: bool,
    #[serde(rename = "patience", default, skip_serializing_if = "is_unknown")]
    retry_timeout: RetryTimeout,
    members: Vec<SavedMember>,
    switches: Vec<SavedSwitch>,
}

fn is_unknown(retry_timeout: &RetryTimeout) -> bool {
    *retry_timeout == RetryTimeout::UNKNOWN
}

#[derive(Deserialize, Serialize)]
struct SavedMember {
    ip: Ipv4Addr,
    qpn: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    region: Option<SavedRegion>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    only_receives: bool,
}

#[derive(Deserialize, Serialize)]
struct SavedRegion {
    va: u64,
    rkey: u32,
    len: u64,
}

#[derive(Deserialize, Serialize)]
struct SavedSwitch {
    switch: String,
    group_index: u16,
    ports: Vec<u32>,
    /// Receiver slot of the member at each port: its number among all receivers of the switch.
    #[serde(default)]
    slots: BTreeMap<u32, u32>,
}

impl Groups {
    /// Serialises the groups in use as JSON; equal groups result in equal text.
    pub(super) fn save(&self, topology: &Topology) -> String {
        let in_use = self.iter().filter(|r| r.is_ready());
        let state = State {
            version: VERSION,
            groups: in_use.map(|r| saved(topology, r.group())).collect(),
            virtual_qpns: self
                .resources()
                .last_virtual_qpns()
                .map(|(mcst_id, qpn)| (mcst_id, qpn.get()))
                .collect(),
        };
        serde_json::to_string_pretty(&state).expect("plain data becomes JSON")
    }

    /// Restores the groups of an earlier controller before the first event, up to the first one that does not fit. Passes
    /// the address of each to `restored`.
    pub(super) fn restore(
        &mut self,
        network: &mut Network,
        text: &str,
        mut restored: impl FnMut(&Groups, Ipv4Addr),
    ) -> Result<(), RestoreError> {
        let unreadable = |e: serde_json::Error| RestoreError::Unreadable(e.to_string());
        let Head { version } = serde_json::from_str(text).map_err(unreadable)?;
        if version != VERSION {
            return Err(RestoreError::Version(version));
        }
        let state: State = serde_json::from_str(text).map_err(unreadable)?;
        for (mcst_id, qpn) in state.virtual_qpns {
            let qpn = QpNum::try_from(qpn).map_err(|e| RestoreError::Unreadable(e.to_string()))?;
            self.resources_mut().record_virtual_qpn(mcst_id, qpn);
        }
        for saved in state.groups {
            let mcst_id = saved.mcst_id;
            self.restore_group(network, saved)
                .map_err(|reason| RestoreError::Group { mcst_id, reason })?;
            restored(self, mcst_id);
        }
        Ok(())
    }

    fn restore_group(&mut self, network: &mut Network, saved: SavedGroup) -> Result<(), String> {
        let specs = saved.members.iter().map(|member| {
            Ok(MemberSpec {
                ip: member.ip,
                qpn: QpNum::try_from(member.qpn).map_err(|e| e.to_string())?,
                region: member.region.as_ref().map(|region| MemoryRegion {
                    va: region.va,
                    rkey: region.rkey,
                    len: region.len,
                }),
                may_send: !member.only_receives,
            })
        });
        let specs: Vec<_> = specs.collect::<Result<_, String>>()?;
        let members = resolve_members(network.topology(), &specs).map_err(|e| e.to_string())?;
        let mut ports = BTreeMap::new();
        let mut indexes = BTreeMap::new();
        for on in &saved.switches {
            let name = &on.switch;
            let switch = network.topology().switch_named(name);
            let switch = switch.ok_or_else(|| format!("there is no switch {name}"))?;
            ports.insert(switch, on.ports.iter().copied().collect());
            let allocation = Allocation {
                index: on.group_index,
                slots: on.slots.clone(),
            };
            indexes.insert(switch, allocation);
        }
        let tree = Tree::from_ports(ports);
        let hosts: Vec<_> = members.iter().map(|member| member.host).collect();
        if !tree.spans(network.topology(), &hosts) {
            return Err("its ports do not form a tree over its members".to_owned());
        }
        let virtual_qpn = QpNum::try_from(saved.virtual_qpn).map_err(|e| e.to_string())?;
        let parameters = BridgeParameters::new(saved.mcst_id, virtual_qpn, saved.strategies);
        let bridges = Bridges::solve(&parameters, &members).map_err(|e| e.to_string())?;
        let parts = indexes.iter().map(|(switch, allocation)| {
            let ports = tree.ports_on(*switch);
            GroupPart::new(network.topology(), *switch, allocation, ports, &bridges)
        });
        let group = Group {
            mcst_id: saved.mcst_id,
            virtual_qpn,
            initial_psn: Psn::try_from(saved.initial_psn).map_err(|e| e.to_string())?,
            position: Position {
                psn: Psn::try_from(saved.position).map_err(|e| e.to_string())?,
                msn: saved.position_msn & 0xff_ffff,
            },
            strategies: saved.strategies,
            is_in_band: saved.in_band,
            retry_timeout: saved.retry_timeout,
            parts: parts.collect(),
            source: None,
            members,
            tree,
        };
        let paths = network.program().sizes.paths as usize;
        if let Some(on) = group.parts.iter().find(|on| on.paths.len() > paths) {
            let name = &network.topology().switch(on.switch).name;
            return Err(format!(
                "switch {name} has {} paths, and the pipeline supports {paths}",
                on.paths.len()
            ));
        }
        group
            .check_constraints(network.program())
            .map_err(|e| e.to_string())?;
        self.take_address(network, Some(group.mcst_id), group.strategies)
            .map_err(|e| e.to_string())?;
        for on in &group.parts {
            let slots = on.slots().map(|(_, slot)| slot).collect();
            let (index, paths) = (on.group_index, on.paths.len());
            let is_free = self.resources_mut().reserve(on.switch, index, paths, slots);
            if !is_free {
                let name = &network.topology().switch(on.switch).name;
                return Err(format!(
                    "group index {} of switch {name} or the slot of a receiver there is in use",
                    on.group_index
                ));
            }
        }
        network.add_load(&group.tree);
        self.insert(Registration::in_use(group));
        Ok(())
    }
}

fn saved(topology: &Topology, group: &Group) -> SavedGroup {
    let members = group.members.iter().map(|member| SavedMember {
        ip: member.spec.ip,
        qpn: member.spec.qpn.get(),
        region: member.spec.region.map(|region| SavedRegion {
            va: region.va,
            rkey: region.rkey,
            len: region.len,
        }),
        only_receives: !member.spec.may_send,
    });
    let switches = group.parts.iter().map(|on| SavedSwitch {
        switch: topology.switch(on.switch).name.clone(),
        group_index: on.group_index,
        ports: on.paths.iter().map(|path| path.port).collect(),
        slots: on.slots().collect(),
    });
    SavedGroup {
        mcst_id: group.mcst_id,
        virtual_qpn: group.virtual_qpn.get(),
        initial_psn: group.initial_psn.get(),
        position: group.position.psn.get(),
        position_msn: group.position.msn,
        strategies: group.strategies,
        in_band: group.is_in_band,
        retry_timeout: group.retry_timeout,
        members: members.collect(),
        switches: switches.collect(),
    }
}
