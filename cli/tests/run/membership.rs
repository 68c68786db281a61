//! Members that join and leave between messages, on compiled pipelines, with changing sources.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_ctrl::controller::{MemberSpec, RegisterGroup};
use alfirk_ctrl::strategy::{MinPsn, Strategies};
use alfirk_ctrl::topology::{leaf_spine, HostIndex, Topology};
use alfirk_experiment::{stream, Fabric};
use alfirk_roce::host::HostTiming;
use alfirk_roce::rc::{
    MemoryKey, MemorySlice, PathMtu, Payload, RcConfig, RecvRequest, Remote, SendOperation,
    SendRequest,
};
use alfirk_roce::wire::{Psn, QpNum};
use alfirk_sim::engine::FaultProbabilities;
use alfirk_sim::VirtualFabric;

use crate::network::fabric;
use crate::strategies::MIN_PSNS;

const MCST_ID: Ipv4Addr = Ipv4Addr::new(10, 255, 0, 1);
/// Parameters of the group; its PSNs wrap around after a few packets.
const VIRTUAL_QPN: QpNum = QpNum::new(0xa1f);
const FIRST: Psn = Psn::new(0xff_fff0);
const MTU: usize = 1024;

/// A group whose members are the source in turn.
struct Flock {
    fabric: VirtualFabric,
    topology: Topology,
    members: BTreeMap<HostIndex, QpNum>,
    next: Psn,
    sent: u32,
    /// The last sender.
    source: Option<HostIndex>,
    seed: u64,
}

impl Flock {
    fn new(
        topology: Topology,
        members: &[usize],
        faults: FaultProbabilities,
        seed: u64,
        min_psn: MinPsn,
    ) -> Flock {
        let mut flock = Flock {
            fabric: fabric(&topology, faults, seed),
            topology,
            members: BTreeMap::new(),
            next: FIRST,
            sent: 0,
            source: None,
            seed,
        };
        for &host in members {
            let qpn = flock.queue_pair(HostIndex(host));
            flock.members.insert(HostIndex(host), qpn);
        }
        let specs: Vec<_> = flock
            .members
            .iter()
            .map(|(h, q)| flock.spec(*h, *q))
            .collect();
        let group = RegisterGroup {
            mcst_id: Some(MCST_ID),
            virtual_qpn: Some(VIRTUAL_QPN),
            members: specs,
            initial_psn: FIRST,
            strategies: Strategies {
                min_psn,
                ..Strategies::default()
            },
        };
        flock.fabric.register(group).unwrap();
        for (host, qpn) in flock.members.clone() {
            flock.connect(host, qpn);
        }
        flock
    }

    fn queue_pair(&mut self, host: HostIndex) -> QpNum {
        let config = RcConfig {
            ack_timeout: HostTiming::FAST.ack_timeout,
            ..RcConfig::new(PathMtu::B1024)
        };
        let network = self.fabric.network();
        network.on_nic(host, |nic, _| nic.create_qp(config))
    }

    fn spec(&self, host: HostIndex, qpn: QpNum) -> MemberSpec {
        MemberSpec {
            ip: self.topology.host(host).ip,
            qpn,
            region: None,
            may_send: true,
        }
    }

    fn connect(&mut self, host: HostIndex, qpn: QpNum) {
        let (psn, messages) = (self.next, self.sent);
        let remote = Remote {
            ip: MCST_ID,
            qpn: VIRTUAL_QPN,
        };
        self.fabric.network().on_nic(host, |nic, now| {
            nic.join_at(qpn, psn, messages).unwrap();
            nic.connect_qp(now, qpn, remote, psn).unwrap();
        });
    }

    fn join(&mut self, host: usize) {
        let host = HostIndex(host);
        let qpn = self.queue_pair(host);
        let spec = self.spec(host, qpn);
        assert_eq!(self.fabric.join(MCST_ID, spec).unwrap(), self.next);
        self.connect(host, qpn);
        self.members.insert(host, qpn);
    }

    fn leave(&mut self, host: usize) {
        let host = HostIndex(host);
        let ip = self.topology.host(host).ip;
        self.fabric.leave(MCST_ID, vec![ip]).unwrap();
        let qpn = self.members.remove(&host).unwrap();
        let network = self.fabric.network();
        network.on_nic(host, |nic, _| nic.destroy_qp(qpn).unwrap());
    }

    /// Sends one message from one member to all others, who must receive it once, byte for byte.
    fn send(&mut self, source: usize, size: usize) {
        let source = HostIndex(source);
        self.sent += 1;
        let bytes = stream::bytes(self.seed, &format!("message {}", self.sent), size);
        let data: Arc<[u8]> = bytes.into();
        let mut receivers: Vec<(HostIndex, QpNum, MemoryKey, u32)> = Vec::new();
        for (host, qpn) in self.members.clone() {
            let network = self.fabric.network();
            if host == source {
                if self.source.is_some_and(|last| last != source) {
                    network.on_nic(host, |nic, _| nic.take_over_sending(qpn).unwrap());
                }
                continue;
            }
            let (key, msn) = network.on_nic(host, |nic, _| {
                let key = nic.register_memory(size as u64, false);
                let buffer = MemorySlice {
                    key,
                    offset: 0,
                    len: size as u64,
                };
                nic.post_recv(qpn, RecvRequest { wr_id: 0, buffer })
                    .unwrap();
                (key, nic.qp(qpn).unwrap().msn())
            });
            receivers.push((host, qpn, key, msn));
        }
        let qpn = self.members[&source];
        let acknowledged = self.fabric.acknowledged_packets(source).unwrap();
        let request = SendRequest {
            wr_id: 0,
            operation: SendOperation::Send { immediate: None },
            payload: Payload::Bytes(Arc::clone(&data)),
        };
        let network = self.fabric.network();
        network.on_nic(source, |nic, _| nic.post_send(qpn, request).unwrap());
        let packets = size.div_ceil(MTU).max(1) as u64;
        let deadline = self.fabric.now() + 2_000_000_000;
        while self.fabric.acknowledged_packets(source).unwrap() < acknowledged + packets {
            assert!(self.fabric.now() < deadline, "{:?}: no end", self.members);
            let soon = self.fabric.now() + 20_000;
            self.fabric.network().run_until(soon);
        }
        self.next = self.next.plus(packets);
        self.source = Some(source);
        let network = self.fabric.network();
        network.on_nic(source, |nic, _| nic.expect_next_source(qpn).unwrap());
        for (host, qpn, key, msn) in receivers {
            let nic = self.fabric.network().host(host).host();
            assert_eq!(nic.qp(qpn).unwrap().msn(), msn + 1, "{host:?}");
            let region = nic.memory().region(key).unwrap();
            assert!(region.bytes() == &data[..], "{host:?} holds other bytes");
        }
        for (&host, &qpn) in &self.members {
            let nic = self.fabric.network().host(host).host();
            let violations = nic.qp(qpn).unwrap().stats().violations;
            assert_eq!(violations.total(), 0, "{host:?}: {violations:?}");
        }
    }
}

#[test]
fn joined_members_receive_the_next_message_and_left_members_do_not() {
    for min_psn in MIN_PSNS {
        joins_and_leaves(min_psn);
    }
}

fn joins_and_leaves(min_psn: MinPsn) {
    let topology = leaf_spine(2, 2, 2).unwrap();
    let faults = FaultProbabilities::default();
    let mut flock = Flock::new(topology, &[0, 1], faults, 1, min_psn);
    flock.send(0, 30_000);
    // The new member is at a leaf and a spine that were not in the tree.
    flock.join(2);
    flock.send(0, 5_000);
    flock.send(2, 5_000);
    flock.join(3);
    flock.send(3, 30_000);
    flock.leave(1);
    flock.send(0, 2_000);
    // The leader leaves as well.
    flock.leave(0);
    flock.send(2, 100);
    flock.join(0);
    flock.send(0, 30_000);
}

#[test]
fn random_joins_and_leaves_under_loss_neither_lose_nor_duplicate_messages() {
    let faults = FaultProbabilities {
        loss: 0.01,
        duplicate: 0.01,
        reorder: 0.01,
        reorder_window: 2_000,
    };
    for seed in 1..=6 {
        let topology = leaf_spine(3, 2, 2).unwrap();
        let hosts = topology.hosts().len();
        let min_psn = MIN_PSNS[seed as usize % MIN_PSNS.len()];
        let mut flock = Flock::new(topology, &[0, 2, 4], faults, seed, min_psn);
        for step in 0..16 {
            let draw = stream::seed(seed, &format!("step {step}")) as usize;
            let sizes = [1, MTU - 1, MTU, MTU + 1, 20_000, 150_000];
            let host = HostIndex(draw / 8 % hosts);
            match (draw % 3, flock.members.contains_key(&host)) {
                (0, true) if flock.members.len() > 2 => flock.leave(host.0),
                (0 | 1, false) => flock.join(host.0),
                _ => {
                    let members: Vec<_> = flock.members.keys().copied().collect();
                    let source = members[draw / 64 % members.len()];
                    flock.send(source.0, sizes[draw / 1024 % sizes.len()]);
                }
            }
        }
        assert!(flock.sent > 2, "seed {seed}: {} messages", flock.sent);
    }
}
