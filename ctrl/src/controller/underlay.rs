//! Entries of switches that do not depend on groups: routes, ARP replies, clone sessions, host addresses, ECN thresholds,
//! and rate limits of packets to the controller.

use std::collections::{BTreeMap, BTreeSet};

use alfirk_p4runtime::p4::v1::Update;

use super::config::{ConfigError, ControllerConfig, GroupRange};
use crate::constants::{CPU_PORT, VIRTUAL_MAC};
use crate::tables::{
    ArpTarget, CloneSession, HostPort, MarkingPort, NextHop, NextHopKey, Program, Route, RouteKey,
    Table,
};
use crate::topology::{Destination, Node, Paths, Prefix, PrefixTree, SwitchIndex, Topology};

/// Entries of one switch that do not depend on groups, in two lists. The second is written after the first, because its
/// entries refer to those of the first.
pub(super) struct UnderlayEntries {
    pub(super) first: Vec<Update>,
    pub(super) second: Vec<Update>,
}

/// Data from which the entries of all switches that do not depend on groups are computed.
#[derive(Clone, Debug)]
pub(super) struct Underlay {
    pub(super) paths: Paths,
    prefixes: PrefixTree,
    arp_targets: BTreeSet<ArpTarget>,
}

impl Underlay {
    /// Computes the data for a topology and its paths without failed links and switches.
    pub(super) fn new(topology: &Topology, paths: Paths, group_range: GroupRange) -> Underlay {
        let reserved = Prefix::new(group_range.network(), group_range.prefix_len());
        Underlay {
            prefixes: PrefixTree::new(topology, &paths, reserved),
            paths,
            arp_targets: arp_targets(topology, group_range),
        }
    }

    /// Computes all entries of one switch that do not depend on groups.
    pub(super) fn entries(
        &self,
        program: &Program,
        topology: &Topology,
        config: &ControllerConfig,
        switch: SwitchIndex,
    ) -> UnderlayEntries {
        UnderlayEntries {
            first: self.first_entries(program, topology, config, switch),
            second: self.second_entries(program, topology, switch),
        }
    }

    /// Computes the first list of [`UnderlayEntries`]: all entries but routes.
    pub(super) fn first_entries(
        &self,
        program: &Program,
        topology: &Topology,
        config: &ControllerConfig,
        switch: SwitchIndex,
    ) -> Vec<Update> {
        let ecmp = EcmpGroups::new(&self.paths, switch);
        let mut first = Vec::new();
        for neighbour in topology.neighbours(switch) {
            let session = CloneSession {
                port: neighbour.port,
            };
            first.push(session.insert());
            if let Some(mirrors) = &program.mirrors {
                first.extend(mirrors.insert(neighbour.port));
            }
            if let (Some(profile), Some(marking)) = (&config.ecn, &program.ecn_marking) {
                let key = MarkingPort {
                    port: neighbour.port,
                };
                first.push(marking.set(&key, &profile.marking()));
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
        match &program.mirrors {
            Some(mirrors) => first.extend(mirrors.of_switch(CPU_PORT)),
            None => first.push(CloneSession { port: CPU_PORT }.insert()),
        }
        for (port, host) in topology.hosts_on(switch) {
            let ip = topology.host(host).ip;
            first.push(program.source_guard.insert(&HostPort { port }, &ip));
        }
        for target in &self.arp_targets {
            first.push(program.arp_targets.insert(target, &VIRTUAL_MAC));
        }
        for (ports, group) in &ecmp.groups {
            let hops = program.target.next_hops(ports.len());
            for (index, port) in (0..).zip(ports.iter().cycle().take(hops)) {
                let key = NextHopKey {
                    group: *group,
                    index,
                };
                first.push(program.next_hops.insert(&key, &NextHop { port: *port }));
            }
        }
        first
    }

    /// Computes the second list of [`UnderlayEntries`]: routes, which refer to next hops.
    pub(super) fn second_entries(
        &self,
        program: &Program,
        topology: &Topology,
        switch: SwitchIndex,
    ) -> Vec<Update> {
        let ecmp = EcmpGroups::new(&self.paths, switch);
        let routes = self.routes(topology, &ecmp, switch).into_iter();
        let second = routes.map(|(prefix, route)| {
            let key = RouteKey {
                network: prefix.network,
                prefix_len: prefix.len,
            };
            program.routes.insert(&key, &route)
        });
        second.collect()
    }

    /// Computes the routes of one switch to all reachable hosts.
    fn routes(
        &self,
        topology: &Topology,
        ecmp: &EcmpGroups,
        switch: SwitchIndex,
    ) -> Vec<(Prefix, Route)> {
        let route = |place| match place {
            Destination::Host(host) | Destination::Towards(host)
                if self.paths.reaches(switch, host) =>
            {
                let (own, port) = topology.attachment(host);
                match (place, self.paths.next_hops(switch, host)) {
                    (Destination::Host(_), _) if own == switch => Route::ToHost {
                        port,
                        mac: topology.host(host).mac,
                    },
                    _ if own == switch => Route::NoRoute,
                    (_, [port]) => Route::ToSwitch { port: *port },
                    (_, ports) => Route::Ecmp {
                        group: ecmp.groups[ports],
                        size: u16::try_from(ports.len()).expect("a switch has at most 509 ports"),
                        seed: seed(switch),
                    },
                }
            }
            // Failed links and switches may have isolated hosts.
            _ => Route::NoRoute,
        };
        self.prefixes.entries(switch, Route::NoRoute, route)
    }

    /// Checks that the entries of every switch fit into the pipeline's tables.
    pub(super) fn check(&self, program: &Program, topology: &Topology) -> Result<(), ConfigError> {
        for switch in topology.switch_indexes() {
            let ecmp = EcmpGroups::new(&self.paths, switch);
            let next_hops = ecmp
                .groups
                .keys()
                .map(|ports| program.target.next_hops(ports.len()))
                .sum();
            let routes = self.routes(topology, &ecmp, switch).len();
            let mut needs = vec![
                ("routes", routes, program.sizes.routes),
                ("next_hops", next_hops, program.sizes.next_hops),
            ];
            if let Some(mirrors) = &program.mirrors {
                // Session ids equal port numbers.
                let ports = topology.neighbours(switch).iter().map(|there| there.port);
                let ports = ports.max().map_or(0, |last| last as usize + 1);
                needs.push(("mirrors", ports, mirrors.ports()));
            }
            for (table, needed, capacity) in needs {
                if needed > capacity as usize {
                    return Err(ConfigError::TableTooSmall {
                        switch: topology.switch(switch).name.clone(),
                        table,
                        needed,
                        capacity,
                    });
                }
            }
        }
        Ok(())
    }
}

/// Sets of equal-cost ports of one switch, numbered from 0 in ascending order.
struct EcmpGroups<'a> {
    groups: BTreeMap<&'a [u32], u16>,
}

impl<'a> EcmpGroups<'a> {
    fn new(paths: &'a Paths, switch: SwitchIndex) -> EcmpGroups<'a> {
        EcmpGroups {
            groups: paths
                .equal_cost_port_sets(switch)
                .into_iter()
                .zip(0..)
                .collect(),
        }
    }
}

/// Prefixes whose addresses get ARP replies: the networks of all hosts, and the group range.
fn arp_targets(topology: &Topology, group_range: GroupRange) -> BTreeSet<ArpTarget> {
    let networks = topology.hosts().iter().map(|host| ArpTarget {
        network: Prefix::new(host.ip, host.prefix_len).network,
        prefix_len: host.prefix_len,
    });
    let groups = ArpTarget {
        network: group_range.network(),
        prefix_len: group_range.prefix_len(),
    };
    networks.chain([groups]).collect()
}

/// Hash seed of a switch: spreads switch numbers over 16 bits, so that adjacent switches hash differently.
fn seed(switch: SwitchIndex) -> u16 {
    (switch.0 as u16).wrapping_add(1).wrapping_mul(0x9e37)
}

#[cfg(test)]
mod tests;
