//! How things are, for people and tools.

use std::net::Ipv4Addr;

/// Switches and groups, in the order of the topology and of the addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusReport {
    /// Every switch of the topology.
    pub switches: Vec<SwitchStatus>,
    /// Every group.
    pub groups: Vec<GroupStatus>,
    /// Switches and links that count as dead, and that nothing is led over.
    pub avoided: Vec<String>,
    /// What has come of registration packets so far.
    pub registrations: MrpStats,
    /// What has come of frames that switches leave to the controller.
    pub punts: PuntStats,
}

impl StatusReport {
    /// How long a packet to the switch that is the farthest and its answer take, in nanoseconds; 0 before the first one.
    pub fn round_trip_ns(&self) -> u64 {
        let trips = self.switches.iter().filter_map(|s| s.round_trip_ns);
        trips.max().unwrap_or(0)
    }
}

/// One switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchStatus {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub state: SwitchState,
    /// Groups that it holds.
    pub groups: usize,
    /// How long a packet to it and its answer take, in nanoseconds; `None` before the first one.
    pub round_trip_ns: Option<u64>,
}

/// Where a switch stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwitchState {
    /// Not connected, or failed.
    Down {
        /// What is wrong.
        why: String,
    },
    /// Being set up.
    Starting,
    /// In use.
    Ready,
}

/// One group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStatus {
    /// Its address.
    pub mcst_id: Ipv4Addr,
    /// Where it stands.
    pub state: GroupState,
    /// Its members.
    pub members: Vec<Ipv4Addr>,
    /// The switches of its tree, with the group's index and ports on each.
    pub switches: Vec<GroupOnSwitch>,
}

/// Where a group stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// Being written.
    Registering,
    /// In use.
    Ready,
    /// In use, but a switch of its tree is not connected or is being set up.
    Degraded,
    /// Being removed.
    Removing,
}

/// A group on one switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupOnSwitch {
    /// The switch.
    pub switch: String,
    /// The group's index there.
    pub group_index: u16,
    /// Its ports there, in path order.
    pub ports: Vec<u32>,
}

/// Registration packets that switches handed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MrpStats {
    /// Taken in.
    pub accepted: u64,
    /// Came before.
    pub repeated: u64,
    /// Damaged, from the wrong place, or meaningless: ignored.
    pub wrong: u64,
    /// Answered with a refusal.
    pub refused: u64,
    /// Of hosts that send faster than they may: dropped.
    pub limited: u64,
}

/// What switches have left to the controller so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PuntStats {
    /// ACKs and NAKs for which the controller computed the minimum.
    pub feedback: u64,
    /// ACKs and NAKs that the controller sent to the source because of them.
    pub forwarded: u64,
    /// Retransmissions of data that switches passed up, to be acknowledged if all receivers have it.
    pub probes: u64,
    /// Of these, how many were acknowledged.
    pub probe_replies: u64,
    /// Packets whose ICRC was made right.
    pub icrcs: u64,
    /// Packets whose ICRC had been wrong before a switch changed them; dropped.
    pub wrong_icrcs: u64,
    /// NAKs by which members ended their queue pairs.
    pub fatal_naks: u64,
    /// Frames that belong to no group, or are none of these; dropped.
    pub strays: u64,
}
