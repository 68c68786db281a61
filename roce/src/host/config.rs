//! Settings of a host.

use std::net::Ipv4Addr;

use crate::rc::{AckTimeout, BadMtu, PathMtu, RcConfig};
use crate::wire::MacAddr;

/// Timers of a host that depend on the speed of its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostTiming {
    /// Nanoseconds between two ARP requests for one address.
    pub arp_interval: u64,
    /// Number of ARP requests after which the address counts as unreachable.
    pub arp_attempts: u32,
    /// The local ACK timeout of queue pairs.
    pub ack_timeout: AckTimeout,
}

impl HostTiming {
    /// Timers for links of 10 Gbit/s and more, in virtual time or between hardware: 1 ms ARP interval, ACK timeout
    /// 262 us. That timeout is about ten round trips of a fat-tree.
    pub const FAST: HostTiming = HostTiming {
        arp_interval: 1_000_000,
        arp_attempts: 100,
        ack_timeout: AckTimeout::new(6),
    };

    /// Timers for software switches that share a few processors: 200 ms ARP interval (one second in all, as in Linux),
    /// ACK timeout 134 ms.
    pub const SOFTWARE: HostTiming = HostTiming {
        arp_interval: 200_000_000,
        arp_attempts: 5,
        ack_timeout: AckTimeout::new(15),
    };
}

/// Settings of a host with one network port.
#[derive(Debug, Clone)]
pub struct HostConfig {
    /// Name of the host, for messages to the user.
    pub name: String,
    /// MAC address of the port.
    pub mac: MacAddr,
    /// IPv4 address of the host.
    pub ip: Ipv4Addr,
    /// Prefix length of the link's subnet, 0 to 32.
    pub prefix_len: u8,
    /// Gateway for addresses outside the subnet; `None` makes those unreachable.
    pub gateway: Option<Ipv4Addr>,
    /// Largest IP packet of the link, in bytes (the link's MTU).
    pub mtu: u32,
    /// The differentiated services code point (DSCP) of RoCE packets, 0 to 63 (RFC 2474).
    pub dscp: u8,
    /// Seed of queue pair numbers, memory keys and initial PSNs. It makes them differ between hosts and runs.
    pub seed: u64,
    /// Timers that depend on the speed of the network.
    pub timing: HostTiming,
}

impl HostConfig {
    /// Creates settings without a gateway, with DSCP 0 and [`HostTiming::FAST`].
    pub fn new(
        name: impl Into<String>,
        mac: MacAddr,
        ip: Ipv4Addr,
        prefix_len: u8,
        mtu: u32,
        seed: u64,
    ) -> HostConfig {
        HostConfig {
            name: name.into(),
            mac,
            ip,
            prefix_len,
            gateway: None,
            mtu,
            dscp: 0,
            seed,
            timing: HostTiming::FAST,
        }
    }

    /// Default settings of queue pairs on this link: the largest path MTU that fits, and the host's ACK timeout.
    pub fn rc(&self) -> Result<RcConfig, BadMtu> {
        Ok(RcConfig {
            ack_timeout: self.timing.ack_timeout,
            ..RcConfig::new(PathMtu::for_ip_mtu(self.mtu)?)
        })
    }

    /// Whether `ip` is in the subnet of the link.
    pub(super) fn is_on_link(&self, ip: Ipv4Addr) -> bool {
        let shift = 32 - u32::from(self.prefix_len.min(32));
        let differs = u32::from(ip) ^ u32::from(self.ip);
        differs.checked_shr(shift).unwrap_or(0) == 0
    }
}
