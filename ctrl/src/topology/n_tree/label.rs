//! Labels of hosts, `P(p)`, and of switches, `SW<w, l>`, in an m-port n-tree.

use std::fmt;
use std::str::FromStr;

/// Label of a host: digits `p_0 ... p_(n-1)`, where `p_0 < m` and the others are `< m/2`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostLabel(pub Vec<u32>);

/// Label of a switch: digits `w_0 ... w_(n-2)` and its level. All digits are `< m/2`, except that `w_0 < m` below the top.
///
/// Ordered by level, then by digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchLabel {
    /// Level `l`, 0 at the top.
    pub level: u32,
    /// Digits `w_0 ... w_(n-2)` of the label.
    pub digits: Vec<u32>,
}

impl fmt::Display for HostLabel {
    /// Writes the label as in the paper, `P(201)`; with dots between the digits if any is above 9.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P({})", Digits(&self.0))
    }
}

impl fmt::Display for SwitchLabel {
    /// Writes the label as in the paper, `SW<20,1>`; with dots between the digits if any is above 9.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SW<{},{}>", Digits(&self.digits), self.level)
    }
}

struct Digits<'a>(&'a [u32]);

impl fmt::Display for Digits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_wide = self.0.iter().any(|digit| *digit > 9);
        for (i, digit) in self.0.iter().enumerate() {
            if is_wide && i > 0 {
                f.write_str(".")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

/// Error: the text is not the label of a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the label of a host; write its digits as 201 or P(201), or with dots if a digit is above 9, as 10.3.1")]
pub struct LabelError(String);

impl FromStr for HostLabel {
    type Err = LabelError;

    fn from_str(text: &str) -> Result<HostLabel, LabelError> {
        let bare = text.strip_prefix("P(").and_then(|t| t.strip_suffix(')'));
        let bare = bare.unwrap_or(text);
        let digits: Option<Vec<u32>> = match bare.contains('.') {
            true => bare.split('.').map(|digit| digit.parse().ok()).collect(),
            false => bare.chars().map(|digit| digit.to_digit(10)).collect(),
        };
        match digits {
            Some(digits) if !digits.is_empty() => Ok(HostLabel(digits)),
            _ => Err(LabelError(text.to_owned())),
        }
    }
}
