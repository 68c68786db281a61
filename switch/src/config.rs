//! Settings of `alfirk switch`.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

use alfirk_bmv2::SwitchOptions;
use alfirk_packet_io::{link::LinkOptions, loss_filter::LossFilter, Clock, SendSocket};

use super::{engine::PortDefaults, thrift, tls::TlsFiles, trace::TraceOptions};

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
