//! Switches that lose all their state during a group's transfers. The group continues by itself, and no member is
//! removed.
//!
//! The hosts use their queue pairs like RDMA cards. A new source sets the PSN of its next request; the former source
//! sets the PSN that it expects, and resends what was not acknowledged. Sources change, acknowledgements are lost, and
//! PSNs wrap around. Every single switch of the tree restarts.

use std::path::Path;
use std::sync::OnceLock;

use alfirk_compiler::driver::{compile, CompileOptions};
use alfirk_ctrl::controller::{ApiReply, ControllerConfig, MemberSpec, RegisterGroup};
use alfirk_ctrl::strategy::{MinPsn, Strategies};
use alfirk_ctrl::topology::{leaf_spine, testbed, HostIndex, LinkIndex, SwitchIndex, Topology};
use alfirk_experiment::Fabric;
use alfirk_roce::rc::{
    AckTimeout, MemorySlice, MsnRule, PathMtu, Payload, RcConfig, RecvRequest, Remote, Retries,
    SendOperation, SendRequest,
};
use alfirk_roce::wire::{Psn, QpNum};
use alfirk_sim::engine::FaultProbabilities;
use alfirk_sim::network::{Model, Network};
use alfirk_sim::VirtualFabric;
use alfirk_test_budget::Cost;
use proptest::prelude::*;

const MTU: u64 = 1024;
/// Virtual nanoseconds in which everything must be done: several ACK timeouts of the queue pairs (4.2 ms).
const PATIENCE: u64 = 200_000_000;
const MILLISECOND: u64 = 1_000_000;

fn pipeline() -> ControllerConfig {
    static PIPELINE: OnceLock<ControllerConfig> = OnceLock::new();
    let build = || {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src/v1model/main.p4");
        let compiled = compile(&CompileOptions::new(source)).expect("p4src compiles");
        let json = serde_json::to_vec(&compiled.json).unwrap();
        ControllerConfig::new(compiled.p4info, json)
    };
    PIPELINE.get_or_init(build).clone()
}

/// A group of all hosts, whose queue pairs the test uses directly.
struct Group {
    fabric: VirtualFabric,
    topology: Topology,
    hosts: Vec<HostIndex>,
    qpns: Vec<QpNum>,
    /// PSN of the group's next packet.
    next: Psn,
    /// Number of packets posted by each host.
    posted: Vec<u64>,
    source: usize,
}

impl Group {
    fn new(
        topology: Topology,
        faults: FaultProbabilities,
        first: u32,
        strategies: Strategies,
        seed: u64,
    ) -> Group {
        let network = Network::build(&topology, pipeline(), Model::default(), faults, seed);
        let mut fabric = VirtualFabric::bring_up(network.unwrap()).unwrap();
        let rc = RcConfig {
            ack_timeout: AckTimeout::new(10),
            retries: Retries::Endless,
            ack_every: 2,
            // As with cards, the MSN restarts with each change of the source.
            msn_rule: MsnRule::Restarts,
            ..RcConfig::new(PathMtu::B1024)
        };
        let hosts: Vec<HostIndex> = topology.host_indexes().collect();
        let create = |host: &HostIndex| fabric.network().on_nic(*host, |nic, _| nic.create_qp(rc));
        let qpns: Vec<QpNum> = hosts.iter().map(create).collect();
        let members = hosts.iter().zip(&qpns).map(|(host, qpn)| MemberSpec {
            ip: topology.host(*host).ip,
            qpn: *qpn,
            region: None,
            may_send: true,
        });
        let psn = Psn::new(first);
        let request = RegisterGroup {
            mcst_id: None,
            virtual_qpn: None,
            members: members.collect(),
            initial_psn: psn,
            strategies,
        };
        let group = fabric.register(request).unwrap();
        let remote = Remote {
            ip: group.mcst_id,
            qpn: group.remote_qpn,
        };
        for (host, qpn) in hosts.iter().zip(&qpns) {
            fabric.network().on_nic(*host, |nic, now| {
                nic.join_at(*qpn, psn, 0).unwrap();
                nic.connect_qp(now, *qpn, remote, psn).unwrap();
            });
        }
        // Addresses are resolved by then, whatever is lost.
        let ready = fabric.now() + 50 * MILLISECOND;
        fabric.network().run_until(ready);
        Group {
            posted: vec![0; hosts.len()],
            fabric,
            topology,
            hosts,
            qpns,
            next: psn,
            source: 0,
        }
    }

    /// PSN that a member expects.
    fn expected(&mut self, host: usize) -> Psn {
        let nic = self.fabric.network().host(self.hosts[host]).host();
        nic.qp(self.qpns[host]).unwrap().rq_psn()
    }

    fn acknowledged(&mut self, host: usize) -> u64 {
        self.fabric.acknowledged_packets(self.hosts[host]).unwrap()
    }

    /// Posts a message of `packets` packets at a member, which becomes the source. All members have the earlier
    /// messages.
    fn post(&mut self, source: usize, packets: u64) {
        let size = packets * MTU;
        if source != self.source {
            // A former source must have all its acknowledgements before it becomes the source again.
            let is_idle = |group: &mut Group| group.acknowledged(source) == group.posted[source];
            self.until("a former source is acknowledged", 20_000, is_idle);
            let psn = self.next;
            let (before, qpn) = (self.hosts[self.source], self.qpns[self.source]);
            self.fabric
                .network()
                .on_nic(before, |nic, _| nic.set_rq_psn(qpn, psn).unwrap());
            let (next, qpn) = (self.hosts[source], self.qpns[source]);
            self.fabric
                .network()
                .on_nic(next, |nic, _| nic.set_sq_psn(qpn, psn).unwrap());
            self.source = source;
        }
        for (host, qpn) in self.hosts.iter().zip(&self.qpns) {
            if *host != self.hosts[source] {
                self.fabric.network().on_nic(*host, |nic, _| {
                    let key = nic.register_memory(size, false);
                    let buffer = MemorySlice {
                        key,
                        offset: 0,
                        len: size,
                    };
                    nic.post_recv(*qpn, RecvRequest { wr_id: 0, buffer })
                        .unwrap();
                });
            }
        }
        let request = SendRequest {
            wr_id: 0,
            operation: SendOperation::Send { immediate: None },
            payload: Payload::Bytes(vec![self.next.get() as u8; size as usize].into()),
        };
        let qpn = self.qpns[source];
        let host = self.hosts[source];
        self.fabric
            .network()
            .on_nic(host, |nic, _| nic.post_send(qpn, request).unwrap());
        self.next = self.next.plus(packets);
        self.posted[source] += packets;
    }

    /// Whether every member has every message.
    fn all_have(&mut self) -> bool {
        let next = self.next;
        (0..self.hosts.len()).all(|host| host == self.source || self.expected(host) == next)
    }

    /// Whether every member has every message, and the source has the ACK.
    fn is_done(&mut self) -> bool {
        let source = self.source;
        self.all_have() && self.acknowledged(source) == self.posted[source]
    }

    fn until(&mut self, what: &str, step: u64, mut is_so: impl FnMut(&mut Group) -> bool) {
        let end = self.fabric.now() + PATIENCE;
        while !is_so(self) {
            let now = self.fabric.now();
            assert!(now < end, "{what}: {}", self.state());
            self.fabric.network().run_until(now + step);
        }
    }

    fn state(&mut self) -> String {
        let hosts = 0..self.hosts.len();
        let all: Vec<_> = hosts
            .map(|h| (self.expected(h), self.acknowledged(h), self.posted[h]))
            .collect();
        format!("source {}, next {}, {all:?}", self.source, self.next)
    }

    fn link_of(&self, host: usize) -> LinkIndex {
        let (switch, port) = self.topology.attachment(self.hosts[host]);
        self.topology.neighbour_at(switch, port).unwrap().link
    }

    /// Asserts that no member has been removed since the start.
    fn no_member_is_lost(&mut self) {
        while let Some(reply) = self.fabric.network().next_reply() {
            let is_loss = matches!(
                reply,
                ApiReply::MembersLost { .. } | ApiReply::GroupRerouted { .. }
            );
            assert!(!is_loss, "{reply:?}");
        }
    }
}

/// Host A sends 4 packets, whose acknowledgement is lost. Host B sends 4 more, which are acknowledged. Then a switch
/// restarts, A resends its packets, and a member continues as the source.
fn restart_after_a_change_of_source(
    topology: &Topology,
    switch: SwitchIndex,
    first: u32,
    by: Strategies,
    next_source: usize,
) {
    let name = &topology.switch(switch).name;
    let case = format!("{name}, first {first:#x}, {by:?}, {next_source} goes on");
    let mut group = Group::new(
        topology.clone(),
        FaultProbabilities::default(),
        first,
        by,
        1,
    );
    let (a, b) = (0, 1);
    group.post(a, 4);
    group.until(&case, 50, |group| {
        let next = group.next;
        (1..group.hosts.len()).any(|host| group.expected(host) == next)
    });
    let link = group.link_of(a);
    group.fabric.network().set_loss(link, Some(1.0)).unwrap();
    group.until(&case, 1_000, Group::all_have);
    let later = group.fabric.now() + 100_000;
    group.fabric.network().run_until(later);
    assert!(
        group.acknowledged(a) < 4,
        "{case}: the acknowledgement is lost"
    );
    group.fabric.network().set_loss(link, None).unwrap();
    group.post(b, 4);
    group.until(&case, 1_000, Group::is_done);
    group.fabric.network().restart_switch(switch, 0, 200_000);
    let later = group.fabric.now() + 300_000;
    group.fabric.network().run_until(later);
    group.post(next_source, 4);
    group.until(&case, 10_000, Group::is_done);
    // The last packets of the former source, which only a switch can acknowledge.
    group.until(&case, 10_000, |group| {
        group.acknowledged(a) == group.posted[a]
    });
    group.post(a, 3);
    group.until(&case, 10_000, Group::is_done);
    group.post(2, 3);
    group.until(&case, 10_000, Group::is_done);
    group.no_member_is_lost();
}

fn at_every_switch(min_psn: MinPsn) {
    let by = Strategies {
        min_psn,
        ..Strategies::default()
    };
    // In the second topology, hosts 0 to 2 are at one leaf and hosts 3 to 5 at another.
    for topology in [
        testbed(),
        leaf_spine(2, 1, 3).unwrap(),
        leaf_spine(3, 1, 1).unwrap(),
    ] {
        for switch in topology.switch_indexes() {
            for first in [0, 0xff_fffb] {
                for next_source in [1, 2] {
                    restart_after_a_change_of_source(&topology, switch, first, by, next_source);
                }
            }
        }
    }
}

#[test]
fn a_former_source_that_resends_after_a_restart_blocks_no_other_with_tree() {
    at_every_switch(MinPsn::Tree);
}

#[test]
fn a_former_source_that_resends_after_a_restart_blocks_no_other_with_punt() {
    at_every_switch(MinPsn::Punt);
}

#[test]
fn a_former_source_that_resends_after_a_restart_blocks_no_other_with_walk() {
    at_every_switch(MinPsn::Walk);
}

#[derive(Clone, Debug)]
struct Schedule {
    topology: u8,
    first: u32,
    loss: f64,
    seed: u64,
    /// Source and number of packets of each message.
    messages: Vec<(usize, u64)>,
    /// Restarts: number of the message after whose post it happens, number of the switch, delay and downtime in
    /// nanoseconds.
    restarts: Vec<(usize, usize, u64, u64)>,
}

fn schedules() -> impl Strategy<Value = Schedule> {
    let messages = prop::collection::vec((0usize..6, 1u64..40), 2..6);
    let restarts = prop::collection::vec(
        (0usize..5, 0usize..4, 0u64..400_000, 1_000u64..2_000_000),
        1..3,
    );
    (
        0u8..3,
        prop_oneof![Just(0u32), Just(0xff_fff8), 0u32..0x100_0000],
        prop_oneof![Just(0.0), 0.0..0.03],
        any::<u64>(),
        messages,
        restarts,
    )
        .prop_map(
            |(topology, first, loss, seed, messages, restarts)| Schedule {
                topology,
                first,
                loss,
                seed,
                messages,
                restarts,
            },
        )
}

proptest! {
    #![proptest_config(Cost::Fabric.cases())]

    #[test]
    fn groups_survive_restarts_at_any_time(schedule in schedules()) {
        let topology = match schedule.topology {
            0 => testbed(),
            1 => leaf_spine(2, 1, 3).unwrap(),
            _ => leaf_spine(3, 2, 2).unwrap(),
        };
        let faults = FaultProbabilities::lossy(schedule.loss);
        let mut group = Group::new(topology.clone(), faults, schedule.first, Strategies::default(), schedule.seed);
        let hosts = group.hosts.len();
        for (number, (source, packets)) in schedule.messages.iter().enumerate() {
            group.post(source % hosts, *packets);
            // One switch at a time. If a group loses several switches at once, only its members have the state.
            let restart = schedule.restarts.iter().find(|(at, ..)| *at == number);
            if let Some((_, switch, delay, downtime)) = restart {
                let switch = SwitchIndex(switch % topology.switches().len());
                group.fabric.network().restart_switch(switch, *delay, *downtime);
            }
            group.until(&format!("{schedule:?}, message {number}"), 20_000, Group::all_have);
        }
        group.until(&format!("{schedule:?}, the end"), 20_000, Group::is_done);
        group.no_member_is_lost();
    }
}
