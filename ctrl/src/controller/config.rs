//! How a controller is set up.

use std::net::Ipv4Addr;

use alfirk_p4runtime::p4::config::v1::P4Info;
use alfirk_p4runtime::Bytes;

use crate::ecn::EcnProfile;
use crate::punt_limits::PuntLimits;
use crate::strategy::Strategies;
use crate::tables::ProgramError;
use crate::topology::Topology;
use crate::tree::{Policy, UnfitPolicy};

/// Settings of a [`super::Controller`].
#[derive(Clone, Debug)]
pub struct ControllerConfig {
    /// Describes the compiled pipeline.
    pub p4info: P4Info,
    /// The target's own form of the pipeline: for BMv2 the bytes of its JSON. All switches are given the same.
    pub device_config: Bytes,
    /// How trees are grown.
    pub policy: Policy,
    /// Determines the first queue pair number that the controller lets stand for a group; any value will do, but another one with
    /// each start.
    pub virtual_qpn_seed: u32,
    /// Of two controllers the one with the higher id is primary (P4Runtime § 5); not 0.
    pub election_id: u128,
    /// Addresses that may stand for groups.
    pub group_range: GroupRange,
    /// Nanoseconds after which an unanswered call counts as failed.
    pub request_timeout_ns: u64,
    /// Nanoseconds after which an unanswered register access is sent again.
    pub register_retry_ns: u64,
    /// How often a register access is sent before the switch counts as silent.
    pub register_attempts: u32,
    /// Groups that one host may have registered in band before one more is refused; 0 is no limit.
    pub groups_per_host: usize,
    /// Registration packets of one host that are served in a second, and at once; 0 is no limit.  A leader sends one for 61 to
    /// 183 members, again after each [`alfirk_roce::registration::LeaderTiming::interval`].
    pub mrp_rate: u32,
    /// Packets in a second that a port may have a switch hand up of groups by whose strategy the controller finds minima or
    /// ICRCs, per kind; 0 lets as many through as its link carries of full packets.
    pub punt_rate: u32,
    /// Whether hosts that are named through the control service are asked in band, as those are that a leader names.
    pub ask_members: bool,
    /// Nanoseconds that a host has to agree to be in a group; less than leaders wait in all, so that they learn who has not.
    pub agree_timeout_ns: u64,
    /// Nanoseconds in which one registration packet that comes again and again has its effect once: invitations, and packets for
    /// switches and members further on.  Less than [`alfirk_roce::registration::LeaderTiming::interval`].
    pub mrp_repeat_ns: u64,
    /// Nanoseconds after which a registration in band that makes no progress is forgotten.
    pub mrp_timeout_ns: u64,
    /// Nanoseconds between two readings of how far groups on a single switch are, see `checkpoint.rs`; 0 reads nothing.  A group must not
    /// send 2^22 packets in that time.
    pub checkpoint_interval_ns: u64,
    /// Nanoseconds that members have to answer when a switch has lost what it held of their group, before they are asked again; some
    /// round trips, and well below their queue pairs' timeouts.
    pub recovery_interval_ns: u64,
    /// Nanoseconds between two readings of a group that makes no progress.
    pub probe_interval_ns: u64,
    /// Nanoseconds after which a member of such a group that still lags behind counts as dead, and so does a link; less
    /// finds them faster, but takes slow ones for dead.  It is raised for groups whose paths take longer with full queues.
    pub dead_member_ns: u64,
    /// Nanoseconds in which a link between switches must carry one of some frames that the controller has sent over it; else it counts
    /// as dead.  Twice what its queue takes to empty, if that is longer.
    pub link_test_ns: u64,
    /// Nanoseconds after which a switch that is not connected counts as dead, so that traffic is led around it.
    pub dead_switch_ns: u64,
    /// Nanoseconds after which a group is removed that shows no sign of life, see `lease.rs`; 0 keeps groups for ever.  Less
    /// frees what the dead have left behind sooner, but asks leaders more often, and takes the silent ones for dead.
    pub lease_ns: u64,
    /// When packets are marked as having met congestion; never by default.
    pub ecn: Option<EcnProfile>,
    /// How feedback and ICRCs of groups that are registered in band are handled.
    pub strategies: Strategies,
    /// Updates per Write; more make fewer calls, each of which takes longer.
    pub batch_limit: usize,
}

impl ControllerConfig {
    /// Settings for everything but the pipeline.
    pub fn new(p4info: P4Info, device_config: impl Into<Bytes>) -> ControllerConfig {
        ControllerConfig {
            p4info,
            device_config: device_config.into(),
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
    /// How fast ports may have switches hand packets up.
    pub(super) fn punt_limits(&self) -> PuntLimits {
        PuntLimits {
            registrations: self.mrp_rate,
            group_packets: self.punt_rate,
        }
    }

    /// Whether the settings fit together and fit the topology.
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

/// A prefix of unicast addresses that may stand for groups, its first and last address excepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupRange {
    network: Ipv4Addr,
    prefix_len: u8,
}

impl Default for GroupRange {
    /// 10.255.0.0/16.
    fn default() -> GroupRange {
        GroupRange {
            network: Ipv4Addr::new(10, 255, 0, 0),
            prefix_len: 16,
        }
    }
}

impl GroupRange {
    /// A range of 8 to 30 prefix bits; host bits of `network` are cleared.
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

    /// The first address, never a group.
    pub fn network(&self) -> Ipv4Addr {
        self.network
    }

    /// Fixed bits.
    pub fn prefix_len(&self) -> u8 {
        self.prefix_len
    }

    /// The first address that may stand for a group.
    pub fn first(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.bounds().0)
    }

    /// Whether the address lies in the prefix.
    pub fn covers(&self, ip: Ipv4Addr) -> bool {
        u32::from(ip) & mask(self.prefix_len) == u32::from(self.network)
    }

    /// Whether the address may stand for a group.
    pub fn may_be_group(&self, ip: Ipv4Addr) -> bool {
        let host = u32::from(ip) & !mask(self.prefix_len);
        self.covers(ip) && host != 0 && host != !mask(self.prefix_len)
    }

    /// The first and the last address that may stand for a group.
    pub(super) fn bounds(&self) -> (u32, u32) {
        let first = u32::from(self.network);
        (first + 1, first | (!mask(self.prefix_len) - 1))
    }
}

/// The mask of a prefix of 1 to 32 bits.
pub(super) fn mask(prefix_len: u8) -> u32 {
    u32::MAX << (32 - u32::from(prefix_len))
}

/// Why a controller cannot work with its settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The pipeline is another one.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Trees that the network cannot have.
    #[error(transparent)]
    Policy(#[from] UnfitPolicy),
    /// No election id.
    #[error("election id 0 never becomes primary; use 1 or more")]
    ElectionId,
    /// No addresses for groups.
    #[error("{network}/{prefix_len} cannot be the range of group addresses; use unicast addresses and 8 to 30 bits")]
    GroupRange {
        /// The range.
        network: Ipv4Addr,
        /// Its prefix length.
        prefix_len: u8,
    },
    /// A host inside the range.
    #[error("host {host} has the address {ip}, which lies in the range of group addresses {network}/{prefix_len}; move one of them")]
    HostInGroupRange {
        /// The host.
        host: String,
        /// Its address.
        ip: Ipv4Addr,
        /// The range.
        network: Ipv4Addr,
        /// Its prefix length.
        prefix_len: u8,
    },
    /// A host that would send packets for groups to a gateway.
    #[error("host {host}: its prefix {ip}/{host_prefix_len} does not hold the group addresses {network}/{prefix_len}; widen it, so that the host asks for them by ARP")]
    GroupsOffLink {
        /// The host.
        host: String,
        /// Its address.
        ip: Ipv4Addr,
        /// Its prefix length.
        host_prefix_len: u8,
        /// The range.
        network: Ipv4Addr,
        /// Its prefix length.
        prefix_len: u8,
    },
    /// More routes than the pipeline has room for.
    #[error("switch {switch} needs {needed} entries in {table}, which has room for {room}; compile p4src/ with larger sizes")]
    TableTooSmall {
        /// The switch.
        switch: String,
        /// The table.
        table: &'static str,
        /// Entries needed.
        needed: usize,
        /// Entries possible.
        room: u32,
    },
}
