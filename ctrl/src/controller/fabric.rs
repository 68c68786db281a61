//! What every switch holds whatever groups there are: routes, ARP answers, clone sessions, the hosts' addresses, marks of congestion,
//! rates of what may go to the controller.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use alfirk_p4runtime::p4::v1::Update;

use super::config::{mask, ConfigError, ControllerConfig, GroupRange};
use crate::constants::{CPU_PORT, VIRTUAL_MAC};
use crate::tables::{
    ArpTarget, Attached, CloneSession, MarkingPort, NextHop, NextHopKey, Program, Route, RouteKey,
    Table,
};
use crate::topology::{Node, Paths, SwitchIndex, Topology};

/// The entries of one switch, in two steps: the second refers to the first.
pub(super) struct FabricEntries {
    pub(super) first: Vec<Update>,
    pub(super) second: Vec<Update>,
}

/// All entries of one switch.
pub(super) fn entries(
    program: &Program,
    topology: &Topology,
    paths: &Paths,
    config: &ControllerConfig,
    switch: SwitchIndex,
) -> FabricEntries {
    let ecmp = EcmpGroups::new(topology, paths, switch);
    let mut first = Vec::new();
    for neighbour in topology.neighbours(switch) {
        let session = CloneSession {
            port: neighbour.port,
        };
        first.push(session.insert());
        if let Some(profile) = &config.ecn {
            let key = MarkingPort {
                port: neighbour.port,
            };
            first.push(program.ecn_marking.insert(&key, &profile.marking()));
        }
        let hosts = match neighbour.peer.node {
            Node::Host(_) => 1,
            Node::Switch(_) => topology.hosts().len() as u64,
        };
        let rate_bps = topology.link(neighbour.link).attributes.rate_bps;
        let rates = config
            .punt_limits()
            .of_port(neighbour.port, rate_bps, hosts);
        first.extend(rates.map(|(key, rate)| program.punt_rates.set(&key, &rate)));
    }
    first.push(CloneSession { port: CPU_PORT }.insert());
    for host in topology.host_indexes() {
        let (own, port) = topology.attachment(host);
        if own == switch {
            let ip = topology.host(host).ip;
            first.push(program.source_guard.insert(&Attached { port }, &ip));
        }
    }
    for target in arp_targets(topology, config.group_range) {
        first.push(program.arp_targets.insert(&target, &VIRTUAL_MAC));
    }
    for (ports, group) in &ecmp.groups {
        for (index, port) in (0..).zip(ports.iter()) {
            let key = NextHopKey {
                group: *group,
                index,
            };
            first.push(program.next_hops.insert(&key, &NextHop { port: *port }));
        }
    }
    let second = topology
        .host_indexes()
        // Broken links and switches may have cut hosts off.
        .filter(|host| paths.reaches(switch, *host))
        .map(|host| {
            let key = RouteKey {
                network: topology.host(host).ip,
                prefix_len: 32,
            };
            let (own, port) = topology.attachment(host);
            let route = match paths.next_hops(switch, host) {
                _ if own == switch => Route::ToHost {
                    port,
                    mac: topology.host(host).mac,
                },
                [port] => Route::ToSwitch { port: *port },
                ports => Route::Ecmp {
                    group: ecmp.groups[ports],
                    size: u16::try_from(ports.len()).expect("a switch has at most 509 ports"),
                    seed: seed(switch),
                },
            };
            program.routes.insert(&key, &route)
        })
        .collect();
    FabricEntries { first, second }
}

/// Checks that the pipeline has room for the entries of every switch.
pub(super) fn check(
    program: &Program,
    topology: &Topology,
    paths: &Paths,
) -> Result<(), ConfigError> {
    for switch in topology.switch_indexes() {
        let ecmp = EcmpGroups::new(topology, paths, switch);
        let next_hops = ecmp.groups.keys().map(|ports| ports.len()).sum();
        let needs = [
            ("routes", topology.hosts().len(), program.sizes.routes),
            ("next_hops", next_hops, program.sizes.next_hops),
        ];
        for (table, needed, room) in needs {
            if needed > room as usize {
                return Err(ConfigError::TableTooSmall {
                    switch: topology.switch(switch).name.clone(),
                    table,
                    needed,
                    room,
                });
            }
        }
    }
    Ok(())
}

/// The sets of equal-cost ports of one switch, numbered from 0 in rising order.
struct EcmpGroups<'a> {
    groups: BTreeMap<&'a [u32], u16>,
}

impl<'a> EcmpGroups<'a> {
    fn new(topology: &Topology, paths: &'a Paths, switch: SwitchIndex) -> EcmpGroups<'a> {
        let sets: BTreeSet<&[u32]> = topology
            .host_indexes()
            .map(|host| paths.next_hops(switch, host))
            .filter(|ports| ports.len() > 1)
            .collect();
        EcmpGroups {
            groups: sets.into_iter().zip(0..).collect(),
        }
    }
}

/// The hosts' own networks, and the range of groups where they do not hold it.
fn arp_targets(topology: &Topology, group_range: GroupRange) -> BTreeSet<ArpTarget> {
    let networks = topology.hosts().iter().map(|host| ArpTarget {
        network: Ipv4Addr::from(u32::from(host.ip) & mask(host.prefix_len)),
        prefix_len: host.prefix_len,
    });
    let groups = ArpTarget {
        network: group_range.network(),
        prefix_len: group_range.prefix_len(),
    };
    networks.chain([groups]).collect()
}

/// Spreads switch numbers over 16 bits, so that neighbours hash differently.
fn seed(switch: SwitchIndex) -> u16 {
    (switch.0 as u16).wrapping_add(1).wrapping_mul(0x9e37)
}
