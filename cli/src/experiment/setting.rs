//! A flag of `alfirk run` with its value.

/// A flag with its value; `None` is a switch that is off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Name of the flag without dashes.
    pub flag: String,
    /// Value as on the command line; lists have commas. Empty for a switch that is on.
    pub value: Option<String>,
}
