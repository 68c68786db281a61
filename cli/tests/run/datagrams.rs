//! Unreliable datagrams to multicast groups that the controller creates on compiled pipelines.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_ctrl::controller::{ApiReply, ApiRequest, Tag};
use alfirk_ctrl::topology::{fat_tree, HostIndex, Topology};
use alfirk_ctrl::tree::Policy;
use alfirk_experiment::{stream, Fabric};
use alfirk_roce::rc::{MemoryKey, MemorySlice, PathMtu, Payload, RecvRequest};
use alfirk_roce::ud::{UdConfig, UdDestination, UdSendRequest, GRH_LEN, MULTICAST_QPN};
use alfirk_roce::wire::QpNum;
use alfirk_sim::engine::FaultProbabilities;
use alfirk_sim::VirtualFabric;

use crate::network::{fabric, fabric_by};

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 129, 0, 1);
const QKEY: u32 = 0x0b1b_0b1b;
const MTU: PathMtu = PathMtu::B4096;

/// All hosts have a queue pair attached to the group, also hosts to which the fabric does not deliver its datagrams.
struct Hosts {
    fabric: VirtualFabric,
    topology: Topology,
    qpns: Vec<QpNum>,
    /// The buffer that each host has posted.
    buffers: Vec<Option<MemoryKey>>,
    next_tag: u64,
}

impl Hosts {
    fn new(fabric: VirtualFabric, topology: Topology) -> Hosts {
        let mut hosts = Hosts {
            fabric,
            topology,
            qpns: Vec::new(),
            buffers: Vec::new(),
            next_tag: 1 << 32,
        };
        for host in hosts.topology.host_indexes() {
            let config = UdConfig {
                mtu: MTU,
                qkey: QKEY,
                priority: 0,
            };
            let qpn = hosts.fabric.network().on_nic(host, |nic, _| {
                let qpn = nic.create_ud_qp(config);
                nic.attach_multicast(qpn, GROUP).unwrap();
                qpn
            });
            hosts.qpns.push(qpn);
            hosts.buffers.push(None);
        }
        hosts
    }

    fn change(&mut self, host: usize, is_join: bool) {
        let (tag, group) = (Tag(self.next_tag), GROUP);
        self.next_tag += 1;
        let host = self.topology.host(HostIndex(host)).ip;
        let network = self.fabric.network();
        network.send_request(match is_join {
            true => ApiRequest::JoinDatagrams { tag, group, host },
            false => ApiRequest::LeaveDatagrams { tag, group, host },
        });
        let soon = network.now() + 10_000_000;
        network.run_until(soon);
        while let Some(reply) = network.next_reply() {
            match reply {
                ApiReply::DatagramGroup { tag: of, .. } if of == tag => return,
                ApiReply::Failed { error, .. } => panic!("{error}"),
                _ => {}
            }
        }
        panic!("no answer");
    }

    /// Gives every host a buffer, sends one datagram, and returns which hosts have it.
    fn send(&mut self, source: usize, bytes: &[u8]) -> BTreeSet<usize> {
        let len = GRH_LEN + MTU.bytes() as u64;
        for (host, qpn) in self.qpns.clone().into_iter().enumerate() {
            if self.buffers[host].is_some() {
                continue;
            }
            let network = self.fabric.network();
            self.buffers[host] = Some(network.on_nic(HostIndex(host), |nic, _| {
                let key = nic.register_memory(len, false);
                let buffer = MemorySlice {
                    key,
                    offset: 0,
                    len,
                };
                let request = RecvRequest { wr_id: 0, buffer };
                nic.post_ud_recv(qpn, request).unwrap();
                key
            }));
        }
        let request = UdSendRequest {
            wr_id: 1,
            to: UdDestination {
                ip: GROUP,
                qpn: MULTICAST_QPN,
                qkey: QKEY,
            },
            immediate: None,
            payload: Payload::Bytes(Arc::from(bytes)),
            is_signaled: true,
        };
        let qpn = self.qpns[source];
        let network = self.fabric.network();
        network.on_nic(HostIndex(source), |nic, _| {
            nic.post_ud_send(qpn, request).unwrap();
        });
        let soon = network.now() + 1_000_000;
        network.run_until(soon);
        let mut got = BTreeSet::new();
        for (host, buffer) in self.buffers.iter_mut().enumerate() {
            let nic = network.host(HostIndex(host)).host();
            assert_eq!(nic.stats().implausible(), 0, "host {host}");
            let key = buffer.expect("one was posted");
            let held = nic.memory().region(key).unwrap().bytes();
            if held.iter().any(|byte| *byte != 0) {
                let at = GRH_LEN as usize;
                assert!(&held[at..at + bytes.len()] == bytes, "host {host}");
                *buffer = None;
                got.insert(host);
            }
        }
        got
    }

    fn assert_reaches(&mut self, source: usize, members: &[usize]) {
        let name = format!("from {source} at {}", self.fabric.now());
        let bytes = stream::bytes(1, &name, 1 + source * 255 % MTU.bytes());
        let others = members.iter().copied().filter(|member| *member != source);
        assert_eq!(self.send(source, &bytes), others.collect(), "{name}");
    }
}

#[test]
fn any_host_reaches_only_hosts_that_have_joined() {
    for policy in Policy::ALL {
        let topology = fat_tree(4).unwrap();
        let mut hosts = Hosts::new(fabric_by(policy, &topology), topology);
        hosts.assert_reaches(0, &[]);
        for host in [0, 1, 6, 13] {
            hosts.change(host, true);
        }
        for source in [0, 6, 13, 3, 9] {
            hosts.assert_reaches(source, &[0, 1, 6, 13]);
        }
        hosts.change(0, false);
        hosts.change(8, true);
        for source in [0, 8, 15] {
            hosts.assert_reaches(source, &[1, 6, 8, 13]);
        }
    }
}

#[test]
fn group_is_rerouted_around_a_failed_switch() {
    let topology = fat_tree(4).unwrap();
    let mut hosts = Hosts::new(
        fabric(&topology, FaultProbabilities::default(), 1),
        topology,
    );
    for host in [0, 7, 12] {
        hosts.change(host, true);
    }
    hosts.assert_reaches(7, &[0, 7, 12]);
    // An aggregation switch of the tree fails permanently, and the tree is rerouted.
    let dead = hosts.topology.switch_named("p1a1").unwrap();
    hosts.fabric.network().kill_switch(dead);
    let later = hosts.fabric.now() + 10_000_000_000;
    hosts.fabric.network().run_until(later);
    for source in [0, 7, 3] {
        hosts.assert_reaches(source, &[0, 7, 12]);
    }
}
