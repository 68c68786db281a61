//! Status report of the controller.

use std::net::Ipv4Addr;

/// State of all switches, in the order of the topology, and of all groups, in the order of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusReport {
    /// Every switch of the topology.
    pub switches: Vec<SwitchStatus>,
    /// Every group of the controller.
    pub groups: Vec<GroupStatus>,
    /// Names of failed switches and links, which routes and trees avoid.
    pub avoided: Vec<String>,
    /// Counters of registration packets.
    pub registrations: MrpStats,
    /// Counters of frames that switches pass to the controller.
    pub punts: PuntStats,
}

impl StatusReport {
    /// Longest round-trip time of all switches, in nanoseconds; 0 before the first measurement.
    pub fn round_trip_ns(&self) -> u64 {
        let trips = self.switches.iter().filter_map(|s| s.round_trip_ns);
        trips.max().unwrap_or(0)
    }
}

/// Status of one switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchStatus {
    /// Name of the switch.
    pub name: String,
    /// State of the switch.
    pub state: SwitchState,
    /// Number of groups on the switch.
    pub groups: usize,
    /// Round-trip time in nanoseconds; `None` before the first measurement.
    pub round_trip_ns: Option<u64>,
}

/// State of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwitchState {
    /// Not connected, or failed.
    Down {
        /// Cause of the failure or disconnection.
        why: String,
    },
    /// The session or the boot procedure is in progress.
    Starting,
    /// The switch has its pipeline, routes and groups.
    Ready,
}

/// Status of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStatus {
    /// Address of the group.
    pub mcst_id: Ipv4Addr,
    /// State of the group.
    pub state: GroupState,
    /// Addresses of the members.
    pub members: Vec<Ipv4Addr>,
    /// Switches of the group's tree, with the group's index and ports on each.
    pub switches: Vec<GroupOnSwitch>,
}

/// State of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// Being created.
    Registering,
    /// In use.
    Ready,
    /// In use, but a switch of its tree is not ready.
    Degraded,
    /// Being removed.
    Removing,
}

/// A group on one switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupOnSwitch {
    /// Name of the switch.
    pub switch: String,
    /// Group index on this switch.
    pub group_index: u16,
    /// Ports of this switch in the group's tree, in the order of path numbers.
    pub ports: Vec<u32>,
}

/// Counters of registration packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MrpStats {
    /// Number of accepted registration packets.
    pub accepted: u64,
    /// Number of repetitions of accepted packets.
    pub repeated: u64,
    /// Number of packets that are malformed, from the wrong port, or unexpected; they are dropped.
    pub wrong: u64,
    /// Number of packets answered with a refusal.
    pub refused: u64,
    /// Number of packets dropped because of the host's rate limit.
    pub limited: u64,
}

/// Counters of frames that switches pass to the controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PuntStats {
    /// Number of ACKs and NAKs that switches passed to the controller to be aggregated.
    pub feedback: u64,
    /// Number of ACKs and NAKs that the controller sent to sources as the result of aggregation.
    pub forwarded: u64,
    /// Number of retransmissions that switches passed to the controller, to be acknowledged if all receivers have the data.
    pub probes: u64,
    /// Number of retransmissions passed to the controller that it has acknowledged, because all receivers have the data.
    pub probe_replies: u64,
    /// Number of packets whose ICRC the controller has recomputed.
    pub icrcs: u64,
    /// Number of packets that were dropped because their ICRC was invalid before a switch rewrote them.
    pub wrong_icrcs: u64,
    /// Number of fatal NAKs of members.
    pub fatal_naks: u64,
    /// Number of frames that were dropped because their group or kind is unknown.
    pub strays: u64,
}
