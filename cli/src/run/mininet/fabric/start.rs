//! Start of a Mininet network and its controller, and connections to one that another program has started.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alfirk_ctrl::client::{Runner, StartError, SwitchAddress};
use alfirk_ctrl::controller::Controller;
use alfirk_ctrl::topology::{HostIndex, Topology};
use alfirk_packet_io::Clock;
use alfirk_units::plural;
use nix::poll::{PollFd, PollFlags};

use super::super::leftover::Leftover;
use super::super::machines::MachinesNetwork;
use super::super::namespace::Namespace;
use super::super::network::{MininetNetwork, Network, NetworkSpec};
use super::super::work_dir::WorkDir;
use super::{controller_ended, interrupted, is_readable, wait_readable, MininetFabric};
use crate::exit::Failure;
use crate::program::CompiledProgram;
use crate::run::config::{Config, GuestRdma};
use crate::run::controller_config;
use crate::run::progress::{Bars, Runs};

/// Time limit for Mininet to build the network.
const START_LIMIT: Duration = Duration::from_secs(150);

/// Time limit for the controller to program all switches.
const READY_LIMIT: Duration = Duration::from_secs(60);

impl MininetFabric {
    /// Builds the network and programs its switches. Links have the rates and delays of the topology, on a clock that
    /// is `scale` times slower than real time; with `None` they have neither.
    pub fn start(
        config: &Config,
        program: &CompiledProgram,
        scale: Option<NonZeroU32>,
        bars: &Bars,
    ) -> Result<MininetFabric, Failure> {
        let topology = config.topology.clone();
        let controller = Controller::new(topology.clone(), controller_config(config, program))
            .map_err(Failure::bad_input)?;

        let runs = bars.runs();
        let phase = bars.phase(&format!(
            "building the network of {} and {}",
            plural(topology.switches().len(), "switch", "switches"),
            plural(topology.hosts().len(), "host", "hosts"),
        ));
        let spec = NetworkSpec::new(config, scale);
        let mut machines = None;
        // Registered before anything exists that must be removed.
        let guard = NetworkGuard::begin(&runs);
        // Networks on several machines use an address of this machine, so they need its namespace.
        let namespace = config.machines.is_none().then(Namespace::enter);
        let namespace = namespace.transpose()?;
        let mut network: Box<dyn Network> = match &config.machines {
            None => {
                let network = MininetNetwork::start(&spec)?;
                runs.add_network(Leftover {
                    process: network.process(),
                    folder: network.folder().to_owned(),
                });
                Box::new(network)
            }
            Some(named) => {
                let mut network = MachinesNetwork::connect(named)?;
                network.start(named, &topology, &spec)?;
                machines = Some(network.summaries());
                Box::new(network)
            }
        };
        wait_for_network(network.as_mut(), &runs)?;
        drop(phase);
        let _phase = bars.phase("loading the switches' program and routes");

        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| Failure::failed(format_args!("cannot start threads: {error}")))?;
        let switches = switch_addresses(&topology, network.as_ref())?;
        let controller = {
            let _inside = runtime.enter();
            let (mut runner, handle) = Runner::new(controller, switches);
            runner.set_time_scale(scale.unwrap_or(NonZeroU32::MIN));
            runtime.spawn(runner.run());
            handle
        };
        let news = runtime.block_on(controller.subscribe());
        let news = news.ok_or_else(|| Failure::failed(controller_ended()))?;
        let hosts = topology
            .hosts()
            .iter()
            .map(|host| network.connect(&host.name))
            .collect::<Result<Vec<_>, Failure>>()?;
        let elsewhere: Vec<HostIndex> = match (&config.guests, &config.machines) {
            (_, Some(_)) => topology.host_indexes().collect(),
            (Some(guests), None) => guests.hosts.clone(),
            (None, None) => Vec::new(),
        };
        let mut fabric = MininetFabric {
            hosts,
            killed: BTreeSet::new(),
            hostile: BTreeSet::new(),
            clock_offsets: elsewhere.into_iter().map(|host| (host, 0)).collect(),
            clock_error: 0,
            machines,
            linux_rdma: (config.guests.as_ref()).is_some_and(|g| g.rdma == GuestRdma::Linux),
            controller: Some(controller),
            news,
            runtime,
            network,
            _namespace: namespace,
            runs,
            _guard: guard,
            clock: scale.map_or_else(Clock::default, Clock::slower),
            has_rates: scale.is_some(),
            topology,
            transfer: 0,
            next_polled_host: 0,
            deferred_events: VecDeque::new(),
            messages: BTreeMap::new(),
        };
        let handle = fabric.controller_handle().map_err(Failure::failed)?;
        let ready = async move { handle.ready(READY_LIMIT).await };
        let limit = READY_LIMIT + Duration::from_secs(5);
        let ready = fabric.wait_for(
            ready,
            "the controller has not programmed all switches",
            limit,
        );
        ready
            .map_err(Failure::failed)?
            .map_err(|error| match error {
                StartError::Switch(error) => Failure::failed(error),
                other => Failure::failed(other),
            })?;
        Ok(fabric)
    }

    /// Attaches to a running network of another program (`--attach`). `folder` has the description of the network.
    pub fn attach(config: &Config, folder: &Path, bars: &Bars) -> Result<MininetFabric, Failure> {
        let runs = bars.runs();
        let guard = NetworkGuard::begin(&runs);
        let network: Box<dyn Network> = Box::new(MininetNetwork::attach(folder)?);
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime
            .map_err(|error| Failure::failed(format_args!("cannot start a runtime: {error}")))?;
        let topology = config.topology.clone();
        let hosts = topology.hosts().iter();
        let hosts = hosts.map(|host| network.connect(&host.name));
        Ok(MininetFabric {
            hosts: hosts.collect::<Result<Vec<_>, Failure>>()?,
            killed: BTreeSet::new(),
            hostile: BTreeSet::new(),
            clock_offsets: BTreeMap::new(),
            clock_error: 0,
            machines: None,
            linux_rdma: false,
            controller: None,
            // No group events are sent.
            news: tokio::sync::mpsc::unbounded_channel().1,
            runtime,
            network,
            _namespace: None,
            runs,
            _guard: guard,
            clock: Clock::default(),
            has_rates: false,
            topology,
            transfer: 0,
            next_polled_host: 0,
            deferred_events: VecDeque::new(),
            messages: BTreeMap::new(),
        })
    }
}

/// Keeps the network registered for removal by force, in case this process must end before the network is removed.
pub(super) struct NetworkGuard(Arc<Runs>);

impl NetworkGuard {
    /// Registers a network that is about to be built.
    pub(super) fn begin(runs: &Arc<Runs>) -> NetworkGuard {
        runs.add_network(Leftover {
            process: None,
            folder: WorkDir::planned_path(),
        });
        NetworkGuard(Arc::clone(runs))
    }
}

impl Drop for NetworkGuard {
    fn drop(&mut self) {
        self.0.clear_networks();
    }
}

fn wait_for_network(network: &mut dyn Network, runs: &Runs) -> Result<(), Failure> {
    let deadline = Instant::now() + START_LIMIT;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Failure::failed(format_args!(
                "Mininet has not built the network within {} s",
                START_LIMIT.as_secs()
            )));
        }
        let readable = {
            let fds = network.fds().into_iter();
            let fds = fds.chain(runs.interruption());
            let mut fds: Vec<PollFd<'_>> =
                fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            wait_readable(&mut fds, left).map_err(Failure::failed)?;
            let network = network.fds().len();
            fds[..network].iter().any(is_readable)
        };
        interrupted(runs).map_err(Failure::failed)?;
        if readable && network.take_ready().map_err(Failure::failed)? {
            return Ok(());
        }
    }
}

fn switch_addresses(
    topology: &Topology,
    network: &dyn Network,
) -> Result<Vec<SwitchAddress>, Failure> {
    let addresses = &network.addresses().switches;
    topology
        .switch_indexes()
        .map(|switch| {
            let name = &topology.switch(switch).name;
            let address = addresses.get(name).cloned().ok_or_else(|| {
                Failure::failed(format_args!(
                    "the Mininet process did not start switch {name}"
                ))
            })?;
            Ok(SwitchAddress { switch, address })
        })
        .collect()
}
