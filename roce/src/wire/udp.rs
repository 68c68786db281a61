//! UDP header (RFC 768). RoCEv2 sends checksum 0: the ICRC covers the packet.

use super::error::{need, Header, Reason, WireError};
use super::field::{get_u16, put_u16};

/// Length of a UDP header in bytes.
pub const HEADER_LEN: usize = 8;
/// UDP destination port of RoCEv2 packets (IBTA vol. 1, annex A17).
pub const PORT_ROCE: u16 = 4791;
/// UDP destination port of the group registration protocol, [`super::mrp`].
pub const PORT_MRP: u16 = alfirk_contract::UDP_PORT_MRP;

const SOURCE_PORT: usize = 0;
const DESTINATION_PORT: usize = 2;
const LENGTH: usize = 4;
const CHECKSUM: usize = 6;

/// View of a buffer that contains a UDP datagram.
#[derive(Debug, Clone, Copy)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// Checks the length field against the header and the buffer.
    pub fn new_checked(buffer: &'a [u8]) -> Result<View<'a>, WireError> {
        need(Header::Udp, buffer, HEADER_LEN)?;
        let length = usize::from(get_u16(buffer, LENGTH));
        if length < HEADER_LEN {
            return Err(WireError {
                header: Header::Udp,
                reason: Reason::BadLength {
                    field: "length",
                    value: length,
                },
            });
        }
        need(Header::Udp, buffer, length)?;
        Ok(View(&buffer[..length]))
    }

    /// Source port. A sender of RoCEv2 chooses it freely, so that ECMP spreads queue pairs over paths.
    pub fn source_port(&self) -> u16 {
        get_u16(self.0, SOURCE_PORT)
    }

    /// Destination port: 4791 for RoCEv2.
    pub fn destination_port(&self) -> u16 {
        get_u16(self.0, DESTINATION_PORT)
    }

    /// Length of header and payload in bytes.
    pub fn length(&self) -> u16 {
        get_u16(self.0, LENGTH)
    }

    /// Checksum, as received; 0 if the sender computes none.
    pub fn checksum(&self) -> u16 {
        get_u16(self.0, CHECKSUM)
    }

    /// The bytes after the header, up to the announced length.
    pub fn payload(&self) -> &'a [u8] {
        &self.0[HEADER_LEN..]
    }
}

/// Fields of a UDP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Source port.
    pub source_port: u16,
    /// Destination port: 4791 for RoCEv2.
    pub destination_port: u16,
    /// Length of the payload in bytes, at most 65,527.
    pub payload_len: u16,
}

impl Repr {
    /// Decodes a UDP header.
    pub fn parse(view: &View<'_>) -> Repr {
        Repr {
            source_port: view.source_port(),
            destination_port: view.destination_port(),
            payload_len: view.payload().len() as u16,
        }
    }

    /// Decodes the header at the front of a datagram of `len` bytes; `buffer` need not contain the payload. `None` if
    /// the length field differs.
    pub fn parse_front(buffer: &[u8], len: u16) -> Option<Repr> {
        let header = View(buffer.get(..HEADER_LEN)?);
        let payload_len = len.checked_sub(HEADER_LEN as u16)?;
        (header.length() == len).then(|| Repr {
            payload_len,
            ..Repr::parse(&header)
        })
    }

    /// Writes the header, with checksum 0, to the first [`HEADER_LEN`] bytes of `buffer`; panics if it is shorter.
    pub fn emit(&self, buffer: &mut [u8]) {
        put_u16(buffer, SOURCE_PORT, self.source_port);
        put_u16(buffer, DESTINATION_PORT, self.destination_port);
        put_u16(buffer, LENGTH, HEADER_LEN as u16 + self.payload_len);
        put_u16(buffer, CHECKSUM, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::{rejects_every_shorter_prefix, unhex};
    use proptest::prelude::*;

    const BYTES: &str = "c011 12b7 000c 0000 01020304";

    #[test]
    fn datagram_to_the_roce_port() {
        let bytes = unhex(BYTES);
        let view = View::new_checked(&bytes).unwrap();
        assert_eq!(view.destination_port(), PORT_ROCE);
        assert_eq!(view.source_port(), 0xc011);
        assert_eq!(view.checksum(), 0);
        assert_eq!(view.payload(), [1, 2, 3, 4]);
        let mut out = [0; HEADER_LEN];
        Repr::parse(&view).emit(&mut out);
        assert_eq!(out[..], bytes[..HEADER_LEN]);
    }

    #[test]
    fn truncated_datagram_is_refused() {
        rejects_every_shorter_prefix(&unhex(BYTES), Header::Udp, |b| {
            View::new_checked(b).map(|_| ())
        });
    }

    #[test]
    fn length_below_the_header_is_refused() {
        let mut bytes = unhex(BYTES);
        bytes[5] = 7;
        let error = View::new_checked(&bytes).unwrap_err();
        assert_eq!(
            error.to_string(),
            "udp: length field length has the invalid value 7"
        );
    }

    proptest! {
        #[test]
        fn emitted_header_parses_back(source_port: u16, destination_port: u16, payload_len in 0u16..2000) {
            let repr = Repr { source_port, destination_port, payload_len };
            let mut out = vec![0; HEADER_LEN + usize::from(payload_len)];
            repr.emit(&mut out);
            prop_assert_eq!(Repr::parse(&View::new_checked(&out).unwrap()), repr);
        }
    }
}
