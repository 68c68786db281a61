//! Workloads: many transfers on one fabric, at a time and one after the other, as applications make them.
//!
//! A workload is a list of phases, and a phase a list of flows, each a broadcast of its own with members, bytes and a start. A phase
//! begins when all flows of the one before are over; nobody is charged for knowing that. What applications ask for ([`Kind`]) becomes
//! flows by pure functions, and [`run_workload`] carries them out, the flows of one algorithm on one fabric.

mod kind;
mod run;
mod throughput;

use serde::Serialize;

use alfirk_ctrl::topology::HostIndex;
use alfirk_roce::collective::Algorithm;

pub use kind::{Kind, KindError};
pub use run::run_workload;
pub use throughput::{FlowThroughput, Throughput};

/// What is to be transferred.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Workload {
    /// One after the other.
    pub phases: Vec<Phase>,
    /// How often, in ns, to look at how much of each flow has come: see [`PhaseRow::throughput`].
    pub interval: Option<u64>,
}

/// Flows that run at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    /// For people.
    pub name: String,
    pub flows: Vec<Flow>,
    /// Flows that load the fabric meanwhile; nobody waits for them, and they end with the phase.
    pub background: Vec<Flow>,
    /// Nanoseconds that all hosts compute, in a phase without flows. Nothing is simulated meanwhile.
    pub computing: u64,
}

/// One broadcast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// The source first.
    pub members: Vec<HostIndex>,
    pub bytes: u64,
    pub by: By,
    /// Into how many messages algorithms that cut nothing by themselves cut it; one if `None`.
    pub messages: Option<u32>,
    /// How many of these the source has under way, each a request of its own; all if `None`.
    pub depth: Option<u32>,
    /// Nanoseconds from the begin of its phase.
    pub after: u64,
}

/// What carries a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The algorithm that is looked at.
    Compared,
    /// It, if it uses a group of the fabric; else this one.
    ComparedOr(Algorithm),
    /// This one, whatever is looked at.
    Always(Algorithm),
}

impl By {
    fn algorithm(self, compared: Algorithm) -> Algorithm {
        match self {
            By::Compared => compared,
            By::ComparedOr(_) if compared.needs_group() => compared,
            By::ComparedOr(other) | By::Always(other) => other,
        }
    }
}

impl Workload {
    /// Has other flows load the fabric in every phase.
    pub fn load(&mut self, background: &Workload) {
        for phase in self
            .phases
            .iter_mut()
            .filter(|phase| !phase.flows.is_empty())
        {
            let flows = background.phases.iter().flat_map(|phase| &phase.flows);
            phase.background.extend(flows.cloned());
        }
    }

    /// Bytes of all flows that are waited for, each counted once.
    pub fn bytes(&self) -> u64 {
        self.flows().map(|flow| flow.bytes).sum()
    }

    /// All flows that are waited for.
    pub fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.phases.iter().flat_map(|phase| &phase.flows)
    }

    /// The hosts that take part, in their order.
    pub fn hosts(&self) -> Vec<HostIndex> {
        let all = self.phases.iter();
        let all = all.flat_map(|phase| phase.flows.iter().chain(&phase.background));
        let mut hosts: Vec<HostIndex> = all.flat_map(|flow| &flow.members).copied().collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    }
}

/// What one phase of a workload took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseRow {
    pub name: String,
    pub flows: usize,
    /// Of all flows, each counted once.
    pub bytes: u64,
    /// From the begin until the last receiver of any flow had everything, in ns.
    pub completion_ns: u64,
    /// The shortest time that a flow took from its post, in ns, and how long they took on average.
    pub fastest_ns: u64,
    pub mean_ns: u64,
    /// What each flow had in each interval, if anybody asked for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Throughput>,
}
