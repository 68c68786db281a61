//! A flag of `alfirk run` with its value.

/// A flag of `alfirk run` with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Name of the flag without dashes.
    pub flag: String,
    /// Value as on the command line, lists with commas. Flags without a value: empty if on, `None` if off.
    pub value: Option<String>,
}
