//! What `alfirk run` is to do, checked.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;

use alfirk_ctrl::ecn::EcnProfile;
use alfirk_ctrl::strategy::Strategies;
use alfirk_ctrl::topology::{HostIndex, Topology};
use alfirk_ctrl::tree::Policy;
use alfirk_experiment::{Congestion, Kill, Outage, Registration, SafeguardConfig};
use alfirk_roce::collective::{Algorithm, Collective, TransferOp, WriteMode};
use alfirk_roce::rc::{PathMtu, Recovery};
use alfirk_roce::wire::Psn;
use alfirk_sim::network::Model;
use clap::ValueEnum;

use super::input::Source;
use super::lose::Lost;
use super::machines::Machines;
use super::workload::Asked;
use crate::exit::Failure;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Driver {
    /// In this process, in virtual time
    Virtual,
    /// Mininet hosts, veth links, one process per switch and host; needs root
    Mininet,
}

/// Who brings RDMA to guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GuestRdma {
    /// Linux, by rdma_rxe and libibverbs
    Linux,
    /// This command, as on other hosts
    Alfirk,
}

impl GuestRdma {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            GuestRdma::Linux => "linux",
            GuestRdma::Alfirk => "alfirk",
        }
    }
}

/// The hosts that are guests.
#[derive(Debug)]
pub struct Guests {
    /// In the order of the topology; at least one.
    pub hosts: Vec<HostIndex>,
    pub rdma: GuestRdma,
    /// The folder with what they boot.
    pub image: PathBuf,
}

impl Driver {
    /// As in results.
    pub fn name(self) -> &'static str {
        match self {
            Driver::Virtual => "virtual",
            Driver::Mininet => "mininet",
        }
    }
}

/// What to do, checked.
#[derive(Debug)]
pub struct Config {
    pub topology: Topology,
    /// The source first.
    pub members: Vec<HostIndex>,
    pub source: Source,
    pub algorithms: Vec<Algorithm>,
    pub collective: Collective,
    pub op: TransferOp,
    pub write: WriteMode,
    pub strategies: Strategies,
    pub tree_policy: Policy,
    pub congestion: Congestion,
    pub recovery: Recovery,
    pub ecn: Option<EcnProfile>,
    pub switch_source: u32,
    pub switch_early: bool,
    pub mtu: PathMtu,
    pub slices: Option<u32>,
    pub messages: Option<u32>,
    pub block: Option<u32>,
    pub store_and_forward: bool,
    pub ready: Option<u32>,
    pub receives: Option<u32>,
    pub queue_depth: Option<u32>,
    /// Of every link, all the time.
    pub loss: f64,
    pub lose: Vec<Lost>,
    pub initial_psn: Option<Psn>,
    /// Of the core's links, instead of `loss`.
    pub core_loss: Option<f64>,
    pub outages: Vec<Outage>,
    /// As they were written.
    pub outage_names: Vec<String>,
    /// Of links that differ from the topology's, as they were written.
    pub rates: Vec<String>,
    pub registration: Registration,
    pub fallback: Option<Algorithm>,
    pub safeguard: Option<SafeguardConfig>,
    pub kills: Vec<Kill>,
    pub hostiles: Vec<HostIndex>,
    /// Nanoseconds.
    pub dead_after: u64,
    pub seed: u64,
    pub driver: Driver,
    /// Of the clock on Mininet.
    pub scale: Scale,
    /// The folder of a network that is used as it is.
    pub attach: Option<PathBuf>,
    pub guests: Option<Guests>,
    /// Where the network is on several machines.
    pub machines: Option<Machines>,
    pub json: bool,
    pub pcap: Option<PathBuf>,
    pub trace: Option<PathBuf>,
    /// Where the page of the run is to be.
    pub web: Option<SocketAddr>,
    pub p4src: Option<PathBuf>,
    /// Nanoseconds.
    pub time_limit: u64,
    /// What is carried out instead of one message; `members` are all hosts in it, and there is no source.
    pub workload: Option<Asked>,
    pub model: Model,
}

impl Config {
    /// Refuses to cut a message of so many bytes into parts that an algorithm cannot keep.
    pub fn check_messages(&self, size: u64) -> Result<(), Failure> {
        let Some(messages) = self.messages else {
            return Ok(());
        };
        let mut short = self.algorithms.iter().filter(|a| a.needs_datagrams());
        match short.find(|algorithm| messages < algorithm.least_slices(size)) {
            None => Ok(()),
            Some(algorithm) => Err(Failure::bad_input(format_args!(
                "--messages {messages}: {algorithm} keeps messages until everybody has them, so they are at most 1 MiB each; \
                 give {} or more, or leave it out",
                algorithm.least_slices(size)
            ))),
        }
    }
}

/// What `--scale` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Links have no rates and delays; everything goes as fast as this machine lets it.
    Off,
    /// As this machine needs it.
    Auto,
    /// One nanosecond of the network takes so many of this machine.
    By(NonZeroU32),
}

impl FromStr for Scale {
    type Err = String;

    fn from_str(text: &str) -> Result<Scale, String> {
        match text {
            "off" => Ok(Scale::Off),
            "auto" => Ok(Scale::Auto),
            number => number.parse().map(Scale::By).map_err(|_| {
                "expected auto, off, or a whole number from 1 on, such as 1000".into()
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
