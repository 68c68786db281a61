//! RDMA Extended Transport Header (IBTA vol. 1, 9.3.3): target address, R_Key and length of a WRITE.

use super::error::{need, Header, WireError};
use super::field::{get_u32, get_u64, put_u32, put_u64};

/// Length of a RETH in bytes.
pub const HEADER_LEN: usize = 16;

const VIRTUAL_ADDRESS: usize = 0;
const R_KEY: usize = 8;
const DMA_LENGTH: usize = 12;

/// View of a buffer that contains a RETH.
#[derive(Debug, Clone, Copy)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// Checks that `buffer` holds a RETH.
    pub fn new_checked(buffer: &'a [u8]) -> Result<View<'a>, WireError> {
        need(Header::Reth, buffer, HEADER_LEN)?;
        Ok(View(buffer))
    }

    /// Virtual address to which the message is written.
    pub fn virtual_address(&self) -> u64 {
        get_u64(self.0, VIRTUAL_ADDRESS)
    }

    /// R_Key of the memory region or window.
    pub fn rkey(&self) -> u32 {
        get_u32(self.0, R_KEY)
    }

    /// Length of the whole message in bytes.
    pub fn dma_length(&self) -> u32 {
        get_u32(self.0, DMA_LENGTH)
    }
}

/// Fields of a RETH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Virtual address to which the message is written.
    pub virtual_address: u64,
    /// R_Key of the memory region or window.
    pub rkey: u32,
    /// Length of the whole message in bytes, at most 2^31.
    pub dma_length: u32,
}

impl Repr {
    /// Decodes a RETH.
    pub fn parse(view: &View<'_>) -> Repr {
        Repr {
            virtual_address: view.virtual_address(),
            rkey: view.rkey(),
            dma_length: view.dma_length(),
        }
    }

    /// Writes the RETH to the first [`HEADER_LEN`] bytes of `buffer`; panics if it is shorter.
    pub fn emit(&self, buffer: &mut [u8]) {
        put_u64(buffer, VIRTUAL_ADDRESS, self.virtual_address);
        put_u32(buffer, R_KEY, self.rkey);
        put_u32(buffer, DMA_LENGTH, self.dma_length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::{rejects_every_shorter_prefix, unhex};
    use proptest::prelude::*;

    const BYTES: &str = "00007f00c0de0000 00000a5b 00100000";

    #[test]
    fn write_of_one_mebibyte() {
        let bytes = unhex(BYTES);
        let repr = Repr::parse(&View::new_checked(&bytes).unwrap());
        assert_eq!(
            repr,
            Repr {
                virtual_address: 0x7f00_c0de_0000,
                rkey: 0xa5b,
                dma_length: 1 << 20
            }
        );
        let mut out = [0; HEADER_LEN];
        repr.emit(&mut out);
        assert_eq!(out[..], bytes[..]);
    }

    #[test]
    fn truncated_header_is_refused() {
        rejects_every_shorter_prefix(&unhex(BYTES), Header::Reth, |b| {
            View::new_checked(b).map(|_| ())
        });
    }

    proptest! {
        #[test]
        fn emitted_header_parses_back(virtual_address: u64, rkey: u32, dma_length: u32) {
            let repr = Repr { virtual_address, rkey, dma_length };
            let mut out = [0; HEADER_LEN];
            repr.emit(&mut out);
            prop_assert_eq!(Repr::parse(&View::new_checked(&out).unwrap()), repr);
        }
    }
}
