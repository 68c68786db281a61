//! RC packets from the base transport header to the end of the payload.

use crate::wire::{aeth, bth, immdt, reth, Header, Reason, WireError};

/// Transport headers of an RC packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RcHeaders {
    /// Base Transport Header.
    pub bth: bth::Repr,
    /// RDMA Extended Transport Header, in the first packet of a WRITE; otherwise `None`.
    pub reth: Option<reth::Repr>,
    /// ACK Extended Transport Header, in an ACK or NAK; otherwise `None`.
    pub aeth: Option<aeth::Repr>,
    /// Immediate data, in the last packet of a message that has it; otherwise `None`.
    pub immediate: Option<u32>,
}

impl RcHeaders {
    /// Creates headers with a BTH only.
    pub fn plain(bth: bth::Repr) -> RcHeaders {
        RcHeaders {
            bth,
            reth: None,
            aeth: None,
            immediate: None,
        }
    }

    /// Length of all headers together, in bytes.
    pub fn len(&self) -> usize {
        let extension = |there: bool, len: usize| if there { len } else { 0 };
        bth::HEADER_LEN
            + extension(self.reth.is_some(), reth::HEADER_LEN)
            + extension(self.aeth.is_some(), aeth::HEADER_LEN)
            + extension(self.immediate.is_some(), immdt::HEADER_LEN)
    }

    /// Always false, because there is a BTH.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Parses the headers at the front of `bytes`, from the BTH on; the opcode defines which extension headers follow. Also returns
    /// the bytes after the headers.
    pub fn parse(bytes: &[u8]) -> Result<(RcHeaders, &[u8]), WireError> {
        let view = bth::View::new_checked(bytes)?;
        let mut headers = RcHeaders::plain(bth::Repr::parse(&view));
        let opcode = headers.bth.opcode;
        let mut rest = view.payload();
        if opcode.has_reth() {
            headers.reth = Some(reth::Repr::parse(&reth::View::new_checked(rest)?));
            rest = &rest[reth::HEADER_LEN..];
        }
        if opcode.has_aeth() {
            headers.aeth = Some(aeth::Repr::parse(&aeth::View::new_checked(rest)?));
            rest = &rest[aeth::HEADER_LEN..];
        }
        if opcode.has_immediate() {
            headers.immediate = Some(immdt::View::new_checked(rest)?.immediate());
            rest = &rest[immdt::HEADER_LEN..];
        }
        Ok((headers, rest))
    }

    /// Writes the headers to the first [`RcHeaders::len`] bytes of `buffer`; panics if it is shorter.
    pub fn emit(&self, buffer: &mut [u8]) {
        let (head, mut rest) = buffer.split_at_mut(bth::HEADER_LEN);
        self.bth.emit(head);
        if let Some(reth) = &self.reth {
            reth.emit(rest);
            rest = &mut rest[reth::HEADER_LEN..];
        }
        if let Some(aeth) = &self.aeth {
            aeth.emit(rest);
            rest = &mut rest[aeth::HEADER_LEN..];
        }
        if let Some(immediate) = self.immediate {
            immdt::Repr { immediate }.emit(rest);
        }
    }
}

/// An RC packet, from the BTH to the end of the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RcPacket<'a> {
    /// Transport headers.
    pub headers: RcHeaders,
    /// Payload without its padding.
    pub payload: &'a [u8],
}

impl<'a> RcPacket<'a> {
    /// Parses the packet in `bytes`, from the BTH to the last byte before the ICRC. Payload plus padding must be a multiple of four
    /// bytes (IBTA vol. 1, 9.2.5).
    pub fn parse(bytes: &'a [u8]) -> Result<RcPacket<'a>, WireError> {
        let (headers, rest) = RcHeaders::parse(bytes)?;
        let payload = unpadded(rest, headers.bth.pad_count)?;
        Ok(RcPacket { headers, payload })
    }
}

/// The payload in `bytes` without its padding. Payload and padding together must be a multiple of four bytes.
pub(crate) fn unpadded(bytes: &[u8], pad_count: u8) -> Result<&[u8], WireError> {
    let bad = |field, value| WireError {
        header: Header::Bth,
        reason: Reason::BadLength { field, value },
    };
    if bytes.len() % 4 != 0 {
        return Err(bad("payload and padding", bytes.len()));
    }
    let pad = usize::from(pad_count);
    let length = bytes.len().checked_sub(pad);
    let length = length.ok_or_else(|| bad("pad count", pad))?;
    Ok(&bytes[..length])
}
