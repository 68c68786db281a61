//! UD packets from the base transport header to the end of the payload.

use crate::rc::unpadded;
use crate::wire::{bth, deth, immdt, Header, WireError};

/// Transport headers of a UD packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdHeaders {
    /// Base Transport Header.
    pub bth: bth::Repr,
    /// Datagram Extended Transport Header.
    pub deth: deth::Repr,
    /// Immediate data; `None` for a datagram without.
    pub immediate: Option<u32>,
}

impl UdHeaders {
    /// Length of all headers in bytes.
    pub fn len(&self) -> usize {
        bth::HEADER_LEN + deth::HEADER_LEN + self.immediate.map_or(0, |_| immdt::HEADER_LEN)
    }

    /// Always false, because there is a BTH.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes the headers to the first [`UdHeaders::len`] bytes of `buffer`; panics if it is shorter.
    pub fn emit(&self, buffer: &mut [u8]) {
        let (head, rest) = buffer.split_at_mut(bth::HEADER_LEN);
        self.bth.emit(head);
        self.deth.emit(rest);
        if let Some(immediate) = self.immediate {
            immdt::Repr { immediate }.emit(&mut rest[deth::HEADER_LEN..]);
        }
    }
}

/// A UD packet, from the BTH to the end of the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdPacket<'a> {
    /// Transport headers.
    pub headers: UdHeaders,
    /// Payload without its padding.
    pub payload: &'a [u8],
}

impl<'a> UdPacket<'a> {
    /// Parses the packet in `bytes`, from the BTH to the last byte before the ICRC.
    pub fn parse(bytes: &'a [u8]) -> Result<UdPacket<'a>, WireError> {
        let view = bth::View::new_checked(bytes)?;
        let bth = bth::Repr::parse(&view);
        if !bth.opcode.has_deth() {
            let opcode = u8::from(bth.opcode).into();
            return Err(WireError::bad_field(Header::Bth, "opcode", opcode));
        }
        let deth = deth::View::new_checked(view.payload())?;
        let mut rest = &view.payload()[deth::HEADER_LEN..];
        let mut immediate = None;
        if bth.opcode.has_immediate() {
            immediate = Some(immdt::View::new_checked(rest)?.immediate());
            rest = &rest[immdt::HEADER_LEN..];
        }
        Ok(UdPacket {
            headers: UdHeaders {
                bth,
                deth: deth::Repr::parse(&deth),
                immediate,
            },
            payload: unpadded(rest, bth.pad_count)?,
        })
    }
}
