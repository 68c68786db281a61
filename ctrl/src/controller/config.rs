//! Configuration of a controller.

use std::net::Ipv4Addr;

use alfirk_p4runtime::p4::config::v1::P4Info;
use alfirk_p4runtime::Bytes;

use crate::ecn::EcnProfile;
use crate::punt_limits::PuntLimits;
use crate::strategy::Strategies;
use crate::tables::{ProgramError, UnsupportedStrategy};
use crate::topology::Topology;
use crate::tree::{Policy, UnfitPolicy};

/// Configuration of a [`super::Controller`].
#[derive(Clone, Debug)]
pub struct ControllerConfig {
    /// P4Info of the compiled pipeline.
    pub p4info: P4Info,
    /// Target-specific configuration of the pipeline (P4Runtime `p4_device_config`): for BMv2 the bytes of its JSON. The same
    /// for all switches.
    pub device_config: Bytes,
    /// BfRuntime schema of the pipeline (`bf-rt.json`), if entries are written and read by BfRuntime ([`crate::bfrt`]);
    /// `None` for P4Runtime.
    pub bf_rt_schema: Option<Bytes>,
    /// Policy that selects the ports of groups' trees.
    pub policy: Policy,
    /// Seed from which the first virtual queue pair number is computed; any value that differs at each start of a
    /// controller.
    pub virtual_qpn_seed: u32,
    /// P4Runtime election id (section 5), not 0: of two controllers, the one with the higher id is primary.
    pub election_id: u128,
    /// Addresses reserved for groups.
    pub group_range: GroupRange,
    /// Timeout of a call to a switch, in nanoseconds.
    pub request_timeout_ns: u64,
    /// Retransmission timeout of a register access, in nanoseconds.
    pub register_retry_ns: u64,
    /// Number of times that a register access is sent before the switch is taken as unreachable.
    pub register_attempts: u32,
    /// Limit of groups that one host registers in band, by packets on the network; 0 for no limit.
    pub groups_per_host: usize,
    /// Limit of registration packets of one host, per second and in a burst; 0 for no limit. A leader sends one packet for 61
    /// to 183 members, and repeats it at each [`alfirk_roce::registration::LeaderTiming::interval`].
    pub mrp_rate: u32,
    /// Limit of packets per second, port and kind that a switch passes to the controller (punts). Packets are punted for
    /// groups whose ACKs the controller aggregates or whose ICRCs it computes. 0 for the rate of full-size packets on the
    /// link.
    pub punt_rate: u32,
    /// Whether hosts that the control service names as members are invited in band and must agree, like those that a
    /// leader names.
    pub ask_members: bool,
    /// Timeout of a host's agreement to join a group, in nanoseconds; less than the total timeout of leaders, so that they are
    /// notified which hosts have not agreed.
    pub agree_timeout_ns: u64,
    /// Interval in nanoseconds during which a repeated registration packet is processed only once. Processing sends invitations
    /// and packets to further switches and members. Less than [`alfirk_roce::registration::LeaderTiming::interval`].
    pub mrp_repeat_ns: u64,
    /// Timeout of a registration in band without progress, in nanoseconds.
    pub mrp_timeout_ns: u64,
    /// Interval between readings of the positions of groups on a single switch (`checkpoint.rs`), in nanoseconds; 0 to
    /// disable. A group must send fewer than 2^22 packets in it.
    pub checkpoint_interval_ns: u64,
    /// Interval between queries of members after a switch has lost its registers, in nanoseconds; several round trips, and well
    /// below the timeouts of their queue pairs.
    pub recovery_interval_ns: u64,
    /// Interval between readings of the registers of a group that makes no progress, in nanoseconds.
    pub probe_interval_ns: u64,
    /// Time in nanoseconds after which a member or link that blocks the progress of a group is taken as failed. A shorter time
    /// detects failures earlier, but may exclude slow members. It is raised for groups whose paths have long full queues.
    pub dead_member_ns: u64,
    /// Timeout of the test of a link between switches, in nanoseconds: a link that carries none of the controller's test frames
    /// is taken as failed. Raised to twice the time that the link's queue takes to drain.
    pub link_test_ns: u64,
    /// Time in nanoseconds after which a disconnected switch is taken as failed, and traffic is rerouted.
    pub dead_switch_ns: u64,
    /// Lease of a group in nanoseconds (`lease.rs`): a group without activity is removed after it; 0 for no limit. A shorter
    /// lease frees the groups of failed leaders earlier, but requires leaders to renew it more often.
    pub lease_ns: u64,
    /// ECN marking profile; `None` for no marking.
    pub ecn: Option<EcnProfile>,
    /// How switches aggregate ACKs and NAKs and keep ICRCs valid, for groups that are registered in band.
    pub strategies: Strategies,
    /// Maximum number of updates per Write. More updates need fewer calls, but each takes longer.
    pub batch_limit: usize,
}

impl ControllerConfig {
    /// Creates a configuration with defaults for all parameters but the pipeline.
    pub fn new(p4info: P4Info, device_config: impl Into<Bytes>) -> ControllerConfig {
        ControllerConfig {
            p4info,
            device_config: device_config.into(),
            bf_rt_schema: None,
            policy: Policy::default(),
            virtual_qpn_seed: 0,
            election_id: 1,
            group_range: GroupRange::default(),
            request_timeout_ns: 10_000_000_000,
            register_retry_ns: 200_000_000,
            register_attempts: 10,
            groups_per_host: 128,
            mrp_rate: 2_000,
            punt_rate: 0,
            ask_members: false,
            agree_timeout_ns: 2_000_000_000,
            mrp_repeat_ns: 50_000_000,
            mrp_timeout_ns: 10_000_000_000,
            checkpoint_interval_ns: 0,
            recovery_interval_ns: 5_000_000,
            probe_interval_ns: 100_000_000,
            dead_member_ns: 3_000_000_000,
            link_test_ns: 100_000_000,
            dead_switch_ns: 5_000_000_000,
            lease_ns: 86_400_000_000_000,
            ecn: None,
            strategies: Strategies::default(),
            batch_limit: 1_000,
        }
    }
}

impl ControllerConfig {
    /// Rate limits of packets from switches to the controller.
    pub(super) fn punt_limits(&self) -> PuntLimits {
        PuntLimits {
            registrations: self.mrp_rate,
            group_packets: self.punt_rate,
        }
    }

    /// Checks the election id and that the group range suits the hosts of the topology.
    pub(super) fn check(&self, topology: &Topology) -> Result<(), ConfigError> {
        if self.election_id == 0 {
            return Err(ConfigError::ElectionId);
        }
        let range = self.group_range;
        for host in topology.hosts() {
            if range.covers(host.ip) {
                return Err(ConfigError::HostInGroupRange {
                    host: host.name.clone(),
                    ip: host.ip,
                    network: range.network,
                    prefix_len: range.prefix_len,
                });
            }
            let same = (u32::from(host.ip) ^ u32::from(range.network)) & mask(host.prefix_len) == 0;
            if !same || host.prefix_len > range.prefix_len {
                return Err(ConfigError::GroupsOffLink {
                    host: host.name.clone(),
                    ip: host.ip,
                    host_prefix_len: host.prefix_len,
                    network: range.network,
                    prefix_len: range.prefix_len,
                });
            }
        }
        Ok(())
    }
}

/// A prefix of unicast addresses reserved for groups, except its first and last address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupRange {
    network: Ipv4Addr,
    prefix_len: u8,
}

impl Default for GroupRange {
    /// The range 10.255.0.0/16.
    fn default() -> GroupRange {
        GroupRange {
            network: Ipv4Addr::new(10, 255, 0, 0),
            prefix_len: 16,
        }
    }
}

impl GroupRange {
    /// Creates a range with a prefix of 8 to 30 bits; host bits of `network` are cleared.
    pub fn new(network: Ipv4Addr, prefix_len: u8) -> Result<GroupRange, ConfigError> {
        let good =
            (8..=30).contains(&prefix_len) && !matches!(network.octets()[0], 0 | 127 | 224..);
        match good {
            true => Ok(GroupRange {
                network: Ipv4Addr::from(u32::from(network) & mask(prefix_len)),
                prefix_len,
            }),
            false => Err(ConfigError::GroupRange {
                network,
                prefix_len,
            }),
        }
    }

    /// Network address of the range, never a group.
    pub fn network(&self) -> Ipv4Addr {
        self.network
    }

    /// Prefix length in bits.
    pub fn prefix_len(&self) -> u8 {
        self.prefix_len
    }

    /// First address usable for a group.
    pub fn first(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.bounds().0)
    }

    /// Whether the prefix covers the address.
    pub fn covers(&self, ip: Ipv4Addr) -> bool {
        u32::from(ip) & mask(self.prefix_len) == u32::from(self.network)
    }

    /// Whether the address is usable for a group.
    pub fn may_be_group(&self, ip: Ipv4Addr) -> bool {
        let host = u32::from(ip) & !mask(self.prefix_len);
        self.covers(ip) && host != 0 && host != !mask(self.prefix_len)
    }

    /// First and last address usable for groups.
    pub(super) fn bounds(&self) -> (u32, u32) {
        let first = u32::from(self.network);
        (first + 1, first | (!mask(self.prefix_len) - 1))
    }
}

/// Netmask of a prefix of 1 to 32 bits.
pub(super) fn mask(prefix_len: u8) -> u32 {
    u32::MAX << (32 - u32::from(prefix_len))
}

/// Error in the configuration of a controller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The pipeline is not supported.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The pipeline does not support the strategies of groups.
    #[error(transparent)]
    Strategy(#[from] UnsupportedStrategy),
    /// The pipeline does not set ECN marks.
    #[error("the P4 program of the switches sets no ECN marks; compile p4src/v1model without ALFIRK_PROFILE=PROFILE_CORE, or leave out ECN")]
    NoEcnMarks,
    /// The tree policy does not fit the topology.
    #[error(transparent)]
    Policy(#[from] UnfitPolicy),
    /// The election id is 0.
    #[error("election id 0 never becomes primary; use 1 or more")]
    ElectionId,
    /// The group range has no usable address.
    #[error("{network}/{prefix_len} cannot be the range of group addresses; use unicast addresses and 8 to 30 bits")]
    GroupRange {
        /// Network address of the group range.
        network: Ipv4Addr,
        /// Prefix length of the group range.
        prefix_len: u8,
    },
    /// The address of a host is inside the group range.
    #[error("host {host} has the address {ip}, which lies in the range of group addresses {network}/{prefix_len}; move one of them")]
    HostInGroupRange {
        /// Name of the host.
        host: String,
        /// Address of the host.
        ip: Ipv4Addr,
        /// Network address of the group range.
        network: Ipv4Addr,
        /// Prefix length of the group range.
        prefix_len: u8,
    },
    /// A host whose network does not cover the group range, so that it would send packets for groups to a gateway.
    #[error("host {host}: its prefix {ip}/{host_prefix_len} does not cover the group addresses {network}/{prefix_len}; widen it, so that the host resolves them by ARP")]
    GroupsOffLink {
        /// Name of the host.
        host: String,
        /// IPv4 address of the host.
        ip: Ipv4Addr,
        /// Prefix length of the host's network.
        host_prefix_len: u8,
        /// Network address of the group range.
        network: Ipv4Addr,
        /// Prefix length of the group range.
        prefix_len: u8,
    },
    /// A table of the pipeline is too small.
    #[error("switch {switch}: table {table} needs {needed} entries, but its size is {capacity}; compile p4src/ with larger sizes")]
    TableTooSmall {
        /// Name of the switch.
        switch: String,
        /// Name of the table in the P4 program.
        table: &'static str,
        /// Number of entries needed.
        needed: usize,
        /// Size of the table.
        capacity: u32,
    },
}
