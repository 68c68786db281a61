//! A flag of `alfirk run` with its value.

/// A flag of `alfirk run` with a value: `None` is a flag that has none and is not given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Without dashes.
    pub flag: String,
    /// As on the command line; lists have commas. Empty for a switch that is on.
    pub value: Option<String>,
}
