//! Groups of datagrams: the switches' entries deliver a datagram from any host to all members.

use std::collections::BTreeSet;

use super::*;
use crate::topology::{fat_tree, leaf_spine, HostIndex, Node};
use crate::tree::Policy;

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);

impl FakeFabric {
    fn ip(&self, host: usize) -> Ipv4Addr {
        self.controller.topology().host(HostIndex(host)).ip
    }

    fn change(
        &mut self,
        group: Ipv4Addr,
        host: Ipv4Addr,
        is_join: bool,
    ) -> Result<usize, GroupError> {
        let tag = Tag(77);
        self.said.clear();
        self.handle(Event::Api(match is_join {
            true => ApiRequest::JoinDatagrams { tag, group, host },
            false => ApiRequest::LeaveDatagrams { tag, group, host },
        }));
        let answer = self.said.drain(..).find_map(|reply| match reply {
            ApiReply::DatagramGroup { members, .. } => Some(Ok(members)),
            ApiReply::Failed { error, .. } => Some(Err(error)),
            _ => None,
        });
        answer.expect("it is answered")
    }

    fn join_datagrams(&mut self, hosts: &[usize]) {
        for (n, host) in hosts.iter().enumerate() {
            let ip = self.ip(*host);
            assert_eq!(self.change(GROUP, ip, true).unwrap(), n + 1);
        }
    }

    /// The ports of a switch's PRE group, by its entry.
    fn copies(&self, switch: SwitchIndex) -> Option<BTreeSet<u32>> {
        let contents = &self.contents()[switch.0];
        let entry = format!(
            "table ingress.datagram_multicast.groups {:x} ",
            u32::from(GROUP)
        );
        contents.iter().find(|line| line.starts_with(&entry))?;
        let copies: Vec<_> = contents
            .iter()
            .filter_map(|line| line.strip_prefix("multicast group 1025 -> "))
            .collect();
        let [copies] = copies[..] else {
            panic!("{contents:?}");
        };
        let port = |text: &str| text.strip_suffix("/0").unwrap().parse().unwrap();
        Some(copies.split(' ').map(port).collect())
    }

    /// The receivers of a datagram of this host. No host receives it twice, and no switch by two paths.
    fn delivered(&self, source: usize) -> BTreeSet<usize> {
        let topology = self.controller.topology();
        let (leaf, port) = topology.attachment(HostIndex(source));
        let mut got = BTreeSet::new();
        let mut entered = BTreeSet::new();
        let mut todo = vec![(leaf, port)];
        while let Some((switch, ingress)) = todo.pop() {
            assert!(entered.insert(switch), "{switch:?} gets it twice");
            let ports = self.copies(switch).unwrap_or_default();
            for port in ports.into_iter().filter(|port| *port != ingress) {
                let peer = topology.neighbour_at(switch, port).unwrap().peer;
                match peer.node {
                    Node::Host(host) => assert!(got.insert(host.0)),
                    Node::Switch(next) => todo.push((next, peer.port)),
                }
            }
        }
        got
    }

    fn assert_delivers(&self, members: &[usize]) {
        for source in 0..self.controller.topology().hosts().len() {
            let others = members.iter().copied().filter(|member| *member != source);
            assert_eq!(self.delivered(source), others.collect(), "from {source}");
        }
    }
}

#[test]
fn any_host_reaches_all_members_with_every_tree_policy() {
    for policy in Policy::ALL {
        let mut fabric = FakeFabric::ready_with(fat_tree(4).unwrap(), policy);
        fabric.join_datagrams(&[0]);
        fabric.assert_delivers(&[0]);
        fabric.change(GROUP, fabric.ip(5), true).unwrap();
        fabric.change(GROUP, fabric.ip(15), true).unwrap();
        // A join of a member has no effect.
        assert_eq!(fabric.change(GROUP, fabric.ip(5), true).unwrap(), 3);
        fabric.assert_delivers(&[0, 5, 15]);
        assert_eq!(fabric.change(GROUP, fabric.ip(0), false).unwrap(), 2);
        fabric.assert_delivers(&[5, 15]);
    }
}

#[test]
fn a_group_without_members_leaves_no_entries() {
    let mut fabric = FakeFabric::ready(leaf_spine(3, 2, 2).unwrap());
    let before = fabric.contents();
    fabric.join_datagrams(&[0, 3]);
    assert_ne!(fabric.contents(), before);
    fabric.change(GROUP, fabric.ip(3), false).unwrap();
    assert_eq!(fabric.change(GROUP, fabric.ip(0), false).unwrap(), 0);
    assert_eq!(fabric.contents(), before);
    assert_eq!(fabric.change(GROUP, fabric.ip(0), false).unwrap(), 0);
}

#[test]
fn groups_are_rerouted_around_a_failed_link_and_back() {
    let mut fabric = FakeFabric::ready(fat_tree(4).unwrap());
    fabric.join_datagrams(&[0, 7, 12]);
    let links: Vec<_> = (0..fabric.controller.topology().links().len()).collect();
    for link in links {
        let link = crate::topology::LinkIndex(link);
        let is_uplink = |host| fabric.controller.topology().uplink(host).link == link;
        if fabric.controller.topology().host_indexes().any(is_uplink) {
            continue;
        }
        fabric.handle(Event::Link { link, is_up: false });
        fabric.assert_delivers(&[0, 7, 12]);
        for switch in fabric.controller.topology().switch_indexes() {
            let behind = |port| {
                fabric
                    .controller
                    .topology()
                    .neighbour_at(switch, port)
                    .unwrap()
            };
            let ports = fabric.copies(switch).unwrap_or_default();
            assert!(ports.into_iter().all(|port| behind(port).link != link));
        }
        fabric.handle(Event::Link { link, is_up: true });
    }
}

#[test]
fn a_reconnected_switch_gets_its_entries() {
    let mut fabric = FakeFabric::ready(leaf_spine(2, 1, 2).unwrap());
    fabric.join_datagrams(&[0, 1]);
    let (leaf, _) = fabric.controller.topology().attachment(HostIndex(3));
    fabric.disconnect(leaf);
    fabric.change(GROUP, fabric.ip(3), true).unwrap();
    fabric.connect(leaf);
    fabric.assert_delivers(&[0, 1, 3]);
}

#[test]
fn invalid_requests_are_rejected() {
    let mut fabric = FakeFabric::ready(leaf_spine(2, 1, 2).unwrap());
    let host = fabric.ip(0);
    let error = fabric.change(host, host, true).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{host} is not a multicast address; datagram groups are in 224.0.0.0/4")
    );
    let stranger = Ipv4Addr::new(192, 0, 2, 1);
    let error = fabric.change(GROUP, stranger, true).unwrap_err();
    assert_eq!(error, GroupError::UnknownHost(stranger));
}

#[test]
fn groups_are_rejected_when_all_indexes_are_used() {
    let mut fabric = FakeFabric::ready(leaf_spine(1, 1, 2).unwrap());
    let host = fabric.ip(0);
    let group = |n: u32| Ipv4Addr::from(0xef00_0000 + n);
    for n in 0..1024 {
        fabric.change(group(n), host, true).unwrap();
    }
    let full = fabric.change(group(1024), host, true);
    assert_eq!(full, Err(GroupError::DatagramGroupsFull(1024)));
    fabric.change(group(500), host, false).unwrap();
    fabric.change(group(1024), host, true).unwrap();
}

#[test]
fn core_profile_has_no_datagram_groups() {
    let config = ControllerConfig::new(p4info::core(), b"{}".to_vec());
    let mut fabric = FakeFabric::with(leaf_spine(2, 2, 2).unwrap(), config);
    fabric.connect_all();
    let error = fabric.change(GROUP, fabric.ip(0), true).unwrap_err();
    assert_eq!(error, GroupError::NoDatagrams);
}
