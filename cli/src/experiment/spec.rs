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

/// Name of the flag `--algorithms`. Every experiment counts it as swept, even with a single value.
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
    /// What is wrong, with the place in the file.
    pub what: String,
}

/// A swept flag of `alfirk run` with its values. The sweep has a point for each combination of all axes' values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    pub flag: String,
    pub values: Vec<Setting>,
}

/// A table of one measured number over two swept flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Swept flag with a row for each value.
    pub rows: String,
    /// Swept flag with a column for each value.
    pub columns: String,
    /// Column of the results ([`MEASURED`]) that the cells show.
    pub value: String,
}

/// A plot of one measured number over a swept flag, with logarithmic axes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plot {
    /// File name of the plot without extension.
    pub name: String,
    /// Swept flag on the horizontal axis.
    pub x: String,
    /// Column of the results ([`MEASURED`]) on the vertical axis.
    pub y: String,
    /// Swept flag with one line for each value.
    pub lines: String,
}

/// A selection of points: names of flags, each with the values that a point may have.
pub type Selection = Vec<(String, Vec<String>)>;

/// A published ratio between two selections of results.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The claim in words.
    pub text: String,
    /// Points whose mean is the numerator: flags with one value each.
    pub of: Selection,
    /// Points whose mean is the denominator: flags with one value each. `None` if the claim is about the measured
    /// number itself.
    pub to: Option<Selection>,
    /// Points to which the claim is limited; empty for all points.
    pub at: Selection,
    /// Column of the results ([`MEASURED`]) whose ratio is claimed.
    pub value: String,
    pub paper: Published,
    /// Explanation of a difference between the measured and the published ratio.
    pub why: String,
    /// Flags that are varied one at a time, to see how the ratio depends on them.
    pub vary: Vec<Variation>,
}

/// Ratio that a paper states.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Published {
    /// The largest ratio alone.
    Most(f64),
    /// The smallest and the largest ratio.
    Range(f64, f64),
    /// A lower bound of all ratios, without a number for any.
    Above(f64),
}

/// A flag that is varied for one claim, while all other flags keep their values.
#[derive(Debug, Clone, PartialEq)]
pub struct Variation {
    pub flag: String,
    /// Description of what is varied, as the label of plots.
    pub about: String,
    /// Whether the flag is varied in the runs of the numerator, of the denominator or of both.
    pub side: Side,
    /// Points at which the flag is varied; for these flags they replace the claim's own `at`.
    pub at: Selection,
    /// Tried values of the flag with their labels, in the order of the file.
    pub values: Vec<(String, Setting)>,
    /// Further flags that are set together with every value.
    pub with: Vec<Setting>,
}

/// The runs of a ratio in which a flag is varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Both,
    /// Only the runs of the numerator (`of` in the file).
    Of,
    /// Only the runs of the denominator (`to` in the file).
    To,
}

/// Flags that are set together with one value of a swept flag: an entry of the section `per`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DependentFlags {
    pub axis: String,
    pub value: String,
    pub settings: Vec<Setting>,
}

/// A parsed experiment file.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    pub name: String,
    pub about: String,
    /// The publication whose claims are checked, with the number of the figure.
    pub source: String,
    /// Flags with the same value at all points.
    pub fixed: Vec<Setting>,
    /// The swept flags with their values.
    pub sweep: Vec<Axis>,
    /// Number of runs of each combination of flags; they have the seeds 1, 2 and so on.
    pub repeats: u64,
    pub tables: Vec<Table>,
    pub plots: Vec<Plot>,
    /// Flags that are set together with single values of swept flags.
    pub per: Vec<DependentFlags>,
    pub claims: Vec<Claim>,
}

/// Whether the experiment is run as a whole, or as its quick variant (`--quick`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    Whole,
    /// With the keys under `quick` in place of those of the same name, and without variations of flags.
    Quick,
}

/// Maximum number of points of an experiment; a file with more is rejected as a mistake.
pub const MAX_POINTS: usize = 100_000;

impl Experiment {
    /// Parses an experiment file with the content `text`. File names in it are relative to the folder of `file`.
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

/// Names of the swept flags; always includes the algorithm.
pub fn axes(sweep: &[Axis]) -> Vec<&str> {
    let mut axes: Vec<&str> = sweep.iter().map(|axis| axis.flag.as_str()).collect();
    if !axes.contains(&ALGORITHMS) {
        axes.push(ALGORITHMS);
    }
    axes
}
