//! Canonical byte strings (P4Runtime § 8.4.1).
//!
//! A value of `bit<W>` is encoded in network byte order, in the fewest bytes that hold it; zero is one zero byte. A
//! receiver accepts longer forms and strips leading zeros, but rejects the empty string and values that need more than
//! `W` bits.

use thiserror::Error;

/// Error of a byte string that is not a valid value of its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BytestringError {
    /// The byte string is empty. Even zero has one byte.
    #[error("byte string is empty; zero is written as one zero byte")]
    Empty,
    /// The value has more significant bits than the field.
    #[error("value needs {bits} bits, field has {width}")]
    TooWide {
        /// Significant bits of the value.
        bits: usize,
        /// Width of the field in bits.
        width: usize,
    },
}

/// Returns the canonical form: no leading zero bytes, but at least one byte.
pub fn canonical(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|&&b| b == 0).count();
    if zeros == bytes.len() {
        &bytes[bytes.len().saturating_sub(1)..]
    } else {
        &bytes[zeros..]
    }
}

/// Returns whether the bytes have no leading zeros, and are at least one byte.
pub fn is_canonical(bytes: &[u8]) -> bool {
    !bytes.is_empty() && canonical(bytes).len() == bytes.len()
}

/// Encodes a number as a byte string in canonical form.
pub fn encode(value: impl Into<u128>) -> Vec<u8> {
    canonical(&value.into().to_be_bytes()).to_vec()
}

/// Returns the number of significant bits of a big-endian number; 0 for zero.
pub fn significant_bits(bytes: &[u8]) -> usize {
    let bytes = canonical(bytes);
    match bytes.first() {
        None | Some(0) => 0,
        Some(first) => bytes.len() * 8 - first.leading_zeros() as usize,
    }
}

/// Checks that `bytes` is a value of `bit<width>`. Leading zeros are allowed.
pub fn check(bytes: &[u8], width: usize) -> Result<(), BytestringError> {
    if bytes.is_empty() {
        return Err(BytestringError::Empty);
    }
    let bits = significant_bits(bytes);
    if bits > width {
        return Err(BytestringError::TooWide { bits, width });
    }
    Ok(())
}

/// Decodes a big-endian number of at most `width` bits, and at most 128 bits.
pub fn decode(bytes: &[u8], width: usize) -> Result<u128, BytestringError> {
    check(bytes, width.min(128))?;
    Ok(canonical(bytes)
        .iter()
        .fold(0, |value, &byte| value << 8 | u128::from(byte)))
}

/// Converts a big-endian number to exactly `ceil(width / 8)` bytes. An error if it is too wide.
pub fn pad(bytes: &[u8], width: usize) -> Result<Vec<u8>, BytestringError> {
    check(bytes, width)?;
    let bytes = canonical(bytes);
    let mut padded = vec![0; width.div_ceil(8).max(1)];
    let start = padded.len() - bytes.len();
    padded[start..].copy_from_slice(bytes);
    Ok(padded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_form_is_shortest() {
        assert_eq!(canonical(&[0, 0, 1, 0]), [1, 0]);
        assert_eq!(canonical(&[0, 0]), [0]);
        assert!(canonical(&[]).is_empty());
        assert_eq!(encode(0u8), [0]);
        assert_eq!(encode(0x1_0000u32), [1, 0, 0]);
        assert!(is_canonical(&[0]));
        assert!(!is_canonical(&[]));
        assert!(!is_canonical(&[0, 7]));
    }

    #[test]
    fn values_wider_than_the_field_are_rejected() {
        assert_eq!(check(&[1, 0xff], 9), Ok(()));
        assert_eq!(
            check(&[2, 0], 9),
            Err(BytestringError::TooWide { bits: 10, width: 9 })
        );
        assert_eq!(check(&[], 9), Err(BytestringError::Empty));
        assert_eq!(check(&[0; 40], 1), Ok(()));
    }

    #[test]
    fn numbers_round_trip() {
        for value in [0u128, 1, 255, 256, u128::MAX] {
            assert_eq!(decode(&encode(value), 128), Ok(value));
        }
        assert_eq!(pad(&[5], 48), Ok(vec![0, 0, 0, 0, 0, 5]));
    }
}
