//! Command line of `alfirk switch`, compatible with `simple_switch_grpc`.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    net::{Ipv4Addr, SocketAddr, ToSocketAddrs},
    num::NonZeroU32,
    path::PathBuf,
    time::Duration,
};

use alfirk_packet_io::{link::LinkOptions, loss_filter::LossFilter, Clock, SendSocket};
use clap::{Args, Parser, ValueEnum};

use super::{
    engine::PortDefaults,
    link_args::LinkArgs,
    thrift,
    tls::TlsFiles,
    trace::{TraceFormat, TraceOptions},
    SwitchError,
};
use alfirk_bmv2::{Engine, PreLimits, SwitchOptions};

/// Run a P4 program on network interfaces as BMv2 does, controlled by P4Runtime.
///
/// Drop-in replacement of simple_switch_grpc; target options follow a `--`.
#[derive(Args, Clone, Debug)]
#[command(
    disable_version_flag = true,
    after_long_help = "\
Target options, after `--`:
  --grpc-server-addr ADDR  P4Runtime server [default: 127.0.0.1:9559], or unix:PATH
  --cpu-port PORT          port number for packet-in and packet-out [default: none]
  --drop-port PORT         port number of the drop port [default: 511]
  --priority-queues N      queues per port [default: 1]; packets of priority N or more are dropped
  --max-mc-groups N        maximum number of multicast groups [default: no limit]; and of their
                           nodes: --max-l1-entries N, --max-l2-entries N
  --disable-swap           reject new programs at run time
  --grpc-server-ssl        use TLS, with the certificate --grpc-server-cert FILE and its key
                           --grpc-server-key FILE, both PEM; --grpc-server-with-client-auth
                           requires client certificates signed by --grpc-server-cacert FILE

Example:
  alfirk switch -i 1@veth1 -i 2@veth2 --device-id 1 --no-p4 -- --cpu-port 510"
)]
pub struct SwitchArgs {
    /// BMv2 JSON to start with, or a P4 program (.p4), which is compiled first; optional with --no-p4.
    #[arg(value_name = "JSON", required_unless_present_any = ["no_p4", "version", "json_version"])]
    pub json: Option<PathBuf>,

    /// Start without a program; P4Runtime loads one later.
    #[arg(long)]
    pub no_p4: bool,

    /// Print the version and exit.
    #[arg(short = 'v', long)]
    pub version: bool,

    /// Print the newest supported version of BMv2 JSON and exit.
    #[arg(long)]
    pub json_version: bool,

    /// Print the program's code, with source lines where the JSON has them, and exit.
    #[arg(long, requires = "json", help_heading = "Observation")]
    pub disassemble: bool,

    /// Attach an interface to a port, such as 1@veth0. Repeatable.
    #[arg(short = 'i', long = "interface", value_name = "PORT@IFACE", value_parser = parse_interface, help_heading = "Ports")]
    pub interfaces: Vec<(u32, String)>,

    /// What executes the program; traces and logs of packets always use the interpreter.
    #[arg(long, value_enum, value_name = "ENGINE", default_value_t = Engine::Auto)]
    pub engine: Engine,

    /// Device id in P4Runtime.
    #[arg(long, default_value_t = 0, value_name = "ID", help_heading = "Control")]
    pub device_id: u64,

    /// Log to standard output, in BMv2's format.
    #[arg(long, conflicts_with = "log_file", help_heading = "Logging")]
    pub log_console: bool,

    /// Log to this file, in BMv2's format; ".txt" is appended.
    #[arg(long, value_name = "PATH", help_heading = "Logging")]
    pub log_file: Option<PathBuf>,

    /// Log level [default: trace with --log-console and --log-file, which logs every step of every packet].
    #[arg(
        short = 'L',
        long,
        value_name = "LEVEL",
        ignore_case = true,
        help_heading = "Logging"
    )]
    pub log_level: Option<LogLevel>,

    /// Flush every line of the log (always done).
    #[arg(long, hide = true)]
    pub log_flush: bool,

    /// Size in bytes at which a new log file begins.
    #[arg(long, value_name = "BYTES", default_value_t = 5 << 20, value_parser = clap::value_parser!(u64).range(1..), help_heading = "Logging")]
    pub log_file_max_size: u64,

    /// Number of older log files to keep.
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Logging")]
    pub log_file_max_files: u32,

    /// Number of bytes of every received and sent frame to log at level info.
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 0,
        help_heading = "Logging"
    )]
    pub dump_packet_data: usize,

    /// Capture each port's frames to IFACE_in.pcap and IFACE_out.pcap in DIR.
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".", help_heading = "Observation")]
    pub pcap: Option<PathBuf>,

    /// Options of emulated links.
    #[command(flatten)]
    pub links: LinkArgs,

    /// Add the program's coverage by packets to this LCOV file when the switch ends; `alfirk coverage` shows it.
    #[arg(long, value_name = "FILE", help_heading = "Observation")]
    pub coverage: Option<PathBuf>,

    /// Print every packet's path through the program; --trace=json for tools.
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "text", help_heading = "Observation")]
    pub trace: Option<TraceFormat>,

    /// Write traces to this file instead of standard output; as text without --trace.
    #[arg(long, value_name = "FILE", help_heading = "Observation")]
    pub trace_file: Option<PathBuf>,

    /// Write the trace of each packet as BMv2 does: trace_N.txtpb in DIR, a PacketTrace in protobuf text format.
    #[arg(long, value_name = "DIR", help_heading = "Observation")]
    pub trace_dir: Option<PathBuf>,

    /// Trace only received packets that meet a condition, such as 'IP.ttl < 5 and not UDP.dport == 53', and their copies.
    #[arg(long, value_name = "CONDITION", help_heading = "Observation")]
    pub trace_filter: Option<String>,

    /// End tracing after this number of received packets; machine code runs the program from then on.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Observation")]
    pub trace_count: Option<u64>,

    /// Serve Prometheus metrics at http://ADDR/metrics, such as 127.0.0.1:9100.
    #[arg(long, value_name = "ADDR", help_heading = "Observation")]
    pub metrics: Option<SocketAddr>,

    /// Receive ring of each port in MiB; 0 uses the socket's buffer alone.
    #[arg(long, value_name = "MIB", default_value_t = 4, value_parser = clap::value_parser!(u32).range(..=256), help_heading = "Ports")]
    pub ring: u32,

    /// Sockets that send frames; AF_XDP takes less time for each frame, and auto uses it on veth interfaces.
    #[arg(
        long,
        value_enum,
        value_name = "SOCKET",
        default_value_t = SendSocket::Auto,
        help_heading = "Ports"
    )]
    pub send_socket: SendSocket,

    /// Seed of losses and of the program's random numbers.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        help_heading = "Emulation"
    )]
    pub seed: u64,

    /// Run the clock N times slower than real time: rates, delays, meters and timestamps are scaled.
    #[arg(long, value_name = "N", default_value_t = NonZeroU32::MIN, help_heading = "Emulation")]
    pub time_scale: NonZeroU32,

    /// Maximum number of attached interfaces.
    #[arg(long, value_name = "N", default_value_t = 512, help_heading = "Ports")]
    pub max_port_count: usize,

    /// Serve BMv2's Thrift runtime, for simple_switch_CLI, at this port of localhost, or at ADDR:PORT [default: none; 9090 as
    /// simple_switch].
    #[arg(long, value_name = "PORT", value_parser = parse_thrift_port, help_heading = "Control")]
    pub thrift_port: Option<SocketAddr>,

    /// Serve BfRuntime at this address, such as 127.0.0.1:50052, for programs of the architectures tna and t2na.
    #[arg(long, value_name = "ADDR", requires = "json", help_heading = "Control")]
    pub bfrt_server_addr: Option<SocketAddr>,

    /// The program's BfRuntime schema [default: bf-rt.json in the folder of JSON].
    #[arg(
        long,
        value_name = "FILE",
        requires = "bfrt_server_addr",
        help_heading = "Control"
    )]
    pub bf_rt_schema: Option<PathBuf>,

    /// Run as simple_switch, without P4Runtime; implied when started under that name
    #[arg(long, hide = true)]
    pub as_simple_switch: bool,

    /// Accepted for compatibility; there are no nanomsg notifications.
    #[arg(long, value_name = "ADDR", hide = true)]
    pub notifications_addr: Option<String>,

    /// Accepted for compatibility; events go to the log, not to nanomsg.
    #[arg(long, value_name = "ADDR", hide = true)]
    pub nanolog: Option<String>,

    /// Not supported: there is no debugger
    #[arg(long, hide = true)]
    pub debugger: bool,

    /// Not supported: there is no debugger
    #[arg(long, value_name = "ADDR", hide = true)]
    pub debugger_addr: Option<String>,

    /// Read and write pcap files instead of interfaces, IFACE_in.pcap and IFACE_out.pcap; reading starts after SECONDS.
    #[arg(
        long,
        value_name = "SECONDS",
        allow_negative_numbers = true,
        help_heading = "Ports"
    )]
    pub use_files: Option<i32>,

    /// Not supported
    #[arg(long, value_name = "ADDR", hide = true)]
    pub packet_in: Option<String>,

    /// Not supported
    #[arg(long, value_name = "FILE", hide = true)]
    pub restore_state: Option<PathBuf>,

    /// Target options; see below
    #[arg(last = true, value_name = "TARGET OPTIONS")]
    pub target: Vec<OsString>,
}

/// A log level, by BMv2's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Every step of every packet.
    Trace,
    /// Connections, and events of single packets that are rare.
    Debug,
    /// Events of ports and programs.
    Info,
    /// Conditions that the switch handles, but that probably are mistakes.
    Warn,
    /// Failures that affect ports or clients.
    Error,
    /// Nothing.
    Off,
}

impl LogLevel {
    /// Returns the level as a filter directive of the `tracing` crates.
    pub fn filter(self) -> &'static str {
        match self {
            LogLevel::Trace => "trace",
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Warn => "warn",
            LogLevel::Error => "error",
            LogLevel::Off => "off",
        }
    }
}

/// Target options of alfirk switch, after its `--`
#[derive(Clone, Debug, Parser)]
#[command(
    name = "alfirk switch ... --",
    no_binary_name = true,
    disable_version_flag = true
)]
struct TargetArgs {
    /// P4Runtime server: ADDRESS:PORT or unix:PATH
    #[arg(long, default_value = "127.0.0.1:9559")]
    grpc_server_addr: String,

    /// Port number for packet-in and packet-out; must not be 0 or the port of an interface
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    cpu_port: Option<u32>,

    /// Port number of the drop port
    #[arg(long, default_value_t = 511)]
    drop_port: u32,

    /// Number of queues per port
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    priority_queues: u32,

    /// Reject new programs at run time
    #[arg(long)]
    disable_swap: bool,

    /// Allow Thrift clients to replace the program (simple_switch)
    #[arg(long, hide = true)]
    enable_swap: bool,

    /// Maximum number of multicast groups
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    max_mc_groups: Option<u32>,

    /// Maximum number of nodes of multicast groups
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    max_l1_entries: Option<u32>,

    /// Maximum number of port lists; each node has one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    max_l2_entries: Option<u32>,

    /// Not supported: there is nothing to load into
    #[arg(long, value_name = "FILES", hide = true)]
    load_modules: Option<String>,

    /// Not supported: set egress_spec in the program
    #[arg(long, hide = true)]
    egress_spec_init_to_drop: bool,

    /// Use TLS, with --grpc-server-cert and --grpc-server-key
    #[arg(long)]
    grpc_server_ssl: bool,

    /// Server certificate, a PEM file
    #[arg(long, value_name = "FILE")]
    grpc_server_cert: Option<PathBuf>,

    /// Private key of the server, a PEM file
    #[arg(long, value_name = "FILE")]
    grpc_server_key: Option<PathBuf>,

    /// The certificate authority of clients, a PEM file
    #[arg(long, value_name = "FILE")]
    grpc_server_cacert: Option<PathBuf>,

    /// Reject clients without a certificate of that authority
    #[arg(long)]
    grpc_server_with_client_auth: bool,

    /// Not supported: attach interfaces instead
    #[arg(long, hide = true)]
    dp_grpc_server_addr: Option<String>,
}

impl TargetArgs {
    fn pre_limits(&self) -> PreLimits {
        let limit = |n: Option<u32>| n.map_or(usize::MAX, |n| n as usize);
        PreLimits {
            groups: limit(self.max_mc_groups),
            nodes: limit(self.max_l1_entries).min(limit(self.max_l2_entries)),
        }
    }

    /// Returns the TLS files of the options, if the options request TLS.
    fn tls(&self) -> Result<Option<TlsFiles>, SwitchError> {
        let (cert, key) = (&self.grpc_server_cert, &self.grpc_server_key);
        let authority = &self.grpc_server_cacert;
        if !self.grpc_server_ssl {
            let files = [cert, key, authority].iter().any(|file| file.is_some());
            return match files || self.grpc_server_with_client_auth {
                true => bad("--grpc-server-cert, --grpc-server-key, --grpc-server-cacert and --grpc-server-with-client-auth need --grpc-server-ssl"),
                false => Ok(None),
            };
        }
        let (Some(cert), Some(key)) = (cert, key) else {
            return bad(
                "--grpc-server-ssl: needs --grpc-server-cert FILE and --grpc-server-key FILE",
            );
        };
        let with_client_auth = self.grpc_server_with_client_auth;
        if with_client_auth && authority.is_none() {
            return bad(
                "--grpc-server-with-client-auth: needs --grpc-server-cacert FILE, the authority of \
                 client certificates",
            );
        }
        Ok(Some(TlsFiles {
            cert: cert.clone(),
            key: key.clone(),
            // As in simple_switch_grpc, client certificates are not requested by default.
            clients: authority.clone().filter(|_| with_client_auth),
        }))
    }
}

/// Address on which the P4Runtime server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// TCP at this address and port.
    Tcp(SocketAddr),
    /// A Unix socket at this path.
    Unix(PathBuf),
}

/// Settings of `alfirk switch`, from a validated command line.
#[derive(Clone, Debug)]
pub struct Config {
    /// BMv2 JSON file or P4 program to load at the start; `None` to start without a program.
    pub json: Option<PathBuf>,
    /// Names of the interfaces to attach, by port number.
    pub interfaces: BTreeMap<u32, String>,
    /// Options of the switch core.
    pub switch: SwitchOptions,
    /// Listening address of the P4Runtime server.
    pub address: ServerAddress,
    /// TLS files, if the server uses TLS.
    pub tls: Option<TlsFiles>,
    /// Link options of single ports.
    pub links: BTreeMap<u32, LinkOptions>,
    /// Link options of all other ports.
    pub default_link: LinkOptions,
    /// Filters of frames to drop, each with its port.
    pub loss_filters: Vec<(u32, LossFilter)>,
    /// Number of queues per port.
    pub priority_queues: usize,
    /// Depth of each queue in packets.
    pub queue_depth: usize,
    /// Maximum number of queued bytes of single ports, in place of the depth in packets.
    pub queue_bytes: BTreeMap<u32, u64>,
    /// Clock of the switch, which `--time-scale` slows down.
    pub clock: Clock,
    /// Size of each port's receive ring in bytes.
    pub ring: usize,
    /// Sockets that send frames.
    pub send_socket: SendSocket,
    /// Directory of capture files; `None` to capture nothing.
    pub pcap: Option<PathBuf>,
    /// LCOV file to which coverage is added.
    pub coverage: Option<PathBuf>,
    /// What is traced, and where traces are written.
    pub trace: TraceOptions,
    /// Listening address of the Prometheus endpoint; `None` to serve no metrics.
    pub metrics: Option<SocketAddr>,
    /// Number of bytes of each frame that are logged; 0 for none.
    pub dump_packet_data: usize,
    /// Thrift server, if enabled.
    pub thrift: Option<thrift::Settings>,
    /// Listening address of the BfRuntime server, if it is enabled.
    pub bfrt: Option<SocketAddr>,
    /// File with the program's BfRuntime schema; `None` for the one in the program's folder.
    pub bf_rt_schema: Option<PathBuf>,
    /// Whether P4Runtime is served.
    pub serves_p4runtime: bool,
    /// Delay before the input files are read, if ports read files instead of interfaces; `None` for interfaces.
    pub use_files: Option<Duration>,
    /// Warnings about the command line.
    pub warnings: Vec<String>,
}

impl Config {
    /// Returns the options of ports added at run time.
    pub fn port_defaults(&self) -> PortDefaults {
        PortDefaults {
            link: self.default_link,
            priority_queues: self.priority_queues,
            queue_depth: self.queue_depth,
            queue_rate: 0,
            seed: self.switch.seed,
            ring: self.ring,
            send_socket: self.send_socket,
            reserved: self
                .switch
                .cpu_port
                .into_iter()
                .chain([self.switch.drop_port])
                .collect(),
        }
    }

    /// Returns the link options of a port.
    pub fn link(&self, port: u32) -> LinkOptions {
        self.links.get(&port).copied().unwrap_or(self.default_link)
    }

    /// Returns the maximum number of queued bytes of a port; `None` if its depth in packets applies.
    pub fn queue_bytes(&self, port: u32) -> Option<u64> {
        self.queue_bytes.get(&port).copied()
    }

    /// Returns the filters of the frames that a port drops.
    pub fn loss_filters(&self, port: u32) -> Vec<LossFilter> {
        let of_port = self.loss_filters.iter().filter(|(of, _)| *of == port);
        of_port.map(|(_, filter)| filter.clone()).collect()
    }
}

impl SwitchArgs {
    /// Validates the command line and returns its settings. Makes no system calls.
    ///
    /// # Errors
    /// The first usage error.
    pub fn check(&self) -> Result<Config, SwitchError> {
        let target = TargetArgs::try_parse_from(&self.target).map_err(SwitchError::Usage)?;
        self.reject_unsupported(&target)?;

        let mut interfaces = BTreeMap::new();
        let mut names = BTreeSet::new();
        let (count, max) = (self.interfaces.len(), self.max_port_count);
        if count > max {
            return bad(format!(
                "-i: {count} interfaces exceed --max-port-count {max}"
            ));
        }
        for (port, name) in &self.interfaces {
            if interfaces.insert(*port, name.clone()).is_some() {
                return bad(format!("-i {port}@{name}: port {port} occurs twice"));
            }
            if !names.insert(name) {
                return bad(format!("-i {port}@{name}: interface {name} occurs twice"));
            }
            if Some(*port) == target.cpu_port {
                return bad(format!("-i {port}@{name}: port {port} is the CPU port"));
            }
            if *port == target.drop_port {
                return bad(format!("-i {port}@{name}: port {port} is the drop port"));
            }
        }
        if target.cpu_port == Some(target.drop_port) {
            return bad(format!(
                "--cpu-port {0}: port {0} is the drop port; choose another --drop-port",
                target.drop_port
            ));
        }

        let (default_link, links) = self.links.links().map_err(SwitchError::BadInput)?;
        let loss_filters = self.links.port_drop.clone();
        let queue_bytes: BTreeMap<u32, u64> = self.links.port_queue.iter().copied().collect();
        let mut ports = links
            .keys()
            .chain(loss_filters.iter().map(|(port, _)| port))
            .chain(queue_bytes.keys());
        if let Some(port) = ports.find(|port| !interfaces.contains_key(port)) {
            return bad(format!(
                "--port-...: port {port} has no interface; attach one with -i {port}@IFACE"
            ));
        }

        let mut warnings = Vec::new();
        if self.notifications_addr.is_some() {
            warnings.push(
                "--notifications-addr: ignored, nanomsg notifications are not supported".into(),
            );
        }
        if let Some(address) = &self.nanolog {
            let why = "nanomsg is not supported; events go to the log (--log-console, --log-file)";
            warnings.push(format!("--nanolog {address}: {why}"));
        }
        if self.log_flush && self.log_file.is_none() {
            warnings.push("--log-flush: ignored without --log-file".into());
        }
        if let (true, Some(json)) = (self.no_p4, &self.json) {
            warnings.push(format!("{}: ignored because of --no-p4", json.display()));
        }

        let trace = TraceOptions {
            format: self
                .trace
                .or(self.trace_file.is_some().then_some(TraceFormat::Text)),
            file: self.trace_file.clone(),
            dir: self.trace_dir.clone(),
            filter: self.trace_filter.clone(),
            count: self.trace_count,
        };
        if !trace.is_on() && (trace.filter.is_some() || trace.count.is_some()) {
            return bad(
                "--trace-filter and --trace-count need --trace, --trace-file or --trace-dir",
            );
        }
        if self.engine == Engine::Compiled && !Engine::HAS_COMPILER {
            let why = "this build has no compiler (feature jit); use --engine interpreter";
            return Err(SwitchError::BadInput(format!("--engine compiled: {why}")));
        }
        Ok(Config {
            json: self.json.clone().filter(|_| !self.no_p4),
            interfaces,
            switch: SwitchOptions {
                device_id: self.device_id,
                cpu_port: target.cpu_port,
                drop_port: target.drop_port,
                priority_queues: target.priority_queues,
                pre_limits: target.pre_limits(),
                may_swap: !target.disable_swap,
                seed: self.seed,
                engine: self.engine,
            },
            address: parse_address(&target.grpc_server_addr)?,
            tls: target.tls()?,
            links,
            default_link,
            loss_filters,
            priority_queues: target.priority_queues as usize,
            queue_depth: self.links.queue_depth,
            queue_bytes,
            clock: Clock::slower(self.time_scale),
            ring: (self.ring as usize) << 20,
            send_socket: self.send_socket,
            pcap: self.pcap.clone(),
            coverage: self.coverage.clone(),
            trace,
            metrics: self.metrics,
            dump_packet_data: self.dump_packet_data,
            thrift: self.thrift(&target),
            bfrt: self.bfrt_server_addr,
            bf_rt_schema: self.bf_rt_schema.clone(),
            serves_p4runtime: !self.as_simple_switch,
            use_files: self.use_files.map(|s| Duration::from_secs(s.max(0) as u64)),
            warnings,
        })
    }

    /// Returns the settings of the Thrift server; `None` if it is not enabled. `simple_switch` always enables it.
    fn thrift(&self, target: &TargetArgs) -> Option<thrift::Settings> {
        let default = thrift::Settings::default().address;
        let address = self
            .thrift_port
            .or(self.as_simple_switch.then_some(default))?;
        Some(thrift::Settings {
            address,
            // simple_switch needs an option to allow this, simple_switch_grpc one to forbid it.
            may_swap: match self.as_simple_switch {
                true => target.enable_swap,
                false => !target.disable_swap,
            },
        })
    }

    /// Fails if an option is given that this switch does not support.
    fn reject_unsupported(&self, target: &TargetArgs) -> Result<(), SwitchError> {
        let rejected = [
            (
                self.debugger || self.debugger_addr.is_some(),
                "--debugger: there is no debugger; use --log-level trace",
            ),
            (
                self.packet_in.is_some(),
                "--packet-in: not supported; attach veth interfaces",
            ),
            (
                self.restore_state.is_some(),
                "--restore-state: not supported; let the controller write the state",
            ),
            (
                target.load_modules.is_some(),
                "--load-modules: not supported; the switch has no modules",
            ),
            (
                target.egress_spec_init_to_drop,
                "--egress-spec-init-to-drop: not supported; call mark_to_drop in the program",
            ),
            (
                target.dp_grpc_server_addr.is_some(),
                "--dp-grpc-server-addr: not supported; attach veth interfaces",
            ),
        ];
        match rejected.into_iter().find(|(given, _)| *given) {
            Some((_, why)) => bad(why),
            None => Ok(()),
        }
    }
}

fn bad<T>(why: impl Into<String>) -> Result<T, SwitchError> {
    Err(SwitchError::BadInput(why.into()))
}

fn parse_address(text: &str) -> Result<ServerAddress, SwitchError> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Ok(ServerAddress::Unix(path.into()));
    }
    let address = text
        .to_socket_addrs()
        .ok()
        .and_then(|mut found| found.next());
    match address {
        Some(address) => Ok(ServerAddress::Tcp(address)),
        None => bad(format!(
            "--grpc-server-addr {text}: expected an address with a port, such as 127.0.0.1:9559"
        )),
    }
}

/// Parses a port number, which means that port of localhost, or an address with a port.
fn parse_thrift_port(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().map(|port| (Ipv4Addr::LOCALHOST, port).into());
    let address = port.or_else(|_: std::num::ParseIntError| text.parse());
    address.map_err(|_| "expected PORT or ADDR:PORT, such as 9090 or 0.0.0.0:9090".to_owned())
}

fn parse_interface(text: &str) -> Result<(u32, String), String> {
    // p4c's test runner passes `-i 0@pcap0` as one argument.
    let parsed = text.trim_start().split_once('@').and_then(|(port, name)| {
        let port = port.parse().ok()?;
        (!name.is_empty()).then(|| (port, name.to_owned()))
    });
    parsed.ok_or_else(|| "expected PORT@IFACE, such as 1@veth0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alfirk_packet_io::link::Rate;
    use std::time::Duration;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: SwitchArgs,
    }

    fn parse(line: &str) -> Result<Config, String> {
        let words = std::iter::once("switch").chain(line.split_whitespace());
        let cli = Cli::try_parse_from(words).map_err(|e| e.to_string())?;
        cli.args.check().map_err(|e| e.to_string())
    }

    fn why(line: &str) -> String {
        parse(line).unwrap_err()
    }

    #[test]
    fn help_lists_all_target_options() {
        use clap::CommandFactory;
        let help = Cli::command().render_long_help().to_string();
        for option in TargetArgs::command().get_arguments() {
            let name = option.get_long().unwrap_or_default();
            let is_listed = help.contains(&format!("--{name}"));
            assert_eq!(is_listed, !option.is_hide_set(), "--{name}");
        }
    }

    #[test]
    fn thrift_is_served_on_request_and_by_simple_switch() {
        let thrift = |line: &str| parse(line).unwrap().thrift;
        assert!(thrift("--no-p4").is_none());
        let requested = thrift("--no-p4 --thrift-port 9091").unwrap();
        assert_eq!(requested.address, "127.0.0.1:9091".parse().unwrap());
        assert!(requested.may_swap);
        let all = thrift("--no-p4 --thrift-port 0.0.0.0:9092").unwrap();
        assert_eq!(all.address, "0.0.0.0:9092".parse().unwrap());
        let config = parse("--no-p4 --as-simple-switch").unwrap();
        assert!(!config.serves_p4runtime);
        let config = config.thrift.unwrap();
        assert_eq!(config.address, "127.0.0.1:9090".parse().unwrap());
        assert!(!config.may_swap);
        let swaps = thrift("--no-p4 --as-simple-switch -- --enable-swap").unwrap();
        assert!(swaps.may_swap);
    }

    #[test]
    fn files_replace_interfaces() {
        let config = parse("--no-p4 --use-files 3 -i 0@pcap0").unwrap();
        assert_eq!(config.use_files, Some(Duration::from_secs(3)));
        assert_eq!(
            parse("--no-p4 --use-files -1").unwrap().use_files,
            Some(Duration::ZERO)
        );
        // p4c's test runner passes the option and its value as one argument.
        assert_eq!(parse_interface(" 0@pcap0"), Ok((0, "pcap0".into())));
    }

    #[test]
    fn the_command_line_of_simple_switch_grpc_is_accepted() {
        let config = parse(
            "-i 1@s1-eth1 -i 2@s1-eth2 --device-id 3 --thrift-port 9090 --log-console -L debug \
             --pcap=/tmp/x main.json -- --grpc-server-addr 0.0.0.0:50051 --cpu-port 255",
        )
        .unwrap();
        assert_eq!(config.json, Some("main.json".into()));
        assert_eq!(config.interfaces[&2], "s1-eth2");
        assert_eq!(config.switch.device_id, 3);
        assert_eq!(config.switch.cpu_port, Some(255));
        assert_eq!(config.switch.drop_port, 511);
        assert_eq!(
            config.address,
            ServerAddress::Tcp("0.0.0.0:50051".parse().unwrap())
        );
        assert!(config.thrift.is_some() && config.warnings.is_empty());
    }

    #[test]
    fn the_flags_of_mininet_scripts_are_accepted_with_warnings() {
        let config = parse(
            "-i 1@s1-eth1 --pcap /tmp --nanolog ipc:///tmp/bm-0-log.ipc --device-id 0 main.json \
             --log-console --dump-packet-data 64 -- --grpc-server-addr 0.0.0.0:50051 \
             --priority-queues 4 --max-mc-groups 5 --max-l1-entries 7 --max-l2-entries 6 --disable-swap",
        )
        .unwrap();
        assert_eq!(config.json, Some("main.json".into()));
        assert_eq!(config.dump_packet_data, 64);
        assert_eq!(config.switch.priority_queues, 4);
        assert_eq!(
            config.switch.pre_limits,
            PreLimits {
                groups: 5,
                nodes: 6
            }
        );
        assert!(!config.switch.may_swap);
        let [nanolog] = &config.warnings[..] else {
            panic!("expected one warning")
        };
        assert!(nanolog.contains("nanomsg is not supported"));

        let config = parse("--no-p4 main.json --log-flush").unwrap();
        assert_eq!(config.json, None);
        assert_eq!(config.warnings.len(), 2);
        assert_eq!(parse("--no-p4 -i 700@a").unwrap().interfaces[&700], "a");
        assert!(parse("--version").unwrap().json.is_none());
    }

    #[test]
    fn the_server_listens_on_loopback_by_default() {
        let config = parse("--no-p4").unwrap();
        assert_eq!(
            config.address,
            ServerAddress::Tcp("127.0.0.1:9559".parse().unwrap())
        );
        let unix = parse("--no-p4 -- --grpc-server-addr unix:/run/s1.sock").unwrap();
        assert_eq!(unix.address, ServerAddress::Unix("/run/s1.sock".into()));
    }

    #[test]
    fn client_certificates_are_requested_with_client_auth() {
        let line = "--no-p4 -- --grpc-server-ssl --grpc-server-cert c.pem --grpc-server-key k.pem \
                    --grpc-server-cacert ca.pem";
        let tls = parse(line).unwrap().tls.unwrap();
        assert_eq!((tls.cert, tls.key), ("c.pem".into(), "k.pem".into()));
        assert_eq!(tls.clients, None);
        let mutual = parse(&format!("{line} --grpc-server-with-client-auth")).unwrap();
        assert_eq!(mutual.tls.unwrap().clients, Some("ca.pem".into()));
        assert_eq!(parse("--no-p4").unwrap().tls, None);
    }

    #[test]
    fn link_options_apply_to_all_ports_or_one() {
        let config = parse(
            "--no-p4 -i 1@a -i 2@b --loss 0.01 --port-loss 2=0.5 --port-delay 2=1.5ms --seed 9",
        )
        .unwrap();
        assert_eq!(config.link(1).loss, 0.01);
        assert_eq!(config.link(2).loss, 0.5);
        assert_eq!(config.link(2).delay, Duration::from_micros(1500));
        assert_eq!(config.switch.seed, 9);

        let config = parse(
            "--no-p4 -i 1@a -i 2@b --rate 1.5Gbps --port-rate 2=2kpps --port-duplicate 2=0.1 \
             --delay 1ms --reorder 0.2 --port-jitter 1=2ms --queue-depth 5 -- --priority-queues 4",
        )
        .unwrap();
        assert_eq!(config.link(1).rate, Some(Rate::Bits(1_500_000_000)));
        assert_eq!(config.link(1).jitter, Duration::from_millis(2));
        assert_eq!(config.link(2).rate, Some(Rate::Packets(2000)));
        assert_eq!(
            (config.link(2).duplicate, config.link(2).reorder),
            (0.1, 0.2)
        );
        assert_eq!((config.queue_depth, config.priority_queues), (5, 4));

        let config =
            parse("--no-p4 -i 1@a -i 2@b --port-drop 2=in,1 --port-drop 2=out,3,42=11").unwrap();
        assert_eq!(config.loss_filters(1), []);
        assert_eq!(config.loss_filters(2)[1], "out,3,42=11".parse().unwrap());
    }

    #[test]
    fn traces_are_text_by_default() {
        assert!(!parse("--no-p4").unwrap().trace.is_on());
        let config = parse("--trace main.json").unwrap();
        assert_eq!(config.trace.format, Some(TraceFormat::Text));
        assert_eq!(config.json, Some("main.json".into()));
        let config = parse("--trace=json main.json").unwrap();
        assert_eq!(config.trace.format, Some(TraceFormat::Json));
        let config = parse("--trace-file t.txt --trace-count 3 main.json").unwrap();
        assert_eq!(config.trace.format, Some(TraceFormat::Text));
        assert_eq!(config.trace.count, Some(3));
    }

    #[test]
    fn errors_name_the_option() {
        assert!(why("").contains("JSON"));
        assert!(why("--no-p4 -i veth0").contains("PORT@IFACE"));
        assert!(why("--no-p4 -i 1@a -i 1@b").contains("port 1 occurs twice"));
        assert!(why("--no-p4 -i 1@a -i 2@a").contains("interface a occurs twice"));
        assert!(why("--no-p4 -i 5@a -- --cpu-port 5").contains("is the CPU port"));
        assert!(why("--no-p4 -i 511@a").contains("is the drop port"));
        assert!(why("--no-p4 -- --cpu-port 511").contains("choose another --drop-port"));
        assert!(why("--no-p4 --debugger").contains("--log-level trace"));
        assert!(why("--no-p4 --debugger-addr ipc:///tmp/d").contains("there is no debugger"));
        assert!(why("--no-p4 --max-port-count 1 -i 700@a -i 2@b").contains("2 interfaces"));
        assert!(why("--no-p4 --log-console --log-file x").contains("--log-file"));
        assert!(why("--no-p4 -- --load-modules a.so").contains("no modules"));
        assert!(why("--no-p4 -- --max-mc-groups 0").contains("--max-mc-groups"));
        assert!(why("--no-p4 -- --grpc-server-ssl").contains("--grpc-server-cert FILE"));
        assert!(why("--no-p4 -- --grpc-server-key k.pem").contains("need --grpc-server-ssl"));
        let tls = "--no-p4 -- --grpc-server-ssl --grpc-server-cert c.pem --grpc-server-key k.pem";
        let why_not = why(&format!("{tls} --grpc-server-with-client-auth"));
        assert!(why_not.contains("--grpc-server-cacert FILE"));
        assert!(why("--no-p4 --loss 2").contains("from 0 to 1"));
        assert!(why("--no-p4 --delay 5").contains("unit"));
        assert!(why("--no-p4 --rate 5").contains("for packets"));
        assert!(why("--no-p4 --rate 0bps").contains("at least 1"));
        assert!(why("--no-p4 --reorder 0.1").contains("--delay"));
        assert!(why("--no-p4 --port-loss 3=0.1").contains("port 3 has no interface"));
        assert!(why("--no-p4 --port-drop 3=in,1").contains("port 3 has no interface"));
        assert!(why("--no-p4 -i 1@a --port-drop 1=in,x").contains("is not a number"));
        assert!(why("--no-p4 -- --grpc-server-addr nonsense").contains("nonsense"));
        assert!(why("--no-p4 --trace-count 2").contains("need --trace"));
        assert!(why("--no-p4 -- --no-such-flag").contains("--no-such-flag"));
    }
}
