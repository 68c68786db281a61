//! Results of a run, as a JSON object and as a text table.

mod clock;
mod groups;
mod row;
mod settings;
mod table;
#[cfg(test)]
mod tests;
mod text;

pub use clock::{ClockSummary, LoadSummary};
pub use row::{
    goodput_gbps, Change, Failure, Fallback, Missing, MissingReason, PartRow, Row, SenderRow,
};
pub use settings::Settings;
pub use text::{aligned, duration};

use serde::Serialize;

use super::machines::MachinesSummary;

/// Results of a run; serializes to the object of `alfirk run --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// One row per algorithm, in the requested order.
    pub results: Vec<Row>,
    /// The message that was sent; `None` for a workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Input>,
    /// The workload that ran instead of one message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadSummary>,
    /// Size of the network.
    pub topology: TopologySummary,
    /// The members; `None` for a workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupSummary>,
    /// Settings of the run.
    pub settings: Settings,
    /// Seed of all random numbers of the run.
    pub seed: u64,
    /// The clock of a network of processes whose links have rates; `None` for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockSummary>,
    /// The machines over which the network was spread; `None` for a single machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machines: Option<MachinesSummary>,
}

/// The message of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Input {
    /// Path of the file; `None` for generated data.
    pub file: Option<String>,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 as lower-case hexadecimal digits.
    pub sha256: String,
}

/// The workload that ran instead of one message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkloadSummary {
    /// Kind and all keys, as on the command line.
    pub kind: String,
    /// Kind and all keys of the background traffic, as on the command line; `None` without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<String>,
    /// Number of hosts that take part.
    pub hosts: usize,
    /// Number of flows that are waited for, in all phases.
    pub flows: usize,
    /// Number of phases.
    pub phases: usize,
    /// Total bytes of the flows that are waited for, each flow counted once.
    pub bytes: u64,
}

/// Name and size of the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TopologySummary {
    /// Name of the topology.
    pub name: String,
    /// Number of hosts.
    pub hosts: usize,
    /// Number of switches.
    pub switches: usize,
    /// Number of links.
    pub links: usize,
}

/// The group's members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GroupSummary {
    /// Number of members, including the source.
    pub size: usize,
    /// Name of the first source.
    pub source: String,
    /// Names in the order of ranks, the source first.
    pub members: Vec<String>,
}

impl Report {
    /// Whether every algorithm delivered every byte to every receiver.
    pub fn verified(&self) -> bool {
        self.results.iter().all(|row| row.verified)
    }

    /// Why algorithms failed, one line for each.
    pub fn failures(&self) -> String {
        const MOST_NAMED: usize = 8;
        let failed = self.results.iter().filter(|row| !row.verified);
        let line = |row: &Row| {
            let named = row.missing.iter().take(MOST_NAMED).map(ToString::to_string);
            let mut parts: Vec<String> = row.given_up.iter().cloned().chain(named).collect();
            let more = row.missing.len().saturating_sub(MOST_NAMED);
            if more > 0 {
                parts.push(format!("and {more} more"));
            }
            if parts.is_empty() {
                parts.push("some receivers do not have the bytes that were sent".to_owned());
            }
            format!("{}: {}", row.algorithm, parts.join("; "))
        };
        failed.map(line).collect::<Vec<_>>().join("\n")
    }
}
