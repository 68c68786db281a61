//! Parameters of a group.

use std::net::Ipv4Addr;
use std::time::Duration;

use alfirk_roce::application::group::GroupSettings;

use super::Transport;

/// Parameters of a group, which must be the same for all members, except for the device.
#[derive(Debug, Clone)]
pub struct GroupConfig {
    /// Name of the RDMA device, as listed by `ibv_devices`.
    pub device: String,
    /// IPv4 address of the group: in the fabric's range for groups, and used by no other group.
    pub address: Ipv4Addr,
    /// IPv4 address of the leader, which registers the group and has rank 0.
    pub leader: Ipv4Addr,
    /// TCP port of the leader.
    pub port: u16,
    /// Number of members, the leader included; at least 2.
    pub members: u32,
    /// Length of each member's buffer in bytes.
    pub buffer: u64,
    /// Time limit of each call.
    pub timeout: Duration,
    /// Transport to use if the fabric does not multicast: [`Transport::Chain`] or [`Transport::Unicast`]. With
    /// [`Transport::Multicast`] there is no fallback, and joining fails.
    pub fallback: Transport,
}

impl GroupConfig {
    /// The parameters of the state machine.
    pub(super) fn settings(&self) -> GroupSettings {
        GroupSettings {
            address: self.address,
            leader: self.leader,
            members: self.members,
            fallback: self.fallback,
        }
    }
}
