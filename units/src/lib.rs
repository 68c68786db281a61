//! Quantities with units: `100Gbps`, `500ns`, `1MiB`. Flags and YAML files use the same parsers.
//!
//! Parsing is exact (no floating point): a quantity that is not a whole number of base units is rejected. The output uses the largest
//! unit with a whole number, so that formatting and parsing are inverse.

use std::fmt;
use std::time::Duration;

/// Formats a count with its noun in singular or plural, such as `1 switch` or `2 switches`.
#[must_use]
pub fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A kind of quantity, such as a rate or a time: its name, and its units with their sizes in base units, the smallest
/// first.
pub struct Quantity {
    what: &'static str,
    example: &'static str,
    units: &'static [(&'static str, u64)],
    /// Units that are accepted as input, but not used for output.
    input_only_units: &'static [(&'static str, u64)],
}

/// Bit rates. The base unit is 1 bit per second.
pub const RATE: Quantity = Quantity {
    what: "rate",
    example: "100Gbps",
    units: &[
        ("bps", 1),
        ("kbps", 1_000),
        ("Mbps", 1_000_000),
        ("Gbps", 1_000_000_000),
        ("Tbps", 1_000_000_000_000),
    ],
    input_only_units: &[],
};

/// Packet rates. The base unit is 1 packet per second.
pub const PACKET_RATE: Quantity = Quantity {
    what: "rate",
    example: "2kpps",
    units: &[("pps", 1), ("kpps", 1_000), ("Mpps", 1_000_000)],
    input_only_units: &[],
};

/// Durations. The base unit is 1 nanosecond.
pub const TIME: Quantity = Quantity {
    what: "time",
    example: "500ns",
    units: &[
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
    ],
    input_only_units: &[],
};

/// Sizes of data. The base unit is 1 byte.
pub const SIZE: Quantity = Quantity {
    what: "size",
    example: "1MiB",
    units: &[
        ("B", 1),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
    ],
    input_only_units: &[("kB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000)],
};

/// Reason why a text is not a valid quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text has no number, or other text before the unit.
    #[error("`{text}` is not a {what}: write a number and a unit, such as {example}")]
    NotANumber {
        /// The invalid text.
        text: String,
        /// Kind of quantity: `rate`, `time` or `size`.
        what: &'static str,
        /// A valid example of the quantity.
        example: &'static str,
    },
    /// The unit is missing, or it is not a unit of this quantity.
    #[error(
        "`{text}` has {} for a {what}: expected one of the units {units}",
        unit_text(unit)
    )]
    Unit {
        /// The invalid text.
        text: String,
        /// The text after the number; empty if the unit is missing.
        unit: String,
        /// Kind of quantity: `rate`, `time` or `size`.
        what: &'static str,
        /// The valid units, comma separated.
        units: String,
    },
    /// The quantity is not a whole number of base units, or is 2^64 or more.
    #[error("`{text}` is not a whole number of {base} below 2^64")]
    Range {
        /// The invalid text.
        text: String,
        /// The base unit: `bps`, `ns` or `B`.
        base: &'static str,
    },
}

/// Parses a time such as `500ns`, for flags.
///
/// # Errors
/// The text is not a whole number of nanoseconds with a unit.
pub fn time(text: &str) -> Result<Duration, UnitError> {
    TIME.parse(text).map(Duration::from_nanos)
}

/// Describes the text after the number, for an error message.
fn unit_text(unit: &str) -> String {
    if unit.is_empty() {
        "no unit".to_owned()
    } else {
        format!("the unknown unit `{unit}`")
    }
}

impl Quantity {
    /// Parses a quantity. Returns its number of base units.
    ///
    /// # Errors
    /// The text has no number or no unit of this quantity, or the number of base units is not whole or is 2^64 or more.
    pub fn parse(&self, text: &str) -> Result<u64, UnitError> {
        let (number, unit) = split(text);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || fraction.contains('.') || number.ends_with('.') {
            return Err(UnitError::NotANumber {
                text: text.to_owned(),
                what: self.what,
                example: self.example,
            });
        }
        let Some((_, scale)) = self.all_units().find(|(name, _)| *name == unit) else {
            return Err(UnitError::Unit {
                text: text.to_owned(),
                unit: unit.to_owned(),
                what: self.what,
                units: self
                    .all_units()
                    .map(|(name, _)| *name)
                    .collect::<Vec<_>>()
                    .join(", "),
            });
        };
        multiply_exactly(whole, fraction, *scale).ok_or_else(|| UnitError::Range {
            text: text.to_owned(),
            base: self.units[0].0,
        })
    }

    /// Whether the text ends in a unit of this quantity, whether or not the text before it is a number.
    pub fn has_unit(&self, text: &str) -> bool {
        let (_, unit) = split(text);
        self.all_units().any(|(name, _)| *name == unit)
    }

    fn all_units(&self) -> impl Iterator<Item = &(&'static str, u64)> {
        self.units.iter().chain(self.input_only_units)
    }

    /// Formats a number of base units, in the largest unit that gives a whole number.
    pub fn show(&self, value: u64) -> impl fmt::Display {
        let (name, scale) = self
            .units
            .iter()
            .rev()
            .find(|(_, scale)| value >= *scale && value % scale == 0)
            .unwrap_or(&self.units[0]);
        format!("{}{name}", value / scale)
    }
}

/// Splits the text into the number and the unit after it.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    (number, unit.trim_start())
}

/// Computes `whole.fraction * scale`; `None` if the result is not a whole number below 2^64.
fn multiply_exactly(whole: &str, fraction: &str, scale: u64) -> Option<u64> {
    let fraction = fraction.trim_end_matches('0');
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let divisor = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let scaled = digits.checked_mul(u128::from(scale))?;
    if scaled % divisor != 0 {
        return None;
    }
    u64::try_from(scaled / divisor).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_exactly() {
        assert_eq!(RATE.parse("100Gbps"), Ok(100_000_000_000));
        assert_eq!(RATE.parse("2.5 Gbps"), Ok(2_500_000_000));
        assert_eq!(PACKET_RATE.parse("2kpps"), Ok(2_000));
        assert_eq!(TIME.parse("0ns"), Ok(0));
        assert_eq!(TIME.parse("1.50us"), Ok(1_500));
        assert_eq!(time("1.5ms"), Ok(Duration::from_micros(1_500)));
        assert_eq!(SIZE.parse("1MiB"), Ok(1 << 20));
        assert_eq!(SIZE.parse("64kB"), Ok(64_000));
    }

    #[test]
    fn malformed_quantities_are_rejected_with_the_right_form() {
        let message = |r: Result<u64, UnitError>| r.unwrap_err().to_string();
        assert_eq!(
            message(RATE.parse("fast")),
            "`fast` is not a rate: write a number and a unit, such as 100Gbps"
        );
        assert_eq!(
            message(RATE.parse("100")),
            "`100` has no unit for a rate: expected one of the units bps, kbps, Mbps, Gbps, Tbps"
        );
        assert_eq!(
            message(TIME.parse("5 µs")),
            "`5 µs` has the unknown unit `µs` for a time: expected one of the units ns, us, ms, s"
        );
        assert_eq!(
            message(TIME.parse("0.5ns")),
            "`0.5ns` is not a whole number of ns below 2^64"
        );
        assert_eq!(
            message(RATE.parse("1..5Gbps")),
            "`1..5Gbps` is not a rate: write a number and a unit, such as 100Gbps"
        );
        for huge in [
            "99999999999999999999s",
            "99999999999999999999999999999999999999999s",
        ] {
            assert!(matches!(TIME.parse(huge), Err(UnitError::Range { .. })));
        }
    }

    #[test]
    fn printing_takes_the_largest_whole_unit() {
        assert_eq!(RATE.show(40_000_000_000).to_string(), "40Gbps");
        assert_eq!(RATE.show(2_500_000_000).to_string(), "2500Mbps");
        assert_eq!(TIME.show(0).to_string(), "0ns");
        assert_eq!(SIZE.show(65_536).to_string(), "64KiB");
        assert_eq!(SIZE.show(64_000).to_string(), "64000B");
    }

    proptest::proptest! {
        #[test]
        fn print_and_parse_are_inverse(value: u64) {
            for quantity in [&RATE, &PACKET_RATE, &TIME, &SIZE] {
                proptest::prop_assert_eq!(quantity.parse(&quantity.show(value).to_string()), Ok(value));
            }
        }
    }
}
