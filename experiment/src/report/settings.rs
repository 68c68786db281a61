//! Settings of a run in its report.

use serde::Serialize;

/// Settings of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Settings {
    /// Driver that carried the packets: `virtual` or `mininet`.
    pub driver: String,
    /// Collective operation: `broadcast`, `scatter`, `allgather` or `barrier`.
    pub collective: String,
    /// RDMA operation: `send`, `write` or `write-imm`.
    pub op: String,
    /// How WRITEs to the group address memory regions: `aligned`, `uniform` or `per-request`; `None` for SEND.
    pub write: Option<String>,
    /// Method by which switches find the smallest PSN that all members have acknowledged: `tree`, `walk` or `punt`.
    pub min_psn: String,
    /// Method of keeping data ICRCs valid: `neutral`, `recompute` or `punt`.
    pub icrc: String,
    /// Policy for the group's tree: `reuse-least-loaded`, `cyclic` or `spanning`.
    pub tree_policy: String,
    /// Number of changes of the group's source.
    pub switch_source: u32,
    /// Whether a source may start while the previous one still waits for acknowledgements.
    pub switch_early: bool,
    /// Congestion control of queue pairs: `none` or `dcqcn`.
    pub congestion: String,
    /// Loss recovery of queue pairs: `selective-repeat`; `None` for go-back-N.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<String>,
    /// Path MTU of the queue pairs in bytes.
    pub mtu: u32,
    /// Number of slices (messages of the data) of relaying algorithms; each algorithm's default if `None`.
    pub slices: Option<u32>,
    /// Probability that a link loses a frame, per direction.
    pub loss: f64,
    /// Time intervals in which single links lose frames, as on the command line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<String>,
    /// Time intervals in which applications are suspended, as on the command line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suspensions: Vec<String>,
    /// Rates of single links in place of the topology's, as on the command line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<String>,
    /// Share of the normal goodput below which the safeguard leaves the group for an overlay; `None` without a
    /// safeguard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_below: Option<f64>,
    /// Registration path of groups: `api` or `mrp`.
    pub registration: String,
    /// Queueing, buffers and flow control of switches, in the syntax of topology files; `None` for the default, which
    /// is one queue per port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switching: Option<String>,
    /// Delays of hosts, in the syntax of `--host-model`; `None` for the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_model: Option<String>,
}
