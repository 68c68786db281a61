//! Datagram Extended Transport Header (IBTA vol. 1, 9.3.3): Q_Key and source queue pair.

use super::error::{need, Header, WireError};
use super::field::{get_u24, get_u32, put_u24, put_u32};
use super::psn::QpNum;

/// Length of a DETH in bytes.
pub const HEADER_LEN: usize = 8;

const QKEY: usize = 0;
const RESERVED: usize = 4;
const SRC_QP: usize = 5;

/// View of a buffer that contains a DETH.
#[derive(Debug, Clone, Copy)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// Checks that `buffer` holds a DETH.
    pub fn new_checked(buffer: &'a [u8]) -> Result<View<'a>, WireError> {
        need(Header::Deth, buffer, HEADER_LEN)?;
        Ok(View(buffer))
    }

    /// Q_Key that the receiving queue pair must have.
    pub fn qkey(&self) -> u32 {
        get_u32(self.0, QKEY)
    }

    /// Number of the sender's queue pair.
    pub fn src_qp(&self) -> QpNum {
        QpNum::new(get_u24(self.0, SRC_QP))
    }
}

/// Fields of a DETH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Q_Key that the receiving queue pair must have.
    pub qkey: u32,
    /// Number of the sender's queue pair.
    pub src_qp: QpNum,
}

impl Repr {
    /// Decodes a DETH.
    pub fn parse(view: &View<'_>) -> Repr {
        Repr {
            qkey: view.qkey(),
            src_qp: view.src_qp(),
        }
    }

    /// Writes the DETH to the first [`HEADER_LEN`] bytes of `buffer`; panics if it is shorter.
    pub fn emit(&self, buffer: &mut [u8]) {
        put_u32(buffer, QKEY, self.qkey);
        buffer[RESERVED] = 0;
        put_u24(buffer, SRC_QP, self.src_qp.get());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::{rejects_every_shorter_prefix, unhex};
    use proptest::prelude::*;

    const BYTES: &str = "80010000 00 00abcd";

    #[test]
    fn the_reserved_byte_lies_between_key_and_queue_pair() {
        let bytes = unhex(BYTES);
        let repr = Repr::parse(&View::new_checked(&bytes).unwrap());
        let expected = Repr {
            qkey: 0x8001_0000,
            src_qp: QpNum::new(0xabcd),
        };
        assert_eq!(repr, expected);
        let mut out = [0xff; HEADER_LEN];
        repr.emit(&mut out);
        assert_eq!(out[..], bytes[..]);
    }

    #[test]
    fn truncated_header_is_refused() {
        rejects_every_shorter_prefix(&unhex(BYTES), Header::Deth, |b| {
            View::new_checked(b).map(|_| ())
        });
    }

    proptest! {
        #[test]
        fn emitted_header_parses_back(qkey: u32, qp in 0u32..1 << 24) {
            let repr = Repr { qkey, src_qp: QpNum::new(qp) };
            let mut out = [0; HEADER_LEN];
            repr.emit(&mut out);
            prop_assert_eq!(Repr::parse(&View::new_checked(&out).unwrap()), repr);
        }
    }
}
