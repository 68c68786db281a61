//! ACK Extended Transport Header (IBTA vol. 1, 9.3.5 and 9.7.5): ACK, RNR NAK and NAK.

use serde::{Deserialize, Serialize};

use super::error::{need, Header, WireError};
use super::field::{get_u24, put_u24};
use super::Psn;

/// Length of an AETH in bytes.
pub const HEADER_LEN: usize = 4;
/// Credit code of a responder that does not limit its requester (IBTA vol. 1, 9.7.7.2).
pub const CREDITS_UNLIMITED: u8 = 31;

/// Number of messages allowed beyond the AETH's message sequence number, indexed by credit code (IBTA vol. 1, table
/// 45).
const CREDITS: [u16; 31] = [
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536,
    2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768,
];

/// Number of messages that the five-bit credit code `code` allows; unlimited for [`CREDITS_UNLIMITED`].
pub fn credits_of(code: u8) -> u64 {
    CREDITS
        .get(usize::from(code & 31))
        .map_or(u64::MAX, |count| u64::from(*count))
}

/// Code of [`NakCode::Selective`].
const NAK_SELECTIVE: u8 = 31;

const SYNDROME: usize = 0;
const MSN: usize = 1;

/// Error code of a NAK (IBTA vol. 1, table 47).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NakCode {
    /// Code 0: a packet before this PSN is missing; the requester resends from this PSN on.
    PsnSequenceError,
    /// Code 1: the request is not valid or not supported by the responder.
    InvalidRequest,
    /// Code 2: the request has no right to access the memory that it names.
    RemoteAccessError,
    /// Code 3: the responder cannot complete the request.
    RemoteOperationalError,
    /// Code 4: the request is not valid on a reliable datagram; not used by the reliable connection.
    InvalidRdRequest,
    /// Code 31, which the specification reserves: a packet is lost, and only it is to be resent
    /// ([`Repr::selective_nak`], [`Repr::merged_selective_nak`]). Used only between ends that agree on selective
    /// repeat.
    Selective,
    /// Codes 5 to 30, which the specification reserves.
    Reserved(u8),
}

impl From<u8> for NakCode {
    fn from(code: u8) -> NakCode {
        match code & 31 {
            0 => NakCode::PsnSequenceError,
            1 => NakCode::InvalidRequest,
            2 => NakCode::RemoteAccessError,
            3 => NakCode::RemoteOperationalError,
            4 => NakCode::InvalidRdRequest,
            NAK_SELECTIVE => NakCode::Selective,
            other => NakCode::Reserved(other),
        }
    }
}

impl From<NakCode> for u8 {
    fn from(code: NakCode) -> u8 {
        match code {
            NakCode::PsnSequenceError => 0,
            NakCode::InvalidRequest => 1,
            NakCode::RemoteAccessError => 2,
            NakCode::RemoteOperationalError => 3,
            NakCode::InvalidRdRequest => 4,
            NakCode::Selective => NAK_SELECTIVE,
            NakCode::Reserved(other) => other & 31,
        }
    }
}

/// Five-bit code in an RNR NAK for the delay until the requester retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RnrTimer(u8);

/// Delays of the codes 0 to 31, in units of 10 microseconds (IBTA vol. 1, table 46).
const RNR_DELAYS: [u32; 32] = [
    65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024,
    1_536, 2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
];

impl RnrTimer {
    /// Creates a timer from the low five bits of `code`.
    pub const fn new(code: u8) -> RnrTimer {
        RnrTimer(code & 31)
    }

    /// The five-bit code of the delay, as in the syndrome byte of an RNR NAK.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// The delay in nanoseconds: 10 microseconds (code 1) to 655.36 milliseconds (code 0).
    pub const fn delay_ns(self) -> u64 {
        RNR_DELAYS[self.0 as usize] as u64 * 10_000
    }
}

/// Decoded syndrome byte of an AETH (IBTA vol. 1, table 44).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Syndrome {
    /// ACK: the packets up to this PSN have arrived.
    Ack {
        /// Credit code, 0 to 31: how many more messages the responder accepts; see [`credits_of`].
        credits: u8,
    },
    /// RNR NAK, receiver not ready: the requester retries after this delay.
    RnrNak(RnrTimer),
    /// NAK: the packets before this PSN have arrived, and the code is the error of this packet.
    Nak(NakCode),
    /// A value that the specification reserves.
    Reserved(u8),
}

impl From<u8> for Syndrome {
    fn from(byte: u8) -> Syndrome {
        match byte >> 5 {
            0 => Syndrome::Ack { credits: byte & 31 },
            1 => Syndrome::RnrNak(RnrTimer::new(byte)),
            3 => Syndrome::Nak(byte.into()),
            _ => Syndrome::Reserved(byte),
        }
    }
}

impl From<Syndrome> for u8 {
    fn from(syndrome: Syndrome) -> u8 {
        match syndrome {
            Syndrome::Ack { credits } => credits & 31,
            Syndrome::RnrNak(timer) => 0x20 | timer.code(),
            Syndrome::Nak(code) => 0x60 | u8::from(code),
            Syndrome::Reserved(byte) => byte,
        }
    }
}

/// View of a buffer that contains an AETH.
#[derive(Debug, Clone, Copy)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// Checks that `buffer` holds an AETH.
    pub fn new_checked(buffer: &'a [u8]) -> Result<View<'a>, WireError> {
        need(Header::Aeth, buffer, HEADER_LEN)?;
        Ok(View(buffer))
    }

    /// Decoded syndrome byte: ACK, RNR NAK or NAK.
    pub fn syndrome(&self) -> Syndrome {
        self.0[SYNDROME].into()
    }

    /// Message sequence number: messages completed by the responder, modulo 2^24.
    pub fn msn(&self) -> u32 {
        get_u24(self.0, MSN)
    }
}

/// Fields of an AETH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Kind of the acknowledgement: ACK, RNR NAK or NAK.
    pub syndrome: Syndrome,
    /// Message sequence number: messages completed by the responder, modulo 2^24.
    pub msn: u32,
}

impl Repr {
    /// Decodes an AETH.
    pub fn parse(view: &View<'_>) -> Repr {
        Repr {
            syndrome: view.syndrome(),
            msn: view.msn(),
        }
    }

    /// Creates a selective NAK as a responder sends it: the packet with the PSN in the BTH is lost. `reports`: how
    /// often this responder has reported that loss, 1 to 255.
    ///
    /// It acknowledges neither packets nor messages. So the MSN field is free for `reports`, in its low eight bits; the
    /// others are 0.
    pub fn selective_nak(reports: u8) -> Repr {
        Repr {
            syndrome: Syndrome::Nak(NakCode::Selective),
            msn: reports.into(),
        }
    }

    /// Number of reports in a selective NAK of a responder.
    pub fn reports(&self) -> u8 {
        self.msn as u8
    }

    /// Creates a selective NAK as a switch sends it to a group's source: packet `lost` is lost. The PSN in the BTH is
    /// one past the last PSN that all receivers have acknowledged. A requester without support for this NAK code treats
    /// any NAK as an acknowledgement of all packets before its PSN.
    pub fn merged_selective_nak(lost: Psn) -> Repr {
        Repr {
            syndrome: Syndrome::Nak(NakCode::Selective),
            msn: lost.get(),
        }
    }

    /// PSN of the lost packet in a selective NAK of a switch.
    pub fn lost(&self) -> Psn {
        Psn::new(self.msn)
    }

    /// Writes the AETH to the first [`HEADER_LEN`] bytes of `buffer`; panics if it is shorter.
    pub fn emit(&self, buffer: &mut [u8]) {
        buffer[SYNDROME] = self.syndrome.into();
        put_u24(buffer, MSN, self.msn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::{rejects_every_shorter_prefix, unhex};
    use proptest::prelude::*;

    #[test]
    fn ack_with_unlimited_credits() {
        let bytes = unhex("1f 000007");
        let repr = Repr::parse(&View::new_checked(&bytes).unwrap());
        let credits = CREDITS_UNLIMITED;
        assert_eq!(repr.syndrome, Syndrome::Ack { credits });
        assert_eq!(repr.msn, 7);
        let mut out = [0; HEADER_LEN];
        repr.emit(&mut out);
        assert_eq!(out[..], bytes[..]);
    }

    #[test]
    fn nak_codes_are_distinguished() {
        let naks = [
            ("60 000000", Syndrome::Nak(NakCode::PsnSequenceError)),
            ("61 000000", Syndrome::Nak(NakCode::InvalidRequest)),
            ("62 000000", Syndrome::Nak(NakCode::RemoteAccessError)),
            ("63 000000", Syndrome::Nak(NakCode::RemoteOperationalError)),
            ("2c 000000", Syndrome::RnrNak(RnrTimer::new(12))),
            ("7f 000002", Syndrome::Nak(NakCode::Selective)),
            ("7e 000000", Syndrome::Nak(NakCode::Reserved(30))),
            ("40 000000", Syndrome::Reserved(0x40)),
        ];
        for (text, expected) in naks {
            let bytes = unhex(text);
            assert_eq!(View::new_checked(&bytes).unwrap().syndrome(), expected);
        }
    }

    #[test]
    fn rnr_codes_are_times() {
        assert_eq!(RnrTimer::new(0).delay_ns(), 655_360_000);
        assert_eq!(RnrTimer::new(1).delay_ns(), 10_000);
        assert_eq!(RnrTimer::new(12).delay_ns(), 640_000);
        assert_eq!(RnrTimer::new(31).delay_ns(), 491_520_000);
    }

    #[test]
    fn credit_codes_are_counts() {
        assert_eq!([0, 4, 5, 30].map(credits_of), [0, 4, 6, 32_768]);
        assert_eq!(credits_of(CREDITS_UNLIMITED), u64::MAX);
    }

    #[test]
    fn truncated_header_is_refused() {
        rejects_every_shorter_prefix(&[0; 4], Header::Aeth, |b| View::new_checked(b).map(|_| ()));
    }

    #[test]
    fn every_syndrome_byte_converts_back() {
        for byte in 0..=255u8 {
            assert_eq!(u8::from(Syndrome::from(byte)), byte);
        }
    }

    proptest! {
        #[test]
        fn emitted_header_parses_back(syndrome: u8, msn in 0u32..1 << 24) {
            let repr = Repr { syndrome: syndrome.into(), msn };
            let mut out = [0; HEADER_LEN];
            repr.emit(&mut out);
            prop_assert_eq!(Repr::parse(&View::new_checked(&out).unwrap()), repr);
        }
    }
}
