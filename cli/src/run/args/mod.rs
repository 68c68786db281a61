//! The flags of `alfirk run`, one file for each subject, and the checked configuration that they become.
//!
//! Each file has the flags of its subject and their checks. Settings are named as in the job's types
//! ([`alfirk_experiment::Job`]); `alfirk_units` parses quantities. A conflict between flags of two subjects is checked in the
//! file of the flag that the message names first.

mod algorithms;
mod driver;
mod fallback;
mod faults;
mod group;
pub mod hardware;
pub mod lose;
mod loss;
pub mod machines;
mod members;
mod message;
mod output;
mod quantity;
mod rates;
pub mod workload;

use std::path::PathBuf;
use std::sync::Arc;

use alfirk_ctrl::constants::RECOMPUTE_NETWORK;
use alfirk_ctrl::controller::GroupRange;
use alfirk_ctrl::strategy::IcrcMode;
use alfirk_ctrl::topology::{self, Topology};
use alfirk_experiment::{Job, Registration};
use alfirk_roce::wire::Psn;
use alfirk_sim::network::Model;
use alfirk_units::TIME;

pub(crate) use quantity::share;

use super::config::{Config, Control, Driver, Loss, Scale};
use super::input::Source;
use crate::exit::Failure;
use crate::program::Target;

/// Multicast a message from one host to a group of hosts by several algorithms, and compare their times.
///
/// Builds the fabric, compiles the P4 program, loads it into every switch and registers the group. Sends the message over RC queue
/// pairs to all other hosts, and checks the SHA-256 of what each received. By default this runs in virtual time in this process, with
/// compiled pipelines and real packets; output is determined by the flags, including --seed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  alfirk run --topology topologies/fat-tree-k4.yaml --group 16 --size 16MiB
  alfirk run --topology topologies/testbed.yaml --size 64B --algorithms alfirk,chain --json
  alfirk run --size 4MiB --algorithms all
  alfirk run --collective barrier
  alfirk run --size 16MiB --algorithms rdmc-binomial-pipeline,kary:4 --block 256KiB
  alfirk run --size 16MiB --buffer 2MiB --pfc --host-model copy-rate=80Gbps
  alfirk run --loss 0.001 --seed 7 --pcap /tmp/pcaps --trace /tmp/trace.txt
  alfirk run --size 16MiB --op write --write uniform --switch-source 3 --loss 0.001
  alfirk run --size 16MiB --registration mrp --kill h7@200us --kill c1@400us
  alfirk run --size 64MiB --fallback-below 50% --fallback chain --loss h3-p1e2:0.3@500us-3ms
  sudo alfirk run --driver mininet --topology topologies/testbed.yaml --size 1MiB
  sudo alfirk run --driver mininet --topology topologies/testbed.yaml --size 1MiB --guests h2,h3
  alfirk run --driver mininet --machines root@a,root@b,root@c --size 16MiB")]
pub struct Args {
    /// The network: a YAML file, or a generator: fat-tree:16, fat-tree:64,pods=16, leaf-spine:4,2,4, n-tree:8,3, mesh:8, testbed
    /// [default: fat-tree:4, with 16 hosts and 20 switches]
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    topology: Option<PathBuf>,

    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Kind of the switches; tna and t2na support --min-psn tree and --icrc neutral only
    #[arg(long, value_enum, default_value_t)]
    pub(crate) target: Target,

    /// Interface by which the controller writes and reads entries: bfrt is BfRuntime, that of Tofino's driver
    #[arg(long, value_enum, default_value_t)]
    control: Control,

    /// P4 program to compile in place of the target's built-in one
    #[arg(long, value_name = "FILE")]
    pub(super) p4src: Option<PathBuf>,

    /// Time limit of a transfer, in the driver's time [default: 60s, and 20 times what the slowest link needs to carry the message to each
    /// receiver in turn]
    #[arg(long, value_name = "TIME", value_parser = |text: &str| TIME.parse(text))]
    time_limit: Option<u64>,

    #[command(flatten)]
    pub(super) algorithms: algorithms::AlgorithmArgs,

    #[command(flatten)]
    members: members::MemberArgs,

    #[command(flatten)]
    message: message::MessageArgs,

    #[command(flatten)]
    group: group::GroupArgs,

    #[command(flatten)]
    faults: faults::FaultArgs,

    #[command(flatten)]
    fallback: fallback::FallbackArgs,

    #[command(flatten)]
    output: output::OutputArgs,

    #[command(flatten)]
    driver: driver::DriverArgs,

    #[command(flatten)]
    rates: rates::RateArgs,

    #[command(flatten)]
    switches: hardware::SwitchArgs,

    #[command(flatten)]
    pub(super) model: hardware::ModelArgs,

    #[command(flatten)]
    pub(super) workload: workload::WorkloadArgs,
}

impl Args {
    /// Returns the driver that carries the packets.
    pub fn driver(&self) -> Driver {
        self.driver.driver
    }

    /// Checks all flags and reads the topology. Returns the configuration of the run, without building a network or
    /// reading the message.
    pub fn check(self) -> Result<Config, Failure> {
        let driver = self.driver.driver;
        let topology = match &self.topology {
            Some(file) => crate::topology::read(file)?,
            None => topology::fat_tree(4).expect("4 is a good k"),
        };
        let topology = self.switches.apply(self.rates.apply(topology)?)?;
        let collective = self.collective()?;
        let algorithms = self.wanted_algorithms(collective)?;
        self.group.check_tree(&topology)?;
        let workload = self
            .workload
            .check(&topology, self.message.size, self.seed)?;
        let members = match &workload {
            Some(asked) => asked.workload.hosts(),
            None => self.members.check(&topology)?,
        };
        self.check_driver(workload.is_some())?;
        let algorithms = self.fitting_algorithms(algorithms, &topology, &members)?;
        let kills = self.kills(&topology, &algorithms, members[0])?;
        let switches = self.members.source_changes();
        let hostiles = self
            .faults
            .hostiles(&topology, &algorithms, &members, switches)?;
        let fallback = self.fallback.algorithm()?;
        let scale = self.scale()?;
        // Whether times on the network's clock are those of fast hardware, not those of processes on this machine.
        let is_fast = driver == Driver::Virtual || scale != Scale::Off;
        let mtu = self.message.path_mtu(&topology)?;
        let losses = self.faults.losses(&topology, driver)?;
        let safeguard = self.goodput_monitor(&topology, &algorithms, fallback, mtu, is_fast)?;
        let write = self.message.write()?;
        self.check_source_changes(&algorithms)?;
        self.check_target(&topology)?;
        let bf_runtime = self.bf_runtime()?;
        self.output.check(driver)?;
        let model = self.model.check()?;
        self.check_hardware(&topology, model, scale)?;
        self.output.check_debug(&model, algorithms.len())?;
        let strategies = self.group.strategies();
        let job = Job {
            members,
            collective,
            op: self.message.op,
            write,
            strategies,
            congestion: self.group.congestion(),
            recovery: self.group.recovery,
            sender: self.group.sender(),
            tree_policy: self.group.tree_policy,
            switch_source: switches,
            switch_early: self.members.switch_early,
            mtu,
            slices: self.message.slices,
            messages: self.message.messages,
            block: self.message.block,
            store_and_forward: self.message.store_and_forward,
            ready: self.message.ready,
            receives: self.message.receives,
            depth: self.message.queue_depth,
            time_limit: self.time_limit,
            mcst_id: match strategies.icrc {
                IcrcMode::Recompute => RECOMPUTE_NETWORK.into(),
                IcrcMode::Neutral | IcrcMode::Punt => GroupRange::default().first(),
            },
            seed: self.seed,
            initial_psn: self.group.initial_psn.map(Psn::new),
            registration: match self.driver.attach {
                // The controller's address is unknown here: another program started it.
                Some(_) => Registration::Mrp,
                None => self.group.registration,
            },
            fallback,
            safeguard,
            outages: losses.outages,
            suspensions: self.faults.suspensions(&topology, driver)?,
            kills,
            hostiles,
            ..Job::new(Vec::new(), Arc::from([]))
        };
        Ok(Config {
            source: match workload {
                Some(_) => Source::Nothing,
                None => self.message.source(collective),
            },
            job,
            algorithms,
            ecn: self.group.ecn(&topology, mtu)?,
            loss: Loss {
                everywhere: losses.everywhere,
                core: losses.core,
                names: losses.names,
            },
            loss_rules: self.faults.loss_rules(&topology, driver)?,
            guests: self.guests(&topology)?,
            rates: self.rates.names(),
            suspensions: self.faults.suspend.clone(),
            dead_after: self.faults.dead_after(is_fast),
            driver,
            scale,
            threads: usize::from(self.driver.threads),
            machines: self.driver.machines(&topology)?,
            attach: self.driver.attach,
            json: self.output.json,
            pcap: self.output.pcap,
            trace: self.output.trace,
            web: self.output.web,
            debug: self.output.debug.then_some(self.output.listen),
            p4src: self.p4src,
            bf_runtime,
            workload,
            model,
            topology,
        })
    }

    /// Checks the flags for `alfirk compare-drivers`, with the Mininet driver. Rejects flags that one of the drivers
    /// does not support, and `--scale off`.
    pub fn check_for_both_drivers(self) -> Result<Config, Failure> {
        self.on_both_drivers()?.check()
    }

    fn check_driver(&self, has_workload: bool) -> Result<(), Failure> {
        let driver = self.driver.driver;
        if self.driver.attach.is_some() && driver != Driver::Mininet {
            return Err(Failure::bad_input(
                "--attach: only a Mininet network can be running already; add --driver mininet",
            ));
        }
        if self.driver.threads > 1 && driver == Driver::Mininet {
            return Err(Failure::bad_input(
                "--threads: on Mininet every switch is a process of its own; leave it out, or use --driver virtual",
            ));
        }
        if has_workload && driver == Driver::Mininet {
            return Err(Failure::bad_input(
                "--workload: hosts on Mininet take part in one transfer at a time; use --driver virtual",
            ));
        }
        Ok(())
    }

    /// The target whose switches are controlled by BfRuntime; `None` for P4Runtime.
    fn bf_runtime(&self) -> Result<Option<Target>, Failure> {
        match (self.control, self.target, self.driver.driver) {
            (Control::P4runtime, ..) => Ok(None),
            (Control::Bfrt, Target::V1model, _) => Err(Failure::bad_input(
                "--control bfrt: BfRuntime is the interface of Tofino; add --target tna or t2na",
            )),
            (Control::Bfrt, _, Driver::Mininet) => Err(Failure::bad_input(
                "--control bfrt: on Mininet the controller uses P4Runtime; use --driver virtual",
            )),
            (Control::Bfrt, target, Driver::Virtual) => Ok(Some(target)),
        }
    }

    /// Rejects settings of simulated hardware that switches and hosts on Mininet do not support.
    fn check_hardware(
        &self,
        topology: &Topology,
        model: Model,
        scale: Scale,
    ) -> Result<(), Failure> {
        if self.driver.driver != Driver::Mininet {
            return Ok(());
        }
        if !topology.switching().is_default() {
            return Err(Failure::bad_input(
                "queueing, shared buffers and PFC need --driver virtual: on Mininet switches have BMv2's queues; leave out these flags, and `switch:` of the topology",
            ));
        }
        if model != Model::default() && scale == Scale::Off {
            return Err(Failure::bad_input(
                "host models need --driver virtual or a --scale other than off; leave out the flags of the model",
            ));
        }
        Ok(())
    }
}
