//! Settings of a queue pair.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use crate::dcqcn::DcqcnConfig;
use crate::wire::RnrTimer;

/// Bytes of headers and trailer around the payload of the largest RC packet, from the IPv4 header on: IPv4 20,
/// UDP 8, BTH 12, RETH 16, immediate 4, ICRC 4.
const OVERHEAD: u32 = 64;

/// The largest payload of a packet: 256, 512, 1,024, 2,048 or 4,096 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct PathMtu(u16);

/// A link too small for RoCEv2, or a payload size that is none of the five.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadMtu {
    #[error("an IP MTU of {0} bytes is too small for RoCEv2: at least 320 are needed")]
    LinkTooSmall(u32),
    #[error("a path MTU of {0} bytes does not exist: 256, 512, 1024, 2048 or 4096 expected")]
    NoSuchSize(u32),
}

impl PathMtu {
    pub const B256: PathMtu = PathMtu(256);
    pub const B512: PathMtu = PathMtu(512);
    pub const B1024: PathMtu = PathMtu(1024);
    pub const B2048: PathMtu = PathMtu(2048);
    pub const B4096: PathMtu = PathMtu(4096);

    const ALL: [PathMtu; 5] = [
        PathMtu::B4096,
        PathMtu::B2048,
        PathMtu::B1024,
        PathMtu::B512,
        PathMtu::B256,
    ];

    /// The largest that fits into packets of `ip_mtu` bytes: 1,024 for 1,500, and 4,096 from 4,160 on.
    pub fn for_ip_mtu(ip_mtu: u32) -> Result<PathMtu, BadMtu> {
        PathMtu::ALL
            .into_iter()
            .find(|mtu| u32::from(mtu.0) + OVERHEAD <= ip_mtu)
            .ok_or(BadMtu::LinkTooSmall(ip_mtu))
    }

    /// The payload size in bytes.
    pub const fn bytes(self) -> usize {
        self.0 as usize
    }
}

impl TryFrom<u32> for PathMtu {
    type Error = BadMtu;

    fn try_from(bytes: u32) -> Result<PathMtu, BadMtu> {
        PathMtu::ALL
            .into_iter()
            .find(|mtu| u32::from(mtu.0) == bytes)
            .ok_or(BadMtu::NoSuchSize(bytes))
    }
}

impl From<PathMtu> for u32 {
    fn from(mtu: PathMtu) -> u32 {
        mtu.0.into()
    }
}

/// The local ACK timeout as verbs have it: 4.096 microseconds times 2^exponent; 0 turns it off (IBTA vol. 1, 9.7.6.1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AckTimeout(u8);

impl AckTimeout {
    /// `exponent` is 0 to 31; only its low five bits count.
    pub const fn new(exponent: u8) -> AckTimeout {
        AckTimeout(exponent & 31)
    }

    /// The shortest that is not below so many nanoseconds.
    pub fn at_least(ns: u64) -> AckTimeout {
        let exponent = (1..31).find(|exponent| 4096u64 << exponent >= ns);
        AckTimeout(exponent.unwrap_or(31))
    }

    /// The exponent, 0 to 31, as verbs take it.
    pub const fn exponent(self) -> u8 {
        self.0
    }

    /// The timeout in nanoseconds; `None` when it is off.
    pub const fn ns(self) -> Option<u64> {
        match self.0 {
            0 => None,
            exponent => Some(4096u64 << exponent),
        }
    }
}

/// How often to try again before giving up. Progress starts the count anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Retries {
    Limited(u8),
    Endless,
}

impl Retries {
    /// From a verbs attribute, where 7 means for ever. (By the specification that holds for `rnr_retry`; Linux rxe takes
    /// `retry_cnt` in the same way.)
    pub const fn from_attribute(value: u8) -> Retries {
        match value {
            7.. => Retries::Endless,
            limit => Retries::Limited(limit),
        }
    }

    /// The nearest verbs attribute. It has three bits: no more than 6 can be asked for short of 7, which means for ever.
    pub const fn attribute(self) -> u8 {
        match self {
            Retries::Endless | Retries::Limited(7..) => 7,
            Retries::Limited(limit) => limit,
        }
    }
}

/// What a requester does about a NAK (PSN sequence error) that comes while it still sends again because of one before.
///
/// A second NAK of the same PSN is ignored by both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NakRule {
    /// A NAK of a later PSN reports another gap: go back to it at once.
    #[default]
    EachGap,
    /// Take it only as an acknowledgement of what is before it, and wait for an ACK or the timeout, as Linux rxe does.
    OncePerAck,
}

/// What a lost packet costs: both ends of a connection, and all ends of a group, must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// The sender sends all again that follows a lost packet, as RDMA NICs and Linux do
    ///
    /// The responder drops what comes after it, and the requester sends all of that again, as the specification has it.
    #[default]
    GoBackN,
    /// The sender sends again what is lost, as IRN does (SIGCOMM 2018); receivers keep the rest and report each loss by a NAK of its own, which switches pass on once
    ///
    /// The responder keeps what comes after it, for [`RcConfig::window`] packets, and reports what is missing by selective NAKs
    /// ([`crate::wire::aeth::Repr::selective_nak`]); the requester sends that again and goes on. After IRN: Mittal et al.,
    /// "Revisiting Network Support for RDMA", SIGCOMM 2018.
    SelectiveRepeat,
}

/// How selective NAKs reach the requester.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossReports {
    /// As the responder sends them: the PSN is that of the lost packet, the MSN field holds the number of reports
    /// ([`crate::wire::aeth::Repr::selective_nak`]). They acknowledge nothing.
    #[default]
    Direct,
    /// As the switches of a group send them to its source: the PSN follows the last one acknowledged, the MSN field holds the PSN of the
    /// lost packet ([`crate::wire::aeth::Repr::merged_selective_nak`]). A requester that does not know the code takes every NAK as an
    /// acknowledgement of all before its PSN; this PSN acknowledges nothing that was not acknowledged before.
    Merged,
}

/// What message counts (MSNs) in answers a requester finds plausible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MsnRule {
    /// Those of a responder that counts from the connection's beginning, as ours do across changes of the source.
    #[default]
    Counted,
    /// Any: in a group with RDMA devices. Their PSNs can only be set by way of RESET, after which they count from 0 again,
    /// so that counts of members differ when the source changes. They are then taken for inexact, and PSNs alone decide.
    Restarts,
}

/// Settings of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RcConfig {
    /// Payload bytes per packet; both ends must agree.
    pub mtu: PathMtu,
    /// How many PSNs may be sent and not yet acknowledged, 1 to 2^22. A larger window hides a longer round trip and
    /// costs more retransmissions after a loss; with selective repeat none, but memory at the responder
    /// ([`RcConfig::with_recovery`]).
    pub window: u32,
    /// An acknowledgement is asked for at the end of a message, and after this many packets without asking. Must be at least 1.
    /// In a group a NAK waits in the switches until everybody has acknowledged what is before it, so rare ACKs make losses
    /// dear.
    pub ack_every: u32,
    /// When to go back and send again without any answer.
    pub ack_timeout: AckTimeout,
    /// How many timeouts in a row to bear.
    pub retries: Retries,
    /// How many RNR NAKs in a row to bear.
    pub rnr_retries: Retries,
    /// How long this responder asks its requester to wait when no receive buffer is there.
    pub rnr_timer: RnrTimer,
    /// Whether an ACK that still waits for the wire is replaced by a newer one. Off, every request for an ACK is
    /// answered, as in Linux rxe.
    pub ack_coalescing: bool,
    /// Queue pairs with a smaller number send first; equal ones take turns.
    pub priority: u8,
    /// What to do about one NAK after the other.
    #[serde(default)]
    pub nak_rule: NakRule,
    /// Which message counts to believe.
    #[serde(default)]
    pub msn_rule: MsnRule,
    /// What a lost packet costs.
    #[serde(default)]
    pub recovery: Recovery,
    /// The format of selective NAKs that this requester receives: [`LossReports::Merged`] for the queue pair of a group.
    #[serde(default)]
    pub loss_reports: LossReports,
    /// Congestion control: request packets go out as ECN-capable, marks are answered with CNPs, and CNPs slow the requester
    /// down. `None`: it sends as fast as the port lets it. Both ends must agree.
    #[serde(default)]
    pub congestion: Option<DcqcnConfig>,
    /// The rate that request packets do not exceed, in bits per second of the wire (preamble and inter-frame gap included): that of the slowest
    /// link to any receiver. `None`: the rate of the port. RDMA NICs have such limits per queue pair, but verbs have no standard way to set them.
    #[serde(default)]
    pub pace_bps: Option<NonZeroU64>,
}

impl RcConfig {
    /// Window 128, ACK every 8 packets, 4.2 ms until a timeout, endless retries, no coalescing, no congestion
    /// control.
    pub const fn new(mtu: PathMtu) -> RcConfig {
        RcConfig {
            mtu,
            window: 128,
            ack_every: 8,
            ack_timeout: AckTimeout::new(10),
            retries: Retries::Endless,
            rnr_retries: Retries::Endless,
            rnr_timer: RnrTimer::new(12),
            ack_coalescing: false,
            priority: 0,
            nak_rule: NakRule::EachGap,
            msn_rule: MsnRule::Counted,
            recovery: Recovery::GoBackN,
            loss_reports: LossReports::Direct,
            congestion: None,
            pace_bps: None,
        }
    }

    /// The shorter timeout in nanoseconds of a requester with selective repeat, for when it has few packets outstanding, so that no
    /// packet after a lost one may bring news of it (IRN, section 3.1: RTO_low). `None` when timeouts are off.
    pub(super) fn low_timeout_ns(&self) -> Option<u64> {
        self.ack_timeout.ns().map(|ns| ns / 2)
    }

    /// With this way to recover from losses. A repair takes a round trip, and several if it is lost itself, which in a group happens to one of
    /// many receivers nearly always. With selective repeat the others go on meanwhile, so the window has room for four times as many packets.
    #[must_use]
    pub fn with_recovery(self, recovery: Recovery) -> RcConfig {
        let window = match recovery {
            Recovery::GoBackN => self.window,
            Recovery::SelectiveRepeat => self.window.saturating_mul(4),
        };
        RcConfig {
            window,
            recovery,
            ..self
        }
    }

    /// For answers that come so many nanoseconds later than these settings are made for, over a link of `rate_bps` bits per
    /// second: the timeout waits for twice that time more, and the window has room for what is sent meanwhile. A loss
    /// makes more packets go again then, as the window's text says.
    #[must_use]
    pub fn with_later_answers(self, delay_ns: u64, rate_bps: u64) -> RcConfig {
        let bits = u128::from(rate_bps) * u128::from(delay_ns) / 1_000_000_000;
        let packets = (bits / 8).div_ceil(self.mtu.bytes() as u128);
        let timeout = self.ack_timeout.ns();
        RcConfig {
            window: u32::try_from(packets)
                .map_or(u32::MAX, |packets| self.window.saturating_add(packets)),
            ack_timeout: timeout.map_or(self.ack_timeout, |ns| {
                AckTimeout::at_least(ns.saturating_add(delay_ns.saturating_mul(2)))
            }),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_mtu_follows_the_link() {
        let mtu = |ip| PathMtu::for_ip_mtu(ip).map(PathMtu::bytes);
        assert_eq!(mtu(1500), Ok(1024));
        assert_eq!(mtu(4200), Ok(4096));
        assert_eq!(mtu(9000), Ok(4096));
        assert_eq!(mtu(320), Ok(256));
        assert_eq!(mtu(319), Err(BadMtu::LinkTooSmall(319)));
        assert_eq!(PathMtu::try_from(1000), Err(BadMtu::NoSuchSize(1000)));
    }

    #[test]
    fn timeout_is_exponential_and_can_be_off() {
        assert_eq!(AckTimeout::new(14).ns(), Some(67_108_864));
        assert_eq!(AckTimeout::new(0).ns(), None);
    }

    #[test]
    fn a_timeout_is_rounded_up() {
        assert_eq!(AckTimeout::at_least(0).exponent(), 1);
        assert_eq!(AckTimeout::at_least(8_192).exponent(), 1);
        assert_eq!(AckTimeout::at_least(8_193).exponent(), 2);
        assert_eq!(AckTimeout::at_least(u64::MAX).exponent(), 31);
    }

    #[test]
    fn window_and_timeout_grow_with_the_way_of_answers() {
        let config = RcConfig {
            ack_timeout: AckTimeout::new(6),
            ..RcConfig::new(PathMtu::B4096)
        };
        assert_eq!(config.with_later_answers(0, 100_000_000_000), config);
        let later = config.with_later_answers(500_000, 100_000_000_000);
        // 6.25 MB are sent in half a millisecond.
        assert_eq!(later.window, 128 + 1_526);
        assert_eq!(later.ack_timeout.exponent(), 9);
        let off = RcConfig {
            ack_timeout: AckTimeout::new(0),
            ..config
        };
        let later = off.with_later_answers(u64::MAX, u64::MAX);
        assert_eq!((later.window, later.ack_timeout.ns()), (u32::MAX, None));
    }

    #[test]
    fn seven_retries_are_endless() {
        assert_eq!(Retries::from_attribute(7), Retries::Endless);
        assert_eq!(Retries::from_attribute(6), Retries::Limited(6));
    }
}
