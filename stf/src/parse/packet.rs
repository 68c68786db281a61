//! The `packet` and `expect` commands.

use std::fmt;

use super::words::Words;
use super::Command;

/// Pattern for an expected packet: hexadecimal digits, some of which match any value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Digits of 4 bits, from the first byte of the packet; `None` for `*`.
    pub digits: Vec<Option<u8>>,
    /// Whether the packet must end after the digits (`$`). Otherwise it may be longer.
    pub is_exact: bool,
}

impl Pattern {
    /// Returns whether a packet matches the pattern.
    pub fn matches(&self, packet: &[u8]) -> bool {
        let long_enough = packet.len() * 2 >= self.digits.len();
        let right_length = !self.is_exact || packet.len() * 2 == self.digits.len();
        long_enough
            && right_length
            && self.digits.iter().enumerate().all(|(position, digit)| {
                let byte = packet[position / 2];
                let half = if position % 2 == 0 {
                    byte >> 4
                } else {
                    byte & 15
                };
                digit.is_none_or(|digit| digit == half)
            })
    }
}

impl Pattern {
    /// The digits as bytes, with 0 for `*`, and a mask whose bits are 1 where a digit is given. Of an odd number of digits
    /// the last one is the upper half of a byte.
    pub fn bytes_and_mask(&self) -> (Vec<u8>, Vec<u8>) {
        let byte = |digits: &[Option<u8>], of: fn(Option<u8>) -> u8| {
            let half = |at: usize| digits.get(at).map_or(0, |digit| of(*digit));
            half(0) << 4 | half(1)
        };
        self.digits
            .chunks(2)
            .map(|digits| {
                (
                    byte(digits, |digit| digit.unwrap_or(0)),
                    byte(digits, |digit| if digit.is_some() { 15 } else { 0 }),
                )
            })
            .unzip()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for digit in &self.digits {
            match digit {
                Some(digit) => write!(f, "{digit:x}")?,
                None => f.write_str("*")?,
            }
        }
        f.write_str(if self.is_exact { " $" } else { "" })
    }
}

/// Parses `packet PORT DATA`.
pub(super) fn send(words: &mut Words) -> Result<Command, String> {
    let port = words.number("port")?;
    let digits = digits(words.rest())?;
    let data = bytes_of(&digits)
        .ok_or("`*` is allowed only in an expected packet; write all digits of a packet to send")?;
    Ok(Command::Packet { port, data })
}

/// Parses `expect PORT [DATA] [$]`.
pub(super) fn expect(words: &mut Words) -> Result<Command, String> {
    let port = words.number("port")?;
    let rest = words.rest();
    let (rest, is_exact) = match rest.trim_end().strip_suffix('$') {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let digits = digits(rest)?;
    let data = (is_exact || !digits.is_empty()).then_some(Pattern { digits, is_exact });
    Ok(Command::Expect { port, data })
}

/// Parses hexadecimal digits, with `*` for any value; white space is ignored.
fn digits(text: &str) -> Result<Vec<Option<u8>>, String> {
    let mut digits = Vec::new();
    for c in text.chars().filter(|c| !c.is_whitespace()) {
        match (c, c.to_digit(16)) {
            ('*', _) => digits.push(None),
            (_, Some(digit)) => digits.push(Some(digit as u8)),
            _ => return Err(format!("`{c}` is not a hexadecimal digit")),
        }
    }
    match (digits.len() % 2, digits.last()) {
        (0, _) => Ok(digits),
        // `expect 1 *` accepts any packet.
        (_, Some(None)) => {
            digits.push(None);
            Ok(digits)
        }
        _ => Err(format!(
            "{} hexadecimal digits are not whole bytes: write two per byte (`0a`, not `a`), or `*` for a digit of any value",
            digits.len()
        )),
    }
}

/// Returns the bytes of the digits; `None` if one of the digits is `*`.
fn bytes_of(digits: &[Option<u8>]) -> Option<Vec<u8>> {
    digits
        .chunks(2)
        .map(|digits| {
            digits
                .iter()
                .try_fold(0, |byte, digit| Some(byte << 4 | (*digit)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::super::tests::command_of;
    use super::*;

    #[test]
    fn packet_data_may_have_spaces() {
        assert_eq!(
            command_of("packet 1 00 1122 aB"),
            Command::Packet {
                port: 1,
                data: vec![0, 0x11, 0x22, 0xab]
            }
        );
        assert_eq!(
            command_of("packet 1 001 2"),
            Command::Packet {
                port: 1,
                data: vec![0, 0x12]
            }
        );
    }

    /// p4c's tester rejects such a packet, and such an expectation matches no packet of whole bytes.
    #[test]
    fn an_odd_number_of_digits_is_rejected() {
        let what = |text| parse(text).expect_err("half a byte").to_string();
        let expected = "hexadecimal digits are not whole bytes: write two per byte";
        assert!(what("wait\npacket 1 0a b").starts_with(&format!("line 2: 3 {expected}")));
        assert!(what("expect 1 0a7 $").starts_with(&format!("line 1: 3 {expected}")));
    }

    #[test]
    fn one_wildcard_matches_any_packet() {
        let Command::Expect {
            data: Some(pattern),
            ..
        } = command_of("expect 1 *")
        else {
            panic!("not an expectation");
        };
        assert!(pattern.matches(&[0x0a, 0x7b]));
    }

    #[test]
    fn patterns_may_have_wildcards_and_an_end() {
        let Command::Expect {
            port: 2,
            data: Some(pattern),
        } = command_of("expect 2 0a*b **$")
        else {
            panic!("not an expectation");
        };
        assert!(pattern.is_exact);
        assert!(pattern.matches(&[0x0a, 0x7b, 0xff]));
        assert!(!pattern.matches(&[0x0a, 0x7c, 0xff]));
        assert!(!pattern.matches(&[0x0a, 0x7b, 0xff, 0]));
        assert_eq!(
            command_of("expect 2"),
            Command::Expect {
                port: 2,
                data: None
            }
        );
    }
}
