//! Helpers of the header tests.

use super::error::{Header, Reason, WireError};

/// Converts hexadecimal text to bytes; spaces are ignored.
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).expect("hexadecimal text"))
        .collect();
    digits.chunks(2).map(|d| (d[0] << 4 | d[1]) as u8).collect()
}

/// Asserts that `check` accepts `bytes` and rejects every shorter prefix, with `header` and the lengths in the error.
pub(crate) fn rejects_every_shorter_prefix(
    bytes: &[u8],
    header: Header,
    check: impl Fn(&[u8]) -> Result<(), WireError>,
) {
    assert_eq!(check(bytes), Ok(()));
    for length in 0..bytes.len() {
        let error = check(&bytes[..length]).expect_err("a truncated header");
        assert_eq!(error.header, header, "at length {length}");
        assert!(
            matches!(error.reason, Reason::Truncated { have, need } if have == length && need > have),
            "at length {length}: {error}"
        );
    }
}
