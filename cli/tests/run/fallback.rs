//! The fallback: a message continues on an overlay while its group is slow, and later returns to the group.

use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_ctrl::controller::{GroupInfo, MemberSpec, RegisterGroup};
use alfirk_ctrl::strategy::Strategies;
use alfirk_ctrl::tables::Counts;
use alfirk_ctrl::topology::{fat_tree, leaf_spine, testbed, HostIndex, LinkIndex, Topology};
use alfirk_experiment::{
    run_algorithm, Change, Fabric, FabricError, GroupChange, Job, LossInterval, MemberEvent,
    ProcessingTimes, Registration, Row, SafeguardConfig, Traffic, Victim,
};
use alfirk_roce::collective::{
    Algorithm, Endpoint, ExpectedData, LegCommand, LegReply, Progress, RequestTimes, TransferOp,
    TransferSpec, WriteMode,
};
use alfirk_roce::hostile::Target;
use alfirk_roce::rc::{PathMtu, RcConfig};
use alfirk_roce::wire::{Psn, QpNum};
use alfirk_sim::engine::FaultProbabilities;
use alfirk_sim::VirtualFabric;

use crate::network::{fabric, job};

const US: u64 = 1_000;

/// A job of `size` bytes with short windows of the safeguard, for links of 100 Gbit/s.
fn guarded(members: usize, size: usize, seed: u64) -> Job {
    Job {
        fallback: Some(Algorithm::Chain),
        safeguard: Some(SafeguardConfig {
            retry: 300 * US,
            expected_bps: Some(85e9),
            ..SafeguardConfig::new(100 * US)
        }),
        slices: Some(200),
        mtu: PathMtu::B4096,
        ..job(members, size, seed)
    }
}

/// A host's link loses frames during an interval.
fn outage(topology: &Topology, host: usize, loss: f64, from: u64, until: u64) -> LossInterval {
    LossInterval {
        link: topology.uplink(HostIndex(host)).link,
        loss,
        from,
        until: Some(until),
    }
}

fn alfirk(topology: &Topology, job: &Job) -> Row {
    let mut fabric = fabric(topology, FaultProbabilities::default(), job.seed);
    run(&mut fabric, topology, job)
}

fn run(fabric: &mut dyn Fabric, topology: &Topology, job: &Job) -> Row {
    let row = run_algorithm(fabric, topology, job, Algorithm::Alfirk, &mut |_| {});
    let row = row.unwrap_or_else(|error| panic!("seed {}: {error}", job.seed));
    assert!(row.verified, "seed {}", job.seed);
    assert_eq!(row.receivers_verified, job.members.len() - 1);
    assert_eq!(row.implausible_packets, 0);
    row
}

/// Checks the changes between group and overlay: they are in order of time, and no member has fewer slices than before.
fn ways(row: &Row) -> Vec<&str> {
    for pair in row.safeguard.windows(2) {
        assert!(pair[0].at_ns < pair[1].at_ns);
        assert!(pair[0].held <= pair[1].held);
    }
    let to = |change: &Change| change.to == "alfirk";
    assert!(row.safeguard.windows(2).all(|p| to(&p[0]) != to(&p[1])));
    row.safeguard.iter().map(|c| c.to.as_str()).collect()
}

#[test]
fn a_group_with_good_goodput_is_never_left() {
    let topology = testbed();
    for size in [0, 1, 5_000, 4 << 20] {
        for members in 2..=4 {
            let row = alfirk(&topology, &guarded(members, size, 1));
            assert!(row.safeguard.is_empty(), "{size} bytes, {members} members");
            assert_eq!(row.sender_payload_bytes, size as u64);
        }
    }
}

#[test]
fn a_lossy_link_causes_a_fallback_and_a_return_to_the_group() {
    let topology = testbed();
    for seed in 1..=4 {
        let wanted = Job {
            outages: vec![outage(&topology, 2, 0.3, 200 * US, 800 * US)],
            ..guarded(4, 16 << 20, seed)
        };
        let row = alfirk(&topology, &wanted);
        let ways = ways(&row);
        assert_eq!(ways.first(), Some(&"chain"), "seed {seed}");
        assert_eq!(ways.last(), Some(&"alfirk"), "seed {seed}: {ways:?}");
        let left = &row.safeguard[0];
        assert!(left.why.contains("are normal"), "{}", left.why);
        assert!(left.at_ns >= 300 * US && left.at_ns < 600 * US);
        assert!(left.held > 0 && left.held < left.slices);
    }
}

#[test]
fn a_temporary_link_failure_stalls_the_group_temporarily() {
    let topology = leaf_spine(2, 2, 2).unwrap();
    for fallback in [Algorithm::Chain, Algorithm::Binomial, Algorithm::Unicast] {
        let wanted = Job {
            fallback: Some(fallback),
            outages: vec![outage(&topology, 3, 1.0, 100 * US, 900 * US)],
            ..guarded(4, 8 << 20, 3)
        };
        let row = alfirk(&topology, &wanted);
        let ways = ways(&row);
        assert_eq!(ways[0], fallback.to_string());
        assert_eq!(ways.last(), Some(&"alfirk"), "{fallback}: {ways:?}");
    }
}

#[test]
fn every_operation_works_over_group_and_overlay() {
    let topology = testbed();
    let manners = [
        (TransferOp::Write, WriteMode::Aligned),
        (TransferOp::WriteImm, WriteMode::Aligned),
        (TransferOp::Write, WriteMode::Uniform),
        (TransferOp::WriteImm, WriteMode::PerRequest),
    ];
    for (op, write) in manners {
        let mut wanted = Job {
            op,
            write,
            outages: vec![outage(&topology, 1, 0.4, 100 * US, 700 * US)],
            ..guarded(3, 8 << 20, 5)
        };
        if write == WriteMode::PerRequest {
            let config = wanted.safeguard.unwrap();
            wanted.safeguard = Some(SafeguardConfig {
                expected_bps: None,
                ..config
            });
        }
        let row = alfirk(&topology, &wanted);
        let ways = ways(&row);
        assert_eq!(ways[0], "chain", "{op:?} {write:?}");
        assert_eq!(ways.last(), Some(&"alfirk"), "{op:?} {write:?}: {ways:?}");
    }
}

#[test]
fn random_temporary_faults_neither_lose_nor_duplicate_data() {
    for seed in 1..=12 {
        let members = 2 + (seed as usize * 5) % 13;
        let topology = fat_tree(4).unwrap();
        let fallbacks = [Algorithm::Chain, Algorithm::Binomial, Algorithm::Unicast];
        let draw = |n: u64| (seed * 7919 + n * 104_729) % 1_000;
        let outages = (0..3).map(|n| LossInterval {
            link: LinkIndex(draw(n) as usize % topology.links().len()),
            loss: [0.02, 0.2, 1.0][draw(n + 3) as usize % 3],
            from: draw(n + 6) * US,
            until: Some((draw(n + 6) + 1 + draw(n + 9)) * US),
        });
        let wanted = Job {
            fallback: Some(fallbacks[seed as usize % 3]),
            outages: outages.collect(),
            slices: Some(1 + draw(20) as u32 % 97),
            registration: match seed % 2 {
                0 => Registration::Api,
                _ => Registration::Mrp,
            },
            ..guarded(members, 1 + draw(21) as usize * 4_001, seed)
        };
        let mut fabric = fabric(&topology, FaultProbabilities::lossy(0.0005), seed);
        let row = run(&mut fabric, &topology, &wanted);
        ways(&row);
    }
}

#[test]
fn runs_with_the_same_seed_fall_back_at_the_same_time() {
    let topology = testbed();
    let wanted = Job {
        outages: vec![outage(&topology, 2, 0.2, 200 * US, 800 * US)],
        ..guarded(4, 8 << 20, 9)
    };
    assert_eq!(alfirk(&topology, &wanted), alfirk(&topology, &wanted));
}

/// A fabric whose switches are full until a time.
struct Crowded {
    inner: VirtualFabric,
    /// Foreign groups, which are removed at that time.
    others: Vec<Ipv4Addr>,
    until: u64,
}

impl Crowded {
    fn new(topology: &Topology, until: u64) -> Crowded {
        let mut inner = fabric(topology, FaultProbabilities::default(), 1);
        let mut others = Vec::new();
        let members = topology.hosts().iter().take(2).map(|host| MemberSpec {
            ip: host.ip,
            qpn: QpNum::new(77),
            region: None,
            may_send: true,
        });
        let members: Vec<_> = members.collect();
        loop {
            let group = RegisterGroup {
                mcst_id: None,
                virtual_qpn: None,
                members: members.clone(),
                initial_psn: Psn::new(0),
                strategies: Strategies::default(),
            };
            match inner.register(group) {
                Ok(info) => others.push(info.mcst_id),
                Err(FabricError::Group(_)) => break,
                Err(error) => panic!("{error}"),
            }
        }
        let until = inner.now() + until;
        Crowded {
            inner,
            others,
            until,
        }
    }

    fn make_room(&mut self) {
        if self.inner.now() >= self.until {
            for other in self.others.drain(..) {
                self.inner.deregister(other).unwrap();
            }
        }
    }
}

impl Fabric for Crowded {
    fn register(&mut self, group: RegisterGroup) -> Result<GroupInfo, FabricError> {
        self.make_room();
        self.inner.register(group)
    }
    fn register_in_band(
        &mut self,
        leader: HostIndex,
        group: RegisterGroup,
    ) -> Result<(), FabricError> {
        self.make_room();
        self.inner.register_in_band(leader, group)
    }
    fn deregister(&mut self, mcst_id: Ipv4Addr) -> Result<(), FabricError> {
        self.inner.deregister(mcst_id)
    }
    fn deregister_in_band(&mut self, leader: HostIndex) -> Result<(), FabricError> {
        self.inner.deregister_in_band(leader)
    }
    fn join_datagrams(&mut self, group: Ipv4Addr, hosts: &[HostIndex]) -> Result<(), FabricError> {
        self.inner.join_datagrams(group, hosts)
    }

    fn leave_datagrams(&mut self, group: Ipv4Addr, hosts: &[HostIndex]) -> Result<(), FabricError> {
        self.inner.leave_datagrams(group, hosts)
    }

    fn report_stall(
        &mut self,
        mcst_id: Ipv4Addr,
        source: Option<HostIndex>,
    ) -> Result<(), FabricError> {
        self.inner.report_stall(mcst_id, source)
    }
    fn turn_hostile(
        &mut self,
        host: HostIndex,
        target: Target,
        seed: u64,
    ) -> Result<(), FabricError> {
        self.inner.turn_hostile(host, target, seed)
    }
    fn take_group_changes(&mut self) -> Result<Vec<GroupChange>, FabricError> {
        self.inner.take_group_changes()
    }
    fn kill(&mut self, victim: Victim) -> Result<(), FabricError> {
        self.inner.kill(victim)
    }
    fn suspend(&mut self, host: HostIndex, lasts: u64) -> Result<(), FabricError> {
        self.inner.suspend(host, lasts)
    }
    fn prepare(
        &mut self,
        host: HostIndex,
        spec: TransferSpec,
    ) -> Result<Vec<Endpoint>, FabricError> {
        self.inner.prepare(host, spec)
    }
    fn connect(&mut self, host: HostIndex, peers: &[Endpoint]) -> Result<(), FabricError> {
        self.inner.connect(host, peers)
    }
    fn start(&mut self, host: HostIndex, data: &Arc<ExpectedData>) -> Result<u64, FabricError> {
        self.inner.start(host, data)
    }
    fn next_event(
        &mut self,
        deadline: u64,
    ) -> Result<Option<(HostIndex, MemberEvent)>, FabricError> {
        self.inner.next_event(deadline)
    }
    fn close(&mut self, host: HostIndex) -> Result<(), FabricError> {
        self.inner.close(host)
    }
    fn execute_leg_command(
        &mut self,
        host: HostIndex,
        command: LegCommand,
    ) -> Result<LegReply, FabricError> {
        self.inner.execute_leg_command(host, command)
    }
    fn request_times(&mut self, source: HostIndex) -> Result<Option<RequestTimes>, FabricError> {
        self.inner.request_times(source)
    }
    fn held_slices(&mut self, host: HostIndex) -> Result<u32, FabricError> {
        self.inner.held_slices(host)
    }
    fn set_loss(&mut self, link: LinkIndex, loss: Option<f64>) -> Result<(), FabricError> {
        self.inner.set_loss(link, loss)
    }
    fn progress(&mut self, host: HostIndex) -> Result<Progress, FabricError> {
        self.inner.progress(host)
    }
    fn acknowledged_packets(&mut self, host: HostIndex) -> Result<u64, FabricError> {
        self.inner.acknowledged_packets(host)
    }
    fn received_packets(&mut self, host: HostIndex) -> Result<Option<u64>, FabricError> {
        self.inner.received_packets(host)
    }
    fn traffic(&mut self, members: &[HostIndex], sources: usize) -> Result<Traffic, FabricError> {
        self.inner.traffic(members, sources)
    }
    fn counts(&mut self) -> Result<Counts, FabricError> {
        self.inner.counts()
    }
    fn control_round_trip(&mut self) -> Result<u64, FabricError> {
        self.inner.control_round_trip()
    }
    fn now(&self) -> u64 {
        self.inner.now()
    }
    fn tick(&self) -> u64 {
        self.inner.tick()
    }
    fn stall_timeout(&self) -> u64 {
        self.inner.stall_timeout()
    }
    fn processing(&self) -> Option<ProcessingTimes> {
        self.inner.processing()
    }
    fn rc(&self, mtu: PathMtu) -> RcConfig {
        self.inner.rc(mtu)
    }
}

#[test]
fn a_group_is_registered_when_space_becomes_free() {
    let topology = testbed();
    for (registration, op) in [
        (Registration::Api, TransferOp::Write),
        (Registration::Mrp, TransferOp::Send),
    ] {
        let wanted = Job {
            registration,
            op,
            mcst_id: "10.255.200.1".parse().unwrap(),
            ..guarded(4, 32 << 20, 1)
        };
        let row = run(&mut Crowded::new(&topology, 800 * US), &topology, &wanted);
        assert_eq!(ways(&row), ["chain", "alfirk"]);
        let [full, room] = &row.safeguard[..] else {
            panic!("{:?}", row.safeguard)
        };
        assert_eq!((full.at_ns, full.held), (0, 0));
        assert!(full.why.contains("no space for the group"), "{}", full.why);
        assert!(room.why.contains("refusal"), "{}", room.why);
        assert!(room.held > 0 && room.held < room.slices);
    }
}

#[test]
fn an_overlay_delivers_if_the_group_is_never_registered() {
    let topology = testbed();
    for (members, size) in [(2, 0), (2, 1), (3, 100_000), (4, 4 << 20)] {
        let wanted = Job {
            mcst_id: "10.255.200.1".parse().unwrap(),
            ..guarded(members, size, 1)
        };
        let row = run(
            &mut Crowded::new(&topology, u64::MAX / 2),
            &topology,
            &wanted,
        );
        assert_eq!(ways(&row), ["chain"]);
        assert_eq!(row.registration_ns, None);
    }
}
