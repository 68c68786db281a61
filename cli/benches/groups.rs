//! Benchmarks groups in the control plane: registration by both paths, a thousand registrations over gRPC, and recovery from failures.
//!
//! Times on the fabric's clock are those of the model of the virtual driver (50 us between controller and switch, no time to
//! write an entry); wall times are this machine's, with compiled pipelines. `ALFIRK_BENCH_LONG=1` adds 3,456 members, as many hosts as
//! fit the routing table.

use std::net::{Ipv4Addr, TcpListener as StdListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use alfirk_compiler::driver::{compile, CompileOptions};
use alfirk_ctrl::client::control::control_client::ControlClient;
use alfirk_ctrl::client::control::control_server::ControlServer;
use alfirk_ctrl::client::control::{Member, RegisterRequest};
use alfirk_ctrl::client::{ControlService, Runner, SwitchAddress};
use alfirk_ctrl::controller::{Controller, ControllerConfig, MemberSpec, RegisterGroup};
use alfirk_ctrl::strategy::Strategies;
use alfirk_ctrl::topology::{fat_tree, HostIndex, Topology};
use alfirk_experiment::{run_algorithm, stream, Fabric, Job, Kill, Victim};
use alfirk_roce::collective::Algorithm;
use alfirk_roce::rc::{PathMtu, RcConfig};
use alfirk_roce::wire::{Psn, QpNum};
use alfirk_sim::engine::FaultProbabilities;
use alfirk_sim::network::{Model, Network};
use alfirk_sim::VirtualFabric;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;

/// Groups of the large measurement, and members of each.
const GROUPS: usize = 1_000;
const MEMBERS: usize = 16;

fn main() {
    // `cargo test` runs benchmarks, too, and wants them short.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let pipeline = pipeline();
    let mut sizes = vec![(4, 16), (12, 183), (16, 512)];
    if std::env::var_os("ALFIRK_BENCH_LONG").is_some() {
        sizes.push((26, 4_096));
    }
    for (k, members) in sizes {
        registration(&pipeline, k, members);
    }
    thousand_groups(&pipeline);
    failures(&pipeline);
}

fn say(what: &str, result: &str) {
    println!("{what:<28} {result}");
}

fn pipeline() -> ControllerConfig {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src/v1model/main.p4");
    let compiled = compile(&CompileOptions::new(source)).expect("p4src is right");
    let json = serde_json::to_vec(&compiled.json).expect("BMv2 JSON has no strange keys");
    ControllerConfig::new(compiled.p4info, json)
}

fn fabric(topology: &Topology, config: ControllerConfig) -> VirtualFabric {
    let faults = FaultProbabilities::default();
    let network = Network::build(topology, config, Model::default(), faults, 1);
    VirtualFabric::bring_up(network.expect("the topology fits")).expect("switches come up")
}

/// The same group through the control service and in band.
fn registration(pipeline: &ControllerConfig, k: u32, members: usize) {
    let topology = fat_tree(k).expect("an even k");
    let mut fabric = fabric(&topology, pipeline.clone());
    let members: Vec<MemberSpec> = (0..members)
        .map(HostIndex)
        .map(|host| MemberSpec {
            ip: topology.host(host).ip,
            qpn: fabric
                .network()
                .on_nic(host, |nic, _| nic.create_qp(RcConfig::new(PathMtu::B1024))),
            region: None,
            may_send: true,
        })
        .collect();
    let count = members.len();
    let mut group = RegisterGroup {
        mcst_id: Some(Ipv4Addr::new(10, 255, 0, 1)),
        virtual_qpn: None,
        members,
        initial_psn: Psn::new(0),
        strategies: Strategies::default(),
    };
    let (begun, started) = (fabric.now(), Instant::now());
    fabric.register(group.clone()).expect("there is room");
    let service = (fabric.now() - begun, started.elapsed());
    fabric
        .deregister(Ipv4Addr::new(10, 255, 0, 1))
        .expect("it is there");
    group.virtual_qpn = Some(QpNum::new(0xa1f));
    let (begun, started) = (fabric.now(), Instant::now());
    fabric
        .register_in_band(HostIndex(0), group)
        .expect("there is room");
    let in_band = (fabric.now() - begun, started.elapsed());
    let show = |(ns, wall): (u64, Duration)| {
        let (ms, wall) = (ns as f64 / 1e6, wall.as_secs_f64() * 1e3);
        format!("{ms:.2} ms ({wall:.0} ms wall)")
    };
    say(
        &format!("register {count} of fat-tree-k{k}"),
        &format!("service {}, in band {}", show(service), show(in_band)),
    );
}

/// A switch process; it ends with the value.
struct Switch(Child);

impl Drop for Switch {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A loopback port that is free now.
fn free_port() -> u16 {
    let listener = StdListener::bind("127.0.0.1:0").expect("loopback has ports");
    listener.local_addr().expect("it is bound").port()
}

/// Switch processes, a controller, and a client that registers all groups at once; everything over gRPC.
fn thousand_groups(pipeline: &ControllerConfig) {
    let topology = fat_tree(4).expect("4 is even");
    let mut switches = Vec::new();
    let mut addresses = Vec::new();
    for switch in topology.switch_indexes() {
        let address = format!("127.0.0.1:{}", free_port());
        let child = Command::new(env!("CARGO_BIN_EXE_alfirk"))
            .args(["switch", "--no-p4", "--device-id"])
            .arg(topology.switch(switch).device_id.to_string())
            .args(["--", "--cpu-port", "510", "--grpc-server-addr", &address])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the command is built");
        switches.push(Switch(child));
        addresses.push(SwitchAddress { switch, address });
    }
    let ips: Vec<String> = topology.hosts().iter().map(|h| h.ip.to_string()).collect();
    let request = RegisterRequest {
        members: ips
            .into_iter()
            .take(MEMBERS)
            .map(|ip| Member {
                only_receives: false,
                ip,
                qpn: 17,
                region: None,
            })
            .collect(),
        ..RegisterRequest::default()
    };
    let controller = Controller::new(topology, pipeline.clone()).expect("the pipeline is known");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("threads can be started");
    let took = runtime.block_on(async {
        let (runner, handle) = Runner::new(controller, addresses);
        tokio::spawn(runner.run());
        let ready = handle.ready(Duration::from_secs(60)).await;
        ready.expect("switches come up");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let server = tonic::transport::Server::builder()
            .add_service(ControlServer::new(ControlService::new(handle)))
            .serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(server);
        let client = ControlClient::connect(format!("http://{address}")).await;
        let client = client.expect("the service listens");
        let started = Instant::now();
        let calls: Vec<_> = (0..GROUPS)
            .map(|_| {
                let (mut client, request) = (client.clone(), request.clone());
                tokio::spawn(async move { client.register(request).await })
            })
            .collect();
        for call in calls {
            let answer = call.await.expect("no request panics");
            answer.expect("there is room");
        }
        started.elapsed()
    });
    say(
        &format!("{GROUPS} groups of {MEMBERS}, gRPC"),
        &format!(
            "{:.2} s, {} switch processes",
            took.as_secs_f64(),
            switches.len()
        ),
    );
}

/// Failures during a message, with a failure timeout of 20 ms.
fn failures(pipeline: &ControllerConfig) {
    let topology = fat_tree(4).expect("4 is even");
    let core = topology.switch_named("c1").expect("a core switch");
    let ends = ["p1e1", "p1a1"].map(|name| topology.node_named(name).expect("a switch"));
    let link = topology.links_between(ends[0], ends[1]).next();
    let victims = [
        ("host", Victim::Host(HostIndex(6))),
        ("core switch", Victim::Switch(core)),
        ("link", Victim::Link(link.expect("a link"))),
    ];
    let data: Arc<[u8]> = stream::bytes(1, "input", 8 << 20).into();
    for (name, victim) in victims {
        let config = ControllerConfig {
            probe_interval_ns: 2_500_000,
            dead_member_ns: 20_000_000,
            dead_switch_ns: 20_000_000,
            ..pipeline.clone()
        };
        let job = Job {
            kills: vec![Kill {
                victim,
                name: name.to_owned(),
                after: 200_000,
            }],
            ..Job::new(topology.host_indexes().collect(), Arc::clone(&data))
        };
        let mut fabric = fabric(&topology, config);
        let row = run_algorithm(&mut fabric, &topology, &job, Algorithm::Alfirk, &mut |_| {});
        let row = row.expect("the group goes on");
        assert!(row.verified);
        let ms = |ns: Option<u64>| {
            ns.map_or("never".to_owned(), |ns| {
                format!("{:.1} ms", ns as f64 / 1e6)
            })
        };
        let failure = &row.failures[0];
        say(
            &format!("failure of a {name}"),
            &format!(
                "led around after {}, going on after {} (20 ms of them silence)",
                ms(failure.repaired_ns),
                ms(failure.going_on_ns)
            ),
        );
    }
}
