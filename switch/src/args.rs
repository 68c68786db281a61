//! Command line of `alfirk switch`, compatible with `simple_switch_grpc`.

mod target;

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    net::{Ipv4Addr, SocketAddr, ToSocketAddrs},
    num::NonZeroU32,
    path::PathBuf,
    time::Duration,
};

use alfirk_packet_io::{Clock, SendSocket};
use clap::{Args, Parser, ValueEnum};

use self::target::TargetArgs;
use super::{
    config::{Config, ServerAddress},
    link_args::LinkArgs,
    thrift,
    trace::{TraceFormat, TraceOptions},
    SwitchError,
};
use alfirk_bmv2::{Engine, SwitchOptions};

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
mod tests;
