//! Packets that are sent and expected.

use std::fmt;

use super::words::Words;
use super::Command;

/// Bytes of a packet, of which some half-bytes may be anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Half-bytes; none for `*`.
    pub digits: Vec<Option<u8>>,
    /// Whether the packet ends there (`$`).
    pub ends: bool,
}

impl Pattern {
    /// Whether a packet fits.
    pub fn matches(&self, packet: &[u8]) -> bool {
        let long_enough = packet.len() * 2 >= self.digits.len();
        let right_length = !self.ends || packet.len() * 2 == self.digits.len();
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

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for digit in &self.digits {
            match digit {
                Some(digit) => write!(f, "{digit:x}")?,
                None => f.write_str("*")?,
            }
        }
        f.write_str(if self.ends { " $" } else { "" })
    }
}

/// `packet PORT DATA`
pub(super) fn send(words: &mut Words) -> Result<Command, String> {
    let port = words.number("port")?;
    let digits = digits(&words.rest())?;
    let data = bytes_of(&digits).ok_or("a packet to send has no wildcards")?;
    Ok(Command::Packet { port, data })
}

/// `expect PORT [DATA] [$]`
pub(super) fn expect(words: &mut Words) -> Result<Command, String> {
    let port = words.number("port")?;
    let rest = words.rest();
    let (rest, ends) = match rest.trim_end().strip_suffix('$') {
        Some(rest) => (rest.to_owned(), true),
        None => (rest, false),
    };
    let digits = digits(&rest)?;
    let data = (ends || !digits.is_empty()).then_some(Pattern { digits, ends });
    Ok(Command::Expect { port, data })
}

/// Half-bytes, `*` for any.
fn digits(text: &str) -> Result<Vec<Option<u8>>, String> {
    let mut digits = Vec::new();
    for c in text.chars().filter(|c| !c.is_whitespace()) {
        match (c, c.to_digit(16)) {
            ('*', _) => digits.push(None),
            (_, Some(digit)) => digits.push(Some(digit as u8)),
            _ => return Err(format!("{c} is no hexadecimal digit")),
        }
    }
    Ok(digits)
}

/// Two digits are a byte, and so is the last one of an odd number, as in p4c's tester.
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
    use super::super::tests::one;
    use super::*;

    #[test]
    fn packets_may_have_spaces() {
        assert_eq!(
            one("packet 1 00 1122 aB"),
            Command::Packet {
                port: 1,
                data: vec![0, 0x11, 0x22, 0xab]
            }
        );
        assert_eq!(
            one("packet 1 001 2"),
            Command::Packet {
                port: 1,
                data: vec![0, 0x12]
            }
        );
        assert_eq!(
            one("packet 1 0a b"),
            Command::Packet {
                port: 1,
                data: vec![0x0a, 0x0b]
            }
        );
    }

    #[test]
    fn expectations_have_wildcards_and_ends() {
        let Command::Expect {
            port: 2,
            data: Some(pattern),
        } = one("expect 2 0a*b **$")
        else {
            panic!("not an expectation");
        };
        assert!(pattern.ends);
        assert!(pattern.matches(&[0x0a, 0x7b, 0xff]));
        assert!(!pattern.matches(&[0x0a, 0x7c, 0xff]));
        assert!(!pattern.matches(&[0x0a, 0x7b, 0xff, 0]));
        let Command::Expect {
            data: Some(pattern),
            ..
        } = one("expect 2 0a 7")
        else {
            panic!("not an expectation");
        };
        assert!(pattern.matches(&[0x0a, 0x7b]));
        assert!(!pattern.matches(&[0x0a, 0x8b]));
        assert_eq!(
            one("expect 2"),
            Command::Expect {
                port: 2,
                data: None
            }
        );
    }
}
