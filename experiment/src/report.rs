//! The results of the main job, as an object for tools and as a table for people.

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

/// Everything that a run of the main job found out. Serialises to the one object of `alfirk run --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// One row per algorithm, in the order asked for.
    pub results: Vec<Row>,
    /// The message; `None` for a workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Input>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadSummary>,
    pub topology: TopologySummary,
    /// The members; `None` for a workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupSummary>,
    pub settings: Settings,
    pub seed: u64,
    /// The clock of a network of processes whose links have rates; `None` for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockSummary>,
    /// The machines that the network was on, if there were several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machines: Option<MachinesSummary>,
}

/// What was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Input {
    /// The file, or `None` for content made from the seed.
    pub file: Option<String>,
    /// Bytes.
    pub size: u64,
    /// Of the content, as lower-case hexadecimal digits.
    pub sha256: String,
}

/// What was carried out instead of one message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkloadSummary {
    /// As the command line names it, with every key.
    pub kind: String,
    /// What loaded the fabric meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<String>,
    /// Hosts that take part.
    pub hosts: usize,
    /// What is waited for, of all phases together.
    pub flows: usize,
    pub phases: usize,
    /// Bytes of these flows, each counted once.
    pub bytes: u64,
}

/// Where it was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TopologySummary {
    pub name: String,
    pub hosts: usize,
    pub switches: usize,
    pub links: usize,
}

/// Between whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GroupSummary {
    /// Hosts, the source included.
    pub size: usize,
    pub source: String,
    /// In the order of their ranks, the source first.
    pub members: Vec<String>,
}

impl Report {
    /// Whether every algorithm delivered every byte to every receiver.
    pub fn verified(&self) -> bool {
        self.results.iter().all(|row| row.verified)
    }

    /// Why it did not, in one line for each algorithm that failed.
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
                parts.push("some receivers do not hold the bytes that were sent".to_owned());
            }
            format!("{}: {}", row.algorithm, parts.join("; "))
        };
        failed.map(line).collect::<Vec<_>>().join("\n")
    }
}
