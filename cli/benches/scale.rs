//! Benchmarks the controller's core with many groups: memory, time and messages, with switches that reply at once.
//!
//! The switches here keep nothing, so that memory is the controller's alone: bytes allocated and not given back. Times are
//! this machine's. `ALFIRK_BENCH_LONG=1` adds groups of 4,096.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use alfirk_compiler::driver::{compile, CompileOptions};
use alfirk_compiler::preproc::MacroOption;
use alfirk_ctrl::constants::{PACKET_IN_MRP, PACKET_IN_REGISTERS, PACKET_OUT_REGISTERS};
use alfirk_ctrl::controller::{
    ApiReply, ApiRequest, Controller, ControllerConfig, Effect, Event, MemberSpec, RegisterGroup,
    Request, Response, Tag,
};
use alfirk_ctrl::strategy::Strategies;
use alfirk_ctrl::tables::{PacketOutHeader, Program};
use alfirk_ctrl::topology::{fat_tree, HostIndex, Node as Place, SwitchIndex, Topology};
use alfirk_p4runtime::bytestring;
use alfirk_p4runtime::p4::v1::{
    stream_message_request, stream_message_response, MasterArbitrationUpdate, PacketIn,
    PacketMetadata, PacketOut, ReadResponse, StreamMessageRequest, StreamMessageResponse,
};
use alfirk_roce::wire::mrp::{Kind, Node, Repr, View, PORT};
use alfirk_roce::wire::{ethernet, ipv4, udp, MacAddr, Psn, QpNum};

struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is handed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    // `cargo test` runs benchmarks, too, and wants them short.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    through_the_service(16, 10_000, 64);
    if std::env::var_os("ALFIRK_BENCH_LONG").is_some() {
        through_the_service(26, 100, 4_096);
    }
    for groups in [100, 200, 400, 800] {
        in_band_at_once(groups);
    }
}

fn say(what: &str, result: &str) {
    println!("{what:<28} {result}");
}

/// Groups one after the other.
fn through_the_service(k: u32, groups: usize, members: usize) {
    let topology = fat_tree(k).expect("an even k");
    let hosts = topology.hosts().len();
    let mut fabric = InstantFabric::new(topology);
    let (memory, started) = (IN_USE.load(Ordering::Relaxed), Instant::now());
    let mut halfway = started.elapsed();
    for n in 0..groups {
        // Neighbours, as jobs are placed, and each group from another place on.
        let first = n * 37 % hosts;
        let hosts = (0..members).map(|m| HostIndex((first + m) % hosts));
        fabric.register(hosts.collect());
        if n + 1 == groups / 2 {
            halfway = started.elapsed();
        }
    }
    let took = started.elapsed();
    let used = IN_USE.load(Ordering::Relaxed) - memory;
    assert_eq!(fabric.ready, groups);
    say(
        &format!("controller, {groups} groups of {members}"),
        &format!(
            "{:.0} us per group in the first half, {:.0} in the second; {:.1} MB, {:.1} KB per group, {:.0} bytes per member",
            halfway.as_secs_f64() * 1e6 / (groups / 2) as f64,
            (took - halfway).as_secs_f64() * 1e6 / (groups - groups / 2) as f64,
            used as f64 / 1e6,
            used as f64 / 1e3 / groups as f64,
            used as f64 / (groups * members) as f64,
        ),
    );
}

/// Registrations that all hosts start before any is completed.
fn in_band_at_once(groups: usize) {
    let topology = fat_tree(8).expect("8 is even");
    let hosts = topology.hosts().len();
    let mut fabric = InstantFabric::new(topology);
    let started = Instant::now();
    for n in 0..groups {
        let members: Vec<HostIndex> = (0..16).map(|m| HostIndex((n * 37 + m) % hosts)).collect();
        fabric.ask_in_band(&members, Ipv4Addr::from(0x0aff_0001 + n as u32));
    }
    let messages = fabric.run();
    let took = started.elapsed();
    assert_eq!(fabric.ready, groups);
    say(
        &format!("in band, {groups} groups at once"),
        &format!(
            "{:.1} ms, {:.0} us and {:.1} messages per group of 16",
            took.as_secs_f64() * 1e3,
            took.as_secs_f64() * 1e6 / groups as f64,
            messages as f64 / groups as f64
        ),
    );
}

/// A controller, and switches and hosts that answer at once.
struct InstantFabric {
    controller: Controller,
    program: Program,
    /// Time on the fabric's clock; no operation takes time.
    now: u64,
    next_tag: u64,
    /// Registered groups.
    ready: usize,
}

impl InstantFabric {
    fn new(topology: Topology) -> InstantFabric {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src/v1model/main.p4");
        let mut options = CompileOptions::new(source);
        for (name, bits) in [("GROUP_BITS", "14"), ("LOCAL_BITS", "5")] {
            let define = MacroOption::Define(format!("{name}={bits}"));
            options.preprocessor.macros.push(define);
        }
        let p4info = compile(&options).expect("p4src is right").p4info;
        let config = ControllerConfig {
            // Everything comes at once here.
            mrp_rate: 0,
            groups_per_host: 0,
            ..ControllerConfig::new(p4info, b"{}".to_vec())
        };
        let program = Program::resolve(&config.p4info).expect("the controller's own");
        let controller = Controller::new(topology, config).expect("the pipeline is large enough");
        let mut fabric = InstantFabric {
            controller,
            program,
            now: 1,
            next_tag: 0,
            ready: 0,
        };
        let switches: Vec<SwitchIndex> = fabric.controller.topology().switch_indexes().collect();
        for switch in switches {
            fabric.controller.handle(1, Event::SwitchUp { switch });
            fabric.run();
        }
        assert!(fabric.controller.is_ready());
        fabric
    }

    fn register(&mut self, members: Vec<HostIndex>) {
        let topology = self.controller.topology();
        let members = members.into_iter().map(|host| MemberSpec {
            ip: topology.host(host).ip,
            qpn: QpNum::new(17),
            region: None,
            may_send: true,
        });
        let group = RegisterGroup {
            mcst_id: None,
            virtual_qpn: None,
            members: members.collect(),
            initial_psn: Psn::new(0),
            strategies: Strategies::default(),
        };
        self.next_tag += 1;
        let tag = Tag(self.next_tag);
        let request = ApiRequest::Register { tag, group };
        self.controller.handle(self.now, Event::Api(request));
        self.run();
    }

    /// A packet of a leader arrives at its switch.
    fn ask_in_band(&mut self, members: &[HostIndex], mcst_id: Ipv4Addr) {
        let topology = self.controller.topology();
        let nodes = members.iter().map(|host| Node {
            ip: topology.host(*host).ip,
            qpn: QpNum::new(17),
            flags: 0,
            region: None,
        });
        let nodes: Vec<Node> = [Node::group(mcst_id, QpNum::new(0xa1f))]
            .into_iter()
            .chain(nodes)
            .collect();
        let leader = topology.host(members[0]).ip;
        let (switch, port) = topology.attachment(members[0]);
        for packet in Repr::split(Kind::Register, Psn::new(7), 0, &nodes).expect("they fit") {
            let frame = frame(leader, mcst_id, &packet);
            let event = self.punt(switch, port, frame);
            self.controller.handle(self.now, event);
        }
    }

    /// Delivers messages until none is pending; returns how many the controller has sent.
    fn run(&mut self) -> usize {
        let mut events = VecDeque::new();
        let mut sent = 0;
        loop {
            while let Some(effect) = self.controller.poll() {
                match effect {
                    Effect::Api(ApiReply::GroupReady { .. } | ApiReply::GroupFormed { .. }) => {
                        self.ready += 1;
                    }
                    Effect::Api(ApiReply::Failed { error, .. }) => panic!("{error}"),
                    Effect::Api(_) => {}
                    Effect::Request {
                        switch,
                        request,
                        body,
                    } => {
                        sent += 1;
                        let response = match body {
                            Request::GetPipeline(_) => Response::Pipeline(None),
                            Request::SetPipeline(..) => Response::SetPipeline,
                            Request::Write(_) => Response::Write,
                            Request::Read(_) => Response::Read(vec![ReadResponse::default()]),
                        };
                        events.push_back(Event::Reply {
                            switch,
                            request,
                            result: Ok(response),
                        });
                    }
                    Effect::Stream { switch, message } => {
                        sent += 1;
                        events.extend(self.stream(switch, message));
                    }
                }
            }
            let Some(event) = events.pop_front() else {
                return sent;
            };
            self.controller.handle(self.now, event);
        }
    }

    fn stream(&self, switch: SwitchIndex, message: StreamMessageRequest) -> Option<Event> {
        match message.update? {
            stream_message_request::Update::Arbitration(request) => {
                let message = StreamMessageResponse {
                    update: Some(stream_message_response::Update::Arbitration(
                        MasterArbitrationUpdate {
                            status: None,
                            ..request
                        },
                    )),
                };
                Some(Event::Stream { switch, message })
            }
            stream_message_request::Update::Packet(packet) => self.packet_out(switch, packet),
            _ => None,
        }
    }

    /// Executes register accesses and sends frames for the switch; hosts agree to all requests.
    fn packet_out(&self, switch: SwitchIndex, packet: PacketOut) -> Option<Event> {
        let PacketOutHeader { kind, egress_port } =
            self.program.packet_io.packet_out_header(&packet)?;
        if kind == PACKET_OUT_REGISTERS {
            // As it came, its status being good.
            return Some(packet_in(switch, PACKET_IN_REGISTERS, 0, packet.payload));
        }
        let peer = self
            .controller
            .topology()
            .neighbour_at(switch, egress_port)?
            .peer;
        match peer.node {
            Place::Switch(next) => Some(self.punt(next, peer.port, packet.payload)),
            Place::Host(_) => {
                let view = ethernet::View::new_checked(&packet.payload).ok()?;
                let view = ipv4::View::new_checked(view.payload()).ok()?;
                let host = view.destination();
                let view = udp::View::new_checked(view.payload()).ok()?;
                let asked = Repr::parse(&View::new_checked(view.payload()).ok()?);
                if asked.kind != Kind::Invite {
                    return None;
                }
                let mcst_id = asked.group()?.ip;
                let agreed = Repr {
                    kind: Kind::Agree,
                    ..asked
                };
                Some(self.punt(switch, egress_port, frame(host, mcst_id, &agreed)))
            }
        }
    }

    fn punt(&self, switch: SwitchIndex, port: u32, frame: Vec<u8>) -> Event {
        packet_in(switch, PACKET_IN_MRP, port, frame)
    }
}

fn packet_in(switch: SwitchIndex, reason: u8, port: u32, payload: Vec<u8>) -> Event {
    let values = [u64::from(reason), 0, u64::from(port)];
    let metadata = (1..)
        .zip(values)
        .map(|(metadata_id, value)| PacketMetadata {
            metadata_id,
            value: bytestring::encode(value),
        });
    let packet = PacketIn {
        payload,
        metadata: metadata.collect(),
    };
    let message = StreamMessageResponse {
        update: Some(stream_message_response::Update::Packet(packet)),
    };
    Event::Stream { switch, message }
}

/// A host's registration packet.
fn frame(source: Ipv4Addr, destination: Ipv4Addr, packet: &Repr) -> Vec<u8> {
    let payload = packet.to_bytes();
    let udp_at = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
    let payload_at = udp_at + udp::HEADER_LEN;
    let mut frame = vec![0; payload_at + payload.len()];
    ethernet::Repr {
        destination: MacAddr([2, 0, 0, 0, 0, 1]),
        source: MacAddr([2, 0, 0, 0, 0, 2]),
        ethertype: ethernet::ETHERTYPE_IPV4,
    }
    .emit(&mut frame);
    ipv4::Repr {
        tos: 0,
        payload_len: (udp::HEADER_LEN + payload.len()) as u16,
        identification: 1,
        dont_fragment: true,
        ttl: 64,
        protocol: ipv4::PROTOCOL_UDP,
        source,
        destination,
    }
    .emit(&mut frame[ethernet::HEADER_LEN..]);
    udp::Repr {
        source_port: PORT,
        destination_port: PORT,
        payload_len: payload.len() as u16,
    }
    .emit(&mut frame[udp_at..]);
    frame[payload_at..].copy_from_slice(&payload);
    frame
}
