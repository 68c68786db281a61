//! Tests of BMv2's Thrift services: the generated client calls a switch in this process.

mod arrays;
#[allow(dead_code)]
#[path = "../../../bmv2/tests/switch/builder.rs"]
mod builder;
/// The engine of programs that [`builder`] makes.
mod engine {
    /// Whether programs are compiled before switches run them.
    pub const IS_COMPILED: bool = false;
}
#[allow(dead_code)]
#[path = "../../../p4rt/tests/server/fixture.rs"]
mod fixture;
mod multicast;
mod one_state;
mod programs;
mod tables;

use std::{
    io,
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
};

use alfirk_bmv2::Switch;
use alfirk_p4rt::Server;
use alfirk_switch::{Ports, Request, Response, Runtime, ThriftSettings};
use alfirk_thrift::{
    standard::{BmMatchParam, BmMatchParamExact, DevMgrPortInfo},
    Connection, Failure, Incoming, Requests,
};
use builder::Builder;

/// Ports that record the requests instead of executing them.
#[derive(Default)]
struct RecordingPorts {
    ports: Vec<(u32, String)>,
    notes: Vec<String>,
}

impl Ports for RecordingPorts {
    fn add(&mut self, interface: &str, port: u32, _pcap: &str) -> io::Result<()> {
        if self.ports.iter().any(|(number, _)| *number == port) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.ports.push((port, interface.into()));
        Ok(())
    }

    fn remove(&mut self, port: u32) -> bool {
        let before = self.ports.len();
        self.ports.retain(|(number, _)| *number != port);
        self.ports.len() < before
    }

    fn list(&self) -> Vec<DevMgrPortInfo> {
        let ports = self.ports.iter().map(|(port, interface)| DevMgrPortInfo {
            port_num: *port as i32,
            iface_name: interface.clone(),
            is_up: true,
            ..Default::default()
        });
        ports.collect()
    }

    fn set_depth(&mut self, port: Option<u32>, priority: Option<usize>, packets: usize) {
        self.notes
            .push(format!("depth {port:?} {priority:?} {packets}"));
    }

    fn set_rate(&mut self, port: Option<u32>, priority: Option<usize>, rate: u64) {
        self.notes
            .push(format!("rate {port:?} {priority:?} {rate}"));
    }
}

/// State of a switch after its client has disconnected.
struct FinalState {
    server: Server,
    ports: RecordingPorts,
}

/// A switch that serves one client.
struct TestServer {
    client: Connection,
    server: thread::JoinHandle<FinalState>,
}

impl TestServer {
    fn new(program: &Builder) -> TestServer {
        TestServer::with(program.switch(), &program.text(), ThriftSettings::default())
    }

    fn with(switch: Switch, text: &str, settings: ThriftSettings) -> TestServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut config = Some(Arc::from(text));
        let server = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut requests = Requests::new(&stream, &stream);
            let (mut server, mut ports) = (Server::new(switch), RecordingPorts::default());
            let mut now = 0;
            while let Ok(Incoming::Request(ticket, call)) = requests.receive() {
                now += 1_000_000;
                let mut runtime = Runtime {
                    server: &mut server,
                    ports: &mut ports,
                    settings: &settings,
                    config: &mut config,
                    now,
                    wall_clock: 5_000_000_000,
                };
                let Response::Reply(reply) = runtime.handle(Request::Call(call)) else {
                    panic!("expected a reply");
                };
                requests.send_reply(&ticket, &reply).unwrap();
            }
            FinalState { server, ports }
        });
        TestServer {
            client: Connection::over(stream).unwrap(),
            server,
        }
    }

    /// Closes the client's connection, and returns the switch's state.
    fn end(self) -> FinalState {
        drop(self.client);
        self.server.join().unwrap()
    }
}

/// Returns the name of the code of a rejected call.
#[track_caller]
fn error_code<T: std::fmt::Debug, E: std::fmt::Display>(result: Result<T, Failure<E>>) -> String {
    match result {
        Err(Failure::Refused(error)) => error.to_string(),
        Err(Failure::Server(why) | Failure::Connection(why)) => panic!("{why}"),
        Ok(value) => panic!("expected an error: {value:?}"),
    }
}

fn exact(bytes: &[u8]) -> BmMatchParam {
    BmMatchParam {
        exact: Some(BmMatchParamExact {
            key: bytes.to_vec(),
        }),
        ..Default::default()
    }
}
