//! Rate limits of packets from switches to the controller.
//!
//! Switches meter these packets by kind and port, so that no host can overload the controller. The limit of a port to
//! another switch is the sum of those of the hosts behind it. Such ports are metered as well, because a faulty
//! switch may send anything.

use crate::constants::{
    PACKET_IN_FATAL_NAK, PACKET_IN_FEEDBACK, PACKET_IN_ICRC, PACKET_IN_MRP, PACKET_IN_PROBE,
};
use crate::tables::{PuntKey, PuntRate};

/// Maximum rate of fatal NAKs per host, in packets per second.
const FATAL_NAKS: u64 = 100;
/// Approximate size in bytes of a full packet with headers at the smallest path MTU, 256 bytes.
const SMALL_PACKET: u64 = 320;
/// Factor by which a switch's limit exceeds the controller's own limit of registration packets. So the controller sees an
/// excess, and can reply with a refusal.
const MARGIN: u64 = 2;

/// Configured rate limits of packets from switches to the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PuntLimits {
    /// Registration packets per host and second; 0 for no limit.
    pub registrations: u32,
    /// Packets per port, kind and second of groups whose minimum PSNs or ICRCs the controller computes. 0: the rate of
    /// full packets on the port's link.
    pub group_packets: u32,
}

impl PuntLimits {
    /// Meter rates of a port by kind of packet. `rate_bps`: rate of its link in bit/s; `hosts`: number of hosts behind it.
    pub(crate) fn of_port(
        &self,
        port: u32,
        rate_bps: u64,
        hosts: u64,
    ) -> impl Iterator<Item = (PuntKey, PuntRate)> {
        let of_link = rate_bps / (8 * SMALL_PACKET);
        let group_packets = match self.group_packets {
            0 => of_link,
            limit => of_link.min(limit.into()),
        };
        let registrations = u64::from(self.registrations) * MARGIN * hosts;
        let rates = [
            (PACKET_IN_MRP, registrations),
            (PACKET_IN_FATAL_NAK, FATAL_NAKS * hosts),
            (PACKET_IN_FEEDBACK, group_packets.max(1)),
            (PACKET_IN_PROBE, group_packets.max(1)),
            (PACKET_IN_ICRC, group_packets.max(1)),
        ];
        rates
            .into_iter()
            .filter(|(_, rate)| *rate > 0)
            .map(move |(reason, rate)| {
                // The burst is one second of packets; queues hold no more.
                (PuntKey { reason, port }, PuntRate { rate, burst: rate })
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(limits: PuntLimits, rate_bps: u64, hosts: u64) -> Vec<(u8, u64)> {
        let all = limits.of_port(1, rate_bps, hosts);
        all.map(|(key, rate)| (key.reason, rate.rate)).collect()
    }

    #[test]
    fn a_port_has_the_rates_of_all_hosts_behind_it() {
        let limits = PuntLimits {
            registrations: 10,
            group_packets: 1_000,
        };
        assert_eq!(
            rates(limits, 100_000_000_000, 1),
            [
                (PACKET_IN_MRP, 20),
                (PACKET_IN_FATAL_NAK, 100),
                (PACKET_IN_FEEDBACK, 1_000),
                (PACKET_IN_PROBE, 1_000),
                (PACKET_IN_ICRC, 1_000),
            ]
        );
        let behind = rates(limits, 100_000_000_000, 16);
        assert_eq!(
            behind[..2],
            [(PACKET_IN_MRP, 320), (PACKET_IN_FATAL_NAK, 1_600)]
        );
    }

    #[test]
    fn without_a_limit_the_link_rate_applies() {
        let limits = PuntLimits {
            registrations: 0,
            group_packets: 0,
        };
        // 100 Mbit/s in packets of 320 bytes.
        let slow = rates(limits, 100_000_000, 1);
        assert_eq!(slow[1], (PACKET_IN_FEEDBACK, 39_062));
        // A limit of 0 sets no meter.
        assert!(slow.iter().all(|(reason, _)| *reason != PACKET_IN_MRP));
        assert_eq!(rates(limits, 1, 1)[1], (PACKET_IN_FEEDBACK, 1));
    }
}
