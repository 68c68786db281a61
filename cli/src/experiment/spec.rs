//! The format of experiment files: flags of `alfirk run`, and which of them are varied.
//!
//! ```yaml
//! name: overlays
//! about: A description in one line.
//! run:                      # the same for all points: flags of `alfirk run` without their dashes
//!   topology: fat-tree:4
//! sweep:                    # one point for each combination; the first key varies slowest
//!   algorithms: [alfirk, chain]
//!   size: [64B, 1MiB]
//! repeats: 3                # seeds: 1, 2, 3 [default: 1]
//! tables:
//!   - {rows: algorithms, columns: size, value: completion_ns}
//! plots:
//!   - {name: completion, x: size, y: completion_ns, lines: algorithms}
//! per:                      # flags that belong to one value of an axis
//!   algorithms: {chain: {slices: 4}}
//! claims:                   # ratios, with published values
//!   - text: Chain takes 3 to 5.2 times as long.
//!     of: {algorithms: chain}
//!     to: {algorithms: alfirk}       # [default: the claim is about the number itself]
//!     at: {size: [64B]}     # only there [default: everywhere]
//!     value: completion_ns
//!     paper: [3, 5.2]       # smallest and largest ratio, or the largest alone; or `above: 3`, if no number was published
//!     why: What explains a difference.
//!     vary:                 # flags that are varied, one at a time, to see what the ratio depends on
//!       - {flag: host-model, about: Cost of each relayed message, values: {0ns: relay-delay=0ns, 1us: relay-delay=1us}}
//! quick: {sweep: {size: [64B]}}      # replaces keys of `run` and `sweep` with --quick
//! source: Author et al., figure 8
//! ```

use std::path::Path;

mod claims;
mod reader;

use super::flags::Flags;
use super::setting::Setting;
use reader::Reader;

/// The axis that every experiment has, possibly with a single value.
pub const ALGORITHMS: &str = "algorithms";

/// Numeric columns of a result that tables and plots can show, named as in `alfirk run --json`.
pub const MEASURED: [&str; 16] = [
    "completion_ns",
    "goodput_gbps",
    "sender_tx_bytes",
    "sender_payload_bytes",
    "wire_packets",
    "sender_acks",
    "retransmissions",
    "dropped_packets",
    "implausible_packets",
    "registration_ns",
    "requests.per_second",
    "requests.mean_ns",
    "requests.p50_ns",
    "requests.p99_ns",
    "requests.max_ns",
    "fairness",
];

/// Why an experiment file is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {what}")]
pub struct SpecError {
    /// Path of the file as given.
    pub file: String,
    pub what: String,
}

/// A flag with several values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    pub flag: String,
    pub values: Vec<Setting>,
}

/// A table over two axes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub rows: String,
    pub columns: String,
    /// Column of the results.
    pub value: String,
}

/// A plot of one column of the results over an axis, both logarithmic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plot {
    /// File name of the plot.
    pub name: String,
    pub x: String,
    /// Column of the results.
    pub y: String,
    /// Axis with one line for each value.
    pub lines: String,
}

/// Selected values of axes.
pub type Place = Vec<(String, Vec<String>)>;

/// A published ratio between two selections of results.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The claim in words.
    pub text: String,
    /// Numerator: one value for each axis.
    pub of: Place,
    /// Denominator: one value for each axis; `None` if the claim is about the number at `of` itself.
    pub to: Option<Place>,
    /// Points of the claim, on axes that `of` and `to` do not select.
    pub at: Place,
    /// Column of the results.
    pub value: String,
    pub paper: Published,
    /// Explanation of a difference.
    pub why: String,
    /// Flags on which the ratio may depend.
    pub vary: Vec<Variation>,
}

/// Published value of a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Published {
    /// Largest ratio.
    Most(f64),
    /// Smallest and largest ratio.
    Range(f64, f64),
    /// Lower bound of all ratios.
    Above(f64),
}

/// A flag that is varied for one claim, with all else unchanged.
#[derive(Debug, Clone, PartialEq)]
pub struct Variation {
    pub flag: String,
    /// Description of the flag.
    pub about: String,
    /// Sides of the ratio on which the flag is varied.
    pub side: Side,
    /// Points in place of the claim's own, on these axes.
    pub at: Place,
    /// Values with their labels, in the file's order.
    pub values: Vec<(String, Setting)>,
    /// Flags that belong to all values.
    pub with: Vec<Setting>,
}

/// Sides of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Both,
    /// The numerator `of` only.
    Of,
    /// The denominator `to` only.
    To,
}

/// Flags that belong to one value of an axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extra {
    pub axis: String,
    pub value: String,
    pub settings: Vec<Setting>,
}

/// A parsed experiment file.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    pub name: String,
    pub about: String,
    /// Publication of the claims.
    pub source: String,
    pub fixed: Vec<Setting>,
    pub sweep: Vec<Axis>,
    /// Number of runs of each combination, with seeds from 1.
    pub repeats: u64,
    pub tables: Vec<Table>,
    pub plots: Vec<Plot>,
    pub per: Vec<Extra>,
    pub claims: Vec<Claim>,
}

/// Whether the whole or the quick variant is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    Whole,
    /// With the replacements under `quick`.
    Quick,
}

/// Maximum number of points, which guards against mistakes in a file.
pub const MOST_POINTS: usize = 100_000;

impl Experiment {
    /// Parses `text`; file names in it are relative to the folder of `file`.
    ///
    /// # Errors
    /// The text is not YAML of the form above, or has an unknown flag or column.
    pub fn parse(
        file: &Path,
        text: &str,
        flags: &Flags,
        extent: Extent,
    ) -> Result<Experiment, SpecError> {
        let reader = Reader {
            file: file.display().to_string(),
            folder: file.parent().unwrap_or(Path::new("")).to_path_buf(),
            flags,
            extent,
        };
        reader.experiment(text)
    }
}

/// Flags in which points differ; always contains the algorithm.
pub fn axes(sweep: &[Axis]) -> Vec<&str> {
    let mut axes: Vec<&str> = sweep.iter().map(|axis| axis.flag.as_str()).collect();
    if !axes.contains(&ALGORITHMS) {
        axes.push(ALGORITHMS);
    }
    axes
}
