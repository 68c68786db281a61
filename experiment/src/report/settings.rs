//! What a run was asked for.

use serde::Serialize;

/// How.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Settings {
    /// `virtual` or `mininet`.
    pub driver: String,
    /// `broadcast`, `scatter`, `allgather` or `barrier`.
    pub collective: String,
    /// `send`, `write` or `write-imm`.
    pub op: String,
    /// How WRITEs to the group fit its receivers: `aligned`, `uniform` or `per-request`; `None` for SEND.
    pub write: Option<String>,
    /// How the minimum PSN is found: `tree`, `walk` or `punt`.
    pub min_psn: String,
    /// How data ICRCs are kept right: `neutral`, `recompute` or `punt`.
    pub icrc: String,
    /// How the group's tree chooses ports: `reuse-least-loaded`, `cyclic` or `spanning`.
    pub tree_policy: String,
    /// How often the source of the group changed.
    pub switch_source: u32,
    /// Whether a source began while the one before might still wait for acknowledgements.
    pub switch_early: bool,
    /// Congestion control of the queue pairs: `none` or `dcqcn`.
    pub congestion: String,
    /// What queue pairs do about losses, if they do not go back N: `selective-repeat`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<String>,
    /// Path MTU of the queue pairs in bytes.
    pub mtu: u32,
    /// Slices of the relaying algorithms; each one's own choice if `None`.
    pub slices: Option<u32>,
    /// Probability of loss per frame and link direction.
    pub loss: f64,
    /// Losses of single links for a while, as they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<String>,
    /// Whose application does nothing for a while, as it was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suspensions: Vec<String>,
    /// Rates of single links that the topology has otherwise, as they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<String>,
    /// The share of the normal goodput under which the group is given up for an overlay; `None` if it is not watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_below: Option<f64>,
    /// How groups are registered: `api` or `mrp`.
    pub registration: String,
    /// How switches queue, buffer and pause, as topology files write it; `None` if each port has a queue and nothing more is
    /// stated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switching: Option<String>,
    /// What hosts cost, as `--host-model` has it; `None` for the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_model: Option<String>,
}
