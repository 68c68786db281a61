//! Workloads as the command line names them.

use alfirk_experiment::workload::{By, Kind, Workload};
use alfirk_roce::collective::Algorithm;

use alfirk_ctrl::topology::{HostIndex, Topology};
use alfirk_units::TIME;

use crate::exit::Failure;

/// What applications do instead of one message.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Workloads")]
pub(in crate::run) struct WorkloadArgs {
    /// Carry out what an application communicates instead of one message: hpl, groups, storage, training, incast, pairs, fairness or shared, with its
    /// keys, such as hpl:grid=8x8,panel=1MiB; --list-workloads has them all (virtual driver)
    #[arg(
        long,
        value_name = "KIND[:KEY=VALUE,...]",
        conflicts_with_all = [
            "source", "group", "rotate", "input", "messages", "collective", "switch_source", "fallback_below",
            "kill", "suspend", "hostile", "registration", "initial_psn",
        ]
    )]
    workload: Option<String>,

    /// Load the fabric meanwhile with what nobody waits for: incast or pairs, by unicasts
    #[arg(long, value_name = "KIND[:KEY=VALUE,...]", requires = "workload")]
    background: Option<String>,

    /// Tell how much of each flow of a workload came in each interval of this length, such as 1ms, and how fair that was
    #[arg(long, value_name = "TIME", requires = "workload", value_parser = |text: &str| TIME.parse(text))]
    throughput_every: Option<u64>,

    /// Print the workloads, with all their keys, and run nothing
    #[arg(long)]
    pub(in crate::run) list_workloads: bool,
}

/// A workload and how it was asked for.
#[derive(Debug)]
pub struct Asked {
    pub workload: Workload,
    /// With every key.
    pub text: String,
    /// The same of what loads the fabric meanwhile.
    pub background: Option<String>,
}

impl WorkloadArgs {
    pub(super) fn is_given(&self) -> bool {
        self.workload.is_some()
    }

    /// Whether sources count what they send as requests; not, if the workload makes no sense.
    pub(super) fn counts_requests(&self) -> bool {
        let kind = self.workload.as_ref().and_then(|text| text.parse().ok());
        matches!(kind, Some(Kind::Storage { .. }))
    }

    /// The flows among the topology's hosts, of so many bytes each where the workload states no length.
    pub(super) fn check(
        &self,
        topology: &Topology,
        size: Option<u64>,
        seed: u64,
    ) -> Result<Option<Asked>, Failure> {
        let Some(text) = &self.workload else {
            return Ok(None);
        };
        let hosts: Vec<HostIndex> = topology.host_indexes().collect();
        let size = size.map_or(USUAL, |size| size.max(1));
        let (kind, mut workload) = read("--workload", text, size, &hosts, seed)?;
        if let Some(interval) = self.throughput_every {
            if interval == 0 {
                return Err(Failure::bad_input(
                    "--throughput-every: an interval has a length",
                ));
            }
            workload.interval = Some(interval);
        }
        let mut background = None;
        if let Some(text) = &self.background {
            let (kind, load) = read("--background", text, USUAL, &hosts, seed)?;
            let is_load = |by| matches!(by, By::Always(Algorithm::Unicast));
            if !load.flows().all(|flow| is_load(flow.by)) {
                return Err(Failure::bad_input(format_args!(
                    "--background {text}: the fabric is loaded by unicasts; use incast or pairs"
                )));
            }
            workload.load(&load);
            background = Some(kind.to_string());
        }
        Ok(Some(Asked {
            workload,
            text: kind.to_string(),
            background,
        }))
    }
}

/// Bytes of a flow where nothing is said.
const USUAL: u64 = 1 << 20;

fn read(
    flag: &str,
    text: &str,
    bytes: u64,
    hosts: &[HostIndex],
    seed: u64,
) -> Result<(Kind, Workload), Failure> {
    let bad = |why| Failure::bad_input(format_args!("{flag} {text}: {why}"));
    let kind = Kind::read(text, bytes).map_err(bad)?;
    let workload = kind.workload(hosts, seed).map_err(bad)?;
    Ok((kind, workload))
}

/// A line for each kind.
pub(in crate::run) fn list() -> String {
    Kind::examples().map(|example| example + "\n").collect()
}
