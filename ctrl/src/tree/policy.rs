//! The names of tree policies.

use std::fmt;
use std::str::FromStr;

/// How trees choose among ports of equal cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// A port that the tree has already, else the one with the fewest groups (Gleam, algorithm 4).
    #[default]
    ReuseLeastLoaded,
}

impl Policy {
    /// All policies.
    pub const ALL: [Policy; 1] = [Policy::ReuseLeastLoaded];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Policy::ReuseLeastLoaded => "reuse-least-loaded",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no policy's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no tree policy `{0}`; use reuse-least-loaded")]
pub struct UnknownPolicy(String);

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Policy, UnknownPolicy> {
        Policy::ALL
            .into_iter()
            .find(|policy| policy.name() == name)
            .ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}
