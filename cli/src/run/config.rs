//! What `alfirk run` is to do, checked.

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

use super::args::lose::Lost;
use super::args::machines::Machines;
use super::args::workload::Asked;
use super::input::Source;
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

/// The hosts that are guests.
#[derive(Debug)]
pub struct Guests {
    /// In the order of the topology; at least one.
    pub hosts: Vec<HostIndex>,
    pub rdma: GuestRdma,
    /// The folder with what they boot.
    pub image: PathBuf,
}

/// What to do, checked.
#[derive(Debug)]
pub struct Config {
    pub topology: Topology,
    /// What every algorithm is to do, but for the data, which is read when all else is checked. With a workload its members are all
    /// hosts in that, and none is the source.
    pub job: Job,
    /// Of the data.
    pub source: Source,
    pub algorithms: Vec<Algorithm>,
    /// What is carried out instead of one message.
    pub workload: Option<Asked>,
    /// When switches mark packets, if they do.
    pub ecn: Option<EcnProfile>,
    pub loss: Loss,
    pub lose: Vec<Lost>,
    /// Of links that differ from the topology's, as they were written.
    pub rates: Vec<String>,
    /// Whose application does nothing for a while, as written.
    pub suspensions: Vec<String>,
    /// Nanoseconds.
    pub dead_after: u64,
    pub driver: Driver,
    /// Of the virtual driver, for each fabric.
    pub threads: usize,
    /// Of the clock on Mininet.
    pub scale: Scale,
    /// The folder of a network that is used as it is.
    pub attach: Option<PathBuf>,
    pub guests: Option<Guests>,
    /// Where the network is on several machines.
    pub machines: Option<Machines>,
    pub model: Model,
    pub p4src: Option<PathBuf>,
    pub json: bool,
    pub pcap: Option<PathBuf>,
    pub trace: Option<PathBuf>,
    /// Where the page of the run is to be.
    pub web: Option<SocketAddr>,
}

/// Losses by chance that are no [`alfirk_experiment::Outage`] of the job, since they last all the time.
#[derive(Debug)]
pub struct Loss {
    /// Of every link: a probability.
    pub everywhere: f64,
    /// Of the core's links, instead.
    pub core: Option<f64>,
    /// These and the outages, as they were written.
    pub names: Vec<String>,
}

impl Config {
    /// With how many threads each fabric runs: one where something has to see switches and links as they are at a moment of the run. Then
    /// also what that is.
    pub fn usable_threads(&self) -> (usize, Option<&'static str>) {
        let is_recorded = self.pcap.is_some() || self.trace.is_some() || self.web.is_some();
        let changes = !self.job.outages.is_empty();
        let ends = |kill: &Kill| !matches!(kill.victim, Victim::Host(_));
        let why = match self.threads {
            1 => None,
            _ if is_recorded => Some("what is recorded is in the order of one"),
            _ if changes => Some("links change while it is on"),
            _ if self.job.kills.iter().any(ends) => Some("switches or links end while it is on"),
            _ => None,
        };
        (if why.is_some() { 1 } else { self.threads }, why)
    }

    /// Refuses to cut a message of so many bytes into parts that an algorithm cannot keep.
    pub fn check_messages(&self, size: u64) -> Result<(), Failure> {
        let Some(messages) = self.job.messages else {
            return Ok(());
        };
        let mut short = self.algorithms.iter().filter(|a| a.needs_datagrams());
        match short.find(|algorithm| messages < algorithm.min_slices(size)) {
            None => Ok(()),
            Some(algorithm) => Err(Failure::bad_input(format_args!(
                "--messages {messages}: {algorithm} keeps messages until everybody has them, so they are at most 1 MiB each; \
                 give {} or more, or leave it out",
                algorithm.min_slices(size)
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
