//! Congestion notification packet (IBTA vol. 1, annex A17.9.3): a BTH with opcode 0x81 and BECN set, then 16
//! reserved bytes.

use super::bth::{self, Opcode};
use super::error::{need, Header, WireError};
use super::psn::{Psn, QpNum};

/// Length in bytes of the reserved field after the BTH.
pub const RESERVED_LEN: usize = 16;
/// Length of a CNP in bytes: BTH and reserved field.
pub const PACKET_LEN: usize = bth::HEADER_LEN + RESERVED_LEN;

/// View of a buffer that contains a CNP from its BTH on.
#[derive(Debug, Clone, Copy)]
pub struct View<'a>(bth::View<'a>);

impl<'a> View<'a> {
    /// Checks length, opcode and the BECN bit. The reserved bytes may have any value.
    pub fn new_checked(buffer: &'a [u8]) -> Result<View<'a>, WireError> {
        need(Header::Cnp, buffer, PACKET_LEN)?;
        let bth = bth::View::new_checked(buffer)?;
        if bth.opcode() != Opcode::Cnp {
            let value = u8::from(bth.opcode());
            return Err(WireError::bad_field(Header::Cnp, "opcode", value.into()));
        }
        if !bth.becn() {
            return Err(WireError::bad_field(Header::Cnp, "becn", 0));
        }
        Ok(View(bth))
    }

    /// Number of the queue pair whose rate is to be reduced.
    pub fn dest_qp(&self) -> QpNum {
        self.0.dest_qp()
    }
}

/// Fields of a CNP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Number of the queue pair whose rate is to be reduced.
    pub dest_qp: QpNum,
}

impl Repr {
    /// Decodes a CNP.
    pub fn parse(view: &View<'_>) -> Repr {
        Repr {
            dest_qp: view.dest_qp(),
        }
    }

    /// The BTH of the packet.
    pub fn bth(&self) -> bth::Repr {
        bth::Repr {
            becn: true,
            ..bth::Repr::new(Opcode::Cnp, self.dest_qp, Psn::new(0))
        }
    }

    /// Writes BTH and reserved bytes to the first [`PACKET_LEN`] bytes of `buffer`; panics if it is shorter.
    pub fn emit(&self, buffer: &mut [u8]) {
        self.bth().emit(buffer);
        buffer[bth::HEADER_LEN..PACKET_LEN].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::{rejects_every_shorter_prefix, unhex};
    use proptest::prelude::*;

    const BYTES: &str = "81 00 ffff 40 000012 00 000000 00000000000000000000000000000000";

    #[test]
    fn cnp_to_queue_pair_18() {
        let bytes = unhex(BYTES);
        let repr = Repr::parse(&View::new_checked(&bytes).unwrap());
        assert_eq!(repr.dest_qp, QpNum::new(18));
        let mut out = [0xff; PACKET_LEN];
        repr.emit(&mut out);
        assert_eq!(out[..], bytes[..]);
    }

    #[test]
    fn truncated_packet_is_refused() {
        rejects_every_shorter_prefix(&unhex(BYTES), Header::Cnp, |b| {
            View::new_checked(b).map(|_| ())
        });
    }

    #[test]
    fn other_opcode_or_missing_becn_is_refused() {
        for (at, value) in [(0, 0x11), (4, 0)] {
            let mut bytes = unhex(BYTES);
            bytes[at] = value;
            assert!(View::new_checked(&bytes).is_err());
        }
    }

    proptest! {
        #[test]
        fn emitted_packet_parses_back(qp in 0u32..1 << 24) {
            let repr = Repr { dest_qp: QpNum::new(qp) };
            let mut out = [0; PACKET_LEN];
            repr.emit(&mut out);
            prop_assert_eq!(Repr::parse(&View::new_checked(&out).unwrap()), repr);
        }
    }
}
