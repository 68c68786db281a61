//! `P(p)` and `SW<w, l>`.

use std::fmt;
use std::str::FromStr;

/// A host's digits `p_0 ... p_(n-1)`: `p_0 < m`, the others `< m/2`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostLabel(pub Vec<u32>);

/// A switch's digits `w_0 ... w_(n-2)` and its level, 0 at the top: all digits `< m/2`, except that `w_0 < m` below the top.
///
/// Ordered by level, then by digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchLabel {
    /// `l`.
    pub level: u32,
    /// `w`.
    pub digits: Vec<u32>,
}

impl fmt::Display for HostLabel {
    /// As the paper writes it, `P(201)`; with dots between the digits where one has two figures.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P({})", Digits(&self.0))
    }
}

impl fmt::Display for SwitchLabel {
    /// As the paper writes it, `SW<20,1>`; with dots between the digits where one has two figures.
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
#[error("`{0}` is not the label of a host; write its digits like 201, P(201) or, where one has two figures, 10.3.1")]
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
