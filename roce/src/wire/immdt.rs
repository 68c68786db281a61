//! Immediate data (IBTA vol. 1, 9.3.8): four bytes in the last packet of a message.

use super::error::{need, Header, WireError};
use super::field::{get_u32, put_u32};

/// Length of the immediate data in bytes.
pub const HEADER_LEN: usize = 4;

/// View of a buffer that contains immediate data.
#[derive(Debug, Clone, Copy)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// Checks that `buffer` holds immediate data.
    pub fn new_checked(buffer: &'a [u8]) -> Result<View<'a>, WireError> {
        need(Header::ImmDt, buffer, HEADER_LEN)?;
        Ok(View(buffer))
    }

    /// The immediate data.
    pub fn immediate(&self) -> u32 {
        get_u32(self.0, 0)
    }
}

/// The immediate data of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// The 32 bits, big-endian in the packet.
    pub immediate: u32,
}

impl Repr {
    /// Decodes the immediate data.
    pub fn parse(view: &View<'_>) -> Repr {
        Repr {
            immediate: view.immediate(),
        }
    }

    /// Writes the immediate data to the first [`HEADER_LEN`] bytes of `buffer`; panics if it is shorter.
    pub fn emit(&self, buffer: &mut [u8]) {
        put_u32(buffer, 0, self.immediate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::{rejects_every_shorter_prefix, unhex};
    use proptest::prelude::*;

    #[test]
    fn immediate_is_big_endian() {
        let bytes = unhex("deadbeef");
        let repr = Repr::parse(&View::new_checked(&bytes).unwrap());
        assert_eq!(repr.immediate, 0xdead_beef);
    }

    #[test]
    fn truncated_header_is_refused() {
        rejects_every_shorter_prefix(&[0; 4], Header::ImmDt, |b| View::new_checked(b).map(|_| ()));
    }

    proptest! {
        #[test]
        fn emitted_header_parses_back(immediate: u32) {
            let mut out = [0; HEADER_LEN];
            Repr { immediate }.emit(&mut out);
            prop_assert_eq!(Repr::parse(&View::new_checked(&out).unwrap()), Repr { immediate });
        }
    }
}
