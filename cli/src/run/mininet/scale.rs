//! How many times slower than equipment a network of processes goes.

use std::num::NonZeroU32;
use std::str::FromStr;

/// What `--scale` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Links have no rates and delays; everything goes as fast as this machine lets it.
    Off,
    /// As this machine needs it.
    Auto,
    /// One nanosecond of the network takes so many of this machine.
    By(NonZeroU32),
}

impl FromStr for Scale {
    type Err = String;

    fn from_str(text: &str) -> Result<Scale, String> {
        match text {
            "off" => Ok(Scale::Off),
            "auto" => Ok(Scale::Auto),
            number => number.parse().map(Scale::By).map_err(|_| {
                "expected auto, off, or a whole number from 1 on, such as 1000".into()
            }),
        }
    }
}
