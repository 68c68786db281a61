//! Match keys of entries: the control plane's form, and the packed form that lookups compare.

use super::entry::NewKey;
use crate::numbers::{is_le, ones, prefix, shortest, to_words, Words};
use crate::program::{Key, Table};
use alfirk_bmv2_json::MatchType;
use smallvec::SmallVec;

/// Value of one key field in an entry. Numbers are big-endian bytes of any length whose value fits the field.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyMatch {
    /// Matches a field that equals the value.
    Exact {
        /// The value that the field must have.
        value: Vec<u8>,
    },
    /// Matches a field that begins with a prefix.
    Lpm {
        /// The prefix, in the width of the field; bits after the prefix are 0.
        value: Vec<u8>,
        /// Length of the prefix in bits.
        prefix_len: u32,
    },
    /// Matches a field that equals the value in all bits of the mask.
    Ternary {
        /// The value that the field must have under the mask; bits outside of the mask are 0.
        value: Vec<u8>,
        /// Mask in which the bits to compare are 1.
        mask: Vec<u8>,
    },
    /// Matches a field that is within a range.
    Range {
        /// Lower bound of the range, included.
        low: Vec<u8>,
        /// Upper bound of the range, included.
        high: Vec<u8>,
    },
    /// Matches a header by its validity.
    Valid {
        /// Whether the header must be valid.
        value: bool,
    },
}

/// Error in the value of a key field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// The value is of another match kind than the table's key field.
    #[error("the table matches this field by {expected:?}")]
    Kind {
        /// Match kind of the key field.
        expected: MatchType,
    },
    /// A value or mask has more significant bits than the field.
    #[error("the value does not fit {bits} bits")]
    TooWide {
        /// Width of the field in bits.
        bits: u32,
    },
    /// The prefix is longer than the field.
    #[error("a prefix of {prefix_len} bits is longer than the field's {bits}")]
    PrefixTooLong {
        /// Width of the field in bits.
        bits: u32,
        /// Length of the prefix in bits.
        prefix_len: u32,
    },
    /// The value has ones where its mask or prefix has zeros.
    #[error("the value has bits set outside of its mask or prefix")]
    BeyondMask,
    /// The lower bound of a range is above the upper bound.
    #[error("the low end of the range is above the high end")]
    EmptyRange,
}

/// Returns a mask of the leading bits in which two numbers of `bits` bits agree.
fn shared_prefix(bits: u32, a: &[u64], b: &[u64]) -> Words {
    let differ = a.iter().zip(b).enumerate().rev().find(|(_, (a, b))| a != b);
    let below = differ.map_or(0, |(i, (a, b))| {
        64 * (i as u32 + 1) - (a ^ b).leading_zeros()
    });
    prefix(bits, bits - below)
}

impl NewKey {
    /// Checks the value of an entry's key field, and converts it to the form that lookups compare.
    pub(crate) fn new(key: &Key, value_of_entry: &KeyMatch) -> Result<NewKey, KeyFault> {
        let bits = key.bits;
        let words = |bytes: &[u8]| to_words(bytes, bits).ok_or(KeyFault::TooWide { bits });
        let full = |value: Words| NewKey {
            value,
            mask: ones(bits),
            range: None,
            prefix_len: bits,
        };
        let mut new = match (key.match_type, value_of_entry) {
            (MatchType::Exact, KeyMatch::Exact { value }) => full(words(value)?),
            (MatchType::Valid, KeyMatch::Valid { value }) => {
                full(SmallVec::from_slice(&[u64::from(*value)]))
            }
            (MatchType::Lpm, KeyMatch::Lpm { value, prefix_len }) => {
                if *prefix_len > bits {
                    return Err(KeyFault::PrefixTooLong {
                        bits,
                        prefix_len: *prefix_len,
                    });
                }
                let mask = prefix(bits, *prefix_len);
                NewKey {
                    value: words(value)?,
                    mask,
                    range: None,
                    prefix_len: *prefix_len,
                }
            }
            (MatchType::Ternary | MatchType::Optional, KeyMatch::Ternary { value, mask }) => {
                NewKey {
                    value: words(value)?,
                    mask: words(mask)?,
                    range: None,
                    prefix_len: bits,
                }
            }
            // An optional field with a value is an exact match.
            (MatchType::Ternary | MatchType::Optional, KeyMatch::Exact { value }) => {
                full(words(value)?)
            }
            (MatchType::Range, KeyMatch::Range { low, high }) => {
                let (low, high) = (words(low)?, words(high)?);
                if !is_le(&low, &high) {
                    return Err(KeyFault::EmptyRange);
                }
                let mask = shared_prefix(bits, &low, &high);
                NewKey {
                    value: low.iter().zip(&mask).map(|(l, m)| l & m).collect(),
                    mask,
                    range: Some(Box::new((low, high))),
                    prefix_len: bits,
                }
            }
            _ => {
                return Err(KeyFault::Kind {
                    expected: key.match_type,
                })
            }
        };
        if new.value.iter().zip(&new.mask).any(|(v, m)| v & !m != 0) {
            return Err(KeyFault::BeyondMask);
        }
        // The program's own mask is applied to the field; bits of a value outside of it are ignored, as in BMv2.
        if let (Some(fixed), None) = (&key.mask, &new.range) {
            let bits = new.value.iter_mut().zip(fixed);
            bits.for_each(|(value, fixed)| *value &= fixed);
        }
        Ok(new)
    }

    /// Returns whether the key field of a packet, at its position in the table's key, matches the entry's.
    pub(crate) fn matches(&self, part: &Part, phv: &[u64]) -> bool {
        let field = phv[part.slot..part.slot + part.words].iter();
        let field: Words = field
            .zip(&part.mask)
            .map(|(word, mask)| word & mask)
            .collect();
        match self.range.as_deref() {
            Some((low, high)) => is_le(low, &field) && is_le(&field, high),
            None => {
                let masked = field.iter().zip(&self.mask).map(|(word, mask)| word & mask);
                masked.eq(self.value.iter().copied())
            }
        }
    }

    /// Converts the field back to the control plane's form.
    pub(crate) fn to_match(&self, key: &Key) -> KeyMatch {
        let value = shortest(&self.value);
        match key.match_type {
            MatchType::Exact => KeyMatch::Exact { value },
            MatchType::Valid => KeyMatch::Valid {
                value: self.value[0] != 0,
            },
            MatchType::Lpm => KeyMatch::Lpm {
                value,
                prefix_len: self.prefix_len,
            },
            MatchType::Ternary | MatchType::Optional => KeyMatch::Ternary {
                value,
                mask: shortest(&self.mask),
            },
            MatchType::Range => {
                let (low, high) = self.range.as_deref().expect("range fields have a range");
                KeyMatch::Range {
                    low: shortest(low),
                    high: shortest(high),
                }
            }
        }
    }
}

/// Layout of a table's key in the packed words that lookups hash and compare.
#[derive(Clone, Debug)]
pub(crate) struct Packing {
    /// Key fields in the table's order.
    pub parts: Vec<Part>,
    /// Whether all key fields together fit one 64-bit word.
    pub one_word: bool,
    /// Width of all key fields together in bits, if they fit one word; 0 otherwise.
    pub bits: u32,
    /// Number of words of the packed key.
    pub words: usize,
}

/// Position of a key field in the packet and in the packed key.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// Index of the field's first word in the packet's words.
    pub slot: usize,
    /// Width of the field in bits.
    pub bits: u32,
    /// Number of the field's words in the packet.
    pub words: usize,
    /// Mask applied to the packet's field: ones for its width, combined with the mask that the program defines for the
    /// key.
    pub mask: Words,
    /// Least significant word of `mask`.
    pub low_mask: u64,
    /// Offset in bits from the right in a one-word key; in words from the left in a wide key.
    pub offset: u32,
}

/// A packed key that needs several words.
pub(crate) type WideKey = SmallVec<[u64; 4]>;

impl Packing {
    pub(crate) fn new(table: &Table) -> Packing {
        let total: u64 = table.keys.iter().map(|k| u64::from(k.bits)).sum();
        let one_word = total <= 64;
        // The lpm key is the last one in the word, so that all keys together are one prefix.
        let is_lpm = |key: &Key| key.match_type == MatchType::Lpm;
        let lpm = table.keys.iter().filter(|key| is_lpm(key));
        let lpm_bits: u64 = lpm.map(|key| u64::from(key.bits)).sum();
        let mut at = if one_word { total as u32 } else { 0 };
        let mut lpm_at = if one_word { lpm_bits as u32 } else { 0 };
        let mut parts = Vec::new();
        for key in &table.keys {
            let words = (key.bits as usize).div_ceil(64).max(1);
            let mut mask = ones(key.bits);
            if let Some(fixed) = &key.mask {
                for (m, f) in mask.iter_mut().zip(fixed) {
                    *m &= f;
                }
            }
            let offset = match (one_word, is_lpm(key)) {
                (true, true) => {
                    lpm_at -= key.bits;
                    lpm_at
                }
                (true, false) => {
                    at -= key.bits;
                    at
                }
                (false, _) => {
                    at += words as u32;
                    at - words as u32
                }
            };
            parts.push(Part {
                slot: usize::from(key.slot),
                bits: key.bits,
                words,
                low_mask: mask[0],
                mask,
                offset,
            });
        }
        let (bits, words) = match one_word {
            true => (total as u32, 1),
            false => (0, at as usize),
        };
        Packing {
            parts,
            one_word,
            bits,
            words,
        }
    }

    /// Packs the packet's key into one word.
    #[inline]
    pub(crate) fn word(&self, phv: &[u64]) -> u64 {
        let mut packed = 0;
        for part in &self.parts {
            packed |= (phv[part.slot] & part.low_mask) << (part.offset & 63);
        }
        packed
    }

    /// Packs the packet's key into two words.
    #[inline]
    pub(crate) fn pair(&self, phv: &[u64]) -> [u64; 2] {
        let mut packed = [0; 2];
        let mut at = 0;
        for part in &self.parts {
            for (i, mask) in part.mask.iter().enumerate() {
                // The key has two words.
                packed[at & 1] = phv[part.slot + i] & mask;
                at += 1;
            }
        }
        packed
    }

    /// Packs the packet's key into several words, and appends them to `packed`.
    #[inline]
    pub(crate) fn wide(&self, phv: &[u64], packed: &mut SmallVec<[u64; 32]>) {
        for part in &self.parts {
            for (i, mask) in part.mask.iter().enumerate() {
                packed.push(phv[part.slot + i] & mask);
            }
        }
    }

    /// Packs the values or the masks of an entry as the key of a packet is packed, so that they can be compared.
    pub(crate) fn pack<'a>(&self, fields: impl Iterator<Item = &'a Words>) -> WideKey {
        if !self.one_word {
            return fields.flat_map(|words| words.iter().copied()).collect();
        }
        let packed = self
            .parts
            .iter()
            .zip(fields)
            .fold(0, |packed, (part, words)| {
                packed | words[0] << (part.offset & 63)
            });
        SmallVec::from_slice(&[packed])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_cover_the_right_bits() {
        assert_eq!(prefix(32, 8)[0], 0xff00_0000);
        assert_eq!(prefix(32, 0)[0], 0);
        assert_eq!(prefix(128, 65)[..], [1 << 63, u64::MAX]);
        assert_eq!(ones(64)[..], [u64::MAX]);
        assert_eq!(ones(65)[..], [u64::MAX, 1]);
    }

    #[test]
    fn ranges_share_the_prefix_of_their_ends() {
        assert_eq!(shared_prefix(16, &[0x1200], &[0x12ff])[..], [0xff00]);
        assert_eq!(shared_prefix(16, &[0x7fff], &[0x8000])[..], [0]);
        assert_eq!(shared_prefix(16, &[5], &[5])[..], [0xffff]);
        assert_eq!(shared_prefix(72, &[0, 3], &[9, 3])[..], [!0xf, 0xff]);
        assert_eq!(shared_prefix(72, &[7, 2], &[7, 3])[..], [0, 0xfe]);
    }

    #[test]
    fn numbers_may_have_leading_zeros_and_are_returned_without() {
        assert_eq!(to_words(&[0, 0, 0, 1, 0x0a], 9).unwrap()[..], [0x10a]);
        assert!(to_words(&[2, 0], 9).is_none());
        assert_eq!(to_words(&[1; 16], 128).unwrap().len(), 2);
        assert!(to_words(&[1; 17], 128).is_none());
        assert_eq!(shortest(&[0]), [0]);
        assert_eq!(shortest(&[0, 1]), [1, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}
