//! The `check_counter` command.

use std::fmt;

use super::number::number;
use super::words::Words;
use super::Command;

/// The part of `check_counter` that selects a counter of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterIndex {
    /// Index in the array. In a direct counter, position of the table entry.
    Cell(u64),
    /// `$HANDLE`: the counter of the table entry that the test added as `HANDLE`.
    Entry(String),
}

impl fmt::Display for CounterIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CounterIndex::Cell(index) => write!(f, "{index}"),
            CounterIndex::Entry(handle) => write!(f, "${handle}"),
        }
    }
}

/// Length in bytes of Ethernet's frame check sequence, which is sent on the wire, but which BMv2 does not count.
const FCS: u64 = 4;

/// Unit in which a counter is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterUnit {
    /// Number of packets.
    Packets,
    /// Number of bytes.
    Bytes,
}

impl CounterUnit {
    /// Compares a counter with the number that a test expects.
    ///
    /// Some of p4c's tests were written for hardware that also counts frame check sequences, so a byte count that
    /// includes them is accepted.
    ///
    /// # Errors
    /// The counter's value with its unit, if the comparison does not hold.
    pub fn check(
        self,
        (packets, bytes): (u64, u64),
        comparison: Comparison,
        value: u64,
    ) -> Result<(), String> {
        let with_fcs = packets.saturating_mul(FCS).saturating_add(bytes);
        let (holds, found) = match self {
            CounterUnit::Packets => (
                comparison.holds(packets, value),
                format!("{packets} packets"),
            ),
            CounterUnit::Bytes => (
                comparison.holds(bytes, value) || comparison.holds(with_fcs, value),
                format!("{bytes} bytes"),
            ),
        };
        if holds {
            Ok(())
        } else {
            Err(found)
        }
    }
}

/// Comparison operator of `check_counter`. The counter is its left operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Comparison {
    /// Returns whether `left` and `right` satisfy the comparison.
    fn holds(self, left: u64, right: u64) -> bool {
        match self {
            Comparison::Equal => left == right,
            Comparison::NotEqual => left != right,
            Comparison::Less => left < right,
            Comparison::LessOrEqual => left <= right,
            Comparison::Greater => left > right,
            Comparison::GreaterOrEqual => left >= right,
        }
    }
}

/// Parses `NAME(INDEX) [[packets|bytes] == N]`.
pub(super) fn check_counter(words: &mut Words) -> Result<Command, String> {
    let name = words.name("counter")?;
    let bracketed = words.skip("(");
    let index = match bracketed || words.is_at("$") || words.is_at_digit() {
        true => index(&words.name("index")?)?,
        false => CounterIndex::Cell(0),
    };
    if bracketed && !words.skip(")") {
        return Err(format!(
            "the closing parenthesis after counter `{name}` is missing"
        ));
    }
    let mut comparison = (CounterUnit::Packets, Comparison::Equal, 0);
    if !words.is_at_end() {
        if words.skip("bytes") {
            comparison.0 = CounterUnit::Bytes;
        } else {
            words.skip("packets");
        }
        let operator = OPERATORS.iter().find(|(text, _)| words.skip(text));
        comparison.1 = operator.map(|(_, operator)| *operator).ok_or_else(|| {
            let rest = words.clone().rest();
            format!("`{rest}` does not begin with a comparison (==, !=, <=, >=, < or >)")
        })?;
        comparison.2 = words.number("count")?;
    }
    words.end()?;
    let (unit, comparison, value) = comparison;
    Ok(Command::CheckCounter {
        name,
        index,
        unit,
        comparison,
        value,
    })
}

/// Parses the index of a cell, or the handle of an entry.
fn index(text: &str) -> Result<CounterIndex, String> {
    match text.starts_with(|c: char| c.is_ascii_digit()) {
        true => Ok(CounterIndex::Cell(number(text, "index")?)),
        false => Ok(CounterIndex::Entry(text.trim_start_matches('$').to_owned())),
    }
}

/// Text of each operator. Longer operators precede those that they begin with.
const OPERATORS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::super::tests::command_of;
    use super::*;

    #[test]
    fn counters_are_compared() {
        assert_eq!(
            command_of("check_counter ingress.c(3) bytes >= 64"),
            Command::CheckCounter {
                name: "ingress.c".to_owned(),
                index: CounterIndex::Cell(3),
                unit: CounterUnit::Bytes,
                comparison: Comparison::GreaterOrEqual,
                value: 64
            }
        );
    }

    #[test]
    fn names_and_operators_need_no_white_space() {
        let bare = command_of("check_counter a.b(3) bytes >= 64");
        assert_eq!(command_of("check_counter \"a.b\"(3)bytes>=64"), bare);
        assert_eq!(command_of("check_counter a.b 3 bytes >=0x40"), bare);
        assert_eq!(
            command_of("check_counter \"cnt\"(\"A\")"),
            command_of("check_counter cnt($A)")
        );
        assert_eq!(
            command_of("check_counter cnt packets==2"),
            command_of("check_counter cnt(0) == 2")
        );
        let what = |text| parse(text).expect_err("it is wrong").message;
        assert_eq!(
            what("check_counter c(0) packet == 1"),
            "`packet == 1` does not begin with a comparison (==, !=, <=, >=, < or >)"
        );
        assert_eq!(
            what("check_counter c(0) == 1 2"),
            "`2` is unexpected at the end of the line"
        );
    }

    #[test]
    fn a_check_without_comparison_expects_0() {
        assert_eq!(
            command_of("check_counter cnt($A)"),
            Command::CheckCounter {
                name: "cnt".to_owned(),
                index: CounterIndex::Entry("A".to_owned()),
                unit: CounterUnit::Packets,
                comparison: Comparison::Equal,
                value: 0
            }
        );
    }

    #[test]
    fn byte_counts_may_include_frame_check_sequences() {
        let bytes = |value| CounterUnit::Bytes.check((2, 20), Comparison::Equal, value);
        assert_eq!(bytes(20), Ok(()));
        assert_eq!(bytes(28), Ok(()));
        assert_eq!(bytes(24), Err("20 bytes".to_owned()));
        let packets = |value| CounterUnit::Packets.check((2, 20), Comparison::Less, value);
        assert_eq!(packets(3), Ok(()));
        assert_eq!(packets(2), Err("2 packets".to_owned()));
    }
}
