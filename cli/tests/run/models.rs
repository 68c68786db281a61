//! The exact and the fast model send the same frames, byte for byte, at the same nanosecond; so do one and several threads.

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use alfirk_ctrl::controller::ControllerConfig;
use alfirk_ctrl::ecn::EcnProfile;
use alfirk_ctrl::strategy::{IcrcMode, MinPsn, Strategies};
use alfirk_ctrl::topology::{
    fat_tree, leaf_spine, testbed, HostIndex, LinkIndex, Pfc, Queueing, SharedBuffer, SwitchIndex,
    Switching, Topology,
};
use alfirk_experiment::workload::Kind;
use alfirk_experiment::{
    run_algorithm, run_workload, Congestion, Job, Kill, Pace, Registration, SenderSettings,
    Suspension, Victim,
};
use alfirk_roce::collective::{Algorithm, Collective, TransferOp, WriteMode};
use alfirk_roce::rc::{AckTimeout, PathMtu, Recovery};
use alfirk_roce::wire::Psn;
use alfirk_sim::engine::{FaultProbabilities, Observation, Observer, Threads};
use alfirk_sim::frame::Frame;
use alfirk_sim::network::{Fidelity, Model, Network};
use alfirk_sim::VirtualFabric;
use alfirk_test_budget::Cost;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestCaseResult};

use crate::common::{alfirk, json};
use crate::network::{job, pipeline};

/// All frames on all links, in order of time.
#[derive(Clone, Default)]
struct Seen(Rc<RefCell<Vec<String>>>);

impl Observer for Seen {
    fn observe(&mut self, now: u64, name: &str, happening: Observation<'_>) {
        let (what, frame) = match happening {
            Observation::Transmit { port, frame } => (format!("tx {port}"), Some(frame)),
            Observation::Receive { port, frame } => (format!("rx {port}"), Some(frame)),
            Observation::Drop {
                port,
                len,
                frame,
                reason,
            } => (format!("{} {port} {len}", reason.as_str()), frame),
            Observation::Note(text) => (text.to_owned(), None),
            // `cli/tests/view.rs` compares group states.
            Observation::Group { .. } => return,
        };
        let frame = frame.map(|frame| {
            let mut hasher = DefaultHasher::new();
            frame.hash(&mut hasher);
            format!(
                "{} {} {:016x}",
                frame.len(),
                Frame::read(frame),
                hasher.finish()
            )
        });
        let line = format!("{now} {name} {what} {}", frame.unwrap_or_default());
        self.0.borrow_mut().push(line);
    }

    fn wants_notes(&self) -> bool {
        true
    }
}

/// Parameters of a random run.
#[derive(Debug, Clone)]
struct Scene {
    topology: Topology,
    job: Job,
    algorithm: Algorithm,
    faults: FaultProbabilities,
    ecn: Option<EcnProfile>,
}

/// Runs a job; returns the report with the counters of all links and hosts, and the recorded frames if recording is on. Unrecorded frames
/// may arrive in one event ([`alfirk_sim::engine::Context::expect_followers`]).
fn play(scene: &Scene, fidelity: Fidelity, is_seen: bool) -> (String, Vec<String>) {
    let (outcome, seen, _) = play_by(scene, fidelity, is_seen, 1);
    (outcome, seen)
}

/// Like `play`, with `threads` threads, which are used even for little work; also returns the number of events.
fn play_by(
    scene: &Scene,
    fidelity: Fidelity,
    is_seen: bool,
    threads: usize,
) -> (String, Vec<String>, u64) {
    let (outcome, seen, [events, _]) = play_with(scene, fidelity, is_seen, threads, true);
    (outcome, seen, events)
}

/// Like `play_by`. Skips steady states if `skips`; returns the number of events, and of those that were skipped.
fn play_with(
    scene: &Scene,
    fidelity: Fidelity,
    is_seen: bool,
    threads: usize,
    skips: bool,
) -> (String, Vec<String>, [u64; 2]) {
    let config = ControllerConfig {
        strategies: scene.job.strategies,
        ecn: scene.ecn,
        dead_member_ns: 2_000_000,
        dead_switch_ns: 2_000_000,
        probe_interval_ns: 250_000,
        ..pipeline()
    };
    let model = Model {
        fidelity,
        ..Model::default()
    };
    let (topology, job) = (&scene.topology, &scene.job);
    let mut network = Network::build(topology, config, model, scene.faults, job.seed).unwrap();
    let (count, least_events) = (threads, 1);
    network
        .set_threads(Threads {
            count,
            least_events,
        })
        .unwrap();
    network.skip_steady_states(skips);
    let mut fabric = VirtualFabric::bring_up(network).unwrap();
    let seen = Seen::default();
    if is_seen {
        fabric.network().observe(Box::new(seen.clone()));
    }
    let row = run_algorithm(&mut fabric, topology, job, scene.algorithm, &mut |_| {});
    let mut outcome = match row {
        Ok(row) => format!("{row:?}"),
        Err(error) => error.to_string(),
    };
    let network = fabric.network();
    network.run_until(network.now() + 1_000_000);
    for (name, counters) in network.directions() {
        outcome += &format!("\n{name} {counters:?}");
    }
    for index in topology.host_indexes() {
        let host = network.host(index).host();
        let of_qps: Vec<_> = host.qps().map(|qp| qp.stats()).collect();
        outcome += &format!("\n{} {:?} {of_qps:?}", host.name(), host.stats());
    }
    let events = [network.events(), network.skipped_events()];
    drop(fabric);
    (outcome, seen.0.take(), events)
}

fn same(scene: &Scene) -> TestCaseResult {
    let (exact, seen) = play(scene, Fidelity::Exact, true);
    let (fast, also_seen) = play(scene, Fidelity::Fast, true);
    let differs = seen.iter().zip(&also_seen).position(|(a, b)| a != b);
    if let Some(at) = differs {
        let from = at.saturating_sub(8);
        prop_assert_eq!(
            &seen[from..=at],
            &also_seen[from..=at],
            "{:?}",
            scene.algorithm
        );
    }
    prop_assert_eq!(seen.len(), also_seen.len());
    prop_assert_eq!(&exact, &fast);
    let (unseen, _) = play(scene, Fidelity::Fast, false);
    prop_assert_eq!(exact, unseen);
    Ok(())
}

fn topology() -> impl Strategy<Value = Topology> {
    prop_oneof![
        Just(testbed()),
        Just(leaf_spine(3, 2, 3).unwrap()),
        Just(fat_tree(4).unwrap()),
    ]
}

fn algorithm() -> impl Strategy<Value = Algorithm> {
    let all: Vec<Algorithm> = Collective::Broadcast.algorithms().collect();
    prop_oneof![
        3 => Just(Algorithm::Alfirk),
        1 => proptest::sample::select(all),
    ]
}

fn strategies() -> impl Strategy<Value = Strategies> {
    let min_psn = prop_oneof![
        4 => Just(MinPsn::Tree),
        1 => Just(MinPsn::Walk),
        1 => Just(MinPsn::Punt),
    ];
    let icrc = prop_oneof![6 => Just(IcrcMode::Neutral), 1 => Just(IcrcMode::Punt)];
    (min_psn, icrc).prop_map(|(min_psn, icrc)| Strategies {
        min_psn,
        icrc,
        ..Strategies::default()
    })
}

prop_compose! {
    fn faults()(
        loss in prop_oneof![Just(0.0), Just(0.002), Just(0.02)],
        duplicate in prop_oneof![3 => Just(0.0), 1 => Just(0.01)],
        reorder in prop_oneof![3 => Just(0.0), 1 => Just(0.02)],
    ) -> FaultProbabilities {
        FaultProbabilities { loss, duplicate, reorder, reorder_window: 3_000 }
    }
}

/// Random operations, with the memory regions of WRITEs.
fn op() -> impl Strategy<Value = (TransferOp, WriteMode)> {
    prop_oneof![
        2 => Just((TransferOp::Send, WriteMode::Aligned)),
        1 => Just((TransferOp::Write, WriteMode::Aligned)),
        1 => Just((TransferOp::WriteImm, WriteMode::Uniform)),
        1 => Just((TransferOp::WriteImm, WriteMode::PerRequest)),
    ]
}

/// Faults: none, a failed host or switch, or a hostile member.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    None,
    Host(usize),
    Switch(usize),
    Hostile(usize),
}

fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        5 => Just(Trouble::None),
        1 => (1usize..16).prop_map(Trouble::Host),
        1 => (0usize..20).prop_map(Trouble::Switch),
        1 => (1usize..16).prop_map(Trouble::Hostile),
    ]
}

prop_compose! {
    fn scene()(
        topology in topology(),
        algorithm in algorithm(),
        (op, write) in op(),
        strategies in strategies(),
        faults in faults(),
        trouble in trouble(),
        members in 2usize..=16,
        size in 0usize..60_000,
        messages in 1u32..6,
        receives in proptest::option::weighted(0.2, 1u32..4),
        switch_source in prop_oneof![3 => Just(0u32), 1 => 1u32..5],
        initial_psn in proptest::option::weighted(0.3, 0xff_fff0u32..=0xff_ffff),
        marks in any::<bool>(),
        in_band in proptest::bool::weighted(0.2),
        recovery in prop_oneof![2 => Just(Recovery::GoBackN), 1 => Just(Recovery::SelectiveRepeat)],
        seed in 0u64..1_000_000,
    ) -> Scene {
        let hosts = topology.hosts().len();
        let members = members.min(hosts);
        let mut job = Job {
            op,
            write,
            strategies,
            messages: Some(messages),
            receives,
            switch_source,
            initial_psn: initial_psn.map(Psn::new),
            congestion: if marks { Congestion::Dcqcn } else { Congestion::None },
            recovery,
            registration: if in_band { Registration::Mrp } else { Registration::Api },
            time_limit: Some(5_000_000),
            ..job(members, size, seed)
        };
        let is_group = algorithm == Algorithm::Alfirk;
        let kill = |victim| Kill { victim, name: "it".to_owned(), after: 8_000 };
        match trouble {
            Trouble::Host(host) if is_group && host < members => {
                job.kills = vec![kill(Victim::Host(HostIndex(host)))];
            }
            Trouble::Switch(switch) if is_group && switch < topology.switches().len() => {
                job.kills = vec![kill(Victim::Switch(SwitchIndex(switch)))];
            }
            Trouble::Hostile(host) if is_group && host < members && members > 2 => {
                job.hostiles = vec![HostIndex(host)];
            }
            _ => {}
        }
        if !job.kills.is_empty() || !is_group {
            job.switch_source = 0;
        }
        // Low thresholds, so that many packets are marked.
        let ecn = marks.then(|| EcnProfile::new(1, 8, 0.5).expect("a profile"));
        Scene { topology, job, algorithm, faults, ecn }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 60, ..Cost::Fabric.cases() })]

    #[test]
    fn both_models_send_the_same_frames_at_the_same_times(scene in scene()) {
        same(&scene)?;
    }
}

/// Random switches: queues per port, shared buffers, flow control, or input queues.
fn switching() -> impl Strategy<Value = Switching> {
    let buffer = || SharedBuffer {
        bytes: 1 << 20,
        alpha: "1".parse().expect("a number"),
    };
    let pfc = || Some(Pfc::default());
    prop_oneof![
        2 => Just(Switching::default()),
        1 => Just(Switching { buffer: Some(buffer()), ..Switching::default() }),
        1 => Just(Switching { buffer: Some(buffer()), pfc: pfc(), ..Switching::default() }),
        1 => Just(Switching { queueing: Queueing::Input { speedup: 1 }, ..Switching::default() }),
        1 => Just(Switching { queueing: Queueing::Voq { speedup: 2 }, pfc: pfc(), ..Switching::default() }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 60, ..Cost::Fabric.cases() })]

    #[test]
    fn results_do_not_depend_on_the_number_of_threads(
        scene in scene(),
        switching in switching(),
        fidelity in prop_oneof![Just(Fidelity::Exact), Just(Fidelity::Fast)],
        threads in 2usize..=4,
    ) {
        let mut scene = scene;
        // Runs with failing switches and links always use one thread.
        scene.job.kills.retain(|kill| matches!(kill.victim, Victim::Host(_)));
        scene.topology = scene.topology.with_switching(switching).expect("there is room for headroom");
        let one = play_by(&scene, fidelity, false, 1);
        let several = play_by(&scene, fidelity, false, threads);
        prop_assert_eq!(one, several);
    }
}

#[test]
fn no_report_depends_on_threads() {
    for model in ["exact", "fast"] {
        let report = |more: &[&str]| {
            let flags = ["run", "--model", model, "--size", "300KiB", "--json"];
            let algorithms = ["--algorithms", "alfirk,chain", "--loss", "0.001"];
            json(&[&flags[..], &algorithms, more].concat())
        };
        assert_eq!(report(&[]), report(&["--threads", "3"]));
    }
}

#[cfg(feature = "jit")]
#[test]
fn no_report_depends_on_the_engine() {
    let report = |engine: &str| {
        let flags = ["run", "--engine", engine, "--size", "100KiB", "--json"];
        let algorithms = ["--algorithms", "alfirk,chain", "--loss", "0.001"];
        json(&[&flags[..], &algorithms].concat())
    };
    let interpreted = report("interpreter");
    assert_eq!(report("compiled"), interpreted);
    assert_eq!(report("auto"), interpreted);
}

#[test]
fn a_recorded_run_reports_that_it_has_one_thread() {
    let folder = tempfile::tempdir().unwrap();
    let trace = |name: &str| folder.path().join(name);
    let run = |name: &str, threads| {
        let file = trace(name);
        let file = file.to_str().unwrap();
        let flags = [
            "run",
            "--topology",
            "testbed",
            "--size",
            "64KiB",
            "--algorithms",
            "alfirk",
        ];
        alfirk(&[&flags[..], &["--trace", file, "--threads", threads]].concat())
    };
    let one = run("one.txt", "1");
    let two = run("two.txt", "2");
    assert!(one.status.success() && two.status.success());
    let says = String::from_utf8_lossy(&two.stderr);
    assert!(
        says.contains(
            "--threads 2: each fabric uses one thread, because recordings need the frames in order"
        ),
        "{says}"
    );
    assert!(one.stderr.is_empty());
    let read = |name: &str| std::fs::read(trace(name)).unwrap();
    assert!(read("one.txt") == read("two.txt"));
}

#[test]
fn long_message_is_the_same_with_and_without_recording() {
    for (loss, recovery, op) in [
        (0.0, Recovery::GoBackN, TransferOp::Send),
        (0.002, Recovery::GoBackN, TransferOp::Write),
        (0.002, Recovery::SelectiveRepeat, TransferOp::Send),
    ] {
        let scene = Scene {
            topology: fat_tree(4).unwrap(),
            job: Job {
                op,
                recovery,
                messages: Some(2),
                ..job(16, 3 << 19, 7)
            },
            algorithm: Algorithm::Alfirk,
            faults: FaultProbabilities::lossy(loss),
            ecn: None,
        };
        same(&scene).unwrap();
    }
}

#[test]
fn workloads_are_the_same_in_both_models() {
    let run = |model| {
        json(&[
            "run",
            "--model",
            model,
            "--workload",
            "groups:count=9,size=6,bytes=30KiB",
            "--background",
            "pairs:count=6",
            "--loss",
            "0.002",
            "--algorithms",
            "alfirk,chain,rdmc-binomial-pipeline",
            "--json",
        ])
    };
    assert_eq!(run("exact"), run("fast"));
}

/// Runs a job with and without skipping of steady states, and requires equal results. Returns the share of events that
/// were skipped.
fn share_skipped(scene: &Scene, threads: usize) -> Result<f64, TestCaseError> {
    let (plain, _, [events, none]) = play_with(scene, Fidelity::Fast, false, 1, false);
    let (skipping, _, [all, skipped]) = play_with(scene, Fidelity::Fast, false, threads, true);
    prop_assert_eq!(none, 0);
    prop_assert_eq!(plain, skipping);
    prop_assert_eq!(events, all);
    Ok(skipped as f64 / events as f64)
}

fn long_message(job: Job) -> Scene {
    Scene {
        topology: fat_tree(4).unwrap(),
        job,
        algorithm: Algorithm::Alfirk,
        faults: FaultProbabilities::default(),
        ecn: None,
    }
}

#[test]
fn most_of_a_long_message_is_skipped() {
    for (job, least) in [
        (job(16, 16 << 20, 7), 0.6),
        (
            Job {
                op: TransferOp::Write,
                initial_psn: Some(Psn::new(0xff_f000)),
                ..job(9, 16 << 20, 8)
            },
            0.6,
        ),
        (
            Job {
                mtu: PathMtu::B4096,
                ..job(16, 64 << 20, 9)
            },
            0.8,
        ),
    ] {
        let share = share_skipped(&long_message(job), 1).unwrap();
        assert!(share > least, "{share}");
    }
}

/// Random rates of random links in bits per second, by which queues fill and pacing is used.
fn rates() -> impl Strategy<Value = Vec<(usize, u64)>> {
    let rate = prop_oneof![
        2 => Just(50_000_000_000),
        1 => Just(25_000_000_000),
        1 => 1_000_000_000..100_000_000_000u64,
    ];
    proptest::collection::vec((any::<usize>(), rate), 0..3)
}

prop_compose! {
    /// Disturbances of a long message: another kind of switches, changes of the source, and a suspended application.
    fn disturbances()(
        switching in prop_oneof![6 => Just(Switching::default()), 1 => switching()],
        switch_source in prop_oneof![5 => Just(0u32), 1 => 1u32..4],
        suspended in proptest::option::weighted(0.15, (1usize..16, 0u64..200_000, 1u64..100_000)),
    ) -> (Switching, u32, Option<(usize, u64, u64)>) {
        (switching, switch_source, suspended)
    }
}

prop_compose! {
    /// A random run of long messages, most of which reach a steady state.
    fn long_scene()(
        topology in topology(),
        (switching, switch_source, suspended) in disturbances(),
        rates in rates(),
        algorithm in algorithm(),
        (op, write) in op(),
        faults in prop_oneof![
            6 => Just(FaultProbabilities::default()),
            1 => (0.0..0.001).prop_map(FaultProbabilities::lossy),
        ],
        strategies in prop_oneof![4 => Just(Strategies::default()), 1 => strategies()],
        mtu in prop_oneof![1 => Just(PathMtu::B256), 2 => Just(PathMtu::B1024), 1 => Just(PathMtu::B4096)],
        members in 2usize..=16,
        packets in 200usize..2_500,
        tail in 0usize..5_000,
        messages in prop_oneof![3 => Just(1u32), 1 => 2..4u32],
        (window, timeout) in (proptest::option::weighted(0.3, 2u32..300), proptest::option::weighted(0.3, 4u8..9)),
        pace in prop_oneof![2 => Just(Pace::Path), 1 => Just(Pace::Off)],
        initial_psn in proptest::option::weighted(0.3, prop_oneof![0xff_f800u32..=0xff_ffff, 0x7f_f800u32..0x80_0010]),
        marks in proptest::bool::weighted(0.1),
        recovery in prop_oneof![5 => Just(Recovery::GoBackN), 1 => Just(Recovery::SelectiveRepeat)],
        seed in 0u64..1_000_000,
    ) -> Scene {
        let mut topology = topology.with_switching(switching).expect("there is room for headroom");
        let links = topology.links().len();
        for (link, rate) in rates {
            topology = topology.with_rate(LinkIndex(link % links), rate);
        }
        let members = members.min(topology.hosts().len());
        let size = packets * mtu.bytes() + tail;
        let suspensions = suspended.filter(|(host, ..)| *host < members);
        let suspensions = suspensions.map(|(host, from, lasts)| Suspension {
            host: HostIndex(host),
            from,
            until: from + lasts,
        });
        let job = Job {
            switch_source: if algorithm == Algorithm::Alfirk { switch_source } else { 0 },
            suspensions: suspensions.into_iter().collect(),
            op,
            write,
            strategies,
            mtu,
            messages: Some(messages),
            initial_psn: initial_psn.map(Psn::new),
            congestion: if marks { Congestion::Dcqcn } else { Congestion::None },
            recovery,
            sender: SenderSettings {
                window,
                ack_timeout: timeout.map(AckTimeout::new),
                pace,
                ..SenderSettings::default()
            },
            time_limit: Some(20_000_000),
            ..job(members, size, seed)
        };
        let ecn = marks.then(|| EcnProfile::new(1, 8, 0.5).expect("a profile"));
        Scene { topology, job, algorithm, faults, ecn }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 60, ..Cost::Fabric.cases() })]

    #[test]
    fn results_do_not_depend_on_skipped_steady_states(scene in long_scene(), threads in 1usize..=3) {
        share_skipped(&scene, threads)?;
    }
}

#[test]
fn concurrent_groups_are_skipped_with_equal_results() {
    let topology = fat_tree(4).unwrap();
    let hosts: Vec<_> = topology.host_indexes().collect();
    let run = |kind: &str, skips| {
        let workload = kind.parse::<Kind>().expect("a workload");
        let workload = workload.workload(&hosts, 3).expect("16 hosts");
        let model = Model {
            fidelity: Fidelity::Fast,
            ..Model::default()
        };
        let faults = FaultProbabilities::default();
        let mut network = Network::build(&topology, pipeline(), model, faults, 3).unwrap();
        network.skip_steady_states(skips);
        let mut fabric = VirtualFabric::bring_up(network).unwrap();
        let job = job(2, 1, 3);
        let row = run_workload(
            &mut fabric,
            &topology,
            &job,
            &workload,
            Algorithm::Alfirk,
            &mut |_| {},
        );
        let network = fabric.network();
        let mut outcome = format!("{row:?} {}", network.events());
        for (name, counters) in network.directions() {
            outcome += &format!("\n{name} {counters:?}");
        }
        (outcome, network.skipped_events())
    };
    for (kind, is_skipped) in [
        ("groups:count=1,size=5,bytes=4MiB", true),
        // They share links, so that their common period is too long.
        ("groups:count=2,size=4,bytes=2MiB", false),
    ] {
        let (plain, none) = run(kind, false);
        let (skipping, skipped) = run(kind, true);
        assert_eq!(plain, skipping, "{kind}");
        assert_eq!(none, 0);
        assert!(!is_skipped || skipped > 0, "{kind}");
    }
}
