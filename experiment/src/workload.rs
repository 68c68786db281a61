//! Workloads: many transfers on one fabric, in parallel and in sequence, as applications make them.
//!
//! A workload is a list of phases, and a phase is a list of flows. Each flow is a broadcast with its own members, size and start time. A
//! phase begins when all flows of the previous phase are done; this synchronization costs no time. Pure functions convert an application's
//! parameters ([`Kind`]) to flows, and [`run_workload`] runs the flows by one algorithm on one fabric.

mod kind;
mod run;
mod throughput;

use serde::Serialize;

use alfirk_ctrl::topology::HostIndex;
use alfirk_roce::collective::Algorithm;

pub use kind::{Kind, KindError};
pub use run::run_workload;
pub use throughput::{FlowThroughput, Throughput};

/// A workload: phases in sequence, each with flows in parallel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Workload {
    /// Phases, in sequence.
    pub phases: Vec<Phase>,
    /// Sampling interval of each flow's throughput in ns, see [`PhaseRow::throughput`]; `None` for no samples.
    pub interval: Option<u64>,
}

/// Flows that run in parallel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    /// Name in reports.
    pub name: String,
    /// Flows that run in parallel; the phase ends when all of them are done.
    pub flows: Vec<Flow>,
    /// Background flows, which end with the phase; the phase does not wait for them.
    pub background: Vec<Flow>,
    /// Time in nanoseconds for which all hosts compute, in a phase without flows. It is added to the result, not
    /// simulated.
    pub computing: u64,
}

/// One broadcast of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// Members, the source first.
    pub members: Vec<HostIndex>,
    /// Size of the message in bytes.
    pub bytes: u64,
    /// Algorithm of the flow.
    pub by: FlowAlgorithm,
    /// Number of messages into which algorithms that do not relay divide the data; one if `None`.
    pub messages: Option<u32>,
    /// Maximum number of the flow's messages that are outstanding, each a request; no limit if `None`.
    pub depth: Option<u32>,
    /// Start of the flow, in nanoseconds after the start of its phase.
    pub after: u64,
}

/// Algorithm of a flow in a comparison of algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowAlgorithm {
    /// The algorithm under comparison.
    Compared,
    /// The algorithm under comparison if that uses a multicast group of the fabric, else the given one.
    ComparedOr(Algorithm),
    /// The given algorithm in every run.
    Always(Algorithm),
}

impl FlowAlgorithm {
    fn algorithm(self, compared: Algorithm) -> Algorithm {
        match self {
            FlowAlgorithm::Compared => compared,
            FlowAlgorithm::ComparedOr(_) if compared.needs_group() => compared,
            FlowAlgorithm::ComparedOr(other) | FlowAlgorithm::Always(other) => other,
        }
    }
}

impl Workload {
    /// Adds the flows of the workload `background` to every phase that has flows, as background flows.
    pub fn add_background(&mut self, background: &Workload) {
        for phase in self
            .phases
            .iter_mut()
            .filter(|phase| !phase.flows.is_empty())
        {
            let flows = background.phases.iter().flat_map(|phase| &phase.flows);
            phase.background.extend(flows.cloned());
        }
    }

    /// Number of bytes of all flows except background flows; a flow's bytes count once, whatever its number of
    /// receivers.
    pub fn bytes(&self) -> u64 {
        self.flows().map(|flow| flow.bytes).sum()
    }

    /// All flows except background flows.
    pub fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.phases.iter().flat_map(|phase| &phase.flows)
    }

    /// Hosts that take part in any flow, in ascending order.
    pub fn hosts(&self) -> Vec<HostIndex> {
        let all = self.phases.iter();
        let all = all.flat_map(|phase| phase.flows.iter().chain(&phase.background));
        let mut hosts: Vec<HostIndex> = all.flat_map(|flow| &flow.members).copied().collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    }
}

/// Result of one phase of a workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseRow {
    /// Name of the phase.
    pub name: String,
    /// Number of flows, without background flows.
    pub flows: usize,
    /// Bytes of all flows; a flow's bytes count once, whatever its number of receivers.
    pub bytes: u64,
    /// Time in ns from the start until the last receiver of any flow had all data.
    pub completion_ns: u64,
    /// Shortest completion time of a flow from its post, in ns.
    pub fastest_ns: u64,
    /// Mean completion time of a flow from its post, in ns.
    pub mean_ns: u64,
    /// Throughput of each flow in each interval; `None` if not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Throughput>,
}
