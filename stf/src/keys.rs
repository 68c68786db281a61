//! Conversion of the key names and key values of a test to those of a table.

use alfirk_bmv2::KeyMatch;
use alfirk_bmv2_json::MatchType;

use crate::names::did_you_mean;
use crate::parse::KeyValue;

/// Returns the values of a table's key elements, in the order of the table. The test may omit leading components of a
/// key's name.
pub fn keys_in_order<'v>(
    table: &str,
    keys: &[&str],
    given: &'v [(String, KeyValue)],
) -> Result<Vec<Option<&'v KeyValue>>, String> {
    let mut used = vec![false; given.len()];
    let values = keys
        .iter()
        .map(|key| {
            let wanted = normalized_name(key);
            let position = given
                .iter()
                .position(|(name, _)| normalized_name(name) == wanted)
                .or_else(|| given.iter().position(|(name, _)| refers_to(name, &wanted)))?;
            used[position] = true;
            Some(&given[position].1)
        })
        .collect();
    match used.iter().position(|used| !used) {
        Some(position) => {
            let name = &given[position].0;
            let twice = keys
                .iter()
                .any(|key| refers_to(name, &normalized_name(key)));
            Err(match twice {
                true => format!("key `{name}` of table `{table}` occurs twice"),
                false => {
                    let near = did_you_mean(name, keys.iter().copied());
                    format!("table `{table}` has no key `{name}`{near}")
                }
            })
        }
        None => Ok(values),
    }
}

/// Returns whether a name in a test refers to a key. Either name may omit leading components, and `data` or `valid`
/// refers to `data.$valid$`.
fn refers_to(given: &str, key: &str) -> bool {
    let given = normalized_name(given);
    let given = match given.as_str() {
        "valid" => "$valid$",
        given => given,
    };
    let header = key.strip_suffix(".$valid$");
    key == given
        || ends_with_name(key, given)
        || ends_with_name(given, key)
        || header.is_some_and(|header| header == given || ends_with_name(header, given))
}

/// Returns whether `name` ends with the dotted components of `end`.
fn ends_with_name(name: &str, end: &str) -> bool {
    name.strip_suffix(end)
        .is_some_and(|before| before.ends_with('.'))
}

/// Normalizes the name of a key, because p4c, its testers and P4Testgen spell validity bits and stack elements
/// differently.
pub fn normalized_name(name: &str) -> String {
    let name = name.replace("isValid()", "$valid$").replace(['"', ' '], "");
    let header = [".valid", ".$valid"]
        .iter()
        .find_map(|end| name.strip_suffix(end));
    let name = match header {
        Some(header) => format!("{header}.$valid$"),
        None => name,
    };
    // `stack$1` is the name of `stack[1]` in the program.
    let mut plain = String::new();
    let mut rest = name.as_str();
    while let Some((before, after)) = rest.split_once('$') {
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        plain += before;
        match digits {
            0 => plain.push('$'),
            digits => plain += &format!("[{}]", &after[..digits]),
        }
        rest = &after[digits..];
    }
    plain + rest
}

/// Converts the value of a key to a match of the switch. An omitted value matches 0 for an exact key, else every value.
pub fn key_match(kind: MatchType, bits: u32, value: Option<&KeyValue>) -> Result<KeyMatch, String> {
    let full = vec![0xff; (bits as usize).div_ceil(8)];
    let full = masked_to(full, bits);
    let any = KeyValue::Wildcards {
        value: vec![0],
        mask: vec![0],
    };
    let zero = KeyValue::Number(vec![0]);
    // An omitted key: the defaults of p4c's tester.
    let value = value.unwrap_or(match kind {
        MatchType::Exact | MatchType::Valid => &zero,
        _ => &any,
    });
    let number = |value: &[u8]| trimmed(value).to_vec();
    let wrong = || Err(format!("the value does not fit a key matched by {kind:?}"));
    match (kind, value) {
        (MatchType::Exact, KeyValue::Number(value) | KeyValue::Digits { value, .. }) => {
            Ok(KeyMatch::Exact {
                value: number(value),
            })
        }
        (MatchType::Valid, KeyValue::Number(value) | KeyValue::Digits { value, .. }) => {
            Ok(KeyMatch::Valid {
                value: !trimmed(value).is_empty(),
            })
        }
        (MatchType::Lpm, KeyValue::Number(value)) => Ok(KeyMatch::Lpm {
            value: number(value),
            prefix_len: bits,
        }),
        (MatchType::Lpm, KeyValue::Prefix { value, length }) => Ok(KeyMatch::Lpm {
            value: number(&under_prefix(value, bits, *length)),
            prefix_len: *length,
        }),
        // The prefix is as long as the digits, as in p4c's tester.
        (
            MatchType::Lpm,
            KeyValue::Digits { value, mask } | KeyValue::Wildcards { value, mask },
        ) => {
            let given: u32 = mask.iter().map(|byte| byte.count_ones()).sum();
            let length = given.min(bits);
            Ok(KeyMatch::Lpm {
                value: number(&under_prefix(value, bits, length)),
                prefix_len: length,
            })
        }
        // The number of digits does not matter: the whole value is compared.
        (MatchType::Optional, KeyValue::Digits { value, .. }) => Ok(KeyMatch::Ternary {
            value: number(value),
            mask: full,
        }),
        (MatchType::Ternary | MatchType::Optional, value) => match value {
            KeyValue::Number(value) => Ok(KeyMatch::Ternary {
                value: number(value),
                mask: full,
            }),
            KeyValue::Wildcards { value, mask }
            | KeyValue::Digits { value, mask }
            | KeyValue::Masked { value, mask } => {
                // The first digit may have more bits than remain of the key.
                let mask = match fits_bits(value, bits) {
                    true => under_mask(mask, &full),
                    false => number(mask),
                };
                Ok(KeyMatch::Ternary {
                    value: under_mask(value, &mask),
                    mask,
                })
            }
            KeyValue::Prefix { value, length } => {
                let mask = prefix_mask(bits, *length);
                Ok(KeyMatch::Ternary {
                    value: under_mask(value, &mask),
                    mask,
                })
            }
            KeyValue::Range { .. } => wrong(),
        },
        (MatchType::Range, KeyValue::Number(value) | KeyValue::Digits { value, .. }) => {
            Ok(KeyMatch::Range {
                low: number(value),
                high: number(value),
            })
        }
        (MatchType::Range, KeyValue::Range { low, high }) => Ok(KeyMatch::Range {
            low: number(low),
            high: number(high),
        }),
        (MatchType::Range, KeyValue::Wildcards { mask, .. }) if trimmed(mask).is_empty() => {
            Ok(KeyMatch::Range {
                low: Vec::new(),
                high: full,
            })
        }
        _ => wrong(),
    }
}

/// Returns whether a number fits `bits` bits.
fn fits_bits(value: &[u8], bits: u32) -> bool {
    let value = trimmed(value);
    let zeros = value.first().map_or(0, |first| first.leading_zeros());
    value.len() * 8 <= bits as usize + zeros as usize
}

/// Clears the bits of a big-endian number above its lowest `bits` bits.
pub fn masked_to(mut bytes: Vec<u8>, bits: u32) -> Vec<u8> {
    if let (Some(first), 1..) = (bytes.first_mut(), bits % 8) {
        *first >>= 8 - bits % 8;
    }
    bytes
}

/// Returns the mask of a prefix of `length` bits, for a key of `bits` bits.
pub fn prefix_mask(bits: u32, length: u32) -> Vec<u8> {
    let bytes = (bits as usize).div_ceil(8);
    let mut mask = vec![0; bytes];
    for position in 0..length.min(bits) {
        let bit = bits - 1 - position;
        mask[bytes - 1 - (bit / 8) as usize] |= 1 << (bit % 8);
    }
    mask
}

/// Clears the bits of a key of `bits` bits that are not in its prefix of `length` bits.
pub fn under_prefix(value: &[u8], bits: u32, length: u32) -> Vec<u8> {
    under_mask(value, &prefix_mask(bits, length))
}

/// Returns the bitwise conjunction of value and mask, aligned at their last bits and without leading zeros.
pub fn under_mask(value: &[u8], mask: &[u8]) -> Vec<u8> {
    let mut result: Vec<u8> = value
        .iter()
        .rev()
        .zip(mask.iter().rev())
        .map(|(value, mask)| value & mask)
        .collect();
    result.reverse();
    trimmed(&result).to_vec()
}

/// Strips leading zero bytes.
pub fn trimmed(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    &bytes[zeros..]
}

/// Returns the error message for a handle that no entry has.
pub fn no_handle(handle: &str) -> String {
    format!("no entry has the handle {handle}")
}

/// Returns the error message for a direct counter that belongs to another table than the entry.
pub fn counter_of_other_table(counter: &str, handle: &str) -> String {
    format!("counter {counter} does not belong to the table of entry {handle}")
}

/// Formats bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Finds a full name, given by itself or by a unique suffix. `what`: kind of the object, for error messages.
pub fn by_suffix(
    names: impl Iterator<Item = String>,
    wanted: &str,
    what: &str,
) -> Result<String, String> {
    let names: Vec<String> = names.collect();
    match crate::names::by_suffix(names.iter().map(String::as_str), wanted) {
        Ok(name) => Ok(name.to_owned()),
        Err(found) if found.is_empty() => {
            let near = did_you_mean(wanted, names.iter().map(String::as_str));
            Err(format!("there is no {what} `{wanted}`{near}"))
        }
        Err(found) => Err(format!(
            "{what} `{wanted}` is ambiguous: it may be {}; write the full name",
            found.join(" or ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_digit_of_a_ternary_key_may_be_wider_than_the_key() {
        let digits = KeyValue::Digits {
            value: vec![0x01, 0xff],
            mask: vec![0x0f, 0xff],
        };
        let of = |kind| key_match(kind, 9, Some(&digits)).unwrap();
        let whole = KeyMatch::Ternary {
            value: vec![0x01, 0xff],
            mask: vec![0x01, 0xff],
        };
        assert_eq!(of(MatchType::Ternary), whole);
        assert_eq!(of(MatchType::Optional), whole);
    }

    #[test]
    fn an_optional_key_matches_its_value_with_any_number_of_digits() {
        let digits = KeyValue::Digits {
            value: vec![5],
            mask: vec![0x0f],
        };
        let found = key_match(MatchType::Optional, 9, Some(&digits)).unwrap();
        let (value, mask) = (vec![5], vec![0x01, 0xff]);
        assert_eq!(found, KeyMatch::Ternary { value, mask });
    }

    #[test]
    fn errors_name_the_key() {
        let given = |names: &[&str]| -> Vec<(String, KeyValue)> {
            let value = |name: &&str| ((*name).to_owned(), KeyValue::Number(vec![1]));
            names.iter().map(value).collect()
        };
        let keys = ["hdr.h.source", "hdr.h.target"];
        let wrong = |names: &[&str]| keys_in_order("c.t", &keys, &given(names)).unwrap_err();
        assert_eq!(
            wrong(&["hdr.h.sorce"]),
            "table `c.t` has no key `hdr.h.sorce`; did you mean `hdr.h.source`?"
        );
        assert_eq!(
            wrong(&["source", "hdr.h.source"]),
            "key `source` of table `c.t` occurs twice"
        );
    }
}
