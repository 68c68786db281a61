//! The flags of `alfirk run`, a file for each subject, and the checked configuration that they become.
//!
//! A file has the flags of its subject, and what they mean once they are checked. Names of settings are those of the types that the job
//! has ([`alfirk_experiment::Job`]), quantities are read by `alfirk_units`. What flags of several subjects do not go together is refused
//! in the file of the flag that the message names first.

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

use super::config::{Config, Driver, Loss, Scale};
use super::input::Source;
use crate::exit::Failure;
use crate::program::Target;

/// Send one message from one host to a group of hosts, by several algorithms, and compare them.
///
/// Builds the fabric, compiles the P4 program, loads it into every switch, registers the group, sends the
/// message from one host to all the others over RC queue pairs, and checks the SHA-256 of what each of them got.
/// By default all of it runs in this process in virtual time, on the compiled pipelines and with real packets,
/// and a run with a seed gives the same output to the byte.
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
    /// The network, as YAML, or what `alfirk topology` makes: fat-tree:16, fat-tree:64,pods=16, leaf-spine:4,2,4, n-tree:8,3, mesh:8, testbed
    /// [default: a fat-tree with k = 4: 16 hosts, 20 switches]
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,

    #[command(flatten)]
    pub(super) algorithms: algorithms::AlgorithmArgs,

    /// Decides everything that is random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// What the switches are; tna and t2na find minima by the tree, with neutral ICRCs
    #[arg(long, value_enum, default_value_t)]
    pub(crate) target: Target,

    /// Compile this P4 program instead of the built-in one of the target
    #[arg(long, value_name = "FILE")]
    pub(super) p4src: Option<PathBuf>,

    /// Give up on a transfer that takes longer than this, in the driver's time [default: 60s, and 20 times what the slowest link needs to carry
    /// the message to each receiver by itself]
    #[arg(long, value_name = "TIME", value_parser = |text: &str| TIME.parse(text))]
    time_limit: Option<u64>,

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
    /// What carries the packets.
    pub fn driver(&self) -> Driver {
        self.driver.driver
    }

    /// Reads the topology and checks everything that can be checked before anything is built or the message is read.
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
        let switches = self.members.switches();
        let hostiles = self
            .faults
            .hostiles(&topology, &algorithms, &members, switches)?;
        let fallback = self.fallback.algorithm()?;
        let scale = self.scale()?;
        // Whether times are those of fast equipment.
        let is_fast = driver == Driver::Virtual || scale != Scale::Off;
        let mtu = self.message.path_mtu(&topology)?;
        let losses = self.faults.losses(&topology, driver)?;
        let safeguard = self.safeguard(&topology, &algorithms, fallback, mtu, is_fast)?;
        let write = self.message.write()?;
        self.check_switches(&algorithms)?;
        self.check_target(&topology)?;
        self.output.check(driver)?;
        let model = self.model.check()?;
        self.check_equipment(&topology, model, scale)?;
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
                // The controller listens where only the other program knows.
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
            lose: self.faults.lost(&topology, driver)?,
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
            p4src: self.p4src,
            workload,
            model,
            topology,
        })
    }

    /// What both drivers can do, for Mininet; the scale is never off.
    pub fn check_for_both_drivers(self) -> Result<Config, Failure> {
        self.on_both_drivers()?.check()
    }

    fn check_driver(&self, has_workload: bool) -> Result<(), Failure> {
        let driver = self.driver.driver;
        if self.driver.attach.is_some() && driver != Driver::Mininet {
            return Err(Failure::bad_input(
                "--attach: only networks of processes stand by themselves; add --driver mininet",
            ));
        }
        if self.driver.threads > 1 && driver == Driver::Mininet {
            return Err(Failure::bad_input(
                "--threads: on Mininet every switch is a process of its own; leave it out, or use the virtual driver",
            ));
        }
        if has_workload && driver == Driver::Mininet {
            return Err(Failure::bad_input(
                "--workload: hosts on Mininet take part in one transfer at a time; use the virtual driver",
            ));
        }
        Ok(())
    }

    /// Refuses what switches and hosts on Mininet cannot be made to do.
    fn check_equipment(
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
                "queueing, shared buffers and PFC are for the virtual driver: BMv2 has its own queues; leave out the flags, and switch: in the topology",
            ));
        }
        if model != Model::default() && scale == Scale::Off {
            return Err(Failure::bad_input(
                "what hosts cost can be chosen for the virtual driver and with --scale: else they cost on Mininet what they cost",
            ));
        }
        Ok(())
    }
}
