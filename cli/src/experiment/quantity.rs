//! Parses values of flags as numbers with units, and interpolates between them.

use std::fmt;

use alfirk_units::{Quantity, RATE, SIZE, TIME};

/// A flag's value as a number: plain, or a size in bytes, a time in nanoseconds or a rate in bits per second.
#[derive(Clone, Copy)]
struct Number {
    value: f64,
    /// Index in [`QUANTITIES`]; `None` for a plain number.
    quantity: Option<usize>,
}

/// Kinds of units that values of flags may have.
static QUANTITIES: [&Quantity; 3] = [&SIZE, &TIME, &RATE];

fn parse_number(text: &str) -> Option<Number> {
    if let Ok(value) = text.parse() {
        let quantity = None;
        return Some(Number { value, quantity });
    }
    let mut quantities = QUANTITIES.iter().enumerate();
    quantities.find_map(|(place, quantity)| {
        let value = quantity.parse(text).ok()? as f64;
        let quantity = Some(place);
        Some(Number { value, quantity })
    })
}

/// Parses a number, optionally with a unit of size, time or rate, to its base unit.
pub fn number(text: &str) -> Option<f64> {
    parse_number(text).map(|number| number.value)
}

/// The flag's value at which a wanted result is reached.
#[derive(Debug, Clone, PartialEq)]
pub enum Reached {
    /// Exactly this value, which was tried.
    At(String),
    /// About this value, interpolated between two values that were tried.
    About(String),
    /// Between these two tried values, which are not numbers, so that no interpolation is possible.
    Between(String, String),
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reached::At(value) => write!(f, "at {value}"),
            Reached::About(value) => write!(f, "at about {value}"),
            Reached::Between(one, other) => write!(f, "between {one} and {other}"),
        }
    }
}

/// Relative difference up to which two results count as equal.
const MAX_EQUAL_DIFFERENCE: f64 = 0.01;

/// Finds the value of a flag at which the result is `wanted`, by linear interpolation between neighbouring `points`:
/// tried values with their results. `None` if all results are above or all below.
pub fn reached(points: &[(&str, f64)], wanted: f64) -> Option<Reached> {
    let near = |found: f64| (found / wanted - 1.0).abs() <= MAX_EQUAL_DIFFERENCE;
    if let Some((value, _)) = points.iter().find(|(_, found)| near(*found)) {
        return Some(Reached::At((*value).to_owned()));
    }
    let mut pairs = points.windows(2);
    pairs.find_map(|pair| {
        let [(one, before), (other, after)] = pair else {
            return None;
        };
        let crosses = (before - wanted) * (after - wanted) < 0.0;
        crosses.then(|| {
            let share = (wanted - before) / (after - before);
            match interpolate(one, other, share) {
                Some(value) => Reached::About(value),
                None => Reached::Between((*one).to_owned(), (*other).to_owned()),
            }
        })
    })
}

/// Interpolates between two values of a flag, with two significant digits: 0 for `share` is `one`, 1 is `other`. `None`
/// unless both are numbers of the same quantity.
fn interpolate(one: &str, other: &str, share: f64) -> Option<String> {
    let (one, other) = (parse_number(one)?, parse_number(other)?);
    let value = one.value + share * (other.value - one.value);
    let digits = 10_f64.powf(value.abs().log10().floor() - 1.0);
    let rounded = (value / digits).round() * digits;
    if one.quantity != other.quantity {
        return None;
    }
    Some(match one.quantity {
        Some(place) => with_unit(QUANTITIES[place], rounded),
        None => {
            let text = format!("{rounded:.6}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    })
}

/// Formats a number with the largest unit in which it is at least 1.
fn with_unit(quantity: &Quantity, value: f64) -> String {
    let units = [
        1_u64 << 30,
        1 << 20,
        1 << 10,
        1_000_000_000,
        1_000_000,
        1_000,
        1,
    ];
    let mut shown = units.iter().filter_map(|unit| {
        let name = quantity.show(*unit).to_string();
        let name = name.strip_prefix('1')?;
        let is_unit = !name.is_empty() && name.chars().all(char::is_alphabetic);
        let number = value / *unit as f64;
        (is_unit && number >= 1.0).then(|| {
            let text = format!("{number:.2}");
            format!(
                "{} {name}",
                text.trim_end_matches('0').trim_end_matches('.')
            )
        })
    });
    shown.next().unwrap_or_else(|| format!("{value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(points: &[(&str, f64)], wanted: f64) -> String {
        reached(points, wanted).map_or_else(|| "nowhere".to_owned(), |at| at.to_string())
    }

    #[test]
    fn interpolated_values_have_a_unit() {
        let points = [("0ns", 3.0), ("1us", 4.0), ("4us", 7.0)];
        assert_eq!(at(&points, 4.02), "at 1us");
        assert_eq!(at(&points, 5.2), "at about 2.2 us");
        assert_eq!(at(&points, 3.25), "at about 250 ns");
        assert_eq!(at(&points, 9.0), "nowhere");
        assert_eq!(
            at(&[("100Gbps", 1.0), ("50Gbps", 2.0)], 1.5),
            "at about 75 Gbps"
        );
        assert_eq!(at(&[("1MiB", 2.0), ("3MiB", 1.0)], 1.5), "at about 2 MiB");
        assert_eq!(at(&[("16", 2.0), ("64", 1.0)], 1.5), "at about 40");
    }

    #[test]
    fn words_are_not_interpolated() {
        let points = [("fat-tree:8", 2.0), ("testbed", 1.0)];
        assert_eq!(at(&points, 1.5), "between fat-tree:8 and testbed");
        assert_eq!(
            at(&[("1us", 2.0), ("1MiB", 1.0)], 1.5),
            "between 1us and 1MiB"
        );
        assert_eq!(at(&points[..1], 1.5), "nowhere");
    }
}
