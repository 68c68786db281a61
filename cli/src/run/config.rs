//! The checked configuration of `alfirk run`.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;

use alfirk_ctrl::ecn::EcnProfile;
use alfirk_ctrl::topology::{HostIndex, Topology};
use alfirk_experiment::{Job, Kill, Victim};
use alfirk_roce::collective::Algorithm;
use alfirk_sim::network::Model;
use clap::ValueEnum;

use super::args::lose::LossRule;
use super::args::machines::Machines;
use super::args::workload::WorkloadSettings;
use super::input::Source;
use crate::exit::Failure;
use crate::program::Target;

/// Driver of a run: simulation in virtual time, or processes on Mininet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Driver {
    /// Virtual time, in this process
    Virtual,
    /// Mininet hosts, veth links, one process per switch and host; needs root
    Mininet,
}

/// Interface by which the controller accesses the entries of switches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Control {
    /// P4Runtime
    #[default]
    P4runtime,
    /// BfRuntime
    Bfrt,
}

/// RDMA stack of guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GuestRdma {
    /// Linux's software RDMA, by rdma_rxe and libibverbs
    Linux,
    /// alfirk's own stack, as on hosts that are not guests
    Alfirk,
}

/// The hosts that are QEMU guests with their own kernel.
#[derive(Debug)]
pub struct Guests {
    /// The hosts that are guests, at least one, in the order of the topology.
    pub hosts: Vec<HostIndex>,
    pub rdma: GuestRdma,
    /// Folder of the guests' kernel and image.
    pub image: PathBuf,
}

/// The checked configuration of a run.
#[derive(Debug)]
pub struct Config {
    pub topology: Topology,
    /// Job that every algorithm runs. Its data is empty: it is read after all other checks. With a workload, its
    /// members are all hosts of the workload, and none is the source.
    pub job: Job,
    /// Where the data comes from: a file or a generator.
    pub source: Source,
    pub algorithms: Vec<Algorithm>,
    /// Workload that runs in place of one message; `None` for one message.
    pub workload: Option<WorkloadSettings>,
    /// Queue lengths at which switches set ECN marks; `None` if they set none.
    pub ecn: Option<EcnProfile>,
    pub loss: Loss,
    pub loss_rules: Vec<LossRule>,
    /// Rates of links that differ from the topology's, as given on the command line.
    pub rates: Vec<String>,
    /// Suspensions of applications, as given on the command line.
    pub suspensions: Vec<String>,
    /// Time without a reply after which a host or switch counts as failed, in nanoseconds.
    pub dead_after: u64,
    pub driver: Driver,
    /// Number of threads that simulate the switches of one fabric in virtual time.
    pub threads: usize,
    /// How many times slower than real time the network's clock on Mininet runs.
    pub scale: Scale,
    /// Folder of a running Mininet network to attach to; `None` to build one.
    pub attach: Option<PathBuf>,
    pub guests: Option<Guests>,
    /// Machines over which the network is spread; `None` for one machine.
    pub machines: Option<Machines>,
    pub model: Model,
    pub p4src: Option<PathBuf>,
    /// The target, if the controller accesses the entries of switches by BfRuntime; `None` for P4Runtime.
    pub bf_runtime: Option<Target>,
    pub json: bool,
    pub pcap: Option<PathBuf>,
    pub trace: Option<PathBuf>,
    /// Address at which a page that replays the run is served; `None` for no page.
    pub web: Option<SocketAddr>,
    /// Whether an editor debugs the P4 program of the switches: the address at which it connects, or standard input and output.
    pub debug: Option<Option<String>>,
}

/// Loss probabilities for the whole run. Losses during a limited time are the [`alfirk_experiment::LossInterval`]s of the
/// job.
#[derive(Debug)]
pub struct Loss {
    /// Loss probability of every link.
    pub everywhere: f64,
    /// Loss probability of links of core switches; `None` if it is that of `everywhere`.
    pub core: Option<f64>,
    /// Losses and outages, as given on the command line.
    pub names: Vec<String>,
}

impl Config {
    /// Number of threads of each fabric in virtual time. It is 1, and the second value says why, if recordings need the
    /// frames in order or if links or switches change during the run.
    pub fn usable_threads(&self) -> (usize, Option<&'static str>) {
        let is_recorded = self.pcap.is_some()
            || self.trace.is_some()
            || self.web.is_some()
            || self.debug.is_some();
        let changes = !self.job.outages.is_empty();
        let ends = |kill: &Kill| !matches!(kill.victim, Victim::Host(_));
        let why = match self.threads {
            1 => None,
            _ if is_recorded => Some("recordings need the frames in order"),
            _ if changes => Some("links change during the run"),
            _ if self.job.kills.iter().any(ends) => Some("switches or links fail during the run"),
            _ => None,
        };
        (if why.is_some() { 1 } else { self.threads }, why)
    }

    /// Returns an error if `--messages` divides `size` bytes into messages that are too large for an algorithm that
    /// stores them.
    pub fn check_messages(&self, size: u64) -> Result<(), Failure> {
        let Some(messages) = self.job.messages else {
            return Ok(());
        };
        let mut short = self.algorithms.iter().filter(|a| a.needs_datagrams());
        match short.find(|algorithm| messages < algorithm.min_slices(size)) {
            None => Ok(()),
            Some(algorithm) => Err(Failure::bad_input(format_args!(
                "--messages {messages}: {algorithm} keeps messages until all members have them, so they are at most 1 MiB each; \
                 give {} or more, or leave it out",
                algorithm.min_slices(size)
            ))),
        }
    }
}

/// Value of `--scale`: how many times slower than real time the network's clock runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Links have no rates and delays; the network runs as fast as the machine allows.
    Off,
    /// Chosen automatically for the machine.
    Auto,
    /// Real nanoseconds per nanosecond of the network.
    By(NonZeroU32),
}

impl FromStr for Scale {
    type Err = String;

    fn from_str(text: &str) -> Result<Scale, String> {
        match text {
            "off" => Ok(Scale::Off),
            "auto" => Ok(Scale::Auto),
            number => number.parse().map(Scale::By).map_err(|_| {
                "expected auto, off, or a whole number of at least 1, such as 1000".into()
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_read() {
        assert_eq!("off".parse(), Ok(Scale::Off));
        assert_eq!("auto".parse(), Ok(Scale::Auto));
        assert_eq!("20".parse(), Ok(Scale::By(NonZeroU32::new(20).unwrap())));
        for wrong in ["0", "-1", "1.5", "", "on"] {
            assert!(
                wrong.parse::<Scale>().unwrap_err().contains("1000"),
                "{wrong}"
            );
        }
    }
}
