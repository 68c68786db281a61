//! Values of fields, as a program or an expression writes them.

use std::net::{Ipv4Addr, Ipv6Addr};

use alfirk_roce::wire::MacAddr;

/// Value for a field. The field's kind decides which of these it accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// An unsigned number; also an address, as the big-endian number of its bytes.
    Number(u128),
    /// Bytes in the order of the wire.
    Bytes(Vec<u8>),
    /// Text: an address, the name of a number or of flags, or the bytes of a payload.
    Text(String),
    /// Elements of a list, such as options or the two numbers of a timestamp.
    List(Vec<Value>),
    /// The field is left to be computed.
    Computed,
}

macro_rules! from_numbers {
    ($($number:ty),*) => {
        $(impl From<$number> for Value {
            fn from(number: $number) -> Value {
                Value::Number(number.into())
            }
        })*
    };
}

from_numbers!(u8, u16, u32, u64, u128, bool);

/// A literal without a suffix is an `i32`. A negative number becomes its two's complement in 128 bits, which no field
/// accepts.
impl From<i32> for Value {
    fn from(number: i32) -> Value {
        Value::Number(number as u128)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Value {
        Value::Bytes(bytes.to_vec())
    }
}

impl<const N: usize> From<[u8; N]> for Value {
    fn from(bytes: [u8; N]) -> Value {
        Value::Bytes(bytes.to_vec())
    }
}

impl<const N: usize> From<&[u8; N]> for Value {
    fn from(bytes: &[u8; N]) -> Value {
        Value::Bytes(bytes.to_vec())
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Value {
        Value::Bytes(bytes)
    }
}

impl From<Vec<Value>> for Value {
    fn from(values: Vec<Value>) -> Value {
        Value::List(values)
    }
}

impl From<Ipv4Addr> for Value {
    fn from(address: Ipv4Addr) -> Value {
        Value::Number(u32::from(address).into())
    }
}

impl From<Ipv6Addr> for Value {
    fn from(address: Ipv6Addr) -> Value {
        Value::Number(address.into())
    }
}

impl From<MacAddr> for Value {
    fn from(address: MacAddr) -> Value {
        Value::Number(big_endian(&address.0))
    }
}

/// The number that bytes hold, the first byte being the most significant; of more than 16 bytes, the last 16.
pub(crate) fn big_endian(bytes: &[u8]) -> u128 {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// Parses a number in decimal, or in hexadecimal, octal or binary after `0x`, `0o` or `0b`; `_` separates digits.
pub(crate) fn parse_number(text: &str) -> Option<u128> {
    let digits = text.replace('_', "");
    let lower = digits.to_ascii_lowercase();
    let (digits, radix) = match lower.get(..2) {
        Some("0x") => (&lower[2..], 16),
        Some("0o") => (&lower[2..], 8),
        Some("0b") => (&lower[2..], 2),
        _ => (lower.as_str(), 10),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    u128::from_str_radix(digits, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_radixes() {
        let numbers = ["10", "0x1F", "0b101", "0o17", "1_000"].map(parse_number);
        assert_eq!(numbers, [10, 31, 5, 15, 1000].map(Some));
        assert_eq!(
            ["", "0x", "-1", "+1", "1.5", "é"].map(parse_number),
            [None; 6]
        );
    }

    #[test]
    fn addresses_are_numbers() {
        assert_eq!(
            Value::from(Ipv4Addr::new(10, 0, 0, 1)),
            Value::Number(0x0a00_0001)
        );
        assert_eq!(
            Value::from(MacAddr([2, 0, 0, 0, 0, 1])),
            Value::Number(0x0200_0000_0001)
        );
    }
}
