//! Flags of workloads: application traffic instead of one message.

use alfirk_experiment::workload::{FlowAlgorithm, Kind, Workload};
use alfirk_roce::collective::Algorithm;

use alfirk_ctrl::topology::{HostIndex, Topology};
use alfirk_units::TIME;

use crate::exit::Failure;

/// Application traffic instead of one message.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Workloads")]
pub(in crate::run) struct WorkloadArgs {
    /// Replay an application's communication instead of one message: hpl, groups, storage, training, incast, pairs, fairness or shared,
    /// with keys, such as hpl:grid=8x8,panel=1MiB; see --list-workloads (virtual driver)
    #[arg(
        long,
        value_name = "KIND[:KEY=VALUE,...]",
        conflicts_with_all = [
            "source", "group", "rotate", "input", "messages", "collective", "switch_source", "fallback_below",
            "kill", "suspend", "hostile", "registration", "initial_psn",
        ]
    )]
    workload: Option<String>,

    /// Background traffic during the workload: incast or pairs, by unicast
    #[arg(long, value_name = "KIND[:KEY=VALUE,...]", requires = "workload")]
    background: Option<String>,

    /// Interval, such as 1ms, for reports of each flow's throughput and of fairness
    #[arg(long, value_name = "TIME", requires = "workload", value_parser = |text: &str| TIME.parse(text))]
    throughput_every: Option<u64>,

    /// List the workloads with all their keys, and exit
    #[arg(long)]
    pub(in crate::run) list_workloads: bool,
}

/// A workload of flows, with the text that describes it in reports.
#[derive(Debug)]
pub struct WorkloadSettings {
    pub workload: Workload,
    /// The value of `--workload` with all its keys, defaults included.
    pub text: String,
    /// The value of `--background` with all its keys, defaults included; `None` without background traffic.
    pub background: Option<String>,
}

impl WorkloadArgs {
    /// Whether a workload is requested instead of a single message.
    pub(super) fn is_given(&self) -> bool {
        self.workload.is_some()
    }

    /// Whether sources count messages as requests; false if there is no valid workload.
    pub(super) fn counts_requests(&self) -> bool {
        let kind = self.workload.as_ref().and_then(|text| text.parse().ok());
        matches!(kind, Some(Kind::Storage { .. }))
    }

    /// Parses the workload and generates its flows among the topology's hosts; `None` without `--workload`. `size`:
    /// default bytes of a flow.
    pub(super) fn check(
        &self,
        topology: &Topology,
        size: Option<u64>,
        seed: u64,
    ) -> Result<Option<WorkloadSettings>, Failure> {
        let Some(text) = &self.workload else {
            return Ok(None);
        };
        let hosts: Vec<HostIndex> = topology.host_indexes().collect();
        let size = size.map_or(DEFAULT_SIZE, |size| size.max(1));
        let (kind, mut workload) = read("--workload", text, size, &hosts, seed)?;
        if let Some(interval) = self.throughput_every {
            if interval == 0 {
                return Err(Failure::bad_input(
                    "--throughput-every 0: give a time above 0",
                ));
            }
            workload.interval = Some(interval);
        }
        let mut background = None;
        if let Some(text) = &self.background {
            let (kind, load) = read("--background", text, DEFAULT_SIZE, &hosts, seed)?;
            let is_load = |by| matches!(by, FlowAlgorithm::Always(Algorithm::Unicast));
            if !load.flows().all(|flow| is_load(flow.by)) {
                return Err(Failure::bad_input(format_args!(
                    "--background {text}: background traffic is unicast; use incast or pairs"
                )));
            }
            workload.add_background(&load);
            background = Some(kind.to_string());
        }
        Ok(Some(WorkloadSettings {
            workload,
            text: kind.to_string(),
            background,
        }))
    }
}

/// Default length of a flow in bytes.
const DEFAULT_SIZE: u64 = 1 << 20;

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

/// Text of `--list-workloads`: an example of each kind of workload, one per line.
pub(in crate::run) fn list() -> String {
    Kind::examples().map(|example| example + "\n").collect()
}
