//! ACK Extended Transport Header (IBTA vol. 1, 9.3.5 and 9.7.5): ACK, RNR NAK and NAK.

use serde::{Deserialize, Serialize};

use super::error::{need, Header, WireError};
use super::field::{get_u24, put_u24};
use super::Psn;

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 4;
/// The credit code of a responder that does not limit its requester (9.7.7.2).
pub const CREDITS_UNLIMITED: u8 = 31;

/// By credit code: messages allowed beyond the AETH's message sequence number (IBTA vol. 1, table 45).
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

/// The code of [`NakCode::Selective`].
const NAK_SELECTIVE: u8 = 31;

const SYNDROME: usize = 0;
const MSN: usize = 1;

/// The error code of a NAK (IBTA vol. 1, table 47).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NakCode {
    PsnSequenceError,
    InvalidRequest,
    RemoteAccessError,
    RemoteOperationalError,
    InvalidRdRequest,
    /// Code 31, the last of the reserved codes: with selective repeat, a packet is lost ([`Repr::selective_nak`],
    /// [`Repr::merged_selective_nak`]). Used only between ends that agree on selective repeat.
    Selective,
    /// Codes 5 to 30.
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

/// The five-bit code of the delay after an RNR NAK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RnrTimer(u8);

/// The delays of IBTA vol. 1, table 46, in units of 10 microseconds.
const RNR_DELAYS: [u32; 32] = [
    65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024,
    1_536, 2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
];

impl RnrTimer {
    /// Creates a timer from the low five bits of `code`.
    pub const fn new(code: u8) -> RnrTimer {
        RnrTimer(code & 31)
    }

    /// The five-bit code.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// The delay in nanoseconds: 10 microseconds (code 1) to 655.36 milliseconds (code 0).
    pub const fn delay_ns(self) -> u64 {
        RNR_DELAYS[self.0 as usize] as u64 * 10_000
    }
}

/// The meaning of the syndrome byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Syndrome {
    /// Acknowledged; `credits` is the five-bit credit code.
    Ack {
        credits: u8,
    },
    /// Receiver not ready: retry after the delay.
    RnrNak(RnrTimer),
    Nak(NakCode),
    /// A reserved value.
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

/// A view of a buffer that contains the header.
#[derive(Debug, Clone, Copy)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    pub fn new_checked(buffer: &'a [u8]) -> Result<View<'a>, WireError> {
        need(Header::Aeth, buffer, HEADER_LEN)?;
        Ok(View(buffer))
    }

    pub fn syndrome(&self) -> Syndrome {
        self.0[SYNDROME].into()
    }

    /// Message sequence number: messages completed by the responder, modulo 2^24.
    pub fn msn(&self) -> u32 {
        get_u24(self.0, MSN)
    }
}

/// The header as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    pub syndrome: Syndrome,
    /// Message sequence number: messages completed by the responder, modulo 2^24.
    pub msn: u32,
}

impl Repr {
    pub fn parse(view: &View<'_>) -> Repr {
        Repr {
            syndrome: view.syndrome(),
            msn: view.msn(),
        }
    }

    /// A selective NAK of a responder: the packet whose PSN is in the BTH is lost, reported for the `reports`th time, 1 to 255.
    ///
    /// It acknowledges neither packets nor messages. So the MSN field is free for `reports`, in its low eight bits; the others are 0.
    pub fn selective_nak(reports: u8) -> Repr {
        Repr {
            syndrome: Syndrome::Nak(NakCode::Selective),
            msn: reports.into(),
        }
    }

    /// The number of reports in a selective NAK.
    pub fn reports(&self) -> u8 {
        self.msn as u8
    }

    /// A selective NAK of a switch to a group's source: the packet `lost` is lost. The PSN in the BTH is one past the last PSN that
    /// all receivers have acknowledged, because a requester without support for the code treats any NAK as an acknowledgement of all
    /// packets before its PSN.
    pub fn merged_selective_nak(lost: Psn) -> Repr {
        Repr {
            syndrome: Syndrome::Nak(NakCode::Selective),
            msn: lost.get(),
        }
    }

    /// The lost packet of a merged selective NAK.
    pub fn lost(&self) -> Psn {
        Psn::new(self.msn)
    }

    /// Writes the header to the first [`HEADER_LEN`] bytes of `buffer`; panics if it is shorter.
    pub fn emit(&self, buffer: &mut [u8]) {
        buffer[SYNDROME] = self.syndrome.into();
        put_u24(buffer, MSN, self.msn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::{refuses_every_shorter, unhex};
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
        refuses_every_shorter(&[0; 4], Header::Aeth, |b| View::new_checked(b).map(|_| ()));
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
