//! The invariant CRC (ICRC) at the end of a packet (IBTA vol. 1, 7.8.1). It is computed by [`crate::icrc`].

use super::error::{need, Header, WireError};

/// Length of the ICRC in bytes.
pub const TRAILER_LEN: usize = 4;

/// View of a buffer that ends with an ICRC.
#[derive(Debug, Clone, Copy)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// Checks that `buffer` is long enough for an ICRC.
    pub fn new_checked(buffer: &'a [u8]) -> Result<View<'a>, WireError> {
        need(Header::Icrc, buffer, TRAILER_LEN)?;
        Ok(View(buffer))
    }

    /// The ICRC, which is little-endian in the packet.
    pub fn icrc(&self) -> u32 {
        let (_, trailer) = self.split();
        u32::from_le_bytes([trailer[0], trailer[1], trailer[2], trailer[3]])
    }

    /// The bytes of the buffer before the ICRC.
    pub fn covered(&self) -> &'a [u8] {
        self.split().0
    }

    fn split(&self) -> (&'a [u8], &'a [u8]) {
        self.0.split_at(self.0.len() - TRAILER_LEN)
    }
}

/// The ICRC of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Value of the ICRC, a 32-bit CRC.
    pub icrc: u32,
}

impl Repr {
    /// Decodes the ICRC.
    pub fn parse(view: &View<'_>) -> Repr {
        Repr { icrc: view.icrc() }
    }

    /// Writes the ICRC, little-endian, to the first [`TRAILER_LEN`] bytes of `buffer`; panics if it is shorter.
    pub fn emit(&self, buffer: &mut [u8]) {
        buffer[..TRAILER_LEN].copy_from_slice(&self.icrc.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::rejects_every_shorter_prefix;
    use proptest::prelude::*;

    #[test]
    fn trailer_is_little_endian() {
        let bytes = [9, 9, 0x78, 0x56, 0x34, 0x12];
        let view = View::new_checked(&bytes).unwrap();
        assert_eq!(view.icrc(), 0x1234_5678);
        assert_eq!(view.covered(), [9, 9]);
    }

    #[test]
    fn truncated_trailer_is_refused() {
        rejects_every_shorter_prefix(&[0; 4], Header::Icrc, |b| View::new_checked(b).map(|_| ()));
    }

    proptest! {
        #[test]
        fn emitted_trailer_parses_back(icrc: u32) {
            let mut out = [0; TRAILER_LEN];
            Repr { icrc }.emit(&mut out);
            prop_assert_eq!(Repr::parse(&View::new_checked(&out).unwrap()), Repr { icrc });
        }
    }
}
