//! `alfirk ctrl`: arguments, set-up, and the run until a signal.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use alfirk_roce::rc::Recovery;
use clap::Parser;
use tokio::net::TcpListener;
use tokio::signal::unix::{signal, SignalKind};
use tonic::transport::server::{Server, TcpIncoming};

use super::control::control_server::ControlServer;
use super::files::{self, FileError, StateFile, SwitchAddress};
use super::runner::{Journal, Runner, StartError};
use super::service::ControlService;
use crate::controller::{ConfigError, Controller, ControllerConfig, GroupRange};
use crate::ecn::{EcnThresholds, InvalidEcnProfile};
use crate::strategy::{IcrcMode, MinPsn, Strategies, Window};
use crate::tree::Policy;

/// Default address and port of the controller's web page (`--web`).
pub const WEB_ADDRESS: &str = "127.0.0.1:8087";

/// Run the controller of a fabric: routes, multicast groups, and a service to register groups.
///
/// Connects to every switch of the topology, loads the pipeline and writes routes. Then prints one line, and serves until SIGINT or
/// SIGTERM. It reconnects to switches that were lost, and writes their state again.
#[derive(Clone, Debug, Parser)]
#[command(after_help = "Example:
  alfirk ctrl --topology topologies/testbed.yaml --switch s1=127.0.0.1:9559 \\
      --p4info build/main.p4info.txtpb --device-config build/main.json
  alfirk ctrl --dry-run bfrt --topology topologies/testbed.yaml --group 10.255.0.1=10.0.0.1:17,10.0.0.2:18 --out scripts")]
pub struct CtrlArgs {
    /// The network: a YAML file (see topologies/README.md), or a generator such as fat-tree:4.
    #[arg(long, value_name = "FILE", help_heading = "Fabric")]
    pub topology: PathBuf,
    /// P4Runtime server of a switch; once for each switch.
    #[arg(
        long = "switch",
        value_name = "NAME=HOST:PORT",
        help_heading = "Fabric"
    )]
    pub switches: Vec<String>,
    /// File of NAME=HOST:PORT lines, in place of --switch; # starts a comment.
    #[arg(long = "switches", value_name = "FILE", help_heading = "Fabric")]
    pub switches_file: Option<PathBuf>,
    /// P4Info of the pipeline: text, or by extension .json, .bin or .pb.
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "dry_run",
        help_heading = "Fabric"
    )]
    pub p4info: Option<PathBuf>,
    /// The compiled pipeline (BMv2 JSON).
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "dry_run",
        help_heading = "Fabric"
    )]
    pub device_config: Option<PathBuf>,
    /// Connect to no switch: plan the fabric and the groups of --group for Tofino (p4src/tna), and write NAME.py for each
    /// switch into --out, a script for bfshell's bfrt_python.
    #[arg(long, value_name = "FORMAT", conflicts_with_all = ["switches", "switches_file", "state", "p4info", "device_config"], help_heading = "Dry run")]
    pub dry_run: Option<DryRun>,
    /// A group for --dry-run: its address, then address and queue pair number of each member, the leader first.
    #[arg(
        long = "group",
        value_name = "MCSTID=HOST:QPN,HOST:QPN...",
        requires = "dry_run",
        help_heading = "Dry run"
    )]
    pub groups: Vec<String>,
    /// Folder that --dry-run writes to.
    #[arg(
        long,
        value_name = "DIR",
        default_value = ".",
        requires = "dry_run",
        help_heading = "Dry run"
    )]
    pub out: PathBuf,
    /// Address and port of the control service; port 0 takes a free one.
    #[arg(
        long,
        value_name = "ADDR:PORT",
        default_value = "127.0.0.1:9560",
        help_heading = "Services"
    )]
    pub listen: SocketAddr,
    /// Serve a page that shows switches, group trees and the controller's actions.
    #[arg(long, value_name = "ADDR:PORT", num_args = 0..=1, default_missing_value = WEB_ADDRESS, conflicts_with = "dry_run", help_heading = "Services")]
    pub web: Option<SocketAddr>,
    /// Rule by which group trees choose among ports of equal cost: reuse-least-loaded, cyclic (m-port n-trees) or spanning.
    #[arg(
        long,
        visible_alias = "policy",
        value_name = "POLICY",
        default_value_t,
        help_heading = "Groups"
    )]
    pub tree_policy: Policy,
    /// Prefix of group addresses; no host may have one of them.
    #[arg(long, value_name = "PREFIX", default_value = "10.255.0.0/16", value_parser = parse_range, help_heading = "Groups")]
    pub group_range: GroupRange,
    /// P4Runtime election id; of two controllers the one with the higher id is primary.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Services")]
    pub election_id: u128,
    /// Seconds to wait for all switches at the start.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 30,
        help_heading = "Services"
    )]
    pub wait: u64,
    /// Seconds without a reply after which a member, link or switch counts as failed, and groups continue without it. Members
    /// and links are checked only while a sender reports that its group makes no progress.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 3.0,
        help_heading = "Limits"
    )]
    pub dead_after: f64,
    /// Seconds without activity after which a group is removed. Activity is progress, a reply of the leader to a packet in
    /// band, or a request to the control service (such as Refresh). 0 keeps groups for ever.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 86_400,
        help_heading = "Limits"
    )]
    pub lease: u64,
    /// Groups that one host may register in band; further ones are refused. 0 means no limit.
    #[arg(long, value_name = "N", default_value_t = 128, help_heading = "Limits")]
    pub groups_per_host: usize,
    /// Registration packets per second and host, and the size of a burst. Further ones are dropped, and the host gets a notice.
    /// 0 means no limit.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 2_000,
        help_heading = "Limits"
    )]
    pub registration_rate: u32,
    /// Packets per second of each kind that a switch passes to the controller (punts) for one port. Packets are punted
    /// for groups whose minimum PSN or ICRC the controller computes. 0 is the packet rate of the port's link.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100_000,
        help_heading = "Limits"
    )]
    pub punt_rate: u32,
    /// Invite hosts in band, by packets on the network, before they are added to groups of the control service; they must
    /// agree. Hosts that a leader names in band are always invited.
    #[arg(long, help_heading = "Groups")]
    pub ask_members: bool,
    /// ECN marking by queue length: none up to KMIN, all from KMAX on, and with a probability that rises to PMAX in between.
    /// Lengths in packets (16,64,0.1) or bytes (20KiB,200KiB,0.01); a single length marks all from there on.
    #[arg(long, value_name = "KMIN,KMAX,PMAX", help_heading = "Groups")]
    pub ecn: Option<EcnThresholds>,
    /// Method that finds the minimum of the PSNs that members have acknowledged, for groups registered in band.
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        default_value_t,
        help_heading = "Groups"
    )]
    pub min_psn: MinPsn,
    /// Method that keeps the ICRC of data valid, for groups registered in band.
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        default_value_t,
        help_heading = "Groups"
    )]
    pub icrc: IcrcMode,
    /// Loss recovery of queue pairs of groups registered in band. Switches forward selective NAKs, whose code is reserved by
    /// the specification, with selective-repeat only.
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        default_value_t,
        help_heading = "Groups"
    )]
    pub recovery: Recovery,
    /// Packets that the source of a group registered in band may be ahead of the last acknowledged one, 1 to 8388607: at least
    /// the outstanding packets of its queue pair. Switches drop packets beyond.
    #[arg(long, value_name = "PACKETS", default_value_t, help_heading = "Groups")]
    pub source_window: Window,
    /// File in which groups are stored, and from which they are restored at the start. Without it a restarted controller takes
    /// over the groups that it finds in the switches.
    #[arg(long, value_name = "FILE", help_heading = "Services")]
    pub state: Option<PathBuf>,
    /// Print the line that reports readiness as a JSON object.
    #[arg(long, help_heading = "Services")]
    pub json: bool,
}

/// Output format of `alfirk ctrl --dry-run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DryRun {
    /// One script per switch for `bfrt_python`, the Python shell of Intel's Tofino SDE
    Bfrt,
}

/// Error that ended `alfirk ctrl`, or kept it from starting.
#[derive(Debug, thiserror::Error)]
pub enum CtrlError {
    /// A file is unreadable or invalid, or a switch address is malformed or missing.
    #[error(transparent)]
    File(#[from] FileError),
    /// The controller's configuration does not fit the topology or the pipeline.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// `--p4info` or `--device-config` is missing, and this is not a dry run.
    #[error("give --p4info and --device-config, or --dry-run")]
    NoPipeline,
    /// `--dead-after` is outside 0.01 to 86,400 seconds.
    #[error("--dead-after {0}: give seconds, from 0.01 to 86400")]
    DeadAfter(f64),
    /// The thresholds of `--ecn` are not a valid ECN profile.
    #[error("--ecn {0}")]
    Ecn(#[from] InvalidEcnProfile),
    /// The control service cannot bind its listening address.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Address of `--listen`.
        address: SocketAddr,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// The asynchronous runtime or a signal handler could not be created.
    #[error("cannot start: {0}")]
    Runtime(std::io::Error),
    /// Not every switch became ready within `--wait` seconds, or a switch rejected its configuration.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The gRPC server of the control service failed while running.
    #[error("the control service failed: {0}")]
    Service(tonic::transport::Error),
}

impl CtrlError {
    /// Whether arguments or files are invalid, so that no switch was contacted: exit code 2 instead of 1.
    pub fn is_bad_input(&self) -> bool {
        matches!(
            self,
            CtrlError::File(_)
                | CtrlError::Config(_)
                | CtrlError::NoPipeline
                | CtrlError::DeadAfter(_)
                | CtrlError::Ecn(_)
        )
    }
}

/// Runs the controller until SIGINT or SIGTERM.
///
/// `announce` is called with one line of text when every switch is ready. `journal` receives each action of the controller.
pub fn run(
    args: &CtrlArgs,
    announce: impl FnOnce(String),
    journal: Option<Box<dyn Journal>>,
) -> Result<(), CtrlError> {
    let (controller, switches) = prepare(args)?;
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(CtrlError::Runtime)?
        .block_on(serve(args, controller, switches, announce, journal))
}

fn prepare(args: &CtrlArgs) -> Result<(Controller, Vec<SwitchAddress>), CtrlError> {
    let topology = files::read_topology(&args.topology)?;
    let switches =
        files::switch_addresses(&topology, &args.switches, args.switches_file.as_deref())?;
    if !(0.01..=86_400.0).contains(&args.dead_after) {
        return Err(CtrlError::DeadAfter(args.dead_after));
    }
    let (Some(p4info), Some(device_config)) = (&args.p4info, &args.device_config) else {
        return Err(CtrlError::NoPipeline);
    };
    let dead_after = (args.dead_after * 1e9) as u64;
    let ecn = args.ecn.as_ref();
    let ecn = ecn.map(|ecn| ecn.profile_on(&topology)).transpose()?;
    let config = ControllerConfig {
        policy: args.tree_policy,
        election_id: args.election_id,
        group_range: args.group_range,
        // A random seed per start, so that a restarted controller without saved state rarely reuses a number.
        virtual_qpn_seed: RandomState::new().build_hasher().finish() as u32,
        probe_interval_ns: dead_after / 8,
        dead_member_ns: dead_after,
        checkpoint_interval_ns: 1_000_000_000,
        dead_switch_ns: dead_after,
        groups_per_host: args.groups_per_host,
        mrp_rate: args.registration_rate,
        punt_rate: args.punt_rate,
        ask_members: args.ask_members,
        lease_ns: args.lease.saturating_mul(1_000_000_000),
        ecn,
        strategies: Strategies {
            min_psn: args.min_psn,
            icrc: args.icrc,
            recovery: args.recovery,
            window: args.source_window,
        },
        ..ControllerConfig::new(
            files::read_p4info(p4info)?,
            files::read_device_config(device_config)?,
        )
    };
    Ok((Controller::new(topology, config)?, switches))
}

async fn serve(
    args: &CtrlArgs,
    controller: Controller,
    switches: Vec<SwitchAddress>,
    announce: impl FnOnce(String),
    journal: Option<Box<dyn Journal>>,
) -> Result<(), CtrlError> {
    let address = args.listen;
    let refused = |error| CtrlError::Listen { address, error };
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    let local = listener.local_addr().map_err(refused)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(CtrlError::Runtime)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(CtrlError::Runtime)?;

    let count = switches.len();
    let (mut runner, handle) = Runner::new(controller, switches);
    if let Some(path) = &args.state {
        runner.use_state_file(StateFile::new(path))?;
    }
    if let Some(journal) = journal {
        runner.set_journal(journal);
    }
    let service = ControlServer::new(ControlService::new(handle.clone()));
    let server = Server::builder()
        .add_service(service)
        .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)));
    let starting = async {
        handle.ready(Duration::from_secs(args.wait)).await?;
        announce(ready_line(args.json, local, count));
        std::future::pending::<Result<(), CtrlError>>().await
    };
    tokio::select! {
        () = runner.run() => Ok(()),
        result = server => result.map_err(CtrlError::Service),
        result = starting => result,
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}

fn ready_line(json: bool, listen: SocketAddr, switches: usize) -> String {
    if json {
        let listen = listen.to_string();
        serde_json::json!({"ready": true, "switches": switches, "listen": listen}).to_string()
    } else {
        format!("ready: {switches} switches, control service on {listen}")
    }
}

fn parse_range(text: &str) -> Result<GroupRange, String> {
    let parts = text
        .split_once('/')
        .and_then(|(network, len)| Some((network.parse().ok()?, len.parse().ok()?)));
    match parts {
        Some((network, len)) => GroupRange::new(network, len).map_err(|error| error.to_string()),
        None => Err("write it as 10.255.0.0/16".to_owned()),
    }
}
