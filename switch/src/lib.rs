//! The driver of the switch on real interfaces: packet sockets, a P4Runtime server over gRPC, and the `alfirk
//! switch` command.
//!
//! One thread owns the [`Server`] and all ports ([`engine`]), and sleeps in epoll when it is idle. A second one
//! sends large batches of TCP ([`send_thread`]). The gRPC server runs on the calling thread, and passes requests to the
//! first through a queue. Decisions about packets are made in `p4rt` and `bmv2`, not in this crate.

mod args;
mod bfrt;
mod command;
mod compilation;
mod config;
mod debug;
mod engine;
mod files;
mod grpc;
mod link_args;
mod link_change;
mod logging;
mod metrics;
mod queue;
mod reads;
mod send_thread;
mod stream_queue;
mod thrift;
mod tls;
mod trace;
mod trailer_limit;
mod watch;

use std::{
    fs,
    future::Future,
    io::{self, Write},
    net::SocketAddr,
    os::unix::{fs::FileTypeExt, net::UnixStream},
    path::Path,
    sync::Arc,
    thread,
    time::Duration,
};

use alfirk_bmv2_json::BmV2Json;
use alfirk_p4runtime::{
    alfirk::{
        debug::v1::debug_server::DebugServer, links::v1::links_server::LinksServer,
        trace::v1::trace_server::TraceServer,
    },
    bfrt_proto::bf_runtime_server::BfRuntimeServer,
    p4::v1::p4_runtime_server::P4RuntimeServer,
};
use thiserror::Error;
use tokio::{
    net::{TcpListener, UnixListener},
    signal::unix::{signal, SignalKind},
    sync::oneshot,
};
use tokio_stream::{wrappers::UnixListenerStream, Stream, StreamExt};
use tonic::transport::server::{Router, Server as GrpcServer, TcpIncoming};
use tracing::{debug, info, warn};

pub use args::{LogLevel, SwitchArgs};
pub use config::{Config, ServerAddress};
pub use debug::{frame_filter, CreateDebugger, DebuggedFrame, PacketDebugger, ReleasedPacket};
pub use link_change::LinkChangeArgs;
pub use thrift::{
    LongRequest, Ports, Request, Response, Runtime, Settings as ThriftSettings, Started,
};
#[cfg(not(feature = "tls"))]
pub use tls::NO_TLS;
pub use trace::{stdout_has_colors, TraceFormat, TraceOptions};

use self::{
    command::{Command, CommandSender},
    engine::{Engine, PortSetup},
};
use alfirk_bmv2::Switch;
use alfirk_p4rt::{Programs, Server};

/// Maximum size of a gRPC request in bytes; pipeline configs of a few megabytes are common.
const MAX_REQUEST: usize = 256 << 20;
/// Stack of the thread that owns the switch, in bytes. The system allocates only what is used.
const ENGINE_STACK: usize = 16 << 20;
/// Time after which a client without a reply to keepalives is disconnected.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause after a failed attempt to accept a connection.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Error because of which the switch cannot run.
#[derive(Debug, Error)]
pub enum SwitchError {
    /// Error in the target options, which follow `--`; also their help text, which is not an error.
    #[error("options after --: {0}")]
    Usage(clap::Error),
    /// Invalid options or input; nothing was started.
    #[error("{0}")]
    BadInput(String),
    /// A system call failed; holds the message.
    #[error("{0}")]
    Failed(String),
}

impl SwitchError {
    /// Returns the exit code: 2 for invalid usage and input, 1 for other errors.
    pub fn exit_code(&self) -> u8 {
        match self {
            SwitchError::Usage(_) | SwitchError::BadInput(_) => 2,
            SwitchError::Failed(_) => 1,
        }
    }
}

/// Runs a switch until SIGINT or SIGTERM. `debugger`: creates the debuggers that editors attach to it; `None` if none may.
///
/// # Errors
/// See [`SwitchError`]; every message suggests a remedy.
pub fn run(args: &SwitchArgs, debugger: Option<CreateDebugger>) -> Result<(), SwitchError> {
    if args.version || args.json_version {
        let (major, minor) = BmV2Json::VERSION;
        let text = match args.version {
            true => env!("CARGO_PKG_VERSION").to_owned(),
            false => format!("{major}.{minor}"),
        };
        return writeln!(io::stdout(), "{text}").map_err(|e| failed("standard output", &e));
    }
    let config = args.check()?;
    for warning in &config.warnings {
        warn!("{warning}");
    }
    let grpc = grpc_server(&config)?;
    // The answer is valid only after the log has been set up.
    let logs = logging::logs_packets();
    let is_recorded = logs || config.trace.is_on();
    if let Some(path) = &config.coverage {
        // A file that is not usable is reported now, not when the switch ends.
        alfirk_coverage::add_to_file(path, &[]).map_err(bad_coverage)?;
    }
    let for_coverage = |programs: Programs| match config.coverage.is_some() {
        true => programs.with_coverage(),
        false => programs,
    };
    let programs = for_coverage(match is_recorded {
        true => Programs::with_notes(),
        false => Programs::default(),
    });
    // Programs for clients that watch traces.
    let notes = (!is_recorded).then(|| for_coverage(Programs::with_notes()));
    let programs = compilation::compiling(
        programs,
        config.switch.engine,
        // After the last packet of the count the program is no longer recorded.
        logs || is_recorded && config.trace.count.is_none(),
    );
    let (switch, text) = load(&config, &programs)?;
    let trace_filter = config.trace.frame_filter(text.as_deref())?;
    let server = Server::with_programs(switch, programs.clone());
    let (commands, queue) = command::commands().map_err(|e| failed("event queue", &e))?;
    let mut engine = Engine::new(server, queue, config.port_defaults())
        .map_err(|e| failed("epoll and netlink", &e))?;
    if config.trace.is_on() {
        let writer = trace::TraceWriter::new(&config.trace)?;
        engine.trace(writer, trace_filter, config.trace.count);
    }
    engine.allow_debuggers(debugger);
    engine.set_program_json(text.clone());
    if logs {
        engine.log_packets();
    }
    engine.set_clock(config.clock);
    engine.dump_packet_data(config.dump_packet_data);
    for (&number, interface) in &config.interfaces {
        let setup = PortSetup {
            number,
            interface,
            link: config.link(number),
            loss_filters: config.loss_filters(number),
            queue_bytes: config.queue_bytes(number),
            priority_queues: config.priority_queues,
            queue_depth: config.queue_depth,
            ring: config.ring,
            send_socket: config.send_socket,
            seed: config.switch.seed,
            pcap: config.pcap.as_deref(),
        };
        if config.use_files.is_some() {
            engine
                .attach_file(setup)
                .map_err(|error| SwitchError::Failed(format!("--use-files: {error}")))?;
            continue;
        }
        engine
            .attach(setup)
            .map_err(|error| cannot_attach(number, interface, config.pcap.as_deref(), &error))?;
    }
    if let Some(wait) = config.use_files {
        let input = |(&port, name): (&u32, &String)| files::Input::open(port, name);
        let inputs: io::Result<Vec<_>> = config.interfaces.iter().map(input).collect();
        let inputs = inputs.map_err(|e| SwitchError::Failed(format!("--use-files: {e}")))?;
        files::read(inputs, wait, commands.clone()).map_err(|e| failed("a thread", &e))?;
    }
    if let Some(settings) = &config.thrift {
        let address = settings.address;
        let listener =
            std::net::TcpListener::bind(address).map_err(|e| cannot_listen(address, &e))?;
        // The system has chosen a port if it was 0.
        let address = listener.local_addr().unwrap_or(address);
        engine.serve_thrift(
            thrift::Settings {
                address,
                ..*settings
            },
            text.clone(),
        );
        let programs = programs.clone();
        thrift::serve(listener, commands.clone(), programs).map_err(|e| failed("a thread", &e))?;
        // If stdout is closed, clients can still connect.
        let _ = writeln!(io::stdout(), "Thrift server listening on {address}");
    }

    if let (Some(_), Some(json)) = (config.bfrt, &config.json) {
        let (program, generation) = bfrt::load(json, config.bf_rt_schema.as_deref())
            .map_err(|why| SwitchError::BadInput(format!("--bf-rt-schema: {why}")))?;
        engine.serve_bfrt(alfirk_bfrt::Service::new(
            Some(program),
            generation,
            programs,
        ));
    }

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| failed("async runtime", &e))?;
    let service = grpc::Service::new(commands.clone(), notes);
    runtime.block_on(serve(&config, grpc, service, engine))
}

/// Creates the switch and loads its initial program. Also returns the program's JSON text.
fn load(config: &Config, programs: &Programs) -> Result<(Switch, Option<Arc<str>>), SwitchError> {
    let mut switch = Switch::new(config.switch.clone());
    if let Some(path) = &config.json {
        let text = read(path)?;
        switch.load(programs.load(&text).map_err(|error| bad(path, &error))?);
        return Ok((switch, Some(text.into())));
    }
    Ok((switch, None))
}

fn read(path: &Path) -> Result<String, SwitchError> {
    fs::read_to_string(path).map_err(|error| bad(path, &error))
}

fn bad(path: &Path, why: &dyn std::fmt::Display) -> SwitchError {
    SwitchError::BadInput(format!("{}: {why}", path.display()))
}

/// Returns the code of a program, which is BMv2 JSON, as text (`--disassemble`).
///
/// # Errors
/// [`SwitchError::BadInput`] if the file is not a program.
pub fn disassemble(path: &Path) -> Result<String, SwitchError> {
    alfirk_bmv2::disassemble(&read(path)?).map_err(|error| bad(path, &error))
}

fn bad_coverage(error: alfirk_coverage::FileError) -> SwitchError {
    SwitchError::BadInput(format!("--coverage: {error}"))
}

fn grpc_server(config: &Config) -> Result<GrpcServer, SwitchError> {
    let server = GrpcServer::builder()
        .http2_keepalive_interval(Some(KEEPALIVE_TIMEOUT))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT));
    match &config.tls {
        Some(files) => tls::with_tls(server, files),
        None => Ok(server),
    }
}

async fn serve(
    config: &Config,
    mut grpc: GrpcServer,
    service: grpc::Service,
    engine: Engine,
) -> Result<(), SwitchError> {
    let address = &config.address;
    let commands = service.commands().clone();
    // Before the P4Runtime server announces that the switch is ready.
    let metrics = match config.metrics {
        Some(at) => Some(
            metrics::listen(at)
                .await
                .map_err(|e| SwitchError::Failed(format!("--metrics {at}: {e}")))?,
        ),
        None => None,
    };
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|e| failed("signals", &e))?;
    let mut terminate = signal(SignalKind::terminate()).map_err(|e| failed("signals", &e))?;
    let p4runtime = P4RuntimeServer::new(service.clone())
        .max_decoding_message_size(MAX_REQUEST)
        .max_encoding_message_size(usize::MAX);
    let debug = DebugServer::new(service.clone())
        .max_decoding_message_size(MAX_REQUEST)
        .max_encoding_message_size(usize::MAX);
    let router = grpc
        .add_service(p4runtime)
        .add_service(debug)
        .add_service(TraceServer::new(service.clone()))
        .add_service(LinksServer::new(service));

    if let Some(address) = config.bfrt {
        serve_bfrt(address, commands.clone()).await?;
    }
    let (stopped, has_stopped) = oneshot::channel();
    let listening = match config.serves_p4runtime {
        true => listen(address, router).await?,
        false => Box::pin(std::future::pending()),
    };
    if let Some(listener) = metrics {
        if let Ok(at) = listener.local_addr() {
            info!("metrics at http://{at}/metrics");
        }
        tokio::spawn(metrics::serve(listener, commands.clone()));
    }
    let thread = thread::Builder::new()
        .name("switch".into())
        // Nested conditions of a debugger's breakpoints are parsed on it.
        .stack_size(ENGINE_STACK)
        .spawn(move || {
            let covered = engine.run();
            // Sending fails if a signal arrived first, since the receiver is dropped then.
            let _ = stopped.send(());
            covered
        })
        .map_err(|e| failed("the switch's thread", &e))?;

    let result = tokio::select! {
        result = listening => result.map_err(|e| SwitchError::Failed(format!("gRPC server: {e}"))),
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
        _ = has_stopped => Err(SwitchError::Failed("the switch has stopped; see its log".into())),
    };
    info!("stopping");
    commands.send(Command::Shutdown).await;
    let joined = thread.join();
    if let ServerAddress::Unix(path) = address {
        // The file may have been removed already.
        let _ = fs::remove_file(path);
    }
    if let (Some(path), Ok(covered)) = (&config.coverage, &joined) {
        alfirk_coverage::add_to_file(path, covered).map_err(bad_coverage)?;
    }
    match (result, joined) {
        (Ok(()), Err(_)) => Err(SwitchError::Failed("the switch's thread panicked".into())),
        (result, _) => result,
    }
}

/// Starts the BfRuntime server.
async fn serve_bfrt(address: SocketAddr, commands: CommandSender) -> Result<(), SwitchError> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        SwitchError::Failed(format!(
            "--bfrt-server-addr: cannot listen on {address}: {error}"
        ))
    })?;
    let address = listener.local_addr().unwrap_or(address);
    let service = BfRuntimeServer::new(bfrt::Service::new(commands))
        .max_decoding_message_size(MAX_REQUEST)
        .max_encoding_message_size(usize::MAX);
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let router = GrpcServer::builder().add_service(service);
    let serving = router.serve_with_incoming(with_pauses_after_errors(incoming));
    tokio::spawn(async move {
        if let Err(error) = serving.await {
            warn!("BfRuntime server: {error}");
        }
    });
    // If stdout is closed, clients can still connect.
    let _ = writeln!(io::stdout(), "BfRuntime server listening on {address}");
    Ok(())
}

type Serving = std::pin::Pin<Box<dyn Future<Output = Result<(), tonic::transport::Error>>>>;

async fn listen(address: &ServerAddress, router: Router) -> Result<Serving, SwitchError> {
    match address {
        ServerAddress::Tcp(address) => {
            let listener = TcpListener::bind(address).await.map_err(|error| {
                let hint = match error.kind() {
                    io::ErrorKind::AddrInUse => {
                        "; another switch uses it: give each its own --grpc-server-addr after `--`"
                    }
                    _ => "",
                };
                SwitchError::Failed(format!("cannot listen on {address}: {error}{hint}"))
            })?;
            let address = listener.local_addr().unwrap_or(*address);
            announce(&address.to_string());
            // Without this, a PacketIn that follows another waits for the client's delayed acknowledgement, 40 ms.
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            Ok(Box::pin(
                router.serve_with_incoming(with_pauses_after_errors(incoming)),
            ))
        }
        ServerAddress::Unix(path) => {
            let listener = bind_unix(path).map_err(|error| {
                let hint = match error.kind() {
                    io::ErrorKind::AddrInUse => "; another switch uses it, or it is not a socket",
                    _ => "",
                };
                let path = path.display();
                SwitchError::Failed(format!("cannot listen on unix:{path}: {error}{hint}"))
            })?;
            announce(&format!("unix:{}", path.display()));
            let incoming = UnixListenerStream::new(listener);
            Ok(Box::pin(
                router.serve_with_incoming(with_pauses_after_errors(incoming)),
            ))
        }
    }
}

/// Listens on a Unix socket. Replaces a socket file that a killed switch has left.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let error = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => error,
        other => return other,
    };
    let is_socket = fs::symlink_metadata(path)?.file_type().is_socket();
    match UnixStream::connect(path) {
        Err(gone) if is_socket && gone.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        _ => Err(error),
    }
}

/// Delays the next accept after a failed one, since the server polls for connections continuously. The usual cause
/// is a lack of file descriptors.
fn with_pauses_after_errors<T>(
    incoming: impl Stream<Item = io::Result<T>>,
) -> impl Stream<Item = io::Result<T>> {
    incoming.then(|connection| async {
        if let Err(error) = &connection {
            debug!("cannot accept a connection: {error}");
            tokio::time::sleep(ACCEPT_RETRY_PAUSE).await;
        }
        connection
    })
}

/// Prints the line `Server listening on ADDRESS`, as `simple_switch_grpc` does, because scripts wait for it.
fn announce(address: &str) {
    // If stdout is closed, clients can still connect.
    let _ = writeln!(io::stdout(), "Server listening on {address}");
}

fn failed(what: &str, error: &io::Error) -> SwitchError {
    SwitchError::Failed(format!("cannot set up {what}: {error}"))
}

fn cannot_listen(address: SocketAddr, error: &io::Error) -> SwitchError {
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => "; another switch uses it: give each its own --thrift-port",
        _ => "",
    };
    SwitchError::Failed(format!(
        "--thrift-port: cannot listen on {address}: {error}{hint}"
    ))
}

fn cannot_attach(port: u32, name: &str, pcap: Option<&Path>, error: &io::Error) -> SwitchError {
    let option = format!("-i {port}@{name}");
    let why = match (error.kind(), pcap) {
        (io::ErrorKind::PermissionDenied, _) => {
            "packet sockets need root or CAP_NET_RAW (try sudo, or setcap cap_net_raw+ep)"
                .to_owned()
        }
        (io::ErrorKind::NotFound, Some(dir)) if !dir.is_dir() => {
            format!("--pcap {}: no such directory", dir.display())
        }
        (io::ErrorKind::NotFound, _) => scapy::live::missing_interface(name),
        _ => error.to_string(),
    };
    SwitchError::Failed(format!("{option}: {why}"))
}
