//! Tests follow packets hop by hop along the routes of all switches.

use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::topology::{
    fat_tree, leaf_spine, m_port_n_tree, testbed, Builder, FatTreeShape, Host, HostIndex, LinkIndex,
};

/// Where a packet's path ends.
#[derive(Debug, PartialEq)]
enum Fate {
    Delivered(HostIndex),
    Dropped,
}

/// The routes of every switch.
struct Routed<'a> {
    topology: &'a Topology,
    underlay: &'a Underlay,
    routes: Vec<Vec<(Prefix, Route)>>,
}

impl<'a> Routed<'a> {
    fn new(topology: &'a Topology, underlay: &'a Underlay) -> Routed<'a> {
        let routes = topology.switch_indexes().map(|switch| {
            let ecmp = EcmpGroups::new(&underlay.paths, switch);
            underlay.routes(topology, &ecmp, switch)
        });
        Routed {
            routes: routes.collect(),
            topology,
            underlay,
        }
    }

    fn lookup(&self, switch: SwitchIndex, ip: Ipv4Addr) -> Route {
        let holding = self.routes[switch.0].iter().filter(|(p, _)| p.contains(ip));
        let longest = holding.max_by_key(|(prefix, _)| prefix.len);
        longest.map_or(Route::NoRoute, |(_, route)| *route)
    }

    /// Follows one of the equal-cost paths, selected by `way`.
    fn follow(&self, from: SwitchIndex, ip: Ipv4Addr, way: usize) -> Fate {
        let mut at = from;
        for _ in self.topology.switches() {
            let port = match self.lookup(at, ip) {
                Route::NoRoute => return Fate::Dropped,
                Route::ToHost { port, mac } => {
                    let host = self.topology.host_with_ip(ip).unwrap();
                    assert_eq!(self.topology.host(host).mac, mac);
                    port
                }
                Route::ToSwitch { port } => port,
                Route::Ecmp { group, size, .. } => {
                    let ecmp = EcmpGroups::new(&self.underlay.paths, at);
                    let mut groups = ecmp.groups.iter();
                    let (ports, _) = groups.find(|(_, number)| **number == group).unwrap();
                    assert_eq!(ports.len(), usize::from(size));
                    ports[way % ports.len()]
                }
            };
            match self.topology.neighbour_at(at, port).unwrap().peer.node {
                Node::Host(host) => return Fate::Delivered(host),
                Node::Switch(next) => at = next,
            }
        }
        panic!("a packet to {ip} goes in a circle");
    }
}

/// The same network with other host addresses.
fn readdressed(topology: &Topology, addresses: &[Ipv4Addr]) -> Topology {
    let mut builder = Builder::new("other", topology.defaults()).unwrap();
    for switch in topology.switches() {
        builder
            .switch(switch.name.clone(), switch.device_id)
            .unwrap();
    }
    for (host, ip) in topology.hosts().iter().zip(addresses) {
        let host = Host {
            ip: *ip,
            ..host.clone()
        };
        builder.host(host).unwrap();
    }
    for link in topology.links() {
        let [a, b] = link.ends;
        builder.link(a, b).unwrap();
    }
    builder.build().unwrap()
}

fn network() -> impl Strategy<Value = Topology> {
    prop::sample::select(vec![
        testbed(),
        fat_tree(4).unwrap(),
        leaf_spine(4, 3, 5).unwrap(),
        m_port_n_tree(4, 3).unwrap(),
    ])
}

/// Random addresses of 10.0.0.0/8 outside the range of groups: scattered, or consecutive in any order.
fn addresses(hosts: usize) -> impl Strategy<Value = Vec<Ipv4Addr>> {
    let of = |number: u32| Ipv4Addr::from(0x0a00_0000 + number);
    let far = prop::collection::btree_set(1..0xff_0000u32, hosts);
    let near = (1..0xff_0000 - hosts as u32).prop_map(move |n| (n..n + hosts as u32).collect());
    prop_oneof![far, near]
        .prop_map(|numbers| numbers.into_iter().collect())
        .prop_flat_map(|numbers: Vec<u32>| Just(numbers).prop_shuffle())
        .prop_map(move |numbers| numbers.into_iter().map(of).collect())
}

proptest! {
    #[test]
    fn every_host_is_reached_and_no_other_address_is(
        (topology, addresses) in network().prop_flat_map(|topology| {
            let hosts = topology.hosts().len();
            (Just(topology), prop::option::of(addresses(hosts)))
        }),
        links in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        switches in prop::collection::vec(any::<prop::sample::Index>(), 0..3),
        strangers in prop::collection::vec(0..0x200_0000u32, 20),
        way in any::<usize>(),
    ) {
        let topology = match addresses {
            Some(addresses) => readdressed(&topology, &addresses),
            None => topology,
        };
        let links = links.iter().map(|i| LinkIndex(i.index(topology.links().len()))).collect();
        let switches: BTreeSet<_> =
            switches.iter().map(|i| SwitchIndex(i.index(topology.switches().len()))).collect();
        let paths = Paths::without(&topology, &links, &switches);
        let underlay = Underlay::new(&topology, paths, GroupRange::default());
        let routed = Routed::new(&topology, &underlay);
        let strangers = strangers.into_iter().map(|n| Ipv4Addr::from(0x0a00_0000 + n));
        // An unused address next to a host's may be in the same prefix as the host.
        let beside = topology.hosts().iter().map(|host| Ipv4Addr::from(u32::from(host.ip) ^ 1));
        let unused: Vec<_> =
            strangers.chain(beside).filter(|ip| topology.host_with_ip(*ip).is_none()).collect();
        for from in topology.switch_indexes().filter(|switch| !switches.contains(switch)) {
            for host in topology.host_indexes() {
                let expected = match underlay.paths.reaches(from, host) {
                    true => Fate::Delivered(host),
                    false => Fate::Dropped,
                };
                prop_assert_eq!(routed.follow(from, topology.host(host).ip, way), expected);
            }
            for ip in &unused {
                prop_assert_eq!(routed.follow(from, *ip, way), Fate::Dropped);
            }
        }
    }
}

#[test]
fn group_addresses_have_no_route() {
    // Hosts below and above the range of groups, so that a common prefix of the hosts would contain it.
    let addresses = [
        [10, 254, 0, 1],
        [10, 254, 0, 2],
        [10, 0, 0, 3],
        [11, 0, 0, 4],
    ];
    let topology = readdressed(
        &leaf_spine(2, 2, 2).unwrap(),
        &addresses.map(Ipv4Addr::from),
    );
    let underlay = Underlay::new(&topology, Paths::new(&topology), GroupRange::default());
    let routed = Routed::new(&topology, &underlay);
    for switch in topology.switch_indexes() {
        for ip in [[10, 255, 0, 0], [10, 255, 0, 1], [10, 255, 255, 255]] {
            assert_eq!(routed.lookup(switch, ip.into()), Route::NoRoute);
        }
    }
}

#[test]
fn a_fat_tree_needs_few_routes_per_switch() {
    let topology = fat_tree(16).unwrap();
    let underlay = Underlay::new(&topology, Paths::new(&topology), GroupRange::default());
    let routed = Routed::new(&topology, &underlay);
    let most = |layer: fn(&str) -> bool| {
        let switches = topology.switches().iter().zip(&routed.routes);
        let of_layer = switches.filter(|(switch, _)| layer(&switch.name));
        of_layer.map(|(_, routes)| routes.len()).max()
    };
    // A core switch has a route to each of 16 pods.
    assert_eq!(most(|name| name.starts_with('c')), Some(16));
    // An aggregation switch has 8 routes down, and one route up for each bit in which other addresses differ.
    assert_eq!(most(|name| name.contains('a')), Some(12));
    assert_eq!(most(|name| name.contains('e')), Some(16));
}

#[test]
fn one_switch_needs_a_route_for_each_host() {
    let topology = testbed();
    let underlay = Underlay::new(&topology, Paths::new(&topology), GroupRange::default());
    let routed = Routed::new(&topology, &underlay);
    let prefixes: Vec<_> = routed.routes[0].iter().map(|(prefix, _)| *prefix).collect();
    let hosts = topology.hosts().iter();
    assert_eq!(
        prefixes,
        hosts.map(|h| Prefix::new(h.ip, 32)).collect::<Vec<_>>()
    );
}

#[test]
fn a_fabric_of_16384_hosts_fits_small_tables() {
    let topology = FatTreeShape {
        pods: 16,
        ..FatTreeShape::whole(64)
    }
    .build()
    .unwrap();
    let underlay = Underlay::new(&topology, Paths::new(&topology), GroupRange::default());
    let most = topology.switch_indexes().map(|switch| {
        let ecmp = EcmpGroups::new(&underlay.paths, switch);
        underlay.routes(&topology, &ecmp, switch).len()
    });
    // An edge switch has 32 hosts of its own; a few bits distinguish the others from them.
    assert_eq!(most.max(), Some(42));
}
