//! Converts keys and action arguments from text to the bytes of BMv2's Thrift services, and back.

use std::net::Ipv6Addr;

use alfirk_bmv2_json::MatchType;
use alfirk_thrift::standard::{
    BmMatchParam, BmMatchParamExact, BmMatchParamLPM, BmMatchParamRange, BmMatchParamTernary,
    BmMatchParamType, BmMatchParamValid,
};
use num_bigint::{BigInt, BigUint, Sign};

use super::error::{Error, Result};
use super::program::{Action, Key, Table};

/// Parses an integer in Python's notation: `12`, `0x1f`, `0o17`, `0b101`, with an optional sign and `_` between digits.
pub fn integer(text: &str) -> Option<BigInt> {
    let text = text.trim();
    let (negative, magnitude) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = match magnitude.get(..2) {
        Some("0x" | "0X") => (16, &magnitude[2..]),
        Some("0o" | "0O") => (8, &magnitude[2..]),
        Some("0b" | "0B") => (2, &magnitude[2..]),
        _ => (10, magnitude),
    };
    let digits = match radix {
        10 => digits,
        _ => digits.strip_prefix('_').unwrap_or(digits),
    };
    if digits.is_empty() || digits.split('_').any(str::is_empty) {
        return None;
    }
    let digits = digits.replace('_', "");
    // 010 is ambiguous: octal in C, decimal elsewhere.
    let is_ambiguous = radix == 10 && digits.starts_with('0') && digits.contains(|c| c != '0');
    if is_ambiguous || !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let number = BigInt::parse_bytes(digits.as_bytes(), radix)?;
    Some(if negative { -number } else { number })
}

/// Parses a decimal number, such as a handle, an index or a port.
pub fn decimal<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// Parses a value of `bits` bits to bytes: a number, or an IPv4, MAC or IPv6 address if the width is that of such an
/// address.
///
/// # Errors
/// The text is not such a value, or is too large; the message is that of BMv2's CLI.
fn parse_field(text: &str, bits: u32) -> std::result::Result<Vec<u8>, String> {
    match bits {
        32 if text.contains('.') => {
            let parts = text.split('.').map(|part| part.trim().parse().ok());
            let bytes: Option<Vec<u8>> = parts.collect();
            bytes
                .filter(|bytes| bytes.len() == 4)
                .ok_or_else(|| "Invalid IPv4 address".to_owned())
        }
        48 if text.contains(':') => {
            let parts = text
                .split(':')
                .map(|part| u8::from_str_radix(part, 16).ok());
            let bytes: Option<Vec<u8>> = parts.collect();
            bytes
                .filter(|bytes| bytes.len() == 6)
                .ok_or_else(|| "Invalid MAC address".to_owned())
        }
        128 if text.contains(':') => {
            let address: std::result::Result<Ipv6Addr, _> = text.parse();
            address
                .map(|address| address.octets().to_vec())
                .map_err(|_| "Invalid IPv6 address".to_owned())
        }
        _ => {
            let number = integer(text).ok_or_else(|| {
                "Invalid input, could not cast to integer, try in hex with 0x prefix".to_owned()
            })?;
            to_bytes(&number, bits).ok_or_else(|| "Parameter is too large".to_owned())
        }
    }
}

/// Converts a number of `bits` bits to big-endian bytes; a negative number in two's complement. `None` if it does not
/// fit.
fn to_bytes(number: &BigInt, bits: u32) -> Option<Vec<u8>> {
    let number = match number.sign() {
        Sign::Minus => {
            let range = BigInt::from(1) << bits;
            // The smallest negative value is -2^(bits - 1).
            (number * 2 >= -range.clone()).then(|| number + range)?
        }
        _ => number.clone(),
    };
    padded(&number.to_biguint()?, bits.div_ceil(8) as usize)
}

/// Big-endian bytes of a number, padded with zeros to `length` bytes; `None` if it does not fit.
fn padded(number: &BigUint, length: usize) -> Option<Vec<u8>> {
    let digits = match number.bits() {
        0 => Vec::new(),
        _ => number.to_bytes_be(),
    };
    let mut bytes = vec![0; length.checked_sub(digits.len())?];
    bytes.extend(digits);
    Some(bytes)
}

/// Parses the arguments of an action, each to the bytes of its parameter.
///
/// # Errors
/// The number of arguments is wrong, or one is not valid for its parameter.
pub fn action_data(action: &Action, texts: &[&str]) -> Result<Vec<Vec<u8>>> {
    if texts.len() != action.params.len() {
        return Err(Error::input(format_args!(
            "Action {} needs {} parameters",
            action.name,
            action.params.len()
        )));
    }
    let data = texts.iter().zip(&action.params).map(|(text, param)| {
        parse_field(text, param.bits)
            .map_err(|what| Error::RuntimeData(format!("Error while parsing {text} - {what}")))
    });
    data.collect()
}

/// Parses the key of a table entry, one text for each key field. `given`: name of the table in messages.
///
/// # Errors
/// The number of fields is wrong, or a value does not have the form of its match kind.
pub fn match_key(table: &Table, given: &str, texts: &[&str]) -> Result<Vec<BmMatchParam>> {
    if texts.len() != table.keys.len() {
        return Err(Error::input(format_args!(
            "Table {given} needs {} key fields",
            table.keys.len()
        )));
    }
    let params = texts.iter().zip(&table.keys);
    params.map(|(text, key)| match_param(key, text)).collect()
}

/// Parses the value of one key field in the form of its match kind.
fn match_param(key: &Key, text: &str) -> Result<BmMatchParam> {
    let value = |text: &str| {
        parse_field(text, key.bits)
            .map_err(|what| Error::MatchKey(format!("Error while parsing {text} - {what}")))
    };
    let wrong = |what: String| Err(Error::MatchKey(what));
    let mut param = BmMatchParam::default();
    match key.kind {
        MatchType::Exact => {
            param.r#type = BmMatchParamType::Exact;
            param.exact = Some(BmMatchParamExact { key: value(text)? });
        }
        MatchType::Lpm => {
            let parts = text.split_once('/').filter(|(_, rest)| !rest.contains('/'));
            let Some((prefix, length)) = parts else {
                return wrong(format!(
                    "Invalid LPM value {text}, use '/' to separate prefix and length"
                ));
            };
            let Some(prefix_length) = decimal(length).filter(|length| *length >= 0) else {
                return wrong(format!(
                    "Error while parsing {text} - the prefix length is not an integer"
                ));
            };
            let key = value(prefix)?;
            param.r#type = BmMatchParamType::Lpm;
            param.lpm = Some(BmMatchParamLPM { key, prefix_length });
        }
        MatchType::Ternary | MatchType::Optional => {
            let (key, mask) = match text.split_once("&&&") {
                Some((key, mask)) if !mask.contains("&&&") => (value(key)?, value(mask)?),
                // Without a mask, all bits of an optional key must match.
                None if key.kind == MatchType::Optional => (value(text)?, value("-1")?),
                _ => {
                    return wrong(format!(
                        "Invalid ternary value {text}, use '&&&' to separate key and mask"
                    ));
                }
            };
            if key.len() != mask.len() {
                return wrong(format!(
                    "Key and mask have different lengths in expression {text}"
                ));
            }
            param.r#type = BmMatchParamType::Ternary;
            param.ternary = Some(BmMatchParamTernary { key, mask });
        }
        MatchType::Valid => {
            let Some(number) = decimal::<i64>(text) else {
                return wrong(format!("Error while parsing {text} - 1 is valid, 0 is not"));
            };
            param.r#type = BmMatchParamType::Valid;
            param.valid = Some(BmMatchParamValid { key: number != 0 });
        }
        MatchType::Range => {
            let parts = text
                .split_once("->")
                .filter(|(_, rest)| !rest.contains("->"));
            let Some((start, end)) = parts else {
                return wrong(format!(
                    "Invalid range value {text}, use '->' to separate range start and range end"
                ));
            };
            let (start, end_) = (value(start)?, value(end)?);
            if start > end_ {
                return wrong(format!("start is more than end in expression {text}"));
            }
            param.r#type = BmMatchParamType::Range;
            param.range = Some(BmMatchParamRange { start, end_ });
        }
    }
    Ok(param)
}

/// Parses a member of a parser value set to bytes: one number of `bits` bits, the concatenation of all fields.
///
/// # Errors
/// The text is not a number, or the number is negative or too large.
pub fn value_set_member(text: &str, bits: u32) -> Result<Vec<u8>> {
    let number = integer(text).ok_or_else(|| {
        Error::input("Invalid input, could not cast to integer, try in hex with 0x prefix")
    })?;
    let fits = number.bits() <= u64::from(bits) && number.sign() != Sign::Minus;
    let bytes = to_bytes(&number, bits).filter(|_| fits);
    bytes.ok_or_else(|| {
        Error::input(format_args!(
            "Input is too large, it should fit within {bits} bits"
        ))
    })
}

/// Formats bytes as hexadecimal digits, two per byte, with the separator `between`.
pub fn hex(bytes: &[u8], between: &str) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(between)
}

/// Formats a number as Python prints it: the shortest decimal form that parses to the same number, such as `1.0` or
/// `5e-06`.
pub fn float(number: f64) -> String {
    let text = format!("{number:e}");
    let Some((digits, exponent)) = text.split_once('e') else {
        return text;
    };
    match exponent.parse::<i32>() {
        Ok(exponent @ (..=-5 | 16..)) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => format!("{number:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime_cli::program::Param;

    fn param(kind: MatchType, bits: u32, text: &str) -> Result<BmMatchParam> {
        let key = Key {
            name: "h.f".to_owned(),
            kind,
            bits,
        };
        match_param(&key, text)
    }

    fn message(result: Result<impl std::fmt::Debug>) -> String {
        result.expect_err("it is wrong").to_string()
    }

    #[test]
    fn numbers_have_a_base_and_a_sign() {
        for (text, number) in [
            ("12", 12),
            ("+0", 0),
            ("000", 0),
            ("0x1F", 31),
            ("0b101", 5),
            ("0o17", 15),
            ("-0x10", -16),
            ("1_000", 1000),
            ("0x_ff", 255),
        ] {
            assert_eq!(integer(text), Some(number.into()), "{text}");
        }
        for text in [
            "", "-", "0x", "012", "1__0", "_1", "1_", "x", "1.5", "0xg", "é", "--1",
        ] {
            assert_eq!(integer(text), None, "{text}");
        }
    }

    #[test]
    fn addresses_are_values_of_their_width_only() {
        assert_eq!(parse_field("10.0.1.255", 32), Ok(vec![10, 0, 1, 255]));
        assert_eq!(
            parse_field("0a:00:00:00:01:ff", 48),
            Ok(vec![10, 0, 0, 0, 1, 255])
        );
        assert_eq!(parse_field("::1", 128).map(|bytes| bytes[15]), Ok(1));
        assert_eq!(
            parse_field("10.0.1.256", 32),
            Err("Invalid IPv4 address".to_owned())
        );
        assert_eq!(
            parse_field("10.0.1", 32),
            Err("Invalid IPv4 address".to_owned())
        );
        assert_eq!(
            parse_field("a:b", 48),
            Err("Invalid MAC address".to_owned())
        );
        assert_eq!(
            parse_field("1:2", 128),
            Err("Invalid IPv6 address".to_owned())
        );
        assert!(parse_field("10.0.1.1", 16).is_err());
    }

    #[test]
    fn numbers_are_padded_to_the_width_and_negative_ones_complemented() {
        assert_eq!(parse_field("1", 9), Ok(vec![0, 1]));
        assert_eq!(parse_field("0xffff", 9), Ok(vec![0xff, 0xff]));
        assert_eq!(
            parse_field("0x10000", 9),
            Err("Parameter is too large".to_owned())
        );
        assert_eq!(parse_field("-1", 12), Ok(vec![0x0f, 0xff]));
        assert_eq!(parse_field("-128", 8), Ok(vec![0x80]));
        assert_eq!(
            parse_field("-129", 8),
            Err("Parameter is too large".to_owned())
        );
    }

    #[test]
    fn keys_are_parsed_by_kind() {
        let lpm = param(MatchType::Lpm, 32, "10.0.0.0/8")
            .unwrap()
            .lpm
            .unwrap();
        assert_eq!((lpm.key, lpm.prefix_length), (vec![10, 0, 0, 0], 8));
        let ternary = param(MatchType::Ternary, 16, "0x800&&&0xfff");
        let ternary = ternary.unwrap().ternary.unwrap();
        assert_eq!((ternary.key, ternary.mask), (vec![8, 0], vec![0x0f, 0xff]));
        let optional = param(MatchType::Optional, 9, "5").unwrap().ternary.unwrap();
        assert_eq!((optional.key, optional.mask), (vec![0, 5], vec![1, 0xff]));
        let range = param(MatchType::Range, 16, "1->0x200")
            .unwrap()
            .range
            .unwrap();
        assert_eq!((range.start, range.end_), (vec![0, 1], vec![2, 0]));
        assert!(param(MatchType::Valid, 1, "1").unwrap().valid.unwrap().key);
    }

    #[test]
    fn malformed_keys_are_reported() {
        assert_eq!(
            message(param(MatchType::Lpm, 32, "10.0.0.0")),
            "Invalid match key: Invalid LPM value 10.0.0.0, use '/' to separate prefix and length"
        );
        assert_eq!(
            message(param(MatchType::Ternary, 8, "1")),
            "Invalid match key: Invalid ternary value 1, use '&&&' to separate key and mask"
        );
        assert_eq!(
            message(param(MatchType::Range, 8, "1..2")),
            "Invalid match key: Invalid range value 1..2, use '->' to separate range start and range end"
        );
        assert_eq!(
            message(param(MatchType::Range, 8, "3->2")),
            "Invalid match key: start is more than end in expression 3->2"
        );
        assert_eq!(
            message(param(MatchType::Exact, 8, "x")),
            "Invalid match key: Error while parsing x - Invalid input, could not cast to integer, try in hex with 0x prefix"
        );
    }

    #[test]
    fn arguments_are_as_many_as_parameters() {
        let action = Action {
            name: "c.a".to_owned(),
            params: vec![Param {
                name: "port".to_owned(),
                bits: 9,
            }],
        };
        assert_eq!(action_data(&action, &["3"]).unwrap(), [[0, 3]]);
        assert_eq!(
            message(action_data(&action, &[])),
            "Error: Action c.a needs 1 parameters"
        );
        assert_eq!(
            message(action_data(&action, &["65536"])),
            "Invalid runtime data: Error while parsing 65536 - Parameter is too large"
        );
    }

    #[test]
    fn value_set_members_are_checked_against_their_width() {
        assert_eq!(value_set_member("0x1ff", 9).unwrap(), [1, 0xff]);
        assert_eq!(
            message(value_set_member("0x200", 9)),
            "Error: Input is too large, it should fit within 9 bits"
        );
    }

    #[test]
    fn floats_look_as_in_python() {
        for (number, text) in [
            (0.0, "0.0"),
            (1.0, "1.0"),
            (0.001, "0.001"),
            (0.0001, "0.0001"),
            (0.00002, "2e-05"),
            (5e-6, "5e-06"),
            (1.5e-7, "1.5e-07"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
        ] {
            assert_eq!(float(number), text);
        }
    }
}
