//! The driver over loopback: a real gRPC server with the in-memory switch of the controller's tests.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alfirk_p4runtime::p4::v1::p4_runtime_server::{P4Runtime, P4RuntimeServer};
use alfirk_p4runtime::p4::v1::*;
use clap::Parser;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::{TcpListenerStream, UnboundedReceiverStream};
use tokio_stream::{Stream, StreamExt};
use tonic::{Code, Request, Response, Status, Streaming};

use super::control::control_client::ControlClient;
use super::control::control_server::{Control, ControlServer};
use super::control::{self, Member, RegisterRequest, StatusRequest};
use super::files::SwitchAddress;
use super::*;
use crate::controller::tests::{p4info, FakeSwitch};
use crate::controller::{self, Controller, ControllerConfig};
use crate::tables::Program;
use crate::topology::{leaf_spine, testbed, SwitchIndex, Topology};
use alfirk_roce::wire::QpNum;

/// Time limit of a test, far above its usual duration.
const LIMIT: Duration = Duration::from_secs(20);

#[derive(Clone)]
struct FakeServer(Arc<Mutex<FakeSwitch>>);

impl FakeServer {
    fn new() -> FakeServer {
        let program = Program::resolve(&p4info::p4info()).unwrap();
        FakeServer(Arc::new(Mutex::new(FakeSwitch::new(program))))
    }

    async fn listen(&self, at: SocketAddr) -> (SocketAddr, JoinHandle<()>) {
        let listener = TcpListener::bind(at).await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tonic::transport::Server::builder()
            .add_service(P4RuntimeServer::new(self.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener));
        (address, tokio::spawn(async { server.await.unwrap() }))
    }

    async fn request(&self, request: controller::Request) -> Result<(), Status> {
        self.answer(request).await.map(|_| ())
    }

    async fn answer(&self, request: controller::Request) -> Result<controller::Response, Status> {
        let answer = self.0.lock().unwrap().request(&request);
        match answer {
            Some(result) => Ok(result?),
            None => std::future::pending().await,
        }
    }
}

type Boxed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl P4Runtime for FakeServer {
    type ReadStream = Boxed<ReadResponse>;
    type StreamChannelStream = Boxed<StreamMessageResponse>;

    async fn write(&self, r: Request<WriteRequest>) -> Result<Response<WriteResponse>, Status> {
        let write = controller::Request::Write(r.into_inner().into());
        self.request(write).await?;
        Ok(Response::new(WriteResponse::default()))
    }

    async fn read(&self, r: Request<ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let read = controller::Request::Read(r.into_inner());
        match self.answer(read).await? {
            controller::Response::Read(messages) => Ok(Response::new(Box::pin(
                tokio_stream::iter(messages.into_iter().map(Ok)),
            ))),
            other => panic!("unexpected: {other:?}"),
        }
    }

    async fn set_forwarding_pipeline_config(
        &self,
        r: Request<SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<SetForwardingPipelineConfigResponse>, Status> {
        let mut request = r.into_inner();
        let config = request.config.take().unwrap_or_default();
        let load = controller::Request::SetPipeline(Box::new(request), config.into());
        self.request(load).await?;
        Ok(Response::new(SetForwardingPipelineConfigResponse::default()))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        r: Request<GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<GetForwardingPipelineConfigResponse>, Status> {
        let get = controller::Request::GetPipeline(r.into_inner());
        let cookie = match self.answer(get).await? {
            controller::Response::Pipeline(cookie) => cookie,
            other => panic!("unexpected: {other:?}"),
        };
        let config = ForwardingPipelineConfig {
            cookie: cookie.map(|cookie| forwarding_pipeline_config::Cookie { cookie }),
            ..ForwardingPipelineConfig::default()
        };
        Ok(Response::new(GetForwardingPipelineConfigResponse {
            config: Some(config),
        }))
    }

    /// Sends the response headers only with the first message, as some servers do.
    async fn stream_channel(
        &self,
        r: Request<Streaming<StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let mut inbound = r.into_inner();
        let (out, outbound) = mpsc::unbounded_channel();
        let fake = self.0.clone();
        let answer = move |message: &StreamMessageRequest| {
            for answer in fake.lock().unwrap().stream(message) {
                let _ = out.send(Ok(answer));
            }
        };
        match inbound.message().await? {
            Some(message) => answer(&message),
            None => return Err(Status::cancelled("nothing was said")),
        }
        tokio::spawn(async move {
            while let Some(Ok(message)) = inbound.next().await {
                answer(&message);
            }
        });
        Ok(Response::new(Box::pin(UnboundedReceiverStream::new(
            outbound,
        ))))
    }

    async fn capabilities(
        &self,
        _: Request<CapabilitiesRequest>,
    ) -> Result<Response<CapabilitiesResponse>, Status> {
        Err(Status::unimplemented("not in the fake"))
    }
}

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Starts a controller for switches at the given addresses.
fn control(topology: Topology, addresses: &[SocketAddr]) -> Handle {
    let config = ControllerConfig::new(p4info::p4info(), b"{}".to_vec());
    let controller = Controller::new(topology, config).unwrap();
    let switches = addresses
        .iter()
        .enumerate()
        .map(|(n, address)| SwitchAddress {
            switch: SwitchIndex(n),
            address: address.to_string(),
        });
    let (runner, handle) = Runner::new(controller, switches.collect());
    tokio::spawn(runner.run());
    handle
}

fn members(ips: &[&str]) -> RegisterRequest {
    RegisterRequest {
        members: ips
            .iter()
            .map(|ip| Member {
                only_receives: false,
                ip: (*ip).to_owned(),
                qpn: 17,
                region: None,
            })
            .collect(),
        ..RegisterRequest::default()
    }
}

#[tokio::test]
async fn a_group_is_registered_and_removed_over_grpc() {
    let fakes: Vec<_> = (0..3).map(|_| FakeServer::new()).collect();
    let mut addresses = Vec::new();
    for fake in &fakes {
        addresses.push(fake.listen(loopback()).await.0);
    }
    let handle = control(leaf_spine(2, 1, 1).unwrap(), &addresses);
    handle.ready(LIMIT).await.unwrap();

    let listener = TcpListener::bind(loopback()).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(
        tonic::transport::Server::builder()
            .add_service(ControlServer::new(ControlService::new(handle)))
            .serve_with_incoming(TcpListenerStream::new(listener)),
    );
    let mut client = ControlClient::connect(format!("http://{address}"))
        .await
        .unwrap();
    let group = client
        .register(members(&["10.0.0.1", "10.0.1.1"]))
        .await
        .unwrap()
        .into_inner();
    assert_eq!((group.mcst_id.as_str(), group.switches), ("10.255.0.1", 3));
    assert!(QpNum::new(group.remote_qpn).is_ordinary());
    for fake in &fakes {
        assert_eq!(
            fake.0
                .lock()
                .unwrap()
                .count("table ingress.group_lookup.groups"),
            1
        );
    }
    let status = client.status(StatusRequest {}).await.unwrap().into_inner();
    assert!(status.ready);
    assert_eq!(status.groups[0].members, ["10.0.0.1", "10.0.1.1"]);

    let remove = control::DeregisterRequest {
        mcst_id: group.mcst_id,
    };
    client.deregister(remove.clone()).await.unwrap();
    for fake in &fakes {
        assert_eq!(
            fake.0.lock().unwrap().count("table ingress.group_lookup"),
            0
        );
    }
    let error = client.deregister(remove).await.unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        (Code::NotFound, "there is no group 10.255.0.1")
    );
}

#[tokio::test]
async fn a_link_reported_down_is_avoided_and_watchers_are_notified() {
    let servers = [(); 4].map(|()| FakeServer::new());
    let mut addresses = Vec::new();
    for server in &servers {
        addresses.push(server.listen(loopback()).await.0);
    }
    let updates = || -> Vec<usize> {
        let switches = servers.iter().map(|server| server.0.lock().unwrap());
        switches.map(|switch| switch.updates).collect()
    };
    let handle = control(leaf_spine(2, 2, 1).unwrap(), &addresses);
    handle.ready(LIMIT).await.unwrap();
    let service = ControlService::new(handle);
    let group = service.register(Request::new(members(&["10.0.0.1", "10.0.1.1"])));
    let mcst_id = group.await.unwrap().into_inner().mcst_id;
    let watch = service.watch(Request::new(control::WatchRequest {}));
    let mut news = watch.await.unwrap().into_inner();
    let link = |a: &str, b: &str, up| {
        let (a, b) = (a.to_owned(), b.to_owned());
        Request::new(control::SetLinkRequest { a, b, up })
    };
    let before = updates();
    service.set_link(link("s1", "l1", false)).await.unwrap();
    // At the reply, both leaves have new routes, and the spine that has lost its link.
    let changed = before
        .iter()
        .zip(updates())
        .filter(|(before, after)| *before < after);
    assert!(changed.count() >= 3);
    let received = tokio::time::timeout(LIMIT, news.next()).await.unwrap();
    let expected = control::GroupNews {
        mcst_id,
        rerouted: true,
        ..control::GroupNews::default()
    };
    assert_eq!(received.unwrap().unwrap(), expected);
    let avoided = async || {
        let status = service.status(Request::new(StatusRequest {})).await;
        status.unwrap().into_inner().avoided
    };
    assert_eq!(avoided().await, ["l1:2 - s1:1"]);
    service.set_link(link("l1", "s1", true)).await.unwrap();
    assert!(avoided().await.is_empty());
    let error = service.set_link(link("l1", "l2", false)).await.unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        (Code::NotFound, "the topology has no link between l1 and l2")
    );
}

/// Measures a fabric with a thousand switches. Run it alone: `cargo test -p alfirk-ctrl --release -- --ignored --nocapture thousand`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn a_thousand_groups_of_sixteen() {
    let topology = crate::topology::fat_tree(4).unwrap();
    let mut addresses = Vec::new();
    let mut servers = Vec::new();
    for _ in topology.switches() {
        let fake = FakeServer::new();
        fake.0.lock().unwrap().trusting = true;
        let (address, server) = fake.listen(loopback()).await;
        addresses.push(address);
        servers.push(server);
    }
    let ips: Vec<String> = topology.hosts().iter().map(|h| h.ip.to_string()).collect();
    let handle = control(topology, &addresses);
    handle.ready(LIMIT).await.unwrap();
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(
        tonic::transport::Server::builder()
            .add_service(ControlServer::new(ControlService::new(handle)))
            .serve_with_incoming(TcpListenerStream::new(listener)),
    );
    let client = ControlClient::connect(format!("http://{address}"))
        .await
        .unwrap();
    let ips: Vec<&str> = ips.iter().map(String::as_str).collect();
    let started = std::time::Instant::now();
    let calls: Vec<_> = (0..1_000)
        .map(|_| {
            let (mut client, request) = (client.clone(), members(&ips));
            tokio::spawn(async move { client.register(request).await.unwrap() })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    println!(
        "1,000 groups of 16: {:.2} s",
        started.elapsed().as_secs_f64()
    );
}

#[tokio::test]
async fn wrong_requests_have_codes_and_messages() {
    let (address, _server) = FakeServer::new().listen(loopback()).await;
    let handle = control(testbed(), &[address]);
    handle.ready(LIMIT).await.unwrap();
    let service = ControlService::new(handle);
    let cases = [
        (members(&["10.0.0.1"]), "a group needs two members"),
        (members(&["10.0.0.1", "10.9.0.1"]), "10.9.0.1 is not"),
        (members(&["10.0.0.1", "h2"]), "members.ip: `h2`"),
        (
            RegisterRequest {
                initial_psn: 1 << 24,
                ..members(&["10.0.0.1", "10.0.0.2"])
            },
            "initial_psn: ",
        ),
    ];
    for (request, start) in cases {
        let error = service.register(Request::new(request)).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(error.message().starts_with(start), "{}", error.message());
    }
}

#[tokio::test]
async fn an_unreachable_switch_is_named_with_its_address() {
    // A port that is not in use.
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let handle = control(testbed(), &[address]);
    let error = handle.ready(Duration::from_millis(500)).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("not all switches are ready after 0.5 s: switch s1: "),
        "{text}"
    );
    assert!(text.contains(&address.to_string()), "{text}");
}

#[tokio::test]
async fn a_refused_pipeline_ends_the_wait_at_once() {
    let fake = FakeServer::new();
    fake.0.lock().unwrap().refuse_pipeline = true;
    let (address, _server) = fake.listen(loopback()).await;
    let handle = control(testbed(), &[address]);
    assert_eq!(
        handle.ready(LIMIT).await.unwrap_err().to_string(),
        "switch s1: SetForwardingPipelineConfig was rejected: INVALID_ARGUMENT: no such pipeline"
    );
}

#[tokio::test]
async fn a_reconnected_switch_gets_pipeline_and_groups_again() {
    let fake = FakeServer::new();
    // A separate runtime simulates a process: all its sockets close when it ends.
    let process = tokio::runtime::Runtime::new().unwrap();
    let server = fake.clone();
    let listening = process.spawn(async move { server.listen(loopback()).await.0 });
    let address = listening.await.unwrap();
    let handle = control(testbed(), &[address]);
    handle.ready(LIMIT).await.unwrap();
    let service = ControlService::new(handle.clone());
    let request = members(&["10.0.0.1", "10.0.0.2"]);
    service
        .register(Request::new(request.clone()))
        .await
        .unwrap();
    let before = fake.0.lock().unwrap().contents();

    process.shutdown_background();
    let fresh = FakeServer::new();
    let is_down = |report: &controller::StatusReport| {
        matches!(
            report.switches[0].state,
            controller::SwitchState::Down { .. }
        )
    };
    tokio::time::timeout(LIMIT, async {
        while !is_down(&handle.status().await.unwrap()) {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    let error = service.register(Request::new(request)).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("switch s1"), "{}", error.message());

    let (_, _server) = fresh.listen(address).await;
    handle.ready(LIMIT).await.unwrap();
    // The members are queried for the group's position; until they have replied, the source's window is larger than usual.
    let contents = fresh.0.lock().unwrap().contents();
    let usual = |text: &String| text.replace("400000, 0)", "10000, 0)");
    assert_eq!(contents.iter().map(usual).collect::<Vec<_>>(), before);
}

/// Runs `alfirk ctrl` with these arguments, and returns its error.
fn started(arguments: &[&str]) -> CtrlError {
    let args = CtrlArgs::try_parse_from([&["ctrl"], arguments].concat()).unwrap();
    run(&args, |line| panic!("unexpected: {line}"), None).unwrap_err()
}

#[test]
fn invalid_input_and_failures_have_different_errors() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let topology = file("testbed.yaml", &testbed().to_yaml());
    let p4info = file(
        "p4info.txtpb",
        &alfirk_p4runtime::text::to_string(&p4info::p4info()),
    );
    let empty_p4info = file("empty.txtpb", "");
    let json = file("main.json", "{}");
    let broken = file("broken", "name: [");
    let twice = file(
        "twice",
        "# here\ns1=127.0.0.1:1\n s1 = 127.0.0.1:2 # again\n",
    );
    let missing = folder.path().join("missing").display().to_string();

    let base = |topology: &str, p4info: &str, json: &str, more: &[&str]| {
        let mut all = vec![
            "--topology",
            topology,
            "--p4info",
            p4info,
            "--device-config",
            json,
        ];
        all.extend(more);
        started(&all)
    };
    let switch = ["--switch", "s1=127.0.0.1:1"];
    let cases = [
        (
            base(&missing, &p4info, &json, &switch),
            "cannot read topology file",
        ),
        (base(&broken, &p4info, &json, &switch), "broken:"),
        (
            base(&topology, &missing, &json, &switch),
            "cannot read P4Info file",
        ),
        (base(&topology, &broken, &json, &switch), "broken: "),
        (
            base(&topology, &empty_p4info, &json, &switch),
            "P4Info has no table",
        ),
        (
            base(&topology, &p4info, &broken, &switch),
            "is not BMv2 JSON",
        ),
        (
            base(&topology, &p4info, &json, &[]),
            "no address for switch s1",
        ),
        (
            base(&topology, &p4info, &json, &["--switch", "s1"]),
            "--switch: `s1` is not NAME=HOST:PORT",
        ),
        (
            base(&topology, &p4info, &json, &["--switch", "s9=127.0.0.1:1"]),
            "the topology has no switch `s9`",
        ),
        (
            base(&topology, &p4info, &json, &["--switches", &twice]),
            "twice:3: switch s1 already has an address; give one",
        ),
    ];
    for (error, part) in cases {
        assert!(error.is_bad_input(), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }

    // 192.0.2.0/24 is reserved for documentation (RFC 5737).
    let more = [&switch[..], &["--listen", "192.0.2.1:1"]].concat();
    let error = base(&topology, &p4info, &json, &more);
    assert!(!error.is_bad_input());
    assert!(
        error
            .to_string()
            .starts_with("cannot listen on 192.0.2.1:1: "),
        "{error}"
    );

    let more = [&switch[..], &["--listen", "127.0.0.1:0", "--wait", "0"]].concat();
    let error = base(&topology, &p4info, &json, &more);
    assert!(!error.is_bad_input());
    assert!(
        error
            .to_string()
            .starts_with("not all switches are ready after 0 s: "),
        "{error}"
    );
}

#[test]
fn flags_are_parsed() {
    use clap::CommandFactory;
    CtrlArgs::command().debug_assert();
    let required = [
        "ctrl",
        "--topology",
        "t",
        "--p4info",
        "p",
        "--device-config",
        "d",
    ];
    let args = CtrlArgs::try_parse_from(required).unwrap();
    assert_eq!(args.listen.to_string(), "127.0.0.1:9560");
    assert_eq!(args.wait, 30);
    for bad in [
        ["--policy", "random"],
        ["--group-range", "10.255.0.0"],
        ["--group-range", "224.0.0.0/8"],
        ["--listen", "here"],
        ["--wait", "-1"],
    ] {
        let all = [&required[..], &bad].concat();
        assert!(CtrlArgs::try_parse_from(all).is_err(), "{bad:?}");
    }
}
