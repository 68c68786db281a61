//! Memory region information: a message to the leaf switches, in-band in the packet stream of a group. With it a sender
//! announces the target of the next WRITE at one receiver.
//!
//! The message is an RC WRITE Only with [`R_KEY`] as R_Key and DMA length 16 in its RETH. The low 32 bits of the virtual
//! address hold the receiver's IPv4 address. This file defines its payload. The receiver's leaf switch stores the content.
//! It delivers a WRITE of 0 bytes to every receiver instead, which keeps the PSNs aligned. (Cepheus has such a message;
//! this layout is specific to Alfirk.)

use super::error::{need, Header, WireError};
use super::field::{get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};
use crate::icrc::neutral::{self, HeaderChange, NeutralPair, Unsolvable};

/// Length in bytes of the payload of a memory region message.
pub const PAYLOAD_LEN: usize = 16;
/// The R_Key of memory region information, which no memory region has.
pub const R_KEY: u32 = alfirk_contract::MR_INFO_RKEY;

const VA_XOR: usize = 0;
const RKEY_XOR: usize = 8;
const ID_XOR: usize = 12;
const SPORT_XOR: usize = 14;

/// View of a buffer that contains the payload of a memory region message.
#[derive(Debug, Clone, Copy)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// Checks that `buffer` is long enough for the payload of a memory region message.
    pub fn new_checked(buffer: &'a [u8]) -> Result<View<'a>, WireError> {
        need(Header::MrInfo, buffer, PAYLOAD_LEN)?;
        Ok(View(buffer))
    }

    /// XOR constant for the virtual address in the RETH, in addition to that of the group's registration.
    pub fn va_xor(&self) -> u64 {
        get_u64(self.0, VA_XOR)
    }

    /// XOR constant for the R_Key in the RETH, in addition to that of the group's registration.
    pub fn rkey_xor(&self) -> u32 {
        get_u32(self.0, RKEY_XOR)
    }

    /// XOR constant for the IPv4 identification, which preserves the ICRC.
    pub fn ip_id_xor(&self) -> u16 {
        get_u16(self.0, ID_XOR)
    }

    /// XOR constant for the UDP source port, which preserves the ICRC.
    pub fn udp_sport_xor(&self) -> u16 {
        get_u16(self.0, SPORT_XOR)
    }
}

/// Content of the message: XOR constants by which a leaf switch rewrites WRITEs for one receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// XOR difference from the virtual address in the sender's RETH to the receiver's, in addition to the change by the
    /// group's registration.
    pub va_xor: u64,
    /// XOR difference from the R_Key in the sender's RETH to the receiver's, in addition to the change by the group's
    /// registration.
    pub rkey_xor: u32,
    /// XOR constants that preserve the ICRC of a packet with RETH under this change. They add to the registered
    /// constants by XOR.
    pub pair: NeutralPair,
}

impl Repr {
    /// XOR constants that rewrite a WRITE to `sent` (address and R_Key) into a WRITE to `received`, in a group whose
    /// registration changes neither.
    pub fn between(sent: (u64, u32), received: (u64, u32)) -> Result<Repr, Unsolvable> {
        let (va_xor, rkey_xor) = (sent.0 ^ received.0, sent.1 ^ received.1);
        let pair = neutral::solve(HeaderChange {
            virtual_address: va_xor,
            rkey: rkey_xor,
            ..HeaderChange::default()
        })?;
        Ok(Repr {
            va_xor,
            rkey_xor,
            pair,
        })
    }

    /// Decodes the payload of a memory region message.
    pub fn parse(view: &View<'_>) -> Repr {
        Repr {
            va_xor: view.va_xor(),
            rkey_xor: view.rkey_xor(),
            pair: NeutralPair {
                ip_id_xor: view.ip_id_xor(),
                udp_sport_xor: view.udp_sport_xor(),
            },
        }
    }

    /// Writes the payload of a memory region message to the first [`PAYLOAD_LEN`] bytes of `buffer`; panics if it is
    /// shorter.
    pub fn emit(&self, buffer: &mut [u8]) {
        put_u64(buffer, VA_XOR, self.va_xor);
        put_u32(buffer, RKEY_XOR, self.rkey_xor);
        put_u16(buffer, ID_XOR, self.pair.ip_id_xor);
        put_u16(buffer, SPORT_XOR, self.pair.udp_sport_xor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::{rejects_every_shorter_prefix, unhex};
    use proptest::prelude::*;

    const BYTES: &str = "00007f0000000001 0000002a beef 1234";

    #[test]
    fn region_of_one_receiver() {
        let bytes = unhex(BYTES);
        let repr = Repr::parse(&View::new_checked(&bytes).unwrap());
        let expected = Repr {
            va_xor: 0x7f00_0000_0001,
            rkey_xor: 42,
            pair: NeutralPair {
                ip_id_xor: 0xbeef,
                udp_sport_xor: 0x1234,
            },
        };
        assert_eq!(repr, expected);
        let mut out = [0; PAYLOAD_LEN];
        repr.emit(&mut out);
        assert_eq!(out[..], bytes[..]);
    }

    #[test]
    fn truncated_payload_is_refused() {
        rejects_every_shorter_prefix(&unhex(BYTES), Header::MrInfo, |b| {
            View::new_checked(b).map(|_| ())
        });
    }

    #[test]
    fn constants_are_zero_for_the_same_memory() {
        let nothing = Repr::between((7, 8), (7, 8)).unwrap();
        assert_eq!(nothing.pair, NeutralPair::default());
        assert_eq!((nothing.va_xor, nothing.rkey_xor), (0, 0));
    }

    proptest! {
        #[test]
        fn emitted_payload_parses_back(sent: (u64, u32), received: (u64, u32)) {
            let repr = Repr::between(sent, received).unwrap();
            let mut out = [0; PAYLOAD_LEN];
            repr.emit(&mut out);
            prop_assert_eq!(Repr::parse(&View::new_checked(&out).unwrap()), repr);
        }
    }
}
