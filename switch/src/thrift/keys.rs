//! Conversion of match keys between Thrift's form and the switch's form.

use alfirk_bmv2_json::MatchType;
use alfirk_thrift::standard::{
    BmMatchParam, BmMatchParamExact, BmMatchParamLPM, BmMatchParamRange, BmMatchParamTernary,
    BmMatchParamType as Type, BmMatchParamValid,
};

use alfirk_bmv2::{KeyInfo, KeyMatch, TableInfo};

/// Converts the match key of a client; `None` if it is not valid for the table.
///
/// As in BMv2, each value has exactly as many bytes as its field. Bits beyond the field's width, and those outside
/// of a mask or prefix, are ignored. A prefix starts at the first bit of the bytes, not of the field: for a 20-bit
/// field, /24 covers all bits.
pub fn from_wire(table: &TableInfo, key: &[BmMatchParam]) -> Option<Vec<KeyMatch>> {
    if key.len() != table.keys.len() {
        return None;
    }
    let fields = table.keys.iter().zip(key);
    fields.map(|(info, param)| field(info, param)).collect()
}

fn field(info: &KeyInfo, param: &BmMatchParam) -> Option<KeyMatch> {
    match (info.match_type, param.r#type) {
        (MatchType::Exact, Type::Exact) => {
            let value = value(info, &param.exact.as_ref()?.key)?;
            Some(KeyMatch::Exact { value })
        }
        (MatchType::Lpm, Type::Lpm) => {
            let lpm = param.lpm.as_ref()?;
            let prefix_len = u32::try_from(lpm.prefix_length).ok()?;
            if prefix_len > info.bits + padding_bits(info.bits) {
                return None;
            }
            let prefix_len = prefix_len.saturating_sub(padding_bits(info.bits));
            let value = value(info, &lpm.key)?;
            Some(KeyMatch::Lpm {
                value: masked(&value, &prefix(info.bits, prefix_len)),
                prefix_len,
            })
        }
        (MatchType::Ternary | MatchType::Optional, Type::Ternary) => {
            let ternary = param.ternary.as_ref()?;
            let mask = value(info, &ternary.mask)?;
            Some(KeyMatch::Ternary {
                value: masked(&value(info, &ternary.key)?, &mask),
                mask,
            })
        }
        (MatchType::Range, Type::Range) => {
            let range = param.range.as_ref()?;
            let (low, high) = (value(info, &range.start)?, value(info, &range.end_)?);
            (low <= high).then_some(KeyMatch::Range { low, high })
        }
        (MatchType::Valid, Type::Valid) => Some(KeyMatch::Valid {
            value: param.valid.as_ref()?.key,
        }),
        _ => None,
    }
}

/// Number of bytes of a field of `bits` bits.
fn bytes_of(bits: u32) -> usize {
    bits.div_ceil(8) as usize
}

/// Number of padding bits in front of the value of a field of `bits` bits, which fill the first byte.
fn padding_bits(bits: u32) -> u32 {
    bits.next_multiple_of(8) - bits
}

fn value(info: &KeyInfo, bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() != bytes_of(info.bits) {
        return None;
    }
    Some(masked(bytes, &prefix(info.bits, info.bits)))
}

fn masked(value: &[u8], mask: &[u8]) -> Vec<u8> {
    value.iter().zip(mask).map(|(v, m)| v & m).collect()
}

/// Returns a mask of the upper `len` bits of a field of `bits` bits, with the field's padding bits in front.
fn prefix(bits: u32, len: u32) -> Vec<u8> {
    let spare = padding_bits(bits);
    let mut mask = vec![0u8; bytes_of(bits)];
    for bit in spare..spare + len {
        mask[(bit / 8) as usize] |= 0x80 >> (bit % 8);
    }
    mask
}

/// Converts a match key to Thrift's form, in which each value has as many bytes as its field.
pub fn to_wire(table: &TableInfo, key: &[KeyMatch]) -> Vec<BmMatchParam> {
    let fields = table.keys.iter().zip(key);
    fields.map(|(info, field)| param(info, field)).collect()
}

fn param(info: &KeyInfo, field: &KeyMatch) -> BmMatchParam {
    let pad = |bytes: &[u8]| padded(bytes, info.bits);
    match field {
        KeyMatch::Exact { value } => BmMatchParam {
            r#type: Type::Exact,
            exact: Some(BmMatchParamExact { key: pad(value) }),
            ..Default::default()
        },
        KeyMatch::Lpm { value, prefix_len } => BmMatchParam {
            r#type: Type::Lpm,
            lpm: Some(BmMatchParamLPM {
                key: pad(value),
                prefix_length: i32::try_from(prefix_len + padding_bits(info.bits))
                    .unwrap_or(i32::MAX),
            }),
            ..Default::default()
        },
        KeyMatch::Ternary { value, mask } => BmMatchParam {
            r#type: Type::Ternary,
            ternary: Some(BmMatchParamTernary {
                key: pad(value),
                mask: pad(mask),
            }),
            ..Default::default()
        },
        KeyMatch::Range { low, high } => BmMatchParam {
            r#type: Type::Range,
            range: Some(BmMatchParamRange {
                start: pad(low),
                end_: pad(high),
            }),
            ..Default::default()
        },
        KeyMatch::Valid { value } => BmMatchParam {
            r#type: Type::Valid,
            valid: Some(BmMatchParamValid { key: *value }),
            ..Default::default()
        },
    }
}

/// Pads a big-endian number to as many bytes as a field of `bits` bits has.
pub fn padded(bytes: &[u8], bits: u32) -> Vec<u8> {
    let missing = bytes_of(bits).saturating_sub(bytes.len());
    let mut padded = vec![0; missing];
    let surplus = bytes.len().saturating_sub(bytes_of(bits));
    padded.extend_from_slice(&bytes[surplus..]);
    padded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(match_type: MatchType, bits: u32) -> TableInfo {
        TableInfo {
            name: "t".into(),
            keys: vec![KeyInfo {
                name: "k".into(),
                bits,
                match_type,
            }],
            actions: Vec::new(),
            size: 1,
            has_priorities: false,
            const_entries: false,
            greatest_rank: None,
            const_default: false,
            kind: Default::default(),
            profile: None,
            direct_counter: false,
            direct_meter: false,
            direct_registers: Vec::new(),
            idle_timeout: false,
        }
    }

    fn lpm(key: &[u8], prefix_length: i32) -> [BmMatchParam; 1] {
        [BmMatchParam {
            r#type: Type::Lpm,
            lpm: Some(BmMatchParamLPM {
                key: key.to_vec(),
                prefix_length,
            }),
            ..Default::default()
        }]
    }

    #[test]
    fn bits_beyond_field_and_prefix_are_ignored() {
        let table = table(MatchType::Lpm, 9);
        let key = from_wire(&table, &lpm(&[0xff, 0xff], 7 + 3)).unwrap();
        let value = vec![1, 0b1100_0000];
        assert_eq!(
            key,
            [KeyMatch::Lpm {
                value,
                prefix_len: 3
            }]
        );
        assert_eq!(to_wire(&table, &key), lpm(&[1, 0xc0], 7 + 3));
        let all = from_wire(&table, &lpm(&[0xff, 0xff], 7)).unwrap();
        let (value, prefix_len) = (vec![0, 0], 0);
        assert_eq!(all, [KeyMatch::Lpm { value, prefix_len }]);
    }

    #[test]
    fn keys_of_other_lengths_and_kinds_are_rejected() {
        let table = table(MatchType::Lpm, 9);
        assert_eq!(from_wire(&table, &lpm(&[1], 3)), None);
        assert_eq!(from_wire(&table, &lpm(&[1, 0, 0], 3)), None);
        assert_eq!(from_wire(&table, &lpm(&[1, 0], 17)), None);
        assert_eq!(from_wire(&table, &lpm(&[1, 0], -1)), None);
        assert_eq!(from_wire(&table, &[]), None);
        let mut other = lpm(&[1, 0], 3);
        other[0].r#type = Type::Ternary;
        assert_eq!(from_wire(&table, &other), None);
    }

    #[test]
    fn numbers_are_as_long_as_their_field() {
        assert_eq!(padded(&[0], 0), [0u8; 0]);
        assert_eq!(padded(&[7], 17), [0, 0, 7]);
    }
}
