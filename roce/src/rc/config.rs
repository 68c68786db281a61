//! Settings of a queue pair.

use std::fmt;
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use crate::dcqcn::DcqcnConfig;
use crate::wire::RnrTimer;

/// Largest overhead of an RC packet besides its payload, from the IPv4 header on, in bytes: IPv4 20, UDP 8, BTH 12,
/// RETH 16, immediate data 4, ICRC 4.
const OVERHEAD: u32 = 64;

/// The path MTU: the largest payload of a packet, 256, 512, 1,024, 2,048 or 4,096 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct PathMtu(u16);

/// Error: the MTU of a link is too small for RoCEv2, or a path MTU does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadMtu {
    /// The link's IP MTU, in bytes, has no space for 256 bytes of payload.
    #[error("an IP MTU of {0} bytes is too small for RoCEv2, which needs at least 320")]
    LinkTooSmall(u32),
    /// The number of bytes is not one of the five path MTUs.
    #[error("invalid path MTU of {0} bytes: expected 256, 512, 1024, 2048 or 4096")]
    NoSuchSize(u32),
}

impl PathMtu {
    /// Payload of 256 bytes.
    pub const B256: PathMtu = PathMtu(256);
    /// Payload of 512 bytes.
    pub const B512: PathMtu = PathMtu(512);
    /// Payload of 1,024 bytes: the largest that fits on links with an MTU of 1,500 bytes.
    pub const B1024: PathMtu = PathMtu(1024);
    /// Payload of 2,048 bytes.
    pub const B2048: PathMtu = PathMtu(2048);
    /// Payload of 4,096 bytes: the largest path MTU.
    pub const B4096: PathMtu = PathMtu(4096);

    const ALL: [PathMtu; 5] = [
        PathMtu::B4096,
        PathMtu::B2048,
        PathMtu::B1024,
        PathMtu::B512,
        PathMtu::B256,
    ];

    /// Largest path MTU that fits into IP packets of `ip_mtu` bytes: 1,024 for 1,500, and 4,096 from 4,160 on.
    pub fn for_ip_mtu(ip_mtu: u32) -> Result<PathMtu, BadMtu> {
        PathMtu::ALL
            .into_iter()
            .find(|mtu| u32::from(mtu.0) + OVERHEAD <= ip_mtu)
            .ok_or(BadMtu::LinkTooSmall(ip_mtu))
    }

    /// Largest payload of a packet, in bytes.
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

/// The local ACK timeout as a verbs attribute: 4.096 microseconds times 2^exponent; 0 disables it (IBTA vol. 1, 9.7.6.1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AckTimeout(u8);

impl AckTimeout {
    /// Creates a timeout from the low five bits of `exponent`.
    pub const fn new(exponent: u8) -> AckTimeout {
        AckTimeout(exponent & 31)
    }

    /// Creates the shortest timeout of at least `ns` nanoseconds.
    pub fn at_least(ns: u64) -> AckTimeout {
        let exponent = (1..31).find(|exponent| 4096u64 << exponent >= ns);
        AckTimeout(exponent.unwrap_or(31))
    }

    /// The exponent, 0 to 31, as a verbs attribute.
    pub const fn exponent(self) -> u8 {
        self.0
    }

    /// The timeout in nanoseconds; `None` if disabled.
    pub const fn ns(self) -> Option<u64> {
        match self.0 {
            0 => None,
            exponent => Some(4096u64 << exponent),
        }
    }
}

/// Limit of consecutive retries. Progress resets their count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Retries {
    /// At most this number of retries; one more fails the queue pair.
    Limited(u8),
    /// No limit.
    Endless,
}

impl Retries {
    /// Converts a verbs attribute, where 7 means endless. (The specification defines that for `rnr_retry`; Linux rxe applies it to
    /// `retry_cnt`, too.)
    pub const fn from_attribute(value: u8) -> Retries {
        match value {
            7.. => Retries::Endless,
            limit => Retries::Limited(limit),
        }
    }

    /// The nearest verbs attribute. It has three bits and 7 means endless, so a limit of 7 or more becomes endless.
    pub const fn attribute(self) -> u8 {
        match self {
            Retries::Endless | Retries::Limited(7..) => 7,
            Retries::Limited(limit) => limit,
        }
    }
}

/// How a requester that is resending after a NAK (PSN sequence error) handles a further NAK.
///
/// With either rule, a second NAK of the same PSN is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NakRule {
    /// A NAK of a later PSN reports another gap: the requester goes back to that PSN at once.
    #[default]
    EachGap,
    /// A NAK of a later PSN only acknowledges the packets before it. The requester goes back again only after an ACK or
    /// the timeout, as Linux rxe does.
    OncePerAck,
}

/// Loss recovery. Both ends of a connection, and all ends of a group, must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// Go-back-N: the sender resends everything from the lost packet on, as RDMA NICs and Linux do
    ///
    /// The responder drops packets after a gap, as in the IBTA specification.
    #[default]
    GoBackN,
    /// Selective repeat, as in IRN (SIGCOMM 2018): the sender resends lost packets only; receivers keep the rest and report each loss
    /// by a NAK of its own, which switches forward once
    ///
    /// The responder keeps packets after a gap, up to [`RcConfig::window`], and reports missing ones by selective NAKs
    /// ([`crate::wire::aeth::Repr::selective_nak`]). The requester resends those and continues. After IRN: Mittal et al., "Revisiting
    /// Network Support for RDMA", SIGCOMM 2018.
    SelectiveRepeat,
}

/// Writes the name of the loss recovery in command-line options and files.
impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Format in which selective NAKs reach the requester: from a responder or from a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossReports {
    /// As sent by the responder: the PSN is that of the lost packet, the MSN field holds the number of reports
    /// ([`crate::wire::aeth::Repr::selective_nak`]). They acknowledge nothing.
    #[default]
    Direct,
    /// As sent by the switches of a group to its source: the PSN is one past the last acknowledged PSN, the MSN field holds the PSN of
    /// the lost packet ([`crate::wire::aeth::Repr::merged_selective_nak`]). A requester without support for this NAK code treats it as
    /// an acknowledgement of all packets before its PSN, which are acknowledged already.
    Merged,
}

/// Which message sequence numbers (MSNs) a requester accepts in acknowledgements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MsnRule {
    /// MSNs count from the beginning of the connection, also across changes of the source, as responders of this crate
    /// count.
    #[default]
    Counted,
    /// Any MSN is accepted: for groups with RDMA devices. Setting the PSN of a device needs a RESET, after which its
    /// MSN restarts at 0. So members' MSNs differ after a change of the source. Such MSNs count as inexact, and only
    /// PSNs acknowledge.
    Restarts,
}

/// Settings of a reliable connection's queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RcConfig {
    /// Largest payload of a packet; both ends must agree on it.
    pub mtu: PathMtu,
    /// Largest number of unacknowledged PSNs in flight, 1 to 2^22. A larger window covers a longer round trip. With
    /// go-back-N it also means more retransmissions after a loss; with selective repeat, more memory at the responder
    /// ([`RcConfig::with_recovery`]).
    pub window: u32,
    /// Number of packets, at least 1, after which AckReq is set; it is also set on the last packet of a message. In a
    /// group, a NAK waits in the switches until all members have acknowledged the packets before it. So infrequent ACKs
    /// delay loss recovery.
    pub ack_every: u32,
    /// Time without an acknowledgement after which the requester retransmits.
    pub ack_timeout: AckTimeout,
    /// Limit of consecutive timeouts without progress. One timeout more fails the queue pair.
    pub retries: Retries,
    /// Limit of consecutive RNR NAKs without progress. One RNR NAK more fails the queue pair.
    pub rnr_retries: Retries,
    /// Delay that this responder requests in RNR NAKs, when it has no receive buffer.
    pub rnr_timer: RnrTimer,
    /// Whether a newer ACK replaces a queued one. If not, every AckReq gets an ACK of its own, as in Linux rxe.
    pub ack_coalescing: bool,
    /// Priority among the queue pairs of a host: a smaller number sends first, equal numbers alternate.
    pub priority: u8,
    /// How to handle a further NAK while resending after a NAK.
    #[serde(default)]
    pub nak_rule: NakRule,
    /// Which MSNs to accept in acknowledgements.
    #[serde(default)]
    pub msn_rule: MsnRule,
    /// How lost packets are recovered; both ends must agree on it.
    #[serde(default)]
    pub recovery: Recovery,
    /// The format of selective NAKs that this requester receives: [`LossReports::Merged`] for the queue pair of a group.
    #[serde(default)]
    pub loss_reports: LossReports,
    /// Congestion control (DCQCN): request packets are ECN-capable, marked packets cause CNPs, and CNPs reduce the
    /// rate. `None`: the requester sends at the rate of the port. Both ends must agree on it.
    #[serde(default)]
    pub congestion: Option<DcqcnConfig>,
    /// Rate limit of request packets in bits per second on the wire, preamble and inter-frame gap included: the rate of
    /// the slowest link to any receiver. `None`: the rate of the port. RDMA NICs have such limits per queue pair, but
    /// verbs have no standard way to set them.
    #[serde(default)]
    pub pace_bps: Option<NonZeroU64>,
}

impl RcConfig {
    /// Default settings: window 128, ACK every 8 packets, timeout 4.2 ms, endless retries, no coalescing, no congestion control.
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

    /// The shorter timeout of selective repeat in nanoseconds, for few packets in flight, when no later packet may reveal a loss (IRN,
    /// section 3.1: RTO_low). `None` if timeouts are disabled.
    pub(super) fn low_timeout_ns(&self) -> Option<u64> {
        self.ack_timeout.ns().map(|ns| ns / 2)
    }

    /// Sets the loss recovery. Selective repeat gets four times the window, because the repair of a loss takes a round
    /// trip or more. In a group, one of many receivers almost always waits for a repair while the others can continue.
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

    /// Adapts the settings to acknowledgements that arrive `delay_ns` nanoseconds later than usual, on a link of `rate_bps` bits per
    /// second. The timeout grows by twice the delay, and the window by the packets sent meanwhile. With go-back-N, a loss then costs
    /// more retransmissions.
    #[must_use]
    pub fn with_ack_delay(self, delay_ns: u64, rate_bps: u64) -> RcConfig {
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
    fn window_and_timeout_grow_with_the_delay_of_acks() {
        let config = RcConfig {
            ack_timeout: AckTimeout::new(6),
            ..RcConfig::new(PathMtu::B4096)
        };
        assert_eq!(config.with_ack_delay(0, 100_000_000_000), config);
        let later = config.with_ack_delay(500_000, 100_000_000_000);
        // At 100 Gbit/s, 6.25 MB are sent in half a millisecond.
        assert_eq!(later.window, 128 + 1_526);
        assert_eq!(later.ack_timeout.exponent(), 9);
        let off = RcConfig {
            ack_timeout: AckTimeout::new(0),
            ..config
        };
        let later = off.with_ack_delay(u64::MAX, u64::MAX);
        assert_eq!((later.window, later.ack_timeout.ns()), (u32::MAX, None));
    }

    #[test]
    fn seven_retries_are_endless() {
        assert_eq!(Retries::from_attribute(7), Retries::Endless);
        assert_eq!(Retries::from_attribute(6), Retries::Limited(6));
    }
}
