//! An experiment as its file describes it: flags of `alfirk run`, and which of them are varied.
//!
//! ```yaml
//! name: overlays
//! about: One line for people.
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
//! per:                      # flags that go with one value of an axis
//!   algorithms: {chain: {slices: 4}}
//! claims:                   # ratios, and what somebody else has found them to be
//!   - text: Chain takes 3 to 5.2 times as long.
//!     of: {algorithms: chain}
//!     to: {algorithms: alfirk}       # [default: the claim is about the number itself]
//!     at: {size: [64B]}     # only there [default: everywhere]
//!     value: completion_ns
//!     paper: [3, 5.2]       # from where to where, or one number: the largest ratio; or `above: 3`, if no number was published
//!     why: What explains a difference.
//!     vary:                 # flags that are varied, one at a time, to see what the ratio depends on
//!       - {flag: host-model, about: Cost of each relayed message, values: {0ns: relay-delay=0ns, 1us: relay-delay=1us}}
//! quick: {sweep: {size: [64B]}}      # replaces keys of `run` and `sweep` where time is short
//! source: Somebody et al., figure 8
//! ```

use std::path::Path;

mod claims;
mod reader;

use super::flags::Flags;
use super::setting::Setting;
use reader::Reader;

/// The axis that every experiment has, if only with one value.
pub const ALGORITHMS: &str = "algorithms";

/// The numbers of a result that tables and plots can show, as `alfirk run --json` names them.
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

/// A file that cannot be used; what is wrong and what would do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {what}")]
pub struct SpecError {
    /// As it was named.
    pub file: String,
    pub what: String,
}

/// A flag whose values are tried one after another.
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
    /// A column of the results.
    pub value: String,
}

/// A plot of one column of the results over an axis, both logarithmic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plot {
    /// Of its file.
    pub name: String,
    pub x: String,
    /// A column of the results.
    pub y: String,
    /// The axis with a line for each value.
    pub lines: String,
}

/// Values of axes.
pub type Place = Vec<(String, Vec<String>)>;

/// A ratio between two values of axes, and what was published of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The claim in words.
    pub text: String,
    /// One value each.
    pub of: Place,
    /// One value each; `None` if the claim is about what is measured at `of` itself.
    pub to: Option<Place>,
    /// Where the ratio is looked at, on axes that `of` and `to` leave open.
    pub at: Place,
    /// A column of the results.
    pub value: String,
    pub paper: Published,
    /// What explains a difference, for people.
    pub why: String,
    /// What the ratio may depend on.
    pub vary: Vec<Variation>,
}

/// What was published of a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Published {
    /// The largest.
    Most(f64),
    /// The least and the largest.
    Range(f64, f64),
    /// That it is always more than this.
    Above(f64),
}

/// A flag that is varied for one claim, all else being as where the claim is looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct Variation {
    pub flag: String,
    /// What it is, for people.
    pub about: String,
    /// Of what the ratio is formed where the flag is varied.
    pub side: Side,
    /// In place of the claim's own, on these axes.
    pub at: Place,
    /// Each with its name for people, in the order of the file.
    pub values: Vec<(String, Setting)>,
    /// Flags that go with all of them.
    pub with: Vec<Setting>,
}

/// Where a flag is varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Both,
    /// Only at the claim's `of`.
    Of,
    /// Only at its `to`.
    To,
}

/// Flags that go with one value of an axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extra {
    pub axis: String,
    pub value: String,
    pub settings: Vec<Setting>,
}

/// What is to be measured and shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    pub name: String,
    pub about: String,
    /// Where the claims were published.
    pub source: String,
    pub fixed: Vec<Setting>,
    pub sweep: Vec<Axis>,
    /// How often each combination is run, each time with the next seed; from 1.
    pub repeats: u64,
    pub tables: Vec<Table>,
    pub plots: Vec<Plot>,
    pub per: Vec<Extra>,
    pub claims: Vec<Claim>,
}

/// How much time there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    Whole,
    /// With what stands under `quick`.
    Quick,
}

/// More points than anybody waits for: a slip.
pub const MOST_POINTS: usize = 100_000;

impl Experiment {
    /// Reads `text`, in which files are named from the folder of `file`.
    ///
    /// # Errors
    /// The text is no YAML of the form above, or names a flag or column that does not exist.
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

/// What points differ in, as flags; the algorithm is always one of them.
pub fn axes(sweep: &[Axis]) -> Vec<&str> {
    let mut axes: Vec<&str> = sweep.iter().map(|axis| axis.flag.as_str()).collect();
    if !axes.contains(&ALGORITHMS) {
        axes.push(ALGORITHMS);
    }
    axes
}
