//! Atomic Extended Transport Header (AtomicETH), and Atomic ACK Extended Transport Header (IBTA vol. 1, 9.3.6 and
//! 9.3.7).
//!
//! The queue pairs of this crate do not execute atomics, because a group of receivers has no single result. The formats
//! are for tools that read captures.

use super::error::{need, Header, WireError};
use super::field::{get_u32, get_u64, put_u32, put_u64};

/// Length of an AtomicETH in bytes.
pub const HEADER_LEN: usize = 28;
/// Length of an Atomic ACK ETH in bytes.
pub const ACK_HEADER_LEN: usize = 8;

const VIRTUAL_ADDRESS: usize = 0;
const R_KEY: usize = 8;
const SWAP_OR_ADD: usize = 12;
const COMPARE: usize = 20;

/// View of a buffer that contains an AtomicETH.
#[derive(Debug, Clone, Copy)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// Checks that `buffer` holds an AtomicETH.
    pub fn new_checked(buffer: &'a [u8]) -> Result<View<'a>, WireError> {
        need(Header::AtomicEth, buffer, HEADER_LEN)?;
        Ok(View(buffer))
    }

    /// Virtual address of the 64-bit word to access.
    pub fn virtual_address(&self) -> u64 {
        get_u64(self.0, VIRTUAL_ADDRESS)
    }

    /// R_Key of the memory region.
    pub fn rkey(&self) -> u32 {
        get_u32(self.0, R_KEY)
    }

    /// Value to write (compare and swap) or to add (fetch and add).
    pub fn swap_or_add(&self) -> u64 {
        get_u64(self.0, SWAP_OR_ADD)
    }

    /// Value with which compare and swap compares the word.
    pub fn compare(&self) -> u64 {
        get_u64(self.0, COMPARE)
    }
}

/// Fields of an AtomicETH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Virtual address of the 64-bit word to access.
    pub virtual_address: u64,
    /// R_Key of the memory region.
    pub rkey: u32,
    /// Value to write (compare and swap) or to add (fetch and add).
    pub swap_or_add: u64,
    /// Value with which compare and swap compares the word.
    pub compare: u64,
}

impl Repr {
    /// Decodes an AtomicETH.
    pub fn parse(view: &View<'_>) -> Repr {
        Repr {
            virtual_address: view.virtual_address(),
            rkey: view.rkey(),
            swap_or_add: view.swap_or_add(),
            compare: view.compare(),
        }
    }

    /// Writes the AtomicETH to the first [`HEADER_LEN`] bytes of `buffer`; panics if it is shorter.
    pub fn emit(&self, buffer: &mut [u8]) {
        put_u64(buffer, VIRTUAL_ADDRESS, self.virtual_address);
        put_u32(buffer, R_KEY, self.rkey);
        put_u64(buffer, SWAP_OR_ADD, self.swap_or_add);
        put_u64(buffer, COMPARE, self.compare);
    }
}

/// View of a buffer that contains an Atomic ACK ETH.
#[derive(Debug, Clone, Copy)]
pub struct AckView<'a>(&'a [u8]);

impl<'a> AckView<'a> {
    /// Checks that `buffer` holds an Atomic ACK ETH.
    pub fn new_checked(buffer: &'a [u8]) -> Result<AckView<'a>, WireError> {
        need(Header::AtomicAckEth, buffer, ACK_HEADER_LEN)?;
        Ok(AckView(buffer))
    }

    /// Value of the word before the atomic operation.
    pub fn original(&self) -> u64 {
        get_u64(self.0, 0)
    }
}

/// Fields of an Atomic ACK ETH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckRepr {
    /// Value of the word before the atomic operation.
    pub original: u64,
}

impl AckRepr {
    /// Decodes an Atomic ACK ETH.
    pub fn parse(view: &AckView<'_>) -> AckRepr {
        AckRepr {
            original: view.original(),
        }
    }

    /// Writes the Atomic ACK ETH to the first [`ACK_HEADER_LEN`] bytes of `buffer`; panics if it is shorter.
    pub fn emit(&self, buffer: &mut [u8]) {
        put_u64(buffer, 0, self.original);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::{rejects_every_shorter_prefix, unhex};
    use proptest::prelude::*;

    const BYTES: &str = "00007f0000001000 00000a5b 0000000000000005 0000000000000009";

    #[test]
    fn compare_and_swap() {
        let bytes = unhex(BYTES);
        let repr = Repr::parse(&View::new_checked(&bytes).unwrap());
        assert_eq!(repr.virtual_address, 0x7f00_0000_1000);
        assert_eq!((repr.rkey, repr.swap_or_add, repr.compare), (0xa5b, 5, 9));
        let mut out = [0; HEADER_LEN];
        repr.emit(&mut out);
        assert_eq!(out[..], bytes[..]);
    }

    #[test]
    fn truncated_headers_are_refused() {
        rejects_every_shorter_prefix(&unhex(BYTES), Header::AtomicEth, |b| {
            View::new_checked(b).map(|_| ())
        });
        rejects_every_shorter_prefix(&[0; 8], Header::AtomicAckEth, |b| {
            AckView::new_checked(b).map(|_| ())
        });
    }

    proptest! {
        #[test]
        fn emitted_headers_parse_back(virtual_address: u64, rkey: u32, swap_or_add: u64, compare: u64) {
            let repr = Repr { virtual_address, rkey, swap_or_add, compare };
            let mut out = [0; HEADER_LEN];
            repr.emit(&mut out);
            prop_assert_eq!(Repr::parse(&View::new_checked(&out).unwrap()), repr);
            let ack = AckRepr { original: compare };
            ack.emit(&mut out);
            prop_assert_eq!(AckRepr::parse(&AckView::new_checked(&out).unwrap()), ack);
        }
    }
}
